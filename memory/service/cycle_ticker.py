"""The pulse of a server: a round of the background cycles in every open session, once a second.

Owns when a session is looked at: at each tick, and soon after it was written. Writes that come
close together are looked at together, and a session whose rounds take long waits the longer between
two of them. A fault in one session is counted and logged there; the others go on.

Invariant: a round is one synchronous step. Ticks that are late are one, not many.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from memory.engine.errors import LamboError
from memory.engine.events import EventKind, Notice
from memory.engine.ports import Clock
from memory.service.cycles import Finding
from memory.service.memory import Memory

log = logging.getLogger("lambo.cycles")

TICK_SECONDS: Final = 1.0
ACCESS_SECONDS: Final = 5.0
"""Between two writings of what was shown of a session."""
CALM_AFTER_SECONDS: Final = 60.0
"""Without a write for so long, nothing but time moves a session,"""
CALM_TICKS: Final = 15
"""and it is looked at in one tick of these: many sessions are open, and few are written."""
AFTER_WRITE_SECONDS: Final = 0.05
"""At the earliest, from a write to the round that looks at it."""
ROUND_SHARE: Final = 20
"""Rounds that follow writes take at most one part in this many of the time."""


class CycleTicker:
    """One task of a host. Use it on one event loop."""

    def __init__(
        self,
        memories: Callable[[], Mapping[str, Memory]],
        *,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        collect: Callable[[Memory], Awaitable[object]],
    ) -> None:
        """`collect` sweeps a session that is due."""
        self._memories = memories
        self._clock = clock
        self._spawn = spawn
        self._collect = collect
        self._asked: dict[str, float] = {}  # when to look at a session that was written
        self._flushed_at: dict[str, float] = {}  # what was shown, by session
        self._active_at: dict[str, float] = {}  # last write, or first look
        self._ticks = 0
        self._news = asyncio.Event()
        self.failures: Counter[str] = Counter()
        """Rounds and sweeps that failed, by session, while it was open."""

    def look_soon(self, session_id: str) -> None:
        """Look at a session that was written; asking again before that changes nothing."""
        self._active_at[session_id] = self._clock.monotonic()
        if session_id in self._asked:
            return
        memory = self._memories().get(session_id)
        took = 0.0 if memory is None else memory.round_seconds
        wait = max(AFTER_WRITE_SECONDS, ROUND_SHARE * took)
        self._asked[session_id] = self._clock.monotonic() + wait
        self._news.set()

    async def run(self) -> None:
        """Tick until cancelled."""
        next_tick = self._clock.monotonic() + TICK_SECONDS
        while True:
            await self._sleep_until(min([next_tick, *self._asked.values()]))
            now = self._clock.monotonic()
            if now >= next_tick:
                await self.tick()
                next_tick = self._clock.monotonic() + TICK_SECONDS
            else:
                await self._look_at([name for name, at in self._asked.items() if at <= now])

    async def tick(self) -> None:
        """Look at every open session that may have moved, one after the other."""
        self._ticks += 1
        names = sorted(self._memories())
        for kept in (self.failures, self._flushed_at, self._active_at):
            for gone in kept.keys() - set(names):
                del kept[gone]
        await self._look_at([name for name in names if not self._may_rest(name)])

    def _may_rest(self, name: str) -> bool:
        """Whether a session was not written for long, and this is not its turn."""
        now = self._clock.monotonic()
        is_calm = now - self._active_at.setdefault(name, now) > CALM_AFTER_SECONDS
        return is_calm and self._ticks % CALM_TICKS != 0

    async def _sleep_until(self, at: float) -> None:
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, at - self._clock.monotonic())):
                await self._news.wait()

    async def _look_at(self, names: Sequence[str]) -> None:
        for name in names:
            self._asked.pop(name, None)
            memory = self._memories().get(name)
            if memory is not None:
                self._look_at_one(name, memory)
            await asyncio.sleep(0)

    def _look_at_one(self, name: str, memory: Memory) -> None:
        cycles = memory.cycles
        if cycles is None or not memory.takes_cycles():
            return
        began, now = self._clock.monotonic(), self._clock.now()
        try:
            found = cycles.run_round(memory.graph, now)
            note = cycles.due_note()
            if note is not None or found:
                # Nothing was awaited since it was asked whether the session takes this.
                memory.queue(() if note is None else (note,), [_notice(one) for one in found])
            if began - self._flushed_at.get(name, float("-inf")) >= ACCESS_SECONDS:
                self._flushed_at[name] = began
                memory.write_accesses()
            is_due = cycles.needs_collection(now)
        except Exception:  # noqa: BLE001  # logged below; other sessions go on
            self._note_failure(name)
            return
        memory.round_seconds = self._clock.monotonic() - began
        memory.measures.cycle_ran("round", memory.round_seconds)
        if is_due and not memory.cycle_turn.locked():
            self._spawn(self._collect_one(name, memory))

    async def _collect_one(self, name: str, memory: Memory) -> None:
        try:
            await self._collect(memory)
        except LamboError as error:
            log.warning("the sweep of session %r is put off: %s", name, error)
        except Exception:  # noqa: BLE001  # as above
            self._note_failure(name)

    def _note_failure(self, name: str) -> None:
        self.failures[name] += 1
        count = self.failures[name]
        if count & (count - 1) == 0:  # one that fails every second must not fill the log
            log.exception("a cycle of session %r failed (%d so far)", name, count)


def _notice(found: Finding) -> Notice:
    """A finding as listeners are told."""
    return Notice(EventKind(found.kind), {"node_id": found.node_id, **found.data})
