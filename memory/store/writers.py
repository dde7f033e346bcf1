"""The statements that write a session's rows: portable upserts and deletions.

Every statement names the session. Ids are unique over the whole database; a row whose id belongs to
another session is refused (`StoreRejected`), never overwritten and never skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from django.db.backends.utils import CursorWrapper

from memory.engine.mutations import (
    ApplyTransition,
    Group,
    PurgeText,
    PutCycleState,
    SetRootGoal,
    SwitchContract,
)
from memory.engine.ports import StoreRejected
from memory.engine.types import NodeId
from memory.store import audit, codecs, events, purging
from memory.store.dialects import Dialect
from memory.store.stages import Stage, stages_of


def _upsert(
    table: str, columns: Sequence[str], *, key: str, update: Sequence[str], only_if: str = ""
) -> str:
    """INSERT ... ON CONFLICT: update some columns of the row that has the key, if it qualifies."""
    assignments = ", ".join(f"{column} = excluded.{column}" for column in update)
    return (
        f"INSERT INTO {table} ({', '.join(columns)})"
        f" VALUES ({', '.join(['%s'] * len(columns))})"
        f" ON CONFLICT ({key}) DO UPDATE SET {assignments}"
        + (f" WHERE {only_if}" if only_if else "")
    )


def _with_session(table: codecs.Table) -> tuple[str, ...]:
    return ("session_id", *table.columns)


# An interaction is append-only: putting it again is accepted only where it stands already.
_PUT_INTERACTIONS: Final = _upsert(
    "lambo_interaction",
    _with_session(codecs.INTERACTIONS),
    key="id",
    update=("agent_id", "prompt_text", "event_time", "is_backdated"),
    only_if=(
        "lambo_interaction.session_id = excluded.session_id"
        " AND lambo_interaction.created_at = excluded.created_at"
        " AND (lambo_interaction.previous_id = excluded.previous_id"
        " OR (lambo_interaction.previous_id IS NULL AND excluded.previous_id IS NULL))"
    ),
)
# Counters only. Status belongs to transitions, the rest never changes; and leaving the key alone
# spares its index in every sweep that counts survivors.
_PUT_CONCEPTS: Final = _upsert(
    "lambo_concept",
    _with_session(codecs.CONCEPTS),
    key="id",
    update=("access_count", "last_accessed", "gc_survived"),
    only_if="lambo_concept.session_id = excluded.session_id",
)
_PUT_EDGES: Final = _upsert(
    "lambo_edge",
    _with_session(codecs.EDGES),
    key="session_id, source, target, edge_type",
    update=("weight", "reinforcements", "last_reinforced", "reinforced_by", "event_time"),
)
_PUT_SYNONYMS: Final = _upsert(
    "lambo_synonym",
    _with_session(codecs.SYNONYMS),
    key="session_id, source_key",
    update=("canonical_key",),
)
_PUT_RESERVATIONS: Final = _upsert(
    "lambo_reservation",
    _with_session(codecs.RESERVATIONS),
    key="session_id, node_id",
    update=("agent_id", "expires_at"),
)
_PUT_RECEIPTS: Final = _upsert(
    "lambo_receipt",
    codecs.RECEIPT_COLUMNS,
    key="session_id, agent_id, key",
    update=codecs.RECEIPT_COLUMNS[3:],
)
_TRANSITION_COLUMNS: Final = (
    *_with_session(codecs.TRANSITIONS),
    "detail",
    *codecs.LINK_COLUMNS,
)
_ADD_TRANSITION: Final = (
    f"INSERT INTO lambo_audit_event ({', '.join(_TRANSITION_COLUMNS)}, kind)"
    f" VALUES ({', '.join(['%s'] * len(_TRANSITION_COLUMNS))}, 'transition')"
    " ON CONFLICT (id) DO NOTHING"
)

_MOVE_STATUS: Final = (
    "UPDATE lambo_concept SET status = %s, blast_radius = %s,"
    " last_demotion_time = COALESCE(%s, last_demotion_time)"
    " WHERE id = %s AND session_id = %s"
)
_SET_GOAL: Final = "UPDATE lambo_session SET root_goal = %s WHERE session_id = %s"
_SET_CONTRACT: Final = (
    f"UPDATE lambo_session SET {', '.join(f'{name} = %s' for name in codecs.CONTRACT_COLUMNS)}"
    " WHERE session_id = %s"
)

_SET_CYCLE_STATE: Final = (
    "UPDATE lambo_session SET cycle_state = %s, evaluate_at = %s, collect_at = %s"
    " WHERE session_id = %s"
)
_NOTE_ACCESS: Final = (
    "UPDATE lambo_concept SET access_count = %s, last_accessed = %s"
    " WHERE id = %s AND session_id = %s"
)

_DELETE_EDGES: Final = "DELETE FROM lambo_edge WHERE session_id = %s AND id = %s"
_DELETE_RESERVATIONS: Final = "DELETE FROM lambo_reservation WHERE session_id = %s AND node_id = %s"
_DELETE_SYNONYMS: Final = "DELETE FROM lambo_synonym WHERE session_id = %s AND source_key = %s"
# A concept takes with it whatever still touches it. Two statements for the two ends: each is a
# range of an index, which one statement with OR is not on every engine.
_DELETE_CONCEPTS: Final = (
    "DELETE FROM lambo_edge WHERE session_id = %s AND source = %s",
    "DELETE FROM lambo_edge WHERE session_id = %s AND target = %s",
    _DELETE_RESERVATIONS,
    "DELETE FROM lambo_embedding WHERE session_id = %s AND concept_id = %s",
    "DELETE FROM lambo_concept WHERE session_id = %s AND id = %s",
)


def write_groups(
    cursor: CursorWrapper, dialect: Dialect, session_id: str, groups: Sequence[Group]
) -> None:
    """Store consecutive groups of one session, receipts and events included."""
    start = 0
    for end, group in enumerate(groups, start=1):
        purges = [item for item in group.mutations if isinstance(item, PurgeText)]
        if purges or end == len(groups):
            # A purge blanks what the groups before it have written, their receipts too.
            _write_run(cursor, dialect, session_id, groups[start:end])
            for item in purges:
                purging.purge(cursor, dialect, session_id, item)
            start = end


def _write_run(
    cursor: CursorWrapper, dialect: Dialect, session_id: str, groups: Sequence[Group]
) -> None:
    for stage in stages_of(mutation for group in groups for mutation in group.mutations):
        write_stage(cursor, dialect, session_id, stage)
    receipts = [group.receipt for group in groups if group.receipt is not None]
    _write_all(
        cursor, _PUT_RECEIPTS, [codecs.receipt_row(session_id, receipt) for receipt in receipts]
    )
    events.write_events(cursor, session_id, groups)


def write_stage(cursor: CursorWrapper, dialect: Dialect, session_id: str, stage: Stage) -> None:
    """Deletions, then puts, then transitions; see `memory.store.stages` for why in this order."""
    _delete(cursor, _DELETE_EDGES, session_id, stage.deleted_edges)
    for statement in _DELETE_CONCEPTS:
        _delete(cursor, statement, session_id, stage.deleted_concepts)
    _delete(cursor, _DELETE_RESERVATIONS, session_id, stage.deleted_reservations)
    _delete(cursor, _DELETE_SYNONYMS, session_id, stage.deleted_synonyms)

    _write_owned(
        cursor,
        _PUT_INTERACTIONS,
        [codecs.interaction_row(session_id, item) for item in stage.interactions.values()],
        refusal="an interaction's id is taken by another session, or it changed its place",
    )
    _write_owned(
        cursor,
        _PUT_CONCEPTS,
        [codecs.concept_row(session_id, item) for item in stage.concepts.values()],
        refusal="a concept's id is taken by another session",
    )
    _write_all(
        cursor, _PUT_EDGES, [codecs.edge_row(session_id, item) for item in stage.edges.values()]
    )
    _write_all(
        cursor, _PUT_SYNONYMS, [(session_id, *synonym) for synonym in stage.synonyms.items()]
    )
    _write_all(
        cursor,
        _PUT_RESERVATIONS,
        [codecs.reservation_row(session_id, item) for item in stage.reservations.values()],
    )
    if stage.vectors:
        vectors = [(*place, vector) for place, vector in stage.vectors.items()]
        dialect.write_vectors(cursor, session_id, vectors)
    for goal in stage.goals:
        _set_goal(cursor, session_id, goal)
    for switch in stage.contracts:
        _set_contract(cursor, session_id, switch)
    for cycles in stage.cycle_states:
        _set_cycle_state(cursor, session_id, cycles)
    _write_all(
        cursor,
        _NOTE_ACCESS,
        [
            (access.access_count, access.last_accessed, access.concept_id, session_id)
            for access in stage.accesses.values()
        ],
    )
    for step in stage.transitions:
        _write_transition(cursor, session_id, step)
    audit.add_entries(cursor, session_id, stage.entries)


def _write_all(cursor: CursorWrapper, statement: str, rows: Sequence[codecs.Row]) -> None:
    if rows:
        cursor.executemany(statement, rows)


def _write_owned(
    cursor: CursorWrapper, statement: str, rows: Sequence[codecs.Row], *, refusal: str
) -> None:
    """As `_write_all`, and every row must have been inserted or updated."""
    _write_all(cursor, statement, rows)
    if rows and cursor.rowcount != len(rows):
        raise StoreRejected(refusal)


def _delete(cursor: CursorWrapper, statement: str, session_id: str, ids: Iterable[NodeId]) -> None:
    _write_all(cursor, statement, [(session_id, node_id) for node_id in ids])


def _set_goal(cursor: CursorWrapper, session_id: str, goal: SetRootGoal) -> None:
    cursor.execute(_SET_GOAL, [codecs.json_or_null(goal.root_goal), session_id])
    if cursor.rowcount != 1:
        raise StoreRejected("the session has no row")


def _set_contract(cursor: CursorWrapper, session_id: str, switch: SwitchContract) -> None:
    cursor.execute(_SET_CONTRACT, [*codecs.contract_row(switch.contract), session_id])
    if cursor.rowcount != 1:
        raise StoreRejected("the session has no row")


def _set_cycle_state(cursor: CursorWrapper, session_id: str, cycles: PutCycleState) -> None:
    state = codecs.json_or_null(cycles.state)
    cursor.execute(_SET_CYCLE_STATE, [state, cycles.evaluate_at, cycles.collect_at, session_id])
    if cursor.rowcount != 1:
        raise StoreRejected("the session has no row")


def _write_transition(cursor: CursorWrapper, session_id: str, step: ApplyTransition) -> None:
    """The audit row, and the concept's status with it if that row is new."""
    transition = step.transition
    row = codecs.transition_row(session_id, transition, step.detail)
    cursor.execute(_ADD_TRANSITION, (*row, *codecs.link_row(step.link)))
    if cursor.rowcount == 0:
        audit.check_owner(cursor, session_id, transition.id)
        return
    cursor.execute(
        _MOVE_STATUS,
        [
            transition.to_status.value,
            transition.blast_radius,
            transition.last_demotion_time,
            transition.node_id,
            session_id,
        ],
    )
    if cursor.rowcount != 1:
        raise StoreRejected("a transition names a concept that is not stored")
