"""The doctor: says what is wrong, also when almost everything is, and leaves no trace."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from children import child_environment
from process.test_serve import CONCEPT, SERVE, serving, spare_port

pytestmark = pytest.mark.slow

ALL_CHECKS = {
    "configuration",
    "data folder",
    "disk",
    "server",
    "embedder",
    "store",
    "clock",
    "leases",
    "vectors",
    "troubles",
    "tokens",
    "cluster",
    "audit chain",
}


@dataclass(frozen=True)
class Told:
    """What the doctor said, by check: its worst level and everything it told."""

    code: int
    levels: dict[str, str]
    text: str


def doctor(folder: Path, **variables: str) -> Told:
    run = subprocess.run(
        [*SERVE[:-1], "doctor", "--json"],
        cwd=folder.parent,
        env=child_environment(
            {"LAMBO_DATA_DIR": str(folder), "LAMBO_PORT": str(spare_port()), **variables}
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stderr == ""
    report = json.loads(run.stdout)
    order = ["ok", "warning", "problem"]
    levels: dict[str, str] = {}
    for finding in report["findings"]:
        assert bool(finding["advice"]) == (finding["level"] != "ok")
        before = levels.get(finding["check"], "ok")
        levels[finding["check"]] = max(before, finding["level"], key=order.index)
    assert report["ok"] == (run.returncode == 0) == ("problem" not in levels.values())
    return Told(run.returncode, levels, " ".join(it["message"] for it in report["findings"]))


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """The body changes nothing in a folder, but for SQLite's scratch index of a log."""

    def look() -> dict[str, tuple[int, int, int, bytes]]:
        return {
            path.name: (seen.st_mode, seen.st_mtime_ns, seen.st_size, path.read_bytes())
            for path in folder.iterdir()
            if not path.name.endswith("-shm")
            for seen in [path.stat()]
        }

    before, names = look(), set(os.listdir(folder))
    yield
    assert look() == before
    assert set(os.listdir(folder)) == names


def change(folder: Path, sql: str, *values: object, file: str = "lambo.sqlite3") -> None:
    with closing(sqlite3.connect(folder / file, isolation_level=None)) as database:
        database.execute(sql, values)


def test_all_is_well_with_a_server_and_without_one(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.call("/sessions/s/derive", CONCEPT)
        told = doctor(server.folder)
        assert (told.code, set(told.levels)) == (0, ALL_CHECKS)
        assert set(told.levels.values()) == {"ok"}
        assert f"process {server.process.pid} at" in told.text
        server.end(signal.SIGTERM)
    with untouched(server.folder):
        told = doctor(server.folder)
        assert (told.code, set(told.levels.values())) == (0, {"ok"})
        assert "none runs on this folder" in told.text


def test_folder_of_a_killed_server_is_read_and_not_touched(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.call("/sessions/s/derive", CONCEPT)
        server.end(signal.SIGKILL)
    with untouched(server.folder):
        told = doctor(server.folder)
    assert told.code == 0
    assert "1 are left of a server that was killed" in told.text


def test_where_nothing_is_nothing_is_made(tmp_path: Path) -> None:
    told = doctor(tmp_path / "data")
    assert told.code == 0
    assert (told.levels["data folder"], told.levels["store"]) == ("warning", "warning")
    assert not (tmp_path / "data").exists()


def test_settings_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    told = doctor(tmp_path / "data", LAMBO_LEASE_TTL_SECONDS="minus one")
    assert (told.code, told.levels) == (1, {"configuration": "problem"})
    assert "LAMBO_LEASE_TTL_SECONDS" in told.text


def test_server_that_hangs_is_a_problem(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            told = doctor(server.folder)
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
    assert (told.code, told.levels["server"]) == (1, "problem")


def test_everything_that_is_wrong_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, LAMBO_EMBEDDER="fixture") as server:
        server.call("/sessions/s/derive", CONCEPT)
        server.end(signal.SIGTERM)
    folder = server.folder
    later = time.time_ns() // 1_000 + 3_600 * 1_000_000
    change(folder, "UPDATE lambo_interaction SET created_at = ?", later)
    change(folder, "UPDATE lambo_lease SET node_id = 'another', expires_at = ?", later)
    change(folder, "DELETE FROM lambo_embedding")
    change(
        folder,
        "INSERT INTO lambo_dead_letter (session_id, position, error, created_at)"
        " VALUES ('s', 9, 'too wide', ?)",
        later - 3_600 * 1_000_000,
    )
    anchor = {"at": "2026-01-01T00:00:00Z", "session": "s", "sequence": 1, "hash": "f" * 64}
    (folder / "anchors.jsonl").write_text(json.dumps(anchor) + "\nno anchor\n")
    change(
        folder,
        "INSERT INTO lambo_setting (name, value) VALUES ('chain_key_fingerprint', 'x')"
        " ON CONFLICT (name) DO NOTHING",
    )
    (folder / "secret-key").chmod(0o644)
    folder.chmod(0o755)
    with untouched(folder):
        told = doctor(folder, LAMBO_AUTH="tokens")
    assert told.code == 1
    problems = {check for check, level in told.levels.items() if level == "problem"}
    warnings = {check for check, level in told.levels.items() if level == "warning"}
    assert problems == {"data folder", "clock", "leases", "audit chain"}
    assert warnings == {"vectors", "troubles", "tokens"}
    assert "1 concept(s) have no vector" in told.text
    assert "the configured embedder is none" in told.text
    assert "node another" in told.text


def test_another_chain_key_newer_tables_and_a_lost_embedder_are_problems(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.call("/sessions/s/derive", CONCEPT)
        server.end(signal.SIGTERM)
    lost = doctor(
        server.folder,
        LAMBO_CHAIN_KEY="another-key-of-more-than-thirty-two-signs",
        LAMBO_EMBEDDER="llama",
        LAMBO_EMBEDDER_MODEL_PATH=str(tmp_path / "no-such-model.gguf"),
    )
    problems = {check for check, level in lost.levels.items() if level == "problem"}
    assert problems == {"audit chain", "embedder"}
    change(
        server.folder,
        "INSERT INTO django_migrations (app, name, applied)"
        " VALUES ('memory', '9999_x', '2030-01-01')",
    )
    assert doctor(server.folder).levels["store"] == "problem"
    (server.folder / "lambo.sqlite3").write_bytes(b"no database at all, but long enough to be read")
    assert doctor(server.folder).levels["store"] == "problem"


def test_port_of_another_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other:
        runtime = json.loads((other.folder / "runtime.json").read_text())
        taken = str(runtime["url"]).rpartition(":")[2]
        told = doctor(tmp_path / "data", LAMBO_PORT=taken)
    assert told.levels["server"] == "problem"
    assert f"port {taken} is taken" in told.text
