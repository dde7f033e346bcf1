"""Rows and records convert into each other without loss, for any record."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory.engine.limits import COUNTER_MAX
from memory.engine.mutations import Call, Receipt
from memory.engine.ports import DeadLetter
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Reservation,
    Status,
    Transition,
)
from memory.fields import UUID_TEXT
from memory.store import codecs
from memory.store.row_checks import ids_are_well_spelled, row_fault

ids = st.uuids().map(str)
texts = st.text()
instants = st.integers(codecs.MICROS_MIN, codecs.MICROS_MAX)
counts = st.integers(0, COUNTER_MAX)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)

interactions = st.builds(
    Interaction,
    *(ids, texts, st.none() | texts, st.none() | ids, instants, st.none() | instants),
    st.booleans(),
)
concepts = st.builds(
    Concept,
    *(ids, texts, texts, st.sampled_from(ConceptType), ids, texts, instants, counts),
    *(st.none() | instants, counts, st.sampled_from(Status), st.none() | counts),
    *(st.none() | instants, st.none() | texts),
)
edges = st.builds(
    Edge,
    *(ids, ids, ids, st.sampled_from(EdgeType), st.floats(0, 10), counts, instants, instants),
    *(texts, texts, st.none() | instants),
)
transitions = st.builds(
    Transition,
    *(ids, ids, st.sampled_from(Status), st.sampled_from(Status), st.none() | counts),
    *(st.none() | instants, instants, texts, st.none() | texts, st.none() | ids),
)
entries = st.builds(
    AuditEntry,
    *(ids, st.sampled_from(AuditKind), st.none() | ids),
    *(st.none() | st.sampled_from(Status), st.none() | st.sampled_from(Status), instants, texts),
    *(st.none() | texts, json_values, json_values, json_values),
)
reservations = st.builds(Reservation, ids, texts, instants)
receipts = st.builds(
    Receipt, texts, texts, texts, texts, json_values, st.integers(1, 2**62), instants
)


def check(session_id: str, row: codecs.Row, table: codecs.Table) -> codecs.Row:
    """A row is the session and then sound columns of exact built-in types."""
    assert row[0] == session_id
    assert {type(value) for value in row} <= {str, int, float, bool, type(None)}
    assert row_fault(table, row[1:]) is None
    return row[1:]


@given(texts, interactions)
def test_interaction_round_trip(session_id: str, record: Interaction) -> None:
    row = check(session_id, codecs.interaction_row(session_id, record), codecs.INTERACTIONS)
    assert codecs.interaction_from(row) == record


@given(texts, concepts)
def test_concept_round_trip(session_id: str, record: Concept) -> None:
    row = check(session_id, codecs.concept_row(session_id, record), codecs.CONCEPTS)
    back = codecs.concept_from(row)
    assert back == record
    assert type(back.concept_type) is ConceptType
    assert type(back.status) is Status


@given(texts, edges)
def test_edge_round_trip(session_id: str, record: Edge) -> None:
    row = check(session_id, codecs.edge_row(session_id, record), codecs.EDGES)
    back = codecs.edge_from(row)
    assert back == record
    assert type(back.edge_type) is EdgeType


@given(texts, transitions)
def test_transition_round_trip(session_id: str, record: Transition) -> None:
    *plain, detail = codecs.transition_row(session_id, record, {"policy": "swarm"})
    assert detail == '{"policy":"swarm"}'
    row = check(session_id, tuple(plain), codecs.TRANSITIONS)
    back = codecs.transition_from(row)
    assert back == record
    assert type(back.to_status) is Status


@given(texts, entries)
def test_audit_entry_round_trip(session_id: str, record: AuditEntry) -> None:
    row = check(session_id, codecs.entry_row(session_id, record), codecs.ENTRIES)
    back = codecs.entry_from(row)
    assert back == record
    assert type(back.kind) is AuditKind


@given(texts, reservations)
def test_reservation_round_trip(session_id: str, record: Reservation) -> None:
    row = check(session_id, codecs.reservation_row(session_id, record), codecs.RESERVATIONS)
    assert codecs.reservation_from(row) == record


@given(texts, receipts)
def test_receipt_round_trip(session_id: str, record: Receipt) -> None:
    row = codecs.receipt_row(session_id, record)
    assert len(row) == len(codecs.RECEIPT_COLUMNS)
    assert codecs.receipt_from(row[1:]) == record


@given(texts, json_values, st.booleans())
def test_dead_letter_has_a_value_for_each_column(
    session_id: str, arguments: Any, has_call: bool
) -> None:
    call = Call("derive", "a", "k", "d", arguments) if has_call else None
    row = codecs.dead_letter_row(DeadLetter(session_id, 1, call, "error", 1))
    assert len(row) == len(codecs.DEAD_LETTER_COLUMNS)
    assert (row[2] is None) is not has_call


@given(st.lists(ids, min_size=1, max_size=5), st.integers(0, 4), texts, st.data())
def test_the_bulk_check_of_ids_agrees_with_the_pattern(
    good: list[str], at: int, noise: str, data: st.DataObject
) -> None:
    assert ids_are_well_spelled(good)
    victim = good[at % len(good)]
    cut = data.draw(st.integers(0, len(victim)))
    other = data.draw(
        st.sampled_from(
            [victim[:cut] + noise + victim[cut + len(noise) :], victim.upper(), noise, victim + "-"]
        )
    )
    mixed = [other if value == victim else value for value in good]
    assert ids_are_well_spelled(mixed) == all(UUID_TEXT.fullmatch(value) for value in mixed)


@given(st.none() | st.integers() | st.binary())
def test_the_bulk_check_of_ids_refuses_what_is_not_text(value: object) -> None:
    assert not ids_are_well_spelled([value])
