"""An event loop without a clock, threads or sockets: time passes when nobody has anything to do.

What would run on a worker thread runs on the loop, after a wait that the caller of the loop draws.
So a run of the service with its real loops, waits and time-outs depends on nothing but its seed.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from memory.testing import ManualClock

T = TypeVar("T")


class NothingLeft(Exception):
    """Everybody waits for something that nobody will bring about."""


class _Waits(selectors.SelectSelector):
    """Instead of waiting for files, lets the time pass that was to be waited."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise NothingLeft("every task waits, and no timer is set")
        if timeout > 0:
            self._clock.advance(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs on a manual clock. `draw_wait` tells how long a worker thread takes to get to a call."""

    def __init__(self, clock: ManualClock, draw_wait: Callable[[], float]) -> None:
        self._manual = clock
        self._draw_wait = draw_wait
        super().__init__(_Waits(clock))

    def time(self) -> float:
        return self._manual.monotonic()

    def _write_to_self(self) -> None:
        """There is no other thread to be woken from."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  # the awaiting caller gets it
                future.set_exception(error)

        self.call_later(self._draw_wait(), run)
        return future


def run_virtually(
    clock: ManualClock, draw_wait: Callable[[], float], main: Coroutine[Any, Any, T]
) -> T:
    """The result of a coroutine on a loop of its own."""
    loop = VirtualLoop(clock, draw_wait)
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
