"""An HTTP server on loopback that answers as a test has written down, and remembers what it was
asked. It knows nothing of the API: what is under test is the client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer. `drop` closes the connection without a word, after the request was read."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False


@dataclass(frozen=True)
class Asked:
    """One request as it arrived. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Script:
    """The answers still to give, in order, and the requests so far."""

    url: str
    replies: list[Reply]
    asked: list[Asked]

    def will_answer(self, *replies: Reply) -> None:
        self.replies.extend(replies)


DROP = Reply(drop=True)


def ok(**structured: Any) -> Reply:
    """The answer to a call that succeeded."""
    return Reply(body={"text": "done", "warnings": [], **structured})


def error(status: int, code: str, **fields: Any) -> Reply:
    """The answer to a call that failed."""
    return Reply(status, {"error": {"code": code, "message": f"it is {code}", **fields}})


@contextmanager
def scripted_server() -> Iterator[Script]:
    """A server with an empty script; a request with no answer left fails loudly."""
    script = Script("", [], [])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(raw) if raw else None
            script.asked.append(Asked(self.command, self.path, headers, body))
            reply = script.replies.pop(0) if script.replies else Reply(599, "nothing was expected")
            if reply.drop:
                self.close_connection = True
                return
            is_text = isinstance(reply.body, str)
            content = reply.body.encode() if is_text else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "text/html" if is_text else "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _answer  # the library's names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}"
    # Polls for the order to stop; a request is served at once whatever the interval.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
