"""A lean load client, run as a process of its own: it must not take the cores it measures.

Each client keeps one connection and sends the next request when the answer is there. HTTP is spoken
by hand on asyncio's protocols, about a tenth of the work of a full HTTP library, since client and
server share the machine. The job comes as JSON on standard input, what was measured goes as JSON to
standard output.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Final

WORDS: Final = [
    "cache",
    "schema",
    "token",
    "ledger",
    "parser",
    "worker",
    "queue",
    "index",
    "replica",
    "billing",
    "shard",
    "session",
    "gateway",
    "tenant",
    "export",
    "batch",
    "policy",
    "quota",
    "webhook",
    "migration",
]
HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = b"content-length:"


@dataclass(frozen=True, slots=True)
class Job:
    """What to send. `kind` is `http`, `mcp`, `bare` or `recall`; `first` numbers the first
    statement.
    """

    port: int
    kind: str
    clients: int
    seconds: float
    warm_up_seconds: float = 0.5
    first: int = 0
    session: str = "bench"


@dataclass(frozen=True, slots=True)
class Measured:
    """What came back within the measured time; milliseconds for each answer.

    `sent` counts the warm-up too.
    """

    sent: int
    answers: int
    refused: int
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


def statement(number: int) -> str:
    """A statement that no other number has: a dozen words, as agents write them."""
    first, second = WORDS[number % len(WORDS)], WORDS[number // len(WORDS) % len(WORDS)]
    return (
        f"the {first} of service {number % 997} must wait for the {second} "
        f"before release {number} is rolled out"
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the ordered values do not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class _Client(asyncio.Protocol):
    """One connection: sends a request, times the answer, sends the next."""

    def __init__(self, make_request: Callable[[], bytes]) -> None:
        self._make_request = make_request
        self._buffer = b""
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None
        self.stop = False
        self.stopped = asyncio.get_running_loop().create_future()
        self.answers: list[tuple[float, float, bool]] = []  # ended at, seconds, is a success

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.stopped.done():
            self.stopped.set_exception(ConnectionError(f"the server hung up: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._buffer = buffer = self._buffer + data if self._buffer else data
        head = buffer.find(HEAD_END)
        if head < 0:
            return
        at = buffer.lower().find(LENGTH, 0, head)
        length = int(buffer[at + len(LENGTH) : buffer.find(b"\r\n", at)])
        if len(buffer) < head + len(HEAD_END) + length:
            return
        now = perf_counter()
        # Over MCP a refused call is a success of HTTP that says so.
        is_success = buffer.startswith(b"HTTP/1.1 200") and b'"isError":true' not in buffer
        self.answers.append((now, now - self._sent_at, is_success))
        self._buffer = b""
        if self.stop:
            self.stopped.set_result(None)
            assert self._transport is not None
            self._transport.close()
        else:
            self._send()

    def _send(self) -> None:
        assert self._transport is not None
        request = self._make_request()
        self._sent_at = perf_counter()
        self._transport.write(request)


def request_maker(job: Job, client: int) -> Callable[[], bytes]:
    """The requests of one client: each derives one new statement, or asks for one."""
    number = job.first + client
    path, more_head = _PLACES[job.kind]
    head = (
        f"POST {path.format(session=job.session)} HTTP/1.1\r\nHost: 127.0.0.1:{job.port}\r\n"
        f"Content-Type: application/json\r\n{more_head}Content-Length: "
    ).encode()

    def make() -> bytes:
        nonlocal number
        arguments: dict[str, object] = {"agent_id": f"agent-{client}"}
        if job.kind == "recall":
            arguments["query"] = statement(number)
        else:
            arguments["concepts"] = [{"content": statement(number), "concept_type": "logic"}]
        body = json.dumps(_tool_call(number, arguments) if job.kind == "mcp" else arguments)
        number += job.clients
        return b"%b%d\r\n\r\n%b" % (head, len(body), body.encode())

    return make


_PLACES: Final = {
    "http": ("/api/v1/sessions/{session}/derive", ""),
    "recall": ("/api/v1/sessions/{session}/recall", ""),
    "bare": ("/", ""),
    "mcp": (
        "/mcp/{session}",
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n",
    ),
}


def _tool_call(number: int, arguments: object) -> object:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": "lambo_derive", "arguments": arguments},
    }


async def measure(job: Job) -> Measured:
    """Send for as long as the job says."""
    loop = asyncio.get_running_loop()
    clients: list[_Client] = []
    for number in range(job.clients):
        make = request_maker(job, number)
        _, client = await loop.create_connection(lambda: _Client(make), "127.0.0.1", job.port)  # noqa: B023 - called at once
        clients.append(client)
    await asyncio.sleep(job.warm_up_seconds)
    start = perf_counter()
    await asyncio.sleep(job.seconds)
    end = perf_counter()
    for client in clients:
        client.stop = True
    await asyncio.gather(*(client.stopped for client in clients))
    inside = [
        (seconds, is_success)
        for client in clients
        for ended_at, seconds, is_success in client.answers
        if start <= ended_at <= end
    ]
    times = sorted(1_000 * seconds for seconds, is_success in inside if is_success)
    return Measured(
        sent=sum(len(client.answers) for client in clients),
        answers=len(times),
        refused=len(inside) - len(times),
        per_second=len(times) / (end - start),
        p50_ms=percentile(times, 0.50),
        p95_ms=percentile(times, 0.95),
        p99_ms=percentile(times, 0.99),
        max_ms=percentile(times, 1.0),
    )


def main() -> None:
    job = Job(**json.load(sys.stdin))
    print(json.dumps(asdict(asyncio.run(measure(job)))))


if __name__ == "__main__":
    main()
