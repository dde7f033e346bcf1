"""What the cluster's own process does: schedules brought up to date, then django-q2's guard.

Started by `cluster` in a session of its own, named by Q_CLUSTER_NAME, with a pipe as standard
input. The guard runs here rather than in one more process, and differs from django-q2's in two
points: it watches the pipe, and it takes the death of a worker by another's hand for its own. A
worker that is killed while it waits holds the lock of the queue for ever, so the next one would
never be given anything.

Invariant: no process of the cluster outlives the server or the guard.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import sys
import threading
import uuid
from typing import TYPE_CHECKING, Any, Final

PR_SET_PDEATHSIG: Final = 1  # prctl(2)
STDIN: Final = 0
RECYCLED: Final = -2
"""What a worker leaves in its timer when it ends to make room for a fresh one; 0 is its timeout."""

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

logger = logging.getLogger("lambo.jobs")


class StopSwitch:
    """What the guard waits on between two looks: SIGTERM, or the end of the server.

    Stands in for an event of multiprocessing, which must not be set by a signal's handler.
    """

    def __init__(self, server: int) -> None:
        """`server` is the pipe that ends with the server."""
        self._server = server
        self._is_set = False
        self._waking, self._wake = os.pipe()

    def set(self) -> None:
        """Make `wait` return, now or when it is called; may be called from a signal handler."""
        self._is_set = True
        os.write(self._wake, b".")

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Whether to stop, at the latest after some seconds."""
        readable, _, _ = select.select([self._server, self._waking], [], [], seconds)
        if self._server in readable:
            end_everything()
        return self._is_set


def end_everything() -> None:
    """End this process and all it has made, at once. What was queued is still queued."""
    assert os.getpgrp() == os.getpid(), "a cluster has a process group of its own"
    os.killpg(0, signal.SIGKILL)


def die_with(parent: int) -> None:
    """Have the system end this process when its parent ends. Linux only; elsewhere the guard's
    watch on the pipe has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main() -> None:
    """Guard a cluster until told to stop."""
    import django

    django.setup(set_prefix=False)
    from django.utils import timezone
    from django_q.brokers import get_broker
    from django_q.conf import Conf
    from django_q.scheduler import scheduler

    from memory.client import LamboClient
    from memory.management.schedules import bring_schedules_up_to_date, release_tasks

    guard = os.getpid()
    os.register_at_fork(after_in_child=lambda: _become_worker(guard))
    with LamboClient.local(django.conf.settings.PROCESS.data_dir, as_operator=True) as client:
        jobs = client.list_jobs()["structured"]["jobs"]
    bring_schedules_up_to_date(jobs, node_id=Conf.CLUSTER_NAME, now=timezone.now())
    release_tasks(Conf.CLUSTER_NAME, timezone.now())
    scheduler(get_broker())  # what is due is due now, not at the guard's first look
    _guard_class()(StopSwitch(STDIN), threading.Event(), uuid.uuid4())


def _become_worker(guard: int) -> None:
    """Undo in a forked process what is the guard's alone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with(guard)


def _guard_class() -> Any:
    from django_q.cluster import Sentinel

    class Guard(Sentinel):  # type: ignore[misc]
        """django-q2's guard, with the two differences this module tells."""

        stop_event: StopSwitch

        def start(self) -> None:
            signal.signal(signal.SIGTERM, lambda *_: self.stop_event.set())
            super().start()

        def reincarnate(self, process: BaseProcess) -> None:
            timer = getattr(process, "timer", None)
            if timer is None or int(timer.value) not in (0, RECYCLED):
                logger.critical("process %d of the cluster was killed; it begins anew", process.pid)
                end_everything()
            super().reincarnate(process)

    return Guard


if __name__ == "__main__":
    # Of a server that is gone already nothing comes: the pipe has ended and so will the guard.
    die_with(os.getppid())
    main()
