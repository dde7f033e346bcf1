"""Questions to a graph: what every memory answers, open or empty."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from memory.engine.client_vectors import check_allowed
from memory.engine.embedding import EmbeddingFailure
from memory.engine.errors import StoreUnavailable
from memory.engine.filters import list_concepts
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.ports import Clock
from memory.engine.requests import ConceptsRequest, GuardRequest, InspectRequest, RecallRequest
from memory.engine.times import Micros
from memory.engine.types import NodeId
from memory.engine.warming import needs_warming, warm
from memory.service.cycles import SessionCycles, Tokens
from memory.service.replies import Answer, ReceiptState, Reply, receipt_reply
from memory.service.stats import SessionStats, count_graph

log = logging.getLogger("lambo.recall")


class RecallAnswer(Answer, Protocol):
    """The answer to a question, and what the log says of it: numbers, none of its words."""

    @property
    def ledger(self) -> dict[str, Any]: ...

    @property
    def details(self) -> dict[str, Any]:
        """For who looks over an agent's shoulder: `tokens`, and `legs` of each hit in order."""


@dataclass(frozen=True, slots=True)
class Readers:
    """How questions are answered; wired once, so that the service knows neither recall nor canon.

    Each takes the graph, the request and the instant of asking; recall also what was looked up of
    the query's meaning, and the session's background cycles, or None; inspect those cycles, and
    the ages of tokens, or None where they are not known; guard the agent that asks.
    """

    recall: Callable[
        [Graph, RecallRequest, Micros, Meanings | None, SessionCycles | None], RecallAnswer
    ]
    inspect: Callable[[Graph, InspectRequest, Micros, SessionCycles | None, Tokens | None], Answer]
    saints: Callable[[Graph], Answer]
    guard: Callable[[Graph, GuardRequest, str, Micros], Answer]


class MemoryView:
    """Questions to a graph. They write nothing and create nothing."""

    def __init__(
        self, graph: Graph, *, readers: Readers, clock: Clock, accepts_vectors: bool = False
    ) -> None:
        self.graph = graph
        self.cycles: SessionCycles | None = None
        self._accepts_vectors = accepts_vectors
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
        if request.vector is not None:
            check_allowed("vector", is_allowed=self._accepts_vectors)
        if needs_warming(request):
            await asyncio.to_thread(warm, request, dict(self.graph.synonyms))
        looked_up_at = perf_counter()
        meanings, failure = await self._find_query(request)
        await self._until_indexed()
        now, answered_at = self._clock.now(), perf_counter()
        found = self._readers.recall(self.graph, request, now, meanings, self.cycles)
        ended_at = perf_counter()
        reply = Reply.of(found)
        if with_details:
            reply.structured["details"] = found.details
        log.info(
            "a recall in session %s took %.1f ms",
            self.graph.session_id,
            _ms(began_at, ended_at),
            extra={
                "action": "recalled",
                "session": self.graph.session_id,
                "agent_id": agent_id,
                **found.ledger,
                "by_meaning": meanings is not None,
                "lookup_ms": _ms(looked_up_at, answered_at),
                "answer_ms": _ms(answered_at, ended_at),
                "took_ms": _ms(began_at, ended_at),
            },
        )
        if failure is not None:
            line = f"recall: query embedding failed ({failure}); only words were looked for"
            reply.structured["warnings"] = [*reply.structured["warnings"], line]
        if agent_id is not None:
            self._note_shown(agent_id, [hit["node_id"] for hit in reply.structured["hits"]])
        return self._warn(reply)

    def _note_shown(self, agent_id: str, concept_ids: Sequence[NodeId]) -> None:
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
        return None, None

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
            self._note_shown(agent_id, [reply.structured["focus"]["node_id"]])
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
        warnings = self._warnings()
        if warnings:
            reply.structured["warnings"] = [*reply.structured["warnings"], *warnings]
        return reply

    def _warnings(self) -> list[str]:
        return []


def _ms(began_at: float, ended_at: float) -> float:
    """Milliseconds between two readings of the performance counter."""
    return round(1_000 * (ended_at - began_at), 3)
