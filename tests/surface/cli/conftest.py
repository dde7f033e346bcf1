"""One real server for all tests of the command line, and the command line itself.

The server is the one `lambo serve` is, in a process of its own on a spare port. Each test has a
session of its own in it. Commands run in this process through `main`, as the console script does.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from children import child_environment
from command_line import CommandLine, LiveServer, spare_port, stop_server
from memory.cli.launcher import find_or_start_server
from memory.client import LamboClient


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data_dir = tmp_path_factory.mktemp("command-line") / "data"
    config = data_dir.parent / "lambo.toml"
    config.touch()
    env = child_environment({"LAMBO_PORT": str(spare_port()), "LAMBO_CONFIG": str(config)})
    try:
        found = find_or_start_server(data_dir, env=env)
        yield LiveServer(found.url, data_dir)
    finally:
        stop_server(data_dir)


@pytest.fixture
def lambo(
    server: LiveServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    return CommandLine(server, f"session-{uuid.uuid4().hex[:12]}", capsys, monkeypatch)


@pytest.fixture
def client(server: LiveServer) -> Iterator[LamboClient]:
    """An agent's own client of the same server."""
    with LamboClient(server.url, agent_id="agent-of-the-test") as opened:
        yield opened
