"""The durable store on PostgreSQL: its settings, its failures, its vectors, and what it erases."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from pytest_django import DjangoDbBlocker

from engine_database import POSTGRES, EngineDatabase, engine_database
from hosting import OPERATOR, hosting, statement
from memory.embed.fixture import FixtureEmbedder
from memory.engine.embedding import EmbeddingContract
from memory.engine.mutations import PutEdge, PutVector, SetRootGoal
from memory.engine.ports import LoadedSession, StoreRejected, StoreTransient
from memory.engine.requests import Caller, PurgeRequest
from memory.engine.types import ConceptType, EdgeType
from memory.store.dialects import Verdict, dialect_for
from memory.store.django_store import DjangoStore
from memory.store.postgres import judge
from memory.store.postgres_vectors import write_vectors
from memory.store.transactions import reading, writing
from postgres_server import query, shared_server
from session_log import NODE, SessionLog

WIDE = EmbeddingContract("fixture", "wide", 3)
NARROW = EmbeddingContract("fixture", "narrow", 2)


@pytest.fixture(params=[POSTGRES])
def database(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path, request.param) as made:
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


def numbers(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


# -- settings ----------------------------------------------------------------------------------


def test_the_writing_connection_waits_for_the_disk_and_for_nothing_for_ever(
    database: EngineDatabase,
) -> None:
    names = (
        *("synchronous_commit", "statement_timeout", "lock_timeout"),
        *("idle_in_transaction_session_timeout", "transaction_isolation"),
    )
    assert [database.execute(f"SHOW {name}")[0][0] for name in names] == [
        *("on", "30s", "10s", "30s", "read committed")
    ]


def test_the_reading_alias_refuses_to_write(database: EngineDatabase) -> None:
    with pytest.raises(StoreTransient, match="read-only"), reading(database.reader) as cursor:
        cursor.execute("DELETE FROM lambo_concept", [])


def test_a_read_sees_one_state_whatever_is_committed_meanwhile(
    database: EngineDatabase, log: SessionLog
) -> None:
    with reading(database.reader) as cursor:
        cursor.execute("SELECT count(*) FROM lambo_concept")
        before = cursor.fetchone()
        log.write("committed meanwhile")
        cursor.execute("SELECT count(*) FROM lambo_concept")
        assert cursor.fetchone() == before == (0,)
    assert database.count("lambo_concept") == 1


def test_the_stores_clock_is_the_wall_clock_and_goes_on_in_a_transaction(
    database: EngineDatabase,
) -> None:
    now = f"SELECT {dialect_for('postgresql').now_micros}"
    with writing(database.writer) as cursor:
        before = time.time_ns() // 1000
        cursor.execute(now)
        (first,) = cursor.fetchone()
        cursor.execute(now)
        (second,) = cursor.fetchone()
        after = time.time_ns() // 1000
    assert type(first) is int
    assert before <= first < second <= after


def test_text_is_compared_by_its_code_points_and_indexed_once(database: EngineDatabase) -> None:
    others = database.execute(
        "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " JOIN pg_collation l ON l.oid = a.attcollation"
        " WHERE c.relname LIKE 'lambo%%' AND c.relkind = 'r' AND l.collname <> 'C'"
    )
    assert others == []
    assert database.execute("SELECT 1 FROM pg_indexes WHERE indexname LIKE '%%_like'") == []


def test_the_migrations_can_be_undone_and_done_again(database: EngineDatabase) -> None:
    log = SessionLog(database.store(), contract=WIDE)
    (concept,) = log.write("one")
    log.commit([PutVector(concept.id, WIDE.key, numbers(1, 0, 0))])
    call_command("migrate", "memory", "zero", database=database.writer, verbosity=0)
    left = "SELECT relname FROM pg_class WHERE relname LIKE 'lambo%%'"
    assert database.execute(left) == []
    call_command("migrate", "memory", database=database.writer, verbosity=0)
    assert SessionLog(database.store()).write("two")


def test_the_views_show_times_as_iso_8601(database: EngineDatabase, log: SessionLog) -> None:
    interaction, mutations = log.call()
    _, puts = log.derived(
        interaction, "seen", concept_type=ConceptType.OBSERVATION, last_accessed=-1
    )
    log.commit([*mutations, *puts])
    view = "SELECT created_at, last_accessed FROM lambo_v_concepts"
    assert database.execute(view) == [
        ("2023-11-14T22:13:20.000001Z", "1969-12-31T23:59:59.999999Z")
    ]
    for micros, shown in (
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000000Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
    ):
        database.execute("UPDATE lambo_concept SET last_accessed = %s", micros)
        assert database.execute(view)[0][1] == shown
    assert database.execute("SELECT detail, session_deleted_at FROM lambo_v_audit") == []


# -- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sqlstate", "verdict"),
    [
        ("40001", Verdict.TRANSIENT),
        ("40P01", Verdict.TRANSIENT),
        ("40003", Verdict.DISCONNECTED),
        ("53100", Verdict.TRANSIENT),
        ("53300", Verdict.TRANSIENT),
        ("55P03", Verdict.TRANSIENT),
        ("57014", Verdict.TRANSIENT),
        ("57P01", Verdict.DISCONNECTED),
        ("57P03", Verdict.DISCONNECTED),
        ("08006", Verdict.DISCONNECTED),
        ("25006", Verdict.DISCONNECTED),
        ("25P03", Verdict.DISCONNECTED),
        ("58030", Verdict.TRANSIENT),
        ("23505", Verdict.REJECTED),
        ("22P02", Verdict.REJECTED),
        ("25P02", Verdict.REJECTED),
        ("42P01", Verdict.REJECTED),
        ("55006", Verdict.REJECTED),
        ("XX001", Verdict.REJECTED),
    ],
)
def test_an_error_is_judged_by_its_code(sqlstate: str, verdict: Verdict) -> None:
    found, sentence = judge(psycopg.errors.lookup(sqlstate)("words of the driver"))
    assert found is verdict
    assert sentence.endswith(f"({sqlstate})")


def cut_off(database: EngineDatabase) -> None:
    """End the writing connection's session as an administrator does."""
    ((pid,),) = database.execute("SELECT pg_backend_pid()")
    query(database.url, "SELECT pg_terminate_backend(%s, 10000)", pid)


def test_a_connection_that_was_cut_between_commits_is_replaced(
    database: EngineDatabase, log: SessionLog
) -> None:
    log.write("before")
    cut_off(database)
    with pytest.raises(StoreTransient):
        log.commit([SetRootGoal("again")])
    assert not log.commit([SetRootGoal("again")])
    assert load(log).snapshot.root_goal == "again"


def test_a_connection_that_is_cut_in_a_batch_leaves_nothing_of_it(
    database: EngineDatabase, log: SessionLog
) -> None:
    before = log.write("before")

    def write_half() -> None:
        with writing(database.writer) as cursor:
            cursor.execute("UPDATE lambo_concept SET content = 'half'")
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreTransient, match="57P01"):
        write_half()
    assert load(log).snapshot.concepts == tuple(before)
    assert log.write("after")


def test_readers_go_on_after_all_connections_were_cut(
    database: EngineDatabase, log: SessionLog
) -> None:
    log.write("kept")
    load(log)
    shared_server().cut_connections(database.url.rpartition("/")[2])
    assert load(log).snapshot.concepts[0].content == "kept"


def test_an_error_of_commit_itself_leaves_the_outcome_unknown(
    database: EngineDatabase, log: SessionLog
) -> None:
    """A deferred constraint is checked by COMMIT, after every statement has succeeded."""
    database.execute(
        "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION USING ERRCODE = ''40001''; END'"
    )
    database.execute(
        "CREATE CONSTRAINT TRIGGER trap AFTER UPDATE ON lambo_lease"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trap()"
    )
    with pytest.raises(StoreTransient, match=r"outcome of the commit is unknown.*40001"):
        log.commit([SetRootGoal("perhaps")])
    database.execute("DROP TRIGGER trap ON lambo_lease")
    assert log.store.read_positions(["s"])["s"].position == 0
    assert not log.commit([SetRootGoal("perhaps")])


@contextmanager
def in_another_session(database: EngineDatabase) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of somebody else, rolled back unless it was committed."""
    with psycopg.connect(database.url) as other:
        yield other
        other.rollback()


def waiting_for_a_lock(database: EngineDatabase) -> bool:
    return bool(query(database.url, "SELECT 1 FROM pg_locks WHERE NOT granted"))


def in_a_thread(database: EngineDatabase, job: Callable[[DjangoStore], object]) -> threading.Thread:
    """The committer of a second process, as good as: its own thread, so its own connection."""

    def run() -> None:
        store = database.store()
        try:
            job(store)
        finally:
            store.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_positions_are_told_only_when_a_commit_on_its_way_has_ended(
    database: EngineDatabase, log: SessionLog
) -> None:
    """The session of a lost connection may still be at its commit: its outcome is waited for."""
    log.commit([SetRootGoal("one")])
    told: list[int] = []
    with in_another_session(database) as other:
        other.execute("UPDATE lambo_lease SET position = 7")
        asking = in_a_thread(
            database, lambda store: told.append(store.read_positions(["s"])["s"].position)
        )
        until(lambda: waiting_for_a_lock(database))
        assert told == []
        other.commit()
    asking.join()
    assert told == [7]


def test_a_writer_that_was_fenced_while_it_waited_commits_nothing(
    database: EngineDatabase, log: SessionLog
) -> None:
    log.commit([SetRootGoal("of the first holder")])
    batch = log.batch([SetRootGoal("too late")])
    lost: list[object] = []
    with in_another_session(database) as other:
        other.execute("UPDATE lambo_lease SET node_id = 'other', token = token + 1")
        late = in_a_thread(
            database,
            lambda store: lost.append(store.commit([batch], node_id=NODE, ttl_seconds=45.0)),
        )
        until(lambda: waiting_for_a_lock(database))
        other.commit()
    late.join()
    assert lost == [frozenset({"s"})]
    assert load(log).snapshot.root_goal == "of the first holder"


# -- rows of a foreign hand --------------------------------------------------------------------


def test_impossible_rows_are_set_aside_and_the_rest_is_loaded(
    database: EngineDatabase, log: SessionLog
) -> None:
    kept, *bad = log.write(*(f"concept {number}" for number in range(4)))
    ids = [concept.id for concept in bad]
    edge = log.edge(kept.id, kept.id, EdgeType.CAUSAL)
    log.commit([PutEdge(edge)])
    for text, *parameters in (
        ("UPDATE lambo_concept SET concept_type = 'Thing' WHERE id = %s", ids[0]),
        ("UPDATE lambo_concept SET created_at = 9e18::bigint WHERE id = %s", ids[1]),
        ("UPDATE lambo_concept SET access_count = -1 WHERE id = %s", ids[2]),
        ("UPDATE lambo_edge SET weight = 'NaN' WHERE id = %s", edge.id),
        ("UPDATE lambo_session SET root_goal = 'not JSON'",),
    ):
        database.execute(text, *parameters)

    loaded = load(log)

    assert [concept.content for concept in loaded.snapshot.concepts] == ["concept 0"]
    assert len(loaded.set_aside) == 3 * 2 + 2
    moved = log.store.put_aside(loaded, node_id=log.node_id, token=log.token, at=1)
    assert moved == 3 * 2 + 2
    assert load(log).set_aside == ()
    assert log.store.count_set_aside("s") == moved


# -- vectors -----------------------------------------------------------------------------------


def test_each_dimension_has_a_table_whose_type_says_so(database: EngineDatabase) -> None:
    log = SessionLog(database.store(), contract=WIDE)
    one, two = log.write("one", "two")
    vectors = {
        (one.id, WIDE): numbers(1, 0, 0.1),
        (two.id, WIDE): numbers(0, 1, 1e-40),
        (one.id, NARROW): numbers(1, -0.0),
    }
    log.commit(
        [PutVector(node, contract.key, vector) for (node, contract), vector in vectors.items()]
    )
    assert load(log).snapshot.vectors == tuple(
        sorted((node, vector) for (node, contract), vector in vectors.items() if contract is WIDE)
    )
    assert log.store.load_vectors("s", NARROW.key) == [(one.id, numbers(1, -0.0))]
    assert database.execute(
        "SELECT attrelid::regclass::text, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attname = 'vector' AND attrelid::regclass::text LIKE 'lambo%%_embedding%%'"
        " AND attrelid IN (SELECT inhrelid FROM pg_inherits) ORDER BY 1"
    ) == [("lambo_embedding_2", "vector(2)"), ("lambo_embedding_3", "vector(3)")]


def test_a_vector_that_stands_already_is_not_written_again(database: EngineDatabase) -> None:
    log = SessionLog(database.store(), contract=WIDE)
    (one,) = log.write("one")
    version = "SELECT xmin::text FROM lambo_embedding_3"
    log.commit([PutVector(one.id, WIDE.key, numbers(1, 0, 0))])
    before = database.execute(version)
    log.commit([PutVector(one.id, WIDE.key, numbers(1, 0, 0))])
    assert database.execute(version) == before
    log.commit([PutVector(one.id, WIDE.key, numbers(0, 1, 0))])
    assert database.execute(version) != before


def test_two_servers_that_need_the_same_new_table_both_get_it(database: EngineDatabase) -> None:
    log = SessionLog(database.store(), contract=WIDE)
    (one,) = log.write("one")
    batch = log.batch([PutVector(one.id, WIDE.key, numbers(1, 0, 0))])
    with in_another_session(database) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [0x6C616D62])
        other.execute(
            "CREATE TABLE lambo_embedding_3 (vector vector(3) NOT NULL,"
            " PRIMARY KEY (session_id, contract_id, concept_id)) INHERITS (lambo_embedding)"
        )
        second = in_a_thread(
            database, lambda store: store.commit([batch], node_id=NODE, ttl_seconds=45.0)
        )
        until(lambda: waiting_for_a_lock(database))
        other.commit()
    second.join()
    assert log.store.load_vectors("s", WIDE.key) == [(one.id, numbers(1, 0, 0))]


# -- erasing -----------------------------------------------------------------------------------


def tables_that_hold(database: EngineDatabase, text: str) -> list[str]:
    """The tables of which a file holds the bytes of a text, read by the server itself."""
    query(database.url, "CHECKPOINT")
    return sorted(
        str(name)
        for (name,) in query(
            database.url,
            "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'i', 't')"
            " AND c.relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)"
            " AND position(%s::bytea IN pg_read_binary_file(pg_relation_filepath(c.oid))) > 0",
            text.encode(),
        )
    )


async def test_after_a_purge_no_table_holds_the_text(database: EngineDatabase) -> None:
    text = "the xylophonist keeps the keys"
    async with hosting(database.store(), embedder=FixtureEmbedder()) as host:
        caller = Caller("agent-a", "k")
        request = statement(text, "beside it")
        reply = await host.write("s", lambda m: m.derive(request, caller), create=True)
        assert {"lambo_concept", "lambo_interaction"} <= set(
            tables_that_hold(database, "xylophonist")
        )
        concept = reply.structured["created"][0]
        told = await host.disappearances.purge("s", PurgeRequest(text, concept), OPERATOR)
        assert told.structured["purged"]
        assert not told.structured["pending"]
        assert tables_that_hold(database, "xylophonist") == []


def test_a_transaction_that_looks_back_delays_the_erasure(
    database: EngineDatabase, log: SessionLog
) -> None:
    log.write("something")
    with in_another_session(database) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM lambo_concept")
        assert not log.store.scrub()
    assert log.store.scrub()
    # What the erasing had changed of the connection is as before.
    assert database.execute("SHOW lock_timeout") == [("10s",)]
    assert connections[database.writer].get_autocommit()


def test_a_refused_row_says_no_value(database: EngineDatabase, log: SessionLog) -> None:
    """The detail of an error quotes the row; it would end in logs and dead letters."""
    log.write("a secret of the first")
    interaction, mutations = log.call()
    concept, puts = log.derived(interaction, "a secret of the first")
    with pytest.raises(StoreRejected, match="23505") as refused:
        log.commit([*mutations, *puts])
    assert concept.canonical_key not in str(refused.value)
    assert "secret" not in str(refused.value)


# -- searching by SQL --------------------------------------------------------------------------


def test_the_index_that_the_documentation_names_finds_what_is_nearest(
    database: EngineDatabase,
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "databases.md").read_text(encoding="utf-8")
    index, search = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)[1:3]
    draw = np.random.default_rng(7)
    points = draw.normal(size=(3_000, 6)) @ draw.normal(size=(6, 384))
    names = [str(uuid.UUID(int=number, version=4)) for number in range(len(points))]
    ours = 300  # beside nine times as many of another session
    with writing(database.writer) as cursor:
        for session, some in (("s", slice(ours)), ("t", slice(ours, None))):
            vectors = [
                ("c", name, numbers(*point))
                for name, point in zip(names[some], points[some], strict=True)
            ]
            write_vectors(cursor, session, vectors)
    database.execute(index)
    query_point = points[0] + 0.1
    literal = f"'[{','.join(map(str, query_point))}]'::vector"
    steps = search.replace("$1", literal).replace("$2", "'s'").replace("$3", "'c'")
    with psycopg.connect(database.url, autocommit=True) as connection:
        begin, scan, select = steps.split(";\n")[:3]
        for step in (begin, scan, "SET LOCAL enable_sort = off"):
            connection.execute(step.encode())
        plan = str(connection.execute(f"EXPLAIN {select}".encode()).fetchall())
        found = connection.execute(select.encode()).fetchall()
    assert "lambo_embedding_384_hnsw" in plan
    cosines = points[:ours] @ query_point / np.linalg.norm(points[:ours], axis=1)
    nearest = {names[row] for row in np.argsort(-cosines)[:10]}
    assert len({str(name) for name, _ in found} & nearest) >= 9
    assert [distance for _, distance in found] == sorted(distance for _, distance in found)
