"""What happened, told to listeners once it is committed: from memory while they keep up, from the
log where they do not.

Owns who listens and where each one stands. Events are rows of the groups that caused them
(`memory.engine.events`), so the log is the truth and a queue in memory only a short way to it: a
listener that falls behind loses its queue, not its events, and reads on in the log at its own pace.

Invariants: telling costs a writer the same whoever listens and however slowly. A listener gets
every event of its kinds once, in the order of ids, or is told of a `Gap` where the log has let go.
No text of a concept is told that was gone before, however long the event has waited.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self, TypeAlias

from memory.engine.errors import SessionClosed, StoreUnavailable, TooManyListeners
from memory.engine.event_lines import event_line, gap_line
from memory.engine.event_texts import IsLive, shown
from memory.engine.limits import EVENTS_PER_PAGE, LISTENER_EVENTS, LISTENERS
from memory.engine.mutations import DeleteConcept, Group, PurgeText
from memory.engine.ports import EventPage, StoredEvent
from memory.engine.requests import check_session_name
from memory.engine.times import Micros, format_rfc3339
from memory.engine.types import Json
from memory.service.replies import Reply

RETRY_SECONDS: Final = 1.0
NEWEST: Final = 2**62
"""An id that no event reaches."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is committed; `memory.engine.events.EventKind` names the kinds.

    `id` counts the events of its session, `position` is that of the group which caused it.
    """

    session_id: str
    id: int
    position: int
    kind: str
    agent_id: str
    occurred_at: Micros
    data: Json

    def as_wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "agent_id": self.agent_id or None,
            "occurred_at": format_rfc3339(self.occurred_at),
            "position": self.position,
            "data": self.data,
        }


@dataclass(frozen=True, slots=True)
class Gap:
    """The events after `after` and before `resume` are not kept any more; `resume` comes next.

    When `resume` is not past `after`, the session's log has begun anew.
    """

    after: int
    resume: int

    @property
    def lost(self) -> int:
        """How many events are missing, of all kinds."""
        return max(0, self.resume - self.after - 1)

    def as_wire(self) -> dict[str, Any]:
        return {"after": self.after, "resume": self.resume, "lost": self.lost}


Told: TypeAlias = Event | Gap


class ReadEvents(Protocol):
    """The log. Raises `StoreUnavailable`."""

    async def __call__(
        self, session_id: str, *, after: int, limit: int, kinds: Sequence[str]
    ) -> EventPage: ...


FindLive: TypeAlias = Callable[[str], IsLive | None]
"""Tells which concepts of a session live, by its name; None where only the store knows."""


def _store_knows(_session_id: str) -> None:
    return None


class Listening:
    """One listener: an asynchronous iterator over what it is told. Close it, or use it in `with`.

    It ends when the feed does. Asking for the next may be cancelled; nothing is lost by that.
    """

    def __init__(
        self, feed: EventFeed, session_id: str, since: int | None, kinds: Collection[str]
    ) -> None:
        self.session_id = session_id
        self.place = since
        """The id up to which everything was given; None before the first event."""
        self._feed = feed
        self._kinds = frozenset(kinds)
        self._page: deque[Event] = deque()
        self._queue: deque[Event] = deque()
        self._read_to: int | None = None  # what of the log is in `_page`
        self._is_behind = since is not None
        self._passed = 0  # the last one of another kind, while not behind
        self._is_waiting = False
        self._is_over = False
        self._news = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more."""
        self._feed.remove(self)
        self.end()

    def end(self) -> None:
        """Give what is in memory, then end."""
        self._is_over = True
        self._news.set()

    def tell(self, event: Event) -> None:
        """Take note of a committed event."""
        if self.place is None:
            self.place = event.id - 1
        if self._is_behind:
            return  # it is read in the log when its turn comes
        if self._kinds and event.kind not in self._kinds:
            self._passed = event.id
            if self._is_waiting and not self._queue:
                self.place = event.id
            return
        if len(self._queue) == LISTENER_EVENTS:
            self.fall_behind()
            return
        self._queue.append(event)
        self._news.set()

    def fall_behind(self) -> None:
        """Let go of what waits in memory, and read it in the log instead."""
        self._page.clear()
        self._queue.clear()
        self._read_to = None
        self._passed = 0
        self._is_behind = self.place is not None
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        while True:
            told = self._take()
            if told is not None:
                return self._feed.show(told)  # it may have waited long
            if self._is_over:
                raise StopAsyncIteration
            if self._is_behind:
                gap = await self._read_on()
                if gap is not None:
                    return gap
                continue
            await self._wait()

    async def _wait(self) -> None:
        """Wait for news; everything before was given, or is of no kind that is wanted."""
        if self.place is not None:
            self.place = max(self.place, self._passed)
        self._news.clear()
        self._is_waiting = True
        try:
            await self._news.wait()
        finally:
            self._is_waiting = False

    def _take(self) -> Event | None:
        if self._page:
            event = self._page.popleft()
            self.place = event.id
            return event
        if self._read_to is not None:
            self.place, self._read_to = max(self.place or 0, self._read_to), None
        while self._queue and not self._is_behind:
            event = self._queue.popleft()
            if self.place is None or event.id > self.place:  # else the page had it
                self.place = event.id
                return event
        return None

    async def _read_on(self) -> Gap | None:
        """Read the next page of the log. What is told meanwhile waits in the queue."""
        assert self.place is not None
        self._is_behind = False
        try:
            page = await self._feed.read(
                self.session_id,
                after=self.place,
                limit=EVENTS_PER_PAGE,
                kinds=sorted(self._kinds),
            )
        except StoreUnavailable:
            self.fall_behind()
            await asyncio.sleep(RETRY_SECONDS)
            return None
        except BaseException:
            self.fall_behind()
            raise
        if self._is_behind:
            return None  # what was read may hold what was purged meanwhile, or the queue ran over
        gap = find_gap(page, self.place)
        if gap is not None:
            self.place = gap.resume - 1
            self.fall_behind()
            return gap
        self._page = deque(event_of(self.session_id, stored) for stored in page.events)
        self._read_to = page.read_to
        if page.read_to < page.newest:
            self._queue.clear()
            self._is_behind = True
        return None


class EventFeed:
    """Everybody who listens to the sessions of a host. Use it on one event loop."""

    def __init__(self, read: ReadEvents, find_live: FindLive = _store_knows) -> None:
        self.read = read
        self._find_live = find_live
        self._listeners: dict[str, set[Listening]] = {}
        self._count = 0
        self._left = asyncio.Event()
        self._is_over = False

    @property
    def count(self) -> int:
        """How many listen."""
        return self._count

    def tell(self, group: Group) -> None:
        """Tell the listeners of a committed group's session; without any it costs nothing."""
        listeners = self._listeners.get(group.session_id)
        if not listeners:
            return
        if any(isinstance(mutation, PurgeText | DeleteConcept) for mutation in group.mutations):
            self.forget(group.session_id)
        for logged in group.events:
            event = Event(
                group.session_id,
                logged.id,
                group.position,
                logged.kind,
                logged.agent_id,
                group.created_at,
                logged.data,
            )
            for listener in listeners:
                listener.tell(event)

    def listen(
        self, session_id: str, *, since: int | None = None, kinds: Collection[str] = ()
    ) -> Listening:
        """Events of a session after the id `since`, or from now on; of some kinds, or all.

        Raises `TooManyListeners`, or `SessionClosed` once the feed has ended.
        """
        check_session_name(session_id)
        if self._is_over:
            raise SessionClosed("the server is shutting down", retry_after_seconds=RETRY_SECONDS)
        if self._count >= LISTENERS:
            raise TooManyListeners(
                f"{LISTENERS} streams of events are open", retry_after_seconds=RETRY_SECONDS
            )
        listener = Listening(self, session_id, since, kinds)
        self._listeners.setdefault(session_id, set()).add(listener)
        self._count += 1
        return listener

    def remove(self, listener: Listening) -> None:
        """Tell a listener nothing more."""
        listeners = self._listeners.get(listener.session_id)
        if listeners is None or listener not in listeners:
            return
        listeners.remove(listener)
        self._count -= 1
        if not listeners:
            del self._listeners[listener.session_id]
        if not self._count:
            self._left.set()

    async def newest(self, session_id: str) -> int:
        """The id of the newest committed event; 0 where there is none."""
        page = await self.read(session_id, after=NEWEST, limit=1, kinds=())
        return page.newest

    async def list_page(
        self, session_id: str, *, since: int | None, limit: int, kinds: Sequence[str]
    ) -> Reply:
        """Events after the id `since`, oldest first; without it the newest that are kept."""
        check_session_name(session_id)
        after = max(0, await self.newest(session_id) - limit) if since is None else since
        page = await self.read(session_id, after=after, limit=limit, kinds=kinds)
        gap = None if since is None else find_gap(page, since)
        if gap is not None and gap.resume <= gap.after:
            page = await self.read(session_id, after=0, limit=limit, kinds=kinds)
        events = [self.show(event_of(session_id, stored)).as_wire() for stored in page.events]
        lines = [event_line(event) for event in events]
        if gap is not None:
            lines.insert(0, gap_line(gap.as_wire()))
        summary = f"{len(events)} events, the newest kept is {page.newest}"
        return Reply(
            "\n".join(lines) or "no events",
            {
                "summary": summary,
                "events": events,
                "gap": None if gap is None else gap.as_wire(),
                "resume": page.read_to,
                "newest": page.newest,
                "warnings": [],
            },
        )

    def show(self, event: Event) -> Event:
        """The event without texts of concepts whose removal is answered but not yet committed."""
        is_live = self._find_live(event.session_id)
        if is_live is None:
            return event
        data = shown(event.data, is_live)
        return event if data is event.data else replace(event, data=data)

    def forget(self, session_id: str) -> None:
        """Let go of what waits in memory for a session's listeners; they read it in the log."""
        for listener in self._listeners.get(session_id, ()):
            listener.fall_behind()

    async def until_left(self, seconds: float) -> None:
        """Wait until nobody listens any more, if that does not take long."""
        if self._count:
            self._left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._left.wait()

    def end(self) -> None:
        """Let every listener end, and take no more."""
        self._is_over = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.end()


def find_gap(page: EventPage, place: int) -> Gap | None:
    """What is missing between a place and what a page of the log begins with."""
    if place + 1 < page.oldest or place > page.newest:
        return Gap(place, page.oldest)
    return None


def event_of(session_id: str, stored: StoredEvent) -> Event:
    """An event as it is told."""
    return Event(
        session_id,
        stored.id,
        stored.position,
        stored.kind,
        stored.agent_id,
        stored.occurred_at,
        stored.data,
    )
