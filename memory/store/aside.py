"""Taking rows that no load can use out of the way, into `lambo_set_aside`.

A row of a foreign hand that is merely left out of the graph may still hold a key under a unique
index, and then every write of that key is refused. So it is moved: copied with the reason, then
deleted, in the transaction that also writes what the load put in its place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from django.db.backends.utils import CursorWrapper

from memory.engine.mutations import PutEdge
from memory.engine.ports import LoadedSession, SetAside, StoredPosition, StoreRejected
from memory.engine.times import Micros
from memory.engine.types import Edge, Interaction
from memory.store import codecs
from memory.store.dialects import Dialect
from memory.store.leases import locked_positions
from memory.store.stages import Stage
from memory.store.writers import write_stage

_IDS_PER_STATEMENT: Final = 500
"""Bound variables of one statement; every engine takes at least 999."""

_KEEP: Final = (
    "INSERT INTO lambo_set_aside"
    " (session_id, table_name, row_id, row_json, reason, set_aside_at)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)
_JOIN: Final = "UPDATE lambo_interaction SET previous_id = %s WHERE session_id = %s AND id = %s"

_SESSION_DEFAULTS: Final[Mapping[str, Micros | None]] = {
    "created_at": 0,
    "closed_at": None,
    "root_goal": None,
    "embedding_kind": None,
    "cycle_state": None,
}
"""What a load takes for a column of the session's own row that it cannot use."""


def put_aside(
    cursor: CursorWrapper,
    dialect: Dialect,
    loaded: LoadedSession,
    *,
    node_id: str,
    token: int,
    at: Micros,
) -> int:
    """Store what a load made of the rows it could not use; how many were kept aside.

    Raises `StoreRejected` unless the session is ours and stands where the load found it: rows
    written since may have mended what the load complains of.
    """
    session_id = loaded.snapshot.session_id
    stored = locked_positions(cursor, dialect, [session_id]).get(session_id)
    if stored != StoredPosition(node_id, token, loaded.position):
        raise StoreRejected("the session was written since its rows were found unusable")
    kept = 0
    by_table: dict[str, list[SetAside]] = defaultdict(list)
    for item in loaded.set_aside:
        if item.row_id is not None:
            by_table[item.table].append(item)
    for item in by_table.pop("lambo_session", []):
        kept += _mend_session(cursor, session_id, item, at)
    for name, items in by_table.items():
        for some in _in_portions(items):
            kept += _move(cursor, dialect, session_id, codecs.TABLES[name], some, at)
    # Last: an edge that was put in may have the ends of one that could not be used.
    stage = Stage()
    for item in loaded.set_aside:
        if isinstance(item.instead, Edge):
            stage.add(PutEdge(item.instead))
    write_stage(cursor, dialect, session_id, stage)
    return kept


def _in_portions(items: Sequence[SetAside]) -> Iterator[Sequence[SetAside]]:
    for start in range(0, len(items), _IDS_PER_STATEMENT):
        yield items[start : start + _IDS_PER_STATEMENT]


def _mend_session(cursor: CursorWrapper, session_id: str, item: SetAside, at: Micros) -> int:
    """Keep one column of the session's row, then empty it."""
    column = item.row_id
    cursor.execute(f"SELECT {column} FROM lambo_session WHERE session_id = %s", [session_id])
    (value,) = cursor.fetchone()
    if value == _SESSION_DEFAULTS[column]:
        return 0
    _keep(cursor, session_id, [(item, {column: value})], at)
    cursor.execute(
        f"UPDATE lambo_session SET {column} = %s WHERE session_id = %s",
        [_SESSION_DEFAULTS[column], session_id],
    )
    return 1


def _move(
    cursor: CursorWrapper,
    dialect: Dialect,
    session_id: str,
    table: codecs.Table,
    items: Sequence[SetAside],
    at: Micros,
) -> int:
    """Keep rows of one table, then delete them; an interaction that was re-joined is rewritten."""
    key = table.columns[0]
    by_id = {item.row_id: item for item in items}
    condition, parameters = _having(dialect, session_id, key, list(by_id))
    # Every column, also one that we do not read: what is kept is to be the row.
    cursor.execute(f"SELECT * FROM {table.name} WHERE {condition}", parameters)
    names = [column[0] for column in cursor.description]
    rows = []
    for values in cursor.fetchall():
        row = dict(zip(names, values, strict=True))
        item = by_id[row[key]]
        if isinstance(item.instead, Interaction):
            if row["previous_id"] == item.instead.previous_id:
                continue
            cursor.execute(_JOIN, [item.instead.previous_id, session_id, item.row_id])
        rows.append((item, row))
    _keep(cursor, session_id, rows, at)
    lost = [item.row_id for item in items if item.instead is None]
    if lost:
        condition, parameters = _having(dialect, session_id, key, lost)
        cursor.execute(f"DELETE FROM {table.name} WHERE {condition}", parameters)
    return len(rows)


def _having(
    dialect: Dialect, session_id: str, key: str, ids: Sequence[Any]
) -> tuple[str, list[Any]]:
    """A condition with its parameters: the rows of a session that have one of these ids."""
    raw = [row_id for row_id in ids if _is_undecodable(row_id)]
    exact = [row_id for row_id in ids if not _is_undecodable(row_id)]
    tests = [
        f"{column} IN ({', '.join(['%s'] * len(some))})"
        for column, some in ((key, exact), (dialect.as_bytes.format(key), raw))
        if some
    ]
    return f"session_id = %s AND ({' OR '.join(tests)})", [session_id, *exact, *raw]


def _is_undecodable(row_id: Any) -> bool:
    """Whether an id was read from bytes that are no UTF-8, so that it may be text in its column."""
    if not isinstance(row_id, bytes):
        return False
    try:
        row_id.decode()
    except UnicodeDecodeError:
        return True
    return False


def _keep(
    cursor: CursorWrapper,
    session_id: str,
    rows: Sequence[tuple[SetAside, Mapping[str, Any]]],
    at: Micros,
) -> None:
    kept = [
        (
            session_id,
            item.table,
            str(_writable(item.row_id)),
            codecs.json_text({column: _writable(value) for column, value in row.items()}),
            item.sentence,
            at,
        )
        for item, row in rows
    ]
    if kept:
        cursor.executemany(_KEEP, kept)


def _writable(value: Any) -> Any:
    """A stored value as JSON can hold it; what JSON cannot hold as Python writes it."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return ascii(value)
