"""Sessions are put away by number and by size, least recently used first."""

from __future__ import annotations

import asyncio
from functools import partial

from hosting import hosting, statement, until
from memory.engine.requests import Caller, DeriveRequest
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.service.writes import Writes
from memory.testing import FaultKind, FaultyStore, InMemoryStore, ManualClock

AGENT = Caller("agent-a")
LARGE = 200
"""Concepts of a session that takes up more than a third, and less than half, of a megabyte."""


async def fill(host: SessionHost, session: str, count: int = LARGE) -> None:
    for low in range(0, count, 50):
        request = statement(*(f"{session} fact {low + at}" for at in range(min(50, count - low))))
        await host.write(session, partial(_derive, request), create=True)


async def _derive(request: DeriveRequest, memory: Writes) -> Reply:
    return await memory.derive(request, AGENT)


async def size(host: SessionHost, session: str) -> int:
    stats = (await (await host.view(session)).stats()).structured
    held: int = stats["resident_bytes"]
    return held


async def test_sessions_over_the_bytes_are_put_away_least_recently_used_first() -> None:
    clock = ManualClock()
    async with hosting(InMemoryStore(), clock=clock, resident_bytes_max=1_000_000) as host:
        for name in ("a", "b"):
            await fill(host, name)
            clock.advance(1)
        assert 334_000 < await size(host, "b") < 500_000
        clock.advance(1)
        await host.memory("a", create=False)  # used again: now b is the older one
        clock.advance(1)
        assert host.open_session_ids == ["a", "b"]
        await fill(host, "c")
        clock.advance(1)
        # What opened small has grown: the next session to be opened makes the host look.
        await host.memory("d", create=True)
        await until(lambda: "b" not in host.open_session_ids)
        assert host.open_session_ids == ["a", "c", "d"]
        # It is opened again when it is asked for, with all it had.
        assert (await host.memory("b", create=False)).graph.concept_count == LARGE


async def test_one_session_stays_however_large_it_is() -> None:
    clock = ManualClock()
    async with hosting(InMemoryStore(), clock=clock, resident_bytes_max=1_000_000) as host:
        await fill(host, "small", 1)
        clock.advance(1)
        await fill(host, "large", 4 * LARGE)
        clock.advance(1)
        await host.memory("large", create=False)
        await host.memory("new", create=True)
        clock.advance(1)
        await until(lambda: "large" not in host.open_session_ids)
        assert (await host.memory("large", create=False)).graph.concept_count == 4 * LARGE
        await until(lambda: host.open_session_ids == ["large"])


async def test_a_session_with_unsettled_writes_is_not_put_away_for_its_size() -> None:
    clock, store = ManualClock(), FaultyStore(InMemoryStore())
    async with hosting(store, clock=clock, resident_bytes_max=1_000_000) as host:
        await fill(host, "busy", 2 * LARGE)
        clock.advance(1)
        await fill(host, "idle", 1)
        clock.advance(1)
        hang = store.fail_next("commit", FaultKind.HANG)
        writing = asyncio.create_task(fill(host, "busy", 1))
        await until(hang.entered.is_set)
        opening = asyncio.create_task(fill(host, "large", 2 * LARGE))
        hang.release.set()
        await asyncio.gather(writing, opening)
        assert (await host.memory("busy", create=False)).graph.concept_count == 2 * LARGE
