"""What the rules of importance say of contradictions, in the form recall asks for."""

from __future__ import annotations

from itertools import pairwise

from lambo_site.shown_beliefs import ShownBeliefs
from memory.engine.mutations import ApplyTransition
from memory.engine.times import SECOND
from memory.engine.types import EdgeType, NodeId, Status, Transition
from recall_graphs import START, GraphWriter, numbered_id

LATER = START + 3_600 * SECOND


def contradict(writer: GraphWriter, by: NodeId, target: NodeId, *, seconds: int) -> None:
    writer.edge(by, target, EdgeType.CONTRADICTS)
    edge = writer.graph.edge_between(by, target, EdgeType.CONTRADICTS)
    assert edge is not None
    row = writer.graph.edges.row_by_id[edge.id]
    writer.graph.edges["created_at"][row] = START + seconds * SECOND


def test_a_contradiction_stands_until_newer_evidence_of_others_answers_it() -> None:
    writer = GraphWriter()
    writer.interact("ann")
    old = writer.concept("nine")
    writer.interact("bob")
    new = writer.concept("ten")
    contradict(writer, new, old, seconds=60)
    shown = ShownBeliefs(writer.graph, LATER, 60 * SECOND)
    assert shown.contradictors([writer.row(old), writer.row(new)]) == {
        writer.row(old): writer.row(new)
    }


def demoted(reason: str | None, *, by: NodeId | None) -> tuple[GraphWriter, int]:
    writer = GraphWriter()
    writer.interact("ann")
    old = writer.concept("nine", status=Status.CANONICAL)
    transition = Transition(
        id=numbered_id(700_000),
        node_id=old,
        from_status=Status.CANONICAL,
        to_status=Status.NONE,
        occurred_at=START + 5,
        actor="canon",
        blast_radius=None,
        last_demotion_time=START + 5,
        reason=reason,
        superseded_by=by,
    )
    writer.graph.apply(ApplyTransition(transition))
    return writer, writer.row(old)


def test_only_a_loss_to_a_successor_is_a_supersession() -> None:
    writer, row = demoted("Superseded", by=numbered_id(9))
    assert ShownBeliefs(writer.graph, LATER, 0).superseded_at(row) == START + 5
    writer, row = demoted("Budget", by=None)
    assert ShownBeliefs(writer.graph, LATER, 0).superseded_at(row) is None


def test_a_status_won_back_ends_it() -> None:
    writer, row = demoted("Superseded", by=numbered_id(9))
    (transition,) = writer.graph.transitions.values()
    climb = (Status.NONE, Status.CANDIDATE, Status.VENERABLE, Status.CANONICAL)
    for number, (earlier, later) in enumerate(pairwise(climb), 1):
        step = transition._replace(
            id=numbered_id(700_000 + number),
            from_status=earlier,
            to_status=later,
            reason=None,
            superseded_by=None,
        )
        writer.graph.apply(ApplyTransition(step))
    assert ShownBeliefs(writer.graph, LATER, 0).superseded_at(row) is None
