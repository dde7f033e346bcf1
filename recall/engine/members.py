"""Who may be in an answer: the concepts that answer, and those they lead to.

Owns the way from a question to members: the legs, their fusion, the walk along edges, the siblings,
and what a filter takes out. Ranks nobody.

Invariant: a filter changes who is a member, not how those left were found or what they are worth,
as long as no leg is so long that it is cut; then it also brings in what stands behind the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memory.engine.config import FusionKind
from memory.engine.filters import accepted_rows
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.limits import EXPANSION_NODES
from memory.engine.requests import RecallRequest
from recall.engine.candidates import (
    CANDIDATES_PER_SLOT,
    LEG_DEPTH,
    Accepted,
    Candidate,
    Leg,
    keyword_leg,
    literal_leg,
    recent_leg,
    vector_leg,
)
from recall.engine.expansion import Rows, expand, find_siblings
from recall.engine.fusion import fuse, unfound_relevance
from recall.engine.settings import RecallSettings


@dataclass(frozen=True, slots=True)
class Members:
    """Rows, (n,) int64, each once, and the relevance of each, (n,) float64, aligned.

    `places` are their places before the filter, where `candidates` came first, then what was
    reached, then, from `siblings_at` on, kin. `accepted` is what the filter accepts, or None
    without one.
    """

    rows: Rows
    relevance: npt.NDArray[np.float64]
    candidates: Sequence[Candidate]
    places: Rows
    siblings_at: int
    accepted: Accepted | None

    def legs_at(self, position: int) -> tuple[Leg, ...]:
        """How the member at a position was found."""
        place = int(self.places[position])
        if place < len(self.candidates):
            return self.candidates[place].legs
        return (Leg.SIBLING if place >= self.siblings_at else Leg.TRAVERSAL,)


def gather(
    graph: Graph, request: RecallRequest, *, settings: RecallSettings, meanings: Meanings | None
) -> Members:
    """The members of the answer to a question, in no particular order."""
    accepted = find_accepted(graph, request)
    candidates = _find_candidates(
        graph, request, settings=settings, meanings=meanings, accepted=accepted
    )
    found = [candidate.row for candidate in candidates]
    reached = expand(graph, found, depth=request.traversal_depth)
    members = np.concatenate([np.asarray(found, dtype=np.int64), reached])
    siblings = find_siblings(graph, members, limit=EXPANSION_NODES - reached.size)

    rows = np.concatenate([members, siblings])
    relevance = np.full(rows.size, unfound_relevance(settings.fusion))
    relevance[: len(found)] = [candidate.score for candidate in candidates]
    places = np.arange(rows.size) if accepted is None else np.flatnonzero(accepted[rows])
    return Members(rows[places], relevance[places], candidates, places, members.size, accepted)


def find_accepted(graph: Graph, request: RecallRequest) -> Accepted | None:
    """What the request's filter accepts, by row; None without a filter."""
    return None if request.wanted.accepts_all else accepted_rows(graph, request.wanted)


def _find_candidates(
    graph: Graph,
    request: RecallRequest,
    *,
    settings: RecallSettings,
    meanings: Meanings | None,
    accepted: Accepted | None,
) -> list[Candidate]:
    """What answers by itself: every leg, fused, best first."""
    query, top_k = request.query, request.top_k
    by_rank = settings.fusion.kind is FusionKind.RRF
    depth = CANDIDATES_PER_SLOT * top_k
    keyword_depth, vector_depth = (max(LEG_DEPTH, depth), LEG_DEPTH) if by_rank else (depth, top_k)
    keyword = keyword_leg(graph, query, limit=keyword_depth, by_question=by_rank, accepted=accepted)
    literal = literal_leg(
        graph, query, limit=depth, score=settings.literal_score, accepted=accepted
    )
    vector = vector_leg(graph, query, limit=vector_depth, meanings=meanings, accepted=accepted)
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
    if accepted is None:
        return fuse(graph, legs, fusion=settings.fusion, limit=depth)
    fused = fuse(graph, legs, fusion=settings.fusion, limit=graph.concept_count)
    return _keep(fused, accepted, count=depth) if by_rank else fused


def _keep(fused: Sequence[Candidate], accepted: Accepted, *, count: int) -> list[Candidate]:
    """The first `count` of all, and the first `count` of those accepted."""
    accepted_places = [place for place, candidate in enumerate(fused) if accepted[candidate.row]]
    also = frozenset(accepted_places[:count])
    return [candidate for place, candidate in enumerate(fused) if place < count or place in also]


def _recent_score(settings: RecallSettings, meanings: Meanings | None) -> float:
    """What being new is worth, on the scale of the cosines it is merged with."""
    return settings.recent_score if meanings is None else meanings.recent_score
