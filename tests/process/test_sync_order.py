"""Every acknowledgement follows the sync of its commit, and what was synced holds the write.

The server runs under strace. Its calls tell when an answer was sent and what had been synced by
then; from the synced bytes alone a store is rebuilt, as after a power failure at that moment, and
read by SQLite.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from serving import HttpClient, serving
from synced_disk import (
    SyncedDisk,
    SystemCall,
    find_reason_not_to_trace,
    read_trace,
    strace_command,
)

WRITES = 16
CLIENTS = 4
"""First one client writes alone, then so many at once, each as often."""

SESSION = "power"
SHARED = "a concept of all writes"
FILLING = "text that fills pages, so that the log is carried over into the database " * 50
DATABASE, LOG = "lambo.sqlite3", "lambo.sqlite3-wal"
NAMES = frozenset({DATABASE, LOG, "lambo.sqlite3-journal"})
SENDING = ("write", "writev", "sendto", "sendmsg")
SYNCING = ("fsync", "fdatasync")
ACKNOWLEDGED = re.compile(rb"^HTTP/1\.1 200 .*\r\nidempotency-key: ([^\r]+)\r\n", re.S | re.I)

NO_TRACE = find_reason_not_to_trace()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(NO_TRACE is not None, reason=NO_TRACE or "traced"),
]


@dataclass(frozen=True)
class Traced:
    """What a server did while it was written to, and what its clients were told."""

    data_dir: Path
    calls: list[SystemCall]
    told: list[str]

    def moments(self) -> Iterator[SystemCall]:
        """The calls in the order in which they count: an answer from its first byte on,
        everything else when it had ended."""
        sent = {id(call) for call in self.calls if acknowledged_key(call)}
        return iter(
            sorted(self.calls, key=lambda call: call.began if id(call) in sent else call.ended)
        )


def acknowledged_key(call: SystemCall) -> str:
    """The key of the write that this call acknowledges; empty if it does something else."""
    if call.name not in SENDING or not call.path.startswith(("socket:", "TCP:")):
        return ""
    match = ACKNOWLEDGED.match(call.text)
    return "" if match is None else match[1].decode()


def content_of(key: str) -> str:
    return f"statement {key}"


def write_all(url: str, client: str, told: list[str]) -> None:
    with HttpClient(url) as connection:
        for number in range(WRITES):
            key = f"{client}n{number}"
            contents = content_of(key), SHARED, f"{key} {FILLING}"
            answer = connection.derive(SESSION, *contents, key=key)
            assert answer.status == 200, answer
            told.append(key)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """One run under the tracer, ended by SIGKILL."""
    folder = tmp_path_factory.mktemp("traced")
    told: list[str] = []
    with serving(folder, under=strace_command(folder / "trace")) as server:
        write_all(server.url, "alone", told)
        threads = [
            threading.Thread(target=write_all, args=(server.url, f"client{n}", told))
            for n in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(told) == WRITES * (1 + CLIENTS)
    return Traced(server.data_dir, list(read_trace(folder / "trace")), told)


def test_answer_to_a_write_is_sent_after_the_sync_that_follows_its_bytes(traced: Traced) -> None:
    """Bytes written and then synced since the answer before. Cycles of the server commit too, so
    further bytes may wait for their sync; whose were synced, the rebuilt stores tell."""
    log = str(traced.data_dir / LOG)
    is_written = is_synced = False
    answered: list[str] = []
    for call in traced.moments():
        if call.path == log and call.name == "pwrite64":
            is_written = True
        elif call.path == log and call.name in SYNCING:
            is_synced = is_written
        elif key := acknowledged_key(call):
            if key.startswith("alone"):
                assert is_written, f"{key} was acknowledged and nothing had been written"
                assert is_synced, f"{key} was acknowledged before its bytes were synced"
                is_written = is_synced = False
            answered.append(key)
    assert sorted(answered) == sorted(traced.told)


def test_store_rebuilt_from_synced_bytes_holds_each_write_when_it_is_acknowledged(
    traced: Traced, tmp_path: Path
) -> None:
    disk = SyncedDisk(traced.data_dir, NAMES)
    answered: set[str] = set()
    checkpoints = 0
    for call in traced.moments():
        disk.follow(call)
        if key := acknowledged_key(call):
            answered.add(key)
            assert answered - stored_keys(disk, tmp_path / str(len(answered))) == set()
        elif answered and call.name in SYNCING and call.path.endswith(DATABASE):
            checkpoints += 1
    assert answered == set(traced.told)
    assert checkpoints > 0, "the log was never carried over: more has to be written"


def test_store_rebuilt_lacks_the_writes_when_their_syncs_are_left_out(
    traced: Traced, tmp_path: Path
) -> None:
    """The proof above would notice: the same trace, as if the server had not synced its log."""
    disk = SyncedDisk(traced.data_dir, NAMES)
    has_answered = False
    for call in traced.moments():
        if has_answered and call.name in SYNCING:
            continue
        disk.follow(call)
        has_answered = has_answered or acknowledged_key(call) != ""
    (first, *_others) = (key for call in traced.moments() if (key := acknowledged_key(call)))
    assert stored_keys(disk, tmp_path / "unsynced") == {first}


def stored_keys(disk: SyncedDisk, folder: Path) -> set[str]:
    """The keys of the writes that a store of the surviving bytes holds, whole."""
    folder.mkdir()
    for name, content in disk.survivors().items():
        (folder / name).write_bytes(content)
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        keys = {key for (key,) in connection.execute("SELECT key FROM lambo_receipt")}
        contents = {text for (text,) in connection.execute("SELECT content FROM lambo_concept")}
        assert {content_of(key) for key in keys} <= contents
        ((position,),) = connection.execute("SELECT position FROM lambo_lease").fetchall()
        assert position >= len(keys)  # the server takes positions of its own
    return keys
