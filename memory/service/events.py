"""What happened, told to listeners: writes and steps of a status after they are committed, and what
the background cycles found.

Each listener has a bounded queue of its own: a slow one loses the oldest events and is told how
many in a `Gap`; it never holds up a writer. Ids are positions of the session's log: they never
fall; a finding has the position up to which the session was looked at.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from memory.engine.mutations import ApplyTransition, Group
from memory.engine.times import Micros
from memory.engine.types import Status, Transition
from memory.service.cycles import Finding

LISTENER_EVENTS: Final = 256
"""Events kept for one listener that does not read."""


@dataclass(frozen=True, slots=True)
class Event:
    """A committed write: `kind` is its verb, `data` the structured reply its caller got.

    Or a step of a status: `canonized` or `demoted`, with the concept and both statuses. Or a
    finding of the background cycles: `conflict`, `high-risk`, `drift` or `stale`.
    """

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
        """Tell every listener of a committed group's session; one without listeners costs nothing.

        A group that nobody asked for is told by the steps of a status in it alone.
        """
        listeners = self._listeners.get(group.session_id)
        if not listeners:
            return
        events = []
        if group.call is not None and group.receipt is not None:
            kind, agent = group.call.verb, group.call.agent_id
            events.append(_event(group, kind, agent, group.receipt.reply["structured"]))
        for mutation in group.mutations:
            if isinstance(mutation, ApplyTransition):
                step = mutation.transition
                kind = "demoted" if step.to_status is Status.NONE else "canonized"
                events.append(_event(group, kind, step.actor, _step_data(step)))
        _deliver(listeners, events)

    def tell_found(
        self, session_id: str, found: Sequence[Finding], position: int, now: Micros
    ) -> None:
        """Tell every listener what the background cycles of a session found."""
        listeners = self._listeners.get(session_id)
        if listeners:
            _deliver(
                listeners,
                [Event(session_id, position, one.kind, "", now, dict(one.data)) for one in found],
            )

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
                    if listener.queue:  # all that was told may be forgotten again by now
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

    def forget(self, session_id: str) -> None:
        """Drop what a session's listeners have not read yet; they are told of a gap."""
        for listener in self._listeners.get(session_id, ()):
            listener.lost += len(listener.queue)
            listener.queue.clear()

    def end(self) -> None:
        """Let every listener finish what it has and stop."""
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.is_over = True
                listener.news.set()


def _event(group: Group, kind: str, agent_id: str, data: dict[str, Any]) -> Event:
    return Event(group.session_id, group.position, kind, agent_id, group.created_at, data)


def _step_data(step: Transition) -> dict[str, Any]:
    return {
        "node_id": step.node_id,
        "from_status": str(step.from_status),
        "to_status": str(step.to_status),
        "blast_radius": step.blast_radius,
        "reason": step.reason,
    }


def _deliver(listeners: Iterable[_Listener], events: Sequence[Event]) -> None:
    for listener in listeners:
        for event in events:
            listener.tell(event)
