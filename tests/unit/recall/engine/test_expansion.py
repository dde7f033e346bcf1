from __future__ import annotations

import numpy as np
import pytest

from memory.engine.mutations import DeleteConcept
from memory.engine.types import EdgeType, NodeId
from recall.engine.expansion import FOLLOWED, expand, find_siblings
from recall_graphs import GraphWriter


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def reached(writer: GraphWriter, start: NodeId, *, depth: int, limit: int = 100) -> set[str]:
    rows = expand(writer.graph, [writer.row(start)], depth=depth, limit=limit)
    return {writer.graph.content_at(row) for row in rows.tolist()}


def test_expand_follows_out_edges_as_many_hops_as_asked(writer: GraphWriter) -> None:
    a, b, c, before = (writer.concept(text) for text in ("a1", "b1", "c1", "before"))
    writer.depend(a, b)
    writer.depend(b, c)
    writer.depend(before, a)

    assert reached(writer, a, depth=0) == set()
    assert reached(writer, a, depth=1) == {"b1"}
    assert reached(writer, a, depth=2) == {"b1", "c1"}


@pytest.mark.parametrize("kind", FOLLOWED)
def test_expand_follows_each_edge_type_that_joins_concepts(
    writer: GraphWriter, kind: EdgeType
) -> None:
    a, b = writer.concept("a1"), writer.concept("b1")
    writer.edge(a, b, kind)

    assert reached(writer, a, depth=1) == {"b1"}


@pytest.mark.parametrize("kind", [EdgeType.CONTRADICTS, EdgeType.SUSPECTED_SUPERSEDES])
def test_expand_never_follows_what_speaks_against_a_concept(
    writer: GraphWriter, kind: EdgeType
) -> None:
    a, b = writer.concept("a1"), writer.concept("b1")
    writer.edge(a, b, kind)

    assert reached(writer, a, depth=5) == set()


def test_expand_when_the_graph_has_cycles_reaches_each_node_once(writer: GraphWriter) -> None:
    a, b = writer.concept("a1"), writer.concept("b1")
    writer.depend(a, b)
    writer.depend(b, a)
    writer.depend(a, a)

    assert expand(writer.graph, [writer.row(a)], depth=5).tolist() == [writer.row(b)]


def test_expand_at_its_limit_keeps_edge_types_in_order_then_ids(writer: GraphWriter) -> None:
    """Ids descend where edge types ascend, so that ids alone would mislead."""
    hub = writer.concept("hub", number=1)
    targets = []
    for place, kind in enumerate(FOLLOWED):
        for copy in (0, 1):
            target = writer.concept(f"{kind} {copy}", number=100 - 10 * place + copy)
            targets.append(f"{kind} {copy}")
            writer.edge(hub, target, kind)

    for limit in range(len(targets) + 1):
        assert reached(writer, hub, depth=1, limit=limit) == set(targets[:limit])


def test_expand_at_its_limit_prefers_what_the_earlier_node_points_at(writer: GraphWriter) -> None:
    best, second = writer.concept("best", number=8), writer.concept("second", number=7)
    of_best, of_second = writer.concept("x9", number=9), writer.concept("x1", number=1)
    writer.edge(best, of_best, EdgeType.SEMANTIC)
    writer.depend(second, of_second)

    start = [writer.row(best), writer.row(second)]

    assert expand(writer.graph, start, depth=1, limit=1).tolist() == [writer.row(of_best)]


def test_expand_when_a_later_hop_is_cut_follows_the_order_of_the_earlier_hop(
    writer: GraphWriter,
) -> None:
    """The second hop is taken from the first hop's nodes by id, whatever rows they have."""
    start = writer.concept("start", number=50)
    late, early = writer.concept("late", number=40), writer.concept("early", number=30)
    of_late, of_early = writer.concept("x1", number=1), writer.concept("x9", number=90)
    for source, target in ((start, late), (start, early), (late, of_late), (early, of_early)):
        writer.depend(source, target)

    assert reached(writer, start, depth=2, limit=3) == {"late", "early", "x9"}


def test_expand_when_an_edge_was_removed_does_not_follow_it(writer: GraphWriter) -> None:
    a, b, c = writer.concept("a1"), writer.concept("b1"), writer.concept("c1")
    writer.depend(a, b)
    writer.depend(b, c)
    writer.graph.apply(DeleteConcept(b))

    assert reached(writer, a, depth=5) == set()


def test_expand_from_nothing_reaches_nothing(writer: GraphWriter) -> None:
    assert expand(writer.graph, [], depth=5).tolist() == []


def test_siblings_are_the_rest_of_a_members_chunk_group(writer: GraphWriter) -> None:
    first = writer.concept("s one", chunk="x")
    second = writer.concept("s two", chunk="x")
    writer.concept("other", chunk="y")
    writer.concept("plain")

    siblings = find_siblings(writer.graph, np.array([writer.row(first)]), limit=10)

    assert siblings.tolist() == [writer.row(second)]


def test_siblings_when_limited_are_the_smallest_ids(writer: GraphWriter) -> None:
    member = writer.concept("m", number=5, chunk="x")
    writer.concept("late", number=9, chunk="x")
    early = writer.concept("early", number=3, chunk="x")

    siblings = find_siblings(writer.graph, np.array([writer.row(member)]), limit=1)

    assert siblings.tolist() == [writer.row(early)]


def test_siblings_when_no_member_has_a_chunk_group_are_none(writer: GraphWriter) -> None:
    member = writer.concept("m")
    writer.concept("n", chunk="x")

    assert find_siblings(writer.graph, np.array([writer.row(member)]), limit=9).tolist() == []


def test_siblings_when_one_was_removed_leave_it_out(writer: GraphWriter) -> None:
    member, gone = writer.concept("m", chunk="x"), writer.concept("g", chunk="x")
    writer.graph.apply(DeleteConcept(gone))

    assert find_siblings(writer.graph, np.array([writer.row(member)]), limit=9).tolist() == []
