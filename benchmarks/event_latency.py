"""How long after a write is sent do its listeners have it?

One writer derives at a steady pace; listeners follow over SSE and over WebSocket, each with a
connection of its own, in one process with the writer, so that one clock measures both ends. A
write's own answer is the baseline: it comes after the same commit. Further listeners that read
nothing (`stuck`) are there to be in the way.
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from websockets.sync.client import connect

from benchmarks.processes import Server, lambo_server
from benchmarks.report import Budget, Report, Row
from memory.client import LamboClient, SessionEvent

QUESTION: Final = "How long after a write is sent do its listeners have its event?"
SESSION: Final = "bench"
PACE_SECONDS: Final = 0.01
GIVE_UP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """Listeners of one kind, and how many more take nothing."""

    surface: str
    listeners: int
    stuck: int = 0


FULL: Final = (
    Case("sse", 1),
    Case("websocket", 1),
    Case("sse", 20),
    Case("websocket", 20),
    Case("sse", 1, stuck=100),
)
QUICK: Final = (Case("sse", 1), Case("websocket", 2, stuck=2))


def run(*, quick: bool) -> Report:
    """Measure every case on a server of its own."""
    writes = 20 if quick else 500
    baselines: list[Row] = []
    rows: list[Row] = []
    for case in QUICK if quick else FULL:
        with tempfile.TemporaryDirectory() as folder, lambo_server(Path(folder), "none") as server:
            answers, arrivals = _measure(server, case, writes)
        named = {"surface": case.surface, "listeners": case.listeners, "stuck": case.stuck}
        baselines.append({"what": "the write's own answer", **named, **_times(answers)})
        rows.append({**named, "events": len(arrivals), **_times(arrivals)})
    budgets = [
        Budget(
            f"{row['surface']}, {row['listeners']} listeners, {row['stuck']} stuck: p95 in ms",
            row["p95_ms"],
            300,
        )
        for row in ([] if quick else rows)
    ]
    return Report("event_latency", QUESTION, baselines, rows, budgets)


def _measure(server: Server, case: Case, writes: int) -> tuple[list[float], list[float]]:
    """Seconds from sending a write to its answer, and to each listener's having the event."""
    url = f"http://127.0.0.1:{server.port}"
    ready = threading.Barrier(case.listeners + 1)
    heard: list[dict[str, float]] = [{} for _ in range(case.listeners)]
    follow = _follow_sse if case.surface == "sse" else _follow_socket
    threads = [
        threading.Thread(target=follow, args=(url, ready, arrivals, writes), daemon=True)
        for arrivals in heard
    ]
    sent: dict[str, float] = {}
    answers: list[float] = []
    with ExitStack() as held, LamboClient(url, agent_id="writer") as client:
        client.derive(SESSION, [{"content": "the session is there", "concept_type": "entity"}])
        for _ in range(case.stuck):
            held.enter_context(_stuck(server.port))
        for thread in threads:
            thread.start()
        ready.wait(GIVE_UP_SECONDS)
        for number in range(writes):
            content = f"statement {number} of the run"
            sent[content] = began = time.perf_counter()
            client.derive(SESSION, [{"content": content, "concept_type": "entity"}])
            answers.append(time.perf_counter() - began)
            time.sleep(PACE_SECONDS)
        for thread in threads:
            thread.join(GIVE_UP_SECONDS)
    arrivals = [at - sent[content] for one in heard for content, at in one.items()]
    assert len(arrivals) == writes * case.listeners, "an event is missing"
    return answers, arrivals


def _follow_sse(
    url: str, ready: threading.Barrier, arrivals: dict[str, float], writes: int
) -> None:
    with LamboClient(url) as client:
        for told in client.follow_events(SESSION, since=0, kinds=["write"]):
            now = time.perf_counter()
            assert isinstance(told, SessionEvent)
            assert told.data is not None
            if told.id == 1:
                ready.wait(GIVE_UP_SECONDS)
                continue
            arrivals[told.data["concepts"][0]["content"]] = now
            if len(arrivals) == writes:
                return


def _follow_socket(
    url: str, ready: threading.Barrier, arrivals: dict[str, float], writes: int
) -> None:
    address = f"ws{url.removeprefix('http')}/ws/v1/sessions/{SESSION}/events?since=0&kinds=write"
    with connect(address) as watching:
        while len(arrivals) < writes:
            told = json.loads(watching.recv(timeout=GIVE_UP_SECONDS))
            now = time.perf_counter()
            if told["type"] != "event":
                continue
            if told["id"] == 1:
                ready.wait(GIVE_UP_SECONDS)
                continue
            arrivals[told["data"]["concepts"][0]["content"]] = now


@contextmanager
def _stuck(port: int) -> Iterator[None]:
    """A listener that asks for everything and reads nothing."""
    request = (
        f"GET /api/v1/sessions/{SESSION}/events?since=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Accept: text/event-stream\r\n\r\n"
    )
    with closing(socket.create_connection(("127.0.0.1", port), GIVE_UP_SECONDS)) as connection:
        connection.sendall(request.encode())
        yield


def _times(seconds: Sequence[float]) -> Row:
    ordered = sorted(seconds)
    last = len(ordered) - 1
    at = {name: ordered[min(last, int(share * len(ordered)))] for name, share in _SHARES}
    return {name: 1_000 * value for name, value in at.items()}


_SHARES: Final = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99))
