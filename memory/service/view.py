"""Questions to a graph: what every memory answers, open or empty."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from memory.engine.client_vectors import check_allowed
from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, Vector
from memory.engine.errors import StoreUnavailable
from memory.engine.filters import list_concepts
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.ports import Clock
from memory.engine.requests import (
    ConceptsRequest,
    GuardRequest,
    InspectRequest,
    Layer,
    RecallRequest,
)
from memory.engine.times import Micros
from memory.engine.types import NodeId
from memory.engine.warming import needs_warming, warm
from memory.service.cycles import SessionCycles, Tokens
from memory.service.meanings import find_query, look_up_query
from memory.service.replies import Answer, ReceiptState, Reply, receipt_reply
from memory.service.scans import Scans
from memory.service.stats import SessionStats, count_graph
from memory.service.text_embedder import TextEmbedder

log = logging.getLogger("lambo.recall")


class RecallAnswer(Answer, Protocol):
    """The answer to a question, and what the log says of it: numbers, none of its words."""

    @property
    def ledger(self) -> dict[str, Any]: ...

    @property
    def details(self) -> dict[str, Any]:
        """For who looks over an agent's shoulder: `tokens`, and `legs` of each hit in order."""


Ranking: TypeAlias = object
"""One session's part of an answer from several; only `Readers` looks into it."""


@dataclass(frozen=True, slots=True)
class Readers:
    """How questions are answered; wired once, so that the service knows neither recall nor canon.

    `rank` and `merge` answer from several sessions: each is ranked alone, as what it is to the
    question (a layer, or None for the session asked), and any thread may merge the results, given
    the question's vector and its contract.

    Each other takes the graph, the request and the instant of asking; recall also what was looked
    up of the query's meaning, and the session's background cycles, or None; inspect those cycles,
    and the ages of tokens, or None where they are not known; guard the agent that asks.
    """

    recall: Callable[
        [Graph, RecallRequest, Micros, Meanings | None, SessionCycles | None], RecallAnswer
    ]
    inspect: Callable[[Graph, InspectRequest, Micros, SessionCycles | None, Tokens | None], Answer]
    saints: Callable[[Graph], Answer]
    guard: Callable[[Graph, GuardRequest, str, Micros], Answer]
    rank: Callable[
        [Graph, RecallRequest, Micros, Meanings | None, SessionCycles | None, Layer | None], Ranking
    ]
    merge: Callable[
        [Sequence[Ranking], RecallRequest, Vector | None, EmbeddingContract | None], RecallAnswer
    ]


class MemoryView:
    """Questions to a graph. They write nothing and create nothing."""

    def __init__(
        self,
        graph: Graph,
        *,
        readers: Readers,
        clock: Clock,
        accepts_vectors: bool = False,
        embedder: TextEmbedder | None = None,
        is_known: bool = True,
    ) -> None:
        """`is_known` is False for a session that nobody has made yet."""
        self.graph = graph
        self.is_known = is_known
        self.cycles: SessionCycles | None = None
        self._accepts_vectors = accepts_vectors
        self._embedder = embedder
        self._scans = Scans()
        self._indexing: asyncio.Task[None] | None = None
        self._readers = readers
        self._clock = clock

    @property
    def now(self) -> Micros:
        """The instant at which a question would be asked."""
        return self._clock.now()

    async def recall(
        self, request: RecallRequest, *, agent_id: str | None = None, with_details: bool = False
    ) -> Reply:
        """What the session knows that answers a question; `agent_id` is shown it, if named.

        With `with_details` the reply also tells how it was found.
        """
        began_at = perf_counter()
        self.check_vector(request)
        await self._warm(request)
        looked_up_at = perf_counter()
        meanings, failure = await self._find_query(request)
        await self._until_indexed()
        now, answered_at = self._clock.now(), perf_counter()
        found = self._readers.recall(self.graph, request, now, meanings, self.cycles)
        ended_at = perf_counter()
        reply = Reply.of(found)
        if with_details:
            reply.structured["details"] = found.details
        log_recall(
            self.graph.session_id,
            agent_id,
            found,
            by_meaning=meanings is not None,
            lookup_ms=elapsed_ms(looked_up_at, answered_at),
            answer_ms=elapsed_ms(answered_at, ended_at),
            took_ms=elapsed_ms(began_at, ended_at),
        )
        if failure is not None:
            reply.structured["warnings"] = [*reply.structured["warnings"], not_embedded(failure)]
        if agent_id is not None:
            self.note_shown(agent_id, [hit["node_id"] for hit in reply.structured["hits"]])
        return self.tell_source(self._warn(reply))

    def tell_source(self, reply: Reply) -> Reply:
        """The reply of a recall, saying where it comes from if that is not an open session."""
        return reply

    async def rank(
        self, request: RecallRequest, query: Vector | None, layer: Layer | None
    ) -> Ranking:
        """This session's part of an answer from several; `query` is the question's vector."""
        await self._warm(request)
        meanings: Meanings | None = None
        if query is not None:
            meanings = await look_up_query(lambda: self.graph, self._scans, request, query)
        await self._until_indexed()
        now = self._clock.now()
        return self._readers.rank(self.graph, request, now, meanings, self.cycles, layer)

    def check_vector(self, request: RecallRequest) -> None:
        """Refuse a vector that came with a question, where none are taken."""
        if request.vector is not None:
            check_allowed("vector", is_allowed=self._accepts_vectors)

    async def _warm(self, request: RecallRequest) -> None:
        if needs_warming(request):
            await asyncio.to_thread(warm, request, dict(self.graph.synonyms))

    def note_shown(self, agent_id: str, concept_ids: Sequence[NodeId]) -> None:
        """Concepts were shown to an agent."""

    async def _until_indexed(self) -> None:
        """File what was written of late, with pauses for others."""
        while not self.graph.index.is_settled:
            self.graph.index.settle_some()
            await asyncio.sleep(0)

    def _index_soon(self) -> None:
        """Have it filed when the event loop comes to it, also if nobody asks."""
        is_under_way = self._indexing is not None and not self._indexing.done()
        if not is_under_way and not self.graph.index.is_settled:
            self._indexing = asyncio.get_running_loop().create_task(self._until_indexed())

    async def _find_query(
        self, request: RecallRequest
    ) -> tuple[Meanings | None, EmbeddingFailure | None]:
        if not self.is_known:
            return None, None
        return await find_query(lambda: self.graph, self._embedder, self._scans, request)

    async def inspect(self, request: InspectRequest, *, agent_id: str | None = None) -> Reply:
        """One concept and what stands around it; `agent_id` is shown it, if named."""
        tokens: Tokens | None = Tokens()
        if self.cycles is not None and self.cycles.needs_tokens:
            try:
                tokens = await self._read_tokens()
            except StoreUnavailable:
                tokens = None
        now = self._clock.now()
        found = self._readers.inspect(self.graph, request, now, self.cycles, tokens)
        reply = Reply.of(found)
        if tokens is None:
            line = "inspect: the tokens of agents are not known now, so no status is explained"
            reply.structured["warnings"] = [*reply.structured["warnings"], line]
        if agent_id is not None:
            self.note_shown(agent_id, [reply.structured["focus"]["node_id"]])
        return self._warn(reply)

    async def _read_tokens(self) -> Tokens:
        """Since when agents have tokens. Raises `StoreUnavailable` where that is not known."""
        return Tokens()

    async def guard(self, request: GuardRequest, *, agent_id: str) -> Reply:
        """Whether what is known speaks against an action; shows nothing to anybody."""
        if needs_warming(request):
            await asyncio.to_thread(warm, request, dict(self.graph.synonyms))
        await self._until_indexed()
        now = self._clock.now()
        return self._warn(Reply.of(self._readers.guard(self.graph, request, agent_id, now)))

    async def concepts(self, request: ConceptsRequest) -> Reply:
        """A page of the concepts that a filter accepts."""
        return self._warn(Reply.of(list_concepts(self.graph, request)))

    async def saints(self) -> Reply:
        """The canonical concepts."""
        return self._warn(Reply.of(self._readers.saints(self.graph)))

    async def stats(self) -> Reply:
        """Counts and health."""
        return self._warn(Reply.of(self._stats()))

    async def receipt(self, key: str, *, agent_id: str) -> Reply:
        """How a write under an idempotency key ended."""
        return receipt_reply(key, ReceiptState.UNKNOWN)

    def _stats(self) -> SessionStats:
        return SessionStats(session_id=self.graph.session_id, counts=count_graph(self.graph))

    def _warn(self, reply: Reply) -> Reply:
        warnings = self.warnings()
        if warnings:
            reply.structured["warnings"] = [*reply.structured["warnings"], *warnings]
        return reply

    def warnings(self) -> list[str]:
        """What every reply has to say of the session as it is now."""
        return []


def not_embedded(failure: EmbeddingFailure) -> str:
    """What an answer says whose question got no vector."""
    return f"recall: query embedding failed ({failure}); only words were looked for"


def log_recall(
    session_id: str, agent_id: str | None, found: RecallAnswer, *, took_ms: float, **figures: Any
) -> None:
    """The one line of a recall."""
    log.info(
        "a recall in session %s took %.1f ms",
        session_id,
        took_ms,
        extra={
            "action": "recalled",
            "session": session_id,
            "agent_id": agent_id,
            **found.ledger,
            **figures,
            "took_ms": took_ms,
        },
    )


def elapsed_ms(began_at: float, ended_at: float) -> float:
    """Milliseconds between two readings of the performance counter."""
    return round(1_000 * (ended_at - began_at), 3)
