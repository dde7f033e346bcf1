"""The product under the benchmark: writes a task through the public calls, and asks its questions.

Owns one host over a store in RAM. The same store is opened again under each set of settings, as a
restart would, so every ranking is made of the same session. Knows no measure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

from benchmarks.retrieval.figures import DEPTH, Ranking
from benchmarks.retrieval.tasks import Task
from canon.engine.scoring import rescore
from lambo_site.wiring import build_readers, recall_settings
from memory.engine.config import Config, Durability, MatchStrategy
from memory.engine.embedding import Embedder
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.limits import MAX_TOKENS_MAX
from memory.engine.requests import Caller, ConceptInput, DeriveRequest, RecallRequest
from memory.engine.times import Micros
from memory.service.cycles import SessionCycles
from memory.service.host import SessionHost
from memory.service.memory import Memory
from memory.service.view import Readers, RecallAnswer
from memory.testing import InMemoryStore, ManualClock, SequentialIds
from recall.engine.pipeline import recall
from recall.engine.ranking import Scores
from recall.engine.results import RecallResult

SECONDS_BETWEEN_WRITES: Final = 20.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer to one question: the ranking, and what a recall of default size costs."""

    ranking: Ranking
    tokens: int
    milliseconds: float


class Product:
    """Sessions written once, asked under any settings."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._store = InMemoryStore()
        self._clock = ManualClock()
        self._ids = SequentialIds()
        self._texts_of: dict[str, dict[str, tuple[str, ...]]] = {}

    @asynccontextmanager
    async def _host(
        self, *, has_standing: bool = False, **settings: Any
    ) -> AsyncIterator[SessionHost]:
        strategy = MatchStrategy.CANONICAL if self._embedder is None else MatchStrategy.HYBRID
        config = Config(durability=Durability.COMMIT, match_strategy=strategy, **settings)
        host = SessionHost(
            self._store,
            node_id="benchmark",
            endpoint="",
            config=config,
            readers=_with_standing(config) if has_standing else build_readers(config),
            clock=self._clock,
            ids=self._ids,
            embedder=self._embedder,
        )
        await host.start()
        try:
            yield host
        finally:
            await host.close()

    async def write(self, task: Task) -> None:
        """Every text of a task, one derive each, in order."""
        texts_of: dict[str, tuple[str, ...]] = {}
        async with self._host() as host:
            memory = await host.memory(task.name, create=True)
            for write in task.writes:
                given = ConceptInput(write.text, write.kind, write.depends_on, write.against)
                reply = await memory.derive(DeriveRequest((given,)), Caller(write.agent))
                for node in (*reply.structured["created"], *reply.structured["matched"]):
                    texts_of[node] = (*texts_of.get(node, ()), write.id)
                self._clock.advance(SECONDS_BETWEEN_WRITES)
        self._texts_of[task.name] = texts_of

    async def ask(
        self,
        task: Task,
        *,
        settings: Mapping[str, Any],
        has_standing: bool,
        traversal_depth: int = 2,
    ) -> list[Asked]:
        """Every question of a task, asked under these settings.

        `has_standing` tells whether the importance of concepts takes part.
        """
        async with self._host(has_standing=has_standing, **settings) as host:
            memory = await host.memory(task.name, create=False)
            return [
                await self._ask_one(memory, task.name, question.text, traversal_depth)
                for question in task.questions
            ]

    async def _ask_one(self, memory: Memory, name: str, text: str, depth: int) -> Asked:
        """Once to see the ranking, and once as an agent asks, timed with the vector at hand."""
        whole = RecallRequest(text, DEPTH, MAX_TOKENS_MAX, depth)
        reply = await memory.recall(whole)
        started = perf_counter()
        usual = await memory.recall(replace(whole, top_k=5, max_tokens=500))
        elapsed = perf_counter() - started
        return Asked(
            self._ranking(name, reply.structured["hits"]),
            -(-2 * len(usual.text.encode()) // 7),
            1_000 * elapsed,
        )

    def _ranking(self, name: str, hits: Sequence[Mapping[str, Any]]) -> Ranking:
        texts_of = self._texts_of[name]
        return [texts_of[hit["node_id"]] for hit in hits]


def _with_standing(config: Config) -> Readers:
    """The product's readers, with every concept scored as a pass over the session scores it."""
    settings = recall_settings(config)
    scored: dict[tuple[str, int], Scores] = {}

    def answer(
        graph: Graph,
        request: RecallRequest,
        now: Micros,
        meanings: Meanings | None,
        _cycles: SessionCycles | None,
    ) -> RecallAnswer:
        key = graph.session_id, graph.epoch
        if key not in scored:
            scored[key] = rescore(graph).scores
        return _Shown(
            recall(
                graph, request, now=now, scores=scored[key], settings=settings, meanings=meanings
            )
        )

    return replace(build_readers(config), recall=answer)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A result as the service takes it."""

    result: RecallResult

    @property
    def text(self) -> str:
        return self.result.context

    @property
    def ledger(self) -> dict[str, Any]:
        return self.result.as_ledger()

    @property
    def details(self) -> dict[str, Any]:
        return self.result.as_details()

    def as_wire(self) -> dict[str, Any]:
        return self.result.as_wire()
