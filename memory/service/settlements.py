"""The way of the committer's word to the memory whose group it speaks of, and to the listeners.

Owns which incarnation belongs to which memory. A memory that was replaced or put away is found no
more, so nothing reaches its successor that was not meant for it.

Invariant: a listener hears of a group after its memory does, and only of one that is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.service.committer import Outcome, Settled
from memory.service.events import EventFeed
from memory.service.held_sessions import Held
from memory.service.memory import Memory


class Settlements:
    """The routes of one host. Use it on one event loop."""

    def __init__(self, held: Mapping[str, Held], events: EventFeed) -> None:
        self._held = held
        self._events = events
        self._routes: dict[int, Memory] = {}  # by incarnation

    def expect(self, incarnation: int, memory: Memory) -> None:
        """Groups of this incarnation are this memory's."""
        self._routes[incarnation] = memory

    def drop(self, memory: Memory) -> None:
        """Tell a memory nothing more."""
        self._routes = {at: held for at, held in self._routes.items() if held is not memory}

    def deliver(self, settled: Sequence[Settled]) -> None:
        """Take the committer's word on groups, in log order."""
        for item in settled:
            memory = self._routes.get(item.incarnation)
            if memory is None:
                continue
            entry = self._held.get(item.group.session_id)
            if entry is not None and entry.memory is memory:
                entry.confirmed_at = item.settled_at
            memory.on_settled(item)
            if item.outcome is Outcome.COMMITTED:
                self._events.tell(item.group)
            if memory.is_fenced and memory.unsettled_count == 0:
                del self._routes[item.incarnation]
