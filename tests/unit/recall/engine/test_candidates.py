from __future__ import annotations

import pytest

from memory.engine.types import ConceptType
from recall.engine.candidates import Candidate, Leg, keyword_leg, merge_by_max, recent_leg
from recall_graphs import GraphWriter


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def test_keyword_leg_when_more_match_looks_four_times_top_k_far(writer: GraphWriter) -> None:
    for number in range(20):
        writer.concept(f"alpha n{number}")

    assert len(keyword_leg(writer.graph, "alpha", top_k=2)) == 8


def test_keyword_leg_finds_observations_and_other_forms_of_a_word(writer: GraphWriter) -> None:
    seen = writer.concept("Retrying requests failed", kind=ConceptType.OBSERVATION)
    writer.concept("something else")

    found = keyword_leg(writer.graph, "the retry of a request", top_k=5)

    assert [row for row, _ in found] == [writer.row(seen)]


def test_keyword_leg_when_only_stop_words_are_asked_finds_nothing(writer: GraphWriter) -> None:
    writer.concept("the schema")

    assert keyword_leg(writer.graph, "the of and", top_k=5) == []


def test_recent_leg_takes_concepts_of_the_newest_interactions_only() -> None:
    writer = GraphWriter()
    written = []
    for number in range(4):
        writer.interact()
        written.append(writer.row(writer.concept(f"c{number}")))

    recent = recent_leg(writer.graph, interactions=3, score=0.35)

    assert sorted(recent) == sorted((row, 0.35) for row in written[1:])


def test_recent_leg_when_the_session_is_empty_finds_nothing() -> None:
    assert recent_leg(GraphWriter().graph, interactions=3, score=0.35) == []


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
