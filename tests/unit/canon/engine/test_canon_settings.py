"""Settings of canonization: refused outside their limits, and holding no bar of a gate."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from canon.engine.evaluation_state import EvaluationState, Resume, read_state, take_window
from canon.engine.settings import BOUNDS, CanonSettings, Policy
from canon_team import Team
from memory.engine.errors import InvalidConfiguration
from memory.engine.times import SECOND


def test_the_defaults_are_the_published_ones() -> None:
    settings = CanonSettings()
    assert settings.promotion_policy is Policy.SWARM
    assert settings.edge_min_age == 60 * SECOND
    assert settings.coverage_window == 14 * 86_400 * SECOND
    assert settings.repromotion_cooldown == 300 * SECOND
    assert settings.canonization_eval_batch_size == 50
    assert settings.max_canonical_nodes == 1_000
    assert settings.canonization_supersede is False


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *((setting, bound.low - 1) for setting, bound in BOUNDS.items()),
        *((setting, bound.high + 1) for setting, bound in BOUNDS.items()),
        *((setting, float("nan")) for setting in BOUNDS),
        *((setting, "10") for setting in BOUNDS),
        *((setting, True) for setting in BOUNDS),
        ("canonization_coverage_window_seconds", 86_399.999),
        ("canonization_coverage_window_seconds", 86_400.0005),
        ("canonization_eval_batch_size", 1.5),
        ("promotion_policy", "Swarm"),
        ("promotion_policy", 1),
        ("canonization_supersede", "yes"),
        ("canonization_supersede", 1),
    ],
)
def test_a_setting_outside_its_limits_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        CanonSettings(**{setting: value})
    assert refused.value.fields["setting"] == setting


def test_a_policy_may_be_named_by_text() -> None:
    assert CanonSettings(promotion_policy="quorum").promotion_policy is Policy.QUORUM  # type: ignore[arg-type]


def test_no_setting_moves_a_bar() -> None:
    names = {field.name for field in fields(CanonSettings)}
    assert names == {*BOUNDS, "promotion_policy", "canonization_supersede"}


@pytest.mark.parametrize(
    "state",
    [
        EvaluationState(),
        EvaluationState("a", "b", "c", Resume("t", "x"), Resume("u", ""), ("v", "w"), 2),
    ],
)
def test_a_state_is_read_back_as_it_was_stored(state: EvaluationState) -> None:
    assert read_state(state.as_json()) == state


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        "text",
        {},
        EvaluationState().as_json() | {"held": "abc"},
        EvaluationState().as_json() | {"candidates_after": 3},
        EvaluationState().as_json() | {"deferrals": None},
        EvaluationState().as_json() | {"hold_resume": ["only one"]},
    ],
)
def test_a_state_that_is_not_understood_is_a_fresh_start(stored: Any) -> None:
    assert read_state(stored) == EvaluationState()


def test_a_window_goes_around_the_ring_and_takes_nobody_twice() -> None:
    team = Team()
    team.derive("ann", *(f"c{n}" for n in range(5)))
    rows = team.graph.concept_rows()
    ids = sorted(team.graph.id_at(row) for row in rows)

    def window(after: str, size: int) -> list[int]:
        return [
            ids.index(team.graph.id_at(row)) for row in take_window(team.graph, rows, after, size)
        ]

    assert window("", 3) == [0, 1, 2]
    assert window(ids[3], 3) == [4, 0, 1]
    assert window(ids[4], 9) == [0, 1, 2, 3, 4]
    assert window(ids[1], 5) == [2, 3, 4, 0, 1]
