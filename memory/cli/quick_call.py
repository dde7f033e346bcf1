"""One call of a server that runs already, over a socket and nothing else.

For commands that somebody waits for at every step of an agent: they load neither httpx nor the
library's own client, start no server and try nothing twice. Speaks HTTP/1.0, in which an answer
ends with its connection. What a call is and what its answer means is `memory.client_calls`'.
"""

from __future__ import annotations

import os
import socket
from argparse import Namespace
from typing import Final
from urllib.parse import SplitResult, urlsplit

from memory.cli.connection import find_data_dir, find_token
from memory.client_calls import (
    API_PATH,
    Answer,
    Call,
    Received,
    ServerUnreachable,
    bearer,
    read_answer,
)
from memory.data_folder import read_runtime
from memory.engine.errors import LamboError

ANSWER_SECONDS_MAX: Final = 2.0
"""An agent's tool waits for this; a server that takes longer counts as one that is not there."""
ANSWER_BYTES_MAX: Final = 4_194_304

_PORTS: Final = {"http": 80, "https": 443}


def find_running(options: Namespace) -> str:
    """The address these options mean. Raises `ServerUnreachable` when no server runs there."""
    url: str | None = getattr(options, "url", None)
    if url is not None:
        return url.rstrip("/")
    folder = find_data_dir(options, os.environ)
    runtime = read_runtime(folder)
    if runtime is None:
        raise ServerUnreachable(f"no memory server runs on the data folder {folder}")
    return runtime.url


def call_once(url: str, call: Call, options: Namespace) -> Answer:
    """Send a call without the rights of people, and read its answer.

    Raises what the server refused it with, and `ServerUnreachable` when no answer comes.
    """
    address = urlsplit(url)
    if address.scheme not in _PORTS or not address.hostname:
        raise ServerUnreachable(f"{url!r:.60} is no address of a server")
    token = find_token(options, os.environ)
    request = _request(address, call, None if token is None else bearer(token))
    try:
        received = _received(_exchange(address, request), source=f"{call.method} {url}")
    except (OSError, ValueError) as error:
        raise ServerUnreachable(f"the memory server does not answer at {url}") from error
    answer = read_answer(received)
    if isinstance(answer, LamboError):
        raise answer
    return answer


def _request(address: SplitResult, call: Call, authorization: bytes | None) -> bytes:
    body = call.body or b""
    headers = {
        "Host": address.netloc.rpartition("@")[2].encode(),
        "Accept": b"application/json",
        "Content-Type": b"application/json",
        "Content-Length": str(len(body)).encode(),
        **call.headers,
    }
    if authorization is not None:
        headers["Authorization"] = authorization
    first = f"{call.method} {address.path}{API_PATH}{call.path} HTTP/1.0".encode()
    lines = [first, *(name.encode() + b": " + value for name, value in headers.items())]
    return b"\r\n".join([*lines, b"", body])


def _exchange(address: SplitResult, request: bytes) -> bytes:
    """Send everything and read to the end. Raises `OSError`, of which a time-out is one."""
    target = (address.hostname, address.port or _PORTS[address.scheme])
    with socket.create_connection(target, timeout=ANSWER_SECONDS_MAX) as plain:
        connection: socket.socket = plain
        if address.scheme == "https":
            import ssl

            context = ssl.create_default_context()
            connection = context.wrap_socket(plain, server_hostname=address.hostname)
        connection.sendall(request)
        answer = bytearray()
        while part := connection.recv(65_536):
            answer += part
            if len(answer) > ANSWER_BYTES_MAX:
                raise ValueError("the answer is longer than any of this server's")
    return bytes(answer)


def _received(answer: bytes, *, source: str) -> Received:
    """The parts of a response. Raises `ValueError` for what is none."""
    head, mark, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    protocol, status, *_ = [*first.split(" ", 2), ""]
    if not mark or not protocol.startswith("HTTP/1."):
        raise ValueError("no HTTP")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if len(body) < int(headers.get("content-length", "0")):
        raise ValueError("the answer was cut off")
    return Received(int(status), headers, body, source=source)
