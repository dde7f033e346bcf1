"""When a declared contradiction stands, and what answers it."""

from __future__ import annotations

import pytest

from canon.engine.contradictions import contradictions_of, find_contradictions
from canon_team import DAY, HOUR, Team
from memory.engine.mutations import DeleteEdge, PutEdge
from memory.engine.times import SECOND
from memory.engine.types import EdgeType


@pytest.fixture
def team() -> Team:
    made = Team()
    made.derive("ann", "belief")
    made.wait(HOUR)
    return made


def standing(team: Team) -> list[tuple[str, str, str]]:
    """(contradicted, contradictor, who declared it)."""
    return [
        (team.content(one.node_id), team.content(one.by), one.writer)
        for one in find_contradictions(team.graph, team.now)
    ]


def test_a_later_declaration_stands(team: Team) -> None:
    declared_at = team.now
    team.derive("ben", "denial", against=["belief"])
    (found,) = find_contradictions(team.graph, team.now)
    assert (team.content(found.node_id), team.content(found.by)) == ("belief", "denial")
    assert (found.writer, found.at) == ("ben", declared_at)
    assert contradictions_of(team.graph, [team.row("denial")], team.now) == []


def test_evidence_after_the_declaration_answers_it_once_it_is_old_enough(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    team.derive("cy", "use", on=["belief"])
    team.now -= SECOND
    team.wait(59.999999)
    assert standing(team) == [("belief", "denial", "ben")]
    team.wait(0.000001)
    assert standing(team) == []


def test_a_child_answers_as_a_citation_does(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    team.derive("cy", "part", parent="belief")
    team.wait(HOUR)
    assert standing(team) == []


def test_evidence_before_the_declaration_does_not_answer_it(team: Team) -> None:
    team.derive("cy", "use", on=["belief"])
    team.derive("ben", "denial", against=["belief"])
    team.wait(HOUR)
    assert standing(team) == [("belief", "denial", "ben")]


def test_what_the_declaring_agent_wrote_does_not_answer_it(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    team.derive("ben", "use", on=["belief"])
    team.wait(HOUR)
    assert standing(team) == [("belief", "denial", "ben")]


def test_what_the_contradictor_declares_does_not_answer_it(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    team.derive("cy", "denial", on=["belief"])
    team.wait(HOUR)
    assert standing(team) == [("belief", "denial", "ben")]


def test_a_dependent_of_the_belief_s_own_origin_does_not_answer_it() -> None:
    team = Team()
    team.derive("ann", "belief", "twin")
    team.derive("ben", "denial", against=["belief"])
    team.derive("cy", "twin", on=["belief"])
    team.wait(HOUR)
    assert standing(team) == [("belief", "denial", "ben")]


def test_citing_again_does_not_redate_the_evidence(team: Team) -> None:
    team.derive("cy", "use", on=["belief"])
    team.derive("ben", "denial", against=["belief"])
    team.derive("cy", "use", on=["belief"])
    team.wait(HOUR)
    assert standing(team) == [("belief", "denial", "ben")]


def test_declaring_again_does_not_redate_the_contradiction(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    team.derive("cy", "use", on=["belief"])
    team.derive("ben", "denial", against=["belief"])
    team.wait(HOUR)
    assert standing(team) == []


def test_a_backdated_declaration_is_as_old_as_it_says(team: Team) -> None:
    told = team.now - 10 * DAY * SECOND
    team.derive("ben", "denial", against=["belief"], event_time=told, is_backdated=True)
    assert standing(team) == []


def test_a_declaration_dated_ahead_is_as_old_as_its_write(team: Team) -> None:
    told = team.now + 10 * DAY * SECOND
    written = team.now
    team.derive("ben", "denial", against=["belief"], event_time=told, is_backdated=True)
    (found,) = find_contradictions(team.graph, team.now)
    assert found.at == written
    team.derive("cy", "use", on=["belief"])
    team.wait(HOUR)
    assert standing(team) == []


def test_the_newest_declaration_that_stands_is_told(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    team.derive("cy", "refutation", against=["belief"])
    assert standing(team) == [("belief", "refutation", "cy")]
    # Only the one who declared the newest has used the belief since; the older one is answered.
    team.derive("cy", "use", on=["belief"])
    team.wait(HOUR)
    assert standing(team) == [("belief", "refutation", "cy")]


def test_of_two_in_one_write_the_smaller_key_is_told(team: Team) -> None:
    team.derive("ben", "zebra says no", "apple says no", against=["belief"])
    assert standing(team) == [("belief", "apple says no", "ben")]


def test_a_concept_that_contradicts_itself_is_not_contradicted(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    edge = team.graph.edge_between(team.id("denial"), team.id("belief"), EdgeType.CONTRADICTS)
    assert edge is not None
    team.graph.apply(DeleteEdge(edge.id))
    team.graph.apply(PutEdge(edge._replace(source=edge.target)))
    assert standing(team) == []


def test_an_unknown_declarer_is_named_by_the_contradictor_s_author(team: Team) -> None:
    team.derive("ben", "denial", against=["belief"])
    edge = team.graph.edge_between(team.id("denial"), team.id("belief"), EdgeType.CONTRADICTS)
    assert edge is not None
    team.graph.apply(PutEdge(edge._replace(created_by="")))
    assert standing(team) == [("belief", "denial", "ben")]
