"""Filters and pages over concepts, against sets made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.engine.errors import InvalidArgument
from memory.engine.filters import accepted_rows, list_concepts
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteConcept
from memory.engine.requests import ConceptFilter, ConceptsRequest, Match
from memory.engine.times import SECOND, Micros
from memory.engine.types import Concept, ConceptType, Status
from recall_graphs import START, GraphWriter

AGENTS = ("ann", "bob", "cyd")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to a dozen concepts by three agents, some of one instant, some gone again."""
    writer = GraphWriter()
    numbers = draw(st.permutations(range(1, 13)))
    for number in numbers[: draw(st.integers(1, 12))]:
        if draw(st.booleans()) or writer.graph.tail is None:
            writer.interact(draw(st.sampled_from(AGENTS)))
        writer.concept(
            f"thing {number}",
            number=number,
            kind=draw(st.sampled_from(ConceptType)),
            status=draw(st.sampled_from(Status)),
        )
    for row in draw(st.lists(st.sampled_from(list(writer.graph.concept_rows())), max_size=3)):
        if writer.graph.concepts.live[row]:
            take_out(writer.graph, row)
    return writer.graph


def take_out(graph: Graph, row: int) -> None:
    graph.apply(DeleteConcept(graph.id_at(row)))


@st.composite
def filters(draw: st.DrawFn) -> ConceptFilter:
    instants = st.none() | st.integers(0, 8).map(lambda n: START + n * SECOND)
    since, until = draw(instants), draw(instants)
    if since is not None and until is not None and since >= until:
        until = None
    return ConceptFilter(
        types=tuple(draw(st.lists(st.sampled_from(ConceptType), max_size=2))),
        agents=tuple(draw(st.lists(st.sampled_from((*AGENTS, "dan")), max_size=2))),
        statuses=tuple(draw(st.lists(st.sampled_from(Status), max_size=2))),
        since=since,
        until=until,
        match=draw(st.sampled_from(Match)),
    )


def is_accepted(concept: Concept, wanted: ConceptFilter) -> bool:
    """The filter in plain words."""
    told = []
    if wanted.types:
        told.append(concept.concept_type in wanted.types)
    if wanted.agents:
        told.append(concept.origin_agent in wanted.agents)
    if wanted.statuses:
        told.append(concept.status in wanted.statuses)
    if wanted.since is not None or wanted.until is not None:
        starts = wanted.since is None or concept.created_at >= wanted.since
        told.append(starts and (wanted.until is None or concept.created_at < wanted.until))
    if not told:
        return True
    return all(told) if wanted.match is Match.ALL else any(told)


def concepts_of(graph: Graph) -> list[Concept]:
    return [graph.concept_at(row) for row in graph.concept_rows()]


@given(graphs(), filters())
def test_a_filter_accepts_the_set_computed_by_hand(graph: Graph, wanted: ConceptFilter) -> None:
    mask = accepted_rows(graph, wanted)
    found = {graph.id_at(row) for row in mask.nonzero()[0].tolist()}
    assert found == {c.id for c in concepts_of(graph) if is_accepted(c, wanted)}


@given(graphs(), filters(), st.integers(1, 5))
def test_pages_list_each_accepted_concept_once_and_in_order(
    graph: Graph, wanted: ConceptFilter, limit: int
) -> None:
    expected = [c for c in concepts_of(graph) if is_accepted(c, wanted)]
    expected.sort(key=lambda c: (c.created_at, c.id))
    assert read_all(graph, wanted, limit) == [c.id for c in expected]


def read_all(graph: Graph, wanted: ConceptFilter, limit: int) -> list[str]:
    after: str | None = ""
    found: list[str] = []
    while after is not None:
        page = list_concepts(graph, ConceptsRequest(after, limit, wanted))
        assert len(page.concepts) <= limit
        found += [concept.id for concept in page.concepts]
        after = page.following
    return found


@given(graphs(), st.integers(1, 3), st.data())
def test_pages_reach_all_that_stays_while_others_write(
    graph: Graph, limit: int, data: st.DataObject
) -> None:
    """A removal between two pages, of the very concept the last one ended with too."""
    stays = {concept.id for concept in concepts_of(graph)}
    writer, number = GraphWriter(graph, 1_000), 500
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = list_concepts(graph, ConceptsRequest(after, limit))
        found += [concept.id for concept in page.concepts]
        after = page.following
        if after is not None and number < 510:
            number += 1
            writer.interact("bob")
            writer.concept(f"newer {number}", number=number)
            row = data.draw(st.sampled_from(list(graph.concept_rows())))
            stays.discard(graph.id_at(row))
            take_out(graph, row)
    assert len(found) == len(set(found))
    assert stays <= set(found)


def test_pages_stay_small_however_long_contents_are() -> None:
    """A listing of 5,000 long notes once came as one answer of fifty megabytes."""
    writer = GraphWriter()
    writer.interact()
    for number in range(1, 5_001):
        if number % 50 == 0:
            writer.interact()
        writer.concept(f"note {number} " + "😀" * 2_500, number=number)
    after: str | None = ""
    seen: set[str] = set()
    while after is not None:
        page = list_concepts(writer.graph, ConceptsRequest(after))
        size = len(str(page.as_wire()).encode()) + len(page.text.encode())
        assert size <= 256 * 1024
        assert not seen & {concept.id for concept in page.concepts}
        seen |= {concept.id for concept in page.concepts}
        after = page.following
    assert len(seen) == 5_000


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("until", lambda: ConceptFilter(since=START, until=START)),
        ("agents[1]", lambda: ConceptFilter(agents=("ann", " "))),
        ("agents", lambda: ConceptFilter(agents=("ann",) * 65)),
        ("limit", lambda: ConceptsRequest(limit=0)),
        ("limit", lambda: ConceptsRequest(limit=101)),
        ("after", lambda: ConceptsRequest(after="x")),
        ("after", lambda: ConceptsRequest(after="12.no-id")),
        ("after", lambda: ConceptsRequest(after=f"{'9' * 40}.{'0' * 8}")),
    ],
)
def test_what_no_filter_or_page_can_be_is_refused(field: str, make: type) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.field == field


def test_an_empty_page_says_so() -> None:
    page = list_concepts(Graph("s", START), ConceptsRequest())
    assert (page.text, page.following) == ("no concepts", None)


@pytest.mark.parametrize("until", [None, START + SECOND])
@pytest.mark.parametrize("since", [None, START])
def test_the_end_of_a_window_is_not_in_it(since: Micros | None, until: Micros | None) -> None:
    writer = GraphWriter()
    writer.interact()
    first = writer.concept("first")
    writer.interact()
    second = writer.concept("second")
    found = read_all(writer.graph, ConceptFilter(since=since, until=until), 100)
    assert found == ([first] if until else [first, second])
