"""A cycle: windows, budgets, order; and the two sessions whose outcome was worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Generator

import numpy as np
import pytest

from canon.engine import survey
from canon.engine.evaluation import ACTOR, REASON_BUDGET, Evaluation, evaluate_in_steps
from canon.engine.evaluation_state import EvaluationState
from canon.engine.gate_times import Timeline
from canon.engine.measurements import DEPENDENTS_SHOWN, Circumstances, measure
from canon.engine.settings import CanonSettings, Policy
from canon_team import DAY, HOUR, Team
from graph_writing import dependency_snapshot
from memory.engine.actions import plan_action
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.mutations import DeleteConcept
from memory.engine.requests import DeriveRequest
from memory.engine.snapshot import load_snapshot
from memory.engine.times import SECOND
from memory.engine.types import Status
from memory.engine.wire import snapshot_from_json
from rest_api_scenario import SCENARIO
from shared_data import shared_file


def demo() -> Team:
    """The two-agent scenario by its script clock, all concepts having outlived their sweeps."""
    team = Team(settings=CanonSettings(canonization_edge_min_age_seconds=0.01))
    start = team.now
    for place, (agent, request) in enumerate(SCENARIO):
        stamp = Stamp(agent, start + place * 10_000, team.ids)
        if isinstance(request, DeriveRequest):
            derived = plan_derive(team.graph, request, stamp, co_occurrence_max=10)
            team.graph.apply_all(derived.mutations)
        else:
            team.graph.apply_all(plan_action(team.graph, request, stamp).mutations)
    team.survive()
    team.wait(1)
    return team


def test_the_scenario_ends_with_the_expected_statuses_and_audit_rows() -> None:
    team = demo()
    team.settle()
    assert team.statuses() == {
        "user schema": Status.CANONICAL,
        "auth middleware": Status.VENERABLE,
        "handlers/users.rs": Status.VENERABLE,
        "middleware/session.rs": Status.VENERABLE,
        "middleware/ratelimit.rs": Status.CANDIDATE,
        "repo/users.rs": Status.CANDIDATE,
        "middleware/jwt.rs": Status.CANDIDATE,
        "handlers/login.rs": Status.CANDIDATE,
        "redis backend": Status.CANDIDATE,
        "session store": Status.CANDIDATE,
    }
    rows = list(team.graph.transitions.values())
    assert len(rows) == 15
    schema = [row for row in rows if row.node_id == team.id("user schema")]
    assert [row.blast_radius for row in schema] == [None, None, 15]
    assert [row.id for row in rows] == sorted(row.id for row in rows)
    assert {row.actor for row in rows} == {ACTOR}


@pytest.mark.parametrize(
    ("content", "distinct", "radius", "coverage"),
    [
        ("user schema", 9, 15, 9 / 11),
        ("auth middleware", 5, 5, None),
        ("handlers/users.rs", 4, 4, None),
        ("middleware/session.rs", 3, 3, 4 / 11),
    ],
)
def test_the_scenario_measures_as_worked_out(
    content: str, distinct: int, radius: int, coverage: float | None
) -> None:
    found = demo().measure(content)
    assert (found.distinct, found.blast_radius) == (distinct, radius)
    if coverage is not None:
        assert found.coverage == pytest.approx(coverage, abs=1e-12)


@pytest.mark.parametrize(
    ("content", "distinct", "coverage", "radius"),
    [("user schema", 6, 25 / 55, 6), ("api layer", 3, 30 / 55, 3)],
)
def test_the_public_session_measures_as_published(
    content: str, distinct: int, coverage: float, radius: int
) -> None:
    text = shared_file("fixtures/lambo/session-rest-api.json").read_text(encoding="utf-8")
    graph = load_snapshot(snapshot_from_json(json.loads(text)))
    row = graph.find_by_content(content)
    assert row is not None
    now = max(interaction.created_at for interaction in graph.interactions()) + 60 * SECOND
    (found,) = measure(graph, [row], Circumstances(now=now), Timeline())
    assert (found.distinct, found.coverage, found.blast_radius) == (distinct, coverage, radius)


# -- one cycle -------------------------------------------------------------------------------------


def pillar(team: Team, *contents: str) -> None:
    """Concepts that pass every gate: twelve dependents over twelve days each, of one agent."""
    team.derive("ann", *contents)
    for turn in range(12):
        team.derive("ben", f"use {turn} of {contents[0]}", on=contents)
        team.wait(DAY)
    team.survive()


def test_a_concept_climbs_one_hop_a_cycle() -> None:
    team = Team()
    pillar(team, "pillar")
    assert [team.cycle() for _ in range(4)] == [
        [("pillar", Status.CANDIDATE)],
        [("pillar", Status.VENERABLE)],
        [("pillar", Status.CANONICAL)],
        [],
    ]


def test_the_evidence_of_a_promotion_names_what_counted() -> None:
    team = Team()
    pillar(team, "pillar")
    team.promote("pillar", Status.VENERABLE)
    (decision,) = team.plan().decisions
    evidence = decision.evidence
    assert decision.transition.blast_radius == evidence.blast_radius == 12
    assert [str(check.gate) for check in evidence.checks] == [
        "cooldown",
        "distinct_interactions",
        "coverage",
        "blast_radius",
        "canonical_budget",
    ]
    assert all(check.is_met for check in evidence.checks)
    dependents = {team.id(f"use {turn} of pillar") for turn in range(12)}
    assert {support.dependent for support in evidence.supports} == dependents
    assert {support.agent_id for support in evidence.supports} == {"ben"}
    assert json.loads(json.dumps(evidence.as_wire()))["support_count"] == 12


def test_evidence_names_a_bounded_number_of_dependents_beside_the_total() -> None:
    team = Team()
    team.derive("ann", "hub")
    for turn in range(3):
        team.derive("ben", *(f"leaf{turn}x{n}" for n in range(40)), on=["hub"])
        team.wait(DAY)
    team.survive()
    (decision,) = [one for one in team.plan().decisions if one.transition.node_id == team.id("hub")]
    assert len(decision.evidence.supports) == DEPENDENTS_SHOWN
    assert decision.evidence.support_count == 120


def test_candidates_are_admitted_by_score_and_then_id_up_to_the_batch() -> None:
    team = Team(settings=CanonSettings(canonization_eval_batch_size=2))
    pillar(team, "first", "second", "third")
    scores = {"first": 0.1, "second": 0.7, "third": 0.7}
    assert team.cycle(scores) == [("second", Status.CANDIDATE), ("third", Status.CANDIDATE)]
    assert team.cycle(scores)[0] == ("first", Status.CANDIDATE)


def test_candidates_are_looked_at_in_turn() -> None:
    """A ring of ten in windows of four: one that comes up in the third is promoted then."""
    team = Team(settings=CanonSettings(canonization_eval_batch_size=4))
    team.derive("ann", *(f"c{n}" for n in range(10)))
    for n in range(10):
        team.promote(f"c{n}", Status.CANDIDATE)
    by_id = sorted((f"c{n}" for n in range(10)), key=team.id)
    team.rest_on(by_id[9], ["ben"] * 5, apart=DAY)
    assert [team.cycle() for _ in range(3)] == [[], [], [(by_id[9], Status.VENERABLE)]]
    # Windows go around: the next one starts behind the last id looked at.
    assert team.state.candidates_after == team.id(by_id[1])


def test_the_budget_is_used_by_score_and_never_exceeded() -> None:
    team = Team(settings=CanonSettings(max_canonical_nodes=2))
    pillar(team, "one", "two", "three")
    for content in ("one", "two", "three"):
        team.promote(content, Status.VENERABLE)
    scores = {"one": 0.1, "two": 0.2, "three": 0.3}
    assert team.cycle(scores) == [("three", Status.CANONICAL), ("two", Status.CANONICAL)]
    assert team.cycle(scores) == []
    assert "2 are allowed" in team.explain("one").reasons[0]


def test_over_the_budget_the_least_load_bearing_are_demoted_last_in_the_cycle() -> None:
    team = Team()
    pillar(team, "broad", "wide")
    team.rest_on("wide", ["cy"])
    team.derive("ann", "narrow")
    team.derive("ann", "none")
    for content in ("broad", "wide", "narrow", "none"):
        team.promote(content, Status.CANONICAL)
    pillar(team, "rising")
    team.settings = CanonSettings(max_canonical_nodes=2)
    moved = team.cycle()
    assert moved == [
        ("rising", Status.CANDIDATE),
        ("narrow", Status.NONE),
        ("none", Status.NONE),
    ]
    demoted = [row for row in team.graph.transitions.values() if row.to_status is Status.NONE]
    assert {row.reason for row in demoted} == {REASON_BUDGET}
    assert {row.last_demotion_time for row in demoted} == {team.now}


def test_equal_radii_are_demoted_by_id() -> None:
    team = Team(settings=CanonSettings(max_canonical_nodes=1))
    team.derive("ann", "one", "two", "three")
    for content in ("one", "two", "three"):
        team.promote(content, Status.CANONICAL)
    expected = sorted(("one", "two", "three"), key=team.id)[:2]
    assert [content for content, _ in team.cycle()] == expected


def test_the_cooldown_ends_inclusively() -> None:
    team = Team()
    pillar(team, "pillar")
    team.promote("pillar", Status.CANONICAL)
    team.demote("pillar")
    team.promote("pillar", Status.VENERABLE)
    team.wait(299.999999)
    assert team.cycle() == []
    team.wait(0.000001)
    assert team.cycle() == [("pillar", Status.CANONICAL)]


def test_stage_two_must_hold_again_at_the_last_hop() -> None:
    """Evidence was retracted after the second hop."""
    team = Team()
    team.derive("ann", "pillar")
    team.derive("ben", *(f"use {n}" for n in range(20)), on=["pillar"])
    team.wait(HOUR)
    team.promote("pillar", Status.VENERABLE)
    assert team.measure("pillar").blast_radius == 20
    assert team.cycle() == []


def test_losing_evidence_demotes_nothing() -> None:
    team = Team()
    team.derive("ann", "pillar")
    team.promote("pillar", Status.CANONICAL)
    team.wait(DAY)
    assert team.cycle() == []


@pytest.mark.parametrize("policy", list(Policy))
def test_what_no_longer_passes_at_the_last_step_is_not_promoted(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The survey found it; before the plan was made, what held it up was removed."""
    monkeypatch.setattr(survey, "EDGES_PER_STEP", 16)
    monkeypatch.setattr(survey, "CONCEPTS_PER_STEP", 4)
    team = Team(settings=CanonSettings(promotion_policy=policy))
    team.token_created_at["ben"] = 0
    pillar(team, "kept")
    pillar(team, "lost")

    def steps() -> Generator[None, None, Evaluation]:
        return evaluate_in_steps(
            team.graph,
            EvaluationState(),
            team.circumstances,
            ids=team.ids,
            scores=np.ones(team.graph.concepts.used),
        )

    def promoted(evaluation: Evaluation) -> set[str]:
        return {team.content(one.transition.node_id) for one in evaluation.decisions}

    whole = steps()
    count = sum(1 for _ in whole)
    assert count >= 1
    interrupted = steps()
    for _ in range(count):
        next(interrupted)
    for row in team.graph.dependents(team.row("lost")):
        team.graph.apply(DeleteConcept(team.graph.id_at(row)))
    with pytest.raises(StopIteration) as ended:
        next(interrupted)
    assert promoted(ended.value.value) == {"kept"}


def test_steps_plan_what_one_call_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "EDGES_PER_STEP", 7)
    stepwise = demo()
    stepwise.settle()
    monkeypatch.undo()
    at_once = demo()
    at_once.settle()
    assert stepwise.graph.transitions == at_once.graph.transitions


@pytest.mark.parametrize("block", [1, 3, 512])
def test_rows_come_by_score_and_then_id_however_many_there_are(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "ROWS_SORTED", block)
    team = Team()
    team.derive("ann", *(f"c{n}" for n in range(20)))
    rows = np.array(team.graph.concept_rows())[::-1]
    scores = np.array([n % 4 / 4 for n in range(17)])  # the last three rows are not scored yet
    known = dict(enumerate(scores.tolist()))
    expected = sorted(rows.tolist(), key=lambda row: (-known.get(row, 0.0), team.graph.id_at(row)))
    assert list(survey.by_score(team.graph, scores, rows)) == expected


def test_rings_chains_and_hubs_are_counted_once_and_without_recursion() -> None:
    ring, hub, chain = 2_000, 3_000, 4_000
    pairs = [(n, (n + 1) % ring) for n in range(ring)]
    pairs += [(n, ring) for n in range(ring + 1, ring + hub)]
    pairs += [(n, n + 1) for n in range(ring + hub, ring + hub + chain - 1)]
    pairs += [(0, 0), (1, 0)]  # a self-edge and a pair that rests on each other
    graph = load_snapshot(dependency_snapshot(ring + hub + chain, pairs))
    tail = graph.tail
    assert tail is not None
    now = tail.created_at + 60 * SECOND
    rows = [graph.find_by_content(f"node {n}") or 0 for n in (0, 1, ring, ring + hub + 1)]
    found = measure(graph, rows, Circumstances(now=now), Timeline())
    assert [one.blast_radius for one in found] == [2, 1, hub - 1, 1]
    # All of it is one interaction's work.
    assert [one.distinct for one in found] == [0, 0, 0, 0]
