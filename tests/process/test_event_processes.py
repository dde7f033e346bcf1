"""Events of real servers: over a restart, a kill and an end, and with clients that are cut."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from children import child_environment
from memory.client import AsyncLamboClient, EventGap, LamboClient, SessionEvent
from memory.client_retries import Retries
from serving import HttpClient, RunningServer, count, eventually, server_environment, serving

POOL_THREADS = min(32, (os.cpu_count() or 1) + 4)
PATIENT = Retries(unreachable_seconds=60.0)


class Listener(threading.Thread):
    """Follows a session until it has heard so many events."""

    def __init__(self, data_dir: Path, session: str, wanted: int, since: int = 0) -> None:
        super().__init__(daemon=True)
        self.heard: list[int] = []
        self.gaps: list[EventGap] = []
        self._asked = (data_dir, session, wanted, since)

    def run(self) -> None:
        data_dir, session, wanted, since = self._asked
        with LamboClient.local(data_dir, retries=PATIENT) as client:
            for told in client.follow_events(session, since=since, kinds=["write"]):
                if isinstance(told, SessionEvent):
                    self.heard.append(told.id)
                else:
                    self.gaps.append(told)
                if len(self.heard) >= wanted:
                    return

    def finish(self) -> list[int]:
        self.join(60)
        assert not self.is_alive(), self.heard
        return self.heard


def write(server: RunningServer, *contents: str, session: str = "s") -> None:
    with HttpClient(server.url) as client:
        for content in contents:
            assert client.derive(session, content).status == 200


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_listener_goes_on_over_a_restart_without_loss_or_repeat(tmp_path: Path, end: str) -> None:
    with serving(tmp_path) as server:
        write(server, *(f"before {number}" for number in range(5)))
        listener = Listener(tmp_path / "data", "s", wanted=10)
        listener.start()
        eventually(lambda: len(listener.heard) == 5, "the listener has caught up")
        if end == "kill":
            server.kill()
        else:
            assert server.stop().says_all_committed
    with serving(tmp_path) as server:
        write(server, *(f"after {number}" for number in range(5)))
        heard = listener.finish()
        stored = count(tmp_path / "data", "event", "s")
        with LamboClient(server.url) as client:
            page = client.list_events("s", since=0, kinds=["write"])["structured"]["events"]
    assert heard == [event["id"] for event in page]
    assert len(set(heard)) == 10
    assert listener.gaps == []
    assert stored >= 10


def test_every_acknowledged_write_has_its_event_after_a_kill(tmp_path: Path) -> None:
    acknowledged: list[str] = []

    def hammer(server: RunningServer) -> None:
        with suppress(Exception), HttpClient(server.url) as client:
            for number in range(10_000):
                if client.derive("s", f"fact {number}").status == 200:
                    acknowledged.append(f"fact {number}")

    with serving(tmp_path) as server:
        writer = threading.Thread(target=hammer, args=(server,), daemon=True)
        writer.start()
        eventually(lambda: len(acknowledged) > 50, "some writes are acknowledged")
        server.kill()
        writer.join(60)
    with serving(tmp_path) as server, LamboClient(server.url) as client:
        told: list[str] = []
        ids: list[int] = []
        place = 0
        while True:
            page = client.list_events("s", since=place)["structured"]
            for event in page["events"]:
                ids.append(event["id"])
                if event["kind"] == "write":
                    told += [one["content"] for one in event["data"]["concepts"]]
            place = page["resume"]
            if place >= page["newest"]:
                break
    assert ids == list(range(1, len(ids) + 1))
    assert set(acknowledged) <= set(told)
    assert len(told) == len(set(told))
    assert len(told) - len(acknowledged) <= 1  # the one under way


def test_a_stop_ends_streams_and_sockets_at_once_and_in_order(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        write(server, "fact")
        address = f"ws{server.url.removeprefix('http')}/ws/v1/sessions/s/events?since=0"
        listener = Listener(tmp_path / "data", "s", wanted=2)
        listener.start()
        with connect(address, origin=server.url) as watching:  # type: ignore[arg-type]
            said = [watching.recv(timeout=20) for _ in range(2)]
            assert '"type": "event"' in str(said[1])
            stopping = server.stop()
            with suppress(ConnectionClosed):
                while True:
                    said.append(watching.recv(timeout=20))
            assert watching.close_code in (1001, 1012)
        assert '"shutdown"' in str(said[-1])
        assert (stopping.code, stopping.says_all_committed) == (0, True)
        # Waiting for streams would take the transport's whole patience.
        assert "Cancel" not in server.log
    with serving(tmp_path) as server:
        write(server, "another")
        listener.finish()


def cut_off(server: RunningServer, number: int) -> None:
    """Open a stream or a socket, read nothing or a little, and drop the connection."""
    parts = urlsplit(server.url)
    path, more = "/api/v1/sessions/s/events?since=0", "Accept: text/event-stream\r\n"
    if number % 2:
        path = "/ws/v1/sessions/s/events?since=0"
        more = (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: {server.url}\r\n"
        )
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{more}\r\n".encode()
    with closing(socket.create_connection((str(parts.hostname), parts.port), 20)) as connection:
        connection.sendall(request[: len(request) if number % 5 else number % len(request)])
        if number % 3 and number % 5:
            connection.recv(64)


def resources(pid: int) -> tuple[int, int, int]:
    """Sockets, threads and resident kilobytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    numbers = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    open_files = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            open_files.append(os.readlink(path))
    sockets = sum(name.startswith("socket:") for name in open_files)
    return sockets, int(numbers["Threads"]), int(numbers["VmRSS"].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_five_hundred_cut_listeners_leave_nothing_behind(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        write(server, *(f"fact {number}" for number in range(50)))
        for number in range(60):  # caches and pools have their size
            cut_off(server, number)
        write(server, "settled")
        eventually(lambda: resources(server.pid)[0] < 10, "the first connections are closed")
        sockets, threads, kilobytes = resources(server.pid)
        for number in range(500):
            cut_off(server, number)
        with LamboClient(server.url) as client:  # others are unharmed
            told = next(iter(client.follow_events("s", since=0)))
            assert isinstance(told, SessionEvent)
        eventually(
            lambda: resources(server.pid)[0] <= sockets, "every socket of a cut client is closed"
        )
        after = resources(server.pid)
        # The pool of worker threads may only now have its full size; it does not grow further.
        assert after[1] <= threads + POOL_THREADS
        assert after[2] <= kilobytes + 20_000
        assert server.stop().says_all_committed


def run_lambo(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "memory.cli.main", *words],
        cwd=folder,
        env=child_environment({**server_environment(folder)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_of(process: subprocess.Popen[str], number: int) -> Sequence[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(number)]


def test_the_command_line_follows_what_happens(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        write(server, "first fact", session="shop")
        words = ("events", "--session", "shop", "--follow", "--since", "0", "--kind", "write")
        plain, as_json = run_lambo(tmp_path, *words), run_lambo(tmp_path, *words, "--json")
        try:
            (line,) = lines_of(plain, 1)
            assert line.startswith("1  ")
            assert "write by agent" in line
            (text,) = lines_of(as_json, 1)
            assert '"id": 1' in text
            write(server, "second fact", session="shop")
            (line,) = lines_of(plain, 1)
            assert "derived 1 concept(s)" in line
        finally:
            for process in (plain, as_json):
                process.kill()
                process.communicate()


def test_the_asynchronous_client_follows_too_and_is_closed_in_order(tmp_path: Path) -> None:
    async def follow(url: str) -> list[int]:
        heard: list[int] = []
        async with AsyncLamboClient(url) as client:
            stream = client.follow_events("s", since=1)
            async for told in stream:
                assert isinstance(told, SessionEvent)
                heard.append(told.id)
                if len(heard) == 2:
                    break
            await stream.aclose()
        return heard

    with serving(tmp_path) as server:
        write(server, "one", "two", "three")
        assert asyncio.run(follow(server.url)) == [2, 3]
        assert server.stop().code == 0
