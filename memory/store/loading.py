"""Reading a whole session, fast, and trusting no row.

A session may hold a hundred thousand concepts and half a million edges, and a foreign hand may have
been at any of them. So the database is asked first whether any column holds what it may not; if
not, rows are built in bulk, and only a chunk with a reference that leads nowhere is taken apart to
set the guilty rows aside with a sentence each.

Reading takes no lock and needs no lease. The caller gives one cursor inside one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeVar, cast

from django.db.backends.utils import CursorWrapper

from memory.engine.collection import collection_paused
from memory.engine.embedding import EmbeddingContract
from memory.engine.ports import LoadedSession, SetAside
from memory.engine.standing import standing_of
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    Concept,
    Edge,
    EdgeType,
    Interaction,
    Json,
    Reservation,
    Snapshot,
    Transition,
)
from memory.store import audit, codecs, soundness
from memory.store.audit_trail import read_chain
from memory.store.codecs import Kind, Row, Table
from memory.store.dialects import Dialect
from memory.store.events import newest_id
from memory.store.row_checks import ids_are_sound, is_sound, row_fault, soundness_sql
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
    faults: list[SetAside] = field(default_factory=list)

    def report_column(self, column: str, sentence: str) -> None:
        """Set a column of the session's own row aside."""
        self.faults.append(SetAside(sentence, "lambo_session", column))


def read_session(reading: Reading) -> LoadedSession | None:
    """The session as stored, or None if it does not exist or is being deleted."""
    reading.cursor.execute(
        "SELECT session.created_at, session.closed_at, session.root_goal, lease.position,"
        f" session.match_strategy, session.cycle_state, {', '.join(codecs.CONTRACT_COLUMNS)}"
        " FROM lambo_session session"
        " LEFT JOIN lambo_lease lease ON lease.session_id = session.session_id"
        " WHERE session.session_id = %s AND session.deleted_at IS NULL",
        [reading.session_id],
    )
    row = reading.cursor.fetchone()
    if row is None:
        return None
    created_at, closed_at, goal_text, position, match_strategy, cycles, *contract_cells = row
    with collection_paused():
        snapshot = _read_snapshot(reading)
    contract = _contract(reading, tuple(contract_cells))
    cycle_state = _json(reading, "cycle_state", "The state of the cycles", cycles)
    return LoadedSession(
        snapshot._replace(
            created_at=_instant(reading, "created_at", created_at) or 0,
            closed_at=_instant(reading, "closed_at", closed_at),
            root_goal=_json(reading, "root_goal", "The root goal", goal_text),
            match_strategy=match_strategy if isinstance(match_strategy, str) else "canonical",
            contract=contract,
            vectors=_read_vectors(reading, contract, {item.id for item in snapshot.concepts}),
        ),
        position or 0,
        _read_receipt_digests(reading),
        tuple(reading.faults),
        _read_contract_keys(reading),
        cycle_state=cycle_state,
        event_id=newest_id(reading.cursor, reading.session_id),
        chain=read_chain(reading.cursor, reading.session_id),
    )


def _read_snapshot(reading: Reading) -> Snapshot:
    in_order = _read(reading, codecs.INTERACTIONS, _interactions, order=" ORDER BY created_at")
    interactions, faults = soundness.in_chain_order(in_order)
    reading.faults += faults
    interaction_ids = {interaction.id: interaction.id for interaction in interactions}

    concepts = _read(reading, codecs.CONCEPTS, _concept_builder(interaction_ids))
    concept_ids = {concept.id: concept.id for concept in concepts}
    edges = _read(
        reading,
        codecs.EDGES,
        _edge_builder(interaction_ids, concept_ids),
        explain=lambda row: soundness.edge_fault(
            codecs.edge_from(row), interaction_ids, concept_ids
        ),
    )
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
        concepts=tuple(concepts),
        edges=tuple(edges),
        synonyms=tuple(sorted(_read(reading, codecs.SYNONYMS, _synonyms))),
        reservations=tuple(sorted(reservations, key=by_id)),
        transitions=tuple(
            sorted(
                _read(
                    reading,
                    codecs.TRANSITIONS,
                    _transitions,
                    condition=f"kind = 'transition' AND {audit.OF_LIVE_SESSION}",
                ),
                key=by_id,
            )
        ),
        standing=standing_of(
            _read(
                reading,
                codecs.ENTRIES,
                _entries,
                condition=audit.IS_STANDING,
                explain=audit.entry_fault,
            ),
            (concept.id for concept in concepts),
        ),
    )


def _instant(reading: Reading, column: str, value: Any) -> Micros | None:
    if is_sound(Kind.MICROS_OR_NULL, value):
        return cast(Micros | None, value)
    sentence = f"The session's {column} was set aside: {shown(value)} is no instant."
    reading.report_column(column, sentence)
    return None


def _json(reading: Reading, column: str, noun: str, text: Any) -> Json:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        reading.report_column(column, f"{noun} was set aside: {shown(text)} is not JSON.")
        return None


def _contract(reading: Reading, cells: Row) -> EmbeddingContract | None:
    try:
        return codecs.contract_from(cells)
    except ValueError:
        sentence = f"The session's embedding contract was set aside: {shown(cells)} is none."
        reading.report_column("embedding_kind", sentence)
        return None


def _read_vectors(
    reading: Reading, contract: EmbeddingContract | None, concepts: Set[str]
) -> tuple[tuple[str, bytes], ...]:
    """The vectors of the session's own contract; those of another are none of it.

    A vector is no fact but computed from one. One that cannot be used is left out without a word:
    its concept counts as without a vector, and the next one computed is written over it.
    """
    if contract is None:
        return ()
    stored = reading.dialect.read_vectors(reading.cursor, reading.session_id, contract.key)
    return tuple(item for item in stored if item[0] in concepts)


def _read_contract_keys(reading: Reading) -> tuple[str, ...]:
    """Every contract there are vectors of; one step into the index each, however many there are."""
    found: list[str] = []
    while True:
        reading.cursor.execute(
            "SELECT contract_id FROM lambo_embedding"
            " WHERE session_id = %s AND contract_id > %s ORDER BY contract_id LIMIT 1",
            [reading.session_id, found[-1] if found else ""],
        )
        row = reading.cursor.fetchone()
        if row is None or not isinstance(row[0], str):
            return tuple(found)
        found.append(row[0])


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
    order: str = "",
    explain: Callable[[Row], str | None] | None = None,
) -> list[_Record]:
    """The records of a table's usable rows; sentences for the others go to `reading.faults`.

    `build` may raise `LookupError` for rows that refer to nothing; `explain` then says why, of a
    row whose columns are sound.
    """
    records: list[_Record] = []
    where = f"FROM {table.name} WHERE session_id = %s AND {condition}"
    is_suspect = reading.is_lenient or _has_unsound_rows(reading, table, where)
    reading.cursor.execute(f"SELECT {table.column_list} {where}{order}", [reading.session_id])
    while rows := reading.cursor.fetchmany(_CHUNK_ROWS):
        if not is_suspect and ids_are_sound(rows, table):
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
                reading.faults.append(set_aside(table, row[0], fault))
    return records


def _has_unsound_rows(reading: Reading, table: Table, where: str) -> bool:
    """Ask the database, in one statement, whether any row must be looked at closely.

    It answers in half the time the same tests take here, and without Python's lock.
    """
    reading.cursor.execute(
        f"SELECT count(*) {where} AND NOT ({soundness_sql(table, reading.dialect)})",
        [reading.session_id],
    )
    (count,) = reading.cursor.fetchone()
    return bool(count)


# -- rows to records, many at once -------------------------------------------------------------
# `tuple.__new__` builds a named tuple without its Python-level constructor, in a third of the time.


def _interactions(rows: Sequence[Row]) -> list[Interaction]:
    return [tuple.__new__(Interaction, (*row[:-1], row[-1] == 1)) for row in rows]


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
                (
                    concept,
                    content,
                    key,
                    types[kind],
                    known(origin, origin),
                    share(agent, agent),
                    made,
                    accesses,
                    accessed,
                    survived,
                    statuses[status],
                    radius,
                    demoted,
                    chunk,
                ),
            )
            for (
                concept,
                content,
                key,
                kind,
                origin,
                agent,
                made,
                accesses,
                accessed,
                survived,
                status,
                radius,
                demoted,
                chunk,
            ) in rows
        ]

    return build


def _edge_builder(
    interactions: Mapping[str, str], concepts: Mapping[str, str]
) -> Callable[[Sequence[Row]], list[Edge]]:
    """Edges whose ends exist and are of the right sort; anything else is a `LookupError`."""
    ends = {
        text: (
            kind,
            interactions if kind in soundness.FROM_INTERACTION else concepts,
            interactions if kind is EdgeType.TEMPORAL else concepts,
        )
        for text, kind in codecs.EDGE_TYPES.items()
    }
    shared: dict[str, str] = {}
    share = shared.setdefault

    def build(rows: Sequence[Row]) -> list[Edge]:
        return [
            tuple.__new__(
                Edge,
                (
                    edge,
                    (sort := ends[kind])[1][source],
                    sort[2][target],
                    sort[0],
                    weight,
                    count,
                    made,
                    renewed,
                    share(maker, maker),
                    share(renewer, renewer),
                    about,
                ),
            )
            for (
                edge,
                source,
                target,
                kind,
                weight,
                count,
                made,
                renewed,
                maker,
                renewer,
                about,
            ) in rows
        ]

    return build


def _reservations(rows: Sequence[Row]) -> list[Reservation]:
    return [codecs.reservation_from(row) for row in rows]


def _transitions(rows: Sequence[Row]) -> list[Transition]:
    return [codecs.transition_from(row) for row in rows]


def _entries(rows: Sequence[Row]) -> list[AuditEntry]:
    for row in rows:
        fault = audit.entry_fault(row)
        if fault is not None:
            raise LookupError(fault)
    return [codecs.entry_from(row) for row in rows]


def _synonyms(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(source_key, canonical_key) for source_key, canonical_key in rows]
