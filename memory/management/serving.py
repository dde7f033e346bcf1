"""One process that serves until it is told to stop, and says truthfully how it ended.

Owns the socket, the signals, the order and the time limits of a shutdown, and the exit code. Knows
the application only as ASGI: what starts and stops with it is the application's lifespan.

Invariant: after the first signal the process is gone within `STOP_SECONDS`, whatever hangs. It ends
with 0 only if the host reported that every acknowledged write is committed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar, Final

import uvicorn

from memory import runtime
from memory.engine.errors import InvalidConfiguration, LamboError
from memory.management.cluster import Cluster

logger = logging.getLogger("lambo.server")

STOP_SECONDS: Final = 15.0
TRANSPORT_STOP_SECONDS: Final = 5
"""How long calls under way may still be answered; then they are told that nobody knows yet."""
STREAM_STOP_SECONDS: Final = 1.0
"""How long listeners of events may take to hear of the end; then they are cut."""
WATCHDOG_SECONDS: Final = STOP_SECONDS - 0.5
KEEP_ALIVE_SECONDS: Final = 75
"""Idle connections; longer than clients keep theirs, so that the client is who closes."""
BACKLOG: Final = 1_024
SOCKET_MESSAGE_BYTES: Final = 4_096
"""Of a message that a client sends over a WebSocket, where none is expected."""
SWITCH_SECONDS: Final = 0.001
"""How long a busy thread keeps Python's lock from one that waits for it. The default of 5 ms lets a
session that is being opened hold up every call, and every call the committer."""

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

ALL_COMMITTED: Final = "lambo serve: every acknowledged write is committed"


class CannotListen(LamboError):
    """The address cannot be listened on."""

    code: ClassVar[str] = "cannot_listen"


def open_socket(bind: str, port: int) -> socket.socket:
    """A bound socket, not listening yet: calls wait at the door until the host has started."""
    address = "127.0.0.1" if bind == "localhost" else bind
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Naming the protocol matters: asyncio turns Nagle's algorithm off only where it sees TCP, and
    # with it on, every answer (head and body are two writes) waits 40 ms for the client's ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(bind, port, error) from error
    return listener


def _cannot_listen(bind: str, port: int, error: OSError) -> CannotListen:
    reason = error.strerror or str(error)
    name = "port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "bind"
    if error.errno == errno.EADDRINUSE:
        reason = "the port is in use"
    return CannotListen(
        f"cannot listen on {bind}:{port}: {reason}; "
        f"another is named by --{name}, LAMBO_{name.upper()} or server.{name} in lambo.toml",
        setting=f"server.{name}",
    )


def serve_until_told(
    application: Any,
    listener: socket.socket,
    *,
    on_listening: Callable[[], None],
    idle_minutes: int | None,
    durability: str,
    cluster: Cluster | None = None,
) -> int:
    """Serve on a bound socket until a signal or too long a silence; returns the exit code.

    `on_listening` runs once connections are accepted; when it raises, the server stops in order.
    `cluster` runs from then on, and has ended before this returns.
    """
    config = uvicorn.Config(
        application,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=SOCKET_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        workers=1,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=TRANSPORT_STOP_SECONDS,
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    server = _Server(config, on_listening=on_listening, idle_minutes=idle_minutes, cluster=cluster)
    try:
        server.run(sockets=[listener])
    except SystemExit:
        # How uvicorn says that the lifespan refused to start.
        return _report_failure(runtime.find_failure())
    finally:
        listener.close()
        if cluster is not None:
            cluster.finish()
    if server.failure is not None:
        return _report_failure(server.failure)
    return _report_end(durability)


class _Server(uvicorn.Server):
    """Uvicorn with our signals: they end in a report, not in a re-raised signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        on_listening: Callable[[], None],
        idle_minutes: int | None,
        cluster: Cluster | None,
    ) -> None:
        super().__init__(config)
        self._cluster = cluster
        self._on_listening = on_listening
        self._idle_seconds_max = None if idle_minutes is None else idle_minutes * 60.0
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failure: BaseException | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        # Not loop.add_signal_handler: a second signal must work while the loop is stuck.
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        try:
            self._on_listening()
        except Exception as error:  # noqa: BLE001 - reported when the host is closed
            self.failure = error
            self.should_exit = True
            return
        if self._cluster is not None:
            self._cluster.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        host = runtime.find_host()
        if host is not None:
            host.events.end()  # else every stream would be waited for
            await host.events.until_left(STREAM_STOP_SECONDS)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        limit = self._idle_seconds_max
        if limit is not None and runtime.activity.idle_seconds >= limit and not self.should_exit:
            logger.info("lambo serve: stopping after %d idle minutes", limit // 60)
            self._begin_stop()
        host = runtime.find_host()
        if host is not None and host.failed.is_set() and not self.should_exit:
            logger.critical("lambo serve: stopping, since nothing can be committed any more")
            self._begin_stop()
        return await super().on_tick(counter)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            _end_now("a second signal came")
        name = signal.Signals(number).name
        assert self._loop is not None
        # Logging is not safe inside a signal handler.
        self._loop.call_soon_threadsafe(logger.info, "lambo serve: stopping on %s", name)
        self._begin_stop()

    def _begin_stop(self) -> None:
        self.should_exit = True
        if self._cluster is not None:
            self._cluster.begin_stop()
        reason = f"it did not end within {WATCHDOG_SECONDS:g} s"
        watchdog = threading.Timer(WATCHDOG_SECONDS, _end_now, [reason])
        watchdog.daemon = True
        watchdog.start()


def _report_failure(failure: BaseException | None) -> int:
    message = failure.message if isinstance(failure, LamboError) else failure
    logger.error("lambo serve: %s", message or "the server could not start")
    return EXIT_USAGE if isinstance(failure, InvalidConfiguration) else EXIT_FAILED


def _report_end(durability: str) -> int:
    report = runtime.find_close_report()
    failure = runtime.find_failure()
    if report is None or failure is not None:
        return _report_failure(failure)
    if durability == "memory":
        logger.info("lambo serve: stopped; durability is memory, nothing is kept")
        return EXIT_OK
    if report.ok:
        logger.info(ALL_COMMITTED)
        return EXIT_OK
    logger.error(
        "lambo serve: the store did not confirm %d applied write(s); they may be lost",
        report.unsettled,
    )
    return EXIT_FAILED


def _end_now(reason: str) -> None:
    """End the process at once. Called from a signal handler or the watchdog's thread."""
    report = runtime.find_close_report()
    is_committed = report is not None and report.ok
    line = ALL_COMMITTED if is_committed else "lambo serve: not every applied write is committed"
    level = logging.INFO if is_committed else logging.ERROR
    text = _formatted(level, f"{line} ({reason})")
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{text}\n".encode())
    os._exit(EXIT_OK if is_committed else EXIT_FAILED)


def _formatted(level: int, line: str) -> str:
    """The line as the log would write it, without its locks: whoever holds one may never go on."""
    record = logger.makeRecord(logger.name, level, __file__, 0, line, (), None)
    handlers = logging.getLogger().handlers
    return handlers[0].format(record) if handlers else line
