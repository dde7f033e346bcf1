"""Nothing fabricates importance: each attempt moves no status, and its honest twin moves one.

All concepts have outlived their sweeps, so that no attempt fails for want of one.
"""

from __future__ import annotations

import pytest

from canon.engine.evaluation_state import EvaluationState
from canon.engine.gate_times import Timeline
from canon.engine.settings import CanonSettings, Policy
from canon_team import DAY, HOUR, START, Team, quorum_team
from memory.engine.mutations import PutConcept, PutEdge
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.times import SECOND
from memory.engine.types import ConceptType, Edge, EdgeType, Status

OTHERS = ("ben", "cy", "dee")


def team_under(policy: Policy) -> Team:
    team = quorum_team("ann", *OTHERS)
    team.settings = CanonSettings(promotion_policy=policy)
    return team


def lift(team: Team, concept: str = "pillar") -> None:
    """Honest work of three other agents over hours."""
    team.rest_on(concept, OTHERS)


@pytest.fixture(params=list(Policy))
def team(request: pytest.FixtureRequest) -> Team:
    made = team_under(request.param)
    made.derive("ann", "pillar")
    return made


def settled(team: Team) -> dict[str, Status]:
    team.survive()
    team.settle()
    return team.statuses()


def test_a_thousand_observations_move_no_status(team: Team) -> None:
    for number in range(1_000):
        team.derive("ben", f"seen{number}", kind=ConceptType.OBSERVATION)
    team.wait(HOUR)
    assert settled(team) == {}

    lift(team)
    assert "pillar" in settled(team)


def test_a_thousand_derives_of_one_concept_move_no_status(team: Team) -> None:
    for number in range(1_000):
        team.derive(("ann", "ben")[number % 2], "pillar")
    team.wait(HOUR)
    assert settled(team) == {}

    lift(team)
    assert "pillar" in settled(team)


def test_one_write_of_many_dependents_is_one_interaction(team: Team) -> None:
    team.derive("ben", *(f"part{number}" for number in range(60)), on=["pillar"])
    team.wait(HOUR)
    assert team.measure("pillar").blast_radius == 60
    assert team.measure("pillar").distinct == 1
    assert Status.VENERABLE not in settled(team).values()

    lift(team)
    assert settled(team)["pillar"] in (Status.VENERABLE, Status.CANONICAL)


def test_a_burst_inside_a_longer_session_fails_coverage(team: Team) -> None:
    team.wait(30 * DAY)
    for turn in range(30):
        team.rest_on("pillar", [OTHERS[turn % 3]], apart=1)
    team.wait(120)
    team.survive()
    team.settle()
    assert team.measure("pillar").distinct == 30
    assert team.status("pillar") in (Status.NONE, Status.CANDIDATE)
    assert any("spans" in reason for reason in team.explain("pillar").reasons)

    team.wait(10 * DAY)
    team.rest_on("pillar", OTHERS)
    assert settled(team)["pillar"] is Status.CANONICAL


def test_old_texts_that_one_call_ties_to_a_concept_are_no_support_over_time(team: Team) -> None:
    """Texts of weeks, each said again by one call as resting on the pillar."""
    old = [f"said on day {day}" for day in range(9)]
    for day, content in enumerate(old):
        team.derive(OTHERS[day % 3], content)
        team.wait(3 * DAY)
    team.derive("dee", *old, on=["pillar"])
    team.wait(HOUR)
    assert team.measure("pillar").coverage == 0.0
    assert Status.VENERABLE not in settled(team).values()
    assert Status.CANONICAL not in settled(team).values()

    # A call each time somebody came to rest on it is what the burst pretended to be.
    team.wait(5 * DAY)
    team.rest_on("pillar", OTHERS, apart=DAY)
    assert settled(team)["pillar"] is Status.CANONICAL


def test_old_texts_made_parts_by_one_call_are_no_support_over_time(team: Team) -> None:
    old = [f"said on day {day}" for day in range(9)]
    for day, content in enumerate(old):
        team.derive(OTHERS[day % 3], content)
        team.wait(3 * DAY)
    team.derive("dee", *old, parent="pillar")
    team.wait(HOUR)
    assert team.measure("pillar").coverage == 0.0
    assert Status.VENERABLE not in settled(team).values()

    team.wait(5 * DAY)
    team.rest_on("pillar", OTHERS, apart=DAY)
    assert settled(team)["pillar"] is Status.CANONICAL


def test_evidence_counts_once_it_is_old_enough(team: Team) -> None:
    team.rest_on("pillar", OTHERS, apart=0)
    team.now = team.graph.tail.created_at if team.graph.tail else team.now
    before = team.measure("pillar")
    team.wait(58)
    assert (before.distinct, before.blast_radius) == (0, 0)
    assert team.measure("pillar").distinct == 1  # one second short for the last two

    team.wait(2)
    assert team.measure("pillar").distinct == 3
    team.wait(3 * HOUR)
    assert "pillar" in settled(team)


@pytest.mark.parametrize("shift", [-400 * DAY, -3_600, 3_600, 400 * DAY])
def test_event_times_without_the_right_to_backdate_change_nothing(team: Team, shift: int) -> None:
    plain = team_under(team.settings.promotion_policy)
    plain.derive("ann", "pillar")
    for turn, agent in enumerate(OTHERS * 2):
        told = team.now + (turn + 1) * shift * SECOND
        team.derive(agent, f"rests{turn}", on=["pillar"], event_time=told)
        plain.derive(agent, f"rests{turn}", on=["pillar"])
    team.wait(120)
    plain.wait(120)
    assert team.measure("pillar") == plain.measure("pillar")
    assert settled(team) == settled(plain)


def test_an_importer_may_date_its_evidence(team: Team) -> None:
    """The twin: the same burst, written with the right to backdate, spans what it says."""
    team.wait(30 * DAY)
    for turn in range(9):
        told = START + (turn + 1) * 3 * DAY * SECOND
        team.derive(
            OTHERS[turn % 3], f"rests{turn}", on=["pillar"], event_time=told, is_backdated=True
        )
    team.wait(120)
    assert team.measure("pillar").coverage == 1.0
    assert settled(team)["pillar"] is Status.CANONICAL


def test_evidence_dated_ahead_waits_for_its_time(team: Team) -> None:
    for turn, agent in enumerate(OTHERS):
        told = team.now + (turn + 1) * DAY * SECOND
        team.derive(agent, f"rests{turn}", on=["pillar"], event_time=told, is_backdated=True)
    team.wait(HOUR)
    assert team.measure("pillar").distinct == 0
    team.wait(4 * DAY)
    assert team.measure("pillar").distinct == 3
    assert settled(team)["pillar"] is Status.VENERABLE


def test_being_read_changes_no_verdict(team: Team) -> None:
    team.rest_on("pillar", OTHERS[:1])
    before = team.measure("pillar")
    row = team.row("pillar")
    read = team.graph.concept_at(row)._replace(access_count=10_000, last_accessed=team.now)
    team.graph.apply(PutConcept(read))
    assert team.measure("pillar") == before
    assert settled(team).get("pillar") in (None, Status.CANDIDATE)

    lift(team)
    assert settled(team)["pillar"] in (Status.VENERABLE, Status.CANONICAL)


def test_loops_and_double_ties_count_each_dependent_once(team: Team) -> None:
    """Concepts that rest on each other, and a child that cites its parent."""
    team.derive("ben", "left", on=["pillar"])
    team.derive("cy", "right", on=["left"])
    team.derive("dee", "left", on=["right"])
    team.derive("ben", "pillar", on=["left"])
    team.derive("cy", "left", on=["pillar"])
    team.derive("dee", "child", on=["pillar"], parent="pillar")
    team.wait(HOUR)
    assert team.graph.edge_between(team.id("pillar"), team.id("child"), EdgeType.HIERARCHICAL)
    measured = team.measure("pillar")
    assert measured.blast_radius <= 2
    assert measured.distinct <= 2
    assert settled(team).get("pillar") in (None, Status.CANDIDATE)


def test_a_self_edge_is_no_evidence(team: Team) -> None:
    """The calls refuse one; a session from elsewhere may hold it."""
    pillar = team.id("pillar")
    for edge_type in (EdgeType.DEPENDENCY, EdgeType.HIERARCHICAL):
        edge_id, at = team.ids.next_id(), team.now
        edge = Edge(edge_id, pillar, pillar, edge_type, 0.5, 1, at, at, "ben", "ben")
        team.graph.apply(PutEdge(edge))
    team.wait(HOUR)
    measured = team.measure("pillar")
    assert (measured.distinct, measured.blast_radius, measured.coverage) == (0, 0, 0.0)


def test_a_human_confirmation_counts_under_solo_alone(team: Team) -> None:
    team.confirmations[team.id("pillar")] = 100
    team.wait(HOUR)
    is_solo = team.settings.promotion_policy is Policy.SOLO
    assert settled(team) == ({"pillar": Status.CANDIDATE} if is_solo else {})
    assert team.explain("pillar").measured.confirmations == 100
    assert "confirmed by humans 100 time(s)" in team.explain("pillar").text


# -- under Quorum: who counts ----------------------------------------------------------------------


def test_one_identity_lifts_nothing_whatever_it_writes_and_however_long() -> None:
    team = quorum_team("ann", "ben", "cy")
    team.derive("ann", "pillar")
    for _ in range(60):
        team.rest_on("pillar", ["ann"], apart=DAY)
        team.act("ann", f"work{team.graph.concept_count}", depends_on=["pillar"])
    assert settled(team) == {}

    team.rest_on("pillar", ["ben", "cy", "ben"], apart=3 * DAY)
    team.rest_on("pillar", ["cy", "ben", "cy"], apart=3 * DAY)
    assert settled(team) == {"pillar": Status.CANONICAL}


def test_two_identities_citing_each_other_lift_nothing_of_their_own() -> None:
    team = quorum_team("ann", "ben", "cy")
    team.derive("ann", "left")
    team.derive("ben", "right")
    for _ in range(30):
        team.rest_on("left", ["ben"], apart=12 * HOUR)
        team.rest_on("right", ["ann"], apart=12 * HOUR)
        team.survive()
        team.settle()
        assert team.statuses() == {}
    assert any("outside that exchange" in reason for reason in team.explain("left").reasons)

    # A third agent is enough to tell the work from the exchange.
    team.rest_on("left", ["cy"])
    assert settled(team)["left"] is Status.CANONICAL


def test_one_other_agent_is_enough_for_candidate_and_two_for_venerable() -> None:
    team = quorum_team("ann", "ben", "cy")
    team.derive("ann", "pillar")
    team.rest_on("pillar", ["ben"] * 4)
    assert settled(team) == {"pillar": Status.CANDIDATE}
    team.rest_on("pillar", ["cy"])
    assert settled(team) == {"pillar": Status.VENERABLE}


def test_an_agent_whose_token_is_young_or_unknown_counts_for_nothing() -> None:
    team = quorum_team("ann", "ben")
    team.derive("ann", "pillar")
    team.token_created_at["cy"] = team.now
    team.rest_on("pillar", ["cy", "stranger"] * 3)
    assert team.measure("pillar").agent_count == 0
    assert settled(team) == {}

    team.token_created_at["cy"] = team.now - DAY * SECOND
    assert team.measure("pillar").agent_count == 0  # not older than a day
    team.wait(1)
    assert team.measure("pillar").agent_count == 1
    assert settled(team) == {"pillar": Status.CANDIDATE}


def test_what_was_written_under_a_name_before_it_had_a_token_never_counts() -> None:
    """One hand wrote as three agents; tokens of these names were made later."""
    team = quorum_team("ann")
    team.derive("ann", "pillar")
    team.rest_on("pillar", [*OTHERS, *OTHERS], apart=DAY)
    for agent in OTHERS:
        team.token_created_at[agent] = team.now
    team.wait(30 * DAY)
    assert team.measure("pillar").agent_count == 0
    assert settled(team) == {}

    # What the agents themselves write counts.
    team.rest_on("pillar", [*OTHERS, *OTHERS], apart=3 * DAY)
    assert settled(team) == {"pillar": Status.CANONICAL}


def test_an_edge_drawn_with_a_token_to_what_was_written_without_one_never_counts() -> None:
    team = quorum_team("ann", "dee")
    team.derive("ann", "pillar")
    for number in range(4):
        team.derive("ben", f"work{number}")
        team.wait(DAY)
    team.token_created_at["ben"] = team.now
    for number in range(4):
        team.derive("dee", f"work{number}", on=["pillar"])
        team.wait(DAY)
    team.wait(DAY)
    assert team.measure("pillar").distinct == 0
    assert settled(team) == {}

    team.rest_on("pillar", ["ben", "dee", "ben", "dee"], apart=3 * DAY)
    assert team.measure("pillar").distinct == 4
    assert settled(team) == {"pillar": Status.VENERABLE}


def test_an_edge_drawn_to_the_work_of_others_credits_only_who_drew_it() -> None:
    """One agent made three others' concepts parts of its own."""
    team = quorum_team("ann", "ben", "cy", "dee")
    team.derive("ann", "pillar")
    for agent in ("ben", "cy", "dee"):
        team.derive(agent, f"work of {agent}")
        team.wait(HOUR)
    for agent in ("ben", "cy", "dee"):
        team.derive("ann", f"work of {agent}", parent="pillar")
        team.wait(HOUR)
    assert team.graph.blast_radius(team.row("pillar")) == 3
    assert team.measure("pillar").distinct == 0
    assert settled(team) == {}


def test_a_vote_for_the_author_s_own_dependents_is_not_counted() -> None:
    """Another agent joined concepts of the author to the pillar."""
    team = quorum_team("ann", "ben")
    team.derive("ann", "pillar")
    for number in range(4):
        team.derive("ann", f"mine{number}")
        team.wait(HOUR)
        team.derive("ben", f"mine{number}", on=["pillar"])
        team.wait(HOUR)
    assert team.graph.blast_radius(team.row("pillar")) == 4
    assert settled(team) == {}


def test_many_short_openings_promote_what_one_long_run_promotes() -> None:
    """Also if every opening starts with nothing remembered."""

    def run(*, is_put_away: bool) -> dict[str, Status]:
        team = Team()
        team.derive("ann", "pillar", "other")
        for turn in range(200):
            team.rest_on("pillar" if turn % 3 else "other", ["ben"], apart=HOUR)
            if is_put_away:
                team.graph = load_snapshot(take_snapshot(team.graph))
                team.state, team.timeline = EvaluationState(), Timeline()
                team.survive()
                team.cycle()
        team.survive()
        team.settle()
        return team.statuses()

    assert run(is_put_away=True) == run(is_put_away=False)
    assert run(is_put_away=True)["pillar"] is Status.CANONICAL
