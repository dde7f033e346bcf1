"""Questions asked again: the same answer, never an older one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory.engine.graph import Graph
from memory.engine.mutations import DeleteConcept
from memory.engine.requests import ConceptFilter, RecallRequest
from memory.engine.types import ConceptType
from recall.engine.member_cache import MemberCache
from recall.engine.pipeline import recall
from recall.engine.settings import DEFAULT_SETTINGS
from recall_graphs import BY_MAX, START, GraphWriter

ASKED = RecallRequest("alpha", traversal_depth=1)


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    writer.concept("alpha one")
    return writer


def ask(graph: Graph, cache: MemberCache, asked: RecallRequest = ASKED) -> list[str]:
    """What a recall shows, which has to be what it shows without a cache."""
    result = recall(graph, asked, now=START, cache=cache)
    assert result == recall(graph, asked, now=START)
    return [hit.content for hit in result.hits]


def test_a_question_asked_again_is_looked_up_once(writer: GraphWriter) -> None:
    cache = MemberCache()
    first = cache.gather(writer.graph, ASKED, settings=DEFAULT_SETTINGS, meanings=None)
    assert cache.gather(writer.graph, ASKED, settings=DEFAULT_SETTINGS, meanings=None) is first
    assert ask(writer.graph, cache) == ["alpha one"]
    assert len(cache) == 1


def test_what_is_written_or_taken_out_is_seen_at_once(writer: GraphWriter) -> None:
    cache = MemberCache()
    ask(writer.graph, cache)
    node = writer.concept("alpha two")
    assert ask(writer.graph, cache) == ["alpha one", "alpha two"]
    writer.graph.apply(DeleteConcept(node))
    assert ask(writer.graph, cache) == ["alpha one"]


def test_another_graph_of_the_same_name_and_epoch_has_answers_of_its_own() -> None:
    """As after a reload; many are made, for the id of one that is gone is soon used again."""
    cache = MemberCache()
    for number in range(50):
        writer = GraphWriter()
        writer.interact()
        writer.concept(f"alpha {number}")
        assert ask(writer.graph, cache) == [f"alpha {number}"]
        del writer


def test_what_makes_another_answer_is_another_question(writer: GraphWriter) -> None:
    base = writer.concept("beta")
    writer.depend(writer.graph.id_at(writer.graph.concept_rows()[0]), base)
    cache = MemberCache()
    for asked in (
        ASKED,
        replace(ASKED, top_k=1),
        replace(ASKED, traversal_depth=0),
        replace(ASKED, query="beta"),
    ):
        ask(writer.graph, cache, asked)
    assert len(cache) == 4
    one = cache.gather(writer.graph, ASKED, settings=DEFAULT_SETTINGS, meanings=None)
    assert cache.gather(writer.graph, ASKED, settings=BY_MAX, meanings=None) is not one


def test_a_filtered_question_is_not_kept(writer: GraphWriter) -> None:
    cache = MemberCache()
    ask(writer.graph, cache, replace(ASKED, wanted=ConceptFilter(types=(ConceptType.ENTITY,))))
    assert len(cache) == 0


def test_the_least_recently_asked_is_dropped(writer: GraphWriter) -> None:
    cache = MemberCache(entries_max=2)
    first = cache.gather(writer.graph, ASKED, settings=DEFAULT_SETTINGS, meanings=None)
    for query in ("one", "alpha", "two"):
        ask(writer.graph, cache, replace(ASKED, query=query))
    assert len(cache) == 2
    assert cache.gather(writer.graph, ASKED, settings=DEFAULT_SETTINGS, meanings=None) is first
