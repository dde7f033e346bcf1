"""A purged text is in no byte of the store's files; audit rows outlive their session."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Awaitable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker

from engine_database import EngineDatabase, engine_database
from hosting import OPERATOR, contents, hosting, statement, until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.errors import ConceptNotFound
from memory.engine.mutations import DeleteConcept, PutAudit
from memory.engine.requests import (
    Caller,
    PurgeRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.types import AuditEntry, AuditKind
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.service.writes import Writes
from memory.store import audit
from session_log import SessionLog

WORD = "xylophonist"
TEXTS = [
    f"the {WORD} keeps the keys",
    f"{WORD} " + "a long tale of many words " * 300,  # more than a page of the file
    f"ünïcode {WORD}\nof two lines with “quotes” and \\ signs",
]


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path) as made:
        yield made


def files_with(database: EngineDatabase, text: str) -> list[str]:
    """The files beside the database, itself included, that hold the bytes of a text."""
    needle = text.encode()
    files = [path for path in database.path.parent.iterdir() if path.is_file()]
    assert database.path in files
    return sorted(path.name for path in files if needle in path.read_bytes())


async def derive(host: SessionHost, *texts: str, key: str | None = None, session: str = "s") -> str:
    request, caller = statement(*texts), Caller("agent-a", key)
    reply = await host.write(session, lambda m: m.derive(request, caller), create=True)
    created: list[str] = reply.structured["created"]
    return created[0] if created else ""


async def operate(host: SessionHost, request: Any) -> None:
    """An act of a person, by the sort of its request."""

    def act(memory: Writes) -> Awaitable[Reply]:
        match request:
            case RetractRequest():
                return memory.retract(request, OPERATOR)
            case SynonymRequest():
                return memory.declare_synonym(request, OPERATOR)
            case _:
                return memory.set_root_goal(request, OPERATOR)

    await host.write("s", act, create=False)


async def write_much(host: SessionHost, draw: random.Random, count: int) -> None:
    """Rows of all lengths around it, so that pages are split and merged with the text on them."""
    texts: list[str] = []
    for number in range(count):
        words = " ".join(f"w{draw.getrandbits(24):x}" for _ in range(draw.randint(1, 60)))
        await derive(host, f"noise {words}")
        texts.append(f"noise {words}")
        if number % 7 == 0:
            request = RetractRequest(draw.choice(texts))
            with suppress(ConceptNotFound):  # it may be gone
                await operate(host, request)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "removed"])
async def test_after_a_purge_no_file_holds_the_text(
    database: EngineDatabase, is_live: bool
) -> None:
    draw = random.Random(7)
    async with hosting(database.store(), embedder=FixtureEmbedder()) as host:
        await write_much(host, draw, 60)
        for place, text in enumerate(TEXTS):
            concept_id = await derive(host, text, f"beside {place}", key=f"k{place}")
            await derive(host, text)
            synonym = SynonymRequest(f"name {place} of {WORD}", f"beside {place}")
            await operate(host, synonym)
            goal = RootGoalRequest((text, "other"))
            await operate(host, goal)
            await write_much(host, draw, 20)
            if not is_live:
                gone = RetractRequest(text, reason=f"says {text[:100]}")
                await operate(host, gone)
        assert files_with(database, WORD)
        removed = await host.disappearances.list_page("s", after="", limit=100)
        for text in TEXTS:
            found = await host.disappearances.purge("s", PurgeRequest(text), OPERATOR)
            concept_id = found.structured["node_id"]
            request = PurgeRequest(text, concept_id, f"because of {text}")
            told = await host.disappearances.purge("s", request, OPERATOR)
            assert told.structured["purged"]
            assert not told.structured["pending"]
        # Spellings of the word that are no part of the texts: synonyms of a name of its own.
        assert len(removed.structured["disappearances"]) >= (0 if is_live else len(TEXTS))
        for text in TEXTS:
            assert files_with(database, text[:79]) == []
            assert files_with(database, json.dumps(text[:79], ensure_ascii=False)[1:-1]) == []
        stems = "xylophonist keep key"  # the key is the sorted stems
        assert files_with(database, " ".join(sorted(stems.split()))) == []
    for text in TEXTS:
        assert files_with(database, text[:79]) == []


async def test_no_trace_of_a_rare_word_is_left(database: EngineDatabase) -> None:
    async with hosting(database.store(), embedder=FixtureEmbedder()) as host:
        await derive(host, "guard", "gate")
        concept_id = await derive(host, WORD, "guard", key="k")
        synonym = SynonymRequest("player", WORD)
        await operate(host, synonym)
        await operate(host, RetractRequest(WORD))
        assert files_with(database, WORD)
        told = await host.disappearances.purge("s", PurgeRequest(WORD, concept_id), OPERATOR)
        assert told.structured["still_in_count"] == 0
        assert files_with(database, WORD) == []
        assert files_with(database, WORD.upper()) == []
        assert contents((await host.view("s")).graph) == {"guard", "gate"}
    assert files_with(database, WORD) == []


async def test_a_reader_that_holds_the_log_delays_the_erasure_and_the_reply_says_so(
    database: EngineDatabase,
) -> None:
    async with hosting(database.store()) as host:
        concept_id = await derive(host, WORD)
        with closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM lambo_concept").fetchall()
            told = await host.disappearances.purge("s", PurgeRequest(WORD, concept_id), OPERATOR)
            assert told.structured["pending"] is True
            assert told.structured["warnings"]
            assert files_with(database, WORD)
            await derive(host, "writes go on meanwhile")
            reader.execute("ROLLBACK")
        await until(lambda: files_with(database, WORD) == [])


async def test_a_purge_whose_erasure_was_cut_short_is_ended_by_the_next_start(
    database: EngineDatabase,
) -> None:
    with closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
        async with hosting(database.store()) as host:
            concept_id = await derive(host, WORD)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM lambo_concept").fetchall()
            await host.disappearances.purge("s", PurgeRequest(WORD, concept_id), OPERATOR)
        assert files_with(database, WORD)
        reader.execute("ROLLBACK")
        async with hosting(database.store()):
            await until(lambda: files_with(database, WORD) == [])


# -- the end of a session ----------------------------------------------------------------------


def audit_rows(database: EngineDatabase) -> list[sqlite3.Row]:
    with closing(sqlite3.connect(database.path)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute("SELECT * FROM lambo_audit_event ORDER BY id").fetchall()


async def test_a_deleted_session_keeps_its_audit_rows_without_texts_and_one_of_counts(
    database: EngineDatabase,
) -> None:
    async with hosting(database.store()) as host:
        await derive(host, WORD, "guard")
        gone = RetractRequest(WORD, reason="out of date")
        await operate(host, gone)
        goal = RootGoalRequest(("guard",))
        await operate(host, goal)
        deleted = (await host.delete_session("s", "s", Caller("olga", is_operator=True))).structured
        rows = audit_rows(database)
        kinds = [row["kind"] for row in rows]
        assert kinds == ["retract", "transition", "root-goal", "session-delete"]
        assert all(row["session_id"] == "s" for row in rows)
        assert len({row["session_deleted_at"] for row in rows}) == 1
        assert all(row["session_deleted_at"] is not None for row in rows)
        assert all(row["texts"] is None and row["removed"] is None for row in rows)
        assert (rows[0]["actor"], rows[0]["reason"]) == ("operator", "out of date")
        last = rows[-1]
        assert (last["actor"], last["node_id"]) == ("olga", None)
        counts = json.loads(last["detail"])["counts"]
        assert {table: count for table, count in counts.items() if count} == {
            table: count for table, count in deleted["deleted"].items() if count
        }
        assert "audit_event" not in deleted["deleted"]
        assert counts["concept"] == 1

        # The name begins anew: nothing of the dead session is listed, found or counted.
        await derive(host, "guard")
        page = await host.disappearances.list_page("s", after="", limit=9)
        assert page.structured["disappearances"] == []
        graph = (await host.view("s")).graph
        assert (graph.transitions, graph.root_goal) == ({}, None)
        await operate(host, RetractRequest("guard"))
        page = await host.disappearances.list_page("s", after="", limit=9)
        assert [row["content"] for row in page.structured["disappearances"]] == ["guard"]
    assert len(audit_rows(database)) == len(rows) + 1


async def test_delete_all_removes_one_of_three_sessions_exactly(database: EngineDatabase) -> None:
    async with hosting(database.store()) as host:
        for name in ("one", "two", "three"):
            for start in range(0, 250, 50):
                texts = [f"{name} {number}" for number in range(start, start + 50)]
                await derive(host, *texts, session=name)
        told = (await host.delete_session("two", "two", OPERATOR)).structured
        assert told["deleted"]["concept"] == 250
        with closing(sqlite3.connect(database.path)) as connection:
            left = connection.execute("SELECT count(*) FROM lambo_concept").fetchone()
        assert left == (500,)
        row = audit_rows(database)[-1]
        assert json.loads(row["detail"])["counts"]["concept"] == 250


def test_a_removal_whose_texts_a_foreign_hand_broke_is_shown_as_gone(
    database: EngineDatabase,
) -> None:
    store = database.store()
    log = SessionLog(store)
    (concept,) = log.write("a")
    states: list[Any] = [{"concept": {}}, None]
    for removed in states:
        entry = AuditEntry(
            *(log.ids.next_ordered_id(0), AuditKind.RETRACT, concept.id, None, None, 1, "human"),
            texts=None if removed is None else {"content": "a"},
            removed=removed,
        )
        log.commit([DeleteConcept(concept.id), PutAudit(entry)])
    database.execute("UPDATE lambo_audit_event SET texts = 'no JSON' WHERE texts IS NOT NULL")

    found = store.list_removals("s", before=None, limit=9)

    assert [item.entry.texts for item in found] == [None, None]
    assert store.find_removals("s", "a") == []


def test_a_broken_standing_row_is_set_aside_and_the_session_opens(
    database: EngineDatabase,
) -> None:
    store = database.store()
    log = SessionLog(store)
    (concept,) = log.write("a")
    for detail in ({"gc_survived": 1}, None):
        entry = AuditEntry(
            *(log.ids.next_ordered_id(0), AuditKind.RESTORE, concept.id, None, None, 1, "human"),
            detail=detail,
        )
        log.commit([PutAudit(entry)])
    confirmed = AuditEntry(
        *(log.ids.next_ordered_id(0), AuditKind.CONFIRM, concept.id, None, None, 1, "human")
    )
    log.commit([PutAudit(confirmed)])
    database.execute("UPDATE lambo_audit_event SET detail = 'no JSON' WHERE id = %s", confirmed.id)

    loaded = store.load_session("s")

    assert loaded is not None
    assert [entry.detail for entry in loaded.snapshot.standing] == [{"gc_survived": 1}]
    told = sorted(item.sentence.partition(": ")[2] for item in loaded.set_aside)
    assert told == [
        "it does not tell how many sweeps the concept had survived.",
        "one of its columns is not JSON.",
    ]


# -- the schema --------------------------------------------------------------------------------


def test_the_list_of_removals_is_read_from_its_index(database: EngineDatabase) -> None:
    query = (
        "EXPLAIN QUERY PLAN SELECT id FROM lambo_audit_event WHERE session_id = 's'"
        f" AND {audit.IS_REMOVAL} AND {audit.OF_LIVE_SESSION} ORDER BY id DESC LIMIT 9"
    )
    plan = " ".join(str(row) for row in database.execute(query))
    assert "lambo_audit_removal" in plan
    assert "TEMP B-TREE" not in plan


def test_audit_rows_of_before_are_kept_by_the_migration(database: EngineDatabase) -> None:
    call_command("migrate", "memory", "0005", database=database.writer, verbosity=0)
    row: dict[str, str | int] = {
        "id": "00000000-0000-7000-8000-000000000001",
        "session_id": "s",
        "kind": "transition",
        "node_id": "00000000-0000-4000-8000-000000000001",
        "from_status": "None",
        "to_status": "Candidate",
        "occurred_at": 1_700_000_000_000_000,
        "actor": "evaluator",
    }
    database.execute(
        f"INSERT INTO lambo_audit_event ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})",
        *row.values(),
    )
    call_command("migrate", "memory", database=database.writer, verbosity=0)
    columns = "id, node_id, from_status, occurred_at, detail, session_deleted_at"
    assert database.execute(f"SELECT {columns} FROM lambo_v_audit") == [
        (row["id"], row["node_id"], "None", "2023-11-14T22:13:20.000000Z", None, None)
    ]
