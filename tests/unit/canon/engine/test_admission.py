"""What a concept is told about its next status."""

from __future__ import annotations

import json

import pytest

from canon.engine.settings import CanonSettings, Policy
from canon_team import DAY, HOUR, START, Team, quorum_team
from memory.engine.times import SECOND
from memory.engine.types import Status


def test_each_failing_gate_has_a_sentence_and_a_measurement_beside_its_bar() -> None:
    team = Team()
    team.derive("ann", "pillar")
    team.rest_on("pillar", ["ben"])
    told = team.explain("pillar")
    assert (told.policy, told.status, told.next_status) == (
        Policy.SWARM,
        Status.NONE,
        Status.CANDIDATE,
    )
    assert not told.eligible
    assert [(check.gate, check.measured, check.bar) for check in told.checks] == [
        ("gc_survived", 0, 3),
        ("distinct_interactions", 1, 2),
    ]
    assert told.text.splitlines() == [
        "None under swarm, not yet Candidate",
        "  - It has outlived 0 sweeps of garbage collection; 3 are needed.",
        "  - What rests on it comes from 1 other interaction that is old enough; 2 are needed.",
    ]


def test_the_wire_form_is_json_and_names_the_dependents_that_count() -> None:
    team = Team()
    team.derive("ann", "pillar")
    team.rest_on("pillar", ["ben", "cy"])
    team.derive("dee", "young", on=["pillar"])
    wire = json.loads(json.dumps(team.explain("pillar").as_wire()))
    assert wire["support_count"] == 2
    assert [support["agent_id"] for support in wire["supports"]] == ["ben", "cy"]
    assert (wire["blast_radius"], wire["live_blast_radius"]) == (2, 3)
    assert wire["next_status"] == "Candidate"
    assert "solo_score" not in wire
    assert "agents" not in wire


def test_a_canonical_memory_has_no_next_status() -> None:
    team = Team()
    team.derive("ann", "pillar")
    team.promote("pillar", Status.CANONICAL)
    told = team.explain("pillar")
    assert (told.next_status, told.checks, told.eligible) == (None, (), False)
    assert told.text == "Canonical under swarm; there is no higher status"


def test_solo_tells_its_terms() -> None:
    team = Team(settings=CanonSettings(promotion_policy=Policy.SOLO))
    team.derive("ann", "idea")
    team.confirmations[team.id("idea")] = 1
    team.wait(HOUR)
    wire = team.explain("idea").as_wire()
    assert wire["solo_terms"] == {"sessions": 1, "confirmations": 1, "distinct": 0, "reverts": 0}
    assert wire["solo_score"] == pytest.approx(5 * 1.2)
    assert wire["eligible"]


def test_quorum_tells_how_many_agents_count() -> None:
    team = quorum_team("ann", "ben", "cy")
    team.derive("ann", "pillar")
    team.rest_on("pillar", ["ben", "ben", "cy", "stranger"])
    assert team.explain("pillar").as_wire()["agents"] == 2


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("Budget", "Budget"), (None, "Budget"), ("Superseded", "Superseded"), ("Moon", "Moon")],
)
def test_the_latest_demotion_ends_it_with_its_reason_as_stored(
    reason: str | None, shown: str
) -> None:
    """A reason of another program is shown as it stands; none at all was the budget."""
    team = Team()
    team.derive("ann", "pillar")
    for text in ("first", reason):
        team.promote("pillar", Status.CANONICAL)
        team.demote("pillar")
        last = next(reversed(team.graph.transitions.values()))
        team.graph.transitions[last.id] = last._replace(reason=text)
        team.wait(HOUR)
    told = team.explain("pillar")
    assert told.as_wire()["latest_demotion"]["reason"] == shown
    assert told.text.splitlines()[-1].endswith(f": {shown}")


def test_a_chunk_that_was_demoted_from_a_context_has_no_demotion_to_tell() -> None:
    """It carries a demotion time from the start, and no transition."""
    team = Team()
    team.derive("ann", "pillar")
    team.graph.concepts["last_demotion_time"][team.row("pillar")] = START
    assert team.explain("pillar").latest_demotion is None


def test_reading_the_confirmations_moves_no_gate_under_swarm() -> None:
    team = Team()
    team.derive("ann", "pillar")
    before = team.explain("pillar")
    team.confirmations[team.id("pillar")] = 7
    after = team.explain("pillar")
    assert before.checks == after.checks
    assert after.text.splitlines()[-1] == (
        "  confirmed by humans 7 time(s); under swarm they move nothing"
    )


def test_a_full_budget_is_a_gate() -> None:
    team = Team(settings=CanonSettings(max_canonical_nodes=1))
    team.derive("ann", "pillar", "other")
    team.promote("other", Status.CANONICAL)
    team.promote("pillar", Status.VENERABLE)
    for turn in range(6):
        team.derive("ben", f"use{turn}", on=["pillar"])
        team.now += DAY * SECOND
    told = team.explain("pillar")
    assert told.reasons == ("The session has 1 canonical memories; 1 are allowed.",)
    team.settings = CanonSettings()
    assert team.explain("pillar").eligible
