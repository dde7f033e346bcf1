"""The cluster of worker processes beside a real server: its runs, its death and the server's."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from picklefield.fields import dbsafe_decode

from memory.client import LamboClient
from memory.data_folder import read_runtime
from memory.management.serving import STOP_SECONDS
from serving import RunningServer, eventually, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc"),
]

CLUSTER = {"LAMBO_CLUSTER": "true"}
MODULE = b"memory.management.cluster_process"
PROCESSES = 4
"""The guard, the worker, and who hands tasks in and results out."""
FAR_SECONDS = 100.0


def change(data_dir: Path, sql: str, *parameters: object) -> None:
    """Change rows of Django's own file, as the admin would."""
    path = data_dir / "django.sqlite3"
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        connection.execute(sql, parameters)


def read(data_dir: Path, sql: str) -> list[tuple[Any, ...]]:
    path = data_dir / "django.sqlite3"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
        return connection.execute(sql).fetchall()


def runs(data_dir: Path) -> list[tuple[str, bool, int]]:
    """Every run: what it came to, whether well, after how many attempts."""
    found = read(
        data_dir,
        "SELECT result, success, attempt_count FROM django_q_task WHERE \"group\" = 'retention'",
    )
    return [(str(dbsafe_decode(result)), bool(good), count) for result, good, count in found]


def is_queued(data_dir: Path) -> bool:
    return bool(read(data_dir, "SELECT 1 FROM django_q_ormq"))


def parent_of(pid: int) -> int | None:
    """The parent of a process that lives."""
    with suppress(OSError):
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return None if state == "Z" else int(parent)
    return None


def cluster_of(data_dir: Path) -> dict[int, int]:
    """The processes of a folder's cluster and the parent of each."""
    where = f"LAMBO_DATA_DIR={data_dir}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and MODULE in (entry / "cmdline").read_bytes():
                parent = parent_of(int(entry.name))
                if parent is not None and where in (entry / "environ").read_bytes():
                    found[int(entry.name)] = parent
    return found


def guard_of(data_dir: Path) -> int:
    found = cluster_of(data_dir)
    (guard,) = (pid for pid, parent in found.items() if parent not in found)
    return guard


def await_cluster(server: RunningServer) -> dict[int, int]:
    eventually(
        lambda: len(cluster_of(server.data_dir)) == PROCESSES,
        "the cluster runs",
        seconds=FAR_SECONDS,
    )
    return cluster_of(server.data_dir)


def await_run(server: RunningServer, count: int = 1) -> None:
    eventually(
        lambda: [good for _, good, _ in runs(server.data_dir)] == [True] * count,
        f"{count} run(s) ended well",
        seconds=FAR_SECONDS,
    )


def nothing_is_left(data_dir: Path) -> None:
    eventually(lambda: not cluster_of(data_dir), "no process of the cluster is left", seconds=10)


@contextmanager
def engine_locked(data_dir: Path) -> Iterator[sqlite3.Connection]:
    """The engine's file held by another hand, so that a job of the server waits."""
    with closing(
        sqlite3.connect(data_dir / "lambo.sqlite3", timeout=30, isolation_level=None)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def make_due(data_dir: Path, since: timedelta) -> None:
    moment = (datetime.now(UTC) - since).strftime("%Y-%m-%d %H:%M:%S.%f")
    change(data_dir, "UPDATE django_q_schedule SET next_run = ? WHERE name = 'retention'", moment)


def test_job_runs_is_recorded_and_a_day_that_was_missed_is_one_run(tmp_path: Path) -> None:
    with serving(tmp_path, **CLUSTER) as server:
        await_run(server)
        data_dir = server.data_dir
        ((text, _, attempts),) = runs(data_dir)
        assert "'ran': 1" in text
        assert "'receipts_dropped': 0" in text
        assert attempts == 1
        runtime = read_runtime(data_dir)
        assert runtime is not None
        sql = (
            "SELECT name, cluster, minutes, schedule_type FROM django_q_schedule"
            " WHERE name = 'retention'"
        )
        assert read(data_dir, sql) == [("retention", runtime.node_id, 60, "I")]
        with LamboClient.local(data_dir, as_operator=True) as client:
            (job,) = (
                job for job in client.list_jobs()["structured"]["jobs"] if job["job"] == "retention"
            )
        assert (job["run_by"], job["last_outcome"]) == ("cluster", "retention: ran 1")
        assert server.stop().code == 0
    change(data_dir, "UPDATE django_q_schedule SET minutes = 10 WHERE name = 'retention'")
    make_due(data_dir, timedelta(days=1))
    with serving(tmp_path, **CLUSTER) as server:
        await_run(server, 2)
        eventually(lambda: not is_queued(data_dir), "nothing waits")
        # The operator's interval is still there, and the next run lies ahead of now.
        ((minutes, next_run),) = read(
            data_dir, "SELECT minutes, next_run FROM django_q_schedule WHERE name = 'retention'"
        )
        assert minutes == 10
        assert datetime.fromisoformat(next_run).replace(tzinfo=UTC) > datetime.now(UTC)
        assert len(runs(data_dir)) == 2


def test_run_whose_worker_is_killed_is_run_again_once(tmp_path: Path) -> None:
    with serving(tmp_path, **CLUSTER) as server:
        await_run(server)
        data_dir = server.data_dir
        server.stop()
    # To a server that starts anew the job is due, but it is not asked for before it can be held up.
    change(data_dir, "DELETE FROM django_q_task")
    make_due(data_dir, timedelta(days=-1))
    with serving(tmp_path, **CLUSTER) as server:
        await_cluster(server)
        with engine_locked(data_dir):
            make_due(data_dir, timedelta(hours=2))
            os.kill(guard_of(data_dir), signal.SIGKILL)  # the next one looks at once
            eventually(lambda: bool(runs(data_dir)), "a run is begun", seconds=FAR_SECONDS)
            begun = re.search(r"begun and not ended: process (\d+)", runs(data_dir)[0][0])
            assert begun is not None
            os.kill(int(begun[1]), signal.SIGKILL)
        await_run(server)
        ((_, _, attempts),) = runs(data_dir)
        assert attempts == 2
        eventually(lambda: not is_queued(data_dir), "nothing waits")
        assert len(cluster_of(data_dir)) == PROCESSES
        assert "of the cluster was killed; it begins anew" in server.log


def test_run_that_always_fails_ends_as_a_failure(tmp_path: Path) -> None:
    with serving(tmp_path, **CLUSTER) as server:
        await_run(server)
        server.stop()
        data_dir = server.data_dir
    change(data_dir, "DELETE FROM django_q_task")
    change(data_dir, "UPDATE django_q_schedule SET args = ? WHERE name = 'retention'", "'nothing'")
    make_due(data_dir, timedelta(hours=2))
    with serving(tmp_path, **CLUSTER) as server:
        eventually(
            lambda: [count for _, _, count in runs(data_dir)] == [1],
            "the first attempt has failed",
            seconds=FAR_SECONDS,
        )
        change(data_dir, "UPDATE django_q_ormq SET lock = '2020-01-01 00:00:00'")
        eventually(lambda: not is_queued(data_dir), "it is not tried again", seconds=FAR_SECONDS)
        ((text, is_success, attempts),) = runs(data_dir)
        assert "there is no job 'nothing'" in text
        assert (is_success, attempts) == (False, 2)


def test_cluster_dies_with_a_killed_server_and_comes_back_when_killed_itself(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, **CLUSTER) as server:
        first = await_cluster(server)
        os.kill(guard_of(server.data_dir), signal.SIGKILL)
        eventually(
            lambda: not first.keys() & cluster_of(server.data_dir).keys(), "the old ones are gone"
        )
        await_cluster(server)
        assert server.is_answering()
        server.kill()
        nothing_is_left(server.data_dir)


def test_server_told_to_stop_ends_its_cluster_in_time_whatever_a_worker_waits_for(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, **CLUSTER) as server:
        await_run(server)
        data_dir = server.data_dir
        await_cluster(server)
        quick = server.stop()
        assert (quick.code, quick.says_all_committed) == (0, True)
        nothing_is_left(data_dir)
    change(data_dir, "DELETE FROM django_q_task")
    make_due(data_dir, timedelta(hours=2))
    with serving(tmp_path, **CLUSTER) as server, engine_locked(data_dir):
        eventually(lambda: bool(runs(data_dir)), "a run is begun", seconds=FAR_SECONDS)
        stopped = server.stop()
        assert (stopped.code, stopped.says_all_committed) == (0, True)
        assert stopped.seconds < STOP_SECONDS
        assert not cluster_of(data_dir)
    assert is_queued(data_dir), "the run that was cut short is not forgotten"


def test_server_without_a_cluster_starts_no_process_and_times_its_jobs_itself(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, LAMBO_CLUSTER="false") as server:
        with LamboClient.local(server.data_dir, as_operator=True) as client:
            (job,) = (
                job for job in client.list_jobs()["structured"]["jobs"] if job["job"] == "retention"
            )
            assert job["run_by"] == "ticker"
            assert client.run_job("retention")["structured"]["ran"] == 1
        assert not cluster_of(server.data_dir)
        assert read(server.data_dir, "SELECT * FROM django_q_schedule") == []
