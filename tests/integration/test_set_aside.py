"""A session a foreign hand has been at, opened twice: reported once, and nothing is blocked."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from engine_database import EngineDatabase, engine_database
from hosting import AGENT, OPERATOR, act, contents, hosting, statement
from memory.engine.errors import RejectedByStore
from memory.engine.requests import ReserveRequest
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import FaultKind, FaultyStore
from session_log import NODE, START, SessionLog, in_order

NOBODY = "00000000-0000-4000-8000-000000000000"
INTRUDER = "00000000-0000-4000-8000-000000000001"
TABLES = ("interaction", "concept", "edge", "synonym", "reservation", "audit_event")


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path) as made:
        yield made


def damage(database: EngineDatabase, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Write to the file without us, as any program could."""
    with closing(sqlite3.connect(database.path)) as connection, connection:
        for sql, parameters in statements:
            assert connection.execute(sql, parameters).rowcount == 1, sql


def rows(database: EngineDatabase, table: str) -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(database.path)) as connection:
        connection.text_factory = bytes
        return set(connection.execute(f"SELECT * FROM lambo_{table}"))


def set_aside(database: EngineDatabase) -> dict[tuple[str, str], tuple[dict[str, Any], str]]:
    """What lies in the table, by table and id of the row: its columns and the reason."""
    query = "SELECT row_id, table_name, row_json, reason FROM lambo_set_aside"
    with closing(sqlite3.connect(database.path)) as connection:
        found = connection.execute(query).fetchall()
    return {(table, row_id): (json.loads(text), reason) for row_id, table, text, reason in found}


def concept_row(concept_id: str, key: str) -> tuple[str, tuple[Any, ...]]:
    """A concept that nothing derives, from nowhere."""
    return (
        "INSERT INTO lambo_concept (id, session_id, content, canonical_key, concept_type,"
        " origin_interaction, origin_agent, created_at, access_count, gc_survived, status)"
        " VALUES (?, 's', 'theirs', ?, 'Entity', ?, 'stranger', 1, 0, 0, 'None')",
        (concept_id, key, NOBODY),
    )


async def derive(host: SessionHost, session: str, text: str) -> Reply:
    return await host.write(session, lambda m: m.derive(statement(text), AGENT), create=True)


async def test_a_damaged_session_is_reported_once_and_then_as_good_as_new(
    database: EngineDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(database.store()) as host:
        for text in ("kept", "misread", "uprooted", "garbled", "pillar"):
            await derive(host, "s", text)
        await host.write(
            "s", lambda m: m.record_action(act("built", "pillar"), AGENT), create=False
        )
        memory = await host.memory("s", create=False)
        await memory.reserve(ReserveRequest(concept="misread", ttl_seconds=3600), AGENT)
        ids = {
            memory.graph.content_at(row): memory.graph.id_at(row)
            for row in memory.graph.concept_rows()
        }
        chain = [interaction.id for interaction in memory.graph.interactions()]
        await derive(host, "other", "of another session")
    before = {table: rows(database, table) for table in TABLES}
    damage(
        database,
        ("UPDATE lambo_concept SET concept_type = 'Rumour' WHERE id = ?", (ids["misread"],)),
        (
            "UPDATE lambo_concept SET origin_interaction = ? WHERE id = ?",
            (NOBODY, ids["uprooted"]),
        ),
        (
            "UPDATE lambo_concept SET content = CAST(x'62ff64' AS TEXT) WHERE id = ?",
            (ids["garbled"],),
        ),
        concept_row(INTRUDER, "wall"),
        ("UPDATE lambo_edge SET target = ? WHERE edge_type = 'Dependency'", (NOBODY,)),
        ("UPDATE lambo_interaction SET previous_id = ? WHERE id = ?", (NOBODY, chain[2])),
        ("UPDATE lambo_session SET root_goal = 'no JSON' WHERE session_id = 's'", ()),
    )

    async with hosting(database.store()) as host:
        graph = (await host.view("s")).graph
        assert contents(graph) == {"kept", "pillar", "built"}
        assert "kept in lambo_set_aside" in caplog.text
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told
    aside = set_aside(database)
    # Four concepts, the Derives edges of three, a reservation; the Dependency edge, the interaction
    # and the goal.
    assert len(aside) == 4 + 3 + 1 + 3
    assert {reason for _, reason in aside.values()} <= {
        record.getMessage().partition(": ")[2] for record in told
    }
    assert aside["lambo_concept", ids["misread"]][0]["concept_type"] == "Rumour"
    assert aside["lambo_concept", ids["garbled"]][0]["content"] == "b'b\\xffd'"
    assert aside["lambo_concept", INTRUDER][0]["content"] == "theirs"
    assert aside["lambo_reservation", ids["misread"]][0]["agent_id"] == AGENT.agent_id
    assert aside["lambo_interaction", chain[2]][0]["previous_id"] == NOBODY
    assert aside["lambo_session", "root_goal"][0] == {"root_goal": "no JSON"}

    caplog.clear()
    async with hosting(database.store()) as host:
        view = await host.view("s")
        assert contents(view.graph) == {"kept", "pillar", "built"}
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        # What was not broken is as it was, the chain included.
        after = {table: rows(database, table) for table in TABLES}
        assert all(after[table] <= before[table] for table in TABLES)
        assert after["interaction"] == before["interaction"]
        assert len(before["concept"] - after["concept"]) == 3
        assert len(before["edge"] - after["edge"]) == 3 + 1
        for text in ("wall", "misread"):
            await derive(host, "s", text)
        reply = await host.delete_session("s", "s", OPERATOR)
        assert reply.structured["deleted"]["set_aside"] == len(aside)
    assert set_aside(database) == {}
    assert len(rows(database, "concept")) == 1


async def test_a_key_blocked_while_the_session_is_open_is_free_after_one_refusal(
    database: EngineDatabase,
) -> None:
    async with hosting(database.store()) as host:
        await derive(host, "s", "kept")
        damage(database, concept_row(INTRUDER, "wall"))

        with pytest.raises(RejectedByStore):
            await derive(host, "s", "wall")
        await derive(host, "s", "wall")

        assert contents((await host.view("s")).graph) == {"kept", "wall"}
    assert list(set_aside(database)) == [("lambo_concept", INTRUDER)]


def test_a_duplicate_key_without_its_index_is_put_aside(database: EngineDatabase) -> None:
    ((ddl,),) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'lambo_concept_key'")
    database.execute("DROP INDEX lambo_concept_key")
    log = SessionLog(database.store())
    first, second = log.write("same", "same")
    found = log.store.load_session("s")
    assert found is not None

    assert log.store.put_aside(found, node_id=NODE, token=log.token, at=START) == 2

    database.execute(ddl)  # possible again
    assert log.load().concepts == (first,)
    assert sorted(table for table, _ in set_aside(database)) == ["lambo_concept", "lambo_edge"]
    assert ("lambo_concept", second.id) in set_aside(database)


async def test_a_store_that_cannot_put_aside_just_now_still_opens_the_session(
    database: EngineDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(database.store()) as host:
        await derive(host, "s", "kept")
    damage(database, concept_row(INTRUDER, "wall"))
    store = FaultyStore(database.store())
    store.fail_next("put_aside", FaultKind.TRANSIENT_BEFORE)

    async with hosting(store) as host:
        await derive(host, "s", "written all the same")
        assert "stay where they are" in caplog.text
        assert set_aside(database) == {}
        await host.close_session("s", OPERATOR)
        assert contents((await host.view("s")).graph) == {"kept", "written all the same"}
    assert list(set_aside(database)) == [("lambo_concept", INTRUDER)]


@pytest.mark.parametrize(
    "raw",
    ["x'ff00'", "CAST(x'ff00' AS TEXT)", "CAST(id AS BLOB)", "'not a UUID'"],
    ids=["bytes", "text that is not UTF-8", "an id as bytes", "text"],
)
def test_rows_are_found_again_whatever_stands_for_their_id(
    database: EngineDatabase, raw: str
) -> None:
    log = SessionLog(database.store())
    kept, lost = log.write("kept", "lost")
    ((derives,),) = database.execute("SELECT id FROM lambo_edge WHERE target = %s", lost.id)
    log.store.close()
    damage(
        database,
        (f"UPDATE lambo_concept SET id = {raw} WHERE id = ?", (lost.id,)),
        (f"UPDATE lambo_edge SET id = {raw} WHERE id = ?", (derives,)),
    )
    found = log.store.load_session("s")
    assert found is not None

    assert log.store.put_aside(found, node_id=NODE, token=log.token, at=START) == 2

    assert log.load().concepts == (kept,)
    assert database.count("lambo_concept") == database.count("lambo_edge") == 1
    kept_at = database.execute("SELECT DISTINCT set_aside_at FROM lambo_set_aside")
    assert kept_at == [(START,)]


def test_a_number_that_json_cannot_hold_is_kept_as_text(database: EngineDatabase) -> None:
    log = SessionLog(database.store())
    log.write("lost")
    log.store.close()
    damage(database, ("UPDATE lambo_edge SET weight = 9e999", ()))
    found = log.store.load_session("s")
    assert found is not None

    assert log.store.put_aside(found, node_id=NODE, token=log.token, at=START) == 2

    (edge,) = (row for (table, _), (row, _) in set_aside(database).items() if table == "lambo_edge")
    assert edge["weight"] == "inf"
    assert log.load().concepts == ()


def test_an_interaction_that_cannot_be_read_goes_and_the_chain_closes_over_it(
    database: EngineDatabase,
) -> None:
    log = SessionLog(database.store())
    log.write("first")
    (gone,) = log.write("second")
    log.write("third")
    log.store.close()
    damage(
        database,
        (
            "UPDATE lambo_interaction SET created_at = 'yesterday' WHERE id = ?",
            (gone.origin_interaction,),
        ),
    )
    found = log.store.load_session("s")
    assert found is not None

    # It, its concept and Derives edge, two Temporal edges, and the third interaction as it was.
    assert log.store.put_aside(found, node_id=NODE, token=log.token, at=START) == 6

    snapshot = log.load()
    assert snapshot == in_order(found.snapshot)
    assert {concept.content for concept in snapshot.concepts} == {"first", "third"}
    assert len(snapshot.interactions) == 2


def test_an_impossible_column_of_the_sessions_own_row_is_kept_and_emptied(
    database: EngineDatabase,
) -> None:
    log = SessionLog(database.store())
    log.store.close()
    damage(
        database,
        ("UPDATE lambo_session SET created_at = 'once', closed_at = x'ff', root_goal = x'ff'", ()),
    )
    found = log.store.load_session("s")
    assert found is not None

    assert log.store.put_aside(found, node_id=NODE, token=log.token, at=START) == 3
    assert log.store.put_aside(found, node_id=NODE, token=log.token, at=START) == 0

    assert log.load() == in_order(found.snapshot)
    assert {column: row for (_, column), (row, _) in set_aside(database).items()} == {
        "created_at": {"created_at": "once"},
        "closed_at": {"closed_at": "b'\\xff'"},
        "root_goal": {"root_goal": "b'\\xff'"},
    }
