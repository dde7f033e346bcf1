"""A real server in a process of its own: spare port, data folder of its own, real signals.

Owns starting, waiting until it answers, ending, and what is read afterwards: its log and, straight
from the database, its tables. A `lambo.toml` in the test's folder says which database that is.
Nothing here waits for a length of time: a wait ends when something is so, or fails at a deadline
far beyond what a loaded machine needs.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from children import child_environment
from command_line import spare_port
from memory.data_folder import DataFolder
from memory.management.serving import ALL_COMMITTED
from postgres_server import query

SERVE = (sys.executable, "-P", "-m", "memory.cli.main", "serve")
READY_SECONDS = 60.0
STOP_SECONDS = 30.0
CALL_SECONDS = 60.0
START_ATTEMPTS = 3
"""A spare port may be taken by another process before the server has it."""

Refused = (OSError, http.client.HTTPException)
"""What a caller sees of a server that is not there, or is gone in the middle of an answer."""


def eventually(is_so: Callable[[], bool], what: str, *, seconds: float = READY_SECONDS) -> None:
    """Wait until something is so; fails with `what` at the deadline."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"after {seconds:g} s not yet: {what}"
        time.sleep(0.01)


@dataclass(frozen=True)
class Answer:
    """What an HTTP call came to."""

    status: int
    body: dict[str, Any]
    is_replayed: bool = False

    @property
    def code(self) -> str:
        """The code of a failure; empty for a success."""
        return str(self.body["error"]["code"]) if "error" in self.body else ""


class HttpClient:
    """One keep-alive connection that tries everything once. For one thread."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(
            parts.hostname, parts.port, timeout=CALL_SECONDS
        )

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
    ) -> Answer:
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        payload = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, payload, headers)
        with self._connection.getresponse() as response:
            is_replayed = response.getheader("Idempotency-Replayed") == "true"
            return Answer(response.status, json.loads(response.read()), is_replayed)

    def derive(
        self, session: str, *contents: str, agent: str = "agent", key: str | None = None
    ) -> Answer:
        concepts = [{"content": content, "concept_type": "entity"} for content in contents]
        body = {"agent_id": agent, "concepts": concepts}
        return self.call("POST", f"/api/v1/sessions/{session}/derive", body, key=key)

    def recall(self, session: str, query: str, **options: int) -> dict[str, Any]:
        body = {"agent_id": "reader", "query": query, **options}
        return self._must(self.call("POST", f"/api/v1/sessions/{session}/recall", body))

    def find(self, session: str, content: str) -> bool:
        """Whether a concept of exactly this text is there, as `inspect` says."""
        body = {"agent_id": "reader", "focus": content, "depth": 1}
        answer = self.call("POST", f"/api/v1/sessions/{session}/inspect", body)
        return answer.status == 200 and answer.body["focus"]["label"] == f"{content} [Entity]"

    def stats(self, session: str) -> dict[str, Any]:
        return self._must(self.call("GET", f"/api/v1/sessions/{session}/stats"))

    def receipt(self, session: str, key: str, *, agent: str = "agent") -> Answer:
        return self.call("GET", f"/api/v1/sessions/{session}/receipts/{key}?agent_id={agent}")

    @staticmethod
    def _must(answer: Answer) -> dict[str, Any]:
        assert answer.status == 200, answer
        return answer.body

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()


@dataclass(frozen=True)
class Stopped:
    """How a server ended after SIGTERM."""

    code: int
    seconds: float
    last_line: str

    @property
    def says_all_committed(self) -> bool:
        return self.last_line.endswith(ALL_COMMITTED)


class RunningServer:
    """A server that answers. Its process may be ended in any way."""

    def __init__(
        self, process: subprocess.Popen[bytes], url: str, data_dir: Path, log_path: Path
    ) -> None:
        self.process = process
        self.url = url
        self.data_dir = data_dir
        self._log_path = log_path
        self.ready_seconds = 0.0

    @property
    def pid(self) -> int:
        """The server's own process, also where a tracer runs it."""
        return DataFolder(self.data_dir).find_holder() or self.process.pid

    @property
    def log(self) -> str:
        """What it has said since it was started."""
        return self._log_path.read_text(encoding="utf-8")

    def kill(self) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> Stopped:
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_SECONDS)
        seconds = time.monotonic() - began
        return Stopped(code, seconds, self.log.rstrip("\n").rpartition("\n")[2])

    def is_answering(self) -> bool:
        try:
            with closing(http.client.HTTPConnection(*_address(self.url), timeout=5)) as asking:
                asking.request("GET", "/healthz")
                return asking.getresponse().status == 200
        except Refused:
            return False


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def server_environment(folder: Path, **variables: str) -> dict[str, str]:
    """What a server of this test is told; no `lambo.toml` of the machine is read."""
    config = folder / "lambo.toml"
    if "LAMBO_CONFIG" not in variables:
        config.touch()
    named = {"LAMBO_DATA_DIR": str(folder / "data"), "LAMBO_CONFIG": str(config), **variables}
    return child_environment(named)


@contextmanager
def serving(
    folder: Path, *, under: Sequence[str] = (), **variables: str
) -> Iterator[RunningServer]:
    """A server on `folder`/data that answers; killed at the end if it still runs.

    `under` is a command that runs the server's, such as a tracer.
    """
    running = _start(folder, under, variables)
    try:
        yield running
    finally:
        running.kill()


def _start(folder: Path, under: Sequence[str], variables: Mapping[str, str]) -> RunningServer:
    for _attempt in range(START_ATTEMPTS):
        port = int(variables.get("LAMBO_PORT") or spare_port())
        log_path = folder / f"log-{port}-{time.monotonic_ns()}"
        began = time.monotonic()
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [*under, *SERVE],
                cwd=folder,
                env=server_environment(folder, **{**variables, "LAMBO_PORT": str(port)}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        running = RunningServer(process, f"http://127.0.0.1:{port}", folder / "data", log_path)
        try:
            eventually(
                lambda at=running: at.is_answering() or at.process.poll() is not None,  # type: ignore[misc]
                "the server answers",
            )
        except BaseException:
            running.kill()
            raise
        running.ready_seconds = time.monotonic() - began
        if process.poll() is None:
            return running
        if "the port is in use" not in running.log:
            break
    raise AssertionError(f"the server ended with {process.poll()}: {running.log}")


def rows(data_dir: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Rows straight from the engine's tables, beside whatever server runs on them."""
    config = data_dir.parent / "lambo.toml"
    store = tomllib.loads(config.read_text()).get("store", {}) if config.exists() else {}
    if "url" in store:
        return query(store["url"], sql.replace("?", "%s"), *parameters)
    uri = f"{(data_dir / 'lambo.sqlite3').as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=CALL_SECONDS)) as connection:
        return connection.execute(sql, parameters).fetchall()


def count(data_dir: Path, table: str, session: str) -> int:
    """How many rows of a session a table holds."""
    (row,) = rows(data_dir, f"SELECT count(*) FROM lambo_{table} WHERE session_id = ?", session)
    return int(row[0])
