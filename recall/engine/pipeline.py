"""How a question is answered: the order of the work.

Owns nothing but that order. It reads the graph and writes nothing; time, scores and the hot list
are arguments, so the same question to the same graph at the same instant has the same answer, byte
for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from memory.engine.config import SkipRedundant
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.requests import RecallRequest
from memory.engine.times import Micros
from memory.engine.types import NodeId, Status
from recall.engine.assembly import assemble, build_hit, empty_context_warnings, warning_lines
from recall.engine.beliefs import NO_BELIEFS, Beliefs, Doubts
from recall.engine.candidates import Leg
from recall.engine.dependents import (
    DependencyAnswer,
    answer_dependency_question,
    traversal_notice,
)
from recall.engine.expansion import Rows
from recall.engine.hot_list import NO_HOT_LIST, HotEntry, HotList
from recall.engine.member_cache import MemberCache
from recall.engine.members import find_accepted, gather
from recall.engine.ranking import Scores, blend, has_standing, select
from recall.engine.redundancy import Distinct, looked_at, pick_distinct
from recall.engine.results import Annotation, AnnotationKind, Hit, RecallResult
from recall.engine.settings import DEFAULT_SETTINGS, RecallSettings


class Ranked(NamedTuple):
    """What a session answers, in order, before a token budget cuts it.

    `forced` are the hits that hold no slot, `by_traversal` tells that they are the dependents of
    what was asked about, `cold_start` that some hit was ranked without a standing.
    """

    hits: tuple[Hit, ...]
    forced: frozenset[NodeId] = frozenset()
    by_traversal: bool = False
    cold_start: bool = False


class _Shown(NamedTuple):
    """A row that is shown, and why."""

    row: int
    score: float
    legs: tuple[Leg, ...]
    companion_of: int | None = None
    stands_for: Sequence[int] = ()


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
    beliefs: Beliefs = NO_BELIEFS,
    cache: MemberCache | None = None,
) -> RecallResult:
    """Answer a question from one session's graph; the arguments are those of `rank`."""
    ranked = rank(
        graph,
        request,
        now=now,
        scores=scores,
        hot=hot,
        settings=settings,
        blast_radius=blast_radius,
        meanings=meanings,
        beliefs=beliefs,
        cache=cache,
    )
    assembled = assemble(
        ranked.hits, max_tokens=request.max_tokens, show_authors=settings.show_authors
    )
    notices = traversal_notices(ranked, assembled.hits)
    told = [notice.text for notice in notices] or warning_lines(ranked.hits)
    return RecallResult(
        context=assembled.context,
        tokens=assembled.tokens,
        hits=assembled.hits,
        response_annotations=notices,
        warnings=(*told, *empty_context_warnings(assembled)),
        cold_start=ranked.cold_start,
    )


def rank(
    graph: Graph,
    request: RecallRequest,
    *,
    now: Micros,
    scores: Scores | None = None,
    hot: HotList = NO_HOT_LIST,
    settings: RecallSettings = DEFAULT_SETTINGS,
    blast_radius: Callable[[int], int] | None = None,
    meanings: Meanings | None = None,
    beliefs: Beliefs = NO_BELIEFS,
    cache: MemberCache | None = None,
) -> Ranked:
    """The hits of one session's graph with all their lines, however long they are together.

    `meanings` is what was looked up of the query's meaning; without it words alone decide.

    `scores` is the daemon's score by concept row, `(n,) float64`, or None while there is none.
    `hot` is a view of the hot list at `now`. `blast_radius` measures a row; by default the graph
    does. `beliefs` tells which contradictions stand at `now`. `cache` may know the members.
    """
    radius = graph.blast_radius if blast_radius is None else blast_radius
    dependency = answer_dependency_question(graph, request.query)
    if dependency is not None:
        return _answer_by_traversal(graph, request, dependency, radius=radius)

    find_members = gather if cache is None else cache.gather
    members = find_members(graph, request, settings=settings, meanings=meanings)
    rows = members.rows
    blended = blend(rows, members.relevance, daemon_scores=scores, settings=settings)
    entries_by_row = _live_entries(graph, hot, rows)
    doubts = Doubts(graph, beliefs, settings=settings)
    forced = entries_by_row.keys() | doubts.find_forced(rows)
    picked = _pick(graph, request, rows, blended, forced, doubts, now=now, settings=settings)
    shown = [
        _Shown(
            int(rows[position]),
            float(blended[position]),
            members.legs_at(position),
            stands_for=picked.also.get(position, ()),
        )
        for position in picked.positions
    ]
    companions = doubts.find_companions([one.row for one in shown], accepted=members.accepted)
    if companions:
        score_by_row = dict(zip(rows.tolist(), blended.tolist(), strict=True))
        shown = _beside(shown, companions, score_by_row)
    rows_shown = frozenset(one.row for one in shown)

    hits = [
        build_hit(
            graph,
            one.row,
            score=one.score,
            legs=one.legs,
            blast_radius=radius,
            hot_entries=entries_by_row.get(one.row, ()),
            belief_lines=doubts.lines_of(one.row, replacement=replacement),
            reserved_at=now,
            companion_of=one.companion_of,
            possibly_superseded_by=replacement,
            stands_for=one.stands_for,
        )
        for one in shown
        for replacement in [doubts.find_replacement(one.row, rows_shown)]
    ]
    return Ranked(
        tuple(hits),
        frozenset(graph.id_at(one.row) for one in shown if one.row in forced),
        cold_start=any(not has_standing(scores, one.row) for one in shown),
    )


def traversal_notices(ranked: Ranked, assembled: Sequence[Hit]) -> tuple[Annotation, ...]:
    """What is said of an answer by traversal, of which these hits were shown or left out."""
    if not ranked.by_traversal:
        return ()
    fitted = sum(hit.included_in_context for hit in assembled)
    return (Annotation(AnnotationKind.TRAVERSAL, traversal_notice(fitted)),)


def _pick(
    graph: Graph,
    request: RecallRequest,
    rows: Rows,
    blended: Scores,
    forced: Collection[int],
    doubts: Doubts,
    *,
    now: Micros,
    settings: RecallSettings,
) -> Distinct:
    """The positions to show; where the settings ask for it, without what says the same."""
    top_k, kind = request.top_k, settings.skip_redundant
    if kind is SkipRedundant.OFF:
        return Distinct(select(graph, rows, blended, top_k=top_k, forced=forced), {})
    reach = top_k + looked_at(top_k)
    ordered = select(graph, rows, blended, top_k=reach, forced=forced)

    def has_warning(row: int) -> bool:
        reservation = graph.reservation(graph.id_at(row))
        return (
            graph.status_at(row) is Status.CANONICAL
            or (reservation is not None and now < reservation.expires_at)
            or bool(doubts.lines_of(row, replacement=None))
        )

    return pick_distinct(
        graph,
        rows.tolist(),
        ordered,
        top_k=top_k,
        forced=forced,
        kind=kind,
        has_warning=has_warning,
    )


def _beside(
    shown: Sequence[_Shown], companions: Mapping[int, int], score_by_row: Mapping[int, float]
) -> list[_Shown]:
    """The same with each companion right behind the hit it contradicts; no member scores 0."""
    found = []
    for one in shown:
        found.append(one)
        companion = companions.get(one.row)
        if companion is not None:
            score = score_by_row.get(companion, 0.0)
            found.append(_Shown(companion, score, (Leg.COMPANION,), one.row))
    return found


def _answer_by_traversal(
    graph: Graph,
    request: RecallRequest,
    answer: DependencyAnswer,
    *,
    radius: Callable[[int], int],
) -> Ranked:
    """The dependents themselves, by the strength of their tie; only load-bearing lines."""
    rows, weights = answer.rows, answer.weights
    accepted = find_accepted(graph, request)
    if accepted is not None:
        is_kept = accepted[rows]
        rows, weights = rows[is_kept], weights[is_kept]
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
    return Ranked(tuple(hits), by_traversal=True)


def _live_entries(graph: Graph, hot: HotList, rows: Rows) -> dict[int, Sequence[HotEntry]]:
    """The hot-list entries of the members that have any: those members are forced."""
    hot_rows = {graph.row_of(node_id): node_id for node_id in hot.node_ids()}
    if not hot_rows:
        return {}
    members = hot_rows.keys() & set(rows.tolist())
    entries = {row: hot.entries(hot_rows[row]) for row in members if row is not None}
    return {row: lines for row, lines in entries.items() if lines}
