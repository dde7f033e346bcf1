"""Proof that a command is an MCP server: it is started, greeted and asked for its tools.

Speaks the protocol's first three messages over the command's own pipes, as a client will, and no
more. Needs neither the protocol's library nor an event loop.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from memory.engine.errors import LamboError
from memory.version import VERSION

ANSWER_SECONDS_MAX: Final = 30.0
END_SECONDS_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 4_194_304
PROTOCOL: Final = "2025-06-18"
"""The revision that is offered; the server answers with one of its own."""
_ERROR_CHARS_MAX: Final = 500


class HandshakeFailed(LamboError):
    """The command does not answer as an MCP server; nothing was written."""

    code: ClassVar[str] = "handshake_failed"


@dataclass(frozen=True, slots=True)
class Greeted:
    """What answered."""

    server: str
    version: str
    tools: tuple[str, ...]


def shake_hands(words: Sequence[str], env: Mapping[str, str], *, folder: Path) -> Greeted:
    """Start a command in a folder and greet it; it is gone afterwards."""
    try:
        process = subprocess.Popen(
            list(words),
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise HandshakeFailed(f"cannot start {words[0]}: {error.strerror}") from error
    try:
        return _Talk(process).greet()
    finally:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


class _Talk:
    """One conversation, a JSON object on each line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._deadline = time.monotonic() + ANSWER_SECONDS_MAX
        self._unread = b""

    def greet(self) -> Greeted:
        client = {"name": "lambo-connect", "version": VERSION}
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        told = self._ask(1, "initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        listed = self._ask(2, "tools/list", {})
        server, tools = told.get("serverInfo"), listed.get("tools")
        if not isinstance(server, dict) or not isinstance(tools, list) or not tools:
            raise HandshakeFailed("the command answers, but not as a memory server")
        names = tuple(str(tool.get("name")) for tool in tools if isinstance(tool, dict))
        return Greeted(str(server.get("name")), str(server.get("version")), names)

    def _ask(self, number: int, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            line = self._line()
            try:
                message = json.loads(line)
            except ValueError as error:
                raise HandshakeFailed(f"the command prints {line[:80]!r} to its client") from error
            if isinstance(message, dict) and message.get("id") == number:
                result = message.get("result")
                if not isinstance(result, dict):
                    raise HandshakeFailed(f"the command refuses {method}")
                return result

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise HandshakeFailed(f"the command gave no answer in {ANSWER_SECONDS_MAX:.0f} s")
            part = os.read(self._process.stdout.fileno(), 65_536)
            if not part or len(self._unread) > ANSWER_BYTES_MAX:
                raise self._ended()
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _ended(self) -> HandshakeFailed:
        assert self._process.stderr is not None
        self._process.kill()
        told = self._process.stderr.read().decode(errors="replace").strip()
        end = f": {told[-_ERROR_CHARS_MAX:]}" if told else ""
        return HandshakeFailed(f"the command ended before it answered{end}")
