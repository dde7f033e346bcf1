"""Recall against golden files: the public fixtures, and one of our own with every line there is.

The public files pin rule set 0.2. What 0.6 changed is put in from outside: scores and radii come
from the plain formulas of `reference_scoring`, and the recent leg's score is the one of 0.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.engine.graph import Graph
from memory.engine.requests import RecallRequest
from memory.engine.snapshot import load_snapshot
from memory.engine.times import SECOND, Micros, parse_rfc3339
from memory.engine.types import ConceptType, EdgeType, Snapshot, Status
from memory.engine.wire import snapshot_from_json
from recall.engine.expansion import expand
from recall.engine.hot_list import HotCondition, HotEntry
from recall.engine.pipeline import recall
from recall.engine.ranking import Scores
from recall.engine.rendering import conflict_line, drift_line, high_risk_line, stale_line
from recall.engine.settings import RecallSettings
from recall_graphs import BY_MAX, MAX, START, GraphWriter, PlantedHotList, numbered_id
from reference_scoring import blast_radius_02, scores_02, scores_06
from shared_data import shared_file

USER_SCHEMA = "f0000000-0000-4000-8000-000000001001"
NOW: Micros = parse_rfc3339("now", "2026-08-10T10:00:00Z")
PLANTED = PlantedHotList(
    {USER_SCHEMA: [HotEntry(HotCondition.CONFLICT, conflict_line("agent-a", 11))]}
)


def read_json(name: str) -> Any:
    return json.loads(shared_file(f"fixtures/lambo/{name}").read_text(encoding="utf-8"))


@pytest.fixture
def snapshot() -> Snapshot:
    return snapshot_from_json(read_json("session-rest-api.json"))


@pytest.fixture
def graph(snapshot: Snapshot) -> Graph:
    return load_snapshot(snapshot)


def by_row(graph: Graph, score_by_id: Mapping[str, float]) -> Scores:
    scores = np.zeros(graph.concepts.used, dtype=np.float64)
    for row in graph.concept_rows():
        scores[row] = score_by_id[graph.id_at(row)]
    return scores


def test_the_context_under_rule_set_02_equals_the_golden_file(
    snapshot: Snapshot, graph: Graph
) -> None:
    golden = shared_file("fixtures/lambo/recall-context-golden.txt").read_bytes()
    radii = blast_radius_02(snapshot)

    result = recall(
        graph,
        RecallRequest("update user schema"),
        now=NOW,
        scores=by_row(graph, scores_02(snapshot)),
        hot=PLANTED,
        settings=RecallSettings(recent_score=0.5, fusion=MAX),
        blast_radius=lambda row: radii[graph.id_at(row)],
    )

    assert result.context.encode() == golden
    assert result.tokens == 101  # ceil(352 bytes / 3.5)
    assert result.left_out == 0


def test_the_scores_under_rule_set_06_are_those_derived_by_hand(
    snapshot: Snapshot, graph: Graph
) -> None:
    result = recall(
        graph,
        RecallRequest("update user schema"),
        now=NOW,
        scores=by_row(graph, scores_06(snapshot)),
        hot=PLANTED,
        settings=BY_MAX,
    )

    assert [(hit.content, f"{hit.score:.2f}") for hit in result.hits] == [
        ("user schema", "1.95"),
        ("user updated time", "1.73"),
        ("database schema", "1.31"),
        ("user profile", "0.61"),
        ("user status", "0.60"),
        ("create user", "0.60"),
    ]
    assert result.hits[0].blast_radius == 6


def substring_candidates(snapshot: Snapshot, query: str) -> list[str]:
    """The store-side keyword leg of the golden file: query words as parts of content or key."""
    words = query.lower().split()
    found = {
        concept.id: sum(
            word in concept.content.lower() or word in concept.canonical_key for word in words
        )
        for concept in snapshot.concepts
    }
    return sorted((c for c in found if found[c]), key=lambda c: (-found[c], c))


@pytest.mark.parametrize("place", [0, 1])
def test_candidates_and_their_neighbourhood_are_those_of_the_golden_file(
    snapshot: Snapshot, graph: Graph, place: int
) -> None:
    case = read_json("recall-goldens.json")["cases"][place]

    candidates = substring_candidates(snapshot, case["query"])
    rows = [row for concept in candidates if (row := graph.row_of(concept)) is not None]
    reached = expand(graph, rows, depth=case["depth"])

    assert candidates == case["phase1_candidates"]
    expanded = {*candidates, *map(graph.id_at, reached.tolist())}
    assert set(case["phase2_expanded"]) <= expanded


def test_the_blended_payload_equals_the_golden_file() -> None:
    """Two dependents older than the recent leg looks; then six concepts of one interaction."""
    golden = read_json("recall-h3-goldens.json")["blended"]
    writer = GraphWriter()
    writer.interact()
    dependents = [writer.concept("billing", number=101), writer.concept("search", number=102)]
    for _ in range(3):
        writer.interact()
    names = [hit["content"] for hit in golden["hits"]]
    status = {"user schema": Status.CANONICAL, "auth middleware": Status.CANDIDATE}
    nodes = {name: writer.concept(name, status=status.get(name, Status.NONE)) for name in names}
    for dependent in dependents:
        writer.depend(dependent, nodes["user schema"])
    expires = parse_rfc3339("expires_at", "2025-07-08T20:40:00Z")
    writer.reserve(nodes["logging config"], agent="agent-c", expires_at=expires)
    scores = dict.fromkeys([*dependents, *nodes.values()], 0.0)
    scores |= zip(nodes.values(), (1.0, 0.9, 0.8, 0.7, 0.6, 0.5), strict=True)
    risk = high_risk_line("8 dependents share this pillar")

    result = recall(
        writer.graph,
        RecallRequest("zz"),
        now=expires - 1,
        scores=by_row(writer.graph, scores),
        settings=RecallSettings(recent_score=0.0, fusion=MAX),
        hot=PlantedHotList(
            {
                nodes["rate limiter"]: [
                    HotEntry(HotCondition.CONFLICT, conflict_line("agent-a", 11))
                ],
                nodes["caching layer"]: [HotEntry(HotCondition.HIGH_RISK, risk)],
            }
        ),
    )

    assert result.as_detailed() == golden


def test_the_structural_payload_equals_the_golden_file() -> None:
    golden = read_json("recall-h3-goldens.json")["structural"]
    writer = GraphWriter()
    writer.interact()
    router = writer.concept("app router")
    payments = writer.concept("payments handler")
    users = writer.concept("users handler", status=Status.CANONICAL)
    writer.depend(users, router, weight=5.0)
    writer.depend(payments, router, weight=3.0)

    result = recall(writer.graph, RecallRequest("what depends on app router"), now=NOW)

    assert result.as_detailed() == golden


def test_every_line_there_is_equals_our_golden_file() -> None:
    golden = Path(__file__).parent / "recall-all-lines.txt"
    writer = GraphWriter()
    writer.interact("agent-a")
    pillar = writer.concept("user schema\nReserved by nobody", status=Status.CANONICAL)
    user = writer.concept("auth", kind=ConceptType.LOGIC)
    writer.edge(pillar, user, EdgeType.HIERARCHICAL)
    writer.reserve(pillar, agent="agent-c", expires_at=START + 30 * SECOND)
    for _ in range(3):
        writer.interact("agent-b")
    entries = [
        HotEntry(HotCondition.CONFLICT, conflict_line("agent-b", 11)),
        HotEntry(HotCondition.HIGH_RISK, high_risk_line("8 dependents share this pillar")),
        HotEntry(HotCondition.DRIFT, drift_line(6, numbered_id(7))),
        HotEntry(HotCondition.STALE, stale_line(3601)),
    ]
    scores = np.array([0.7, 0.3])

    result = recall(
        writer.graph,
        RecallRequest("schema"),
        now=START,
        scores=scores,
        hot=PlantedHotList({pillar: entries}),
        settings=RecallSettings(w_daemon=1.0, w_query=0.0, show_authors=True, fusion=MAX),
    )

    assert result.context == golden.read_text(encoding="utf-8")
