"""The clock and the ids of the demo's private server: two runs print the same bytes.

Both depend on what was written and on nothing else. This module owns them and the name of the
variable that asks for them; the composition root puts them in place of the real ones. It refuses
every session but one named for the demo: memories of real work must never carry made-up times.
"""

from __future__ import annotations

import time
from typing import Final

from memory.engine.errors import Forbidden
from memory.engine.times import SECOND, Micros

DEMO_VARIABLE: Final = "LAMBO_DEMO"
"""Set to 1 by `lambo demo` alone, for the server it starts."""

SESSION_PREFIX: Final = "demo-"
BASE: Final[Micros] = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z
STEP: Final[Micros] = 10_000  # 10 ms


def check_demo_session(session: str) -> None:
    """Refuse a session that the demo profile is not for."""
    if not session.startswith(SESSION_PREFIX):
        raise Forbidden(
            f"this server runs the demo profile and serves only sessions named {SESSION_PREFIX}...",
            session=session,
        )


class SequentialIds:
    """Ids that count: the n-th one is the same in every run. Satisfies the engine's `IdSource`."""

    def __init__(self) -> None:
        self.taken = 0
        self._ordered = 0

    def next_id(self) -> str:
        """The next number in the form of a version 4 UUID; later ones sort after earlier ones."""
        self.taken += 1
        return f"00000000-0000-4000-8000-{self.taken:012x}"

    def next_ordered_id(self, now: Micros) -> str:
        """The next number of a second count, in the form of a version 7 UUID.

        Audit rows take these: they are no sign of a write, by which the clock moves.
        """
        self._ordered += 1
        return f"00000000-0000-7000-8000-{self._ordered:012x}"


class DemoClock:
    """A clock that moves by 10 ms for every write and stands still in between.

    A write reads the clock and then takes ids; a reading that finds ids taken since the last one is
    the start of what follows a write. So the n-th interaction is stamped n * 10 ms after the base,
    however often questions, heartbeats and leases look at the clock. Waits use real seconds.
    """

    def __init__(self, ids: SequentialIds) -> None:
        self._ids = ids
        self._seen = 0
        self._now: Micros = BASE

    def now(self) -> Micros:
        """Wall time, as the script has it."""
        if self._ids.taken != self._seen:
            self._seen = self._ids.taken
            self._now += STEP
        return self._now

    def monotonic(self) -> float:
        """Real seconds, for waits and deadlines."""
        return time.monotonic()
