from __future__ import annotations

import pytest

from graph_writing import Scribe
from memory.engine import changes
from memory.engine.changes import ChangeLog
from memory.engine.mutations import DeleteConcept, DeleteEdge
from memory.engine.types import EdgeType


@pytest.fixture
def watched() -> Scribe:
    scribe = Scribe()
    scribe.derive("one", "two")
    scribe.graph.change_log = ChangeLog()
    return scribe


def take(scribe: Scribe) -> tuple[set[int], set[int], set[int]]:
    assert scribe.graph.change_log is not None
    taken = scribe.graph.change_log.take()
    assert taken is not None
    return taken.concepts, taken.edges, taken.bereft


def test_nothing_is_noted_of_what_was_there_before(watched: Scribe) -> None:
    assert take(watched) == (set(), set(), set())


def test_new_and_reinforced_edges_are_noted_and_a_touched_concept_is_not(watched: Scribe) -> None:
    watched.derive("one", "three")
    graph = watched.graph
    concepts, edges, bereft = take(watched)
    assert concepts == {watched.row("three")}
    kinds = sorted(str(graph.edges.type_at(row)) for row in edges)
    assert kinds == ["CoOccurrence", "Derives", "Derives", "Temporal"]
    assert bereft == set()
    watched.derive("one", "two")
    assert watched.edge("one", "two", EdgeType.CO_OCCURRENCE).reinforcements == 2
    _, edges, _ = take(watched)
    assert len(edges) == 4  # Temporal, two Derives, and the reinforced one


def test_both_ends_of_a_removed_edge_are_noted(watched: Scribe) -> None:
    edge = watched.edge("one", "two", EdgeType.CO_OCCURRENCE)
    watched.graph.apply(DeleteEdge(edge.id))
    assert take(watched) == (set(), set(), {watched.row("one"), watched.row("two")})


def test_a_removed_concept_is_noted_with_those_it_was_joined_to(watched: Scribe) -> None:
    row, other = watched.row("one"), watched.row("two")
    watched.graph.apply(DeleteConcept(watched.id("one")))
    assert take(watched) == ({row}, set(), {row, other})


def test_too_many_changes_are_not_noted_but_said_to_be_lost(
    watched: Scribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "NOTED_MAX", 3)
    log = watched.graph.change_log
    assert log is not None
    watched.derive("three", "four", "five")
    assert log.take() is None
    assert take(watched) == (set(), set(), set())
