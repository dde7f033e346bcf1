"""The thread behind the committer: it alone calls the store's writing side.

The event loop hands over groups and jobs (lease calls, deletions) and gets settlements back in one
wake-up per batch. Jobs run between batches, in order, also while a refused batch waits for its next
attempt.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from memory.engine.config import Config
from memory.engine.mutations import Group
from memory.engine.ports import Clock, GraphStore, StoreTransient
from memory.service.committer import Committer, Settled
from memory.service.measures import NO_MEASURES, Measures

log = logging.getLogger("lambo.committer")
T = TypeVar("T")


class CommitterThread:
    """Drives one `Committer`. Created and used on the event loop's thread."""

    def __init__(
        self,
        store: GraphStore,
        *,
        node_id: str,
        config: Config,
        clock: Clock,
        on_settled: Callable[[Sequence[Settled]], None],
        on_failure: Callable[[], None],
        measures: Measures = NO_MEASURES,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_settled = on_settled
        self._on_failure = on_failure
        self._clock = clock
        self._away_after_seconds = config.away_after_seconds
        self.committer = Committer(
            store,
            node_id=node_id,
            config=config,
            clock=clock,
            deliver=self._deliver,
            measures=measures,
        )
        self._store = store
        self._wake = threading.Condition()
        self._groups: list[tuple[Group, int]] = []
        self._jobs: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._draining: list[Future[None]] = []
        self._stopping = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="lambo-committer", daemon=True)
        self._thread.start()

    def submit(self, group: Group, incarnation: int) -> None:
        """Queue a group; its settlement comes through `on_settled` on the event loop."""
        with self._wake:
            self._groups.append((group, incarnation))
            self._wake.notify()

    async def run(self, job: Callable[[], T]) -> T:
        """Run a blocking call on the committer's thread and await its result."""
        future: Future[T] = Future()
        with self._wake:
            if self._stopping or self._failure is not None:
                raise StoreTransient("the committer has stopped; the server must be restarted")
            self._jobs.append((job, future))
            self._wake.notify()
        return await asyncio.wrap_future(future)

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait until everything handed over is settled; False when time ran out first."""
        future: Future[None] = Future()
        with self._wake:
            self._draining.append(future)
            self._wake.notify()
            if self._failure is not None:
                return False
        done, _ = await asyncio.wait([asyncio.wrap_future(future)], timeout=timeout_seconds)
        return bool(done) and done.pop().exception() is None

    @property
    def is_away(self) -> bool:
        """Whether a batch has been unsettled for long enough to call the store away."""
        since = self.committer.unsettled_since
        return since is not None and self._clock.monotonic() - since >= self._away_after_seconds

    @property
    def has_failed(self) -> bool:
        """Whether a bug ended the thread; nothing is acknowledged any more."""
        return self._failure is not None

    async def stop(self) -> None:
        """End the thread after the step in hand. Unsettled groups stay unsettled."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        # A store call that hangs would hang the shutdown: the thread is a daemon, and is left.
        await asyncio.to_thread(self._thread.join, 5.0)

    # -- the committer's own thread ---------------------------------------------------------------

    def _run(self) -> None:
        try:
            delay: float | None = None
            while True:
                groups, jobs, stopping = self._collect(delay)
                for group, incarnation in groups:
                    self.committer.submit(group, incarnation)
                for job, future in jobs:
                    _run_job(job, future)
                if stopping:
                    break
                delay = self.committer.step(drain=bool(self._draining))
                self._answer_drains()
        except BaseException as error:
            # A bug here must not look like a slow store: the process says so and stops writing.
            log.critical("the committer stopped on an unexpected error", exc_info=error)
            self._fail(error)
        finally:
            self._store.close()

    def _fail(self, error: BaseException) -> None:
        """Answer everybody who waits, and tell the event loop."""
        with self._wake:
            self._failure = error
            jobs, self._jobs = self._jobs, []
            draining, self._draining = self._draining, []
        stopped = StoreTransient("the committer has stopped; the server must be restarted")
        for _, future in jobs:
            future.set_exception(stopped)
        for waiting in draining:
            waiting.set_exception(stopped)
        self._loop.call_soon_threadsafe(self._on_failure)

    def _collect(
        self, delay: float | None
    ) -> tuple[list[tuple[Group, int]], list[tuple[Callable[[], Any], Future[Any]]], bool]:
        with self._wake:
            if not (self._groups or self._jobs or self._stopping or self._can_drain(delay)):
                self._wake.wait(delay)
            groups, self._groups = self._groups, []
            jobs, self._jobs = self._jobs, []
            return groups, jobs, self._stopping

    def _can_drain(self, delay: float | None) -> bool:
        # While a retry waits its turn there is nothing a drain could hurry.
        return (bool(self._draining) and self.committer.unsettled_since is None) or delay == 0.0

    def _answer_drains(self) -> None:
        with self._wake:
            if self._groups or not self.committer.is_idle:
                return
            waiting, self._draining = self._draining, []
        for future in waiting:
            future.set_result(None)

    def _deliver(self, settled: Sequence[Settled]) -> None:
        self._loop.call_soon_threadsafe(self._on_settled, settled)


def _run_job(job: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except Exception as error:  # noqa: BLE001 - the awaiting caller gets it, whatever it is
        future.set_exception(error)
