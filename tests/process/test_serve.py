"""`lambo serve` as a process: it starts, says where it is, and ends truthfully, whatever is asked.

Nothing here waits for a length of time: a server is read, line by line, until it has said what the
test waits for, and a process is waited for until it has ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from children import child_environment, next_line, python_child
from memory.data_folder import read_runtime
from memory.management.serving import ALL_COMMITTED

pytestmark = pytest.mark.slow

SERVE = [sys.executable, "-P", "-m", "memory.cli.main", "serve"]
FAILED, USAGE = 1, 2


def spare_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server that was started, and what it said."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.lines: list[str] = []

    def read_until(self, words: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            if words in line:
                return self.lines[-1]
        raise AssertionError(f"the server never said {words!r}: {self.lines}")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        # Not `communicate`: it would miss what reading a line has fetched already.
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.lines += self.process.stderr.read().splitlines()
        assert self.process.stdout.read() == ""  # stdout is for data, and a server has none
        return self.process.wait(timeout=30)

    def call(self, path: str, body: object = None) -> dict[str, object]:
        runtime = read_runtime(self.folder)
        assert runtime is not None
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{runtime.url}/api/v1{path}", data, {"Lambo-Agent": "ann"})
        with urlopen(request, timeout=30) as response:
            answer: dict[str, object] = json.load(response)
            return answer


@contextmanager
def serving(tmp_path: Path, *flags: str, **variables: str) -> Iterator[Server]:
    """A server on `tmp_path/data` that listens; killed at the end if it still runs."""
    data = tmp_path / "data"
    environ = child_environment(
        {"LAMBO_DATA_DIR": str(data), "LAMBO_PORT": str(spare_port()), **variables}
    )
    process = subprocess.Popen(
        [*SERVE, *flags],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    server = Server(process, data)
    try:
        server.read_until("listening on")
        yield server
    finally:
        process.kill()
        process.communicate()


def refused(tmp_path: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A start that is to fail."""
    environ = child_environment({"LAMBO_DATA_DIR": str(tmp_path / "data"), **variables})
    run = subprocess.run(
        [*SERVE, *flags],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    return run


CONCEPT = {"concepts": [{"content": "tokens expire", "concept_type": "logic"}]}


def test_server_keeps_what_it_acknowledged_over_stop_and_start(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert any("migration(s) to the database 'memory'" in line for line in server.lines)
        runtime = read_runtime(server.folder)
        assert runtime is not None
        assert runtime.pid == server.process.pid
        assert runtime.url in server.lines[-1]
        server.call("/sessions/s/derive", CONCEPT)
        assert server.end(signal.SIGTERM) == 0
        assert server.lines[-1].endswith(ALL_COMMITTED)
        assert not (server.folder / "runtime.json").exists()
    with serving(tmp_path) as server:
        assert not any("migration" in line for line in server.lines)
        hits = server.call("/sessions/s/recall", {"query": "tokens"})["hits"]
        assert isinstance(hits, list)
        assert [hit["content"] for hit in hits] == ["tokens expire"]
        assert server.end(signal.SIGINT) == 0
        assert server.lines[-1].endswith(ALL_COMMITTED)


def test_acknowledged_write_is_there_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.call("/sessions/s/derive", CONCEPT)
        server.end(signal.SIGKILL)
    with serving(tmp_path) as server:
        assert server.call("/sessions/s/stats")["concept_count"] == 1


def test_second_server_on_the_folder_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        run = refused(tmp_path, LAMBO_PORT=str(spare_port()))
        assert run.returncode == FAILED
        runtime = read_runtime(server.folder)
        assert runtime is not None
        assert f"process {server.process.pid} serves {runtime.url}" in run.stderr
        assert server.call("/sessions")["sessions"] == []


def test_port_in_use_is_told_by_the_settings_name(tmp_path: Path) -> None:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        run = refused(tmp_path, LAMBO_PORT=str(port))
    assert run.returncode == FAILED
    assert f"cannot listen on 127.0.0.1:{port}: the port is in use" in run.stderr
    assert "--port, LAMBO_PORT or server.port" in run.stderr
    assert not (tmp_path / "data" / "runtime.json").exists()


@pytest.mark.parametrize(
    ("flags", "variables", "names"),
    [
        (["--bind", "0.0.0.0"], {}, "make one with lambo token create"),
        (["--host", "example.org"], {}, "server.bind must be an IP address or localhost"),
        (["--port", "0"], {}, "server.port must be"),
        (["--port", "65536"], {}, "server.port must be"),
        (["--port", "http"], {}, "server.port must be"),
        (["--config", "nowhere.toml"], {}, "nowhere.toml"),
        (["--background-idle-minutes", "0"], {}, "idle_exit_minutes must be"),
        (["--background-idle-minutes", "soon"], {}, "--background-idle-minutes"),
        (["--workers", "4"], {}, "--workers"),
        ([], {"LAMBO_EMBEDDER": "bedrock"}, "cannot be bedrock yet: the name is reserved"),
        ([], {"LAMBO_EMBEDDER": "gemini"}, "cannot be gemini yet: the name is reserved"),
        ([], {"LAMBO_EMBEDDER": "llama"}, "needs embedder.model_path"),
        ([], {"WEB_CONCURRENCY": "4"}, "WEB_CONCURRENCY must be 1"),
        ([], {"WEB_CONCURRENCY": "two"}, "WEB_CONCURRENCY must be 1"),
        (["--no-migrate"], {}, "lacks"),
    ],
)
def test_start_that_makes_no_sense_ends_with_usage(
    tmp_path: Path, flags: list[str], variables: dict[str, str], names: str
) -> None:
    run = refused(tmp_path, *flags, **variables)
    assert run.returncode == USAGE, run.stderr
    assert names in run.stderr


def test_flags_win_over_variables_and_keep_the_process(tmp_path: Path) -> None:
    port = spare_port()
    elsewhere = tmp_path / "elsewhere"
    config = tmp_path / "other.toml"
    config.write_text("[log]\nformat = 'json'\n")
    flags = ["--port", str(port), "--data-dir", str(elsewhere), "--config", str(config)]
    with serving(tmp_path, *flags) as server:
        runtime = read_runtime(elsewhere)
        assert runtime is not None
        assert runtime.pid == server.process.pid
        assert runtime.url == f"http://127.0.0.1:{port}"
        assert json.loads(server.lines[-1])["level"] == "info"
        assert not server.folder.exists()
        assert server.end(signal.SIGTERM) == 0
        assert json.loads(server.lines[-1])["message"] == ALL_COMMITTED


def test_memory_mode_claims_nothing_at_its_end(tmp_path: Path) -> None:
    with serving(tmp_path, LAMBO_DURABILITY="memory") as server:
        server.call("/sessions/s/derive", CONCEPT)
        assert server.end(signal.SIGTERM) == 0
        assert "nothing is kept" in server.lines[-1]


# -- the end, with an application made for it ----------------------------------------------------

STAND_IN = """
import asyncio, logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
logging.getLogger("asyncio").setLevel(logging.CRITICAL)
from memory import runtime
from memory.management import serving
from memory.service.host import CloseReport
hangs, idle, watchdog = sys.argv[1], sys.argv[2], float(sys.argv[3])
serving.WATCHDOG_SECONDS, serving.TRANSPORT_STOP_SECONDS = watchdog, 1

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        if hangs == "refuses":
            runtime.set_failure(RuntimeError("no tables"))
            await send({"type": "lifespan.startup.failed", "message": "no tables"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if hangs == "unsettled":
            runtime.set_close_report(CloseReport(ok=False, unsettled=3))
        if hangs == "late":
            runtime.set_close_report(CloseReport(ok=True, unsettled=0))
        if hangs in ("stop", "late"):
            print("stopping", flush=True)
            await asyncio.Event().wait()
        if hangs == "no":
            runtime.set_close_report(CloseReport(ok=True, unsettled=0))
        await send({"type": "lifespan.shutdown.complete"})

listener = serving.open_socket("127.0.0.1", 0)
def on_listening():
    if hangs == "unpublished":
        raise OSError("disk full")
    print("listening", flush=True)
sys.exit(serving.serve_until_told(
    application, listener, on_listening=on_listening,
    idle_minutes=int(idle) if idle else None, durability="commit"))
"""


def end_of(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    # Not `communicate`: it would miss what reading a line has fetched already.
    assert process.stdout is not None
    assert process.stderr is not None
    lines = [*process.stdout.read().splitlines(), *process.stderr.read().splitlines()]
    return process.wait(timeout=30), lines


def test_second_signal_ends_a_stop_that_hangs() -> None:
    with python_child(STAND_IN, "stop", "", "60") as process:
        assert next_line(process) == "listening"
        process.send_signal(signal.SIGTERM)
        assert "stopping on SIGTERM" in next_line(process)
        assert next_line(process) == "stopping"
        process.send_signal(signal.SIGTERM)
        code, lines = end_of(process)
    assert code == FAILED
    assert lines == ["lambo serve: not every applied write is committed (a second signal came)"]


@pytest.mark.parametrize(
    ("hangs", "code", "says"),
    [
        ("stop", FAILED, "not every applied write is committed (it did not end within 1 s)"),
        ("late", 0, f"{ALL_COMMITTED} (it did not end within 1 s)"),
    ],
)
def test_watchdog_ends_a_stop_that_hangs_and_says_what_is_known(
    hangs: str, code: int, says: str
) -> None:
    with python_child(STAND_IN, hangs, "", "1") as process:
        assert next_line(process) == "listening"
        process.send_signal(signal.SIGINT)
        ended, lines = end_of(process)
    assert ended == code
    assert says in lines[-1]


@pytest.mark.parametrize(
    ("hangs", "code", "says"),
    [
        ("no", 0, ALL_COMMITTED),
        ("unsettled", FAILED, "the store did not confirm 3 applied write(s)"),
        ("refuses", FAILED, "no tables"),
        ("unpublished", FAILED, "disk full"),
    ],
)
def test_exit_code_and_last_line_agree(hangs: str, code: int, says: str) -> None:
    with python_child(STAND_IN, hangs, "0", "60") as process:
        ended, lines = end_of(process)
    assert ended == code
    assert says in lines[-1]
    assert (ALL_COMMITTED in "\n".join(lines)) == (code == 0)


def test_idle_server_stops_by_itself() -> None:
    with python_child(STAND_IN, "no", "0", "60") as process:
        assert next_line(process) == "listening"
        code, lines = end_of(process)
    assert code == 0
    assert "stopping after 0 idle minutes" in lines[0]


def test_terminal_that_closes_stops_the_server_in_order() -> None:
    with python_child(STAND_IN, "no", "", "60") as process:
        assert next_line(process) == "listening"
        os.kill(process.pid, signal.SIGHUP)
        code, lines = end_of(process)
    assert code == 0
    assert lines[-1] == ALL_COMMITTED
