"""Finding or starting the server of a folder, tried on a stand-in that answers /healthz.

The stand-in holds the folder and publishes itself as the real server does, without Django, so that
a start takes milliseconds and failures can be had on demand.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from children import child_environment, next_line, python_child
from memory.cli import launcher
from memory.cli.launcher import ServerHandle, ServerNotStarted, find_or_start_server, find_server
from memory.data_folder import DataFolder, read_runtime
from memory.engine.errors import InvalidConfiguration

SERVER = """
import http.server, os, signal, sys
from pathlib import Path
from memory.data_folder import DataFolder
path = Path(os.environ["LAMBO_DATA_DIR"])
with (path / "starts").open("a") as starts:
    starts.write(f"{os.getpid()}\\n")
held = DataFolder(path).hold()
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
    def log_message(self, *arguments): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Health)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("serving", os.environ.get("LAMBO_PORT"), os.environ["LAMBO_CLUSTER"], flush=True)
held.publish(url=f"http://127.0.0.1:{server.server_port}", version="0.1.0")
try:
    server.serve_forever()
finally:
    held.release()
"""
COMMAND = (sys.executable, "-P", "-c", SERVER)
FAILING = (
    sys.executable,
    "-P",
    "-c",
    "print('line one\\nno room for sessions'); raise SystemExit(3)",
)
MUTE = (
    sys.executable,
    "-P",
    "-c",
    "import os, signal\nfrom pathlib import Path\nfrom memory.data_folder import DataFolder\n"
    "held = DataFolder(Path(os.environ['LAMBO_DATA_DIR'])).hold()\nsignal.pause()\n",
)

pytestmark = pytest.mark.slow


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A folder that does not exist yet; whatever server it gets is ended."""
    path = tmp_path / "data"
    # Servers of other tests in this process, the one the command-line tests share among them.
    others = set(launcher._children)
    yield path
    for pid in launcher._children - others:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        launcher._children.discard(pid)


def start(data_dir: Path) -> ServerHandle:
    return find_or_start_server(data_dir, env=child_environment(), command=COMMAND)


def starts_of(data_dir: Path) -> list[int]:
    return [int(line) for line in (data_dir / "starts").read_text().splitlines()]


def end(pid: int, signal_number: int) -> None:
    os.kill(pid, signal_number)
    os.waitpid(pid, 0)
    launcher._children.discard(pid)


def test_first_call_starts_and_the_second_finds(data_dir: Path) -> None:
    assert find_server(data_dir) is None
    assert not data_dir.exists()
    first = start(data_dir)
    assert first.started
    assert first.version == "0.1.0"
    second = start(data_dir)
    assert second == ServerHandle(first.url, first.version, started=False)
    assert find_server(data_dir) == second
    assert len(starts_of(data_dir)) == 1


def test_started_server_is_detached_and_logs_into_the_folder(data_dir: Path) -> None:
    start(data_dir)
    (pid,) = starts_of(data_dir)
    assert os.getsid(pid) == pid
    log = DataFolder(data_dir).log_path
    assert log.read_text().startswith("serving ")
    assert log.stat().st_mode & 0o077 == 0


def test_callers_at_once_start_one_server(data_dir: Path) -> None:
    barrier = threading.Barrier(8)

    def call(_number: int) -> ServerHandle:
        barrier.wait()
        return start(data_dir)

    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(call, range(8)))
    assert len({handle.url for handle in handles}) == 1
    assert sum(handle.started for handle in handles) == 1
    assert len(starts_of(data_dir)) == 1


CALLER = """
import os, sys
from pathlib import Path
from memory.cli.launcher import find_or_start_server
sys.stdin.readline()
handle = find_or_start_server(Path(sys.argv[1]), env=dict(os.environ), command=sys.argv[2:])
assert "django" not in sys.modules
print(handle.url, handle.started, flush=True)
"""


def test_processes_at_once_start_one_server_that_outlives_them(data_dir: Path) -> None:
    with (
        python_child(CALLER, str(data_dir), *COMMAND) as one,
        python_child(CALLER, str(data_dir), *COMMAND) as two,
    ):
        for child in (one, two):
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = sorted(next_line(child).split()[1] for child in (one, two))
        assert said == ["False", "True"]
    (pid,) = starts_of(data_dir)
    try:
        assert find_server(data_dir) is not None
    finally:
        os.kill(pid, signal.SIGKILL)


def test_killed_server_is_replaced_in_spite_of_its_runtime_file(data_dir: Path) -> None:
    first = start(data_dir)
    end(starts_of(data_dir)[0], signal.SIGKILL)
    assert DataFolder(data_dir).runtime_path.exists()
    second = start(data_dir)
    assert second.started
    assert first.url != second.url or len(starts_of(data_dir)) == 2


def test_server_that_stopped_by_itself_leaves_no_zombie(data_dir: Path) -> None:
    start(data_dir)
    pid = starts_of(data_dir)[0]
    os.kill(pid, signal.SIGTERM)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert read_runtime(data_dir) is None
    assert find_server(data_dir) is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_server_that_stops_while_it_starts_is_reported_with_its_log(data_dir: Path) -> None:
    with pytest.raises(ServerNotStarted) as failure:
        find_or_start_server(data_dir, env=child_environment(), command=FAILING)
    assert failure.value.message.startswith("the server stopped while it started")
    assert failure.value.message.endswith("line one\nno room for sessions")
    assert str(DataFolder(data_dir).log_path) in failure.value.message


def test_interpreter_that_is_not_there_is_reported(data_dir: Path) -> None:
    with pytest.raises(ServerNotStarted, match="cannot start /nowhere/python"):
        find_or_start_server(data_dir, env={}, command=("/nowhere/python", "-c", "pass"))


def test_server_that_never_answers_is_given_up_and_named(data_dir: Path) -> None:
    began = time.monotonic()
    with pytest.raises(
        ServerNotStarted, match="holds the data folder and does not answer"
    ) as first:
        find_or_start_server(data_dir, env=child_environment(), command=MUTE, wait_seconds=3)
    assert time.monotonic() - began < 10
    # The next caller waits for the same process, and starts no second one.
    named = first.value.message.partition(" holds ")[0]
    assert int(named.removeprefix("process ")) in launcher._children
    with pytest.raises(ServerNotStarted, match=f"^{named} "):
        find_or_start_server(data_dir, env=child_environment(), command=COMMAND, wait_seconds=0.2)
    assert not (data_dir / "starts").exists()


def test_port_of_a_dead_server_taken_by_a_stranger_is_not_believed(data_dir: Path) -> None:
    """A socket that accepts and says nothing must not hold a client up, nor be talked to."""
    with closing(socket.create_server(("127.0.0.1", 0))) as stranger:
        folder = DataFolder(data_dir)
        held = folder.hold()
        held.publish(url=f"http://127.0.0.1:{stranger.getsockname()[1]}", version="0.1.0")
        stale = folder.runtime_path.read_bytes()
        held.release()
        folder.runtime_path.write_bytes(stale)
        assert start(data_dir).started


def test_taken_port_gives_a_spare_one_and_a_free_port_is_left_alone(data_dir: Path) -> None:
    log_path = DataFolder(data_dir).log_path
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        env = child_environment({"LAMBO_PORT": str(other.getsockname()[1])})
        find_or_start_server(data_dir, env=env, command=COMMAND)
        port = int(log_path.read_text().split()[1])
        assert port not in (7700, other.getsockname()[1])
    end(starts_of(data_dir)[0], signal.SIGTERM)
    find_or_start_server(data_dir, env=env, command=COMMAND)
    assert log_path.read_text().split()[4] == env["LAMBO_PORT"]


@pytest.mark.parametrize(("told", "meant"), [("", "false"), ("false", "false"), ("true", "true")])
def test_server_in_the_background_has_worker_processes_only_when_told(
    data_dir: Path, told: str, meant: str
) -> None:
    env = child_environment({"LAMBO_CLUSTER": told})
    find_or_start_server(data_dir, env=env, command=COMMAND)
    assert DataFolder(data_dir).log_path.read_text().split()[2] == meant


def test_absurd_setting_is_refused_before_anything_is_started(data_dir: Path) -> None:
    env = child_environment({"LAMBO_PORT": "0"})
    with pytest.raises(InvalidConfiguration, match=r"server\.port"):
        find_or_start_server(data_dir, env=env, command=COMMAND)
    assert not DataFolder(data_dir).log_path.exists()


def test_package_of_the_same_name_in_the_callers_folder_is_not_run(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    monkeypatch.chdir(tmp_path)
    assert "-P" in launcher.SERVE_COMMAND
    assert start(data_dir).started


def test_log_above_its_limit_is_put_aside(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "LOG_BYTES_MAX", 10)
    folder = DataFolder(data_dir)
    folder.prepare()
    folder.log_path.write_text("an old log line\n")
    start(data_dir)
    assert folder.log_path.with_name("server.log.1").read_text() == "an old log line\n"
    assert "old" not in folder.log_path.read_text()
