"""Backups of a real server: taken while it writes, brought back, damaged, killed half-way."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from backups import (
    DJANGO_FILE,
    ENGINE_FILE,
    all_rows,
    command_environment,
    command_of,
    run_lambo,
    with_free_leases,
)
from memory.client import LamboClient
from memory.data_folder import DataFolder
from serving import HttpClient, RunningServer, rows, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SESSIONS = ("shop", "büro")


def operator(server: RunningServer) -> LamboClient:
    return LamboClient.local(server.data_dir, agent_id="olga", as_operator=True)


def fill(server: RunningServer) -> None:
    """Sessions with all that can stand in one: cited, removed, purged, ruled, reserved."""
    with operator(server) as client:
        for session in SESSIONS:
            for number in range(8):
                content = f"statement {number} of {session}"
                client.derive(session, [{"content": content, "concept_type": "logic"}])
            client.record_action(
                session,
                "rewrite it",
                modifies=["file.py"],
                depends_on=[f"statement 1 of {session}"],
            )
            client.declare_synonym(session, "stmt", "statement")
            gone = client.retract(session, f"statement 2 of {session}", reason="wrong")
            client.retract(session, f"statement 3 of {session}", reason="also wrong")
            purged = client.purge(session, f"statement 4 of {session}")["structured"]
            client.purge(session, f"statement 4 of {session}", confirm=purged["node_id"])
            client.reserve(session, concept="file.py", ttl_seconds=3_000)
            assert gone["structured"]["target"]
        client.create_token("ci", agent="ci", scopes=["read"], sessions=["*"])


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a server has stopped, with a login and two sessions; and `b.lambo`."""
    folder = tmp_path_factory.mktemp("origin")
    with serving(folder) as server:
        fill(server)
        assert server.stop().code == 0
    made = subprocess.run(
        command_of("admin", "create", "--username", "olga", "--password-stdin"),
        env=command_environment(folder / "data"),
        input="a long enough pass word 1\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    told = run_lambo(folder / "data", "backup", str(folder / "b.lambo"), "--json").json
    assert [part["session"] for part in told["sessions"]] == sorted(SESSIONS)
    return folder


def test_what_is_brought_back_is_what_was_there(origin: Path, tmp_path: Path) -> None:
    data = tmp_path / "new"
    told = run_lambo(data, "restore-backup", str(origin / "b.lambo"))
    assert told.code == 0, told.err
    assert "their audit chains hold" in told.out
    assert with_free_leases(all_rows(data)) == with_free_leases(all_rows(origin / "data"))
    before, after = all_rows(origin / "data", DJANGO_FILE), all_rows(data, DJANGO_FILE)
    for table in ("auth_user", "auth_group", "auth_permission", "auth_group_permissions"):
        assert after[table] == before[table]
    assert after["auth_user"]
    verified = run_lambo(data, "canon", "verify", "--json").json
    assert verified["ok"]
    assert verified["verified"] == verified["anchored"] > 4
    for name in ("chain-key", "lambo.sqlite3", "anchors.jsonl"):
        assert (data / name).stat().st_mode & 0o077 == 0
    (tmp_path / "new").rename(tmp_path / "data")
    with serving(tmp_path) as server, HttpClient(server.url) as client, operator(server) as olga:
        assert client.stats("shop")["concept_count"] == 7
        assert client.derive("shop", "a new one").status == 200
        gone = olga.list_disappearances("shop")["structured"]["disappearances"]
        restorable = [row["node_id"] for row in gone if row["state"] == "restorable"]
        assert len(restorable) == 2
        olga.restore("shop", restorable[0])
        assert server.stop().code == 0
    assert run_lambo(tmp_path / "data", "canon", "verify").code == 0


def test_a_backup_holds_counts_checksums_and_heads_for_whoever_reads_it(origin: Path) -> None:
    with zipfile.ZipFile(origin / "b.lambo") as file:
        manifest = json.loads(file.read("manifest.json"))
        lines = {
            table["name"]: file.read(f"tables/{table['name']}.jsonl").splitlines()
            for table in manifest["tables"]
        }
    data = origin / "data"
    assert (manifest["format"], manifest["version"]) == ("lambo-backup", 1)
    for table in manifest["tables"]:
        assert len(lines[table["name"]]) == table["rows"]
        if table["database"] == "engine":
            ((count,),) = rows(data, f"SELECT count(*) FROM {table['name']}")
            assert table["rows"] == count
    for part in manifest["sessions"]:
        name = part["session"]
        ((count,),) = rows(data, "SELECT count(*) FROM lambo_concept WHERE session_id = ?", name)
        assert part["counts"]["concepts"] == count
    heads = rows(
        data,
        "SELECT session_id, sequence, link_hash FROM lambo_audit_event AS a WHERE sequence ="
        " (SELECT max(sequence) FROM lambo_audit_event AS b WHERE b.session_id = a.session_id)",
    )
    told = [(part["session"], part["sequence"], part["hash"]) for part in manifest["chains"]]
    assert sorted(told) == sorted(heads)
    assert "chain_key_fingerprint" in manifest
    key = DataFolder(data).chain_key()
    assert key not in json.dumps(manifest)


def test_a_session_comes_back_beside_itself_under_a_new_name(origin: Path, tmp_path: Path) -> None:
    shutil.copytree(origin / "data", tmp_path / "data")
    data, file = tmp_path / "data", str(origin / "b.lambo")
    which = run_lambo(data, "restore-backup", file, "--into", "copy")
    assert which.code == 1
    assert "say which session with --session" in which.err
    told = run_lambo(data, "restore-backup", file, "--into", "copy", "--session", "shop", "--json")
    assert told.json["source"] == "shop"
    again = run_lambo(data, "restore-backup", file, "--into", "copy", "--session", "shop")
    assert (again.code, again.out) == (1, "")
    assert "the name 'copy' is or was in use here" in again.err
    nobody = run_lambo(data, "restore-backup", file, "--into", "x", "--session", "nobody")
    assert "the backup holds no session 'nobody'" in nobody.err
    verified = run_lambo(data, "canon", "verify", "--json").json
    assert verified["ok"]
    named = {row[0] for row in rows(data, "SELECT DISTINCT session_id FROM lambo_audit_event")}
    assert verified["sessions"] == len(named)
    assert {"shop", "copy"} <= named
    for table in ("concept", "interaction", "edge", "embedding", "synonym"):
        sql = f"SELECT count(*) FROM lambo_{table} WHERE session_id = ?"
        assert rows(data, sql, "copy") == rows(data, sql, "shop")
    before = with_free_leases(all_rows(origin / "data"))["lambo_concept"]
    assert set(before) <= set(all_rows(data)["lambo_concept"]), "the others are as they were"
    with serving(tmp_path) as server, operator(server) as client:
        # Each of the two brings its own removed concept back, under an id of its own.
        for session in ("shop", "copy"):
            gone = client.list_disappearances(session)["structured"]["disappearances"]
            (first,) = [row for row in gone if row["content"] == "statement 2 of shop"]
            client.restore(session, first["node_id"])
        edges = {
            session: client.stats(session)["structured"]["edges_by_type"]
            for session in ("shop", "copy")
        }
        assert edges["shop"] == edges["copy"]
        assert rows(data, "SELECT count(*) FROM lambo_set_aside") == [(0,)]
        assert server.stop().code == 0
    assert run_lambo(data, "canon", "verify").code == 0


def test_a_session_brought_back_says_so_at_the_end_of_its_trail(
    origin: Path, tmp_path: Path
) -> None:
    """Bringing a session back left no row: nobody could tell a copy from what was lived."""
    shutil.copytree(origin / "data", tmp_path / "data")
    data, path = tmp_path / "data", origin / "b.lambo"
    words = ("--into", "copy", "--session", "shop", "--json")
    told = run_lambo(data, "restore-backup", str(path), *words)
    assert told.code == 0
    trail = "SELECT id, kind, sequence, actor, detail FROM lambo_audit_event WHERE session_id = ?"
    copied = rows(data, f"{trail} ORDER BY sequence", "copy")
    lived = rows(data, f"{trail} ORDER BY sequence", "shop")
    assert [row[1:4] for row in copied[:-1]] == [row[1:4] for row in lived]
    assert told.json["audit_rows"] == len(copied) == len(lived) + 1
    row_id, kind, sequence, actor, detail = copied[-1]
    assert (kind, sequence) == ("session-create", lived[-1][2] + 1)
    assert row_id == max(row[0] for row in copied)
    assert actor.startswith(f"{getpass.getuser()}-")
    with zipfile.ZipFile(path) as file:
        made_at = json.loads(file.read("manifest.json"))["made_at"]
    told_of = json.loads(detail)
    assert told_of.keys() == {"source", "backup", "made_at"}
    assert (told_of["source"], told_of["made_at"]) == ("shop", made_at)
    assert told_of["backup"].encode() in path.read_bytes()[-200:], "the seal of the very file"
    verified = run_lambo(data, "canon", "verify", "--session", "copy", "--json").json
    assert (verified["ok"], verified["verified"]) == (True, len(copied))


def test_a_broken_chain_is_not_brought_back(origin: Path, tmp_path: Path) -> None:
    """Rows that a foreign hand changed before the backup was made are named by the restore."""
    shutil.copytree(origin / "data", tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / ENGINE_FILE)) as file, file:
        file.execute(
            "UPDATE lambo_audit_event SET actor = 'nobody' WHERE sequence = 2"
            " AND session_id = 'shop'"
        )
    backup = str(tmp_path / "broken.lambo")
    assert run_lambo(tmp_path / "data", "backup", backup).code == 0
    whole = run_lambo(tmp_path / "new", "restore-backup", backup)
    assert whole.code == 1
    assert "audit row 2 of session 'shop' does not fit its chain" in whole.err
    assert rows(tmp_path / "new", "SELECT count(*) FROM lambo_concept") == [(0,)]
    words = ("--into", "copy", "--session", "shop")
    one = run_lambo(tmp_path / "new", "restore-backup", backup, *words)
    assert "audit row 2 of session 'shop' does not fit its chain" in one.err
    assert rows(tmp_path / "new", "SELECT count(*) FROM lambo_session") == [(0,)]


def test_no_place_is_written_to_that_is_not_free(origin: Path, tmp_path: Path) -> None:
    file = str(origin / "b.lambo")
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.derive("mine", "hello").status == 200
        for words in ((), ("--into", "copy", "--session", "shop")):
            held = run_lambo(tmp_path / "data", "restore-backup", file, *words)
            assert held.code == 1
            assert "another server runs on" in held.err
            assert "[data_folder_held]" in held.err
        assert server.stop().code == 0
    before = all_rows(tmp_path / "data")
    full = run_lambo(tmp_path / "data", "restore-backup", file)
    assert full.code == 1
    assert "has a chain key of its own" in full.err
    key = DataFolder(origin / "data").chain_key()
    (tmp_path / "data" / "chain-key").unlink()
    full = run_lambo(tmp_path / "data", "restore-backup", file)
    assert "holds sessions, tokens or audit rows already" in full.err
    other = run_lambo(tmp_path / "x", "restore-backup", file, LAMBO_CHAIN_KEY="k" * 40)
    assert "has a chain key of its own" in other.err
    assert key not in other.err + full.err
    assert all_rows(tmp_path / "data") == before


def test_what_is_damaged_or_asked_wrongly_touches_no_folder(origin: Path, tmp_path: Path) -> None:
    whole = (origin / "b.lambo").read_bytes()
    damaged = tmp_path / "d.lambo"
    middle = len(whole) // 2
    for data, told in (
        (whole[:middle], "cut short"),
        (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], "checksum"),
        (b"", "cut short"),
    ):
        damaged.write_bytes(data)
        ran = run_lambo(tmp_path / "new", "restore-backup", str(damaged))
        assert (ran.code, ran.out) == (1, "")
        assert told in ran.err
        assert "[invalid_backup]" in ran.err
    idle = run_lambo(tmp_path / "new", "restore-backup", str(origin / "b.lambo"), "--session", "x")
    assert idle.code == 2
    named = run_lambo(tmp_path / "new", "restore-backup", str(origin / "b.lambo"), "--into", "a/b")
    assert named.code == 2
    nothing = run_lambo(tmp_path / "new", "backup", str(tmp_path / "none.lambo"))
    assert nothing.code == 1
    assert "has a server of this version run there?" in nothing.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.lambo", "lambo.toml"]


def test_a_backup_without_the_key_asks_for_it(origin: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "b.lambo")
    told = run_lambo(origin / "data", "backup", file, "--without-chain-key", "--json").json
    assert not told["has_chain_key"]
    key = DataFolder(origin / "data").chain_key()
    lacking = run_lambo(tmp_path / "new", "restore-backup", file)
    assert "holds no chain key" in lacking.err
    given = run_lambo(tmp_path / "new", "restore-backup", file, LAMBO_CHAIN_KEY=key)
    assert given.code == 0, given.err
    assert not (tmp_path / "new" / "chain-key").exists()
    assert run_lambo(tmp_path / "new", "canon", "verify", LAMBO_CHAIN_KEY=key).code == 0


def test_what_a_foreign_hand_wrote_is_carried_along(origin: Path, tmp_path: Path) -> None:
    """Text that is not UTF-8, and a number that is not finite, once broke every reader."""
    shutil.copytree(origin / "data", tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / ENGINE_FILE)) as file, file:
        file.execute("UPDATE lambo_edge SET weight = 9e999 WHERE session_id = 'shop'")
        file.execute(
            "UPDATE lambo_interaction SET prompt_text = CAST(x'66ff' AS TEXT)"
            " WHERE session_id = 'shop'"
        )
    backup = str(tmp_path / "b.lambo")
    assert run_lambo(tmp_path / "data", "backup", backup).code == 0
    restored = run_lambo(tmp_path / "new", "restore-backup", backup)
    assert restored.code == 0, restored.err
    before, after = all_rows(tmp_path / "data"), all_rows(tmp_path / "new")
    assert after["lambo_edge"] == before["lambo_edge"]
    assert after["lambo_interaction"] == before["lambo_interaction"]


# -- while others write ----------------------------------------------------------------------------


@contextmanager
def writing(server: RunningServer, acknowledged: list[str]) -> Iterator[None]:
    """Writers at full speed for as long as the block lasts; they note what they were told."""
    done = threading.Event()

    def work(worker: int) -> None:
        with HttpClient(server.url) as client:
            number = 0
            while not done.is_set():
                content = f"fact w{worker}n{number}"
                assert client.derive("busy", content).status == 200
                acknowledged.append(content)
                number += 1

    threads = [threading.Thread(target=work, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_a_backup_beside_writers_is_one_state_with_all_they_were_told_before(
    tmp_path: Path,
) -> None:
    acknowledged: list[str] = []
    with serving(tmp_path) as server:
        with writing(server, acknowledged):
            before: list[list[str]] = []
            for number in range(3):
                before.append(list(acknowledged))
                told = run_lambo(tmp_path / "data", "backup", str(tmp_path / f"{number}.lambo"))
                assert told.code == 0, told.err
        assert len(acknowledged) > len(before[-1]) > 0
        assert server.stop().code == 0
    for number in range(3):
        data = tmp_path / f"new{number}"
        file = str(tmp_path / f"{number}.lambo")
        assert run_lambo(data, "restore-backup", file).code == 0
        found = {row[0] for row in rows(data, "SELECT content FROM lambo_concept")}
        assert set(before[number]) <= found <= set(acknowledged)
        # Each of these writes is one interaction, one concept, one receipt and one position.
        ((position,),) = rows(data, "SELECT position FROM lambo_lease WHERE session_id = 'busy'")
        for table in ("interaction", "concept", "receipt"):
            assert rows(data, f"SELECT count(*) FROM lambo_{table}") == [(len(found),)]
        assert position >= len(found)


def test_killed_half_way_a_restore_leaves_all_or_nothing(origin: Path, tmp_path: Path) -> None:
    data, file = tmp_path / "data", str(origin / "b.lambo")
    everything = with_free_leases(all_rows(origin / "data"))
    for table in ("checked lambo_edge", "lambo_session", "lambo_concept", "lambo_audit_event"):
        with subprocess.Popen(
            command_of("restore-backup", file),
            env=command_environment(data),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith(f"lambo restore-backup: {table}"):
                    process.kill()
                    break
            process.wait()
        if (data / ENGINE_FILE).exists():
            left = with_free_leases(all_rows(data))
            is_empty = not any(left[name] for name in left)
            assert is_empty or left == everything
        shutil.rmtree(data, ignore_errors=True)
    assert run_lambo(data, "restore-backup", file).code == 0
    assert with_free_leases(all_rows(data)) == everything


def test_a_backup_that_is_interrupted_leaves_no_file_of_its_name(
    origin: Path, tmp_path: Path
) -> None:
    for sign in (signal.SIGKILL, signal.SIGINT):
        with subprocess.Popen(
            command_of("backup", str(tmp_path / "b.lambo")),
            env=command_environment(origin / "data"),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stderr is not None
            process.stderr.readline()
            os.kill(process.pid, sign)
            process.wait()
        if (tmp_path / "b.lambo").exists():  # it was done before the signal came
            assert (
                run_lambo(tmp_path / "new", "restore-backup", str(tmp_path / "b.lambo")).code == 0
            )
            return


# -- a store that went back ------------------------------------------------------------------------


def written_over(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def copied(data_dir: Path, target: Path) -> None:
    """A whole copy of the engine's database, as its own tool makes one beside a server."""
    written_over(data_dir / ENGINE_FILE, target)


@pytest.mark.parametrize("way", ["written over", "put in its place"])
def test_a_store_from_before_under_a_running_server_is_noticed(way: str, tmp_path: Path) -> None:
    """Writes once went into a file that nobody found again, and were acknowledged."""
    older = tmp_path / "older.sqlite3"
    data = tmp_path / "data"
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.derive("s", "before").status == 200
        copied(data, older)
        for number in range(3):
            assert client.derive("s", f"after {number}").status == 200
        if way == "written over":
            written_over(older, data / ENGINE_FILE)
        else:
            os.replace(older, data / ENGINE_FILE)
        answers: list[Any] = [client.derive("s", f"lost {number}") for number in range(3)]
        assert [(answer.status, answer.code) for answer in answers] == [(503, "store_rewound")] * 3
        assert "older than what was acknowledged" in answers[0].body["error"]["message"]
        # What is in memory still answers, and says that nothing is written any more.
        recalled = client.recall("s", "after 1")
        assert any("writes are stopped" in warning for warning in recalled["warnings"])
        server.stop()
        assert "Traceback" not in server.log
    if way == "put in its place":  # these belonged to the file that is gone
        for name in ("-wal", "-shm"):
            (data / f"{ENGINE_FILE}{name}").unlink(missing_ok=True)
    stored = {row[0] for row in rows(data, "SELECT content FROM lambo_concept")}
    assert stored == {"before"}
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.derive("s", "a new start").status == 200
