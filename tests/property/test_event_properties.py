"""However much is written and slowly read: complete and in order, or a gap that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.engine import limits
from memory.engine.mutations import Group, LoggedEvent
from memory.engine.ports import EventPage
from memory.service import events as event_module
from memory.service.events import EventFeed, Gap, Listening
from memory.store.in_memory_rows import Rows, page_of_events, put_events

KINDS = ("write", "drift", "cycle")


class Log:
    """The log of one session, told and stored as a host does."""

    def __init__(self) -> None:
        self.rows = Rows(0, "canonical")
        self.feed = EventFeed(self._read)
        self.written: list[tuple[int, str]] = []
        self.position = 0

    async def _read(
        self, session_id: str, *, after: int, limit: int, kinds: Sequence[str]
    ) -> EventPage:
        await asyncio.sleep(0)
        page = page_of_events(self.rows.events, after, limit, kinds)
        await asyncio.sleep(0)  # writes may come between reading and being told of it
        return page

    def write(self, kinds: Sequence[str]) -> None:
        first = len(self.written) + 1
        events = tuple(
            LoggedEvent(at, kind, "ann", {}) for at, kind in enumerate(kinds, start=first)
        )
        self.position += 1
        group = Group("s", self.position, (), 0, events=events)
        put_events(self.rows, group)
        self.written += [(event.id, event.kind) for event in events]
        self.feed.tell(group)


def check(log: Log, heard: list[Any], since: int, kinds: Sequence[str]) -> None:
    """Every event of the kinds that was written after `since` is heard once, in order, or lies in
    a gap that was told."""
    expected = [at for at, kind in log.written if at > since and (not kinds or kind in kinds)]
    place = since
    covered: list[int] = []
    for one in heard:
        if isinstance(one, Gap):
            assert one.after >= place
            assert one.resume > one.after + 1
            covered += [at for at in expected if one.after < at < one.resume]
            place = one.resume - 1
        else:
            assert one.id > place
            covered.append(one.id)
            place = one.id
    assert covered == expected


async def listen(listening: Listening, heard: list[Any], pace: Sequence[int]) -> None:
    """Hear everything, pausing for as many turns of the loop as `pace` says, again and again."""
    at = 0
    async for one in listening:
        heard.append(one)
        for _ in range(pace[at % len(pace)]):
            await asyncio.sleep(0)
        at += 1


async def until_heard(log: Log, listeners: Sequence[Listening]) -> None:
    async with asyncio.timeout(60):
        while any(  # noqa: ASYNC110  # a place sets no event
            listener._is_behind or listener.place not in (None, len(log.written))
            for listener in listeners
        ):
            await asyncio.sleep(0)  # a place sets no event


steps = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), max_size=60)
paces = st.lists(st.integers(0, 30), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(steps, st.lists(st.integers(0, 3), min_size=1, max_size=5), paces, st.data())
def test_any_listener_hears_all_or_is_told_of_a_gap(
    groups: list[list[str]], pauses: list[int], pace: list[int], data: st.DataObject
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), unique=True, max_size=2))
    before = data.draw(st.integers(0, len(groups)))

    async def play() -> None:
        log = Log()
        for group in groups[:before]:
            log.write(group)
        newest = len(log.written)
        since = data.draw(st.none() | st.integers(0, newest))
        heard: list[Any] = []
        listening = log.feed.listen("s", since=since, kinds=kinds)
        task = asyncio.create_task(listen(listening, heard, pace))
        for at, group in enumerate(groups[before:]):
            log.write(group)
            for _ in range(pauses[at % len(pauses)]):
                await asyncio.sleep(0)
        await until_heard(log, [listening])
        log.feed.end()
        await task
        check(log, heard, newest if since is None else since, kinds)

    with (
        mock.patch.object(event_module, "LISTENER_EVENTS", 4),
        mock.patch.object(event_module, "EVENTS_PER_PAGE", 3),
        mock.patch.object(limits, "EVENTS_KEPT", 20),
    ):
        asyncio.run(play())


def test_ten_thousand_events_for_a_fast_and_a_slow_listener() -> None:
    async def play() -> None:
        log = Log()
        fast: list[Any] = []
        slow: list[Any] = []
        listeners = [log.feed.listen("s", since=0), log.feed.listen("s", since=0)]
        tasks = [
            asyncio.create_task(listen(listeners[0], fast, [0])),
            asyncio.create_task(listen(listeners[1], slow, [40])),
        ]
        for _ in range(10_000):
            log.write(["write"])
            await asyncio.sleep(0)
        await until_heard(log, listeners)
        log.feed.end()
        await asyncio.gather(*tasks)
        check(log, fast, 0, ())
        check(log, slow, 0, ())
        assert [one.id for one in fast] == list(range(1, 10_001))
        assert any(isinstance(one, Gap) for one in slow)

    with mock.patch.object(limits, "EVENTS_KEPT", 2_000):
        asyncio.run(play())
