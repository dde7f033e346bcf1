"""The audit chain of a real server: killed in the middle of a burst, started with another key."""

from __future__ import annotations

import http.client
import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from canon_stores import Told, run_canon
from command_line import spare_port
from memory.data_folder import DataFolder, read_runtime
from serving import Refused, RunningServer, eventually, rows, server_environment, serving

SESSION = "shop"
WORKERS = 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Operator:
    """A person's keep-alive connection, with the secret of the data folder."""

    def __init__(self, server: RunningServer) -> None:
        runtime = read_runtime(server.data_dir)
        assert runtime is not None
        self._headers = {"Lambo-Operator": runtime.operator_secret, "Lambo-User": "olga"}
        parts = urlsplit(server.url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        concepts = [{"content": "meant", "concept_type": "entity"}]
        self.send(f"sessions/{SESSION}/derive", agent_id="agent", concepts=concepts)

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def send(self, path: str, **arguments: Any) -> dict[str, Any]:
        self._connection.request("POST", f"/api/v1/{path}", json.dumps(arguments), self._headers)
        with self._connection.getresponse() as response:
            body: dict[str, Any] = json.loads(response.read())
            assert response.status == 200, body
            return body

    def rule(self, name: str, meant: str) -> None:
        self.send(f"sessions/{SESSION}/synonym", source=name, target=meant)


def burst_until_killed(server: RunningServer, acts: int, told: list[str]) -> None:
    """Rulings of several people at full speed; the server is killed after so many answers."""
    answered = threading.Condition()

    def work(worker: int) -> None:
        with suppress(*Refused), Operator(server) as operator:
            for number in range(10_000):
                name = f"{len(told)} name {worker} {number}"
                operator.rule(name, "meant")
                with answered:
                    told.append(name)
                    answered.notify()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    with answered:
        target = len(told) + acts
        assert answered.wait_for(lambda: len(told) >= target, timeout=60)
    server.kill()
    for thread in threads:
        thread.join()


def verified(folder: Path, *words: str) -> dict[str, Any]:
    ran: Told = run_canon(folder / "data", "verify", "--json", *words)
    assert "Traceback" not in ran.err
    report: dict[str, Any] = json.loads(ran.out)
    assert ran.code == (0 if report["ok"] else 1)
    return report


def test_a_server_that_was_killed_in_a_burst_left_a_whole_chain(folder: Path) -> None:
    told: list[str] = []
    for acts in (1, 40, 120):
        with serving(folder) as server:
            burst_until_killed(server, acts, told)
        report = verified(folder)
        assert report["ok"], report
        assert report["verified"] >= len(told)
        assert report["unchained"] == 0
    with serving(folder) as server, Operator(server) as operator:
        beside = verified(folder)  # while it serves
        assert beside["verified"] == report["verified"]
        ran = operator.send("jobs", job="verify-audit", force=True)
        assert (ran["failed"], ran["did"]["rows_verified"]) == (0, beside["verified"])
        operator.rule("the last name", "meant")
        assert server.stop().code == 0
    report = verified(folder)
    assert report["anchored"] == report["verified"] == beside["verified"] + 1
    for name in ("chain-key", "anchors.jsonl"):
        assert (folder / "data" / name).stat().st_mode & 0o777 == 0o600


def test_a_foreign_hand_is_named_by_the_command_and_by_the_job(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Operator(server) as operator:
        for number in range(5):
            operator.rule(f"name {number}", "meant")
        assert server.stop().code == 0
    victim = rows(tmp_path / "data", "SELECT id FROM lambo_audit_event WHERE sequence = 3")[0][0]
    with closing(sqlite3.connect(tmp_path / "data" / "lambo.sqlite3")) as file, file:
        file.execute("UPDATE lambo_audit_event SET actor = 'nobody' WHERE sequence = 3")
    report = verified(tmp_path)
    assert not report["ok"]
    (fault,) = report["faults"]
    assert (fault["session"], fault["sequence"], fault["audit_id"]) == (SESSION, 3, victim)
    assert fault["kind"] == "changed"
    ran = run_canon(tmp_path / "data", "verify", "--session", SESSION)
    assert ran.code == 1
    assert f"{SESSION} row 3 ({victim}): changed" in ran.out
    assert run_canon(tmp_path / "data", "verify", "--session", "other").code == 0
    with serving(tmp_path) as server, Operator(server) as operator:
        job = operator.send("jobs", job="verify-audit", force=True)
        assert job["failures"][0]["code"] == "audit_broken"
        assert victim in job["failures"][0]["message"]
        eventually(lambda: victim in server.log, "the log names the row")


def test_anchors_kept_elsewhere_prove_more(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Operator(server) as operator:
        for number in range(3):
            operator.rule(f"name {number}", "meant")
        assert server.stop().code == 0
    copy = tmp_path / "copy.jsonl"
    (tmp_path / "data" / "anchors.jsonl").rename(copy)
    with closing(sqlite3.connect(tmp_path / "data" / "lambo.sqlite3")) as file, file:
        file.execute("DELETE FROM lambo_audit_event WHERE sequence = 3")
    assert verified(tmp_path)["ok"]
    report = verified(tmp_path, "--anchors", str(copy))
    assert [(fault["sequence"], fault["kind"]) for fault in report["faults"]] == [(3, "missing")]
    nowhere = run_canon(tmp_path / "data", "verify", "--anchors", str(tmp_path / "no.jsonl"))
    assert (nowhere.code, nowhere.out) == (2, "")
    assert "there is no file of anchors" in nowhere.err


def serve_refused(folder: Path, **variables: str) -> str:
    """What a start that must fail says."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "memory.cli.main", "serve"],
        cwd=folder,
        env=server_environment(folder, LAMBO_PORT=str(spare_port()), **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


def test_a_server_with_another_key_refuses_to_start_and_shows_neither(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Operator(server) as operator:
        operator.rule("db", "database")
        assert server.stop().code == 0
    own = DataFolder(tmp_path / "data").chain_key()
    other = "another key of at least thirty-two"
    said = serve_refused(tmp_path, LAMBO_CHAIN_KEY=other)
    assert "are linked with another chain key" in said
    assert own not in said
    assert other not in said
    # The same key by either way is the same key.
    (tmp_path / "data" / "chain-key").unlink()
    with serving(tmp_path, LAMBO_CHAIN_KEY=own) as server, Operator(server) as operator:
        operator.rule("srv", "server")
        assert server.stop().code == 0
    assert not (tmp_path / "data" / "chain-key").exists()
    unknown = run_canon(tmp_path / "data", "verify")
    assert unknown.code == 1
    assert "there is no chain key" in unknown.err
    ran = run_canon(tmp_path / "data", "verify", "--json", LAMBO_CHAIN_KEY=own)
    assert json.loads(ran.out)["verified"] == 2
    wrong = run_canon(tmp_path / "data", "verify", LAMBO_CHAIN_KEY=other)
    assert wrong.code == 1
    assert "chain_key_mismatch" in wrong.err
    # A lost key is not made anew in silence.
    assert "are linked with another chain key" in serve_refused(tmp_path)


@pytest.mark.parametrize("key", ["short", "ü" * 40])
def test_a_key_that_is_none_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "memory.cli.main", "serve"],
        cwd=tmp_path,
        env=server_environment(tmp_path, LAMBO_CHAIN_KEY=key),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert "audit.chain_key must be at least 32" in ran.stderr
    assert key not in ran.stderr
