"""The command line under test: `lambo` in this process, against a real server in another."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory.cli.main import main
from memory.data_folder import DataFolder


@dataclass(frozen=True)
class LiveServer:
    """A running server and its data folder."""

    url: str
    data_dir: Path


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on stdout."""
        assert self.code == 0, self.err
        return json.loads(self.out)


class Terminal(io.TextIOWrapper):
    """Standard input with a person before it who types the given lines."""

    def isatty(self) -> bool:
        return True


class CommandLine:
    """`lambo`, bound to the server and to one session."""

    def __init__(
        self,
        server: LiveServer,
        session: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.server = server
        self.session = session
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: bytes = b"", typed: str | None = None) -> Ran:
        """Run a command; `typed` puts a person at the terminal."""
        stream = io.TextIOWrapper if typed is None else Terminal
        raw = stdin if typed is None else typed.encode()
        self._monkeypatch.setattr(sys, "stdin", stream(io.BytesIO(raw), encoding="utf-8"))
        self._capsys.readouterr()
        where = ["--data-dir", str(self.server.data_dir), "--session", self.session]
        code = main([*where, *words])
        told = self._capsys.readouterr()
        return Ran(code, told.out, told.err)


def spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def stop_server(data_dir: Path) -> None:
    """End the server of a folder in order, and return when it is gone."""
    pid = DataFolder(data_dir).find_holder()
    if pid is None:
        return
    watched = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGTERM)
        select.select([watched], [], [])  # readable when the process has ended
    finally:
        os.close(watched)
    with suppress(ChildProcessError):  # a command started it, not we
        os.waitpid(pid, 0)
