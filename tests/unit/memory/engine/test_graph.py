"""The graph's own rules: what `apply` refuses, what it keeps, and graphs of unusual shape."""

from __future__ import annotations

import math

import pytest

from graph_writing import START, Scribe, concept, dependency_snapshot, reopened
from memory.engine.errors import DependencyCycle, InvalidSnapshot
from memory.engine.graph import Graph
from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    Mutation,
    PutConcept,
    PutEdge,
    PutInteraction,
    PutReservation,
    PutSynonym,
    SetRootGoal,
)
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Reservation,
    Status,
    Transition,
)

ABSENT = "ffffffff-0000-4000-8000-000000000000"


def written() -> Scribe:
    scribe = Scribe()
    scribe.derive("alpha", "beta")
    scribe.derive("gamma")
    return scribe


def check_refused(graph: Graph, mutation: Mutation, message: str) -> None:
    before = graph.epoch, take_snapshot(graph)
    with pytest.raises(InvalidSnapshot, match=message):
        graph.apply(mutation)
    assert (graph.epoch, take_snapshot(graph)) == before


def loose_edge(scribe: Scribe, source: str, target: str, edge_type: EdgeType) -> Edge:
    """An edge that no call wrote."""
    return Edge(
        scribe.ids.next_id(), source, target, edge_type, 0.5, 1, START, START, "agent-a", "agent-a"
    )


# -- interactions ------------------------------------------------------------------------------


def test_interaction_when_it_does_not_follow_the_tail_then_refused() -> None:
    scribe = written()
    first, second = scribe.graph.interactions()
    for previous in (None, first.id, ABSENT):
        wrong = second._replace(id=ABSENT, previous_id=previous)
        check_refused(scribe.graph, PutInteraction(wrong), "does not follow the tail")


def test_interaction_when_put_again_then_keeps_its_place_or_is_refused() -> None:
    scribe = written()
    first, second = scribe.graph.interactions()
    scribe.graph.apply(PutInteraction(first._replace(prompt_text=None)))
    assert scribe.graph.interactions() == (first._replace(prompt_text=None), second)
    moved = second._replace(previous_id=None)
    check_refused(scribe.graph, PutInteraction(moved), "may not move in the chain")


def test_node_when_its_id_is_of_the_other_kind_then_refused() -> None:
    scribe = written()
    tail = scribe.graph.tail
    assert tail is not None
    interaction = Interaction(scribe.id("alpha"), "agent-a", None, tail.id, START)
    check_refused(scribe.graph, PutInteraction(interaction), "has the id of a concept")
    node = scribe.held("alpha")._replace(id=tail.id, canonical_key="new")
    check_refused(scribe.graph, PutConcept(node), "has the id of an interaction")


def test_interactions_when_asked_for_the_newest_then_come_newest_first() -> None:
    scribe = written()
    first, second = scribe.graph.interactions()
    assert scribe.graph.newest_interactions(1) == [second]
    assert scribe.graph.newest_interactions(5) == [second, first]
    assert scribe.graph.newest_interactions(0) == []
    assert scribe.graph.rows_originating(first.id) == [scribe.row("alpha"), scribe.row("beta")]
    assert scribe.graph.rows_originating(ABSENT) == []


# -- concepts ----------------------------------------------------------------------------------


def test_concept_when_its_origin_is_unknown_then_refused() -> None:
    scribe = written()
    node = Concept(ABSENT, "new", "new", ConceptType.ENTITY, ABSENT, "agent-a", START)
    check_refused(scribe.graph, PutConcept(node), "has no origin interaction")


def test_concept_when_its_key_is_taken_then_refused_unless_an_observation() -> None:
    scribe = written()
    twin = scribe.held("alpha")._replace(id=ABSENT)
    check_refused(scribe.graph, PutConcept(twin), "two concepts have the key 'alpha'")
    scribe.graph.apply(PutConcept(twin._replace(concept_type=ConceptType.OBSERVATION)))
    assert scribe.graph.find_by_key("alpha") == scribe.row("alpha")
    assert scribe.graph.observation_rows("alpha") == [scribe.graph.row_of(ABSENT)]


def test_concept_when_put_again_then_only_its_counters_change() -> None:
    scribe = written()
    held = scribe.held("alpha")
    other = held._replace(
        content="other", canonical_key="other", concept_type=ConceptType.LOGIC, created_at=1,
        origin_agent="x", status=Status.CANONICAL, blast_radius=9, last_demotion_time=9,
        chunk_group_id="x", access_count=3, last_accessed=4, gc_survived=5,
    )  # fmt: skip
    scribe.graph.apply(PutConcept(other))
    assert scribe.held("alpha") == held._replace(access_count=3, last_accessed=4, gc_survived=5)


def test_concept_when_deleted_then_its_row_serves_the_next_one_afresh() -> None:
    scribe = written()
    scribe.derive(concept("delta", against=["alpha"]), event_time=1)
    row = scribe.row("delta")
    scribe.retract("delta")
    (made,) = scribe.act("write").created
    assert scribe.graph.row_of(made) == row
    held = scribe.graph.concept(made)
    assert held is not None
    assert (held.content, held.status, held.gc_survived) == ("write", Status.NONE, 0)
    assert [edge.edge_type for edge in scribe.graph.in_edges(made)] == [EdgeType.DERIVES]
    assert take_snapshot(reopened(scribe.graph)) == take_snapshot(scribe.graph)


# -- edges -------------------------------------------------------------------------------------


def test_edge_when_an_end_is_absent_or_of_the_wrong_kind_then_refused() -> None:
    scribe = written()
    alpha, moment = scribe.id("alpha"), scribe.graph.interactions()[0].id
    wrong = [(ABSENT, alpha, EdgeType.CAUSAL), (alpha, ABSENT, EdgeType.CAUSAL)]
    wrong += [(moment, alpha, kind) for kind in EdgeType if kind is not EdgeType.DERIVES]
    wrong += [(alpha, moment, kind) for kind in EdgeType]
    wrong += [(moment, moment, kind) for kind in EdgeType if kind is not EdgeType.TEMPORAL]
    wrong += [(alpha, alpha, kind) for kind in (EdgeType.TEMPORAL, EdgeType.DERIVES)]
    for source, target, kind in wrong:
        edge = loose_edge(scribe, source, target, kind)
        check_refused(scribe.graph, PutEdge(edge), "has an end that does not exist")


def test_edge_when_its_id_or_natural_key_belongs_to_another_then_refused() -> None:
    scribe = written()
    edge = scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE)
    other_id, other_key = edge._replace(id=ABSENT), edge._replace(edge_type=EdgeType.CAUSAL)
    for wrong in (other_id, other_key):
        check_refused(scribe.graph, PutEdge(wrong), "belongs to another natural key")


def test_weight_when_negative_then_refused_and_when_not_finite_then_zero() -> None:
    scribe = written()
    edge = scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE)
    for weight in (-0.1, -math.inf):
        check_refused(scribe.graph, PutEdge(edge._replace(weight=weight)), "negative weight")
    for weight in (math.nan, math.inf):
        scribe.graph.apply(PutEdge(edge._replace(weight=weight)))
        assert scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE).weight == 0.0
    fresh = loose_edge(scribe, edge.source, edge.target, EdgeType.SEMANTIC)
    scribe.graph.apply(PutEdge(fresh._replace(weight=math.nan)))
    assert scribe.edge("alpha", "beta", EdgeType.SEMANTIC).weight == 0.0


def test_edges_when_asked_by_node_then_split_by_direction_for_both_kinds() -> None:
    scribe = written()
    first, second = scribe.graph.interactions()
    out = {(edge.edge_type, edge.target) for edge in scribe.graph.out_edges(second.id)}
    assert out == {(EdgeType.TEMPORAL, first.id), (EdgeType.DERIVES, scribe.id("gamma"))}
    assert [edge.source for edge in scribe.graph.in_edges(first.id)] == [second.id]
    beta = scribe.id("beta")
    assert {edge.source for edge in scribe.graph.in_edges(beta)} == {first.id, scribe.id("alpha")}
    assert scribe.graph.out_edges(beta) == []
    assert scribe.graph.out_edges(ABSENT) == scribe.graph.in_edges(ABSENT) == []
    assert scribe.graph.edge(ABSENT) is None
    for edge in scribe.graph.all_edges():
        assert scribe.graph.edge(edge.id) == edge


# -- removal, transitions, the rest ------------------------------------------------------------


def test_deletions_when_nothing_is_there_then_change_nothing() -> None:
    scribe = written()
    before = take_snapshot(scribe.graph)
    for mutation in (DeleteConcept(ABSENT), DeleteEdge(ABSENT), DeleteReservation(ABSENT)):
        scribe.graph.apply(mutation)
    assert take_snapshot(scribe.graph) == before


def test_concept_when_deleted_with_edges_on_it_then_takes_them_along() -> None:
    scribe = written()
    scribe.reserve("alpha")
    scribe.graph.apply(DeleteConcept(scribe.id("alpha")))
    assert scribe.graph.edge_count == 3  # one Temporal, two Derives
    assert scribe.graph.reservations() == []
    assert scribe.graph.rows_originating(scribe.graph.interactions()[0].id) == [scribe.row("beta")]


LEGAL = {
    (Status.NONE, Status.CANDIDATE),
    (Status.NONE, Status.VENERABLE),
    (Status.CANDIDATE, Status.VENERABLE),
    (Status.VENERABLE, Status.CANONICAL),
    (Status.CANONICAL, Status.NONE),
}


@pytest.mark.parametrize("before", Status)
@pytest.mark.parametrize("after", Status)
def test_transition_when_the_step_is_none_of_five_then_refused(
    before: Status, after: Status
) -> None:
    scribe = written()
    snapshot = take_snapshot(scribe.graph)
    alpha = scribe.held("alpha")._replace(status=before)
    others = [one for one in snapshot.concepts if one.id != alpha.id]
    graph = load_snapshot(snapshot._replace(concepts=tuple(sorted([alpha, *others]))))
    step = Transition(ABSENT, alpha.id, before, after, 4, 77, START, "test")
    if (before, after) in LEGAL:
        graph.apply(ApplyTransition(step))
        held = graph.concept(alpha.id)
        assert held is not None
        assert (held.status, held.blast_radius, held.last_demotion_time) == (after, 4, 77)
    else:
        check_refused(graph, ApplyTransition(step), "no transition leads from")


def test_transition_when_applied_then_an_absent_demotion_time_keeps_the_old_one() -> None:
    scribe = written()
    alpha = scribe.id("alpha")

    def step(number: int, before: Status, after: Status, demoted: int | None) -> None:
        row = Transition(
            f"{number:08x}{ABSENT[8:]}", alpha, before, after, None, demoted, START, "test"
        )
        scribe.graph.apply(ApplyTransition(row))

    step(1, Status.NONE, Status.CANDIDATE, 5)
    step(2, Status.CANDIDATE, Status.VENERABLE, None)
    held = scribe.held("alpha")
    assert (held.blast_radius, held.last_demotion_time) == (None, 5)


def test_transition_when_it_starts_elsewhere_or_nowhere_then_refused() -> None:
    scribe = written()
    alpha = scribe.id("alpha")
    step = Transition(ABSENT, alpha, Status.CANDIDATE, Status.VENERABLE, None, None, START, "test")
    check_refused(scribe.graph, ApplyTransition(step), "does not start at the status held")
    check_refused(
        scribe.graph, ApplyTransition(step._replace(node_id=ABSENT)), "of unknown concept"
    )


def test_transition_when_applied_twice_then_counts_once() -> None:
    scribe = written()
    step = Transition(
        ABSENT, scribe.id("alpha"), Status.NONE, Status.CANDIDATE, None, None, START, "test"
    )
    scribe.graph.apply(ApplyTransition(step))
    scribe.graph.apply(ApplyTransition(step))
    assert list(scribe.graph.transitions.values()) == [step]
    assert scribe.held("alpha").status is Status.CANDIDATE


def test_reservation_when_the_node_is_unknown_then_refused() -> None:
    scribe = written()
    check_refused(
        scribe.graph, PutReservation(Reservation(ABSENT, "agent-a", 1)), "of unknown node"
    )


def test_epoch_when_mutations_are_applied_then_grows_by_one_for_each() -> None:
    graph = Graph("session", 0)
    assert graph.epoch == 0
    graph.apply_all([SetRootGoal("x"), PutSynonym("a", "b"), DeleteEdge(ABSENT)])
    assert graph.epoch == 3


def test_epoch_when_loaded_then_starts_at_zero() -> None:
    assert reopened(written().graph).epoch == 0


def test_logical_time_when_asked_then_is_that_of_the_newest_record_or_of_the_session() -> None:
    assert Graph("session", 5).logical_time == 5
    scribe = written()
    assert scribe.graph.logical_time == START + 1_000_000
    scribe.retract("gamma")
    assert scribe.graph.logical_time == START + 1_000_000


# -- dependents --------------------------------------------------------------------------------


def test_dependents_when_a_pair_is_joined_in_two_ways_then_counts_once() -> None:
    scribe = Scribe()
    scribe.derive("base", parent_of=[("base", "leaf")])
    row = scribe.row("base")
    scribe.derive(concept("leaf", depends_on=["base"]))
    assert scribe.graph.dependents(row) == [scribe.row("leaf")]
    assert scribe.graph.blast_radius(row) == 1
    again = reopened(scribe.graph)
    assert again.blast_radius(again.row_of(scribe.id("base")) or 0) == 1
    # One of the two goes: the other still holds it up.
    scribe.graph.apply(DeleteEdge(scribe.edge("base", "leaf", EdgeType.HIERARCHICAL).id))
    assert scribe.graph.blast_radius(row) == len(scribe.graph.dependents(row)) == 1
    scribe.graph.apply(DeleteEdge(scribe.edge("leaf", "base", EdgeType.DEPENDENCY).id))
    assert scribe.graph.blast_radius(row) == len(scribe.graph.dependents(row)) == 0


def test_dependents_when_what_it_uses_then_is_not_counted() -> None:
    scribe = Scribe()
    scribe.derive("base", "child")
    scribe.act("top", depends_on=["base"], produces=["out"])
    scribe.derive("x", parent_of=[("base", "child")])
    rows = {text: scribe.row(text) for text in scribe.contents()}
    assert {text: scribe.graph.blast_radius(row) for text, row in rows.items()} == {
        "base": 2, "child": 0, "out": 0, "top": 0, "x": 0,
    }  # fmt: skip


def test_dependents_when_a_concept_rests_on_itself_then_it_is_left_out() -> None:
    """No public call writes such an edge; a session from elsewhere may hold one."""
    graph = load_snapshot(dependency_snapshot(2, [(0, 0), (1, 0)]))
    row = graph.find_by_key("0 node")
    assert row is not None
    assert (graph.blast_radius(row), len(graph.dependents(row))) == (1, 1)
    assert int(graph.concepts["degree"][row]) == 3  # Derives, itself, the other


@pytest.mark.parametrize("edge_type", [EdgeType.DEPENDENCY, EdgeType.HIERARCHICAL])
def test_dependents_when_a_self_edge_is_put_and_deleted_then_the_counters_stand(
    edge_type: EdgeType,
) -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    names = ("degree", "bonus_milli", "dependents")
    row = scribe.row("alpha")
    before = [int(scribe.graph.concepts[name][row]) for name in names]
    edge = loose_edge(scribe, scribe.id("alpha"), scribe.id("alpha"), edge_type)
    scribe.graph.apply(PutEdge(edge))
    assert scribe.graph.blast_radius(row) == 0
    assert int(scribe.graph.concepts["degree"][row]) == before[0] + 1
    scribe.graph.apply(DeleteEdge(edge.id))
    assert [int(scribe.graph.concepts[name][row]) for name in names] == before


# -- large shapes ------------------------------------------------------------------------------


@pytest.mark.slow
def test_ring_of_ten_thousand_when_walked_then_ends_and_counts_each_once() -> None:
    size = 10_000
    scribe = Scribe(
        load_snapshot(dependency_snapshot(size, [(n, (n + 1) % size) for n in range(size)]))
    )
    row = scribe.graph.find_by_key("0 node")
    assert row is not None
    assert scribe.graph.blast_radius(row) == len(scribe.graph.dependents(row)) == 1
    scribe.derive("outside")
    assert scribe.act("outside", depends_on=["node 0"]).edges == 1
    with pytest.raises(DependencyCycle):
        scribe.act("node 0", depends_on=["node 5000"])
    result = scribe.retract("node 0")
    assert (result.blast_radius, result.incident_edges) == (2, 4)
    # The ring is open now: the walk from node 1 ends at node 9999 and no longer comes back.
    assert scribe.act("node 1", depends_on=["brand new"]).edges == 1
    with pytest.raises(DependencyCycle):
        scribe.act("node 9999", depends_on=["node 1"])


@pytest.mark.slow
def test_chain_of_fifty_thousand_when_walked_then_the_far_end_is_found() -> None:
    size = 50_000
    scribe = Scribe(load_snapshot(dependency_snapshot(size, [(n, n + 1) for n in range(size - 1)])))
    with pytest.raises(DependencyCycle):
        scribe.act("node 49999", depends_on=["node 0"])
    assert scribe.act("node 0", depends_on=["node 49999"]).edges == 1
    row = scribe.graph.find_by_key("49999 node")
    assert row is not None
    assert scribe.graph.blast_radius(row) == len(scribe.graph.dependents(row)) == 2


@pytest.mark.slow
def test_hub_of_twenty_thousand_when_counted_and_removed_then_each_dependent_counts_once() -> None:
    size = 20_000
    scribe = Scribe(
        load_snapshot(dependency_snapshot(size + 1, [(n, 0) for n in range(1, size + 1)]))
    )
    row = scribe.graph.find_by_key("0 node")
    assert row is not None
    dependents = scribe.graph.dependents(row)
    assert scribe.graph.blast_radius(row) == len(dependents) == len(set(dependents)) == size
    with pytest.raises(DependencyCycle):
        scribe.act("node 0", depends_on=["node 20000"])
    result = scribe.retract("node 0")
    assert (result.blast_radius, result.incident_edges) == (size, size + 1)
    assert len(scribe.last) == 2  # the concept, its edges with it, and the audit row
    assert scribe.graph.edge_count == scribe.graph.concept_count == size


def test_two_cycle_when_written_by_citations_then_can_be_closed_and_opened() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.derive(concept("beta", depends_on=["alpha"]))
    scribe.derive(concept("alpha", depends_on=["beta"]))
    again = reopened(scribe.graph)
    assert take_snapshot(again) == take_snapshot(scribe.graph)
    for text in ("alpha", "beta"):
        row = again.find_by_key(text)
        assert row is not None
        assert again.blast_radius(row) == 1
