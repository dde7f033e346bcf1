"""Removing rows in slices: whole sessions, vectors of a contract left behind, old receipts.

A session is first marked as gone, in one transaction that also raises its token: from then on
nobody sees it and no commit on its way can write to it. Its rows follow in bounded transactions.
If that is cut short, `finish_deletions` goes on with it. Until its last row is gone nobody can use
the name again; and each of the transactions looks whether the session is still the marked one, so
that a deletion never touches the rows of a later session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from django.db import connections
from django.db.backends.utils import CursorWrapper

from memory.engine.ports import StoreRejected
from memory.engine.times import Micros
from memory.engine.types import AuditEntry
from memory.store import audit, codecs
from memory.store.dialects import Dialect, dialect_for
from memory.store.leases import locked_positions
from memory.store.transactions import writing

SLICE_ROWS: Final = 5_000
"""Rows removed in one transaction."""
VECTORS_PER_SLICE: Final = 1_000
"""Vectors removed in one transaction: with one or two pages each, they are the widest rows."""

# Edges first, so that a half-removed session never holds an edge without its ends.
_KEYS: Final = {
    "lambo_edge": "id",
    "lambo_embedding": "session_id, contract_id, concept_id",
    "lambo_concept": "id",
    "lambo_interaction": "id",
    "lambo_synonym": "session_id, source_key",
    "lambo_reservation": "session_id, node_id",
    "lambo_receipt": "session_id, agent_id, key",
    "lambo_event": "session_id, id",
    "lambo_dead_letter": "id",
    "lambo_set_aside": "id",
}


def mark_deleted(
    cursor: CursorWrapper,
    dialect: Dialect,
    session_id: str,
    *,
    node_id: str,
    token: int,
    entry: AuditEntry,
    chain_key: bytes | None = None,
) -> Micros:
    """Hide a session we hold and fence its writers; the mark that tells this deletion from others.

    Adds the audit entry, and to its detail the rows that are going to be removed: nobody can write
    any more. A session that is marked already is left as it is. Raises `StoreRejected` if the
    session is unknown or the lease is not ours.
    """
    cursor.execute("SELECT deleted_at FROM lambo_session WHERE session_id = %s", [session_id])
    row = cursor.fetchone()
    if row is None:
        raise StoreRejected("there is no such session to delete")
    mark = row[0]
    if mark is not None:
        return int(mark)
    lease = locked_positions(cursor, dialect, [session_id]).get(session_id)
    if lease is None or (lease.node_id, lease.token) != (node_id, token):
        raise StoreRejected("the session to delete is held by another writer")
    cursor.execute(
        f"UPDATE lambo_session SET deleted_at = {dialect.now_micros} WHERE session_id = %s",
        [session_id],
    )
    cursor.execute(
        "UPDATE lambo_lease SET token = token + 1, expires_at = 0 WHERE session_id = %s",
        [session_id],
    )
    cursor.execute("SELECT deleted_at FROM lambo_session WHERE session_id = %s", [session_id])
    (mark,) = cursor.fetchone()
    counts = _counted(cursor, session_id)
    told = {**(entry.detail or {}), "counts": counts, "deleted_at": int(mark)}
    audit.add_act(cursor, session_id, entry._replace(detail=told), chain_key=chain_key)
    return int(mark)


def _counted(cursor: CursorWrapper, session_id: str) -> dict[str, int]:
    """Rows of a session by table, as the steps of its removal will count them."""
    counts = {}
    for table in _KEYS:
        cursor.execute(f"SELECT count(*) FROM {table} WHERE session_id = %s", [session_id])
        (counts[table.removeprefix("lambo_")],) = cursor.fetchone()
    return {**counts, "session": 1}


def marked_sessions(cursor: CursorWrapper) -> list[tuple[str, Micros]]:
    """Sessions marked as gone whose rows are not all removed, with their marks."""
    cursor.execute(
        "SELECT session_id, deleted_at FROM lambo_session"
        " WHERE deleted_at IS NOT NULL ORDER BY session_id"
    )
    return [(session_id, mark) for session_id, mark in cursor.fetchall()]


def remove_marked(
    alias: str, session_id: str, mark: Micros, *, slice_rows: int = SLICE_ROWS
) -> Iterator[Mapping[str, int]]:
    """Remove the rows of a session marked so, a slice a step, its own row last.

    Ends early once the session does not bear the mark: then another deletion finished this one.
    The lease row stays, see `Lease` in `memory.models`, and so do the audit rows, with the mark.
    """
    dialect = dialect_for(connections[alias].vendor)
    for table, key in _KEYS.items():
        removed = slice_rows
        while removed == slice_rows:
            with writing(alias) as cursor:
                if not _bears_mark(cursor, dialect, session_id, mark):
                    return
                removed = delete_slice(
                    cursor, table, key, "session_id = %s", [session_id], slice_rows
                )
            yield {table.removeprefix("lambo_"): removed}
    buried = slice_rows
    while buried == slice_rows:
        with writing(alias) as cursor:
            if not _bears_mark(cursor, dialect, session_id, mark):
                return
            buried = audit.bury(cursor, session_id, mark, slice_rows)
        yield {}
    with writing(alias) as cursor:
        cursor.execute(
            "DELETE FROM lambo_session WHERE session_id = %s AND deleted_at = %s",
            [session_id, mark],
        )
        removed = cursor.rowcount
    yield {"session": removed}


def _bears_mark(cursor: CursorWrapper, dialect: Dialect, session_id: str, mark: Micros) -> bool:
    """Whether the session is still the one that was marked; it stays so for this transaction."""
    cursor.execute(
        "SELECT 1 FROM lambo_session WHERE session_id = %s AND deleted_at = %s" + dialect.row_lock,
        [session_id, mark],
    )
    return cursor.fetchone() is not None


def drop_vectors(
    alias: str,
    session_id: str,
    contract_key: str,
    *,
    node_id: str,
    token: int,
    slice_rows: int = VECTORS_PER_SLICE,
) -> Iterator[int]:
    """Remove what a session we hold keeps under a contract that is not its own, a slice a step."""
    dialect = dialect_for(connections[alias].vendor)
    removed = slice_rows
    while removed == slice_rows:
        with writing(alias) as cursor:
            lease = locked_positions(cursor, dialect, [session_id]).get(session_id)
            if lease is None or (lease.node_id, lease.token) != (node_id, token):
                raise StoreRejected("the session of the vectors is held by another writer")
            cursor.execute(
                f"SELECT {', '.join(codecs.CONTRACT_COLUMNS)} FROM lambo_session"
                " WHERE session_id = %s",
                [session_id],
            )
            row = cursor.fetchone()
            own = None if row is None else codecs.contract_from(row)
            if own is not None and own.key == contract_key:
                raise StoreRejected("a session's own vectors may not be removed")
            removed = delete_slice(
                cursor,
                "lambo_embedding",
                _KEYS["lambo_embedding"],
                "session_id = %s AND contract_id = %s",
                [session_id, contract_key],
                slice_rows,
            )
        yield removed


def delete_slice(
    cursor: CursorWrapper,
    table: str,
    key: str,
    condition: str,
    parameters: list[str | int],
    slice_rows: int,
) -> int:
    """Delete at most so many rows that meet a condition; how many."""
    cursor.execute(
        f"DELETE FROM {table} WHERE ({key}) IN"
        f" (SELECT {key} FROM {table} WHERE {condition} LIMIT %s)",
        [*parameters, slice_rows],
    )
    return int(cursor.rowcount)


def prune_receipts(
    alias: str, *, before: Micros, keep_per_session: int, slice_rows: int = SLICE_ROWS
) -> int:
    """Drop receipts made before an instant, and the oldest of sessions that keep too many."""
    dropped = _prune(alias, "created_at < %s", [before], slice_rows)
    with writing(alias) as cursor:
        cursor.execute(
            "SELECT session_id FROM lambo_receipt GROUP BY session_id"
            " HAVING count(*) > %s ORDER BY session_id",
            [keep_per_session],
        )
        crowded = [session_id for (session_id,) in cursor.fetchall()]
    for session_id in crowded:
        # A session has at most one receipt per position, so positions say which are the oldest.
        condition = (
            "session_id = %s AND position NOT IN (SELECT position FROM lambo_receipt"
            " WHERE session_id = %s ORDER BY position DESC LIMIT %s)"
        )
        dropped += _prune(alias, condition, [session_id, session_id, keep_per_session], slice_rows)
    return dropped


def _prune(alias: str, condition: str, parameters: list[str | int], slice_rows: int) -> int:
    dropped = 0
    while True:
        with writing(alias) as cursor:
            removed = delete_slice(
                cursor,
                "lambo_receipt",
                "session_id, agent_id, key",
                condition,
                parameters,
                slice_rows,
            )
        dropped += removed
        if removed < slice_rows:
            return dropped
