from __future__ import annotations

import json
import math

import numpy as np
import pytest

from canon.engine.scoring import (
    ScoringWeights,
    measure_terms,
    ranked,
    recency,
    rescore,
    score_rows,
)
from graph_writing import START, Scribe, concept
from memory.engine.graph import Graph
from memory.engine.mutations import PutConcept
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.times import SECOND
from memory.engine.types import ConceptType, EdgeType, Status
from memory.engine.wire import snapshot_from_json
from recall_graphs import GraphWriter, numbered_id
from reference_scoring import scores_06
from shared_data import shared_file


def scores_of(graph: Graph) -> dict[str, float]:
    table = rescore(graph)
    return {graph.content_at(row): float(table.scores[row]) for row in graph.concept_rows()}


@pytest.mark.parametrize("name", ["session-rest-api", "session-drift"])
def test_shared_session_when_scored_then_as_by_the_plain_formula(name: str) -> None:
    text = shared_file(f"fixtures/lambo/{name}.json").read_text(encoding="utf-8")
    snapshot = snapshot_from_json(json.loads(text))
    graph = load_snapshot(snapshot)
    table = rescore(graph)
    found = {graph.id_at(row): float(table.scores[row]) for row in graph.concept_rows()}
    assert found == pytest.approx(scores_06(snapshot), abs=1e-12, rel=0)


def test_one_concept_of_one_call_has_the_score_of_the_formula_by_hand() -> None:
    scribe = Scribe()
    scribe.derive("alone")
    # R = A = D = 1, F = 0, no bonus, an Entity.
    assert scores_of(scribe.graph) == {"alone": pytest.approx(0.25 + 0.20 + 0.35 + 0.05)}


@pytest.mark.parametrize(
    ("kind", "modifier"),
    [
        (ConceptType.CONSTRAINT, 0.15),
        (ConceptType.ENTITY, 0.05),
        (ConceptType.LOGIC, 0.05),
        (ConceptType.RESOURCE, 0.0),
        (ConceptType.OBSERVATION, -0.10),
    ],
)
def test_type_moves_the_score(kind: ConceptType, modifier: float) -> None:
    scribe = Scribe()
    scribe.derive(concept("alone", kind))
    assert scores_of(scribe.graph)["alone"] == pytest.approx(0.80 + modifier)


def test_edge_bonus_is_at_most_a_quarter() -> None:
    writer = GraphWriter()
    writer.interact()
    pillar = writer.concept("pillar", kind=ConceptType.RESOURCE)
    for number in range(20):  # 20 x 0.02 would be 0.40
        writer.depend(writer.concept(f"dependent {number}"), pillar)
    assert scores_of(writer.graph)["pillar"] == pytest.approx(0.80 + 0.25)


def test_the_highest_possible_score_is_the_sum_of_all_parts() -> None:
    writer = GraphWriter()
    writer.interact()
    pillar = writer.concept("pillar", kind=ConceptType.CONSTRAINT, access_count=11)
    for number in range(20):
        writer.depend(writer.concept(f"dependent {number}"), pillar)
    assert scores_of(writer.graph)["pillar"] == pytest.approx(1.40)


def test_recency_falls_over_at_least_ten_minutes_and_in_whole_milliseconds() -> None:
    scribe = Scribe()
    scribe.derive("old")
    scribe.now = START + 60 * SECOND
    scribe.derive("new")
    terms = measure_terms(scribe.graph)
    instants = np.array([START, START + 999, START + 1_000, START + 60 * SECOND])
    assert recency(instants, terms).tolist() == [
        pytest.approx(1 - 60_000 / 600_000),
        pytest.approx(1 - 60_000 / 600_000),
        pytest.approx(1 - 59_999 / 600_000),
        1.0,
    ]


def test_recency_of_an_hour_long_session_falls_over_the_hour() -> None:
    scribe = Scribe()
    scribe.derive("old")
    scribe.now = START + 3_600 * SECOND
    scribe.derive("new")
    terms = measure_terms(scribe.graph)
    halfway = np.array([START, START + 1_800 * SECOND])
    assert recency(halfway, terms).tolist() == [0.0, 0.5]


def test_an_access_renews_recency_and_counts_for_frequency_up_to_ten() -> None:
    scribe = Scribe()
    scribe.derive("old")
    scribe.now = START + 3_600 * SECOND
    scribe.derive("new")
    before = scores_of(scribe.graph)["old"]
    one = scribe.held("old")
    seen = one._replace(access_count=25, last_accessed=scribe.now - SECOND)
    scribe.graph.apply(PutConcept(seen))
    assert scores_of(scribe.graph)["old"] == pytest.approx(before + 0.25 + 0.20)


def test_activity_is_a_share_of_the_most_derived() -> None:
    scribe = Scribe()
    scribe.derive("often")
    scribe.derive("often")
    scribe.derive("often")
    scribe.derive("once")
    plain = scores_06(take_snapshot(scribe.graph))
    found = scores_of(scribe.graph)
    assert found["once"] == pytest.approx(plain[scribe.id("once")], abs=1e-12)
    assert found["often"] - found["once"] == pytest.approx(
        0.20 * (1 - 1 / 3) + 0.35 * (1 - 1 / 3) - 0.25 * 3 / 600
    )


def test_contradictions_weigh_nothing() -> None:
    scribe = Scribe()
    scribe.derive("claim", "other")
    before = scores_of(scribe.graph)
    writer = GraphWriter(scribe.graph)
    writer.edge(scribe.id("other"), scribe.id("claim"), EdgeType.CONTRADICTS)
    writer.edge(scribe.id("other"), scribe.id("claim"), EdgeType.SUSPECTED_SUPERSEDES)
    assert scores_of(scribe.graph) == before


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
def test_a_weight_that_is_no_share_zeroes_its_dimension_alone(value: float) -> None:
    scribe = Scribe()
    scribe.derive("alone")
    table = rescore(scribe.graph, ScoringWeights(recency=value))
    assert table.scores[scribe.row("alone")] == pytest.approx(0.20 + 0.35 + 0.05)


def test_an_empty_session_has_no_scores() -> None:
    graph = Graph("s", START)
    assert ranked(graph, rescore(graph)) == []


def test_ranking_is_by_score_then_by_id() -> None:
    writer = GraphWriter()
    writer.interact()
    for number in (7, 3, 5):
        writer.concept(f"same {number}", number=number)
    writer.concept("best", number=9, kind=ConceptType.CONSTRAINT)
    graph = writer.graph
    order = [graph.id_at(row) for row in ranked(graph, rescore(graph))]
    assert order == [numbered_id(number) for number in (9, 3, 5, 7)]


# -- between two passes ----------------------------------------------------------------------------


def test_a_new_concept_is_scored_against_the_last_pass_and_no_other_score_moves() -> None:
    scribe = Scribe()
    scribe.derive("first", "second")
    table = rescore(scribe.graph)
    before = table.scores[: scribe.graph.concepts.used].tolist()
    scribe.derive("third")
    row = scribe.row("third")
    later = table.with_rows(scribe.graph, np.array([row]))
    assert later.epoch == table.epoch
    assert later.terms == table.terms
    assert later.scores[row] == score_rows(scribe.graph, table, np.array([row]))[0] > 0
    assert later.scores[:2].tolist() == before


def test_rows_beyond_the_table_make_it_grow() -> None:
    scribe = Scribe()
    scribe.derive("first")
    table = rescore(scribe.graph)
    size = table.scores.size
    while scribe.graph.concepts.used <= size:
        scribe.derive(f"number {scribe.graph.concepts.used}")
    newest = scribe.graph.concepts.used - 1
    later = table.with_rows(scribe.graph, np.array([newest]))
    assert later.scores[newest] > 0
    assert later.scores[0] == table.scores[0]


def test_the_first_write_of_a_session_is_measured_against_itself() -> None:
    scribe = Scribe()
    table = rescore(scribe.graph)
    scribe.derive("first")
    later = table.with_rows(scribe.graph, np.array([scribe.row("first")]))
    assert later.scores[scribe.row("first")] == pytest.approx(0.85)


def test_a_removed_peak_lowers_the_scale() -> None:
    scribe = Scribe()
    scribe.derive("pillar", "beam", "brick", "tile")
    scribe.act("work", depends_on=["pillar", "beam"])
    assert scores_of(scribe.graph)["brick"] < rescore(scribe.graph).scores.max()
    scribe.retract("pillar")
    plain = scores_06(take_snapshot(scribe.graph))
    found = scores_of(scribe.graph)
    assert found["brick"] == pytest.approx(plain[scribe.id("brick")], abs=1e-12)


def test_status_has_no_part_in_the_score() -> None:
    writer = GraphWriter()
    writer.interact()
    writer.concept("plain")
    writer.concept("canonical", status=Status.CANONICAL)
    found = scores_of(writer.graph)
    assert found["plain"] == found["canonical"]
