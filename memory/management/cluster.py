"""The cluster of worker processes beside the server: started, started again, ended.

Owns one child process and its group, from a thread of its own, so that nothing here waits on the
event loop. What the child does is `cluster_process`.

Invariant: at most one cluster runs, and none outlives the server: an orderly stop ends it within
`STOP_SECONDS`, and the death of the server closes a pipe that the cluster watches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final

logger = logging.getLogger("lambo.server")

COMMAND: Final = (sys.executable, "-P", "-m", "memory.management.cluster_process")
NAME_VARIABLE: Final = "Q_CLUSTER_NAME"
SETTINGS: Final = "lambo_site.settings"

START_SECONDS: Final = 1.0
"""After the server listens: whoever waited for it comes first."""
RESTART_SECONDS: Final = 1.0
RESTART_SECONDS_MAX: Final = 60.0
STEADY_SECONDS: Final = 120.0
"""A cluster that lived this long was no failed start: the waits begin anew."""
STOP_SECONDS: Final = 4.0


class Cluster:
    """The cluster of one node. Start it once; the methods are for the thread that serves."""

    def __init__(self, *, node_id: str, environ: Mapping[str, str]) -> None:
        """`environ` is what this process was told, for the child to be configured alike."""
        self._environ = {**environ, NAME_VARIABLE: node_id, "DJANGO_SETTINGS_MODULE": SETTINGS}
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._stop_by = 0.0
        self._thread = threading.Thread(target=self._supervise, name="cluster", daemon=True)

    def start(self) -> None:
        """Begin; the child follows a little later."""
        self._thread.start()

    def begin_stop(self) -> None:
        """Ask the cluster to end; may be called from a signal handler, and more than once."""
        if not self._stopping.is_set():
            self._stop_by = time.monotonic() + STOP_SECONDS
            self._stopping.set()
        self._ask_to_end()

    def finish(self) -> None:
        """Wait for the end until the time is up, then force it."""
        self.begin_stop()
        if not self._thread.ident:
            return
        self._thread.join(max(0.0, self._stop_by - time.monotonic()))
        process = self._process
        if self._thread.is_alive() and process is not None:
            logger.warning("the cluster did not end in time and is killed")
            _kill_group(process.pid)
            self._thread.join(STOP_SECONDS)

    def _ask_to_end(self) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    def _supervise(self) -> None:
        pause, restart = START_SECONDS, RESTART_SECONDS
        while not self._stopping.wait(pause):
            began = time.monotonic()
            try:
                code = self._run_once()
            except OSError as error:
                logger.error("the cluster cannot be started: %s", error.strerror)
                code = None
            if self._stopping.is_set():
                return
            if time.monotonic() - began >= STEADY_SECONDS:
                restart = RESTART_SECONDS
            pause, restart = restart, min(2 * restart, RESTART_SECONDS_MAX)
            logger.error("the cluster ended (%s) and is started again in %g s", code, pause)

    def _run_once(self) -> int:
        process = subprocess.Popen(
            COMMAND,
            env=self._environ,
            # Never written to: its other end tells the child that this process is gone.
            stdin=subprocess.PIPE,
            stdout=2,
            start_new_session=True,
        )
        self._process = process
        try:
            if self._stopping.is_set():  # asked to end while it was being started
                self._ask_to_end()
            return process.wait()
        finally:
            # Workers whose own parent was killed are still of its group.
            _kill_group(process.pid)
            assert process.stdin is not None
            process.stdin.close()


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
