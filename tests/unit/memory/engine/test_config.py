"""Every setting of `Config` is refused by name outside its limits."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from memory.engine.config import BOUNDS, Config, Durability, FusionKind, MatchStrategy
from memory.engine.errors import InvalidConfiguration

ABSURD: tuple[Any, ...] = (-1, 1e300, 10**400, math.nan, math.inf, -math.inf, "", "text", True, [])


@pytest.mark.parametrize("setting", BOUNDS)
@pytest.mark.parametrize("value", ABSURD, ids=lambda value: f"{type(value).__name__}:{value!s:.9}")
def test_numeric_setting_when_absurd_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        Config(**{setting: value})
    assert refusal.value.fields["setting"] == setting
    assert refusal.value.message.startswith(f"{setting} must be ")
    assert str(BOUNDS[setting]) in refusal.value.message


@pytest.mark.parametrize("setting", BOUNDS)
def test_numeric_setting_at_zero_is_refused_unless_zero_means_something(setting: str) -> None:
    if BOUNDS[setting].low == 0:
        assert setting in {
            "default_traversal_depth",
            "recall_query_weight",
            "recall_score_weight",
            "fusion_k",  # the first place is then worth its whole weight
            "fusion_keyword_weight",
            "fusion_vector_weight",
            "fusion_recent_weight",
            "fusion_context_weight",
            "canonization_edge_min_age_seconds",
            "canonization_repromotion_cooldown_seconds",
            "hot_list_contradiction_max",
        }
        assert getattr(Config(**{setting: 0}), setting) == 0  # type: ignore[arg-type]
    else:
        with pytest.raises(InvalidConfiguration, match=setting):
            Config(**{setting: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", BOUNDS)
def test_numeric_setting_just_outside_its_range_is_refused(setting: str) -> None:
    bound = BOUNDS[setting]
    above: Any = int(bound.high) + 1 if bound.is_whole else math.nextafter(bound.high, math.inf)
    below: Any = int(bound.low) - 1 if bound.is_whole else math.nextafter(bound.low, -math.inf)
    for value in (above, below):
        with pytest.raises(InvalidConfiguration, match=setting):
            Config(**{setting: value})


@pytest.mark.parametrize("setting", [name for name, bound in BOUNDS.items() if bound.is_whole])
def test_whole_setting_given_a_fraction_is_refused(setting: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{setting} must be a whole number"):
        Config(**{setting: 2.5})  # type: ignore[arg-type]


def test_every_numeric_setting_has_a_bound() -> None:
    choices = {
        *("durability", "match_strategy", "fusion_kind", "accept_client_vectors"),
        *("promotion_policy", "canonization_supersede", "suspected_supersession_line"),
        "skip_redundant",
    }
    assert {field.name for field in fields(Config)} == {*BOUNDS, *choices}


def test_defaults_are_accepted_and_frozen() -> None:
    config = Config()
    assert config.durability is Durability.COMMIT
    assert config.match_strategy is MatchStrategy.CANONICAL
    assert config.find_warnings() == ()
    with pytest.raises(FrozenInstanceError):
        config.default_top_k = 6  # type: ignore[misc]


def test_fusion_of_neither_words_nor_meaning_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="must not both be 0"):
        Config(fusion_keyword_weight=0, fusion_vector_weight=0)


def test_weights_of_ranks_are_reported_as_useless_where_the_highest_score_decides() -> None:
    config = Config(fusion_kind=FusionKind.MAX, fusion_k=60, fusion_context_weight=0)
    told = config.find_warnings()
    assert [line.partition(" ")[0] for line in told] == ["fusion_k", "fusion_context_weight"]
    assert replace(config, fusion_kind=FusionKind.RRF).find_warnings() == ()


@pytest.mark.parametrize("value", ["Commit", "", "sync", None, 1, True])
def test_choice_outside_its_list_is_refused_with_the_list(value: Any) -> None:
    with pytest.raises(InvalidConfiguration, match="commit, behind, memory"):
        Config(durability=value)


def test_choice_given_as_text_becomes_the_member() -> None:
    assert Config(durability="behind").durability is Durability.BEHIND  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"heartbeat_seconds": 15.1}, "heartbeat_seconds"),
        ({"lease_ttl_seconds": 44.0}, "heartbeat_seconds"),
        ({"away_after_seconds": 11.0}, "outcome_unknown_after_seconds"),
        ({"retry_initial_seconds": 3.0}, "retry_max_seconds"),
        ({"recall_query_weight": 0, "recall_score_weight": 0}, "recall_query_weight"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        Config(**settings)
    assert refusal.value.fields["setting"] == named


def test_replace_checks_again() -> None:
    with pytest.raises(InvalidConfiguration, match="heartbeat_seconds"):
        replace(Config(), heartbeat_seconds=30.0)


def test_inert_settings_are_accepted_and_warned_about() -> None:
    warnings = Config(canonization_min_peer_count=3, flush_mutations=10).find_warnings()
    assert [warning.split()[0] for warning in warnings] == [
        "canonization_min_peer_count",
        "flush_mutations",
    ]
    assert Config(durability=Durability.BEHIND, flush_mutations=10).find_warnings() == ()
