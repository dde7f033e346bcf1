"""Questions to a graph: what every memory answers, open or empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from memory.engine.embedding import EmbeddingFailure
from memory.engine.errors import ReceiptNotFound
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.ports import Clock
from memory.engine.requests import InspectRequest, RecallRequest
from memory.engine.times import Micros
from memory.engine.warming import needs_warming, warm
from memory.service.replies import Answer, Reply
from memory.service.stats import SessionStats, count_graph


@dataclass(frozen=True, slots=True)
class Readers:
    """How questions are answered; wired once, so that the service knows neither recall nor canon.

    Each takes the graph, the request and the instant of asking; recall also what was looked up of
    the query's meaning, or None.
    """

    recall: Callable[[Graph, RecallRequest, Micros, Meanings | None], Answer]
    inspect: Callable[[Graph, InspectRequest, Micros], Answer]
    saints: Callable[[Graph], Answer]


class MemoryView:
    """Questions to a graph. They write nothing and create nothing."""

    def __init__(self, graph: Graph, *, readers: Readers, clock: Clock) -> None:
        self.graph = graph
        self._readers = readers
        self._clock = clock

    async def recall(self, request: RecallRequest) -> Reply:
        """What the session knows that answers a question."""
        if needs_warming(request):
            await asyncio.to_thread(warm, request, dict(self.graph.synonyms))
        meanings, failure = await self._find_query(request)
        now = self._clock.now()
        reply = Reply.of(self._readers.recall(self.graph, request, now, meanings))
        if failure is not None:
            line = f"recall: query embedding failed ({failure}); only words were looked for"
            reply.structured["warnings"] = [*reply.structured["warnings"], line]
        return self._warn(reply)

    async def _find_query(
        self, request: RecallRequest
    ) -> tuple[Meanings | None, EmbeddingFailure | None]:
        return None, None

    async def inspect(self, request: InspectRequest) -> Reply:
        """One concept and what stands around it."""
        return self._warn(Reply.of(self._readers.inspect(self.graph, request, self._clock.now())))

    async def saints(self) -> Reply:
        """The canonical concepts."""
        return self._warn(Reply.of(self._readers.saints(self.graph)))

    async def stats(self) -> Reply:
        """Counts and health."""
        return self._warn(Reply.of(self._stats()))

    async def receipt(self, key: str, *, agent_id: str) -> Reply:
        """How a write under an idempotency key ended."""
        raise ReceiptNotFound(f"no receipt under that key for agent '{agent_id}'", key=key)

    def _stats(self) -> SessionStats:
        return SessionStats(session_id=self.graph.session_id, counts=count_graph(self.graph))

    def _warn(self, reply: Reply) -> Reply:
        warnings = self._warnings()
        if warnings:
            reply.structured["warnings"] = [*reply.structured["warnings"], *warnings]
        return reply

    def _warnings(self) -> list[str]:
        return []
