"""A dry run ends where cycles end, and tells what keeps the rest back."""

from __future__ import annotations

import json

import pytest

from canon.engine.preview import DryRun, dry_run
from canon.engine.scoring import rescore
from canon.engine.settings import CanonSettings, Policy
from canon_team import DAY, Team
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import Status


def run(team: Team) -> DryRun:
    copy = load_snapshot(take_snapshot(team.graph))
    return dry_run(copy, team.circumstances, ids=team.ids, scores=rescore(copy).scores)


def busy(policy: Policy = Policy.SWARM, *, supersede: bool = False) -> Team:
    settings = CanonSettings(
        promotion_policy=policy,
        canonization_supersede=supersede,
        canonization_eval_batch_size=3,
    )
    team = Team(settings=settings)
    team.token_created_at.update(dict.fromkeys(("ann", "ben", "cy"), 0))
    team.derive("ann", *(f"c{n}" for n in range(12)))
    for turn in range(9):
        # c0 has nine dependents, c1 eight, ... c9 and later none.
        cited = [f"c{n}" for n in range(9 - turn)]
        team.derive(("ben", "cy")[turn % 2], f"use{turn}", on=cited)
        team.wait(DAY)
    team.survive()
    return team


@pytest.mark.parametrize("supersede", [False, True])
@pytest.mark.parametrize("policy", list(Policy))
def test_a_dry_run_ends_where_the_cycles_end_and_writes_nothing(
    policy: Policy, supersede: bool
) -> None:
    team = busy(policy, supersede=supersede)
    before = take_snapshot(team.graph)
    told = run(team)
    assert take_snapshot(team.graph) == before
    team.settle()
    statuses = list(team.statuses().values())
    assert told.is_at_rest
    assert told.statuses == {
        "None": team.graph.concept_count - len(statuses),
        **{str(step): statuses.count(step) for step in list(Status)[1:]},
    }
    assert len(told.decisions) == len(team.graph.transitions)
    assert len(statuses) > 3
    assert json.loads(json.dumps(told.as_wire()))["policy"] == str(policy)


def test_failures_are_counted_by_gate_of_the_next_hop() -> None:
    team = busy()
    told = run(team)
    # Dependents by concept: c0 9, c1 8 ... c8 1, none from c9 on; the uses are cited by nobody.
    # c0 to c3 are canonical, c4 and c5 venerable; the three of c6 span a quarter of the session.
    assert told.statuses == {"None": 13, "Candidate": 2, "Venerable": 2, "Canonical": 4}
    assert told.failures == {
        "Candidate": {"distinct_interactions": 13},
        "Venerable": {"coverage": 2, "distinct_interactions": 1},
        "Canonical": {"blast_radius": 2},
    }


def test_near_misses_are_the_concepts_one_gate_away() -> None:
    team = busy()
    told = run(team)
    near = {miss.content: str(miss.check.gate) for miss in told.near_misses}
    assert {name: near[name] for name in ("c4", "c5", "c6", "c8")} == {
        "c4": "blast_radius",
        "c5": "blast_radius",
        "c6": "coverage",
        "c8": "distinct_interactions",
    }
    assert told.near_miss_count == len(told.near_misses)


def test_a_session_at_rest_needs_no_transition() -> None:
    team = busy()
    team.settle()
    assert run(team).decisions == ()


def test_progress_is_told_after_each_cycle() -> None:
    team = busy()
    told: list[tuple[int, int]] = []
    copy = load_snapshot(take_snapshot(team.graph))
    scores = rescore(copy).scores
    found = dry_run(
        copy,
        team.circumstances,
        ids=team.ids,
        scores=scores,
        on_cycle=lambda cycles, transitions: told.append((cycles, transitions)),
    )
    assert [cycles for cycles, _ in told] == list(range(1, found.cycles + 1))
    assert told[-1] == (found.cycles, len(found.decisions))


def test_superseding_costs_nothing_where_nothing_is_contradicted() -> None:
    assert run(busy(supersede=True)).cycles == run(busy()).cycles


def test_supersession_may_be_tried_out() -> None:
    team = busy(supersede=True)
    team.settle()
    team.derive("ben", "denial", against=["c0"])
    team.wait(20 * DAY)
    team.rest_on("denial", ["dee", "eve", "fay"], apart=3 * DAY)
    told = run(team)
    (demoted,) = [one for one in told.decisions if one.transition.to_status is Status.NONE]
    assert team.content(demoted.transition.node_id) == "c0"
    # It climbs again as far as its evidence allows, and stops at the cooldown.
    assert told.failures["Canonical"]["cooldown"] == 1


def test_an_empty_session_is_at_rest() -> None:
    told = run(Team())
    assert told.is_at_rest
    assert (told.decisions, told.failures, told.near_misses) == ((), {}, ())
