from __future__ import annotations

import pytest

from memory.engine.config import FusionKind
from recall.engine.candidates import LEG_DEPTH, Candidate, Leg
from recall.engine.fusion import (
    CONTEXT_CONCEPTS,
    CONTEXT_LENDERS,
    fuse,
    merge_by_max,
    unfound_relevance,
)
from recall.engine.settings import FusionSettings
from recall_graphs import MAX, GraphWriter

PLAIN = FusionSettings(k=3.0, keyword_weight=1.0, vector_weight=1.0, context_weight=0.0)
"""Reciprocal rank fusion and nothing else."""


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def chain_of(writer: GraphWriter, count: int) -> list[int]:
    """Rows of concepts that were written one after the other."""
    rows = []
    for _ in range(count):
        interaction = writer.interact()
        rows.append(writer.row(writer.concept(f"written by {interaction}")))
    return rows


# -- by the highest score --------------------------------------------------------------------------


def test_merge_keeps_the_highest_raw_score_and_every_leg(writer: GraphWriter) -> None:
    both, keyword_only, recent_only = (
        writer.row(writer.concept(text)) for text in ("both", "one", "two")
    )

    merged = merge_by_max(
        writer.graph,
        [
            (Leg.KEYWORD, [(both, 0.2), (keyword_only, 3.8)]),
            (Leg.RECENT, [(both, 0.35), (recent_only, 0.35)]),
        ],
    )

    assert merged == [
        Candidate(keyword_only, 3.8, (Leg.KEYWORD,)),
        Candidate(both, 0.35, (Leg.KEYWORD, Leg.RECENT)),
        Candidate(recent_only, 0.35, (Leg.RECENT,)),
    ]


def test_merge_when_scores_tie_orders_by_id_not_by_row(writer: GraphWriter) -> None:
    late_id = writer.row(writer.concept("first written", number=9))
    early_id = writer.row(writer.concept("second written", number=2))

    merged = merge_by_max(writer.graph, [(Leg.RECENT, [(late_id, 0.5), (early_id, 0.5)])])

    assert [candidate.row for candidate in merged] == [early_id, late_id]


# -- by rank ---------------------------------------------------------------------------------------


def test_fusion_by_rank_adds_what_the_places_are_worth(writer: GraphWriter) -> None:
    a, b, c = chain_of(writer, 3)
    legs = [(Leg.KEYWORD, [(a, 7.0), (b, 2.0)]), (Leg.VECTOR, [(b, 0.9), (c, 0.5)])]

    fused = fuse(writer.graph, legs, fusion=PLAIN, limit=10)

    assert [(candidate.row, candidate.legs) for candidate in fused] == [
        (b, (Leg.KEYWORD, Leg.VECTOR)),
        (a, (Leg.KEYWORD,)),
        (c, (Leg.VECTOR,)),
    ]
    assert [candidate.score for candidate in fused] == pytest.approx(
        [1 / (3 + 2) + 1 / (3 + 1), 1 / (3 + 1), 1 / (3 + 2)]
    )


def test_what_is_far_from_the_nearest_meaning_has_no_place_in_a_small_session(
    writer: GraphWriter,
) -> None:
    a, b, c = chain_of(writer, 3)
    legs = [(Leg.VECTOR, [(a, 0.8), (b, 0.4), (c, 0.39)])]
    fused = fuse(writer.graph, legs, fusion=PLAIN, limit=10)
    assert [candidate.row for candidate in fused] == [a, b]
    # Nothing is near: what points the other way is left out all the same.
    legs = [(Leg.VECTOR, [(a, 0.0), (b, -0.2)])]
    assert [found.row for found in fuse(writer.graph, legs, fusion=PLAIN, limit=10)] == [a]


def test_fusion_by_rank_when_a_leg_has_equals_they_share_a_place(writer: GraphWriter) -> None:
    a, b, c, d = chain_of(writer, 4)
    leg = [(a, 5.0), (b, 4.0), (c, 4.0), (d, 1.0)]

    fused = fuse(writer.graph, [(Leg.KEYWORD, leg)], fusion=PLAIN, limit=10)

    score = {candidate.row: candidate.score for candidate in fused}
    assert score == pytest.approx({a: 1 / 4, b: 1 / 5, c: 1 / 5, d: 1 / 7})


def test_fusion_by_rank_when_a_leg_weighs_nothing_it_is_left_out(writer: GraphWriter) -> None:
    a, b = chain_of(writer, 2)
    legs = [(Leg.KEYWORD, [(a, 1.0)]), (Leg.VECTOR, [(b, 1.0)]), (Leg.RECENT, [(b, 0.3)])]
    fusion = FusionSettings(vector_weight=0.0, recent_weight=0.0, context_weight=0.0)

    fused = fuse(writer.graph, legs, fusion=fusion, limit=10)

    assert [candidate.row for candidate in fused] == [a]


def test_fusion_by_rank_keeps_the_best_and_no_more_than_asked(writer: GraphWriter) -> None:
    rows = chain_of(writer, 6)
    leg = [(row, 1.0) for row in reversed(rows)]

    fused = fuse(writer.graph, [(Leg.VECTOR, leg)], fusion=PLAIN, limit=2)

    assert [candidate.row for candidate in fused] == rows[:2]  # equals: by id


def test_what_was_written_around_an_answer_is_lent_its_relevance(writer: GraphWriter) -> None:
    """Two steps along the chain: half a step after, half of that before, halved again further."""
    rows = chain_of(writer, 7)
    fusion = FusionSettings(keyword_weight=1.0, k=3.0, context_weight=0.4)

    fused = fuse(writer.graph, [(Leg.KEYWORD, [(rows[3], 1.0)])], fusion=fusion, limit=10)

    assert {candidate.row: candidate.score for candidate in fused} == pytest.approx(
        {
            rows[1]: 0.25 * 0.1,
            rows[2]: 0.25 * 0.2,
            rows[3]: 0.25,
            rows[4]: 0.25 * 0.4,
            rows[5]: 0.25 * 0.2,
        }
    )
    assert fused[1].legs == (Leg.CONTEXT,)


def test_what_was_written_in_one_go_shares_what_it_is_lent(writer: GraphWriter) -> None:
    (answer,) = chain_of(writer, 1)
    writer.interact()
    together = [writer.row(writer.concept(f"part {number}")) for number in range(4)]
    fusion = FusionSettings(keyword_weight=1.0, k=3.0, context_weight=0.4)

    fused = fuse(writer.graph, [(Leg.KEYWORD, [(answer, 1.0)])], fusion=fusion, limit=10)

    score = {candidate.row: candidate.score for candidate in fused}
    assert [score[row] for row in together] == pytest.approx([0.25 * 0.4 / 4] * 4)


def test_a_long_write_neither_lends_nor_gets(writer: GraphWriter) -> None:
    (answer,) = chain_of(writer, 1)
    writer.interact()
    long = [writer.row(writer.concept(f"piece {n}")) for n in range(CONTEXT_CONCEPTS + 1)]
    (after,) = chain_of(writer, 1)

    legs = [(Leg.KEYWORD, [(answer, 2.0), (long[0], 1.0)])]
    fused = fuse(writer.graph, legs, fusion=FusionSettings(), limit=100)

    # Two steps on, `after` is lent by `answer`; one step back, `long` lends it nothing.
    assert {candidate.row for candidate in fused} == {answer, long[0], after}
    assert fused[-1].score == pytest.approx(0.25 * FusionSettings().context_weight * 0.5)


def test_only_the_best_lend_and_of_equals_at_the_end_none(writer: GraphWriter) -> None:
    """Whom ids would choose among equals must not decide what stands beside them."""
    (beside, *found) = chain_of(writer, CONTEXT_LENDERS + 3)
    scores = [2.0] * 2 + [1.0] * (len(found) - 2)
    legs = [(Leg.KEYWORD, list(zip(reversed(found), scores, strict=True)))]

    fused = fuse(writer.graph, legs, fusion=FusionSettings(), limit=100)

    # The two that lead stand at the far end of the chain; none of the rest lends to `beside`.
    assert beside not in {candidate.row for candidate in fused}
    lent = {candidate.row for candidate in fused if Leg.CONTEXT in candidate.legs}
    assert lent == set(found[-4:])


def test_being_new_lends_nothing(writer: GraphWriter) -> None:
    rows = chain_of(writer, 3)

    fused = fuse(writer.graph, [(Leg.RECENT, [(rows[2], 0.35)])], fusion=FusionSettings(), limit=9)

    assert [candidate.row for candidate in fused] == [rows[2]]


def test_nothing_fused_is_nothing(writer: GraphWriter) -> None:
    for fusion in (PLAIN, MAX):
        assert fuse(writer.graph, [(Leg.KEYWORD, [])], fusion=fusion, limit=5) == []


def test_what_no_leg_found_is_worth_the_last_place() -> None:
    assert unfound_relevance(MAX) == 0.0
    assert unfound_relevance(PLAIN) == 1 / (PLAIN.k + LEG_DEPTH)
    assert PLAIN.kind is FusionKind.RRF
