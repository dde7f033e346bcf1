"""What the watcher of the loop says it saw."""

from __future__ import annotations

import asyncio

import pytest

from memory.service.loop_lag import INTERVAL_SECONDS, WINDOW_SECONDS, LagReport, LoopLag


class Hands:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_report_when_nothing_was_seen_then_zeros() -> None:
    assert LoopLag().report() == LagReport()


def test_report_tells_the_worst_and_the_99th_percentile() -> None:
    hands = Hands()
    lag = LoopLag(hands)
    for at in range(200):
        lag.note(at / 100, 0.001)
    lag.note(2.0, 0.5)
    hands.now = 3.0
    assert lag.report() == LagReport(p99_ms=1.0, max_ms=500.0, over_seconds=3.0)


def test_report_when_a_hold_is_long_past_then_forgotten() -> None:
    hands = Hands()
    lag = LoopLag(hands)
    lag.note(0.0, 0.5)
    hands.now = WINDOW_SECONDS + 1
    lag.note(hands.now, 0.001)
    assert lag.report().max_ms == 1.0


async def test_watch_notes_by_how_much_the_timer_was_late() -> None:
    hands = Hands()
    noted: asyncio.Queue[float] = asyncio.Queue()

    class Noting(LoopLag):
        def note(self, at: float, late_seconds: float) -> None:
            noted.put_nowait(late_seconds)

    watching = asyncio.create_task(Noting(hands).watch(is_busy=lambda: True))
    await asyncio.sleep(0)  # it has taken the time from which its timer counts
    hands.now = INTERVAL_SECONDS + 1
    assert await noted.get() == pytest.approx(1)
    watching.cancel()
