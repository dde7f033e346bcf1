"""Where a recall starts: the concepts that answer the question by themselves.

Owns the keyword, vector, literal and recent legs. A leg is a list of (row, relevance); each leg
keeps its own scale, and `fusion` makes one list of them.

Invariant: a leg is ordered by score descending, then id, whatever order rows have.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings, nearest_to_query
from memory.engine.text import index_tokens
from recall.engine.question import question_terms

ScoredRow: TypeAlias = tuple[int, float]

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
    SIBLING = "sibling"  # a part of the same chunk is a member


class Candidate(NamedTuple):
    """A concept found by at least one leg; `score` is its relevance Q."""

    row: int
    score: float
    legs: tuple[Leg, ...]


def keyword_leg(graph: Graph, query: str, *, limit: int, by_question: bool) -> list[ScoredRow]:
    """Concepts of any type that share a stem with the query, by raw BM25, best first.

    `by_question` leaves out the words that only ask and finds words inside longer tokens; without
    it every token of the query is looked for as it stands.
    """
    tokens = question_terms(query) if by_question else index_tokens(query)
    return graph.index.search(tokens, limit, tie_key=graph.id_at, with_parts=by_question)


def literal_leg(graph: Graph, query: str, *, limit: int, score: float) -> list[ScoredRow]:
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
    return [(row, score) for row in found[:limit]]


def vector_leg(
    graph: Graph, query: str, *, limit: int, meanings: Meanings | None
) -> list[ScoredRow]:
    """The concepts nearest to the query by meaning, by cosine, best first.

    Empty where nothing could be embedded: `meanings` is what was looked up of the query.
    """
    return [] if meanings is None else nearest_to_query(graph, meanings, query, limit=limit)


def recent_leg(graph: Graph, *, interactions: int, score: float) -> list[ScoredRow]:
    """Concepts first written by one of the newest `interactions`, each with the same `score`."""
    return [
        (row, score)
        for interaction in graph.newest_interactions(interactions)
        for row in graph.rows_originating(interaction.id)
    ]
