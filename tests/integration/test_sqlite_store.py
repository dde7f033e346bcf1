"""The durable store on SQLite: its settings, its failures, and the rows of a foreign hand."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.db.utils import OperationalError
from pytest_django import DjangoDbBlocker

from engine_database import EngineDatabase, engine_database
from lambo_site.databases import sqlite_databases
from memory.engine.mutations import PutConcept, PutEdge, SetRootGoal
from memory.engine.ports import BeingDeleted, LoadedSession, StoreRejected, StoreTransient
from memory.engine.snapshot import load_snapshot
from memory.engine.types import ConceptType, EdgeType, Status
from memory.engine.wire import mutation_from_json
from memory.store import deletion, loading
from memory.store.dialects import dialect_for
from memory.store.django_store import DjangoStore
from memory.store.transactions import reading, writing
from session_log import NODE, START, SessionLog, acquire, counted, deletion_entry
from shared_data import shared_file


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path) as made:
        yield made


@pytest.fixture
def store(database: EngineDatabase) -> DjangoStore:
    return database.store()


@pytest.fixture
def log(store: DjangoStore) -> SessionLog:
    return SessionLog(store)


def load(log: SessionLog) -> LoadedSession:
    loaded = log.store.load_session(log.session_id)
    assert loaded is not None
    return loaded


# -- settings ----------------------------------------------------------------------------------


def test_the_writing_connection_is_durable(database: EngineDatabase) -> None:
    pragmas = {
        name: database.execute(f"PRAGMA {name}")[0][0]
        for name in ("journal_mode", "synchronous", "fullfsync", "secure_delete", "busy_timeout")
    }
    full = 2
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": full,
        "fullfsync": 1,
        "secure_delete": 1,
        "busy_timeout": 5_000,
    }


def test_a_writing_transaction_takes_the_lock_when_it_begins(database: EngineDatabase) -> None:
    other = sqlite3.connect(database.path, timeout=0)
    with writing(database.writer), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("UPDATE lambo_lease SET token = 0")
    other.close()


def test_the_reading_alias_refuses_to_write(database: EngineDatabase) -> None:
    with (
        pytest.raises(StoreTransient, match="cannot be written"),
        reading(database.reader) as cursor,
    ):
        cursor.execute("DELETE FROM lambo_concept", [])
    connections[database.reader].close()
    with connections[database.reader].cursor() as cursor:
        cursor.execute("PRAGMA query_only=OFF")
        with pytest.raises(OperationalError, match="readonly"):
            cursor.execute("DELETE FROM lambo_concept")


def test_both_files_of_a_data_folder_work_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%20é"
    folder.mkdir()
    databases = sqlite_databases(folder)
    assert set(databases) == {"default", "memory", "memory_ro"}
    sqlite3.connect(databases["memory"]["NAME"]).execute("CREATE TABLE t (x)").connection.close()

    reader = sqlite3.connect(databases["memory_ro"]["NAME"], uri=True)
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
    reader.close()
    assert Path(databases["default"]["NAME"]).parent == folder.resolve()


def test_the_stores_clock_is_the_wall_clock(database: EngineDatabase) -> None:
    before = time.time_ns() // 1000
    with reading(database.reader) as cursor:
        cursor.execute(f"SELECT {dialect_for('sqlite').now_micros}", [])
        (now,) = cursor.fetchone()
    after = time.time_ns() // 1000
    assert type(now) is int
    assert before - 1_000 <= now <= after  # it counts whole milliseconds


def test_a_second_thread_may_not_write(store: DjangoStore, log: SessionLog) -> None:
    outcomes: list[BaseException | str] = []

    def attempt() -> None:
        try:
            log.commit([SetRootGoal("from elsewhere")])
            outcomes.append("committed")
        except RuntimeError as error:
            outcomes.append(error)
        finally:
            store.close()

    def in_another_thread() -> BaseException | str:
        thread = threading.Thread(target=attempt, name="other")
        thread.start()
        thread.join()
        return outcomes.pop()

    assert "belongs to thread" in str(in_another_thread())
    store.close()
    assert in_another_thread() == "committed"


def test_reads_do_not_wait_for_an_open_writing_transaction(
    database: EngineDatabase, log: SessionLog
) -> None:
    log.commit([SetRootGoal("committed")])
    goals: list[object] = []

    def read() -> None:
        loaded = database.store().load_session("s")
        assert loaded is not None
        goals.append(loaded.snapshot.root_goal)
        connections[database.reader].close()

    with writing(database.writer) as cursor:
        cursor.execute("UPDATE lambo_session SET root_goal = '\"open\"'", [])
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    assert goals == ["committed"]


def test_loading_edges_walks_the_index_made_for_it(database: EngineDatabase) -> None:
    plan = database.execute(
        "EXPLAIN QUERY PLAN SELECT * FROM lambo_edge WHERE session_id = %s AND TRUE", "s"
    )
    assert "lambo_edge_session" in str(plan)


# -- failures ----------------------------------------------------------------------------------


def test_a_full_database_is_transient_and_heals(database: EngineDatabase, log: SessionLog) -> None:
    log.write("before")
    before = load(log)
    ((pages,),) = database.execute("PRAGMA page_count")
    database.execute(f"PRAGMA max_page_count = {pages}")
    goal = SetRootGoal("x" * 100_000)

    with pytest.raises(StoreTransient, match="full"):
        log.commit([goal])
    assert load(log) == before

    database.execute("PRAGMA max_page_count = 1000000")
    assert not log.commit([goal])
    assert load(log).snapshot.root_goal == "x" * 100_000


def test_a_locked_database_is_transient_and_heals(
    database: EngineDatabase, log: SessionLog
) -> None:
    database.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreTransient, match="locked by another process"):
        log.commit([SetRootGoal("waits")])

    other.execute("ROLLBACK")
    other.close()
    assert not log.commit([SetRootGoal("waits")])


def test_a_connection_that_cannot_write_is_replaced(
    database: EngineDatabase, log: SessionLog
) -> None:
    database.execute("PRAGMA query_only = ON")

    with pytest.raises(StoreTransient, match="cannot be written"):
        log.commit([SetRootGoal("again")])

    assert not log.commit([SetRootGoal("again")])


def test_a_connection_closed_behind_our_back_is_replaced(
    database: EngineDatabase, log: SessionLog
) -> None:
    connections[database.writer].connection.close()

    with pytest.raises(StoreTransient, match="closed"):
        log.commit([SetRootGoal("again")])

    assert not log.commit([SetRootGoal("again")])


def test_a_folder_that_went_away_is_transient_and_heals(
    database: EngineDatabase, log: SessionLog
) -> None:
    connections[database.writer].close()
    connections[database.reader].close()
    folder = database.path.parent
    aside = folder.with_name(f"{folder.name}-away")
    folder.rename(aside)

    with pytest.raises(StoreTransient, match="cannot be opened"):
        log.commit([SetRootGoal("back")])
    with pytest.raises(StoreTransient, match="cannot be opened"):
        log.store.load_session("s")

    aside.rename(folder)
    assert not log.commit([SetRootGoal("back")])
    assert load(log).snapshot.root_goal == "back"


@contextmanager
def as_someone_who_may_not_write(folder: Path) -> Iterator[None]:
    """Take the right to write away; root, who may always, becomes nobody for the while."""
    nobody = 65_534
    folder.chmod(0o555)
    for file in folder.iterdir():
        file.chmod(0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(nobody)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        for file in folder.iterdir():
            file.chmod(0o644)


def test_a_folder_nobody_may_write_to_is_transient_and_heals(
    django_db_blocker: DjangoDbBlocker,
) -> None:
    # Not under tmp_path, whose parents only their owner may enter.
    folder = Path(tempfile.mkdtemp(prefix="lambo-read-only-"))
    try:
        with django_db_blocker.unblock(), engine_database(folder) as database:
            log = SessionLog(database.store())
            connections[database.writer].close()
            with (
                as_someone_who_may_not_write(folder),
                pytest.raises(StoreTransient, match=r"cannot be (written|opened)"),
            ):
                log.commit([SetRootGoal("later")])
            assert not log.commit([SetRootGoal("later")])
    finally:
        shutil.rmtree(folder)


def test_an_error_of_commit_itself_leaves_the_outcome_unknown(
    database: EngineDatabase, log: SessionLog
) -> None:
    """A deferred foreign key is checked by COMMIT, after every statement has succeeded."""
    database.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    database.execute(
        "CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)"
    )
    database.execute(
        "CREATE TRIGGER trap AFTER UPDATE ON lambo_lease BEGIN INSERT INTO child VALUES (1); END"
    )

    with pytest.raises(StoreTransient, match="outcome of the commit is unknown"):
        log.commit([SetRootGoal("perhaps")])

    database.execute("DROP TRIGGER trap")
    assert log.store.read_positions(["s"])["s"].position == 0
    assert not log.commit([SetRootGoal("perhaps")])


def test_a_corrupt_file_is_no_reason_to_retry(database: EngineDatabase, store: DjangoStore) -> None:
    connections[database.writer].close()
    for file in database.path.parent.iterdir():
        file.write_bytes(b"this is no database" * 1000)

    with pytest.raises(StoreRejected, match="not a database"):
        acquire(store)


# -- rows of a foreign hand --------------------------------------------------------------------


def test_impossible_rows_are_set_aside_and_the_rest_is_loaded(
    database: EngineDatabase, log: SessionLog
) -> None:
    kept, *bad = log.write(*(f"concept {number}" for number in range(8)))
    ids = [concept.id for concept in bad]
    one, other = log.write("one", "other")
    edge = log.edge(one.id, other.id, EdgeType.CAUSAL)
    log.commit([PutEdge(edge)])
    up = log.transition(kept, Status.NONE, Status.CANDIDATE)
    for statement, *parameters in (
        ("UPDATE lambo_concept SET concept_type = 'Thing' WHERE id = %s", ids[0]),
        ("UPDATE lambo_concept SET status = 'Saint' WHERE id = %s", ids[1]),
        ("UPDATE lambo_concept SET created_at = 'yesterday' WHERE id = %s", ids[2]),
        ("UPDATE lambo_concept SET created_at = 9e18 WHERE id = %s", ids[3]),
        ("UPDATE lambo_concept SET access_count = -1 WHERE id = %s", ids[4]),
        ("UPDATE lambo_concept SET content = x'ff00' WHERE id = %s", ids[5]),
        ("UPDATE lambo_concept SET id = 'not a UUID' WHERE id = %s", ids[6]),
        ("UPDATE lambo_edge SET weight = 'heavy' WHERE id = %s", edge.id),
        ("UPDATE lambo_session SET root_goal = 'not JSON'",),
        (
            "INSERT INTO lambo_audit_event (id, session_id, kind, node_id, from_status, to_status,"
            " occurred_at, actor) VALUES (%s, 's', 'transition', %s, 'None', 'Saint', 1, 'x')",
            up.id,
            kept.id,
        ),
    ):
        database.execute(statement, *parameters)

    loaded = load(log)

    assert {concept.content for concept in loaded.snapshot.concepts} == {
        "concept 0",
        "one",
        "other",
    }
    assert loaded.snapshot.root_goal is None
    assert loaded.snapshot.transitions == ()
    assert edge.id not in {kept.id for kept in loaded.snapshot.edges}
    for fragment in ("'Thing'", "'Saint'", "'yesterday'", "access_count is -1", "b'\\xff\\x00'"):
        assert any(fragment in item.sentence for item in loaded.set_aside), fragment
    # 7 concepts with their Derives edges, 1 edge, 1 goal, 1 audit row
    assert len(loaded.set_aside) == 7 * 2 + 3
    assert load_snapshot(loaded.snapshot).concept_count == 3
    # Set aside, not dropped: every row is still there.
    assert database.count("lambo_concept") == 10
    assert database.count("lambo_edge") == 10 + 1 + 1


def test_text_that_is_not_utf8_is_set_aside(database: EngineDatabase, log: SessionLog) -> None:
    good, bad = log.write("good", "bad")
    database.execute(
        "UPDATE lambo_concept SET content = CAST(x'62ff64' AS TEXT) WHERE id = %s", bad.id
    )

    loaded = load(log)

    assert loaded.snapshot.concepts == (good,)
    assert any("b'b\\xffd'" in item.sentence for item in loaded.set_aside)
    # The connection that read it so is gone; the next load is an ordinary one.
    database.execute("UPDATE lambo_concept SET content = 'bad' WHERE id = %s", bad.id)
    assert load(log).set_aside == ()


def test_a_lost_temporal_edge_and_a_stray_one_are_put_right(
    database: EngineDatabase, log: SessionLog
) -> None:
    first, mutations = log.call()
    second, more = log.call()
    third, rest = log.call()
    log.commit([*mutations, *more, *rest])
    database.execute(
        "UPDATE lambo_edge SET target = %s WHERE source = %s AND target = %s",
        *(first.id, third.id, second.id),
    )

    loaded = load(log)

    ends = {(edge.source, edge.target) for edge in loaded.snapshot.edges}
    assert ends == {(second.id, first.id), (third.id, second.id)}
    assert len(loaded.set_aside) == 2
    assert load(log) == loaded


def test_duplicate_keys_without_the_index_keep_one_concept(
    database: EngineDatabase, log: SessionLog
) -> None:
    database.execute("DROP INDEX lambo_concept_key")
    first, second = log.write("same", "same")

    loaded = load(log)

    assert [concept.id for concept in loaded.snapshot.concepts] == [first.id]
    told = [item.sentence for item in loaded.set_aside]
    assert any(second.id in sentence and "'same'" in sentence for sentence in told)


def test_a_session_of_many_chunks_loads_whole(log: SessionLog) -> None:
    contents = [f"concept {number}" for number in range(3 * loading._CHUNK_ROWS + 1)]
    log.write(*contents)

    snapshot = log.load()

    assert sorted(concept.content for concept in snapshot.concepts) == sorted(contents)
    assert len(snapshot.edges) == len(contents)


# -- the file of mutations shared between projects ---------------------------------------------


def test_the_shared_mutations_batch_applied_twice_gives_the_same_rows(
    database: EngineDatabase, store: DjangoStore
) -> None:
    batch = json.loads(shared_file("fixtures/lambo/mutations-batch.json").read_text())
    mutations = [mutation_from_json(item) for item in batch["mutations"]]
    log = SessionLog(store, "session-mutations")

    for _ in range(2):
        assert not log.commit(mutations)

        assert database.count("lambo_interaction") == 2
        ((content, status, gc_survived),) = database.execute(
            "SELECT content, status, gc_survived FROM lambo_concept"
        )
        assert (content, status, gc_survived) == ("kept concept", "Candidate", 1)
        assert database.execute("SELECT edge_type FROM lambo_edge") == [("Derives",)]
        assert database.count("lambo_audit_event") == 1

    # Its Temporal edge runs backwards and is deleted: loading puts the right one in, and says so.
    loaded = store.load_session("session-mutations")
    assert loaded is not None
    assert len(loaded.set_aside) == 1
    assert load_snapshot(loaded.snapshot).interaction_count == 2


# -- deletion cut short ------------------------------------------------------------------------


def test_a_deletion_cut_short_stays_invisible_and_is_finished_later(
    database: EngineDatabase, store: DjangoStore
) -> None:
    gone, kept = SessionLog(store, "gone", seed=1), SessionLog(store, "kept", seed=2)
    gone.write("one", "two")
    kept.write("three")
    with writing(database.writer) as cursor:
        deletion.mark_deleted(
            cursor,
            dialect_for("sqlite"),
            "gone",
            node_id=NODE,
            token=gone.token,
            entry=deletion_entry(),
        )

    assert store.load_session("gone") is None
    assert store.find_session("gone") is None
    assert [info.session_id for info in store.list_sessions(after="", limit=9)] == ["kept"]
    assert acquire(store, "gone", create=False) is None
    assert gone.commit([SetRootGoal("too late")]) == {"gone"}
    assert database.count("lambo_concept") == 3

    assert counted(store.finish_deletions())["concept"] == 2
    assert counted(store.finish_deletions()) == {}
    assert database.count("lambo_concept") == 1
    assert kept.load().concepts[0].content == "three"


def test_a_name_cannot_be_used_over_the_remains_of_another_session(
    database: EngineDatabase, store: DjangoStore
) -> None:
    old = SessionLog(store, "name", seed=1)
    old.write("old")
    next(store.delete_session("name", node_id=NODE, token=old.token, entry=deletion_entry()))
    before = database.execute("SELECT * FROM lambo_lease")

    assert acquire(store, "name") == BeingDeleted("name")

    assert database.count("lambo_concept") == 1
    assert database.execute("SELECT * FROM lambo_lease") == before
    assert counted(store.finish_deletions())["concept"] == 1
    assert SessionLog(store, "name", seed=2).load().concepts == ()


@pytest.mark.parametrize("steps_before", [1, 2, 4, 8, 12])
def test_a_deletion_that_another_overtook_leaves_the_next_session_alone(
    database: EngineDatabase, store: DjangoStore, steps_before: int
) -> None:
    old = SessionLog(store, seed=1)
    old.write(*(f"old {number}" for number in range(7)))
    slow = store.delete_session("s", node_id=NODE, token=old.token, entry=deletion_entry())
    counts = counted(itertools.islice(slow, steps_before))

    counts += counted(store.finish_deletions())
    new = SessionLog(store, seed=2)
    new.write("new one", "new two")
    before = new.load()
    counts += counted(slow)

    assert new.load() == before
    assert not new.commit([SetRootGoal("goal")])
    assert counts == {"edge": 7, "concept": 7, "interaction": 1, "session": 1}
    assert database.count("lambo_concept") == 2


def test_a_deletion_that_another_overtook_leaves_the_next_deletion_its_rows(
    store: DjangoStore,
) -> None:
    old = SessionLog(store, seed=1)
    slow = store.delete_session("s", node_id=NODE, token=old.token, entry=deletion_entry())
    next(slow)
    counted(store.finish_deletions())
    time.sleep(0.001)  # two marks may be equal within 40 microseconds
    new = SessionLog(store, seed=2)
    new.write("new")
    again = store.delete_session("s", node_id=NODE, token=new.token, entry=deletion_entry())
    next(again)

    assert counted(slow) == {}
    assert counted(again)["concept"] == 1


def test_deletion_in_slices_counts_every_row(database: EngineDatabase, log: SessionLog) -> None:
    log.write(*(f"concept {number}" for number in range(10)))
    with writing(database.writer) as cursor:
        mark = deletion.mark_deleted(
            cursor,
            dialect_for("sqlite"),
            "s",
            node_id=NODE,
            token=log.token,
            entry=deletion_entry(),
        )

    slices = list(deletion.remove_marked(database.writer, "s", mark, slice_rows=3))
    counts = counted(slices)

    assert max(max(removed.values()) for removed in slices if removed) == 3

    assert (counts["concept"], counts["edge"], counts["session"]) == (10, 10, 1)
    assert database.count("lambo_concept") == database.count("lambo_edge") == 0
    assert database.count("lambo_lease") == 1  # remembers the token


# -- schema ------------------------------------------------------------------------------------


def test_the_models_need_no_further_migration() -> None:
    loader = MigrationLoader(None)
    detector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    assert "memory" not in detector.changes(graph=loader.graph)


def test_the_migrations_can_be_undone(database: EngineDatabase) -> None:
    call_command("migrate", "memory", "zero", database=database.writer, verbosity=0)
    left = database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'lambo%%'")
    assert left == []


def test_the_views_show_times_as_iso_8601(database: EngineDatabase, log: SessionLog) -> None:
    interaction, mutations = log.call()
    concept, puts = log.derived(
        interaction, "seen", concept_type=ConceptType.OBSERVATION, last_accessed=-1
    )
    log.commit([*mutations, *puts])
    year_1 = concept._replace(last_accessed=-62_135_596_800_000_000, gc_survived=4)

    query = "SELECT created_at, last_accessed, gc_survived FROM lambo_v_concepts"
    assert database.execute(query) == [
        ("2023-11-14T22:13:20.000001Z", "1969-12-31T23:59:59.999999Z", 0)
    ]
    log.commit([PutConcept(year_1)])
    assert database.execute(query)[0][1:] == ("0001-01-01T00:00:00.000000Z", 4)
    (edge,) = database.execute("SELECT edge_type, created_at, event_time FROM lambo_v_edges")
    assert edge == ("Derives", "2023-11-14T22:13:20.000001Z", None)
    assert database.execute("SELECT * FROM lambo_v_audit") == []
    assert interaction.created_at == START + 1
