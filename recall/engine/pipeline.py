"""How a question is answered: the order of the work.

Owns nothing but that order. It reads the graph and writes nothing; time, scores and the hot list
are arguments, so the same question to the same graph at the same instant has the same answer, byte
for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from memory.engine.config import FusionKind
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.limits import EXPANSION_NODES
from memory.engine.requests import RecallRequest
from memory.engine.times import Micros
from recall.engine.assembly import assemble, build_hit, empty_context_warnings, warning_lines
from recall.engine.candidates import (
    CANDIDATES_PER_SLOT,
    LEG_DEPTH,
    Candidate,
    Leg,
    keyword_leg,
    literal_leg,
    recent_leg,
    vector_leg,
)
from recall.engine.dependents import (
    DependencyAnswer,
    answer_dependency_question,
    traversal_notice,
)
from recall.engine.expansion import Rows, expand, find_siblings
from recall.engine.fusion import fuse, unfound_relevance
from recall.engine.hot_list import NO_HOT_LIST, HotEntry, HotList
from recall.engine.ranking import Scores, blend, select
from recall.engine.results import Annotation, AnnotationKind, RecallResult
from recall.engine.settings import DEFAULT_SETTINGS, RecallSettings


def recall(
    graph: Graph,
    request: RecallRequest,
    *,
    now: Micros,
    scores: Scores | None = None,
    hot: HotList = NO_HOT_LIST,
    settings: RecallSettings = DEFAULT_SETTINGS,
    blast_radius: Callable[[int], int] | None = None,
    meanings: Meanings | None = None,
) -> RecallResult:
    """Answer a question from one session's graph.

    `meanings` is what was looked up of the query's meaning; without it words alone decide.

    `scores` is the daemon's score by concept row, `(n,) float64`, or None while there is none.
    `hot` is a view of the hot list at `now`. `blast_radius` measures a row; by default the graph
    does.
    """
    radius = graph.blast_radius if blast_radius is None else blast_radius
    dependency = answer_dependency_question(graph, request.query)
    if dependency is not None:
        return _answer_by_traversal(graph, request, dependency, radius=radius, settings=settings)

    candidates = _find_candidates(graph, request, settings=settings, meanings=meanings)
    found = [candidate.row for candidate in candidates]
    reached = expand(graph, found, depth=request.traversal_depth)
    members = np.concatenate([np.asarray(found, dtype=np.int64), reached])
    siblings = find_siblings(graph, members, limit=EXPANSION_NODES - reached.size)

    rows = np.concatenate([members, siblings])
    relevance = np.full(rows.size, unfound_relevance(settings.fusion))
    relevance[: len(found)] = [candidate.score for candidate in candidates]
    blended = blend(rows, relevance, daemon_scores=scores, settings=settings)
    entries_by_row = _live_entries(graph, hot, rows)
    shown = select(graph, rows, blended, top_k=request.top_k, forced=entries_by_row.keys())

    hits = [
        build_hit(
            graph,
            row := int(rows[position]),
            score=float(blended[position]),
            legs=_provenance(candidates, position, is_sibling=position >= members.size),
            blast_radius=radius,
            hot_entries=entries_by_row.get(row, ()),
            reserved_at=now,
        )
        for position in shown
    ]
    assembled = assemble(hits, max_tokens=request.max_tokens, show_authors=settings.show_authors)
    return RecallResult(
        context=assembled.context,
        tokens=assembled.tokens,
        hits=assembled.hits,
        warnings=(*warning_lines(hits), *empty_context_warnings(assembled)),
    )


def _find_candidates(
    graph: Graph, request: RecallRequest, *, settings: RecallSettings, meanings: Meanings | None
) -> list[Candidate]:
    """What answers by itself: every leg, fused, best first."""
    query, top_k = request.query, request.top_k
    by_rank = settings.fusion.kind is FusionKind.RRF
    depth = CANDIDATES_PER_SLOT * top_k
    keyword_depth, vector_depth = (max(LEG_DEPTH, depth), LEG_DEPTH) if by_rank else (depth, top_k)
    keyword = keyword_leg(graph, query, limit=keyword_depth, by_question=by_rank)
    literal = literal_leg(graph, query, limit=depth, score=settings.literal_score)
    vector = vector_leg(graph, query, limit=vector_depth, meanings=meanings)
    recent = recent_leg(
        graph,
        interactions=settings.recent_interactions,
        score=_recent_score(settings, meanings),
    )
    legs = [
        (Leg.KEYWORD, keyword),
        (Leg.VECTOR, vector),
        (Leg.LITERAL, literal),
        (Leg.RECENT, recent),
    ]
    return fuse(graph, legs, fusion=settings.fusion, limit=depth)


def _recent_score(settings: RecallSettings, meanings: Meanings | None) -> float:
    """What being new is worth, on the scale of the cosines it is merged with."""
    return settings.recent_score if meanings is None else meanings.recent_score


def _provenance(
    candidates: Sequence[Candidate], position: int, *, is_sibling: bool
) -> tuple[Leg, ...]:
    """How the member at a position was found: candidates come first, then the reached, then kin."""
    if position < len(candidates):
        return candidates[position].legs
    return (Leg.SIBLING if is_sibling else Leg.TRAVERSAL,)


def _answer_by_traversal(
    graph: Graph,
    request: RecallRequest,
    answer: DependencyAnswer,
    *,
    radius: Callable[[int], int],
    settings: RecallSettings,
) -> RecallResult:
    """The dependents themselves, by the strength of their tie; only load-bearing lines."""
    rows, weights = answer.rows, answer.weights
    hits = [
        build_hit(
            graph,
            int(rows[position]),
            score=float(weights[position]),
            legs=(Leg.TRAVERSAL,),
            blast_radius=radius,
        )
        for position in select(graph, rows, weights, top_k=request.top_k)
    ]
    assembled = assemble(hits, max_tokens=request.max_tokens, show_authors=settings.show_authors)
    fitted = sum(hit.included_in_context for hit in assembled.hits)
    notice = Annotation(AnnotationKind.TRAVERSAL, traversal_notice(fitted))
    return RecallResult(
        context=assembled.context,
        tokens=assembled.tokens,
        hits=assembled.hits,
        response_annotations=(notice,),
        warnings=(notice.text, *empty_context_warnings(assembled)),
    )


def _live_entries(graph: Graph, hot: HotList, rows: Rows) -> dict[int, Sequence[HotEntry]]:
    """The hot-list entries of the members that have any: those members are forced."""
    hot_rows = {graph.row_of(node_id): node_id for node_id in hot.node_ids()}
    if not hot_rows:
        return {}
    members = hot_rows.keys() & set(rows.tolist())
    entries = {row: hot.entries(hot_rows[row]) for row in members if row is not None}
    return {row: lines for row, lines in entries.items() if lines}
