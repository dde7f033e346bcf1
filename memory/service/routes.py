"""Whose groups a settlement speaks of: from incarnations to the memories that made the groups.

Owns the way of the committer's word back to the open memories. Opens and drops nothing by itself.

Invariant: a memory that was replaced or put away hears of its own groups until the last is settled,
and never of those of its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memory.engine.mutations import Group
from memory.service.committer import Outcome, Settled
from memory.service.held_sessions import Held
from memory.service.memory import Memory


class Routes:
    """The routes of one host. Use it on one event loop."""

    def __init__(self, held: Mapping[str, Held], tell: Callable[[Group], None]) -> None:
        """`tell` is given each group that was committed."""
        self._held = held
        self._tell = tell
        self._memories: dict[int, Memory] = {}

    def add(self, incarnation: int, memory: Memory) -> None:
        """Lead the settlements of an incarnation to its memory."""
        self._memories[incarnation] = memory

    def drop(self, memory: Memory) -> None:
        """Nothing of this memory is unsettled any more."""
        self._memories = {at: one for at, one in self._memories.items() if one is not memory}

    def __len__(self) -> int:
        """How many incarnations are led somewhere."""
        return len(self._memories)

    def on_settled(self, settled: Sequence[Settled]) -> None:
        """Take the store's word on groups, in order."""
        for item in settled:
            memory = self._memories.get(item.incarnation)
            if memory is None:
                continue
            entry = self._held.get(item.group.session_id)
            if entry is not None and entry.memory is memory:
                entry.confirmed_at = item.settled_at
            memory.on_settled(item)
            if item.outcome is Outcome.COMMITTED:
                self._tell(item.group)
            if memory.is_fenced and memory.unsettled_count == 0:
                del self._memories[item.incarnation]
