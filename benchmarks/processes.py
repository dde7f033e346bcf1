"""The processes a benchmark measures: a private server, its baseline, the load client.

Each is started with nothing of the developer's settings, and ended whatever happens.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from benchmarks.load_client import Job, Measured

ROOT: Final = Path(__file__).resolve().parents[1]
START_SECONDS_MAX: Final = 60.0
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int
    pid: int

    def get(self, path: str) -> Any:
        """The JSON at an address."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return json.load(answer)

    @property
    def cpu_seconds(self) -> float:
        """Processor time used so far, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / TICKS_PER_SECOND

    @property
    def resident_mib(self) -> float:
        """Memory in use."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 2**20


def environment(**settings: str) -> dict[str, str]:
    """The environment without any setting of the developer's server, and with these."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("LAMBO_")}
    return {**kept, "PYTHONPATH": str(ROOT), **settings}


@contextmanager
def lambo_server(data_dir: Path, embedder: str = "none") -> Iterator[Server]:
    """The product, serving on a spare port with an embedder; stopped in order at the end."""
    port = _spare_port()
    with _process(
        [sys.executable, str(ROOT / "manage.py"), "serve"],
        environment(
            LAMBO_DATA_DIR=str(data_dir),
            LAMBO_PORT=str(port),
            LAMBO_LOG_LEVEL="warning",
            LAMBO_CLUSTER="false",
            LAMBO_EMBEDDER=embedder,
        ),
    ) as process:
        server = Server(port, process.pid)
        _await_ready(server, process)
        yield server


@contextmanager
def bare_server() -> Iterator[Server]:
    """The same web server around an application that does nothing."""
    with _process([sys.executable, "-m", "benchmarks.bare_server"], environment()) as process:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline()), process.pid)


def run_load(job: Job) -> Measured:
    """The load client's answer."""
    return Measured(**run_module("benchmarks.load_client", asdict(job)))


def fill(data_dir: Path, session_id: str, concepts: int, embedder: str = "none") -> None:
    """Put a made-up session of that many concepts, of an embedder, into a new data folder."""
    data_dir.mkdir()
    job = {"session_id": session_id, "concepts": concepts, "embedder": embedder}
    run_module("benchmarks.sessions", job, **store_settings(data_dir))


def store_settings(data_dir: Path) -> dict[str, str]:
    """The variables under which a child of ours finds the store of a data folder."""
    return {"LAMBO_DATA_DIR": str(data_dir), "DJANGO_SETTINGS_MODULE": "lambo_site.settings"}


def run_module(module: str, job: Mapping[str, Any], **settings: str) -> Any:
    """Run one of our modules with a job on its standard input; returns the JSON it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        env=environment(**settings),
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} ended with {done.returncode}: {done.stderr[-2_000:]}")
    return json.loads(done.stdout)


@contextmanager
def _process(command: list[str], environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=None, text=True
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
    finally:
        process.kill()
        process.communicate()


def _await_ready(server: Server, process: subprocess.Popen[str]) -> None:
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            server.get("/readyz")
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"the server was not ready within {START_SECONDS_MAX:g} s")


def _spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
