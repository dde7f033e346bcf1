"""Where a recall starts: the concepts that answer the question by themselves.

Owns the keyword, vector, literal and recent legs. A leg is a list of (row, relevance); each leg
keeps its own scale, and `fusion` makes one list of them.

Invariant: a leg is ordered by score descending, then id, whatever order rows have.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings, nearest_to_query
from memory.engine.text import index_tokens
from recall.engine.question import question_terms

ScoredRow: TypeAlias = tuple[int, float]
Accepted: TypeAlias = npt.NDArray[np.bool_]
"""Whether each concept row may be shown, by row."""

CANDIDATES_PER_SLOT: Final = 4
"""How many times further than the answer is long a leg looks."""
LEG_DEPTH: Final = 100
"""How far a leg looks at least where places decide: agreement shows far down the list."""


class Leg(StrEnum):
    """How a concept came into an answer."""

    KEYWORD = "keyword"
    VECTOR = "vector"  # says something like the query
    LITERAL = "literal"  # holds a query that has no word to look up
    RECENT = "recent"
    CONTEXT = "context"  # was written just before or after something that answers
    TRAVERSAL = "traversal"  # an edge leads to it from another member
    COMPANION = "companion"  # contradicts a hit
    SIBLING = "sibling"  # a part of the same chunk is a member


class Candidate(NamedTuple):
    """A concept found by at least one leg; `score` is its relevance Q."""

    row: int
    score: float
    legs: tuple[Leg, ...]


def keyword_leg(
    graph: Graph,
    query: str,
    *,
    limit: int,
    by_question: bool,
    accepted: Accepted | None = None,
) -> list[ScoredRow]:
    """Concepts of any type that share a stem with the query, by raw BM25, best first.

    `by_question` leaves out the words that only ask and finds words inside longer tokens; without
    it every token of the query is looked for as it stands.
    """
    tokens = question_terms(query) if by_question else index_tokens(query)

    def search(of: Accepted | None) -> list[ScoredRow]:
        return graph.index.search(
            tokens, limit, tie_key=graph.id_at, with_parts=by_question, accepted=of
        )

    return _also_accepted(search, accepted)


def literal_leg(
    graph: Graph, query: str, *, limit: int, score: float, accepted: Accepted | None = None
) -> list[ScoredRow]:
    """Concepts that hold the query as it stands, ASCII case aside; for queries without a word.

    A question of stop words or marks alone ("AND", "_") has no stem to look up; looking at every
    content is what is left, and only such questions pay for it. Order: id.
    """
    wanted = query.strip().lower()
    if not wanted or index_tokens(query):
        return []
    contents = graph.concepts.contents
    found = [row for row in graph.concept_rows() if wanted in contents[row].lower()]
    found.sort(key=graph.id_at)

    def search(of: Accepted | None) -> list[ScoredRow]:
        kept = found if of is None else [row for row in found if of[row]]
        return [(row, score) for row in kept[:limit]]

    return _also_accepted(search, accepted)


def vector_leg(
    graph: Graph,
    query: str,
    *,
    limit: int,
    meanings: Meanings | None,
    accepted: Accepted | None = None,
) -> list[ScoredRow]:
    """The concepts nearest to the query by meaning, by cosine, best first.

    Empty where nothing could be embedded: `meanings` is what was looked up of the query.
    """
    if meanings is None:
        return []

    def search(of: Accepted | None) -> list[ScoredRow]:
        return nearest_to_query(graph, meanings, query, limit=limit, accepted=of)

    return _also_accepted(search, accepted)


def recent_leg(graph: Graph, *, interactions: int, score: float) -> list[ScoredRow]:
    """Concepts first written by one of the newest `interactions`, each with the same `score`."""
    return [
        (row, score)
        for interaction in graph.newest_interactions(interactions)
        for row in graph.rows_originating(interaction.id)
    ]


def _also_accepted(
    search: Callable[[Accepted | None], list[ScoredRow]], accepted: Accepted | None
) -> list[ScoredRow]:
    """A leg as it is, and behind it what a look at accepted concepts alone adds.

    What a leg finds first keeps its place whatever a filter says, so that a filter leaves scores
    alone; and what it accepts is found however much stands before it.
    """
    found = search(None)
    if accepted is None:
        return found
    known = {row for row, _ in found}
    return found + [scored for scored in search(accepted) if scored[0] not in known]
