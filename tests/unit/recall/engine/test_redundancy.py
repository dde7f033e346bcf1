"""Hits that say what another says: who gives way, and who never does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory.engine.config import SkipRedundant
from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, Vector, check_vector
from memory.engine.requests import RecallRequest
from memory.engine.times import SECOND
from memory.engine.types import ConceptType, EdgeType, NodeId, Status
from memory.engine.vector_table import VectorTable
from recall.engine.hot_list import NO_HOT_LIST, HotCondition, HotEntry, HotList
from recall.engine.pipeline import recall
from recall.engine.results import RecallResult
from recall.engine.settings import DEFAULT_SETTINGS
from recall_graphs import START, GraphWriter, PlantedHotList

SIMILAR, SAME, OFF = SkipRedundant.SIMILAR, SkipRedundant.SAME, SkipRedundant.OFF
SAID, AGAIN = "alpha restarts the billing service", "alpha restarts the billing services"


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def note(writer: GraphWriter, content: str) -> NodeId:
    return writer.concept(content, kind=ConceptType.OBSERVATION)


def ask(
    writer: GraphWriter, kind: SkipRedundant, *, top_k: int = 2, hot: HotList = NO_HOT_LIST
) -> RecallResult:
    request = RecallRequest("alpha", top_k, 100_000, 0)
    settings = replace(DEFAULT_SETTINGS, skip_redundant=kind)
    return recall(writer.graph, request, now=START, settings=settings, hot=hot)


def test_the_next_distinct_one_takes_the_slot_of_a_repetition(writer: GraphWriter) -> None:
    ids = [note(writer, text) for text in ("alpha is up", "alpha  is\tup", "alpha is up\u200d")]
    other = note(writer, "alpha is down today")

    hits = ask(writer, SAME).hits

    assert [hit.node_id for hit in hits] == [ids[0], other]
    assert hits[0].skipped_redundant == tuple(ids[1:])
    assert hits[0].as_wire()["skipped_redundant"] == ids[1:]
    assert "skipped_redundant" not in hits[1].as_wire()
    assert [hit.node_id for hit in ask(writer, OFF).hits] == ids[:2]


def test_a_label_names_three_of_those_it_stands_for(writer: GraphWriter) -> None:
    for _ in range(6):
        note(writer, "alpha is up")
    first = ask(writer, SAME).context.splitlines()[0]
    assert first.endswith(", also 00000000 00000000 00000000 +2 more)")


def test_case_is_a_difference(writer: GraphWriter) -> None:
    note(writer, "alpha Polish")
    note(writer, "alpha polish")
    assert len(ask(writer, SAME).hits) == 2


def unit(*numbers: float) -> Vector:
    vector = check_vector(numbers, 3)
    assert not isinstance(vector, EmbeddingFailure)
    return vector


def pair(writer: GraphWriter, left: str, right: str, *, by: str) -> None:
    """Two concepts that are linked by meaning, or only as near as that."""
    ids = [note(writer, left), note(writer, right)]
    if by == "edge":
        writer.edge(ids[0], ids[1], EdgeType.SEMANTIC, weight=0.9)
        return
    writer.graph.contract = EmbeddingContract("by hand", None, 3)
    writer.graph.vectors = VectorTable(3)
    for node_id, vector in zip(ids, (unit(9, 1, 0), unit(9, 2, 0)), strict=True):
        writer.graph.vectors.put(writer.row(node_id), vector)


@pytest.mark.parametrize("by", ["edge", "vector"])
def test_like_texts_are_one_only_where_that_is_asked_for(writer: GraphWriter, by: str) -> None:
    pair(writer, SAID, AGAIN, by=by)
    assert len(ask(writer, SIMILAR).hits) == 1
    assert len(ask(writer, SAME).hits) == 2


@pytest.mark.parametrize("by", ["edge", "vector"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("alpha waits 3 seconds", "alpha waits 5 seconds"),
        ("alpha reads user_table", "alpha reads order_table"),
        ("alpha is cached", "alpha is not cached"),
        ("alpha is enabled", "alpha is disabled"),
        ("alpha calls beta", "beta calls alpha"),
    ],
)
def test_like_texts_of_another_meaning_are_two(
    writer: GraphWriter, left: str, right: str, by: str
) -> None:
    pair(writer, left, right, by=by)
    assert len(ask(writer, SIMILAR).hits) == 2


@pytest.mark.parametrize("apart", [EdgeType.CONTRADICTS, EdgeType.SUSPECTED_SUPERSEDES])
def test_what_is_declared_apart_stays_apart(writer: GraphWriter, apart: EdgeType) -> None:
    first, second = note(writer, "alpha is up"), note(writer, "alpha is up")
    writer.edge(second, first, apart)
    assert len(ask(writer, SAME).hits) == 2


def test_whoever_has_a_warning_of_its_own_is_not_skipped(writer: GraphWriter) -> None:
    note(writer, "alpha is up")
    reserved, hot, free = (note(writer, "alpha is up") for _ in range(3))
    writer.reserve(reserved, agent="bob", expires_at=START + SECOND)
    planted = PlantedHotList({hot: [HotEntry(HotCondition.HIGH_RISK, "risky")]})
    shown = {hit.node_id for hit in ask(writer, SAME, top_k=4, hot=planted).hits}
    assert {reserved, hot} <= shown
    assert free not in shown


def test_a_canonical_repetition_is_shown_with_its_warning(writer: GraphWriter) -> None:
    for _ in range(2):
        writer.concept("alpha is up", kind=ConceptType.OBSERVATION, status=Status.CANONICAL)
    assert len(ask(writer, SAME).hits) == 2


def test_far_down_the_list_nothing_is_compared(writer: GraphWriter) -> None:
    for number in range(20):
        note(writer, f"alpha {number:02}")
    for _ in range(5):
        note(writer, "alpha and many other words that make it worth less")
    assert len(ask(writer, SAME, top_k=25).hits) == 25
