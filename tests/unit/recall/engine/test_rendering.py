from __future__ import annotations

import sys

import pytest

from memory.engine.showing import one_line
from memory.engine.times import parse_rfc3339
from memory.engine.types import ConceptType, Reservation, Status
from recall.engine.rendering import (
    conflict_line,
    display_name,
    drift_line,
    high_risk_line,
    hit_label,
    interaction_label,
    load_bearing_line,
    node_label,
    reservation_line,
    stale_line,
)
from recall_graphs import GraphWriter


def test_lines_read_as_specified() -> None:
    assert load_bearing_line(0) == (
        "⚑ Load-bearing pillar — 0 nodes depend on this. Modify with caution."
    )
    assert conflict_line("agent-a", 11) == "Agent A wrote to it 11 seconds ago"
    assert high_risk_line("8 dependents") == "High-risk modification: 8 dependents"
    assert drift_line(6, "g-1") == "Drifted 6 hops from root goal g-1"
    assert stale_line(3601) == "Session inactive 3601 seconds"


def test_reservation_line_cuts_the_time_to_seconds() -> None:
    expires = parse_rfc3339("t", "2025-07-08T22:40:00.999+02:00")

    assert reservation_line(Reservation("n", "agent-c", expires)) == (
        "Reserved by agent-c until 2025-07-08T20:40:00Z"
    )


@pytest.mark.parametrize(
    ("agent_id", "name"),
    [
        ("agent-a", "A"),
        ("agent-planner-2", "Planner-2"),
        ("claude", "Claude"),
        ("agent-", "Agent-"),
        ("my-agent-x", "My-agent-x"),
        ("élan", "Élan"),
    ],
)
def test_display_name_drops_the_prefix_and_raises_the_first_letter(
    agent_id: str, name: str
) -> None:
    assert display_name(agent_id) == name


def test_hit_label_of_an_ordinary_hit() -> None:
    assert hit_label(
        "user schema", concept_type=ConceptType.ENTITY, score=1.005, blast_radius=None
    ) == ("user schema [Entity] (score 1.00)")


def test_hit_label_of_a_canonical_hit_shows_its_radius_also_when_zero() -> None:
    assert hit_label("x", concept_type=ConceptType.LOGIC, score=2.5, blast_radius=0) == (
        "x [Logic, canonical] (score 2.50, blast radius 0)"
    )


def test_hit_label_with_an_author_names_who_wrote_it() -> None:
    label = hit_label(
        "x", concept_type=ConceptType.LOGIC, score=0, blast_radius=2, author="agent-a"
    )

    assert label == "x [Logic, canonical, by agent-a] (score 0.00, blast radius 2)"


@pytest.mark.parametrize(
    ("status", "label"),
    [
        (Status.NONE, "x [Resource]"),
        (Status.CANDIDATE, "x [Resource, candidate]"),
        (Status.VENERABLE, "x [Resource, venerable]"),
        (Status.CANONICAL, "x [Resource, canonical]"),
    ],
)
def test_node_label_names_an_earned_status(status: Status, label: str) -> None:
    writer = GraphWriter()
    writer.interact()
    row = writer.row(writer.concept("x", kind=ConceptType.RESOURCE, status=status))

    assert node_label(writer.graph, row) == label


def test_interaction_label_is_its_id() -> None:
    assert interaction_label("i-1") == "<interaction i-1>"


def test_one_line_marks_each_break_once() -> None:
    assert one_line("a\nb\r\nc\rd\n\ne\n") == "a ⏎ b ⏎ c ⏎ d ⏎  ⏎ e ⏎ "


def test_one_line_knows_every_break_python_knows() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    breaks = {character for character in characters if len(f"a{character}b".splitlines()) > 1}

    shown = one_line("a".join(characters))

    assert len(breaks) == 10
    assert shown == "a".join(" ⏎ " if text in breaks else text for text in characters)
