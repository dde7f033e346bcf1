"""Records as JSON: every kind comes back equal, and what is not one is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from graph_writing import START, Scribe, concept
from memory.engine.errors import InvalidSnapshot
from memory.engine.limits import COUNTER_MAX
from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    DeleteSynonym,
    Mutation,
    PurgeText,
    PutAccess,
    PutAudit,
    PutConcept,
    PutCycleState,
    PutEdge,
    PutInteraction,
    PutReservation,
    PutSynonym,
    SetRootGoal,
)
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.times import EARLIEST, LATEST
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    ChainLink,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Reservation,
    Status,
    Transition,
)
from memory.engine.wire import (
    concept_from_json,
    concept_to_json,
    edge_from_json,
    edge_to_json,
    interaction_from_json,
    interaction_to_json,
    mutation_from_json,
    mutation_to_json,
    snapshot_from_json,
    snapshot_to_json,
    transition_from_json,
    transition_to_json,
)
from shared_data import shared_file

A, B, C = (f"0000000{n}-0000-4000-8000-000000000000" for n in "abc")
INTERACTION = Interaction(A, "agent-a", "do “it”\n👩‍👩‍👧", B, EARLIEST, LATEST)
CONCEPT = Concept(
    A, "the ✓ content", "✓ content", ConceptType.OBSERVATION, B, "agent-a", START, 1, START + 1,
    COUNTER_MAX, Status.CANONICAL, 0, LATEST, "group 1",
)  # fmt: skip
EDGE = Edge(
    A, B, C, EdgeType.SUSPECTED_SUPERSEDES, 0.1, 3, START, START + 1, "agent-a", "agent-b", EARLIEST
)
TRANSITION = Transition(
    A, B, Status.CANONICAL, Status.NONE, None, START, LATEST, "gc", "Superseded", C
)
ENTRY = AuditEntry(
    A, AuditKind.RESTORE, B, Status.VENERABLE, Status.NONE, LATEST, "human", "wanted",
    {"gc_survived": 1}, {"after": ["a ✓"]}, {"concept": {"id": B}},
)  # fmt: skip
MUTATIONS: tuple[Mutation, ...] = (
    PutInteraction(INTERACTION),
    PutInteraction(Interaction(A, "agent-a", None, None, 0)),
    PutConcept(CONCEPT),
    PutConcept(Concept(A, "x", "", ConceptType.ENTITY, B, "", 0)),
    PutEdge(EDGE),
    PutEdge(Edge(A, B, C, EdgeType.CAUSAL, 10.0, 1, 0, 0, "", "")),
    DeleteConcept(A),
    DeleteEdge(B),
    ApplyTransition(TRANSITION),
    ApplyTransition(Transition(A, B, Status.NONE, Status.CANDIDATE, 7, None, 0, "")),
    SetRootGoal({"content": "launch", "key": ["any", None, 1.5, True]}),
    SetRootGoal(None),
    PutSynonym("raw Spelling", "other"),
    PutReservation(Reservation(A, "agent-a", START)),
    DeleteReservation(A),
    DeleteSynonym("raw Spelling"),
    PutAudit(ENTRY),
    PutAudit(AuditEntry(B, AuditKind.SYNONYM, None, None, None, 0, "")),
    ApplyTransition(TRANSITION, {"policy": "swarm", "checks": []}),
    ApplyTransition(TRANSITION, None, ChainLink(7, None, "ab" * 32)),
    PutAudit(ENTRY, ChainLink(8, '{"reason":"cd"}', "ef" * 32)),
    PutCycleState({"swept_at": 1}, START, None),
    PutCycleState(None, None, LATEST),
    PutAccess(A, 3, START),
    PurgeText((A, B), "the ✓ content"),
)


# -- there and back ----------------------------------------------------------------------------


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: type(one).__name__)
def test_mutation_when_written_as_json_text_then_reads_back_equal(mutation: Mutation) -> None:
    text = json.dumps(mutation_to_json(mutation, "session"), allow_nan=False)
    again = mutation_from_json(json.loads(text))
    assert again == mutation
    assert type(again) is type(mutation)


def test_snapshot_when_written_as_json_text_then_reads_back_equal() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "béta ✓", parent_of=[("alpha", "leaf")], event_time=EARLIEST)
    scribe.derive(concept("gamma", depends_on=["alpha"], against=["leaf"]), event_time=LATEST)
    scribe.demote("It rained. It rained.")
    scribe.declare_synonym("alias", "alpha")
    scribe.set_goal("alpha")
    scribe.reserve("alpha")
    scribe.graph.apply(PutAudit(ENTRY._replace(node_id=scribe.id("alpha"))))
    snapshot = take_snapshot(scribe.graph)._replace(closed_at=START)
    text = json.dumps(snapshot_to_json(snapshot), allow_nan=False)
    assert snapshot_from_json(json.loads(text)) == snapshot


def test_json_when_written_then_has_the_names_of_the_contract() -> None:
    assert mutation_to_json(PutConcept(CONCEPT), "s") == {
        "op": "upsert_node",
        "node": {
            "kind": "concept",
            "id": A,
            "session_id": "s",
            "content": "the ✓ content",
            "canonical_key": "✓ content",
            "concept_type": "Observation",
            "origin_interaction": B,
            "origin_agent": "agent-a",
            "created_at": "1970-01-01T00:16:40Z",
            "access_count": 1,
            "last_accessed": "1970-01-01T00:16:40.000001Z",
            "gc_survived": COUNTER_MAX,
            "canonization_status": "Canonical",
            "blast_radius": 0,
            "last_demotion_time": "9999-12-31T23:59:59.999999Z",
            "embedding": None,
            "chunk_group_id": "group 1",
        },
    }
    ops = [mutation_to_json(mutation, "s")["op"] for mutation in MUTATIONS]
    assert list(dict.fromkeys(ops)) == [
        "upsert_node", "upsert_edge", "delete_node", "delete_edge", "canonization_transition",
        "set_root_goal", "put_synonym", "put_reservation", "delete_reservation",
        "delete_synonym", "put_audit", "put_cycle_state", "put_access", "purge_text",
    ]  # fmt: skip


def test_shared_batch_when_read_and_written_then_the_file_comes_back() -> None:
    given = json.loads(shared_file("fixtures/lambo/mutations-batch.json").read_text())["mutations"]
    mutations = [mutation_from_json(one) for one in given]
    assert [type(one) for one in mutations] == [
        PutInteraction, PutInteraction, PutConcept, PutConcept, PutEdge, PutEdge, PutEdge,
        DeleteConcept, DeleteEdge, ApplyTransition,
    ]  # fmt: skip
    written = [mutation_to_json(one, "session-mutations") for one in mutations]
    # The event of the file leaves out what is null in ours.
    event = written[-1]["event"]
    assert {name: event.pop(name) for name in set(event) - set(given[-1]["event"])} == {
        "actor": "", "last_demotion_time": None, "reason": None, "superseded_by": None,
    }  # fmt: skip
    assert written == given


# -- what is left out --------------------------------------------------------------------------


def test_concept_when_optional_keys_are_absent_then_takes_the_defaults() -> None:
    wire = concept_to_json(CONCEPT, "s")
    for name in (
        "session_id", "access_count", "last_accessed", "gc_survived", "blast_radius",
        "last_demotion_time", "embedding", "chunk_group_id",
    ):  # fmt: skip
        del wire[name]
    assert concept_from_json(wire) == Concept(
        *CONCEPT[:7], status=Status.CANONICAL, access_count=0, gc_survived=0
    )


def test_edge_when_agents_and_count_are_absent_then_takes_the_defaults() -> None:
    wire = edge_to_json(EDGE, "s")
    for name in ("created_by", "reinforced_by", "reinforcements", "event_time"):
        del wire[name]
    assert edge_from_json(wire) == EDGE._replace(
        created_by="", reinforced_by="", reinforcements=1, event_time=None
    )


def test_ids_when_in_another_spelling_then_read_in_ours() -> None:
    wire = interaction_to_json(INTERACTION, "s")
    wire["id"] = wire["id"].upper()
    wire["previous_id"] = "{" + B + "}"
    assert interaction_from_json(wire) == INTERACTION


# -- refusals ----------------------------------------------------------------------------------

KINDS: dict[str, tuple[dict[str, Any], Callable[[Any], object]]] = {
    "interaction": (interaction_to_json(INTERACTION, "s"), interaction_from_json),
    "concept": (concept_to_json(CONCEPT, "s"), concept_from_json),
    "edge": (edge_to_json(EDGE, "s"), edge_from_json),
    "transition": (transition_to_json(TRANSITION, "s"), transition_from_json),
}


def check_refused(read: Callable[[Any], object], wire: Any, message: str) -> None:
    with pytest.raises(InvalidSnapshot, match=message):
        read(wire)


@pytest.mark.parametrize("kind", KINDS)
def test_record_when_it_holds_an_unknown_key_then_refused_naming_record_and_key(kind: str) -> None:
    wire, read = KINDS[kind]
    check_refused(read, wire | {"colour": 1}, f"{kind} {A}: unknown key 'colour'")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [None, [], "text", 3])
def test_record_when_no_object_then_refused(kind: str, wrong: Any) -> None:
    check_refused(KINDS[kind][1], wrong, f"{kind} must be an object")


REQUIRED = [
    (kind, name)
    for kind, names in {
        "interaction": ("id", "agent_id", "created_at"),
        "concept": (
            "id", "content", "canonical_key", "concept_type", "origin_interaction",
            "origin_agent", "created_at", "canonization_status",
        ),
        "edge": ("id", "source", "target", "edge_type", "weight", "created_at", "last_reinforced"),
        "transition": ("id", "node_id", "from_status", "to_status", "occurred_at"),
    }.items()
    for name in names
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), REQUIRED)
def test_value_when_required_and_missing_or_of_another_type_then_refused_by_name(
    kind: str, name: str
) -> None:
    wire, read = KINDS[kind]
    check_refused(read, {k: v for k, v in wire.items() if k != name}, f"{name} is missing")
    wrongs: tuple[Any, ...] = (None, [], {}, True)
    for wrong in wrongs:
        check_refused(read, wire | {name: wrong}, f"{name} has the wrong type")


@pytest.mark.parametrize(
    ("kind", "name", "wrong", "message"),
    [
        ("interaction", "id", "alpha", "id is not a UUID"),
        ("interaction", "previous_id", "", "previous_id is not a UUID"),
        (
            "interaction",
            "created_at",
            "2024-02-29T00:00:00",
            "must be an RFC 3339 time with a zone",
        ),
        ("interaction", "created_at", "2023-02-29T00:00:00Z", "not a possible time"),
        ("interaction", "event_time", 17, "event_time has the wrong type"),
        ("interaction", "prompt_text", 17, "prompt_text has the wrong type"),
        ("concept", "concept_type", "entity", "concept_type is unknown: 'entity'"),
        ("concept", "canonization_status", "Saint", "canonization_status is unknown: 'Saint'"),
        ("concept", "access_count", True, "access_count has the wrong type"),
        ("concept", "access_count", 1.0, "access_count has the wrong type"),
        ("concept", "access_count", -1, "access_count must be in 0"),
        ("concept", "gc_survived", COUNTER_MAX + 1, "gc_survived must be in 0"),
        ("concept", "gc_survived", 2**80, "gc_survived must be in 0"),
        ("concept", "blast_radius", -1, "blast_radius must be in 0"),
        ("concept", "embedding", [0.5], "embedding is not supported"),
        ("edge", "edge_type", "dependency", "edge_type is unknown: 'dependency'"),
        ("edge", "weight", "1.0", "weight has the wrong type"),
        ("edge", "reinforcements", -1, "reinforcements must be in 0"),
        ("transition", "to_status", "", "to_status is unknown"),
        ("transition", "blast_radius", 2**63, "blast_radius must be in 0"),
        ("transition", "superseded_by", "x", "superseded_by is not a UUID"),
    ],
)
def test_value_when_impossible_then_refused_by_record_and_name(
    kind: str, name: str, wrong: Any, message: str
) -> None:
    wire, read = KINDS[kind]
    check_refused(read, wire | {name: wrong}, message)


def test_message_when_the_id_is_a_page_of_text_then_is_short() -> None:
    with pytest.raises(InvalidSnapshot) as caught:
        interaction_from_json({"id": "x" * 10_000})
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("weight", [10**400, -(10**400), float("nan"), float("inf")])
def test_weight_when_no_float_can_hold_it_then_the_graph_refuses_it(weight: Any) -> None:
    """A whole number of four hundred digits is legal JSON and used to end in an OverflowError."""
    scribe = Scribe()
    scribe.derive("alpha", "beta")
    wire = snapshot_to_json(take_snapshot(scribe.graph))
    wire["edges"][0]["weight"] = weight
    check_refused(lambda one: load_snapshot(snapshot_from_json(one)), wire, "impossible weight")


@pytest.mark.parametrize("name", ["interactions", "concepts", "edges", "reservations", "synonyms"])
def test_snapshot_when_a_record_is_of_another_session_then_refused(name: str) -> None:
    scribe = Scribe()
    scribe.derive("alpha", "beta")
    scribe.declare_synonym("alias", "alpha")
    scribe.reserve("alpha")
    wire = snapshot_to_json(take_snapshot(scribe.graph))
    wire[name][0]["session_id"] = "another"
    check_refused(snapshot_from_json, wire, f"{name} holds a record of another session")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"session_id": None}, "session_id is missing"),
        ({"session_id": 3}, "session_id is missing"),
        ({"created_at": None}, "created_at has the wrong type"),
        ({"concepts": {}}, "concepts has the wrong type"),
        ({"concepts": [3]}, "concept must be an object"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"synonyms": [{"source_key": "x"}]}, "canonical_key is missing"),
    ],
)
def test_snapshot_when_malformed_then_refused(changes: dict[str, Any], message: str) -> None:
    wire = snapshot_to_json(take_snapshot(Scribe().graph))
    check_refused(snapshot_from_json, wire | changes, message)


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ({"op": "drop_table"}, "unknown op 'drop_table'"),
        ({}, "op is missing"),
        ({"op": "delete_node"}, "id is missing"),
        ({"op": "delete_node", "id": A, "kind": "concept"}, "unknown key 'kind'"),
        ({"op": "upsert_node", "node": {"kind": "edge"}}, "node kind must be"),
        ({"op": "upsert_node", "node": 3}, "node has the wrong type"),
        ({"op": "upsert_edge", "edge": None}, "edge has the wrong type"),
        ({"op": "put_synonym", "source_key": "x"}, "canonical_key is missing"),
        ([], "must be an object"),
    ],
)
def test_mutation_when_malformed_then_refused(wire: Any, message: str) -> None:
    check_refused(mutation_from_json, wire, message)


def test_step_of_a_status_is_refused_as_an_audit_entry() -> None:
    wire = mutation_to_json(PutAudit(ENTRY), "s")
    with pytest.raises(InvalidSnapshot):
        mutation_from_json({**wire, "entry": {**wire["entry"], "kind": "transition"}})
