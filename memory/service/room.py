"""How many sessions a process holds, and how much of its memory: who is put away when.

Owns the places of sessions that are being opened and the choice of whom to put away: the least
recently used that is idle. Puts nothing away itself.

Invariant: at most `open_sessions_max` sessions are open or opening. Over `resident_bytes_max` the
sessions held shrink until they fit, one is left, or all the others are busy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from memory.engine.config import Config
from memory.engine.errors import LamboError, TooManySessions
from memory.service.memory import Memory

log = logging.getLogger("lambo.host")


class Room:
    """The places for open sessions. Use it on one event loop."""

    def __init__(
        self,
        config: Config,
        *,
        open_memories: Callable[[], Mapping[str, Memory]],
        may_go: Callable[[str], bool],
        put_away: Callable[[str], Awaitable[object]],
    ) -> None:
        """`may_go` tells whether anything but its own work keeps a session open."""
        self._sessions_max = config.open_sessions_max
        self._bytes_max = config.resident_bytes_max
        self._open_memories = open_memories
        self._may_go = may_go
        self._put_away = put_away
        self._lock = asyncio.Lock()
        self._placed: set[asyncio.Task[Any]] = set()  # openings that have a place

    async def take_place(self, opening: asyncio.Task[Any]) -> None:
        """Keep a place for one more session, putting others away until it fits.

        Raises `TooManySessions` when all are busy.
        """
        async with self._lock:
            while len(self._open_memories()) + len(self._placed) >= self._sessions_max:
                name = self._least_recently_used()
                if name is not None:
                    await self._put_away(name)
                elif self._placed:
                    await asyncio.wait(self._placed, return_when=asyncio.FIRST_COMPLETED)
                else:
                    raise TooManySessions(
                        f"all {self._sessions_max} open sessions are busy",
                        retry_after_seconds=1.0,
                    )
            self._placed.add(opening)

    def give_back(self, opening: asyncio.Task[Any]) -> None:
        """The session is open and counted as such, or could not be opened."""
        self._placed.discard(opening)

    def resident_bytes(self) -> int:
        """What the open sessions take up, by their own estimates."""
        return sum(memory.resident_bytes for memory in self._open_memories().values())

    async def shrink(self) -> None:
        """Put idle sessions away until the rest fits; the one used last always stays."""
        async with self._lock:
            while (held := self.resident_bytes()) > self._bytes_max:
                name = self._least_recently_used(but_the_newest=True)
                if name is None:
                    return
                log.info("session %r is put away: %d bytes are held", name, held)
                try:
                    await self._put_away(name)
                except LamboError as error:  # it got busy; the next look tries again
                    log.warning("session %r is not put away: %s", name, error)
                    return

    def _least_recently_used(self, *, but_the_newest: bool = False) -> str | None:
        """A session whose writes were stopped stays: put away, it would start anew unseen."""
        memories = self._open_memories()
        used = sorted((memory.last_used, name) for name, memory in memories.items())
        for _, name in used[:-1] if but_the_newest else used:
            memory = memories[name]
            if memory.is_idle and not memory.is_fenced and self._may_go(name):
                return name
        return None
