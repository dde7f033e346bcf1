"""No room to write: writes are refused or in doubt, reads go on, nothing is lost, and it heals.

Room is taken in two ways that SQLite reports differently: a limit on the size of the server's
files, lowered while it runs, and, where the machine lets us mount one, a small disk that is filled.
"""

from __future__ import annotations

import resource
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from serving import Answer, HttpClient, RunningServer, count, eventually, serving

SESSION = "full"
BEFORE = 30
IN_DOUBT, KEY = "while it was full", "key-of-the-one-in-doubt"
LIMIT_BYTES = 32_768
"""Less than one write adds to SQLite's log, more than the server's own log ever holds here."""
DISK_BYTES = 4_000_000
BLOCK_BYTES = 4_096

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Disk(Protocol):
    """Where a server keeps its data, and how room is taken from it."""

    data_dir: Path

    def fill(self, server: RunningServer) -> None: ...

    def free(self, server: RunningServer) -> None: ...


@dataclass
class LimitedFiles:
    """Files may not grow beyond a size (EFBIG, an input/output error to SQLite)."""

    data_dir: Path

    def fill(self, server: RunningServer) -> None:
        self._set(server, LIMIT_BYTES)

    def free(self, server: RunningServer) -> None:
        self._set(server, resource.RLIM_INFINITY)

    @staticmethod
    def _set(server: RunningServer, size: int) -> None:
        limits = (size, resource.RLIM_INFINITY)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limits)


@dataclass
class SmallDisk:
    """A disk of a few megabytes (ENOSPC), filled to its last block."""

    data_dir: Path

    @property
    def _ballast(self) -> Path:
        return self.data_dir / "ballast"

    def fill(self, server: RunningServer) -> None:
        try:
            with self._ballast.open("ab", buffering=0) as ballast:
                while ballast.write(bytes(BLOCK_BYTES)):
                    pass
        except OSError:
            return

    def free(self, server: RunningServer) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        run = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no disk of our own: there is no mount command")
    if run.returncode:
        pytest.skip(f"no disk of our own: {run.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(params=["limited files", "small disk"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "limited files":
        yield LimitedFiles(tmp_path / "data")
        return
    with small_disk(tmp_path / "data") as mounted:
        yield mounted


class Waiting(threading.Thread):
    """A write that waits for the store in a thread of its own."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.answer: Answer | None = None

    def run(self) -> None:
        with HttpClient(self._url) as client:
            self.answer = client.derive(SESSION, IN_DOUBT, key=KEY)


def test_full_disk_refuses_writes_answers_reads_and_heals_without_loss(
    tmp_path: Path, disk: Disk
) -> None:
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        write_before(client)
        disk.fill(server)
        waiting = Waiting(server.url)
        waiting.start()
        eventually(lambda: bool(client.stats(SESSION)["degraded"]), "the store counts as away")

        refused = client.derive(SESSION, "refused while it was full", key="refused")
        assert (refused.status, refused.code) == (503, "store_unavailable")
        assert refused.body["error"]["retry_after_seconds"] > 0
        assert client.call("GET", "/readyz").status == 503
        assert client.call("GET", "/healthz").status == 200
        found = client.recall(SESSION, "before 7")
        assert found["hits"][0]["content"] == "before 7"
        assert any(" writes not committed" in warning for warning in found["warnings"])
        # Another session cannot be made now; that is said in the same way.
        elsewhere = client.derive("another", "refused as well")
        assert (elsewhere.status, elsewhere.code) == (503, "store_unavailable")

        disk.free(server)
        waiting.join()
        assert waiting.answer is not None
        assert waiting.answer.code in ("", "outcome_unknown")  # by how soon it healed
        eventually(lambda: receipt_state(client) == "committed", "the store is back")
        again = client.derive(SESSION, IN_DOUBT, key=KEY)
        assert (again.status, again.is_replayed) == (200, True)
        assert client.derive(SESSION, "refused while it was full", key="refused").status == 200
        assert client.derive("another", "refused as well").status == 200
        assert client.call("GET", "/readyz").status == 200
        check_counts(client, server)
        stopped = server.stop()
        assert (stopped.code, stopped.says_all_committed) == (0, True)
        assert "Traceback" not in server.log
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        check_counts(client, server)


def check_counts(client: HttpClient, server: RunningServer) -> None:
    """Everything acknowledged, the one in doubt and the one sent again: each once."""
    stats = client.stats(SESSION)
    for table in ("concept", "interaction", "receipt"):
        assert count(server.data_dir, table, SESSION) == BEFORE + 2, table
    assert (stats["concept_count"], stats["interaction_count"]) == (BEFORE + 2, BEFORE + 2)
    assert not stats["degraded"]
    for content in ("before 0", f"before {BEFORE - 1}", IN_DOUBT):
        assert client.find(SESSION, content)


def test_write_without_room_is_in_doubt_and_a_stop_does_not_claim_that_it_is_kept(
    tmp_path: Path,
) -> None:
    disk = LimitedFiles(tmp_path / "data")
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        write_before(client)
        disk.fill(server)
        waiting = Waiting(server.url)
        waiting.start()
        waiting.join()
        assert waiting.answer is not None
        assert waiting.answer.code == "outcome_unknown"
        assert waiting.answer.body["error"]["idempotency_key"] == KEY
        assert receipt_state(client) == "applied"
        stopped = server.stop()
        print(f"stopped on a full disk in {stopped.seconds:.2f} s")
        assert stopped.code == 1
        assert " applied write(s); they may be lost" in stopped.last_line
        assert "Traceback" not in server.log
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.stats(SESSION)["concept_count"] == BEFORE
        assert count(server.data_dir, "concept", SESSION) == BEFORE
        # Under the key it was told to keep, the caller gets it in after all.
        answer = client.derive(SESSION, IN_DOUBT, key=KEY)
        assert (answer.status, answer.is_replayed) == (200, False)


def write_before(client: HttpClient) -> None:
    for number in range(BEFORE):
        assert client.derive(SESSION, f"before {number}").status == 200


def receipt_state(client: HttpClient) -> str:
    answer = client.receipt(SESSION, KEY)
    assert answer.status == 200, answer
    return str(answer.body["state"])
