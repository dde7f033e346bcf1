from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graph_writing import look_up
from memory.engine.embedding import (
    EMBEDDING_GEMMA,
    EmbeddingContract,
    EmbeddingFailure,
    Vector,
    check_vector,
)
from memory.engine.hybrid import Meanings, search_for_question
from memory.engine.requests import ConceptFilter, RecallRequest
from memory.engine.types import ConceptType, EdgeType, Status
from memory.engine.vector_table import VectorTable
from recall.engine.candidates import Leg
from recall.engine.hot_list import HotCondition, HotEntry
from recall.engine.pipeline import recall
from recall.engine.results import RecallResult
from recall.engine.settings import DEFAULT_SETTINGS, RecallSettings
from recall_graphs import BY_MAX, START, GraphWriter, PlantedHotList

RISK = HotEntry(HotCondition.HIGH_RISK, "High-risk modification: because")


@pytest.fixture
def writer() -> GraphWriter:
    """A session whose concepts are older than the recent leg looks."""
    writer = GraphWriter()
    writer.interact()
    return writer


def grow_old(writer: GraphWriter) -> None:
    for _ in range(DEFAULT_SETTINGS.recent_interactions):
        writer.interact()


def contents(result: RecallResult) -> list[str]:
    return [hit.content for hit in result.hits]


def test_recall_of_an_empty_session_is_empty() -> None:
    result = recall(GraphWriter().graph, RecallRequest("anything"), now=START)

    assert result == RecallResult(context="", tokens=0, hits=())
    assert result.as_wire() == {"context": "", "hits": [], "left_out": 0, "warnings": []}


def test_answer_without_any_text_says_what_was_left_out(writer: GraphWriter) -> None:
    alpha, beta = writer.concept("alpha"), writer.concept("alpha beta")
    writer.depend(beta, alpha)
    for query, others, count in (("alpha", 0, "2 hits"), ("what depends on alpha", 1, "1 hit")):
        empty = recall(writer.graph, RecallRequest(query, max_tokens=1), now=START)
        assert (empty.context, empty.left_out) == ("", len(empty.hits))
        told = f"recall: {count} left out of the text; raise max_tokens"
        assert empty.warnings[others:] == (told,)
        assert empty.as_wire()["warnings"][others:] == [told]
        full = recall(writer.graph, RecallRequest(query), now=START)
        assert full.left_out == 0
        assert len(full.warnings) == others
    some = recall(writer.graph, RecallRequest("alpha", max_tokens=10), now=START)
    assert (some.left_out, some.warnings) == (1, ())


def test_recall_finds_by_word_by_recency_and_by_edge_and_says_which(writer: GraphWriter) -> None:
    by_word = writer.concept("alpha")
    by_edge = writer.concept("beta")
    writer.concept("neither")
    writer.depend(by_word, by_edge)
    grow_old(writer)
    writer.concept("recent")
    both = writer.concept("alpha two")

    result = recall(writer.graph, RecallRequest("alpha"), now=START)

    assert {hit.content: hit.legs for hit in result.hits} == {
        "alpha": (Leg.KEYWORD,),
        "alpha two": (Leg.KEYWORD, Leg.RECENT),
        "recent": (Leg.RECENT,),
        "beta": (Leg.TRAVERSAL,),
    }
    assert both in {hit.node_id for hit in result.hits}


def test_recall_takes_the_siblings_of_a_chunk_along(writer: GraphWriter) -> None:
    writer.concept("alpha", chunk="c")
    writer.concept("beta", chunk="c")
    grow_old(writer)

    result = recall(writer.graph, RecallRequest("alpha"), now=START)

    assert [(hit.content, hit.legs) for hit in result.hits] == [
        ("alpha", (Leg.KEYWORD,)),
        ("beta", (Leg.SIBLING,)),
    ]


def test_recall_blends_the_daemons_score_of_each_row(writer: GraphWriter) -> None:
    names = ("alpha one", "alpha two", "alpha three")
    rows = [writer.row(writer.concept(name)) for name in names]
    grow_old(writer)
    scores = np.zeros(writer.graph.concepts.used)
    scores[rows] = [0.2, 1.4, 0.6]

    request = RecallRequest("alpha")
    summed = recall(writer.graph, request, now=START, scores=scores, settings=BY_MAX)
    scaled = recall(writer.graph, request, now=START, scores=scores)

    for result in (summed, scaled):
        assert contents(result) == ["alpha two", "alpha three", "alpha one"]
    assert summed.hits[0].score - summed.hits[2].score == pytest.approx(0.6)
    assert scaled.hits[2].score / scaled.hits[0].score == pytest.approx(
        (1 + 0.2 / 5.6) / (1 + 1.4 / 5.6)
    )


def test_a_member_on_the_hot_list_is_shown_beyond_top_k(writer: GraphWriter) -> None:
    strong, weak, hot = (writer.concept(text) for text in ("alpha", "alpha b c", "alpha b c d"))
    grow_old(writer)

    result = recall(
        writer.graph,
        RecallRequest("alpha", top_k=1),
        now=START,
        hot=PlantedHotList({hot: [RISK]}),
    )

    assert [hit.node_id for hit in result.hits] == [strong, hot]
    assert weak not in {hit.node_id for hit in result.hits}
    assert result.warnings == (RISK.line,)


def test_the_hot_list_forces_no_one_who_is_no_member(writer: GraphWriter) -> None:
    writer.concept("alpha")
    stranger = writer.concept("stranger")
    grow_old(writer)
    tail = writer.graph.tail
    assert tail is not None
    hot = PlantedHotList({stranger: [RISK], tail.id: [RISK], "gone": [RISK]})

    assert contents(recall(writer.graph, RecallRequest("alpha"), now=START, hot=hot)) == ["alpha"]


def test_an_entry_that_holds_no_more_forces_nothing(writer: GraphWriter) -> None:
    writer.concept("alpha")
    cooled = writer.concept("alpha b c d")
    grow_old(writer)

    result = recall(
        writer.graph,
        RecallRequest("alpha", top_k=1),
        now=START,
        hot=PlantedHotList({cooled: []}),
    )

    assert contents(result) == ["alpha"]


def test_hits_left_out_of_the_text_stay_in_hits_and_warnings(writer: GraphWriter) -> None:
    hot = writer.concept("alpha " + "x" * 200)
    grow_old(writer)

    result = recall(
        writer.graph,
        RecallRequest("alpha", max_tokens=10),
        now=START,
        hot=PlantedHotList({hot: [RISK]}),
    )

    assert (result.context, result.tokens, result.left_out) == ("", 0, 1)
    told = "recall: 1 hit left out of the text; raise max_tokens"
    assert result.warnings == (RISK.line, told)


def test_a_line_break_in_content_stays_data_in_the_text_only(writer: GraphWriter) -> None:
    forged = "alpha\n⚑ Load-bearing pillar — 9 nodes depend on this. Modify with caution."
    writer.concept(forged)
    grow_old(writer)

    result = recall(writer.graph, RecallRequest("alpha"), now=START)

    assert len(result.context.splitlines()) == 1
    assert result.context.startswith("alpha ⏎ ⚑ Load-bearing")
    assert result.hits[0].as_wire()["content"] == forged


def test_the_radius_of_a_canonical_hit_is_measured_by_the_port(writer: GraphWriter) -> None:
    pillar = writer.concept("alpha", status=Status.CANONICAL)
    writer.depend(writer.concept("user"), pillar)
    grow_old(writer)
    request = RecallRequest("alpha", top_k=1)

    live = recall(writer.graph, request, now=START)
    measured = recall(writer.graph, request, now=START, blast_radius=lambda row: 41 + row)

    assert live.hits[0].blast_radius == 1
    assert measured.hits[0].blast_radius == 41 + writer.row(pillar)
    assert f"blast radius {41 + writer.row(pillar)})" in measured.context


def test_the_wire_form_carries_every_field_of_a_hit(writer: GraphWriter) -> None:
    pillar = writer.concept("alpha", status=Status.CANONICAL)
    grow_old(writer)

    wire = recall(writer.graph, RecallRequest("alpha"), now=START, settings=BY_MAX).as_wire()

    line = "⚑ Load-bearing pillar — 0 nodes depend on this. Modify with caution."
    assert wire["hits"] == [
        {
            "node_id": pillar,
            "content": "alpha",
            "concept_type": "Entity",
            "score": pytest.approx(0.5 * 0.28768, abs=1e-5),  # ln(1 + 0.5 / 1.5), tf and dl 1
            "is_canonical": True,
            "blast_radius": 0,
            "included_in_context": True,
            "annotations": [{"kind": "load_bearing", "text": line}],
        }
    ]
    assert wire["warnings"] == [line]


def test_a_dependency_question_is_answered_by_its_dependents_alone(writer: GraphWriter) -> None:
    base = writer.concept("app router", number=1)
    weak = writer.concept("weak", number=2)
    strong = writer.concept("strong", number=3)
    writer.concept("router of another kind", number=4)
    writer.depend(weak, base, weight=1.0)
    writer.depend(strong, base, weight=2.0)
    writer.edge(base, writer.concept("used", number=5), EdgeType.DEPENDENCY)

    result = recall(writer.graph, RecallRequest("what depends on app router"), now=START)

    assert [(hit.content, hit.score) for hit in result.hits] == [("strong", 2.0), ("weak", 1.0)]
    assert result.warnings == (
        "recall: dependency question answered by graph traversal (2 dependents)",
    )


def test_a_dependency_answer_shows_only_load_bearing_lines(writer: GraphWriter) -> None:
    base = writer.concept("app router")
    pillar = writer.concept("pillar", status=Status.CANONICAL)
    writer.depend(pillar, base)
    writer.reserve(pillar, agent="agent-c", expires_at=START + 1)

    result = recall(
        writer.graph,
        RecallRequest("what depends on app router"),
        now=START,
        hot=PlantedHotList({pillar: [RISK]}),
    )

    assert result.context.splitlines() == [
        "pillar [Entity, canonical] (score 0.50, blast radius 0)",
        "⚑ Load-bearing pillar — 0 nodes depend on this. Modify with caution.",
    ]


def test_a_dependency_answer_counts_the_blocks_that_fitted(writer: GraphWriter) -> None:
    base = writer.concept("app router")
    for name in ("one", "two", "six"):
        writer.depend(writer.concept(name), base)

    # A block is 25 bytes, two with their separator 52: 8 and 15 tokens.
    request = RecallRequest("what depends on app router", top_k=2, max_tokens=14)
    result = recall(writer.graph, request, now=START)

    assert len(result.hits) == 2
    assert "(1 dependents)" in result.warnings[0]


def test_a_dependency_question_without_dependents_is_an_ordinary_recall(
    writer: GraphWriter,
) -> None:
    writer.concept("app router")
    grow_old(writer)

    result = recall(writer.graph, RecallRequest("what depends on app router"), now=START)

    assert contents(result) == ["app router"]
    assert result.response_annotations == ()


def test_recall_changes_nothing_and_repeats_itself(writer: GraphWriter) -> None:
    writer.concept("alpha")
    epoch = writer.graph.epoch

    first = recall(writer.graph, RecallRequest("alpha"), now=START)

    assert recall(writer.graph, RecallRequest("alpha"), now=START) == first
    assert writer.graph.epoch == epoch


def test_the_recent_leg_can_be_switched_off(writer: GraphWriter) -> None:
    writer.concept("recent")
    settings = replace(DEFAULT_SETTINGS, recent_interactions=0)

    assert recall(writer.graph, RecallRequest("zz"), now=START, settings=settings).hits == ()


@pytest.mark.parametrize("query", ["AND", "the of", "_", "-", "  on  "])
def test_a_query_without_a_word_finds_what_holds_it_as_it_stands(
    writer: GraphWriter, query: str
) -> None:
    """Stop words and marks alone have no stem; they used to find nothing but the newest."""
    holder = writer.concept(f"literally {query.strip().lower()} in a sentence")
    writer.concept("something else entirely")
    grow_old(writer)
    hits = recall(writer.graph, RecallRequest(query, top_k=2), now=START).hits

    assert hits[0].node_id == holder
    assert hits[0].legs == (Leg.LITERAL,)


# -- by meaning ------------------------------------------------------------------------------------


def unit(*numbers: float) -> Vector:
    vector = check_vector(numbers, 3)
    assert not isinstance(vector, EmbeddingFailure)
    return vector


@pytest.fixture
def meant() -> GraphWriter:
    """A session with vectors: `near` and `far` from the question, `away` from it, `bare` of any."""
    writer = GraphWriter()
    contract = EmbeddingContract("by hand", None, 3)
    writer.graph.contract = contract
    writer.graph.vectors = VectorTable(3)
    writer.interact()
    places = {"near": unit(9, 1, 0), "far": unit(1, 2, 0), "away": unit(-1, 0.1, 0)}
    for content, vector in places.items():
        row = writer.graph.row_of(writer.concept(content))
        assert row is not None
        writer.graph.vectors.put(row, vector)
    writer.concept("bare word")
    grow_old(writer)
    return writer


def asked(writer: GraphWriter, query: str, *, top_k: int = 5) -> Meanings:
    table, contract = writer.graph.vectors, writer.graph.contract
    assert table is not None
    assert contract is not None
    return look_up(search_for_question(contract, query, unit(1, 0, 0), top_k=top_k), table)


def test_recall_finds_by_meaning_what_no_word_finds(meant: GraphWriter) -> None:
    request = RecallRequest("word", traversal_depth=0)
    meanings = asked(meant, "word")
    result = recall(meant.graph, request, now=START, meanings=meanings, settings=BY_MAX)
    assert {hit.content: hit.legs for hit in result.hits} == {
        "near": (Leg.VECTOR,),
        "far": (Leg.VECTOR,),
        "bare word": (Leg.KEYWORD,),
    }
    score = {hit.content: hit.score for hit in result.hits}
    assert score["near"] == pytest.approx(DEFAULT_SETTINGS.w_query * 9 / 82**0.5)


def test_recall_by_meaning_and_by_word_counts_the_better_score(meant: GraphWriter) -> None:
    request = RecallRequest("near", traversal_depth=0)
    meanings = asked(meant, "near")
    with_both = recall(meant.graph, request, now=START, meanings=meanings, settings=BY_MAX)
    by_word = recall(meant.graph, request, now=START, settings=BY_MAX)
    (hit,) = by_word.hits
    assert with_both.hits[0].legs == (Leg.KEYWORD, Leg.VECTOR)
    assert with_both.hits[0].score == max(hit.score, DEFAULT_SETTINGS.w_query * 9 / 82**0.5)


def test_recall_looks_for_as_many_by_meaning_as_are_asked(meant: GraphWriter) -> None:
    request = RecallRequest("nothing", top_k=1, traversal_depth=0)
    result = recall(meant.graph, request, now=START, meanings=asked(meant, "nothing", top_k=1))
    assert contents(result) == ["near"]


def test_recall_brings_what_was_looked_up_before_up_to_date(meant: GraphWriter) -> None:
    meanings = asked(meant, "nothing")
    table = meant.graph.vectors
    assert table is not None
    row = meant.graph.find_by_content("near")
    assert row is not None
    table.remove(row)
    request = RecallRequest("nothing", traversal_depth=0)
    assert contents(recall(meant.graph, request, now=START, meanings=meanings)) == ["far"]


def test_being_new_is_worth_what_the_contract_says(meant: GraphWriter) -> None:
    meanings = asked(meant, "nothing")
    meant.concept("fresh")
    request = RecallRequest("nothing", traversal_depth=0)
    for contract, score in ((meanings.contract, 0.35), (EMBEDDING_GEMMA, 0.63)):
        under = replace(meanings, contract=contract)
        result = recall(meant.graph, request, now=START, meanings=under, settings=BY_MAX)
        fresh = next(hit for hit in result.hits if hit.content == "fresh")
        assert fresh.score == pytest.approx(DEFAULT_SETTINGS.w_query * score)


# -- filters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [DEFAULT_SETTINGS, BY_MAX])
def test_a_filter_reaches_what_stands_far_behind_others(settings: RecallSettings) -> None:
    """A filter that only thinned out the first hits once answered nothing."""
    writer = GraphWriter()
    writer.interact("ann")
    for number in range(1, 501):
        writer.concept(f"alpha {number}", number=number)
    writer.interact("bob")
    wanted = [writer.concept(f"alpha with many more words {n}", number=n) for n in (501, 502)]
    grow_old(writer)
    request = RecallRequest("alpha", top_k=3, wanted=ConceptFilter(agents=("bob",)))

    result = recall(writer.graph, request, now=START, settings=settings)

    assert [hit.node_id for hit in result.hits] == wanted
    assert all(Leg.KEYWORD in hit.legs for hit in result.hits)


def test_a_filter_reaches_what_is_far_by_meaning(meant: GraphWriter) -> None:
    table, contract = meant.graph.vectors, meant.graph.contract
    assert table is not None
    assert contract is not None
    for number in range(101, 401):
        table.put(meant.row(meant.concept(f"thing {number}", number=number)), unit(5, 1, 0))
    meant.interact("bob")
    last = meant.concept("another", number=401)
    table.put(meant.row(last), unit(3, 2, 0))
    grow_old(meant)
    request = RecallRequest("elsewhere", wanted=ConceptFilter(agents=("bob",)))
    search = search_for_question(contract, "elsewhere", unit(1, 0, 0), top_k=5, is_filtered=True)
    meanings = look_up(search, table)

    result = recall(meant.graph, request, now=START, settings=BY_MAX, meanings=meanings)

    assert [(hit.node_id, hit.legs) for hit in result.hits] == [(last, (Leg.VECTOR,))]


def test_a_filter_thins_out_the_dependents_too(writer: GraphWriter) -> None:
    alpha = writer.concept("alpha")
    rules = [writer.concept(f"rule {n}", kind=ConceptType.LOGIC) for n in range(3)]
    files = [writer.concept(f"file {n}", kind=ConceptType.RESOURCE) for n in range(3)]
    for dependent in (*rules, *files):
        writer.depend(dependent, alpha)
    only = ConceptFilter(types=(ConceptType.RESOURCE,))
    request = RecallRequest("what depends on alpha", wanted=only)

    result = recall(writer.graph, request, now=START)

    assert [hit.node_id for hit in result.hits] == files
    assert result.warnings == (
        "recall: dependency question answered by graph traversal (3 dependents)",
    )


def test_nothing_a_filter_turns_down_is_shown_even_if_it_needs_attention(
    writer: GraphWriter,
) -> None:
    alpha = writer.concept("alpha")
    hot = PlantedHotList({alpha: [RISK]})
    request = RecallRequest("alpha", wanted=ConceptFilter(types=(ConceptType.LOGIC,)))
    assert recall(writer.graph, request, now=START, hot=hot).hits == ()
