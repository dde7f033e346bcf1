"""A stand-in for an embedding server: it answers as told, on a loopback port.

Its vectors are those of the fixture embedder, by spelling, unless a test gives it others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, TypeAlias

from memory.embed.fixture import FixtureEmbedder
from memory.engine.embedding import EmbeddingFailure

DIM = 16
Answer: TypeAlias = Callable[[Sequence[str]], tuple[int, bytes]]


def vectors_of(texts: Sequence[str]) -> list[list[float]]:
    """What the stand-in computes, not at length one, as servers may."""
    vectors = []
    for vector in FixtureEmbedder(DIM).embed(texts, deadline_seconds=60):
        assert not isinstance(vector, EmbeddingFailure)
        vectors.append([3.0 * float(value) for value in vector])
    return vectors


def as_answer(vectors: Sequence[object]) -> bytes:
    """A body of the interface, last text first: the `index` says which is which."""
    rows = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    return json.dumps({"object": "list", "data": rows[::-1], "model": "m"}).encode()


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that leaves in the middle is what some tests are about."""


class StandIn:
    """The server's address, what it was asked, and how it answers. A port of 0 is a spare one."""

    def __init__(self, port: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.answer: Answer = lambda texts: (200, as_answer(vectors_of(texts)))
        self.released = Event()
        """Set when the test is over: an answer may wait for it to be slow for ever."""
        self._server = _QuietServer(("127.0.0.1", port), self._handler())
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def asked(self) -> list[list[str]]:
        """The texts of each request."""
        return [body["input"] for body in self.bodies]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stand_in.bodies.append(body)
                stand_in.headers.append(dict(self.headers))
                stand_in.paths.append(self.path)
                status, content = stand_in.answer(body["input"])
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # the client had enough

            def log_message(self, *_: object) -> None:
                pass

        return Handler
