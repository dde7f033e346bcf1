"""Each bar at its edge, and the sentence of what fails there."""

from __future__ import annotations

import numpy as np
import pytest

from canon.engine import gates
from canon.engine.gates import Bar, Check
from memory.engine.times import SECOND


@pytest.mark.parametrize(
    ("failing", "passing"),
    [
        (gates.check_gc_survived(2), gates.check_gc_survived(3)),
        (
            gates.check_distinct(1, gates.CANDIDATE_DISTINCT),
            gates.check_distinct(2, gates.CANDIDATE_DISTINCT),
        ),
        (
            gates.check_distinct(2, gates.VENERABLE_DISTINCT),
            gates.check_distinct(3, gates.VENERABLE_DISTINCT),
        ),
        (gates.check_coverage(0.2999999999), gates.check_coverage(3 / 10)),
        (gates.check_radius(5), gates.check_radius(6)),
        (gates.check_solo_score(2.999, 3.0), gates.check_solo_score(3.0, 3.0)),
        (gates.check_budget(1_000, 1_000), gates.check_budget(999, 1_000)),
        (gates.check_held("some-id"), gates.check_held(None)),
        (
            gates.check_agents(1, gates.VENERABLE_AGENTS, reciprocal=None),
            gates.check_agents(2, gates.VENERABLE_AGENTS, reciprocal=None),
        ),
        (
            gates.check_agents(1, gates.CANDIDATE_AGENTS, reciprocal="ben"),
            gates.check_agents(1, gates.CANDIDATE_AGENTS, reciprocal=None),
        ),
        (
            gates.check_cooldown(0, 300 * SECOND, 300 * SECOND - 1),
            gates.check_cooldown(0, 300 * SECOND, 300 * SECOND),
        ),
    ],
)
def test_a_gate_opens_exactly_at_its_bar(failing: Check, passing: Check) -> None:
    assert failing.gate is passing.gate
    assert not failing.is_met
    assert failing.sentence
    assert failing.sentence.endswith(".")
    assert passing.is_met
    assert passing.sentence is None
    assert {"gate", "measured", "bar", "met"} <= failing.as_wire().keys()
    assert "sentence" not in passing.as_wire()


def test_who_was_never_demoted_is_not_cooling_and_a_future_demotion_is() -> None:
    assert gates.check_cooldown(None, 300 * SECOND, 0).is_met
    assert not gates.check_cooldown(10**17, 300 * SECOND, 0).is_met


def test_a_column_meets_a_bar_as_its_numbers_do() -> None:
    numbers = [4.0, 5.0, 5.5, 6.0]
    for bar in (Bar(5), Bar(5, is_strict=True)):
        column = bar.is_met_by(np.array(numbers)).tolist()
        assert column == [bar.is_met(number) for number in numbers]


def test_sentences_agree_with_their_numbers() -> None:
    assert gates.check_radius(1).sentence == "1 concept rests on it; more than 5 are needed."
    assert gates.check_gc_survived(1).sentence == (
        "It has outlived 1 sweep of garbage collection; 3 are needed."
    )
    assert gates.check_distinct(1, gates.VENERABLE_DISTINCT).sentence == (
        "What rests on it comes from 1 other interaction that is old enough; 3 are needed."
    )
