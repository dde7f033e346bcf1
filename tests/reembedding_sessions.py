"""Sessions that go from one embedder to another: how to get there, and what must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hosting import AGENT, hosting, statement, until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.config import MatchStrategy
from memory.engine.embedding import (
    Embedded,
    EmbeddingContract,
    EmbeddingFailure,
    check_vector,
    vector_bytes,
)
from memory.engine.ports import GraphStore, SessionBatch, StoreTransient
from memory.engine.types import ConceptType
from memory.service.host import SessionHost
from memory.service.reembedding import TEXTS
from memory.service.replies import Reply
from memory.testing import (
    FaultyStore,
    InMemoryStore,
)

HYBRID = MatchStrategy.HYBRID
THREE, THREE_AGAIN = (
    "the billing service retries three times",
    "the billing service retries 3 times",
)
OTHER_MODEL = EmbeddingContract("fixture", "turned", 384)


class TurnedEmbedder:
    """Another model of the same width: the fixture's numbers in the opposite order."""

    contract = OTHER_MODEL

    def __init__(self) -> None:
        self._inner = FixtureEmbedder()

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> list[Embedded]:
        return [
            some if isinstance(some, EmbeddingFailure) else some[::-1]
            for some in self._inner.embed(texts, deadline_seconds=deadline_seconds)
        ]

    def close(self) -> None:
        self._inner.close()


class PoisonedEmbedder(FixtureEmbedder):
    """Never manages one text, and says every time that it might."""

    def __init__(self, poison: str) -> None:
        super().__init__(64)
        self.poison: str | None = poison

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> list[Embedded]:
        given = super().embed(texts, deadline_seconds=deadline_seconds)
        return [
            EmbeddingFailure("not managed") if text == self.poison else some
            for text, some in zip(texts, given, strict=True)
        ]


class DyingStore(FaultyStore):
    """Takes so many commits and then none, as if the machine had stopped there.

    With `is_last_one_kept` the commit after those is stored, and nobody hears of it.
    """

    def __init__(self, inner: GraphStore, commits: int, *, is_last_one_kept: bool) -> None:
        super().__init__(inner)
        self._left = commits
        self._is_last_one_kept = is_last_one_kept
        self.is_dead = False

    def commit(
        self, batches: Sequence[SessionBatch], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        self._left -= 1
        if self._left >= 0:
            return super().commit(batches, node_id=node_id, ttl_seconds=ttl_seconds)
        if self._is_last_one_kept and not self.is_dead:
            super().commit(batches, node_id=node_id, ttl_seconds=ttl_seconds)
        self.is_dead = True
        raise StoreTransient("the machine has stopped")


async def derive(host: SessionHost, *texts: str, session: str = "s") -> Reply:
    request = statement(*texts, kind=ConceptType.LOGIC)
    return await host.write(session, lambda m: m.derive(request, AGENT), create=True)


async def written(
    store: GraphStore, embedder: Any, *texts: str, session: str = "s"
) -> InMemoryStore:
    """A session of these statements, put away."""
    async with hosting(store, embedder=embedder, match_strategy=HYBRID) as host:
        for low in range(0, len(texts), 50):
            await derive(host, *texts[low : low + 50], session=session)
    assert isinstance(store, InMemoryStore)
    return store


async def ask(host: SessionHost, session: str = "s") -> dict[str, Any]:
    return (await host.reembedder.ask(session)).structured


async def embedding(host: SessionHost, session: str = "s") -> dict[str, Any]:
    shown = (await (await host.view(session)).stats()).structured["embedding"]
    assert isinstance(shown, dict)
    return shown


async def until_state(host: SessionHost, state: str, session: str = "s") -> dict[str, Any]:
    def is_so() -> bool:
        progress = host.reembedder.progress(session)
        return progress is not None and progress.state == state

    await until(is_so)
    progress = host.reembedder.progress(session)
    assert progress is not None
    return progress.as_wire()


def expected_vectors(contract: EmbeddingContract, snapshot: Any) -> Mapping[str, bytes]:
    """What each concept's vector has to be, embedded one by one by an embedder of its own."""
    vectors = {}
    embedder = TurnedEmbedder() if contract == OTHER_MODEL else FixtureEmbedder(contract.dim)
    for concept in snapshot.concepts:
        (vector,) = embedder.embed([concept.content], deadline_seconds=5.0)
        unit = check_vector(vector, embedder.contract.dim)
        assert not isinstance(unit, EmbeddingFailure)
        vectors[concept.id] = vector_bytes(unit)
    return vectors


def assert_stored(store: GraphStore, embedder: Any, *, session: str = "s") -> None:
    """The stored session is wholly of one embedder, and nothing of another is left."""
    loaded = store.load_session(session)
    assert loaded is not None
    assert loaded.snapshot.contract == embedder.contract
    assert dict(loaded.snapshot.vectors) == expected_vectors(embedder.contract, loaded.snapshot)
    assert loaded.contracts == (embedder.contract.key,)


MANY = tuple(f"statement number {number}" for number in range(2 * TEXTS + 20))
