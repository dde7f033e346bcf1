"""A contradicted canonical memory gives way to fresh evidence, and to nothing less."""

from __future__ import annotations

import pytest

from canon.engine import evaluation, probes
from canon.engine.evaluation import REASON_SUPERSEDED
from canon.engine.settings import CanonSettings, Policy
from canon_team import DAY, HOUR, START, Team
from memory.engine.mutations import PutEdge
from memory.engine.times import SECOND
from memory.engine.types import EdgeType, Status

ON = CanonSettings(canonization_supersede=True)
OTHERS = ("cy", "dee", "eve")


@pytest.fixture
def team() -> Team:
    """`belief` is canonical, three weeks old and used; `denial` contradicts it, said by ben."""
    made = Team(settings=ON)
    made.derive("ann", "belief")
    made.rest_on("belief", ["fay"] * 6, apart=DAY)
    made.promote("belief", Status.CANONICAL)
    made.wait(21 * DAY)
    made.derive("ben", "denial", against=["belief"])
    return made


def support(team: Team, content: str = "denial", agents: tuple[str, ...] = OTHERS) -> None:
    """Evidence that spans more than the bar of two weeks' share."""
    team.rest_on(content, agents, apart=3 * DAY)


def superseded(team: Team) -> list[tuple[str, Status]]:
    return [step for step in team.cycle() if step[1] is Status.NONE]


def test_fresh_evidence_of_others_supersedes(team: Team) -> None:
    support(team)
    planned = team.plan()
    (decision,) = planned.decisions
    step = decision.transition
    assert (team.content(step.node_id), step.to_status) == ("belief", Status.NONE)
    assert (step.reason, step.superseded_by) == (REASON_SUPERSEDED, team.id("denial"))
    assert (step.last_demotion_time, step.blast_radius) == (team.now, None)
    assert {support.agent_id for support in decision.evidence.supports} == set(OTHERS)
    assert decision.evidence.as_wire()["superseded_by"] == team.id("denial")
    team.graph.apply_all(planned.mutations)
    assert team.status("denial") is Status.NONE  # the contradictor is not promoted by it


def test_it_is_off_unless_set(team: Team) -> None:
    team.settings = CanonSettings()
    support(team)
    assert team.cycle() == []


@pytest.mark.parametrize("agents", [("cy", "dee"), ("ben", "ben", "ben", "ben")])
def test_too_little_or_the_declarer_s_own_evidence_does_not(
    team: Team, agents: tuple[str, ...]
) -> None:
    support(team, agents=agents)
    assert superseded(team) == []
    support(team)
    assert superseded(team) == [("belief", Status.NONE)]


def test_evidence_must_be_spread(team: Team) -> None:
    team.rest_on("denial", OTHERS, apart=60)
    assert superseded(team) == []
    team.wait(5 * DAY)
    team.rest_on("denial", ["cy"])
    assert superseded(team) == [("belief", Status.NONE)]


def test_fresh_texts_that_one_call_ties_to_the_denial_are_not_spread(team: Team) -> None:
    for number, agent in enumerate(OTHERS):
        team.derive(agent, f"work {number}")
        team.wait(3 * DAY)
    team.derive("cy", *(f"work {number}" for number in range(3)), on=["denial"])
    team.wait(HOUR)
    assert superseded(team) == []
    team.wait(5 * DAY)
    team.rest_on("denial", ["dee"])
    assert superseded(team) == [("belief", Status.NONE)]


def test_evidence_older_than_the_last_use_of_the_belief_does_not_count(team: Team) -> None:
    support(team)
    team.derive("gus", "late use", on=["belief"])
    team.wait(HOUR)
    assert superseded(team) == []
    support(team, agents=("cy", "dee"))
    assert superseded(team) == []
    support(team, agents=("eve",))
    assert superseded(team) == [("belief", Status.NONE)]


def test_the_declarer_s_own_use_does_not_keep_the_belief(team: Team) -> None:
    support(team)
    team.derive("ben", "late use", on=["belief"])
    team.wait(HOUR)
    assert superseded(team) == [("belief", Status.NONE)]


def test_the_contradictor_s_citation_does_not_keep_the_belief(team: Team) -> None:
    support(team)
    team.derive("gus", "denial", on=["belief"])
    team.wait(HOUR)
    assert superseded(team) == [("belief", Status.NONE)]


def test_an_old_dependent_joined_anew_is_no_fresh_evidence(team: Team) -> None:
    """Edges were new, but what they joined was written before the belief was last used."""
    for agent in OTHERS:
        team.derive(agent, f"old {agent}")
        team.wait(3 * DAY)
    team.derive("gus", "late use", on=["belief"])
    for agent in OTHERS:
        team.derive(agent, f"old {agent}", on=["denial"])
        team.wait(3 * DAY)
    found = team.measure("denial")
    assert (found.distinct, found.coverage > 0.4) == (3, True)
    assert superseded(team) == []
    support(team)
    assert superseded(team) == [("belief", Status.NONE)]


def set_writer(team: Team, source: str, target: str, edge_type: EdgeType, agent: str) -> None:
    edge = team.graph.edge_between(team.id(source), team.id(target), edge_type)
    assert edge is not None
    team.graph.apply(PutEdge(edge._replace(created_by=agent)))


def test_what_cannot_be_told_never_demotes(team: Team) -> None:
    """Sessions from elsewhere may not say who wrote an edge."""
    support(team)
    team.derive("gus", "late use", on=["belief"])
    set_writer(team, "late use", "belief", EdgeType.DEPENDENCY, "ben")
    team.wait(HOUR)
    assert [step.transition.node_id for step in team.plan().decisions] == [team.id("belief")]

    set_writer(team, "late use", "belief", EdgeType.DEPENDENCY, "")
    assert team.plan().decisions == ()
    set_writer(team, "late use", "belief", EdgeType.DEPENDENCY, "ben")
    set_writer(team, "denial", "belief", EdgeType.CONTRADICTS, "")
    assert team.plan().decisions == ()
    set_writer(team, "denial", "belief", EdgeType.CONTRADICTS, "ben")
    fourth = team.graph.content_at(team.graph.dependents(team.row("denial"))[0])
    set_writer(team, fourth, "denial", EdgeType.DEPENDENCY, "")
    assert team.plan().decisions == ()


def test_neither_side_may_be_cooling(team: Team) -> None:
    team.promote("denial", Status.CANONICAL)
    support(team)
    team.demote("denial")
    team.wait(299)
    assert superseded(team) == []
    team.wait(1)
    assert superseded(team) == [("belief", Status.NONE)]


def test_of_several_contradictors_the_newest_evidence_acts(team: Team) -> None:
    team.derive("ben", "refutation", against=["belief"])
    support(team, "refutation")
    support(team, "denial")
    (decision,) = team.plan().decisions
    assert decision.transition.superseded_by == team.id("denial")


def test_of_a_pair_that_contradicts_each_other_one_acts(team: Team) -> None:
    team.promote("denial", Status.CANONICAL)
    team.derive("ann", "belief", against=["denial"])
    support(team, "denial")
    support(team, "belief", ("gus", "hal", "ivy"))
    # Each has fresh evidence the other lacks, but the belief's evidence moved its watermark.
    moved = superseded(team)
    assert moved == [("denial", Status.NONE)]
    assert team.status("belief") is Status.CANONICAL


def test_a_pair_with_equally_new_evidence_is_decided_by_key() -> None:
    """Both would win: what holds each up was written by the one who denies it."""
    team = Team(settings=ON)
    team.derive("ann", "alpha")
    team.derive("ann", "beta")
    team.wait(HOUR)
    team.derive("ben", "alpha", against=["beta"])
    team.derive("cy", "beta", against=["alpha"])
    for _ in range(3):
        team.wait(DAY)
        # Of cy's evidence none moves alpha's watermark against cy, and so for ben.
        team.derive("cy", f"for alpha {team.graph.concept_count}", on=["alpha"])
        team.now -= SECOND
        team.derive("ben", f"for beta {team.graph.concept_count}", on=["beta"])
    team.wait(HOUR)
    for content in ("alpha", "beta"):
        team.promote(content, Status.CANONICAL)
    (decision,) = team.plan().decisions
    # Time in a session strictly increases, so beta's last piece is a microsecond later.
    assert team.content(decision.transition.node_id) == "alpha"


def test_under_quorum_the_evidence_comes_from_two_agents_let_in(team: Team) -> None:
    team.settings = CanonSettings(canonization_supersede=True, promotion_policy=Policy.QUORUM)
    support(team, agents=("cy", "cy", "cy", "stranger"))
    team.token_created_at.update({"cy": START, "dee": START})
    assert superseded(team) == []
    support(team, agents=("dee",))
    assert superseded(team) == [("belief", Status.NONE)]


def test_a_slot_that_is_freed_is_used_in_the_same_cycle(team: Team) -> None:
    team.settings = CanonSettings(canonization_supersede=True, max_canonical_nodes=1)
    team.derive("ann", "next")
    team.rest_on("next", ["fay"] * 6, apart=DAY)
    team.promote("next", Status.VENERABLE)
    assert team.cycle() == []
    support(team)
    assert team.cycle()[:2] == [("belief", Status.NONE), ("next", Status.CANONICAL)]


def test_a_venerable_that_would_be_superseded_at_once_is_held(team: Team) -> None:
    team.derive("ann", "rule")
    team.rest_on("rule", ["fay"] * 6, apart=DAY)
    team.promote("rule", Status.VENERABLE)
    team.derive("ben", "exception", against=["rule"])
    support(team, "exception")
    assert ("rule", Status.CANONICAL) not in team.cycle()
    told = team.explain("rule")
    assert not told.eligible
    (failing,) = [check for check in told.checks if not check.is_met]
    assert (failing.gate, failing.subject) == ("held", team.id("exception"))

    team.rest_on("rule", ["gus"])
    assert team.explain("rule").eligible
    assert ("rule", Status.CANONICAL) in team.cycle()


def test_the_superseded_may_rise_again_when_it_is_used_again(team: Team) -> None:
    support(team)
    team.cycle()
    team.survive()
    team.wait(DAY)
    team.settle()
    assert team.status("belief") is Status.VENERABLE  # held by the denial
    team.rest_on("belief", ["gus"])
    team.settle()
    assert team.status("belief") is Status.CANONICAL


# -- caps ------------------------------------------------------------------------------------------


def contradicted(team: Team, count: int, status: Status, *, contradictors: int = 1) -> None:
    """Concepts of a status, each contradicted by some that have no evidence."""
    team.derive("ann", *(f"target {n:03}" for n in range(count)))
    for n in range(count):
        team.promote(f"target {n:03}", status)
        names = [f"against {n:03} {k}" for k in range(contradictors)]
        team.derive("ben", *names, against=[f"target {n:03}"])


def test_targets_beyond_the_cap_are_asked_in_the_next_cycle() -> None:
    team = Team(settings=ON)
    contradicted(team, probes.TARGETS_MAX + 10, Status.CANONICAL)
    team.wait(20 * DAY)
    last = f"target {probes.TARGETS_MAX + 9:03}"
    assert team.id(last) == max(team.id(f"target {n:03}") for n in range(probes.TARGETS_MAX + 10))
    support(team, f"against {probes.TARGETS_MAX + 9:03} 0")
    planned = team.plan()
    assert planned.decisions == ()
    assert any("supersession" in note for note in planned.notes)
    team.state = planned.state
    assert superseded(team) == [(last, Status.NONE)]


def test_probes_go_on_inside_a_target_with_many_contradictors() -> None:
    team = Team(settings=ON)
    contradicted(team, 10, Status.CANONICAL, contradictors=60)
    team.wait(20 * DAY)
    for agent in OTHERS:
        team.derive(agent, f"use of {agent}", on=["against 009 59"])
        team.wait(3 * DAY)
    cycles = [superseded(team) for _ in range(3)]
    # 600 pairs, 256 a cycle.
    assert cycles == [[], [], [("target 009", Status.NONE)]]


def test_a_window_the_probes_do_not_cover_waits_three_cycles_and_the_ring_moves_on() -> None:
    team = Team(settings=ON)
    contradicted(team, 20, Status.VENERABLE, contradictors=60)
    for turn in range(6):
        for n in range(20):
            team.derive("fay", f"rest {turn} {n:03}", on=[f"target {n:03}"])
        team.wait(3 * DAY)
    # 1,200 pairs: a cycle asks about 4 whole targets of 60 each, and a part of the next.
    scores = {f"target {n:03}": 1.0 - n / 100 for n in range(20)}
    promoted, deferred, cursors = [], [], []
    for _ in range(evaluation.DEFERRALS_MAX):
        promoted.append([content for content, _ in team.cycle(scores)])
        deferred.append(team.state.deferrals)
        cursors.append(team.state.venerables_after)
    assert promoted[0] == [f"target {n:03}" for n in range(4)]
    assert promoted[1] == [f"target {n:03}" for n in range(4, 8)]
    assert promoted[2] == [f"target {n:03}" for n in range(8, 12)]
    assert deferred == [1, 2, 0]
    assert cursors[:2] == ["", ""]
    assert cursors[2] != ""
    team.settle()
    assert all(team.status(f"target {n:03}") is Status.CANONICAL for n in range(20))
