"""Reading a whole session, fast, and trusting no row.

A session may hold a hundred thousand concepts and half a million edges, and a foreign hand may have
been at any of them. So the database is asked first whether any column holds what it may not; if
not, rows are built in bulk, and only a chunk with a reference that leads nowhere is taken apart to
set the guilty rows aside with a sentence each.

Reading takes no lock and needs no lease. The caller gives one cursor inside one transaction.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeVar

from django.db.backends.utils import CursorWrapper

from memory.engine.limits import COUNTER_MAX
from memory.engine.ports import LoadedSession
from memory.engine.types import (
    Concept,
    Edge,
    EdgeType,
    Interaction,
    Json,
    Reservation,
    Snapshot,
    Transition,
)
from memory.fields import UUID_TEXT
from memory.store import codecs, soundness
from memory.store.codecs import Kind, Row, Table
from memory.store.dialects import Dialect
from memory.store.soundness import set_aside, shown

_CHUNK_ROWS: Final = 400
"""Rows converted at once: few enough to stay in the processor's cache, which halves the time."""

_Record = TypeVar("_Record")


@dataclass(slots=True)
class Reading:
    """One pass over one session. With `is_lenient`, text that is not UTF-8 arrives as bytes."""

    cursor: CursorWrapper
    dialect: Dialect
    session_id: str
    is_lenient: bool = False
    faults: list[str] = field(default_factory=list)


def read_session(reading: Reading) -> LoadedSession | None:
    """The session as stored, or None if it does not exist or is being deleted."""
    reading.cursor.execute(
        "SELECT session.created_at, session.closed_at, session.root_goal, lease.position"
        " FROM lambo_session session"
        " LEFT JOIN lambo_lease lease ON lease.session_id = session.session_id"
        " WHERE session.session_id = %s AND session.deleted_at IS NULL",
        [reading.session_id],
    )
    row = reading.cursor.fetchone()
    if row is None:
        return None
    created_at, closed_at, goal_text, position = row
    with _collection_paused():
        snapshot = _read_snapshot(reading)
    return LoadedSession(
        snapshot._replace(
            created_at=created_at, closed_at=closed_at, root_goal=_goal(reading, goal_text)
        ),
        position or 0,
        _read_receipt_digests(reading),
        tuple(reading.faults),
    )


def _read_snapshot(reading: Reading) -> Snapshot:
    in_order = _read(reading, codecs.INTERACTIONS, _interactions, order=" ORDER BY created_at")
    interactions, faults = soundness.in_chain_order(in_order)
    reading.faults += faults
    interaction_ids = {interaction.id: interaction.id for interaction in interactions}

    concepts = _read(reading, codecs.CONCEPTS, _concept_builder(interaction_ids))
    concept_ids = {concept.id: concept.id for concept in concepts}
    edges = _read_edges(reading, interaction_ids, concept_ids)
    concepts, edges, faults = soundness.sound_graph(interaction_ids, concepts, edges)
    reading.faults += faults
    edges, faults = soundness.edges_along_chain(interactions, edges)
    reading.faults += faults

    reservations, faults = soundness.sound_reservations(
        _read(reading, codecs.RESERVATIONS, _reservations),
        interaction_ids.keys() | {concept.id for concept in concepts},
    )
    reading.faults += faults
    by_id: Callable[[Any], Any] = itemgetter(0)
    return Snapshot(
        session_id=reading.session_id,
        created_at=0,
        root_goal=None,
        interactions=tuple(interactions),
        concepts=tuple(sorted(concepts, key=by_id)),
        edges=tuple(sorted(edges, key=by_id)),
        synonyms=tuple(sorted(_read(reading, codecs.SYNONYMS, _synonyms))),
        reservations=tuple(sorted(reservations, key=by_id)),
        transitions=tuple(
            sorted(
                _read(reading, codecs.TRANSITIONS, _transitions, condition="kind = 'transition'"),
                key=by_id,
            )
        ),
    )


def _read_edges(
    reading: Reading, interactions: Mapping[str, str], concepts: Mapping[str, str]
) -> list[Edge]:
    """All edges between these nodes, type by type, so that no row needs to ask for its own."""

    def explain(row: Row) -> str | None:
        return soundness.edge_fault(codecs.edge_from(row), interactions, concepts)

    edges: list[Edge] = []
    shared: dict[str, str] = {}
    for text, kind in codecs.EDGE_TYPES.items():
        sources = interactions if kind in soundness.FROM_INTERACTION else concepts
        targets = interactions if kind is EdgeType.TEMPORAL else concepts
        edges += _read(
            reading,
            codecs.EDGES,
            _edge_builder(kind, sources, targets, shared),
            condition="edge_type = %s",
            parameters=[text],
            explain=explain,
        )
    known = list(codecs.EDGE_TYPES)
    return edges + _read(
        reading,
        codecs.EDGES,
        lambda rows: [codecs.edge_from(row) for row in rows],
        condition=f"edge_type NOT IN ({', '.join(['%s'] * len(known))})",
        parameters=known,
    )


def _goal(reading: Reading, text: Any) -> Json:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        reading.faults.append(f"The root goal was set aside: {shown(text)} is not JSON.")
        return None


def _read_receipt_digests(reading: Reading) -> Mapping[tuple[str, str], str]:
    reading.cursor.execute(
        "SELECT agent_id, key, digest FROM lambo_receipt WHERE session_id = %s",
        [reading.session_id],
    )
    return {(agent_id, key): digest for agent_id, key, digest in reading.cursor.fetchall()}


# -- one table ---------------------------------------------------------------------------------


def _read(
    reading: Reading,
    table: Table,
    build: Callable[[Sequence[Row]], list[_Record]],
    *,
    condition: str = "TRUE",
    parameters: Sequence[str] = (),
    order: str = "",
    explain: Callable[[Row], str | None] | None = None,
) -> list[_Record]:
    """The records of a table's usable rows; sentences for the others go to `reading.faults`.

    `build` may raise `LookupError` for rows that refer to nothing; `explain` then says why, of a
    row whose columns are sound.
    """
    records: list[_Record] = []
    where = f"FROM {table.name} WHERE session_id = %s AND {condition}"
    scope = [reading.session_id, *parameters]
    is_suspect = reading.is_lenient or _has_unsound_rows(reading, table, where, scope)
    reading.cursor.execute(f"SELECT {table.column_list} {where}{order}", scope)
    while rows := reading.cursor.fetchmany(_CHUNK_ROWS):
        if not is_suspect and _ids_are_sound(rows, table):
            try:
                records += build(rows)
                continue
            except LookupError:
                pass
        for row in rows:
            fault = row_fault(table, row)
            if fault is None and explain is not None:
                fault = explain(row)
            if fault is None:
                records += build([row])
            else:
                reading.faults.append(set_aside(table.noun, row[0], fault))
    return records


def _has_unsound_rows(reading: Reading, table: Table, where: str, scope: Sequence[str]) -> bool:
    """Ask the database, in one statement, whether any row must be looked at closely.

    It answers in half the time the same tests take here, and without Python's lock.
    """
    reading.cursor.execute(
        f"SELECT count(*) {where} AND NOT ({_soundness_sql(table, reading.dialect)})", scope
    )
    (count,) = reading.cursor.fetchone()
    return bool(count)


def _soundness_sql(table: Table, dialect: Dialect) -> str:
    """An SQL condition: false for a row with a value that its column may not hold.

    Ids and enums are left out: the reader looks them up or checks their spelling anyway.
    """
    tests = []
    for column, kind in zip(table.columns, table.kinds, strict=True):
        test = _column_sql(column, kind, dialect)
        if test is not None:
            tests.append(f"({column} IS NULL OR {test})" if kind in _NULLABLE else test)
    return " AND ".join(tests)


_NULLABLE: Final = frozenset(
    {Kind.ID_OR_NULL, Kind.TEXT_OR_NULL, Kind.MICROS_OR_NULL, Kind.COUNT_OR_NULL}
)


def _column_sql(column: str, kind: Kind, dialect: Dialect) -> str | None:
    match kind:
        case Kind.MICROS | Kind.MICROS_OR_NULL:
            bounds = f"{column} BETWEEN {codecs.MICROS_MIN} AND {codecs.MICROS_MAX}"
            return f"({dialect.is_integer.format(column)} AND {bounds})"
        case Kind.COUNT | Kind.COUNT_OR_NULL:
            bounds = f"{column} BETWEEN 0 AND {COUNTER_MAX}"
            return f"({dialect.is_integer.format(column)} AND {bounds})"
        case Kind.WEIGHT:
            bounds = f"{column} BETWEEN 0 AND {sys.float_info.max}"
            return f"({dialect.is_real.format(column)} AND {bounds})"
        case Kind.TEXT | Kind.TEXT_OR_NULL:
            return dialect.is_text.format(column)
        case _:
            return None


def _ids_are_sound(rows: Sequence[Row], table: Table) -> bool:
    """Whether all rows have a well-spelled id in each id column that nothing else looks up.

    References are looked up among ids that have passed this test. So the first column is enough,
    but for audit rows, which may name a concept that is gone.
    """
    if table is codecs.SYNONYMS:
        return True
    if table is codecs.TRANSITIONS:
        return all(row_fault(table, row) is None for row in rows)
    return ids_are_well_spelled([row[0] for row in rows])


_ID_LENGTH: Final = 36
_HYPHENS_AT: Final = (8, 13, 18, 23)


def ids_are_well_spelled(ids: Sequence[Any]) -> bool:
    """Whether every value is a UUID in lower case with hyphens: few passes over all at once."""
    if set(map(type, ids)) != {str} or set(map(len, ids)) != {_ID_LENGTH}:
        return False
    joined = "".join(ids)
    return (
        joined.isascii()
        and not joined.encode().translate(None, b"0123456789abcdef-")
        and joined.count("-") == len(_HYPHENS_AT) * len(ids)
        and all(joined[at::_ID_LENGTH] == "-" * len(ids) for at in _HYPHENS_AT)
    )


# -- rows to records, many at once -------------------------------------------------------------
# `tuple.__new__` builds a named tuple without its Python-level constructor, in a third of the time.


def _interactions(rows: Sequence[Row]) -> list[Interaction]:
    return [tuple.__new__(Interaction, row) for row in rows]


def _concept_builder(interactions: Mapping[str, str]) -> Callable[[Sequence[Row]], list[Concept]]:
    types, statuses = codecs.CONCEPT_TYPES, codecs.STATUSES
    # One text object per interaction and agent, not one per mention.
    known = interactions.get
    shared: dict[str, str] = {}
    share = shared.setdefault

    def build(rows: Sequence[Row]) -> list[Concept]:
        return [
            tuple.__new__(
                Concept,
                (a, b, c, types[d], known(e, e), share(f, f), g, h, i, j, statuses[k], m, n, o),
            )
            for a, b, c, d, e, f, g, h, i, j, k, m, n, o in rows
        ]

    return build


def _edge_builder(
    kind: EdgeType, sources: Mapping[str, str], targets: Mapping[str, str], shared: dict[str, str]
) -> Callable[[Sequence[Row]], list[Edge]]:
    """Edges of one type between known nodes; another end is a `LookupError`."""
    share = shared.setdefault

    def build(rows: Sequence[Row]) -> list[Edge]:
        return [
            tuple.__new__(
                Edge, (a, sources[b], targets[c], kind, e, f, g, h, share(i, i), share(j, j), k)
            )
            for a, b, c, _, e, f, g, h, i, j, k in rows
        ]

    return build


def _reservations(rows: Sequence[Row]) -> list[Reservation]:
    return [codecs.reservation_from(row) for row in rows]


def _transitions(rows: Sequence[Row]) -> list[Transition]:
    return [codecs.transition_from(row) for row in rows]


def _synonyms(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(source_key, canonical_key) for source_key, canonical_key in rows]


# -- one row -----------------------------------------------------------------------------------


def row_fault(table: Table, row: Row) -> str | None:
    """Which column of a row holds what it may not, as the reason of a sentence; or None."""
    for column, kind, value in zip(table.columns, table.kinds, row, strict=True):
        if not _is_sound(kind, value):
            return f"its {column} is {shown(value)}, which is not {kind.value}"
    return None


def _is_sound(kind: Kind, value: Any) -> bool:
    if value is None:
        return kind in _NULLABLE
    match kind:
        case Kind.ID | Kind.ID_OR_NULL:
            return isinstance(value, str) and UUID_TEXT.fullmatch(value) is not None
        case Kind.TEXT | Kind.TEXT_OR_NULL:
            return isinstance(value, str)
        case Kind.MICROS | Kind.MICROS_OR_NULL:
            return type(value) is int and codecs.MICROS_MIN <= value <= codecs.MICROS_MAX
        case Kind.COUNT | Kind.COUNT_OR_NULL:
            return codecs.count_is_sound(value)
        case Kind.WEIGHT:
            return type(value) is float and 0 <= value < math.inf
        case Kind.CONCEPT_TYPE:
            return value in codecs.CONCEPT_TYPES
        case Kind.STATUS:
            return value in codecs.STATUSES
        case Kind.EDGE_TYPE:
            return value in codecs.EDGE_TYPES


# -- the collector -----------------------------------------------------------------------------

_pause_lock: Final = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Keep Python's cycle collector off while hundreds of thousands of records are built.

    None of them can be part of a cycle, and the collector would walk over all of them again and
    again: a third of the loading time. Loads may overlap; the last one turns it on again.
    """
    global _pauses, _was_enabled
    with _pause_lock:
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _pause_lock:
            _pauses -= 1
            if _pauses == 0 and _was_enabled:
                gc.enable()
