"""The lease rows: who may write a session. All times come from the database's clock.

A token grows with every acquisition and never falls; position and expiry move only while the token
is the expected one. Expiry says when another node may take over, not when ours ends: a session that
nobody took is still ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.db.backends.utils import CursorWrapper

from memory.engine.ports import (
    Lease,
    LeaseRefused,
    SessionBatch,
    StoredPosition,
    StoreTransient,
)
from memory.engine.times import SECOND
from memory.store.dialects import Dialect

_NAMES_PER_SELECT: Final = 500
"""Bound variables of one statement; every engine takes at least 999."""


def expiry(dialect: Dialect) -> str:
    """SQL for "now plus so many microseconds", with one parameter."""
    return f"{dialect.now_micros} + %s"


def span(ttl_seconds: float) -> int:
    """A time to live in microseconds."""
    return round(ttl_seconds * SECOND)


def create_lease(cursor: CursorWrapper, session_id: str) -> None:
    """Make a free lease row. One left by a deleted session keeps its token, not its position."""
    cursor.execute(
        "INSERT INTO lambo_lease (session_id, node_id, endpoint, token, position, expires_at)"
        " VALUES (%s, '', '', 0, 0, 0)"
        " ON CONFLICT (session_id) DO UPDATE SET position = 0, expires_at = 0",
        [session_id],
    )


def take_lease(
    cursor: CursorWrapper,
    dialect: Dialect,
    session_id: str,
    *,
    node_id: str,
    endpoint: str,
    ttl_seconds: float,
) -> Lease | LeaseRefused | None:
    """Take over a lease that is free, expired or this node's own; None if there is no row."""
    cursor.execute(
        "UPDATE lambo_lease SET node_id = %s, endpoint = %s, token = token + 1,"
        f" expires_at = {expiry(dialect)}"
        f" WHERE session_id = %s AND (node_id = %s OR expires_at <= {dialect.now_micros})",
        [node_id, endpoint, span(ttl_seconds), session_id, node_id],
    )
    is_taken = cursor.rowcount == 1
    cursor.execute(
        f"SELECT node_id, endpoint, token, position, expires_at - {dialect.now_micros}"
        " FROM lambo_lease WHERE session_id = %s",
        [session_id],
    )
    row = cursor.fetchone()
    if row is None:
        return None
    holder, holder_endpoint, token, position, left = row
    if is_taken:
        return Lease(session_id, node_id, token, position)
    return LeaseRefused(session_id, holder, holder_endpoint, max(left, 0) / SECOND)


def locked_positions(
    cursor: CursorWrapper, dialect: Dialect, session_ids: Iterable[str]
) -> dict[str, StoredPosition]:
    """The lease rows of some sessions, locked in id order until the transaction ends."""
    names = sorted(set(session_ids))
    found: dict[str, StoredPosition] = {}
    for start in range(0, len(names), _NAMES_PER_SELECT):
        some = names[start : start + _NAMES_PER_SELECT]
        cursor.execute(
            "SELECT session_id, node_id, token, position FROM lambo_lease"
            f" WHERE session_id IN ({', '.join(['%s'] * len(some))})"
            f" ORDER BY session_id{dialect.row_lock}",
            some,
        )
        found.update(
            (session_id, StoredPosition(node_id, token, position))
            for session_id, node_id, token, position in cursor.fetchall()
        )
    return found


def advance(
    cursor: CursorWrapper, dialect: Dialect, batches: Sequence[SessionBatch], *, ttl_seconds: float
) -> None:
    """Move position and expiry of each batch's session; the fence of the whole commit."""
    for batch in sorted(batches, key=lambda batch: batch.session_id):
        cursor.execute(
            f"UPDATE lambo_lease SET position = %s, expires_at = {expiry(dialect)}"
            " WHERE session_id = %s AND token = %s AND position = %s",
            [
                batch.last_position,
                span(ttl_seconds),
                batch.session_id,
                batch.token,
                batch.expected_position,
            ],
        )
        if cursor.rowcount != 1:
            # We hold the row's lock, so this needs a foreign hand; the next attempt sees whose.
            raise StoreTransient("a lease row changed during the commit")


def renew(
    cursor: CursorWrapper,
    dialect: Dialect,
    tokens: Mapping[str, int],
    *,
    node_id: str,
    ttl_seconds: float,
) -> frozenset[str]:
    """Move the expiry of the sessions whose token is ours; returns the others."""
    stored = locked_positions(cursor, dialect, tokens)
    ours = [
        session_id
        for session_id, token in sorted(tokens.items())
        if (row := stored.get(session_id)) and row.node_id == node_id and row.token == token
    ]
    if ours:
        cursor.executemany(
            f"UPDATE lambo_lease SET expires_at = {expiry(dialect)}"
            " WHERE session_id = %s AND token = %s",
            [(span(ttl_seconds), session_id, tokens[session_id]) for session_id in ours],
        )
    return frozenset(tokens).difference(ours)


def release(cursor: CursorWrapper, session_id: str, *, node_id: str, token: int) -> None:
    """End the expiry if the lease is still ours; the row and its token stay."""
    cursor.execute(
        "UPDATE lambo_lease SET expires_at = 0"
        " WHERE session_id = %s AND node_id = %s AND token = %s",
        [session_id, node_id, token],
    )
