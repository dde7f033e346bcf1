"""How late the event loop is: what every caller waits for when one step takes too long.

A timer that is due every few milliseconds notes how late it fires. Whatever holds the loop delays
it by as much, so the largest lateness bounds from below the longest step of the time looked at.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

INTERVAL_SECONDS: Final = 0.01
"""Between two looks; a step that is shorter may pass unseen."""
IDLE_INTERVAL_SECONDS: Final = 0.25
"""The same while nobody calls: a server at rest must not keep a laptop awake."""
WINDOW_SECONDS: Final = 10.0
"""How far back a report looks."""


@dataclass(frozen=True, slots=True)
class LagReport:
    """Lateness over the last `over_seconds`, in milliseconds; zeros while nothing was seen."""

    p99_ms: float = 0.0
    max_ms: float = 0.0
    over_seconds: float = 0.0

    def as_wire(self) -> dict[str, float]:
        return {
            "p99_ms": round(self.p99_ms, 2),
            "max_ms": round(self.max_ms, 2),
            "over_seconds": round(self.over_seconds, 1),
        }


class LoopLag:
    """Watches the loop on which `watch` runs. `monotonic` tells seconds that only grow."""

    def __init__(
        self,
        monotonic: Callable[[], float] = perf_counter,
        *,
        tell: Callable[[float], None] | None = None,
    ) -> None:
        """`tell` is given every lateness, in seconds."""
        self._monotonic = monotonic
        self._tell = tell
        self._seen: deque[tuple[float, float]] = deque(
            maxlen=round(WINDOW_SECONDS / INTERVAL_SECONDS)
        )  # looked at, seconds late

    async def watch(self, *, is_busy: Callable[[], bool]) -> None:
        """Look until cancelled, closely while `is_busy`."""
        while True:
            interval = INTERVAL_SECONDS if is_busy() else IDLE_INTERVAL_SECONDS
            due = self._monotonic() + interval
            await asyncio.sleep(interval)
            now = self._monotonic()
            self.note(now, max(0.0, now - due))

    def note(self, at: float, late_seconds: float) -> None:
        """Keep one look at the timer."""
        self._seen.append((at, late_seconds))
        if self._tell is not None:
            self._tell(late_seconds)

    def report(self) -> LagReport:
        """What was seen in the last `WINDOW_SECONDS`."""
        now = self._monotonic()
        inside = [(at, late) for at, late in self._seen if at >= now - WINDOW_SECONDS]
        if not inside:
            return LagReport()
        late = sorted(late for _, late in inside)
        return LagReport(
            p99_ms=1_000 * late[int(0.99 * len(late))],
            max_ms=1_000 * late[-1],
            over_seconds=now - inside[0][0],
        )
