"""Dependency questions: "what rests on X?" is answered by traversal, not by ranking words.

Owns how such a question is recognised, which concept it is about (the anchor), and how strongly
each dependent is tied to it. Which concepts are dependents is the graph's answer, here as
everywhere.

Invariant: an anchor is a whole content that stands in the query at word boundaries; of several the
longest, then an Entity or Resource, then the smallest id.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES
from memory.engine.types import ConceptType, EdgeType
from recall.engine.expansion import Rows
from recall.engine.ranking import Scores

MARKERS: Final = (
    "depends on",
    "depend on",
    "depends-on",
    "dependents of",
    "blast radius",
    "safe to delete",
    "what uses",
)
"""A query that holds one of these, in any case, is a dependency question."""

ANCHOR_REACH_CHARS: Final = 512
"""How far from the marker the anchor is looked for, before and after."""

_NAMED_THINGS: Final = (ConceptType.ENTITY, ConceptType.RESOURCE)
_HEAD_CHARS: Final = 3

_IS_STRUCTURAL: Final = np.zeros(len(EDGE_TYPES), dtype=np.bool_)
for _edge_type in (EdgeType.DEPENDENCY, EdgeType.CAUSAL, EdgeType.HIERARCHICAL):
    _IS_STRUCTURAL[EDGE_TYPE_CODE[_edge_type]] = True


class DependencyAnswer(NamedTuple):
    """The anchor's row, and its dependents with the strength of each tie, aligned."""

    anchor: int
    rows: Rows
    weights: Scores


def answer_dependency_question(graph: Graph, query: str) -> DependencyAnswer | None:
    """The dependents of the concept that the query asks about.

    None when the query is no dependency question, names no concept, or names one nothing rests on.
    Looks at every content of the session, but only when the query holds a marker.
    """
    folded = _fold(query)
    places = [at for marker in MARKERS if (at := folded.find(marker)) >= 0]
    if not places:
        return None
    anchor = find_anchor(graph, folded, near=min(places))
    if anchor is None:
        return None
    rows = np.asarray(graph.dependents(anchor), dtype=np.int64)
    if not rows.size:
        return None
    return DependencyAnswer(anchor, rows, _tie_weights(graph, anchor, rows))


def traversal_notice(shown: int) -> str:
    """What tells the reader that the answer is complete in kind: a walk, not a search."""
    return f"recall: dependency question answered by graph traversal ({shown} dependents)"


# -- the anchor ------------------------------------------------------------------------------------


def find_anchor(graph: Graph, folded_query: str, *, near: int = 0) -> int | None:
    """Row of the concept a folded query is about, or None.

    Looked for within `ANCHOR_REACH_CHARS` of the place `near`. Time is one look at each content of
    the session (0.2 microseconds), plus a search of the text for the few that may stand in it.
    """
    low, high = max(0, near - ANCHOR_REACH_CHARS), near + ANCHOR_REACH_CHARS
    text = folded_query[low:high]
    edges = _word_edges(folded_query)[low : high + 1]
    heads = _heads(text, edges)
    best: tuple[int, bool, str] | None = None
    anchor = None
    # A freed row has no content and so no head.
    for row, content in enumerate(graph.concepts.contents):
        # Nearly every row of a large session ends here, before any text is searched. The head of a
        # text that is not ASCII may compose with what follows it, so those are searched.
        if content[:_HEAD_CHARS].lower() not in heads and content.isascii():
            continue
        folded = _fold(content)
        if folded not in text or (best is not None and len(folded) < -best[0]):
            continue
        if _stands_in(text, folded, edges):
            rank = (-len(folded), graph.type_at(row) not in _NAMED_THINGS, graph.id_at(row))
            if best is None or rank < best:
                best, anchor = rank, row
    return anchor


def _fold(text: str) -> str:
    """`text` without its case; composed, so that both forms of an accent are equal."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _word_edges(text: str) -> list[bool]:
    """For each place between two characters, the ends included, whether no word runs across it."""
    in_word = [False, *map(_is_word, text), False]
    return [not (in_word[at] and in_word[at + 1]) for at in range(len(text) + 1)]


def _is_word(character: str) -> bool:
    # Marks belong to words: vowel signs of Indic scripts and accents that do not compose.
    return character == "_" or unicodedata.category(character)[0] in "LNM"


def _heads(text: str, edges: list[bool]) -> frozenset[str]:
    """The first characters of everything that can stand in `text`, one to `_HEAD_CHARS` of them."""
    return frozenset(
        text[at : at + size]
        for at in range(len(text))
        if edges[at]
        for size in range(1, _HEAD_CHARS + 1)
    )


def _stands_in(text: str, part: str, edges: list[bool]) -> bool:
    return any(edges[at] and edges[at + len(part)] for at in _places(text, part))


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part) if part.strip() else -1
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


# -- the strength of a tie -------------------------------------------------------------------------


def _tie_weights(graph: Graph, anchor: int, rows: Rows) -> Scores:
    """The strongest structural edge, in either direction, between the anchor and each row."""
    edges, concepts = graph.edges, graph.concepts
    found = np.asarray(concepts.leaving[anchor] + concepts.arriving[anchor], dtype=np.int64)
    found = found[_IS_STRUCTURAL[edges["type"][found]]]
    source, target = edges["source"][found], edges["target"][found]
    others = np.where(source == anchor, target, source)
    strongest = np.zeros(concepts.used, dtype=np.float64)
    np.maximum.at(strongest, others, edges["weight"][found])
    return strongest[rows]
