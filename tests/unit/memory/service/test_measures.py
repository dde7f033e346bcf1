"""What the service tells whoever counts its work: each thing once, and with the right number."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hosting import AGENT, hosting, statement, until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.errors import LeaseLost, RejectedByStore
from memory.service.measures import Measures
from memory.testing import (
    EmbedderFault,
    FaultKind,
    FaultyStore,
    InMemoryStore,
    ManualClock,
    ScriptedEmbedder,
)


class Noting(Measures):
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def committed(self, rows: int, seconds: float) -> None:
        self.told.append(("committed", rows))

    def commit_failed(self) -> None:
        self.told.append(("commit_failed", 1))

    def rejected(self) -> None:
        self.told.append(("rejected", 1))

    def fenced(self, code: str) -> None:
        self.told.append(("fenced", code))

    def not_embedded(self, texts: int) -> None:
        self.told.append(("not_embedded", texts))

    def of(self, kind: str) -> list[Any]:
        return [value for name, value in self.told if name == kind]


async def test_batch_is_told_with_its_rows_and_failed_attempts_apart() -> None:
    store, noting = FaultyStore(InMemoryStore(ManualClock())), Noting()
    async with hosting(store, measures=noting, ticks=False) as host:
        memory = await host.memory("s", create=True)
        store.fail_next("commit", FaultKind.TRANSIENT_BEFORE)
        await memory.derive(statement("tokens expire", "sessions end"), AGENT)
        assert noting.of("commit_failed") == [1]
        # Two concepts, their interaction, the edges between them and the receipt.
        (rows,) = noting.of("committed")
        assert rows > 4
        assert host.read_vital_signs().uncommitted_mutations == 0


async def test_lost_lease_is_one_fence_however_it_is_noticed() -> None:
    store, noting = FaultyStore(InMemoryStore(ManualClock())), Noting()
    async with hosting(store, measures=noting, ticks=False) as host:
        memory = await host.memory("s", create=True)
        store.fail_next("commit", FaultKind.LEASE_LOST)
        with pytest.raises(LeaseLost):
            await memory.derive(statement("tokens expire"), AGENT)
        memory.on_lease_lost(is_rewound=False)  # the heartbeat comes to it later
        assert noting.of("fenced") == ["lease_lost"]


async def test_refused_group_is_told_as_such_and_no_batch() -> None:
    store, noting = FaultyStore(InMemoryStore(ManualClock())), Noting()
    async with hosting(store, measures=noting, ticks=False) as host:
        memory = await host.memory("s", create=True)
        store.rejects = lambda group: True
        with pytest.raises(RejectedByStore):
            await memory.derive(statement("tokens expire"), AGENT)
        assert noting.of("rejected") == [1]
        assert noting.of("committed") == []


async def test_every_text_without_a_vector_is_told() -> None:
    embedder, noting = ScriptedEmbedder(FixtureEmbedder()), Noting()
    embedder.fault = EmbedderFault.HOPELESS
    store = InMemoryStore(ManualClock())
    async with hosting(store, measures=noting, embedder=embedder, ticks=False) as host:
        memory = await host.memory("s", create=True)
        await memory.derive(statement("tokens expire", "sessions end"), AGENT)
        assert sum(noting.of("not_embedded")) >= 2
        assert host.read_vital_signs().missing_vectors == 2


async def test_vital_signs_tell_the_oldest_write_that_waits() -> None:
    clock = ManualClock()
    store = FaultyStore(InMemoryStore(clock))
    async with hosting(store, clock=clock, ticks=False) as host:
        memory = await host.memory("s", create=True)
        fault = store.fail_next("commit", FaultKind.HANG)
        try:
            write = asyncio.create_task(memory.derive(statement("tokens expire"), AGENT))
            await until(fault.entered.is_set)
            clock.advance(1.5)
            signs = host.read_vital_signs()
            assert (signs.open_sessions, signs.flush_lag_seconds) == (1, 1.5)
            assert signs.uncommitted_mutations > 0
            assert not signs.is_store_away
            clock.advance(60)
            assert host.read_vital_signs().is_store_away
            assert not await host.is_ready()
        finally:
            fault.release.set()
        await write
