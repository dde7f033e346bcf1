"""The calendar's clock inside the server: asks for the jobs that no worker process asks for.

Owns when it asks next. What a job does, and whether it is due at all, is the calendar's. Keeps no
list of what it missed: after a pause each job is asked for once.

Invariant: a job that fails is asked for again after its interval, and never keeps another waiting
for its own time by more than the run of it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from memory.engine.errors import LamboError
from memory.engine.ports import Clock
from memory.service.jobs import Calendar

log = logging.getLogger("lambo.jobs")

FIRST_SECONDS: Final = 10.0
"""How long after the start a job is first asked for, if its interval is not shorter: what was
missed while no server ran is made up for, but not while callers wait for the server to come up."""
PAUSE_SECONDS_MAX: Final = 60.0


class Ticker:
    """One task of a host. Use it on one event loop."""

    def __init__(self, calendar: Calendar, *, clock: Clock) -> None:
        self._calendar = calendar
        self._clock = clock
        now = clock.monotonic()
        self._next_at = {
            job.name: now + min(FIRST_SECONDS, job.interval_seconds) for job in calendar.ticked
        }

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            await asyncio.sleep(min(self.seconds_to_next(), PAUSE_SECONDS_MAX))
            await self.tick()

    def seconds_to_next(self) -> float:
        """How long until a job is to be asked for; at least 0."""
        first = min(self._next_at.values(), default=float("inf"))
        return max(0.0, first - self._clock.monotonic())

    async def tick(self) -> None:
        """Ask for every job whose time has come, one after the other."""
        for job in self._calendar.ticked:
            if self._next_at[job.name] > self._clock.monotonic():
                continue
            self._next_at[job.name] = self._clock.monotonic() + job.interval_seconds
            try:
                await self._calendar.run(job.name)
            except LamboError as error:
                log.warning("%s is put off: %s", job.name, error)
            except Exception:  # the edge of a loop that must not end
                log.exception("%s could not be run", job.name)
