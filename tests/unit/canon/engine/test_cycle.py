from __future__ import annotations

import pytest

from canon.engine.cycle import CycleSettings, CycleState, run_cycle
from canon.engine.hot_list import Condition
from graph_writing import Scribe, concept, reopened
from memory.engine import changes
from memory.engine.mutations import DeleteConcept, DeleteEdge
from memory.engine.times import SECOND
from memory.engine.types import EdgeType, NodeId


def test_scores_are_made_anew_only_when_something_changed() -> None:
    scribe = Scribe()
    scribe.derive("one")
    state = CycleState(scribe.graph)
    first = run_cycle(state, scribe.graph, scribe.now)
    assert not first.is_rescored  # the state was made with scores
    scribe.derive("two")
    second = run_cycle(state, scribe.graph, scribe.now)
    assert second.is_rescored
    assert second.scores.epoch == scribe.graph.epoch
    third = run_cycle(state, scribe.graph, scribe.now + SECOND)
    assert not third.is_rescored
    assert third.scores is second.scores


def test_what_a_write_touched_has_a_score_before_the_next_round() -> None:
    scribe = Scribe()
    scribe.derive("one")
    state = CycleState(scribe.graph)
    scribe.derive(concept("two", depends_on=["one"]))
    state.score_written(scribe.graph, scribe.last)
    assert state.table.scores[scribe.row("two")] > 0
    assert state.table.epoch != scribe.graph.epoch


def test_a_state_follows_one_graph_alone() -> None:
    scribe = Scribe()
    scribe.derive("one")
    state = CycleState(scribe.graph)
    with pytest.raises(AssertionError):
        run_cycle(state, reopened(scribe.graph), scribe.now)


@pytest.fixture
def shared() -> Scribe:
    scribe = Scribe()
    scribe.derive("schema")
    scribe.agent_id = "agent-b"
    scribe.act("build", depends_on=["schema"])
    return scribe


def test_a_reader_sees_the_present_and_not_the_last_round(shared: Scribe) -> None:
    state = CycleState(shared.graph)
    run_cycle(state, shared.graph, shared.now)
    node = shared.id("schema")
    shared.now += 9 * SECOND
    shared.agent_id = "agent-a"
    shared.act("repair", depends_on=["schema"])
    (hit,) = state.view(shared.graph, shared.now).entries(node)
    assert (hit.writer, hit.age_seconds(shared.now)) == ("agent-a", 1)
    for name in ("build", "repair"):
        edge = shared.edge(name, "schema", EdgeType.DEPENDENCY)
        shared.graph.apply(DeleteEdge(edge.id))
    assert state.view(shared.graph, shared.now).entries(node) == ()


def test_a_removed_concept_has_no_entries(shared: Scribe) -> None:
    state = CycleState(shared.graph)
    run_cycle(state, shared.graph, shared.now)
    node = shared.id("schema")
    shared.graph.apply(DeleteConcept(node))
    assert state.view(shared.graph, shared.now).entries(node) == ()


def test_a_conflict_is_announced_once_and_again_when_it_came_back(shared: Scribe) -> None:
    state = CycleState(shared.graph)

    def announced() -> list[NodeId]:
        return [one.node_id for one in run_cycle(state, shared.graph, shared.now).announcements]

    assert announced() == [shared.id("schema")]
    assert announced() == []
    shared.now += 40 * SECOND
    assert announced() == []
    shared.act("build", depends_on=["schema"])
    assert announced() == [shared.id("schema")]


def test_too_many_changes_to_note_are_found_all_the_same(
    shared: Scribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "NOTED_MAX", 5)
    state = CycleState(shared.graph)
    run_cycle(state, shared.graph, shared.now)
    shared.agent_id = "agent-a"
    shared.act("build", depends_on=["schema"], produces=["one", "two", "three"])
    shared.set_goal("three")
    found = run_cycle(state, shared.graph, shared.now)
    fresh = run_cycle(CycleState(shared.graph), shared.graph, shared.now)
    assert found.hot_list.hits == fresh.hot_list.hits
    assert shared.id("build") in found.hot_list.by_node


def test_a_contradiction_stands_until_it_is_answered() -> None:
    scribe = Scribe()
    scribe.derive("claim")
    scribe.agent_id = "agent-b"
    scribe.derive(concept("no claim", against=["claim"]))
    state = CycleState(scribe.graph)
    (hit,) = run_cycle(state, scribe.graph, scribe.now).hot_list.findings[Condition.CONTRADICTION]
    assert (hit.node_id, hit.by, hit.writer) == (
        scribe.id("claim"),
        scribe.id("no claim"),
        "agent-b",
    )
    scribe.agent_id = "agent-c"
    scribe.now += 10 * SECOND
    scribe.derive(concept("because of it", depends_on=["claim"]))
    assert state.view(scribe.graph, scribe.now).entries(scribe.id("claim"))
    scribe.now += 60 * SECOND
    view = state.view(scribe.graph, scribe.now)
    assert [one.condition for one in view.entries(scribe.id("claim"))] == []


def test_contradictions_keep_to_their_budget_and_leave_room_for_conflicts() -> None:
    scribe = Scribe()
    for number in range(4):
        scribe.derive(f"claim {number}")
        scribe.derive(concept(f"objection {number}", against=[f"claim {number}"]))
    scribe.agent_id = "agent-b"
    scribe.act("build", depends_on=["claim 0"])
    settings = CycleSettings(hot_list_max=4)
    state = CycleState(scribe.graph, settings)
    found = run_cycle(state, scribe.graph, scribe.now).hot_list
    assert [(hit.condition, hit.node_id) for hit in found.hits] == [
        (Condition.CONFLICT, scribe.id("claim 0")),
        (Condition.CONTRADICTION, scribe.id("claim 3")),
        (Condition.CONTRADICTION, scribe.id("claim 2")),
    ]


def test_an_unchanged_hot_list_is_kept() -> None:
    scribe = Scribe()
    scribe.derive("the goal", "far")
    scribe.set_goal("the goal")
    state = CycleState(scribe.graph)
    first = run_cycle(state, scribe.graph, scribe.now)
    assert first.hot_list.hits
    assert run_cycle(state, scribe.graph, scribe.now + SECOND).hot_list is first.hot_list
