"""A foreign hand at the audit rows, by plain SQL: each change is found, and its row is named."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from engine_database import SQLITE
from hosting import OPERATOR, hosting
from memory.engine.audit_verification import FaultKind
from memory.engine.mutations import ApplyTransition
from memory.engine.types import Status, Transition
from memory.service.audit_check import AuditReport
from sealed_stores import (
    SealedStore,
    derive,
    purge,
    rule,
    sealed_on,
    write_trail,
)

ROWS = 5


@pytest.fixture
def sealed(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[SealedStore]:
    with django_db_blocker.unblock(), sealed_on(SQLITE, tmp_path) as made:
        yield made


class Hand:
    """Somebody at the file, past every layer of ours."""

    def __init__(self, sealed: SealedStore) -> None:
        assert sealed.database is not None
        self._path = sealed.database.path

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.text_factory = bytes
            return connection.execute(statement, parameters).fetchall()


async def trail_of(sealed: SealedStore, rows: int = ROWS) -> Hand:
    """Retractions of a session that was put away, so that all of them are anchored."""
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await write_trail(host, rows)
    report = await asyncio.to_thread(sealed.check)
    assert (report.is_sound, report.verified_count) == (True, rows), report.lines()
    return Hand(sealed)


def audit_id(hand: Hand, sequence: int) -> str:
    ((found,),) = hand.execute("SELECT id FROM lambo_audit_event WHERE sequence = ?", sequence)
    return bytes(found).decode()


def told(report: AuditReport) -> list[tuple[int, str | None, FaultKind]]:
    return [(fault.sequence, fault.audit_id, fault.kind) for fault in report.faults]


CHANGES = {
    "kind": "'collect'",
    "node_id": "'bbbbbbbb-0000-4000-8000-000000000001'",
    "from_status": "'Canonical'",
    "to_status": "'None'",
    "blast_radius": "3",
    "last_demotion_time": "1",
    "occurred_at": "occurred_at + 1",
    "actor": "actor || ' '",
    "reason": "'another'",
    "superseded_by": "node_id",
    "detail": "'{}'",
    "texts": "'{}'",
    "removed": "replace(removed, 'statement', 'falsehood')",
    "session_deleted_at": "1",
    "digests": "replace(digests, 'a', 'b')",
    "link_hash": "replace(link_hash, substr(link_hash, 5, 1), 'x')",
}
NULLED = ("node_id", "from_status", "reason", "removed", "detail", "digests", "link_hash")
BROKEN = ("actor", "reason", "removed", "digests", "link_hash")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *CHANGES.items(),
        *((column, "NULL") for column in NULLED),
        *((column, "x'ff00fe'") for column in BROKEN),
        *((column, "CAST(x'ff' AS TEXT)") for column in BROKEN),
        ("occurred_at", "1.5"),
    ],
)
async def test_a_changed_column_is_found_and_its_row_is_named(
    sealed: SealedStore, column: str, value: str
) -> None:
    hand = await trail_of(sealed)
    victim = audit_id(hand, 3)
    before = hand.execute("SELECT * FROM lambo_audit_event ORDER BY sequence")
    hand.execute(f"UPDATE lambo_audit_event SET {column} = {value} WHERE sequence = 3")
    after = hand.execute("SELECT * FROM lambo_audit_event ORDER BY sequence")
    assert [a != b for a, b in zip(before, after, strict=True)].count(True) == 1
    report = await asyncio.to_thread(sealed.check)
    ((sequence, named, kind),) = told(report)
    assert (sequence, named) == (3, victim)
    assert kind in (
        FaultKind.CHANGED,
        FaultKind.TEXT_CHANGED,
        FaultKind.BLANKED,
        FaultKind.MARKED,
    )
    assert report.verified_count == 2


async def test_a_changed_id_is_found_in_its_place(sealed: SealedStore) -> None:
    hand = await trail_of(sealed)
    forged = "bbbbbbbb-0000-7000-8000-000000000001"
    hand.execute("UPDATE lambo_audit_event SET id = ? WHERE sequence = 3", forged)
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(3, forged, FaultKind.CHANGED)]


async def test_a_row_that_was_moved_to_another_session_is_missing_where_it_was(
    sealed: SealedStore,
) -> None:
    hand = await trail_of(sealed)
    victim = audit_id(hand, 3)
    hand.execute("UPDATE lambo_audit_event SET session_id = 't' WHERE sequence = 3")
    report = await asyncio.to_thread(sealed.check)
    assert {(fault.session_id, fault.sequence, fault.kind) for fault in report.faults} == {
        ("s", 3, FaultKind.MISSING),
        ("t", 1, FaultKind.MISSING),
    }
    assert victim in report.faults[1].sentence


async def test_a_deleted_row_is_named_by_its_place(sealed: SealedStore) -> None:
    hand = await trail_of(sealed)
    hand.execute("DELETE FROM lambo_audit_event WHERE sequence = 3")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(3, None, FaultKind.MISSING)]


async def test_rows_that_changed_places_are_found(sealed: SealedStore) -> None:
    hand = await trail_of(sealed)
    victim = audit_id(hand, 4)
    hand.execute("UPDATE lambo_audit_event SET sequence = 7 - sequence WHERE sequence IN (3, 4)")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(3, victim, FaultKind.CHANGED)]


async def test_a_forged_row_at_the_end_is_found_and_our_next_ones_are_not_stopped(
    sealed: SealedStore,
) -> None:
    hand = await trail_of(sealed)
    forged = "ffffffff-0000-7000-8000-000000000001"
    columns = "session_id, kind, node_id, occurred_at, actor, sequence, digests, link_hash"
    hand.execute(
        f"INSERT INTO lambo_audit_event (id, {columns}) SELECT ?, session_id, kind, node_id,"
        " occurred_at, 'somebody', 6, NULL, link_hash FROM lambo_audit_event WHERE sequence = 5",
        forged,
    )
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(6, forged, FaultKind.CHANGED)]
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(6, forged, FaultKind.CHANGED)]
    assert len(hand.execute("SELECT id FROM lambo_audit_event")) == 7


async def test_a_forged_row_under_a_running_server_is_found_beside_the_true_one(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
        hand = Hand(sealed)
        forged = "ffffffff-0000-7000-8000-000000000001"
        hand.execute(
            "INSERT INTO lambo_audit_event (id, session_id, kind, occurred_at, actor, sequence)"
            " VALUES (?, 's', 'confirm', 1, 'somebody', 2)",
            forged,
        )
        await rule(host, "srv", "server")
    report = await asyncio.to_thread(sealed.check)
    ((sequence, _, kind),) = told(report)
    assert sequence == 2
    assert kind in (FaultKind.CHANGED, FaultKind.OUT_OF_ORDER)


async def test_a_row_without_a_link_is_found_by_the_count_in_the_first_one(
    sealed: SealedStore,
) -> None:
    hand = await trail_of(sealed)
    first = audit_id(hand, 1)
    hand.execute(
        "INSERT INTO lambo_audit_event (id, session_id, kind, occurred_at, actor)"
        " VALUES ('00000000-0000-7000-8000-000000000001', 's', 'confirm', 1, 'somebody')"
    )
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(1, first, FaultKind.UNCHAINED)]


async def test_a_link_that_was_taken_off_is_a_missing_row(sealed: SealedStore) -> None:
    hand = await trail_of(sealed)
    hand.execute("UPDATE lambo_audit_event SET sequence = NULL WHERE sequence = 5")
    report = await asyncio.to_thread(sealed.check)
    assert [kind for _, _, kind in told(report)] == [FaultKind.UNCHAINED]


async def test_an_end_that_was_cut_off_is_told_by_the_anchors(sealed: SealedStore) -> None:
    hand = await trail_of(sealed)
    hand.execute("DELETE FROM lambo_audit_event WHERE sequence >= 4")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(4, None, FaultKind.MISSING)]
    hand.execute("DELETE FROM lambo_audit_event")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(1, None, FaultKind.MISSING)]
    sealed.anchors.path.unlink()
    assert (await asyncio.to_thread(sealed.check)).is_sound  # what nobody noted nobody knows


async def test_an_end_that_is_cut_off_while_the_session_is_open_is_found_without_anchors(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
        await rule(host, "srv", "server")
        hand = Hand(sealed)
        hand.execute("DELETE FROM lambo_audit_event WHERE sequence = 2")
        await rule(host, "cfg", "configuration")
    sealed.anchors.path.unlink()
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(2, None, FaultKind.MISSING)]


async def test_a_text_blanked_by_hand_after_a_purge_of_another_is_found(
    sealed: SealedStore,
) -> None:
    hand = await trail_of(sealed)
    victim = audit_id(hand, 2)
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        (secret,) = await derive(host, "the xylophonist keeps the keys")
        await purge(host, secret)
    assert (await asyncio.to_thread(sealed.check)).is_sound
    hand.execute("UPDATE lambo_audit_event SET removed = NULL WHERE sequence = 2")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(2, victim, FaultKind.BLANKED)]


async def test_a_purged_text_that_is_put_back_is_found(sealed: SealedStore) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await derive(host, "the xylophonist keeps the keys")
        await rule(host, "the xylophonist keeps the keys", "keys")
        (found,) = await derive(host, "keys of the house")
        await purge(host, found)
    hand = Hand(sealed)
    assert (await asyncio.to_thread(sealed.check)).is_sound
    victim = audit_id(hand, 2)
    hand.execute("UPDATE lambo_audit_event SET removed = '{}' WHERE sequence = 2")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(2, victim, FaultKind.TEXT_CHANGED)]


async def test_the_mark_of_a_deleted_session_cannot_be_taken_off(sealed: SealedStore) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await write_trail(host, 2)
        await host.delete_session("s", "s", OPERATOR)
    hand = Hand(sealed)
    assert (await asyncio.to_thread(sealed.check)).is_sound
    victim = audit_id(hand, 2)
    hand.execute("UPDATE lambo_audit_event SET session_deleted_at = NULL WHERE sequence = 2")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(2, victim, FaultKind.MARKED)]


async def test_a_sequence_beyond_all_bounds_stops_no_session_from_opening(
    sealed: SealedStore,
) -> None:
    hand = await trail_of(sealed)
    for number, sequence in enumerate((2**63 - 1, "'high'", "x'00'", "-4")):
        hand.execute(
            "INSERT INTO lambo_audit_event (id, session_id, kind, occurred_at, actor, sequence,"
            f" link_hash) VALUES ('ffffffff-0000-7000-8000-00000000000{number}', 's', 'synonym',"
            f" 1, 'somebody', {sequence}, 'short')"
        )
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
    assert len(audit_id(hand, 6)) == 36
    report = await asyncio.to_thread(sealed.check)
    ((_, named, kind),) = told(report)
    assert named is not None
    assert kind is FaultKind.OUT_OF_ORDER  # the row at -4 comes first


async def test_a_row_that_no_load_can_use_is_missing_once_it_is_set_aside(
    sealed: SealedStore,
) -> None:
    """A step of a status whose concept a foreign hand made no id."""
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        (concept,) = await derive(host, "a statement")
        memory = await host.memory("s", create=False)
        step = Transition(
            *("aaaaaaaa-0000-7000-8000-000000000001", concept, Status.NONE, Status.CANDIDATE),
            *(None, None, 1_700_000_000_000_000, "evaluator"),
        )
        assert await memory.append([ApplyTransition(step, {"policy": "swarm"})])
    assert (await asyncio.to_thread(sealed.check)).verified_count == 1
    hand = Hand(sealed)
    hand.execute("UPDATE lambo_audit_event SET node_id = 'nobody'")
    report = await asyncio.to_thread(sealed.check)
    assert told(report) == [(1, step.id, FaultKind.CHANGED)]
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
    report = await asyncio.to_thread(sealed.check)
    assert len(report.faults) == 1
    assert len(hand.execute("SELECT * FROM lambo_set_aside")) == 1
