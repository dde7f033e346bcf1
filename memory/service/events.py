"""What happened, told to listeners after it is committed.

Each listener has a bounded queue of its own: a slow one loses the oldest events and is told how
many in a `Gap`; it never holds up a writer. Ids are positions of the session's log: they increase.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from memory.engine.mutations import Group
from memory.engine.times import Micros

LISTENER_EVENTS: Final = 256
"""Events kept for one listener that does not read."""


@dataclass(frozen=True, slots=True)
class Event:
    """A committed write. `kind` is its verb, `data` the structured reply its caller got."""

    session_id: str
    id: int
    kind: str
    agent_id: str
    occurred_at: Micros
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gap:
    """`lost` events were dropped here because this listener did not keep up."""

    lost: int


Told: TypeAlias = Event | Gap


class _Listener:
    def __init__(self) -> None:
        self.queue: deque[Event] = deque()
        self.lost = 0
        self.is_over = False
        self.news = asyncio.Event()

    def tell(self, event: Event) -> None:
        if len(self.queue) == LISTENER_EVENTS:
            self.queue.popleft()
            self.lost += 1
        self.queue.append(event)
        self.news.set()


class EventFeed:
    """Fan-out of committed events, by session. Use it on one event loop."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[_Listener]] = {}

    def tell(self, group: Group) -> None:
        """Tell every listener of a committed group's session; one that nobody asked for is none."""
        listeners = self._listeners.get(group.session_id)
        if not listeners or group.call is None or group.receipt is None:
            return
        event = Event(
            session_id=group.session_id,
            id=group.position,
            kind=group.call.verb,
            agent_id=group.call.agent_id,
            occurred_at=group.created_at,
            data=group.receipt.reply["structured"],
        )
        for listener in listeners:
            listener.tell(event)

    async def listen(self, session_id: str) -> AsyncIterator[Told]:
        """Events of a session from now on, until the feed ends or the caller stops asking."""
        listener = _Listener()
        self._listeners.setdefault(session_id, set()).add(listener)
        try:
            while True:
                while listener.queue or listener.lost:
                    if listener.lost:
                        lost, listener.lost = listener.lost, 0
                        yield Gap(lost)
                    yield listener.queue.popleft()
                if listener.is_over:
                    return
                listener.news.clear()
                await listener.news.wait()
        finally:
            listeners = self._listeners[session_id]
            listeners.discard(listener)
            if not listeners:
                del self._listeners[session_id]

    def end(self) -> None:
        """Let every listener finish what it has and stop."""
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.is_over = True
                listener.news.set()
