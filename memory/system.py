"""The real clock and sources of ids and tokens; tests use the doubles of `memory.testing`."""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import Final

from memory.engine.times import Micros
from memory.engine.tokens import DrawnToken
from memory.engine.types import NodeId

_COUNTER_BITS: Final = 12
_MILLISECONDS_MAX: Final = (1 << 48) - 1


class SystemClock:
    """The operating system's clocks."""

    def now(self) -> Micros:
        """Wall time, microseconds since the epoch."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that only grow, for waits."""
        return time.monotonic()


class RandomIds:
    """Ids from the operating system's randomness. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ticks = -1  # milliseconds, then a counter within them

    def next_id(self) -> NodeId:
        """A random UUID (version 4)."""
        return _uuid_text(int.from_bytes(_drawn.pop_16()), version=4)

    def next_ordered_id(self, now: Micros) -> NodeId:
        """A UUID (version 7) that sorts after every earlier one, also when `now` stands or falls.

        The 12 bits after the milliseconds count the ids of one millisecond. When they run out, or
        when the clock is behind, the time part runs ahead of `now`.
        """
        milliseconds = min(max(now // 1000, 0), _MILLISECONDS_MAX)
        with self._lock:
            self._ticks = max(self._ticks + 1, milliseconds << _COUNTER_BITS)
            ticks = self._ticks
        millisecond_part, counter = divmod(ticks, 1 << _COUNTER_BITS)
        bits = (millisecond_part << 80) | (counter << 64) | int.from_bytes(os.urandom(8))
        return _uuid_text(bits, version=7)


class _Drawn:
    """Random bytes, drawn many at once.

    Asking the system lets other threads run, and each of them may keep Python's lock for a while: a
    write would wait five times for its five ids.
    """

    _DRAWN_BYTES: Final = 4_096

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def pop_16(self) -> bytes:
        while True:
            try:
                return self._chunks.pop()  # one step, so no two threads get the same
            except IndexError:
                drawn = os.urandom(self._DRAWN_BYTES)
                self._chunks += [drawn[at : at + 16] for at in range(0, len(drawn), 16)]

    def forget(self) -> None:
        self._chunks.clear()


_drawn: Final = _Drawn()
# A forked child would hand out the ids of its parent again.
os.register_at_fork(after_in_child=_drawn.forget)


def _uuid_text(bits: int, *, version: int) -> NodeId:
    """128 bits as UUID text, with the version and the variant of RFC 9562 put in."""
    bits &= ~(0xF << 76) & ~(0x3 << 62)
    bits |= version << 76 | 0x2 << 62
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def draw_token() -> DrawnToken:
    """A token nobody can guess: 64 bits to find it by, 256 to open with."""
    return DrawnToken(secrets.token_hex(8), secrets.token_urlsafe(32))
