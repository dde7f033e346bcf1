from __future__ import annotations

import json
from random import Random

import pytest

from canon.engine.cycle import CycleState, run_cycle
from canon.engine.drift import DriftField, DriftFinder
from canon.engine.hot_list import NO_PATH_HOPS, Condition, Hit
from graph_writing import Scribe, concept
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteConcept, DeleteEdge, SetRootGoal
from memory.engine.snapshot import load_snapshot
from memory.engine.times import parse_rfc3339
from memory.engine.types import EdgeType
from memory.engine.wire import snapshot_from_json
from recall_graphs import GraphWriter, numbered_id
from reference_detectors import plain_hops
from shared_data import shared_file


def drifted(graph: Graph) -> dict[str, Hit]:
    """What a new state finds, by content."""
    state = CycleState(graph)
    hits = run_cycle(state, graph, graph.logical_time).hot_list.findings[Condition.DRIFT]
    contents = {graph.id_at(row): graph.content_at(row) for row in graph.concept_rows()}
    return {contents[hit.node_id]: hit for hit in hits}


def path(length: int) -> Scribe:
    """A goal and a path of so many concepts that leads away from it."""
    scribe = Scribe()
    scribe.derive("the goal")
    for number in range(1, length + 1):
        nearer = "the goal" if number == 1 else f"step {number - 1}"
        scribe.derive(concept(f"step {number}", depends_on=[nearer]))
    scribe.set_goal("the goal")
    return scribe


def test_shared_session_has_exactly_three_drifted_concepts() -> None:
    text = shared_file("fixtures/lambo/session-drift.json").read_text(encoding="utf-8")
    graph = load_snapshot(snapshot_from_json(json.loads(text)))
    found = drifted(graph)
    assert {content: hit.hops for content, hit in found.items()} == {
        "far budget concept": 6,
        "isolated widget": NO_PATH_HOPS,
        "isolated sibling": NO_PATH_HOPS,
    }
    goal = graph.find_by_content("launch the product")
    assert goal is not None
    assert found["far budget concept"].goal == graph.id_at(goal)
    assert found["isolated widget"].goal is None
    assert found["isolated widget"].named_goal == graph.id_at(goal)
    at = parse_rfc3339("at", "2026-08-11T09:00:00Z")
    result = run_cycle(CycleState(graph), graph, at)
    assert [one.condition for one in result.announcements] == [Condition.DRIFT] * 3


def test_five_hops_are_near_and_six_are_far() -> None:
    scribe = path(7)
    assert {content: hit.hops for content, hit in drifted(scribe.graph).items()} == {
        "step 6": 6,
        "step 7": 7,
    }


def test_without_a_goal_that_is_written_nothing_drifts() -> None:
    scribe = Scribe()
    scribe.derive("one", "two")
    assert drifted(scribe.graph) == {}
    scribe.set_goal("nobody wrote this")
    assert drifted(scribe.graph) == {}


def test_direction_does_not_matter_and_words_alone_do_not_join() -> None:
    scribe = Scribe()
    scribe.derive("the goal", "same call")
    scribe.derive("parent", parent_of=[("parent", "the goal")])
    scribe.act("action", produces=["parent"])
    scribe.derive(concept("critic", against=["the goal"]))
    scribe.set_goal("the goal")
    assert set(drifted(scribe.graph)) == {"same call", "critic"}


def test_a_new_edge_brings_near_what_hangs_on_it() -> None:
    scribe = path(8)
    state = CycleState(scribe.graph)
    run_cycle(state, scribe.graph, scribe.now)
    scribe.act("step 5", depends_on=["the goal"])
    state.catch_up(scribe.graph, scribe.now)
    assert [state.field.hops_at(scribe.row(f"step {n}")) for n in range(1, 9)] == [
        1, 2, 3, 2, 1, 2, 3, 4,
    ]  # fmt: skip


def test_a_removed_edge_sends_away_what_hung_on_it_alone() -> None:
    scribe = path(3)
    scribe.derive(concept("bridge", depends_on=["step 3", "step 1"]))
    state = CycleState(scribe.graph)
    scribe.graph.apply(DeleteEdge(scribe.edge("step 2", "step 1", EdgeType.DEPENDENCY).id))
    state.catch_up(scribe.graph, scribe.now)
    found = [state.field.hops_at(scribe.row(name)) for name in ("step 2", "step 3", "bridge")]
    assert found == [4, 3, 2]
    scribe.graph.apply(DeleteEdge(scribe.edge("bridge", "step 1", EdgeType.DEPENDENCY).id))
    state.catch_up(scribe.graph, scribe.now)
    found = [state.field.hops_at(scribe.row(name)) for name in ("step 2", "step 3", "bridge")]
    assert found == [NO_PATH_HOPS] * 3


def test_a_ring_cut_off_from_the_goal_does_not_hold_itself_up() -> None:
    """Neighbours that only vouch for each other once counted down from a distance long gone."""
    scribe = path(1)
    names = [f"ring {number}" for number in range(6)]
    for before, name in zip([names[-1], *names], names, strict=False):
        scribe.act(name, depends_on=[before] if scribe.graph.find_by_content(before) else [])
    scribe.act(names[0], depends_on=["step 1"])
    scribe.act(names[-1], produces=[names[0]])
    state = CycleState(scribe.graph)
    state.catch_up(scribe.graph, scribe.now)
    assert state.field.hops_at(scribe.row(names[3])) == 5
    scribe.graph.apply(DeleteEdge(scribe.edge(names[0], "step 1", EdgeType.DEPENDENCY).id))
    state.catch_up(scribe.graph, scribe.now)
    assert {state.field.hops_at(scribe.row(name)) for name in names} == {NO_PATH_HOPS}


def test_another_goal_moves_all_distances() -> None:
    scribe = path(7)
    state = CycleState(scribe.graph)
    run_cycle(state, scribe.graph, scribe.now)
    scribe.graph.apply(SetRootGoal(["step 7"]))
    result = run_cycle(state, scribe.graph, scribe.now)
    hits = result.hot_list.findings[Condition.DRIFT]
    assert {hit.node_id: hit.hops for hit in hits} == {
        scribe.id("the goal"): 7,
        scribe.id("step 1"): 6,
    }
    scribe.graph.apply(SetRootGoal(None))
    result = run_cycle(state, scribe.graph, scribe.now)
    assert not result.hot_list.findings[Condition.DRIFT]


def test_of_several_goals_the_nearest_is_named() -> None:
    scribe = path(7)
    scribe.graph.apply(SetRootGoal(["the goal", "elsewhere"]))
    scribe.derive("elsewhere")
    state = CycleState(scribe.graph)
    hits = run_cycle(state, scribe.graph, scribe.now).hot_list.findings[Condition.DRIFT]
    assert {hit.goal for hit in hits} == {scribe.id("the goal")}
    scribe.graph.apply(SetRootGoal(["elsewhere"]))
    hits = run_cycle(state, scribe.graph, scribe.now).hot_list.findings[Condition.DRIFT]
    assert len(hits) == 8
    assert {(hit.goal, hit.named_goal) for hit in hits} == {(None, scribe.id("elsewhere"))}


def test_a_goal_written_later_and_removed_again_is_noticed() -> None:
    scribe = Scribe()
    scribe.derive("one")
    scribe.set_goal("the goal")
    state = CycleState(scribe.graph)
    assert state.field.goals == frozenset()
    scribe.derive("the goal")
    state.catch_up(scribe.graph, scribe.now)
    assert state.field.goals == {scribe.row("the goal")}
    assert state.field.hops_at(scribe.row("one")) == NO_PATH_HOPS
    scribe.graph.apply(DeleteConcept(scribe.id("the goal")))
    scribe.derive("something else")  # takes the row of the goal
    state.catch_up(scribe.graph, scribe.now)
    assert state.field.goals == frozenset()
    assert state.field.hops_at(scribe.row("something else")) == NO_PATH_HOPS


def test_a_goal_without_edges_leaves_no_distance_to_who_takes_its_row() -> None:
    writer = GraphWriter()
    writer.interact()
    goal = writer.concept("the goal")
    writer.graph.apply_all(DeleteEdge(edge.id) for edge in writer.graph.in_edges(goal))
    writer.graph.apply(SetRootGoal(["the goal"]))
    state = CycleState(writer.graph)
    row = writer.row(goal)
    assert state.field.hops_at(row) == 0
    writer.graph.apply(DeleteConcept(goal))
    assert writer.row(writer.concept("another", number=9)) == row
    state.catch_up(writer.graph, writer.graph.logical_time)
    assert state.field.hops_at(row) == NO_PATH_HOPS


def test_while_distances_are_repaired_what_was_found_stands() -> None:
    scribe = path(8)
    field = DriftField(scribe.graph)
    field.settle(scribe.graph, ends_max=None)
    finder = DriftFinder(field)
    before = finder.find(scribe.graph)
    assert len(before) == 3
    field.follow(scribe.graph, None)  # all is to be done again
    field.settle(scribe.graph, ends_max=1)
    assert not field.is_settled
    scribe.graph.apply(DeleteConcept(scribe.id("step 8")))
    assert finder.find(scribe.graph) == before[1:]


def test_when_there_are_too_many_the_youngest_are_found() -> None:
    scribe = Scribe()
    scribe.derive("the goal")
    names = [f"far {number}" for number in range(10)]
    for name in names:
        scribe.derive(name)
    scribe.set_goal("the goal")
    field = DriftField(scribe.graph)
    field.settle(scribe.graph, ends_max=None)
    hits = DriftFinder(field).find(scribe.graph, 3)
    assert [hit.node_id for hit in hits] == [scribe.id(name) for name in reversed(names[-3:])]


@pytest.mark.parametrize("seed", range(5))
def test_a_large_tangle_is_measured_right_after_many_removals(seed: int) -> None:
    random = Random(seed)
    writer = GraphWriter()
    writer.interact()
    nodes = [writer.concept(f"node {number}") for number in range(300)]
    for number in range(1, 300):
        for _ in range(random.choice((1, 1, 2))):
            near = nodes[max(0, number - random.choice((1, 1, 2, 9)))]
            if writer.graph.edge_between(nodes[number], near, EdgeType.DEPENDENCY) is None:
                writer.depend(nodes[number], near)
    graph = writer.graph
    graph.apply(SetRootGoal(["node 0"]))
    state = CycleState(graph)
    edges = [edge.id for edge in graph.all_edges() if edge.edge_type is EdgeType.DEPENDENCY]
    random.shuffle(edges)
    while edges:
        for _ in range(random.randrange(1, 30)):
            if edges:
                graph.apply(DeleteEdge(edges.pop()))
        state.catch_up(graph, graph.logical_time, ends_max=random.choice((1, 50, None)))
        if state.field.is_settled:
            found = {graph.id_at(row): state.field.hops_at(row) for row in graph.concept_rows()}
            assert found == plain_hops(graph, [numbered_id(1)])
