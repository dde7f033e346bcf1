"""The score of a single writer: sessions, confirmations, distinct, reverts."""

from __future__ import annotations

import numpy as np
import pytest

from canon.engine.settings import CanonSettings, Policy
from canon.engine.solo import count_sessions, solo_score
from canon_team import DAY, HOUR, Team
from memory.engine.times import SECOND
from memory.engine.types import ConceptType, Status


@pytest.fixture
def team() -> Team:
    return Team(settings=CanonSettings(promotion_policy=Policy.SOLO))


def sessions(*hours: float) -> int:
    instants = np.array([round(hour * HOUR * SECOND) for hour in hours], dtype=np.int64)
    return int(count_sessions(np.zeros(len(hours), dtype=np.int64), instants, 1)[0])


def test_supports_a_day_apart_are_sessions_counted_greedily() -> None:
    assert sessions() == 0
    assert sessions(5) == 1
    assert sessions(0, 23.999) == 1
    assert sessions(0, 24) == 2
    # From 0 the next is 24, from there 48; 12 and 36 lie between.
    assert sessions(36, 0, 48, 12, 24) == 3
    assert sessions(0, 23, 46, 69) == 2


def test_each_owner_is_counted_apart() -> None:
    owner = np.array([2, 0, 2, 0, 2], dtype=np.int64)
    instants = np.array([0, 0, 25, 1, 50], dtype=np.int64) * HOUR * SECOND
    assert count_sessions(owner, instants, 4).tolist() == [1, 0, 3, 0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (ConceptType.CONSTRAINT, 9.0),
        (ConceptType.ENTITY, 7.2),
        (ConceptType.LOGIC, 6.6),
        (ConceptType.RESOURCE, 6.0),
        (ConceptType.OBSERVATION, 4.2),
    ],
)
def test_the_score_is_the_weighted_terms_times_the_resistance(
    kind: ConceptType, expected: float
) -> None:
    # 3 x 1 + 1 x 4 + 1 x 2 - 1 x 3 = 6
    score = solo_score(sessions=3, confirmations=1, distinct=1, reverts=1, concept_type=kind)
    assert score == pytest.approx(expected)


def test_coming_back_on_other_days_makes_a_candidate_without_any_sweep(team: Team) -> None:
    team.derive("ann", "idea", kind=ConceptType.RESOURCE)
    team.wait(DAY)
    team.derive("ann", "idea")
    team.wait(DAY)
    assert team.cycle() == []  # 2.0 of 3.0
    team.derive("ann", "idea")
    team.wait(60)
    assert team.measure("idea").sessions == 3
    assert team.cycle() == [("idea", Status.CANDIDATE)]


def test_being_produced_or_modified_by_an_action_is_no_session(team: Team) -> None:
    team.act("ann", "build", produces=["artefact"])
    for _ in range(4):
        team.wait(2 * DAY)
        team.act("ann", f"change {team.graph.concept_count}", modifies=["artefact"])
    team.wait(HOUR)
    assert team.measure("artefact").sessions == 0
    team.derive("ann", "artefact")
    team.wait(HOUR)
    assert team.measure("artefact").sessions == 1


def test_a_dependent_is_a_session_of_its_day(team: Team) -> None:
    team.derive("ann", "pillar")
    team.wait(DAY)
    team.derive("ann", "use", on=["pillar"])
    team.wait(HOUR)
    found = team.measure("pillar")
    assert (found.sessions, found.distinct) == (2, 1)
    assert found.solo_score == pytest.approx((2 + 2) * 1.2)


def test_confirmations_lift_to_the_band_and_evidence_must_still_hold(team: Team) -> None:
    team.derive("ann", "rule", kind=ConceptType.CONSTRAINT)
    team.wait(HOUR)
    team.confirmations[team.id("rule")] = 5
    team.settle()
    assert team.statuses() == {"rule": Status.CANDIDATE}
    gates = {check.gate: check.is_met for check in team.explain("rule").checks}
    assert gates == {"solo_score": True, "distinct_interactions": False, "coverage": False}


def test_a_demotion_counts_against_it_whatever_its_reason(team: Team) -> None:
    team.derive("ann", "pillar")
    team.promote("pillar", Status.CANONICAL)
    team.demote("pillar")
    team.wait(HOUR)
    found = team.measure("pillar")
    assert (found.sessions, found.reverts) == (1, 1)
    assert found.solo_score == pytest.approx(-2 * 1.2)


def test_the_whole_ladder_needs_bands_spread_and_radius(team: Team) -> None:
    team.derive("ann", "pillar")
    team.wait(DAY)
    team.rest_on("pillar", ["ann"] * 5, apart=DAY)
    team.settle()
    assert team.status("pillar") is Status.VENERABLE  # five rest on it
    team.rest_on("pillar", ["ann"], apart=DAY)
    team.settle()
    assert team.status("pillar") is Status.CANONICAL
