"""Where a recall starts: the concepts that answer the question by themselves.

Owns the keyword, vector and recent legs and their merge. A leg is a list of (row, relevance); each
leg keeps its own scale. Nothing is normalised: BM25 has no upper bound, and rescaling one leg would
change what the fixed score of the recent leg is worth.

Invariant: the merged list is ordered by score descending, then id, whatever order rows have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings, nearest_to_query
from memory.engine.text import index_tokens

ScoredRow: TypeAlias = tuple[int, float]

KEYWORD_CANDIDATES_PER_SLOT: Final = 4
"""The keyword leg looks this many times further than the answer is long."""


class Leg(StrEnum):
    """How a concept came into an answer."""

    KEYWORD = "keyword"
    VECTOR = "vector"  # says something like the query
    LITERAL = "literal"  # holds a query that has no word to look up
    RECENT = "recent"
    TRAVERSAL = "traversal"  # an edge leads to it from another member
    SIBLING = "sibling"  # a part of the same chunk is a member


class Candidate(NamedTuple):
    """A concept found by at least one leg; `score` is its relevance Q."""

    row: int
    score: float
    legs: tuple[Leg, ...]


def keyword_leg(graph: Graph, query: str, *, top_k: int) -> list[ScoredRow]:
    """Concepts of any type that share a stem with the query, by raw BM25, best first."""
    limit = KEYWORD_CANDIDATES_PER_SLOT * top_k
    return graph.index.search(index_tokens(query), limit, tie_key=graph.id_at)


def literal_leg(graph: Graph, query: str, *, top_k: int, score: float) -> list[ScoredRow]:
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
    return [(row, score) for row in found[: KEYWORD_CANDIDATES_PER_SLOT * top_k]]


def vector_leg(
    graph: Graph, query: str, *, top_k: int, meanings: Meanings | None
) -> list[ScoredRow]:
    """The concepts nearest to the query by meaning, by cosine, best first.

    Empty where nothing could be embedded: `meanings` is what was looked up of the query.
    """
    return [] if meanings is None else nearest_to_query(graph, meanings, query, top_k=top_k)


def recent_leg(graph: Graph, *, interactions: int, score: float) -> list[ScoredRow]:
    """Concepts first written by one of the newest `interactions`, each with the same `score`."""
    return [
        (row, score)
        for interaction in graph.newest_interactions(interactions)
        for row in graph.rows_originating(interaction.id)
    ]


def merge_by_max(graph: Graph, legs: Iterable[tuple[Leg, Sequence[ScoredRow]]]) -> list[Candidate]:
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
