"""The two-agent scenario read with the daemon's scores and warnings: what agent B is told."""

from __future__ import annotations

import uuid
from itertools import pairwise

import pytest

from canon.engine.cycle import CycleResult, CycleState, run_cycle
from canon.engine.hot_list import NO_PATH_HOPS, Condition, Hit, HotList, HotView
from lambo_site.hot_entries import ShownHotList
from memory.engine.actions import plan_action
from memory.engine.config import FusionKind
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.graph import Graph
from memory.engine.mutations import ApplyTransition
from memory.engine.requests import DeriveRequest, RecallRequest
from memory.engine.times import SECOND
from memory.engine.types import NodeId, Status, Transition
from memory.testing import SequentialIds
from recall.engine.hot_list import HotCondition
from recall.engine.pipeline import recall
from recall.engine.results import RecallResult
from recall.engine.settings import FusionSettings, RecallSettings
from recall_graphs import numbered_id
from rest_api_scenario import SCENARIO

NOW = 11 * SECOND
STEPS_UP = (Status.NONE, Status.CANDIDATE, Status.VENERABLE, Status.CANONICAL)


def played() -> Graph:
    """The scenario on its script clock, with the one canonical concept it ends with."""
    graph, ids = Graph("demo", 0), SequentialIds()
    for place, (agent_id, request) in enumerate(SCENARIO):
        stamp = Stamp(agent_id, place * 10_000, ids)
        if isinstance(request, DeriveRequest):
            graph.apply_all(plan_derive(graph, request, stamp, co_occurrence_max=10).mutations)
        else:
            graph.apply_all(plan_action(graph, request, stamp).mutations)
    node = schema(graph)
    for before, after in pairwise(STEPS_UP):
        event = str(uuid.UUID(int=STEPS_UP.index(after)))
        graph.apply(ApplyTransition(Transition(event, node, before, after, 15, None, 0, "test")))
    return graph


def schema(graph: Graph) -> NodeId:
    row = graph.find_by_content("user schema")
    assert row is not None
    return graph.id_at(row)


@pytest.fixture
def graph() -> Graph:
    return played()


@pytest.fixture
def state(graph: Graph) -> CycleState:
    return CycleState(graph)


@pytest.fixture
def cycle(graph: Graph, state: CycleState) -> CycleResult:
    return run_cycle(state, graph, NOW)


@pytest.fixture
def told(graph: Graph, state: CycleState, cycle: CycleResult) -> RecallResult:
    return recall(
        graph,
        RecallRequest("update user schema", top_k=5, max_tokens=500, traversal_depth=2),
        now=NOW,
        scores=cycle.scores.scores,
        hot=ShownHotList(state.view(graph, NOW)),
        settings=RecallSettings(fusion=FusionSettings(kind=FusionKind.MAX)),
    )


def test_both_agents_are_named_in_the_conflict_on_the_schema(
    graph: Graph, cycle: CycleResult
) -> None:
    said = [one for one in cycle.announcements if one.condition is Condition.CONFLICT]
    assert {one.node_id: one.agents for one in said}[schema(graph)] == ("agent-a", "agent-b")


def test_the_schema_comes_first_with_all_its_warnings(told: RecallResult, graph: Graph) -> None:
    assert told.context.splitlines()[:4] == [
        "user schema [Entity, canonical] (score 2.47, blast radius 15)",
        "⚑ Load-bearing pillar — 15 nodes depend on this. Modify with caution.",
        "Agent A wrote to it 10 seconds ago",
        f"High-risk modification: high-value node {schema(graph)} (Canonical, blast radius 15) "
        "modified within 30s",
    ]


def test_the_scores_of_the_scenario_are_those_worked_out_by_hand(told: RecallResult) -> None:
    shown = [(hit.content, f"{hit.score:.2f}") for hit in told.hits[:6]]
    assert shown == [
        ("user schema", "2.47"),
        ("add oauth_id to user schema", "1.51"),
        ("user fixtures", "0.88"),
        ("user serializer", "0.85"),
        ("user validation rules", "0.80"),
        ("users table migration", "0.79"),
    ]


def test_what_both_agents_touched_is_forced_in_with_its_last_writer(told: RecallResult) -> None:
    forced = {hit.content: [note.text for note in hit.annotations] for hit in told.hits[6:]}
    assert forced == {
        "handlers/login.rs": ["Agent A wrote to it 10 seconds ago"],
        "redis backend": ["Agent B wrote to it 10 seconds ago"],
        "auth middleware": ["Agent A wrote to it 10 seconds ago"],
        "middleware/ratelimit.rs": ["Agent A wrote to it 10 seconds ago"],
        "middleware/session.rs": ["Agent B wrote to it 10 seconds ago"],
    }
    assert len(told.warnings) == 8


def test_half_a_minute_later_nothing_is_forced(graph: Graph, state: CycleState) -> None:
    run_cycle(state, graph, NOW)
    later = NOW + 40 * SECOND
    shown = ShownHotList(state.view(graph, later))
    assert [shown.entries(node_id) for node_id in shown.node_ids() if shown.entries(node_id)] == []


def test_each_condition_becomes_its_line_and_contradictions_none() -> None:
    node, goal = numbered_id(1), numbered_id(2)
    hits = [
        Hit(node, Condition.CONFLICT, NOW - 11 * SECOND, writer="agent-b"),
        Hit(node, Condition.CONTRADICTION, NOW, writer="agent-b", by=goal),
        Hit(node, Condition.HIGH_RISK, NOW, reason="8 dependents share this pillar"),
        Hit(node, Condition.DRIFT, NOW, hops=6, goal=goal, named_goal=goal),
        Hit(node, Condition.STALE, NOW - 5_000 * SECOND),
    ]
    hot_list = HotList({hit.condition: [hit] for hit in hits})
    shown = ShownHotList(HotView(hot_list, lambda hit: hit, NOW))
    assert [tuple(entry) for entry in shown.entries(node)] == [
        (HotCondition.CONFLICT, "Agent B wrote to it 11 seconds ago"),
        (HotCondition.HIGH_RISK, "High-risk modification: 8 dependents share this pillar"),
        (HotCondition.DRIFT, f"Drifted 6 hops from root goal {goal}"),
        (HotCondition.STALE, "Session inactive 5000 seconds"),
    ]
    lost = Hit(node, Condition.DRIFT, NOW, hops=NO_PATH_HOPS, named_goal=goal)
    shown = ShownHotList(HotView(HotList({Condition.DRIFT: [lost]}), lambda hit: hit, NOW))
    assert shown.entries(node)[0].line == f"Drifted 4294967295 hops from root goal {goal}"


def test_the_conditions_of_both_sides_have_the_same_names() -> None:
    ours = {condition.name: condition.value for condition in Condition}
    del ours["CONTRADICTION"]
    assert ours == {condition.name: condition.value for condition in HotCondition}
