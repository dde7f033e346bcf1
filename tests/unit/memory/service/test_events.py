from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hosting import AGENT, hosting, statement, until
from memory.engine import limits
from memory.engine.errors import SessionClosed, TooManyListeners
from memory.engine.mutations import Group, LoggedEvent
from memory.engine.requests import Caller, DeriveRequest
from memory.service import events as event_module
from memory.service.events import Event, EventFeed, Gap, Listening, Told
from memory.service.host import SessionHost
from memory.testing import FaultKind, FaultyStore, InMemoryStore


async def derive(host: SessionHost, *contents: str, session: str = "s") -> dict[str, Any]:
    request: DeriveRequest = statement(*contents)
    reply = await host.write(session, lambda memory: memory.derive(request, AGENT), create=True)
    return reply.structured


async def take(listening: Listening, count: int) -> list[Told]:
    async with asyncio.timeout(20):
        return [await anext(listening) for _ in range(count)]


def ids(told: list[Told]) -> list[int]:
    assert all(isinstance(one, Event) for one in told), told
    return [one.id for one in told if isinstance(one, Event)]


async def waits(listening: Listening) -> bool:
    """Whether there is nothing more to be told, for now."""
    asking = asyncio.ensure_future(anext(listening))
    await asyncio.sleep(0.02)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    return asking.cancelled()


async def test_a_write_is_told_after_it_is_committed() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "first")
        with host.events.listen("s") as listening:
            hang = store.fail_next("commit", FaultKind.HANG)
            writing = asyncio.create_task(derive(host, "second"))
            await until(hang.entered.is_set)
            assert await waits(listening)
            hang.release.set()
            reply = await writing
            (event,) = await take(listening, 1)
        assert isinstance(event, Event)
        assert isinstance(event.data, dict)
        assert (event.kind, event.agent_id, event.id) == ("write", AGENT.agent_id, 2)
        assert event.data["created"] == reply["created"]
        assert event.data["concepts"][0]["content"] == "second"


async def test_a_refused_write_is_told_to_nobody_and_leaves_no_hole() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "first")
        with host.events.listen("s", since=0) as listening:
            store.rejects = lambda group: group.position == 2
            with pytest.raises(Exception, match="the store refused"):
                await derive(host, "refused")
            store.rejects = lambda group: False
            await derive(host, "third")
            told = await take(listening, 2)
            assert ids(told) == [1, 2]
            assert "refused" not in repr(told)
            assert await waits(listening)


async def test_a_listener_resumes_over_a_restart_without_loss_or_repeat() -> None:
    store = InMemoryStore()
    heard: list[int] = []
    async with hosting(store) as host:
        for number in range(5):
            await derive(host, f"fact {number}")
        with host.events.listen("s", since=0) as listening:
            heard += ids(await take(listening, 3))
    for _restart in range(3):
        async with hosting(store) as host:
            await derive(host, f"after {heard}")
            with host.events.listen("s", since=heard[-1]) as listening:
                heard += ids(await take(listening, 1))
            await derive(host, f"more {heard}")
    async with hosting(store) as host:
        newest = await host.events.newest("s")
        with host.events.listen("s", since=heard[-1]) as listening:
            heard += ids(await take(listening, newest - heard[-1]))
            assert await waits(listening)
    assert heard == list(range(1, newest + 1))
    assert newest == 11


async def test_a_listener_of_some_kinds_hears_no_other_and_knows_how_far_the_log_is() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, "first")
        with host.events.listen("s", since=0, kinds=["reservation"]) as listening:
            assert await waits(listening)
            assert listening.place == 1
            for number in range(3):
                await derive(host, f"fact {number}")
            assert await waits(listening)
            assert listening.place == 4


async def test_a_stuck_listener_keeps_nothing_in_memory_and_misses_nothing() -> None:
    async with hosting(InMemoryStore()) as host:
        with host.events.listen("s") as listening:
            count = 3 * limits.LISTENER_EVENTS
            for number in range(count):
                await derive(host, f"fact {number}")
            assert len(listening._queue) + len(listening._page) <= limits.LISTENER_EVENTS
            assert ids(await take(listening, count)) == list(range(1, count + 1))


async def test_what_the_log_has_let_go_of_is_told_as_a_gap_with_the_resume_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "EVENTS_KEPT", 40)
    async with hosting(InMemoryStore()) as host:
        for number in range(60):
            await derive(host, f"fact {number}")
        with host.events.listen("s", since=3) as listening:
            (gap,) = await take(listening, 1)
            assert isinstance(gap, Gap)
            assert (gap.after, gap.lost) == (3, gap.resume - 4)
            told = ids(await take(listening, 60 - gap.resume + 1))
            assert told == list(range(gap.resume, 61))
        with host.events.listen("s", since=gap.resume - 1) as again:
            assert ids(await take(again, 1)) == [gap.resume]  # exactly at the edge: no gap


async def test_a_log_that_begun_anew_is_a_gap_and_is_read_from_its_start() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, "first")
        with host.events.listen("s", since=70) as listening:
            told = await take(listening, 2)
        assert told[0] == Gap(70, 1)
        assert ids(told[1:]) == [1]


async def test_the_listener_of_a_deleted_session_is_told_and_hears_its_successor() -> None:
    operator = Caller("operator", is_operator=True)
    async with hosting(InMemoryStore()) as host:
        await derive(host, "first")
        await derive(host, "second")
        with host.events.listen("s", since=0) as listening:
            await take(listening, 2)
            await host.delete_session("s", "s", operator)
            assert await take(listening, 1) == [Gap(2, 1)]
            await derive(host, "anew")
            assert ids(await take(listening, 1)) == [1]


async def test_asking_may_be_cancelled_at_any_point_without_losing_an_event() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        for number in range(4):
            await derive(host, f"fact {number}")
        with host.events.listen("s", since=0) as listening:
            hang = store.fail_next("list_events", FaultKind.HANG)
            asking = asyncio.create_task(take(listening, 1))
            await until(hang.entered.is_set)
            await derive(host, "meanwhile")
            asking.cancel()
            hang.release.set()
            await asyncio.gather(asking, return_exceptions=True)
            assert ids(await take(listening, 5)) == [1, 2, 3, 4, 5]


async def test_what_is_told_while_the_log_is_read_comes_once() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "first")
        with host.events.listen("s", since=0) as listening:
            hang = store.fail_next("list_events", FaultKind.HANG)  # it reads what comes till then
            asking = asyncio.create_task(take(listening, 3))
            await until(hang.entered.is_set)
            await derive(host, "second")
            hang.release.set()
            await derive(host, "third")
            assert ids(await asking) == [1, 2, 3]


async def test_a_store_that_is_away_delays_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_module, "RETRY_SECONDS", 0.01)
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "first")
        store.fail_next("list_events", FaultKind.TRANSIENT_BEFORE)
        with host.events.listen("s", since=0) as listening:
            assert ids(await take(listening, 1)) == [1]


async def test_listeners_end_with_the_host_and_none_comes_after() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, "first")
        listening = host.events.listen("s", since=0)
        waiting = host.events.listen("s")
        asking = asyncio.create_task(take(waiting, 1))
        await asyncio.sleep(0)
        assert host.events.count == 2
    with pytest.raises((RuntimeError, StopAsyncIteration)):
        await asking
    with pytest.raises(StopAsyncIteration):
        await anext(listening)
    listening.close()
    waiting.close()
    assert host.events.count == 0
    with pytest.raises(SessionClosed):
        host.events.listen("s")


async def test_there_is_a_limit_of_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_module, "LISTENERS", 2)
    async with hosting(InMemoryStore()) as host:
        first, second = host.events.listen("a"), host.events.listen("b")
        with pytest.raises(TooManyListeners):
            host.events.listen("a")
        first.close()
        second.close()
        with host.events.listen("a"):
            assert host.events.count == 1
        await host.events.until_left(1)


async def test_waiting_for_listeners_to_leave_ends_when_they_do_not() -> None:
    async with hosting(InMemoryStore()) as host:
        with host.events.listen("a"):
            await host.events.until_left(0.01)
            assert host.events.count == 1


async def test_telling_costs_a_writer_nothing_that_grows_with_slowness() -> None:
    """A stuck listener only counts as one that reads in the log later: nothing waits for it."""
    calls = 0

    async def read(session_id: str, **_asked: Any) -> Any:
        nonlocal calls
        calls += 1

    feed = EventFeed(read)
    listening = feed.listen("s")
    for number in range(1, 10_001):
        events = (LoggedEvent(number, "write", "ann", {}),)
        feed.tell(Group("s", number, (), 0, events=events))
    assert calls == 0
    assert len(listening._queue) == 0
    assert listening.place == 0


async def test_a_page_holds_the_newest_or_what_follows_an_id() -> None:
    async with hosting(InMemoryStore()) as host:
        for number in range(5):
            await derive(host, f"fact {number}")
        newest = await host.events.list_page("s", since=None, limit=2, kinds=())
        assert [one["id"] for one in newest.structured["events"]] == [4, 5]
        page = await host.events.list_page("s", since=1, limit=2, kinds=())
        assert [one["id"] for one in page.structured["events"]] == [2, 3]
        assert (page.structured["resume"], page.structured["newest"]) == (3, 5)
        assert page.structured["gap"] is None
        assert json.dumps(page.structured)
        lost = await host.events.list_page("s", since=70, limit=9, kinds=())
        assert lost.structured["gap"] == {"after": 70, "resume": 1, "lost": 0}
        assert len(lost.structured["events"]) == 5
        assert lost.text.startswith("gap: the log has begun anew")
        unknown = await host.events.list_page("unknown", since=None, limit=9, kinds=())
        assert (unknown.text, unknown.structured["events"]) == ("no events", [])
