"""Finds the server of a data folder, or starts one in the background.

Two clients that start at once get one server: starting is serialised by a lock file of its own,
and whoever waited for it looks again before it starts anything. The server outlives its starter.
Needs no Django and nothing outside the standard library, since every command and every MCP client
waits for it. Knows no verb and sends no secret.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import http.client
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from memory.data_folder import FILE_MODE, DataFolder, Runtime
from memory.engine.errors import LamboError

IDLE_MINUTES = 30
START_SECONDS_MAX = 20.0
"""From the decision to start a server to its first answer."""
HEALTH_SECONDS_MAX = 2.0
POLL_SECONDS = 0.05
LOG_BYTES_MAX = 5_000_000
"""A log above this is put aside as `server.log.1` before the next start."""
LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 4_000

# -P keeps the caller's working folder off the module path: an agent may well stand in a project
# that has a package called `memory`.
SERVE_COMMAND: tuple[str, ...] = (
    sys.executable,
    "-P",
    "-m",
    "memory.cli.main",
    "serve",
    "--background-idle-minutes",
    str(IDLE_MINUTES),
)


CONFIGURATION = "lambo_site.configuration"
"""By name, as Django's settings are: the composition root is imported by nobody."""


class ServerNotStarted(LamboError):
    """The server did not come up; the message ends with the tail of its log."""

    code: ClassVar[str] = "server_not_started"


@dataclass(frozen=True, slots=True)
class ServerHandle:
    """A server that answers. `started` tells whether this call started it."""

    url: str
    version: str
    started: bool


_children: set[int] = set()
"""Servers started by this process and not yet seen to end."""


def find_server(data_dir: Path) -> ServerHandle | None:
    """The server of the folder if it answers now; starts nothing."""
    _reap()
    runtime = DataFolder(data_dir).find_runtime()
    if runtime is None or not _answers(runtime):
        return None
    return ServerHandle(runtime.url, runtime.version, started=False)


def find_or_start_server(
    data_dir: Path,
    *,
    env: Mapping[str, str],
    command: Sequence[str] = SERVE_COMMAND,
    wait_seconds: float = START_SECONDS_MAX,
) -> ServerHandle:
    """The server of the folder, started if there is none. Blocks for `wait_seconds` at most.

    The server gets `env` with the folder in LAMBO_DATA_DIR. Raises `ServerNotStarted`, or
    `DataFolderUnusable` when the folder is no place for one.
    """
    found = find_server(data_dir)
    if found is not None:
        return found
    folder = DataFolder(data_dir.resolve())
    folder.prepare()
    deadline = time.monotonic() + wait_seconds
    with _alone(folder, deadline):
        found = find_server(folder.path)
        if found is not None:
            return found
        # One that somebody else started and that does not answer yet is waited for, not doubled.
        pid = None if folder.find_holder() else _start(folder, env=env, command=command)
        return _wait(folder, pid=pid, deadline=deadline)


def _wait(folder: DataFolder, *, pid: int | None, deadline: float) -> ServerHandle:
    while True:
        runtime = folder.find_runtime()
        if runtime is not None and _answers(runtime):
            return ServerHandle(runtime.url, runtime.version, started=runtime.pid == pid)
        if pid is not None and _has_ended(pid) and folder.find_holder() is None:
            raise _not_started(folder, "the server stopped while it started")
        if time.monotonic() >= deadline:
            holder = folder.find_holder()
            raise _not_started(
                folder,
                f"process {holder} holds the data folder and does not answer"
                if holder
                else "the server did not answer in time",
            )
        time.sleep(POLL_SECONDS)


def _start(folder: DataFolder, *, env: Mapping[str, str], command: Sequence[str]) -> int:
    """Start the server in a session of its own, its output in the log; returns its process id."""
    with contextlib.suppress(FileNotFoundError):
        if folder.log_path.stat().st_size > LOG_BYTES_MAX:
            folder.log_path.replace(folder.log_path.with_name(folder.log_path.name + ".1"))
    environ = {
        **env,
        "LAMBO_DATA_DIR": str(folder.path),
        # Four more processes on the machine of every agent, for jobs the server can time itself.
        "LAMBO_CLUSTER": env.get("LAMBO_CLUSTER") or "false",
        **_address_variables(env),
    }
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        # Not subprocess.Popen: it would complain at exit about a child that is meant to live on.
        pid = os.posix_spawn(
            command[0],
            list(command),
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(folder.log_path), log_flags, FILE_MODE),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            # What a client ignores is none of the server's business.
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
        )
    except OSError as error:
        raise ServerNotStarted(f"cannot start {command[0]}: {error.strerror}") from error
    _children.add(pid)
    return pid


def _address_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Where a server in the background listens, as far as it is not where it was told.

    Whoever starts one is on this machine, and a server for others is started on purpose: one that
    was told an address of the network stays on loopback, and goes on asking for tokens.
    """
    configured = importlib.import_module(CONFIGURATION).load_process_settings(
        env, folder=Path.cwd()
    )
    inner = {} if configured.is_on_loopback else {"LAMBO_BIND": "127.0.0.1", "LAMBO_AUTH": "tokens"}
    return {**inner, **_port_variable({**env, **inner})}


def _port_variable(env: Mapping[str, str]) -> dict[str, str]:
    """A spare port for a server in the background whose own is taken, else nothing.

    The server of another data folder may well run on the usual port, and clients find this one by
    its runtime file. Raises `InvalidConfiguration` here, where the caller sees it, not in the log.
    """
    configured = importlib.import_module(CONFIGURATION).load_process_settings(
        env, folder=Path.cwd()
    )
    address = "127.0.0.1" if configured.bind == "localhost" else configured.bind
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, configured.port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return {}  # the server says it better
            probe.bind((address, 0))
            return {"LAMBO_PORT": str(probe.getsockname()[1])}
    return {}


def _answers(runtime: Runtime) -> bool:
    """Whether the server's sign of life is there. Never through a proxy."""
    address = urlsplit(runtime.url)
    if address.hostname is None:
        return False
    connection = http.client.HTTPConnection(
        address.hostname, address.port, timeout=HEALTH_SECONDS_MAX
    )
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def _alone(folder: DataFolder, deadline: float) -> Iterator[None]:
    """Hold the start lock; whoever waits for it longer than a start takes gives up."""
    descriptor = os.open(folder.start_lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise _not_started(
                        folder, "another client has been starting the server for too long"
                    ) from None
                time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _has_ended(pid: int) -> bool:
    if pid in _children:
        _reap()
    return pid not in _children


def _reap() -> None:
    """Take note of servers of ours that ended, so that a long-lived bridge keeps no zombies."""
    for pid in tuple(_children):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        _children.discard(pid)


def _not_started(folder: DataFolder, reason: str) -> ServerNotStarted:
    tail = _log_tail(folder.log_path)
    end = f"; the end of its log:\n{tail}" if tail else ""
    return ServerNotStarted(f"{reason} (log: {folder.log_path}){end}", log=str(folder.log_path))


def _log_tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            text = file.read(LOG_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
