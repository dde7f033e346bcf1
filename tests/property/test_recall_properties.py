"""Laws of recall over arbitrary small sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory.engine.config import SkipRedundant, SuspectedLine
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteConcept
from memory.engine.requests import ConceptFilter, Layer, Match, RecallRequest
from memory.engine.rules import EDGES
from memory.engine.snapshot import load_snapshot
from memory.engine.text import canonical_key
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Snapshot,
    Status,
)
from recall.engine.dependents import answer_dependency_question
from recall.engine.expansion import FOLLOWED, expand
from recall.engine.hot_list import HotCondition, HotEntry
from recall.engine.inspection import inspect
from recall.engine.layers import merge, note_layer, note_tier
from recall.engine.member_cache import MemberCache
from recall.engine.pipeline import rank, recall
from recall.engine.ranking import Scores
from recall.engine.results import RecallResult
from recall.engine.settings import DEFAULT_SETTINGS, RecallSettings
from recall_graphs import BY_MAX, START, PlantedHotList, numbered_id

Record = TypeVar("Record")

WORDS = ("alpha", "beta", "gamma", "alphabet")
JOINING = tuple(kind for kind in EdgeType if not EDGES[kind].from_interaction)

# Everything a reader may take for a line of ours, and everything that may break one.
nasty_text = st.text(
    st.sampled_from("ab \n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029⚑⏎[]()") | st.characters(codec="utf-8"),
    max_size=30,
).map(lambda text: f"alpha {text}")
plain_text = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


def make_concept(number: int, content: str, kind: ConceptType, status: Status) -> Concept:
    origin = number % 5
    return Concept(
        id=numbered_id(number),
        content=content,
        canonical_key=canonical_key(content),
        concept_type=kind,
        origin_interaction=numbered_id(900_000 + origin),
        origin_agent="agent\u2028a",
        created_at=START + origin,
        status=status,
    )


def make_edge(number: int, source: str, target: str, kind: EdgeType, *, weight: float) -> Edge:
    return Edge(
        numbered_id(500_000 + number), source, target, kind, weight, 1, START, START, "", ""
    )


@st.composite
def snapshots(draw: st.DrawFn, contents: st.SearchStrategy[str] = plain_text) -> Snapshot:
    """Five interactions, up to twelve concepts, and edges of every type that joins concepts."""
    chain = [
        Interaction(
            id=numbered_id(900_000 + place),
            agent_id="agent-a",
            prompt_text=None,
            previous_id=numbered_id(900_000 + place - 1) if place else None,
            created_at=START + place,
        )
        for place in range(5)
    ]
    texts = draw(st.lists(contents, max_size=12, unique_by=canonical_key))
    concepts = [
        make_concept(
            number + 1,
            text,
            draw(st.sampled_from(ConceptType)),
            draw(st.sampled_from([Status.NONE, Status.NONE, Status.CANONICAL])),
        )
        for number, text in enumerate(texts)
    ]
    keys = [(later.id, earlier.id, EdgeType.TEMPORAL) for earlier, later in pairwise(chain)]
    keys += [(c.origin_interaction, c.id, EdgeType.DERIVES) for c in concepts]
    if concepts:
        ids = st.sampled_from([concept.id for concept in concepts])
        joined = st.tuples(ids, ids, st.sampled_from(JOINING))
        keys += draw(st.lists(joined, max_size=25, unique=True))
    weights = draw(
        st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=len(keys), max_size=len(keys))
    )
    edges = [
        make_edge(number, source, target, kind, weight=weights[number])
        for number, (source, target, kind) in enumerate(keys)
    ]
    return Snapshot("s", START, None, tuple(chain), tuple(concepts), tuple(edges))


@st.composite
def requests(draw: st.DrawFn) -> RecallRequest:
    return RecallRequest(
        query=draw(plain_text | plain_text.map(lambda text: f"what depends on {text}")),
        top_k=draw(st.integers(1, 5)),
        max_tokens=draw(st.sampled_from([1, 10, 20, 40, 80, 100_000])),
        traversal_depth=draw(st.integers(0, 5)),
    )


def by_row(graph: Graph, score_by_id: dict[str, float]) -> Scores:
    scores = np.zeros(max(graph.concepts.used, 1))
    for row in graph.concept_rows():
        scores[row] = score_by_id[graph.id_at(row)]
    return scores


@st.composite
def score_tables(draw: st.DrawFn) -> dict[str, float]:
    """S for every id; few values, so that ties are common."""
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.4]), min_size=12, max_size=12))
    return {numbered_id(number + 1): value for number, value in enumerate(values)}


@st.composite
def hot_lists(draw: st.DrawFn) -> PlantedHotList:
    numbers = draw(st.sets(st.integers(1, 12), max_size=4))
    line = draw(nasty_text)
    return PlantedHotList(
        {numbered_id(n): [HotEntry(HotCondition.HIGH_RISK, line)] for n in numbers}
    )


def shuffled(snapshot: Snapshot, seed: list[int]) -> Snapshot:
    """The same records in another order, so that rows differ."""

    def mixed(records: Sequence[Record]) -> tuple[Record, ...]:
        keys = [(seed[place % len(seed)], -place) for place in range(len(records))]
        return tuple(records[place] for place in sorted(range(len(records)), key=keys.__getitem__))

    return snapshot._replace(concepts=mixed(snapshot.concepts), edges=mixed(snapshot.edges))


@given(
    snapshots(),
    requests(),
    score_tables(),
    hot_lists(),
    st.sampled_from([DEFAULT_SETTINGS, BY_MAX]),
    st.lists(st.integers(), min_size=1),
)
def test_an_answer_does_not_depend_on_the_order_of_writing(
    snapshot: Snapshot,
    request: RecallRequest,
    score_by_id: dict[str, float],
    hot: PlantedHotList,
    settings: RecallSettings,
    seed: list[int],
) -> None:
    one, other = load_snapshot(snapshot), load_snapshot(shuffled(snapshot, seed))

    def answer(graph: Graph) -> object:
        scores = by_row(graph, score_by_id)
        return recall(graph, request, now=START, scores=scores, hot=hot, settings=settings)

    assert answer(one) == answer(other)


@given(snapshots(), st.integers(0, 4), st.integers(1, 13), st.lists(st.integers(), min_size=1))
def test_an_inspection_does_not_depend_on_the_order_of_writing(
    snapshot: Snapshot, depth: int, number: int, seed: list[int]
) -> None:
    one, other = load_snapshot(snapshot), load_snapshot(shuffled(snapshot, seed))
    focus = numbered_id(number) if number <= len(snapshot.concepts) else numbered_id(900_000)

    assert inspect(one, focus, depth, now=START) == inspect(other, focus, depth, now=START)


@given(snapshots(nasty_text), requests(), hot_lists(), st.booleans())
def test_no_content_can_forge_a_line(
    snapshot: Snapshot, request: RecallRequest, hot: PlantedHotList, show_authors: bool
) -> None:
    settings = RecallSettings(show_authors=show_authors)
    result = recall(load_snapshot(snapshot), request, now=START, hot=hot, settings=settings)

    shown = [hit for hit in result.hits if hit.included_in_context]
    expected = sum(1 + len(hit.annotations) for hit in shown) + max(0, len(shown) - 1)
    assert len(result.context.splitlines()) == expected
    assert all(len(line.splitlines()) == 1 for line in result.warnings)
    if shown:
        assert len(result.context.split("\n\n")) == len(shown)


@given(snapshots(nasty_text), st.integers(0, 3))
def test_no_content_can_forge_a_line_of_an_inspection(snapshot: Snapshot, depth: int) -> None:
    graph = load_snapshot(snapshot)
    found = inspect(graph, numbered_id(900_000), depth, now=START)

    groups = {(level.hop, node.edge_type) for level in found.levels for node in level.neighbours}
    nodes = sum(len(level.neighbours) for level in found.levels)
    blank = 1 if found.levels else 0
    assert len(found.view.splitlines()) == 1 + blank + len(found.levels) + len(groups) + nodes


@given(snapshots(nasty_text), requests(), hot_lists())
def test_the_token_budget_is_never_exceeded_and_never_stops_early(
    snapshot: Snapshot, request: RecallRequest, hot: PlantedHotList
) -> None:
    graph = load_snapshot(snapshot)

    result = recall(graph, request, now=START, hot=hot)
    whole = RecallRequest(request.query, request.top_k, 100_000, request.traversal_depth)
    blocks = recall(graph, whole, now=START, hot=hot).context.split("\n\n")

    size = len(result.context.encode())
    assert result.tokens == (2 * size + 6) // 7 <= request.max_tokens
    shown = len(result.hits) - result.left_out
    assert [hit.included_in_context for hit in result.hits] == (
        [True] * shown + [False] * result.left_out
    )
    assert result.context == "\n\n".join(blocks[:shown])
    if result.left_out:
        with_next = len("\n\n".join(blocks[: shown + 1]).encode())
        assert (2 * with_next + 6) // 7 > request.max_tokens


@given(
    snapshots(),
    requests(),
    score_tables(),
    hot_lists(),
    st.sampled_from([DEFAULT_SETTINGS, BY_MAX]),
)
def test_top_k_counts_the_unforced_and_the_order_is_canonical_score_id(
    snapshot: Snapshot,
    request: RecallRequest,
    score_by_id: dict[str, float],
    hot: PlantedHotList,
    settings: RecallSettings,
) -> None:
    graph = load_snapshot(snapshot)
    scores = by_row(graph, score_by_id)

    def ask(top_k: int) -> list[tuple[bool, float, str]]:
        wanted = RecallRequest(request.query, top_k, 100_000, request.traversal_depth)
        result = recall(graph, wanted, now=START, scores=scores, hot=hot, settings=settings)
        if result.response_annotations:
            return [(not h.is_canonical, -h.score, h.node_id) for h in result.hits][:top_k]
        ranks = [(not h.is_canonical, -h.score, h.node_id) for h in result.hits]
        forced = [rank for rank in ranks if hot.entries(rank[2])]
        assert len(ranks) - len(forced) <= top_k
        return ranks

    shown = ask(request.top_k)
    assert shown == sorted(shown)
    # With a slot for everyone the same ones lead, and nobody is shown twice.
    unforced = [rank for rank in ask(100) if not hot.entries(rank[2])]
    assert len({node_id for _, _, node_id in shown}) == len(shown)
    if request.top_k >= 3:  # 4 x top_k keyword candidates are then all of at most 12 concepts
        kept = [rank for rank in shown if not hot.entries(rank[2])]
        assert kept == unforced[: len(kept)]
        assert len(kept) == min(request.top_k, len(unforced))


def walk(snapshot: Snapshot, start: Sequence[str], *, depth: int, limit: int) -> list[str]:
    """The expansion as it is described: node by node, type by type, target by target."""
    reached: list[str] = []
    seen, frontier = set(start), list(start)
    for _ in range(depth):
        following = []
        for node in frontier:
            for kind in FOLLOWED:
                targets = {
                    edge.target
                    for edge in snapshot.edges
                    if edge.source == node and edge.edge_type is kind
                }
                for target in sorted(targets - seen):
                    seen.add(target)
                    following.append(target)
        reached += following
        frontier = following
    return reached[:limit]


@given(
    snapshots(),
    st.lists(st.integers(1, 12), unique=True, max_size=4),
    st.integers(0, 5),
    st.integers(0, 12),
)
def test_expansion_equals_the_walk_node_by_node(
    snapshot: Snapshot, numbers: list[int], depth: int, limit: int
) -> None:
    graph = load_snapshot(snapshot)
    start = [numbered_id(n) for n in numbers if n <= len(snapshot.concepts)]
    rows = [row for node in start if (row := graph.row_of(node)) is not None]

    reached = expand(graph, rows, depth=depth, limit=limit).tolist()

    expected = walk(snapshot, start, depth=depth, limit=limit)
    assert sorted(map(graph.id_at, reached)) == sorted(expected)


@given(snapshots(), plain_text)
def test_an_anchor_is_the_longest_content_that_stands_in_the_question(
    snapshot: Snapshot, text: str
) -> None:
    graph = load_snapshot(snapshot)
    query = f"what depends on {text}"
    standing = [c for c in snapshot.concepts if f" {c.content} " in f" {query} "]
    named = (ConceptType.ENTITY, ConceptType.RESOURCE)
    best = min(
        standing,
        key=lambda c: (-len(c.content), c.concept_type not in named, c.id),
        default=None,
    )

    answer = answer_dependency_question(graph, query)

    if best is None:
        assert answer is None
        return
    dependents = {
        edge.source if edge.edge_type is EdgeType.DEPENDENCY else edge.target
        for edge in snapshot.edges
        if (edge.edge_type is EdgeType.DEPENDENCY and edge.target == best.id)
        or (edge.edge_type is EdgeType.HIERARCHICAL and edge.source == best.id)
    } - {best.id}
    if not dependents:
        assert answer is None
        return
    assert answer is not None
    structural = (EdgeType.DEPENDENCY, EdgeType.CAUSAL, EdgeType.HIERARCHICAL)
    assert dict(
        zip(map(graph.id_at, answer.rows.tolist()), answer.weights.tolist(), strict=True)
    ) == {
        dependent: max(
            edge.weight
            for edge in snapshot.edges
            if edge.edge_type in structural and {edge.source, edge.target} == {best.id, dependent}
        )
        for dependent in dependents
    }


@st.composite
def filters(draw: st.DrawFn) -> ConceptFilter:
    return ConceptFilter(
        types=tuple(draw(st.lists(st.sampled_from(ConceptType), max_size=3))),
        statuses=tuple(draw(st.lists(st.sampled_from([Status.NONE, Status.CANONICAL])))),
        since=draw(st.none() | st.integers(START, START + 4)),
        match=draw(st.sampled_from(Match)),
    )


def is_accepted(concept: Concept, wanted: ConceptFilter) -> bool:
    """The filter in plain words."""
    told = [concept.concept_type in wanted.types] if wanted.types else []
    told += [concept.status in wanted.statuses] if wanted.statuses else []
    told += [concept.created_at >= wanted.since] if wanted.since is not None else []
    if not told:
        return True
    return all(told) if wanted.match is Match.ALL else any(told)


@given(
    snapshots(),
    requests(),
    filters(),
    score_tables(),
    hot_lists(),
    # Places and what is lent may move where a list is cut; raw scores stay.
    st.just(BY_MAX),
)
def test_a_filtered_answer_is_the_unfiltered_one_without_what_is_turned_down(
    snapshot: Snapshot,
    request: RecallRequest,
    wanted: ConceptFilter,
    score_by_id: dict[str, float],
    hot: PlantedHotList,
    settings: RecallSettings,
) -> None:
    """Filled up to `top_k` with the next best: what a filter turns down never takes a place."""
    graph = load_snapshot(snapshot)
    scores = by_row(graph, score_by_id)
    forced = set(hot.node_ids())
    # Candidates are four for each slot: with three slots none of a dozen is cut off.
    request = replace(request, top_k=max(request.top_k, 3))

    def answer(asked: RecallRequest) -> RecallResult:
        return recall(graph, asked, now=START, scores=scores, hot=hot, settings=settings)

    whole = answer(replace(request, top_k=100, max_tokens=100_000))
    accepted = {c.id for c in snapshot.concepts if is_accepted(c, wanted)}
    by_traversal = bool(whole.response_annotations)
    expected, slots = [], 0
    for hit in whole.hits:
        holds_slot = by_traversal or hit.node_id not in forced
        if hit.node_id in accepted and (not holds_slot or slots < request.top_k):
            expected.append((hit.node_id, hit.score))
            slots += holds_slot
    found = answer(replace(request, wanted=wanted))
    assert [(hit.node_id, hit.score) for hit in found.hits] == expected


@given(snapshots(), requests(), st.sampled_from([DEFAULT_SETTINGS, BY_MAX]))
def test_a_filter_that_accepts_everything_changes_nothing(
    snapshot: Snapshot, request: RecallRequest, settings: RecallSettings
) -> None:
    graph = load_snapshot(snapshot)
    open_wide = replace(request, wanted=ConceptFilter(types=tuple(ConceptType)))
    assert recall(graph, open_wide, now=START, settings=settings) == recall(
        graph, request, now=START, settings=settings
    )


class _Shaken:
    """Says of everything that may be contradicted that it is, and of nothing else anything."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def contradictors(self, rows: Sequence[int]) -> dict[int, int]:
        edges = self._graph.edges
        found = {}
        for row in rows:
            arriving = self._graph.concepts.arriving[row]
            sources = edges.ends_of(arriving, EdgeType.CONTRADICTS, "source")
            if sources:
                found[row] = min(sources, key=self._graph.id_at)
        return found

    def superseded_at(self, row: int) -> None:
        return None


DOUBTFUL = frozenset({EdgeType.CONTRADICTS, EdgeType.SUSPECTED_SUPERSEDES})


@given(snapshots(), requests(), hot_lists())
def test_without_doubts_an_answer_is_the_same_byte_for_byte(
    snapshot: Snapshot, request: RecallRequest, hot: PlantedHotList
) -> None:
    edges = tuple(edge for edge in snapshot.edges if edge.edge_type not in DOUBTFUL)
    graph = load_snapshot(snapshot._replace(edges=edges))
    on = replace(DEFAULT_SETTINGS, suspected_supersession_line=SuspectedLine.ON)
    off = replace(DEFAULT_SETTINGS, suspected_supersession_line=SuspectedLine.OFF)
    judged = recall(graph, request, now=START, hot=hot, settings=on, beliefs=_Shaken(graph))
    plain = recall(graph, request, now=START, hot=hot, settings=off)
    assert judged == plain
    assert judged.as_wire() == plain.as_wire()


@given(snapshots(), requests(), st.lists(st.integers(), min_size=1))
def test_doubts_do_not_depend_on_the_order_of_writing(
    snapshot: Snapshot, request: RecallRequest, seed: list[int]
) -> None:
    on = replace(DEFAULT_SETTINGS, suspected_supersession_line=SuspectedLine.ON)

    def answer(graph: Graph) -> object:
        return recall(graph, request, now=START, settings=on, beliefs=_Shaken(graph))

    assert answer(load_snapshot(snapshot)) == answer(load_snapshot(shuffled(snapshot, seed)))


@given(snapshots(), requests(), hot_lists(), st.sampled_from(SkipRedundant))
def test_with_nothing_redundant_an_answer_is_the_same_byte_for_byte(
    snapshot: Snapshot, request: RecallRequest, hot: PlantedHotList, kind: SkipRedundant
) -> None:
    """Texts of snapshots differ by key, and none is linked by meaning here."""
    edges = tuple(edge for edge in snapshot.edges if edge.edge_type is not EdgeType.SEMANTIC)
    graph = load_snapshot(snapshot._replace(edges=edges))
    settings = replace(DEFAULT_SETTINGS, skip_redundant=kind)
    assert recall(graph, request, now=START, hot=hot, settings=settings) == recall(
        graph, request, now=START, hot=hot
    )


@given(snapshots(), requests(), st.lists(st.integers(), min_size=1))
def test_what_is_redundant_does_not_depend_on_the_order_of_writing(
    snapshot: Snapshot, request: RecallRequest, seed: list[int]
) -> None:
    settings = replace(DEFAULT_SETTINGS, skip_redundant=SkipRedundant.SIMILAR)
    one, other = load_snapshot(snapshot), load_snapshot(shuffled(snapshot, seed))
    assert recall(one, request, now=START, settings=settings) == recall(
        other, request, now=START, settings=settings
    )


@given(snapshots(), requests(), hot_lists())
def test_merged_with_no_layer_an_answer_is_the_same_byte_for_byte(
    snapshot: Snapshot, request: RecallRequest, hot: PlantedHotList
) -> None:
    graph = load_snapshot(snapshot)
    settings = replace(DEFAULT_SETTINGS, suspected_supersession_line=SuspectedLine.ON)
    known: dict[str, Any] = {"hot": hot, "settings": settings, "beliefs": _Shaken(graph)}
    plain = recall(graph, request, now=START, **known)
    ranked = rank(graph, request, now=START, **known)
    merged = merge(
        [note_tier(graph, ranked)], request, query=None, contract=None, settings=settings
    )
    assert merged == plain
    assert merged.as_wire() == plain.as_wire()


@given(snapshots(), requests(), hot_lists(), st.floats(0.01, 100))
def test_a_layer_with_nothing_to_say_changes_nothing(
    snapshot: Snapshot, request: RecallRequest, hot: PlantedHotList, weight: float
) -> None:
    """Nothing here has a vector, so that of a layer only dependents could come."""
    asked = replace(request, query=request.query.removeprefix("what depends on "))
    graph = load_snapshot(snapshot)
    other = load_snapshot(snapshot._replace(session_id="other"))
    plain = recall(graph, asked, now=START, hot=hot)
    own = note_tier(graph, rank(graph, asked, now=START, hot=hot))
    layer = note_layer(other, rank(other, asked, now=START, hot=hot), Layer("other", weight))
    assert merge([own, layer], asked, query=None, contract=None).as_wire() == plain.as_wire()


@given(snapshots(), st.lists(requests(), min_size=1, max_size=4), hot_lists())
def test_questions_asked_again_have_the_same_answer_byte_for_byte(
    snapshot: Snapshot, asked: list[RecallRequest], hot: PlantedHotList
) -> None:
    """In any order, and with writes in between."""
    graph = load_snapshot(snapshot)
    cache = MemberCache(entries_max=3)
    for request in (*asked, *asked):
        cached = recall(graph, request, now=START, hot=hot, cache=cache)
        assert cached == recall(graph, request, now=START, hot=hot)
    for concept in snapshot.concepts:
        graph.apply(DeleteConcept(concept.id))
        for request in asked:
            cached = recall(graph, request, now=START, hot=hot, cache=cache)
            assert cached == recall(graph, request, now=START, hot=hot)
