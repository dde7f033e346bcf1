"""From several lists of concepts to one: how much each answers the question, all told.

Owns the two ways of fusing. `max` keeps the highest raw score of any leg, so a leg whose scale is
larger decides. `rrf` (reciprocal rank fusion: Cormack, Clarke and Buettcher, SIGIR 2009) looks at
places instead of scores: each leg adds weight / (k + place), so what several legs agree on comes
first. It then adds context: what was written just before or after a good answer is often a part of
it, as the reply to a question is.

Invariant: the fused list is ordered by score descending, then id, and depends on neither the row
numbers nor the order of the legs' equals: those share a place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from memory.engine.config import FusionKind
from memory.engine.graph import Graph
from recall.engine.candidates import LEG_DEPTH, Candidate, Leg, ScoredRow
from recall.engine.expansion import Rows
from recall.engine.settings import FusionSettings

Scores: TypeAlias = npt.NDArray[np.float64]
Legs: TypeAlias = Sequence[tuple[Leg, Sequence[ScoredRow]]]

CONTEXT_STEPS: Final = ((1, 1.0), (2, 0.5), (-1, 0.5), (-2, 0.25))
"""How far along the chain of interactions relevance is lent, and which share of the context weight.

A step halves it, and what was written before an answer gets half of what was written after: a text
is explained by what precedes it more often than the other way about.
"""

CONTEXT_CONCEPTS: Final = 16
"""An interaction that wrote more lends and gets nothing: shared out, it would be next to none."""
CONTEXT_LENDERS: Final = 20
"""Only so many of the best lend: what the others have is not worth the work."""


NEAR_SHARE: Final = 0.5
"""Of the nearest meaning's cosine: what is farther than that has no place in the vector leg.

Every vector has some cosine. In a session that is smaller than the leg is deep, places alone would
make an answer of the farthest.
"""


LENT_MOST: Final = 0.75
"""Of the best lender's relevance: a borrower's own and what it is lent end there."""


class _Shares(NamedTuple):
    """What concept rows get: rows, (n,) int64, and scores, (n,) float64, aligned."""

    rows: Rows
    scores: Scores


_NONE: Final = _Shares(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64))


def fuse(graph: Graph, legs: Legs, *, fusion: FusionSettings, limit: int) -> list[Candidate]:
    """One candidate per concept that a leg found, or that stands beside one of those, best first.

    Under `rrf` a leg without weight is left out, and only the first `limit` are kept: legs that
    look far agree on the best, and what only the far end of one of them holds is no answer.
    """
    if fusion.kind is FusionKind.MAX:
        return merge_by_max(graph, legs)
    return merge_by_rank(graph, legs, fusion=fusion, limit=limit)


def unfound_relevance(fusion: FusionSettings) -> float:
    """What a concept is worth that no leg found, when an edge or its chunk leads to it.

    Under `rrf`, as much as the last place of a leg: its standing is multiplied by it, and orders
    those that fill the slots nobody answered for.
    """
    return 0.0 if fusion.kind is FusionKind.MAX else 1.0 / (fusion.k + LEG_DEPTH)


def merge_by_max(graph: Graph, legs: Legs) -> list[Candidate]:
    """One candidate per concept with its highest raw score and every leg that found it."""
    best: dict[int, float] = {}
    found_by: dict[int, tuple[Leg, ...]] = {}
    for leg, scored_rows in legs:
        for row, score in scored_rows:
            best[row] = max(score, best.get(row, score))
            found_by[row] = (*found_by.get(row, ()), leg)
    merged = [Candidate(row, score, found_by[row]) for row, score in best.items()]
    merged.sort(key=lambda candidate: (-candidate.score, graph.id_at(candidate.row)))
    return merged


def merge_by_rank(
    graph: Graph, legs: Legs, *, fusion: FusionSettings, limit: int
) -> list[Candidate]:
    """Reciprocal rank fusion of the legs, and the context of what they found."""
    shares_of = {
        leg: _by_place(scored_rows, weight=weight, k=fusion.k)
        for leg, scored_rows in _near_enough(legs)
        if scored_rows and (weight := _weight(leg, fusion)) > 0.0
    }
    if fusion.context_weight > 0.0:
        # Being new says nothing about the question, so it is not lent.
        relevant = _sum([shares for leg, shares in shares_of.items() if leg is not Leg.RECENT])
        context = _context(graph, relevant)
        shares_of[Leg.CONTEXT] = _Shares(context.rows, fusion.context_weight * context.scores)
        shares_of[Leg.CONTEXT] = _below_lenders(graph, relevant, shares_of[Leg.CONTEXT])
    rows, scores = _best(_sum(list(shares_of.values())), count=limit)
    found_by = {leg: frozenset(shares.rows.tolist()) for leg, shares in shares_of.items()}
    merged = [
        Candidate(row, score, tuple(leg for leg, found in found_by.items() if row in found))
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
    ]
    merged.sort(key=lambda candidate: (-candidate.score, graph.id_at(candidate.row)))
    return merged[:limit]


def _near_enough(legs: Legs) -> Iterator[tuple[Leg, Sequence[ScoredRow]]]:
    for leg, scored_rows in legs:
        if leg is Leg.VECTOR and scored_rows:
            floor = max(NEAR_SHARE * scored_rows[0][1], 0.0)
            yield leg, [scored for scored in scored_rows if scored[1] >= floor]
        else:
            yield leg, scored_rows


def _weight(leg: Leg, fusion: FusionSettings) -> float:
    match leg:
        case Leg.VECTOR:
            return fusion.vector_weight
        case Leg.RECENT:
            return fusion.recent_weight
        case _:
            return fusion.keyword_weight


def _by_place(scored_rows: Sequence[ScoredRow], *, weight: float, k: float) -> _Shares:
    """weight / (k + place) for each entry of a leg; equal scores share a place."""
    rows = np.array([row for row, _ in scored_rows], dtype=np.int64)
    scores = np.array([score for _, score in scored_rows], dtype=np.float64)
    numbers = np.arange(rows.size)
    is_lower = np.diff(scores, prepend=np.inf) != 0.0
    places = 1 + np.maximum.accumulate(np.where(is_lower, numbers, 0))
    return _Shares(rows, weight / (k + places))


def _sum(parts: Sequence[_Shares]) -> _Shares:
    """Each row once, with all it gets; a row's sum is made in the order of the parts."""
    rows, at = np.unique(
        np.concatenate([_NONE.rows, *(part.rows for part in parts)]), return_inverse=True
    )
    weights = np.concatenate([_NONE.scores, *(part.scores for part in parts)])
    scores: Scores = np.bincount(at, weights=weights, minlength=rows.size).astype(np.float64)
    return _Shares(rows, scores)


def _context(graph: Graph, relevant: _Shares) -> _Shares:
    """What concepts are lent by the interactions around the one that first wrote them.

    An interaction lends the relevance of its best concept; what it gets, its concepts share.
    """
    originated = graph.chain.originated
    lenders = _lenders(relevant)
    best: dict[int, float] = {}
    places = graph.concepts["origin"][lenders.rows].tolist()
    for place, score in zip(places, lenders.scores.tolist(), strict=True):
        if len(originated[place]) <= CONTEXT_CONCEPTS:
            best[place] = max(score, best.get(place, 0.0))
    lent: dict[int, float] = defaultdict(float)
    # In the order of the chain: a sum of floats depends on its order.
    for place in sorted(best):
        for step, share in CONTEXT_STEPS:
            lent[place + step] += share * best[place]
    rows: list[int] = []
    scores: list[float] = []
    for place, amount in lent.items():
        written = originated[place] if 0 <= place < len(originated) else []
        if 0 < len(written) <= CONTEXT_CONCEPTS:
            rows += written
            scores += [amount / len(written)] * len(written)
    return _Shares(np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float64))


def _below_lenders(graph: Graph, relevant: _Shares, context: _Shares) -> _Shares:
    """What is lent, cut so that nobody comes before the best of those who lent to it."""
    own = dict(zip(relevant.rows.tolist(), relevant.scores.tolist(), strict=True))
    origins = graph.concepts["origin"]
    lenders = _lenders(relevant)
    best: dict[int, float] = {}
    for row, score in zip(lenders.rows.tolist(), lenders.scores.tolist(), strict=True):
        place = int(origins[row])
        best[place] = max(score, best.get(place, 0.0))
    most = [
        max((best.get(int(origins[row]) - step, 0.0) for step, _ in CONTEXT_STEPS), default=0.0)
        * LENT_MOST
        - own.get(row, 0.0)
        for row in context.rows.tolist()
    ]
    return _Shares(context.rows, np.minimum(context.scores, np.maximum(most, 0.0)))


def _lenders(relevant: _Shares) -> _Shares:
    """The best that lend; of equals at the end either all or none, so ids need not decide."""
    rows, scores = relevant
    if rows.size <= CONTEXT_LENDERS:
        return relevant
    next_best = rows.size - CONTEXT_LENDERS - 1
    kept = scores > np.partition(scores, next_best)[next_best]
    return _Shares(rows[kept], scores[kept])


def _best(shares: _Shares, *, count: int) -> _Shares:
    """The `count` highest, and all that are equal to the last of them."""
    rows, scores = shares
    if rows.size <= count:
        return shares
    kept = scores >= np.partition(scores, rows.size - count)[rows.size - count]
    return _Shares(rows[kept], scores[kept])
