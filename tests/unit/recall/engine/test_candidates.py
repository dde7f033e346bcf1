from __future__ import annotations

import pytest

from memory.engine.types import ConceptType
from recall.engine.candidates import keyword_leg, recent_leg
from recall_graphs import GraphWriter


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def test_keyword_leg_when_more_match_stops_at_its_limit(writer: GraphWriter) -> None:
    for number in range(20):
        writer.concept(f"alpha n{number}")

    assert len(keyword_leg(writer.graph, "alpha", limit=8, by_question=False)) == 8


def test_keyword_leg_finds_observations_and_other_forms_of_a_word(writer: GraphWriter) -> None:
    seen = writer.concept("Retrying requests failed", kind=ConceptType.OBSERVATION)
    writer.concept("something else")

    found = keyword_leg(writer.graph, "the retry of a request", limit=20, by_question=False)

    assert [row for row, _ in found] == [writer.row(seen)]


def test_keyword_leg_when_only_stop_words_are_asked_finds_nothing(writer: GraphWriter) -> None:
    writer.concept("the schema")

    for by_question in (False, True):
        assert keyword_leg(writer.graph, "the of and", limit=20, by_question=by_question) == []


def test_keyword_leg_of_a_question_finds_words_whatever_mark_stands_beside_them(
    writer: GraphWriter,
) -> None:
    """A comma, a question mark or a slash beside a word hid it from everyone who asked for it."""
    comma, path = (
        writer.row(writer.concept(text))
        for text in ("the schema, as agreed", "rewrite handlers/users.rs")
    )

    def found(query: str, *, by_question: bool = True) -> set[int]:
        leg = keyword_leg(writer.graph, query, limit=20, by_question=by_question)
        return {row for row, _ in leg}

    assert found("what about the schema?") == {comma}
    assert found("users") == {path}
    assert found("handlers/users.rs") == {path}
    assert found("users", by_question=False) == set()


def test_keyword_leg_of_a_question_leaves_out_the_words_that_ask(writer: GraphWriter) -> None:
    asking = writer.row(writer.concept("what did she do about it"))
    meant = writer.row(writer.concept("the adoption agency"))

    def found(query: str) -> list[int]:
        return [row for row, _ in keyword_leg(writer.graph, query, limit=20, by_question=True)]

    assert found("What did she do about adoption?") == [meant]
    assert found("what did she do") == [asking]  # a query of nothing else is not left empty


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
