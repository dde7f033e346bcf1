"""The two-agent scenario, step by step, against counts worked out by hand beforehand."""

from __future__ import annotations

import uuid

from memory.engine.actions import plan_action
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.graph import Graph
from memory.engine.requests import DeriveRequest
from memory.engine.text import index_tokens
from memory.service.stats import count_graph
from rest_api_scenario import EXPECTED_EDGES, EXPECTED_STEPS, SCENARIO


class CountingIds:
    def __init__(self) -> None:
        self._last = 0

    def next_id(self) -> str:
        self._last += 1
        return str(uuid.UUID(int=self._last))

    def next_ordered_id(self, now: int) -> str:
        return self.next_id()


def played() -> tuple[Graph, list[tuple[int, int]]]:
    graph, ids, steps = Graph("demo", 0), CountingIds(), []
    for place, (agent_id, request) in enumerate(SCENARIO):
        stamp = Stamp(agent_id, place * 10_000, ids)
        if isinstance(request, DeriveRequest):
            derived = plan_derive(graph, request, stamp, co_occurrence_max=10)
            graph.apply_all(derived.mutations)
            steps.append((len(derived.result.created), len(derived.result.matched)))
        else:
            acted = plan_action(graph, request, stamp)
            graph.apply_all(acted.mutations)
            steps.append((len(acted.result.created), acted.result.edges))
    return graph, steps


def test_each_step_reports_what_it_created_and_matched() -> None:
    assert tuple(played()[1]) == EXPECTED_STEPS


def test_the_graph_holds_27_concepts_and_114_edges() -> None:
    counts = count_graph(played()[0])
    assert (counts.interactions, counts.concepts, counts.edges) == (12, 27, 114)
    assert counts.edges_by_type == EXPECTED_EDGES


def test_fifteen_concepts_rest_on_the_user_schema() -> None:
    graph = played()[0]
    row = graph.find_by_key("schema user")
    assert row is not None
    assert graph.blast_radius(row) == 15


def test_words_of_the_demos_question_score_the_published_figure() -> None:
    """BM25 of `user schema` for "update user schema", not normalised: 3.832 as published."""
    graph, _ = played()
    while not graph.index.is_settled:
        graph.index.settle_some()
    found = graph.index.search(index_tokens("update user schema"), 20, tie_key=graph.id_at)
    assert (graph.content_at(found[0][0]), round(found[0][1], 3)) == ("user schema", 3.832)
