"""The picture of a graph, held against a plain walk over the same graph's records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_writing import START, Scribe, concept
from lambo_site.portal.graph_export import (
    DRAWN,
    Picture,
    export_graph,
    export_since,
    find_reach,
    label_of,
)
from memory.engine.graph import Graph
from memory.engine.types import EdgeType


def _written(count: int, cites: Sequence[tuple[int, int]]) -> Scribe:
    """`count` concepts, of which some rest on earlier ones."""
    scribe = Scribe()
    for number in range(count):
        on = sorted({f"thing {old}" for new, old in cites if new == number and old < number})
        scribe.agent_id = f"agent {number % 3}"
        scribe.derive(concept(f"thing {number}", depends_on=on))
    return scribe


def _read(picture: Picture) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(picture.as_json())
    return read


def _edges_of(picture: dict[str, Any]) -> set[tuple[str, str, str]]:
    ids = [node[0] for node in picture["nodes"]]
    flat = picture["edges"]
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return {(ids[a], ids[b], picture["edge_types"][kind]) for a, b, kind in triples}


def _plain_edges(graph: Graph) -> set[tuple[str, str, str]]:
    return {
        (edge.source, edge.target, str(edge.edge_type))
        for edge in graph.all_edges()
        if edge.edge_type in DRAWN
    }


CITES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30)


@given(st.integers(1, 12), CITES)
def test_whole_picture_is_every_concept_and_every_drawn_edge(
    count: int, cites: list[tuple[int, int]]
) -> None:
    graph = _written(count, cites).graph
    picture = _read(export_graph(graph))
    assert picture["total"] == len(picture["nodes"]) == count
    for node_id, label, kind, status, dependents, agent, created_ms in picture["nodes"]:
        held = graph.concept(node_id)
        assert held is not None
        assert (label, agent) == (held.content, held.origin_agent)
        assert picture["types"][kind] == str(held.concept_type)
        assert picture["statuses"][status] == str(held.status)
        assert created_ms == held.created_at // 1_000
        rests = [e for e in graph.in_edges(node_id) if e.edge_type is EdgeType.DEPENDENCY]
        assert dependents == len({edge.source for edge in rests})
    assert _edges_of(picture) == _plain_edges(graph)


@given(st.integers(2, 12), CITES, st.integers(1, 11))
def test_a_picture_and_what_came_since_make_the_whole(
    count: int, cites: list[tuple[int, int]], early: int
) -> None:
    scribe = _written(min(early, count), cites)
    first = _read(export_graph(scribe.graph))
    for number in range(min(early, count), count):
        on = sorted({f"thing {old}" for new, old in cites if new == number and old < number})
        scribe.derive(concept(f"thing {number}", depends_on=on))
    since = _read(export_since(scribe.graph, first["as_of"]))
    whole = _read(export_graph(scribe.graph))
    merged = {node[0]: node for node in (*first["nodes"], *since["nodes"])}
    assert merged == {node[0]: node for node in whole["nodes"]}
    assert _edges_of(first) | _edges_of(since) == _edges_of(whole)
    assert since["as_of"] == whole["as_of"]


def test_of_too_many_the_newest_and_what_most_rests_on_are_kept() -> None:
    graph = _written(16, [(4, 1), (5, 1), (6, 1), (5, 2)]).graph
    picture = _read(export_graph(graph, most=10))
    kept = {node[1] for node in picture["nodes"]}
    assert len(kept) == 10
    assert {"thing 1", "thing 2", "thing 15"} <= kept
    assert picture["total"] == 16
    assert _edges_of(picture) <= _plain_edges(graph)


def test_reach_goes_step_by_step_and_names_each_once() -> None:
    # 1 and 2 rest on 0, 3 on both of them, 4 on 3, 5 on nothing.
    graph = _written(6, [(1, 0), (2, 0), (3, 1), (3, 2), (4, 3)]).graph
    row = graph.find_by_content("thing 0")
    assert row is not None
    named = [
        sorted(one.content for node in step if (one := graph.concept(node)) is not None)
        for step in find_reach(graph, row)
    ]
    assert named == [["thing 1", "thing 2"], ["thing 3"], ["thing 4"]]
    last = graph.find_by_content("thing 5")
    assert last is not None
    assert find_reach(graph, last) == []


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("short", "short"),
        ("two\nlines", "two ⏎ lines"),
        ("x" * 90, "x" * 90),
        ("x" * 91, "x" * 89 + "…"),
    ],
)
def test_label_is_the_start_on_one_line(content: str, shown: str) -> None:
    scribe = Scribe()
    scribe.derive(concept(content))
    assert label_of(scribe.graph, scribe.graph.concept_rows()[0]) == shown


def test_an_empty_graph_is_an_empty_picture() -> None:
    picture = _read(export_graph(Graph("s", START)))
    assert (picture["nodes"], picture["edges"], picture["as_of"]) == ([], [], START)
    assert export_since(Graph("s", START), START).ids == []
