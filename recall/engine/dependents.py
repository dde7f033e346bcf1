"""Dependency questions: "what rests on X?" is answered by traversal, not by ranking words.

Owns how such a question is recognised, which concept it is about (the anchor), and how strongly
each dependent is tied to it. Which concepts are dependents is the graph's answer, here as
everywhere.

Invariant: an anchor is a whole content that stands in the query at word boundaries; of several the
longest, then an Entity or Resource, then the smallest id.
"""

from __future__ import annotations

import unicodedata
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from memory.engine.content_order import fold
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES
from memory.engine.types import ConceptType, EdgeType
from recall.engine.dependency_phrases import Phrase, find_phrases
from recall.engine.expansion import Rows
from recall.engine.ranking import Scores

ANCHOR_REACH_CHARS: Final = 512
"""How far from the marker the anchor is looked for, before and after."""

PHRASES_MAX: Final = 4
"""Ways of asking that are followed up in one query."""

_NAMED_THINGS: Final = (ConceptType.ENTITY, ConceptType.RESOURCE)

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
    """
    folded = fold(query)
    phrases = islice(find_phrases(folded), PHRASES_MAX)
    anchors = (find_anchor(graph, folded, phrase) for phrase in phrases)
    anchor = next((found for found in anchors if found is not None), None)
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


def find_anchor(graph: Graph, folded_query: str, phrase: Phrase) -> int | None:
    """Row of the concept a phrase of a folded query is about, or None.

    Looked for where the phrase names it and within `ANCHOR_REACH_CHARS` of it: at each word there,
    what contents the text goes on with. Takes hardly longer in a large session than in a small one.
    """
    low = max(phrase.low, phrase.at - ANCHOR_REACH_CHARS)
    high = phrase.at + ANCHOR_REACH_CHARS
    text = folded_query[low:high]
    edges = _word_edges(folded_query)[low : high + 1]
    order = graph.concepts.order
    longest = 1
    found: set[str] = set()
    for at in range(min(len(text), phrase.high - low + 1)):
        if not edges[at]:
            continue
        for content in order.beginnings(text[at:]):
            if len(content) < longest:
                break
            if edges[at + len(content)] and content.strip():
                if len(content) > longest:
                    longest, found = len(content), set()
                found.add(content)
                break
    rows = [row for content in found for row in order.rows_of(content)]
    return min(rows, key=lambda row: _preference(graph, row), default=None)


def _preference(graph: Graph, row: int) -> tuple[bool, str]:
    """Of equally long contents, one that names a thing comes first; then the smallest id."""
    return graph.type_at(row) not in _NAMED_THINGS, graph.id_at(row)


def _word_edges(text: str) -> list[bool]:
    """For each place between two characters, the ends included, whether no word runs across it."""
    in_word = [False, *map(_is_word, text), False]
    return [not (in_word[at] and in_word[at + 1]) for at in range(len(text) + 1)]


def _is_word(character: str) -> bool:
    # Marks belong to words: vowel signs of Indic scripts and accents that do not compose.
    return character == "_" or unicodedata.category(character)[0] in "LNM"


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
