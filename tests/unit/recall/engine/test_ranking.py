from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from memory.engine.types import Status
from recall.engine.ranking import blend, select
from recall.engine.settings import DEFAULT_SETTINGS, RecallSettings
from recall_graphs import BY_MAX, GraphWriter


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def blended(
    daemon: list[float] | None,
    *,
    w_daemon: float = 0.5,
    w_query: float = 0.5,
    under: RecallSettings = BY_MAX,
) -> list[float]:
    """The scores of rows 0, 1, 2 whose relevance is 2.0, 0.0, 1.0."""
    scores = blend(
        np.arange(3),
        np.array([2.0, 0.0, 1.0]),
        daemon_scores=None if daemon is None else np.array(daemon),
        settings=replace(under, w_daemon=w_daemon, w_query=w_query),
    )
    return [float(score) for score in scores]


def test_blend_is_the_weighted_sum_of_structure_and_relevance() -> None:
    assert blended([1.0, 0.5, 0.0], w_daemon=0.25, w_query=0.75) == [1.75, 0.125, 0.75]


def test_blend_when_nothing_is_scored_yet_is_relevance_alone() -> None:
    assert blended(None) == [1.0, 0.0, 0.5]


def test_blend_when_a_row_has_no_score_counts_it_as_zero() -> None:
    assert blended([1.0]) == [1.5, 0.0, 0.5]
    assert blended([math.nan, 1.0, math.inf]) == [1.0, 0.5, 0.5]


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_blend_when_a_weight_is_impossible_counts_it_as_zero(weight: float) -> None:
    assert blended([1.0, 1.0, 1.0], w_daemon=weight) == [1.0, 0.0, 0.5]
    assert blended([1.0, 1.0, 1.0], w_query=weight) == [0.5, 0.5, 0.5]


def test_blend_by_rank_lets_standing_scale_relevance() -> None:
    """A sum let a concept of high standing lead answers it had nothing to do with."""
    scores = blended([0.7, 1.4, 1.4], w_daemon=0.25, w_query=0.75, under=DEFAULT_SETTINGS)
    assert scores == pytest.approx([2.0 * (0.75 + 0.25 * 0.5 / 4), 0.0, 0.75 + 0.25 / 4])


def test_blend_by_rank_when_nothing_is_scored_yet_is_relevance_alone() -> None:
    for daemon in (None, [], [0.0, math.nan, math.inf]):
        assert blended(daemon, under=DEFAULT_SETTINGS) == [1.0, 0.0, 0.5]


def chosen(
    writer: GraphWriter, scores: list[float], *, top_k: int, forced: list[int] | None = None
) -> list[str]:
    rows = np.array(writer.graph.concept_rows(), dtype=np.int64)
    positions = select(
        writer.graph, rows, np.array(scores), top_k=top_k, forced=[] if forced is None else forced
    )
    return [writer.graph.content_at(int(rows[position])) for position in positions]


def test_select_puts_canonical_before_any_score(writer: GraphWriter) -> None:
    writer.concept("high")
    writer.concept("pillar", status=Status.CANONICAL)
    writer.concept("venerable", status=Status.VENERABLE)

    assert chosen(writer, [9.0, 0.1, 5.0], top_k=5) == ["pillar", "high", "venerable"]


def test_select_when_canonical_fill_the_slots_leaves_the_rest_out(writer: GraphWriter) -> None:
    writer.concept("high")
    for name, number in (("p1", 12), ("p2", 11), ("p3", 10)):
        writer.concept(name, number=number, status=Status.CANONICAL)

    assert chosen(writer, [9.0, 0.1, 0.1, 0.2], top_k=2) == ["p3", "p2"]


def test_select_when_scores_tie_at_the_last_slot_takes_the_smallest_ids(
    writer: GraphWriter,
) -> None:
    for number in (5, 3, 9, 1, 7):
        writer.concept(f"n{number}", number=number)

    assert chosen(writer, [0.5, 0.5, 0.5, 0.5, 0.9], top_k=3) == ["n7", "n1", "n3"]


def test_select_when_members_are_forced_gives_them_no_slot(writer: GraphWriter) -> None:
    for name in ("a1", "b1", "c1", "d1"):
        writer.concept(name)

    assert chosen(writer, [0.9, 0.8, 0.7, 0.1], top_k=2, forced=[3]) == ["a1", "b1", "d1"]
    assert chosen(writer, [0.9, 0.8, 0.7, 0.1], top_k=2, forced=[0]) == ["a1", "b1", "c1"]


def test_select_when_all_are_forced_shows_all(writer: GraphWriter) -> None:
    for name in ("a1", "b1", "c1"):
        writer.concept(name)

    assert chosen(writer, [0.1, 0.2, 0.3], top_k=1, forced=[0, 1, 2]) == ["c1", "b1", "a1"]


def test_select_from_nothing_is_nothing(writer: GraphWriter) -> None:
    assert chosen(writer, [], top_k=3) == []
