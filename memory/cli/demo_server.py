"""The private server of a demo: made-up times, a temporary folder, nothing left behind.

Owns the life of that server and of its folder, and keeps every setting of the user away from it.
Knows no scenario.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from memory.demo_profile import DEMO_VARIABLE

IDLE_MINUTES: Final = 1
"""Should this process be killed, its server ends by itself."""
IDLE_MINUTES_STAYING: Final = 30
STOP_SECONDS_MAX: Final = 20.0
DATABASE_FILE: Final = "lambo.sqlite3"
POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class PrivateServer:
    """Where the demo's server answers, what opens the acts of people, and where it keeps rows."""

    url: str
    operator_secret: str
    database: Path


@contextmanager
def private_server(*, idle_minutes: int = IDLE_MINUTES) -> Iterator[PrivateServer]:
    """A server with the demo profile; afterwards it and its folder are gone."""
    from memory.cli.launcher import SERVE_COMMAND, find_or_start_server
    from memory.data_folder import DataFolder

    with TemporaryDirectory(prefix="lambo-demo-") as name:
        folder = Path(name).resolve()
        data_dir = folder / "data"
        config = folder / "lambo.toml"
        config.touch()
        command = [*SERVE_COMMAND[:-1], str(idle_minutes)]
        try:
            env = demo_environment(os.environ, data_dir, config)
            url = find_or_start_server(data_dir, env=env, command=command).url
            published = DataFolder(data_dir).find_runtime()
            assert published is not None, "a server that answers has published itself"
            yield PrivateServer(url, published.operator_secret, data_dir / DATABASE_FILE)
        finally:
            if (pid := DataFolder(data_dir).find_holder()) is not None:
                _stop(pid)


def demo_environment(environ: Mapping[str, str], data_dir: Path, config: Path) -> dict[str, str]:
    """The variables of the private server: none of the user's settings, no configuration file."""
    kept = {name: text for name, text in environ.items() if not name.startswith("LAMBO_")}
    return kept | {
        "LAMBO_DATA_DIR": str(data_dir),
        "LAMBO_CONFIG": str(config),
        "LAMBO_PORT": str(_spare_port()),
        DEMO_VARIABLE: "1",
    }


def _spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop(pid: int) -> None:
    """End our child in order, and by force if it will not."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGTERM)
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(POLL_SECONDS)
