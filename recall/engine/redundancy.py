"""Hits that say what another one says already: they give up their slot.

Owns what counts as saying the same, and the walk down the ranking that skips it. Off unless the
settings ask for it. Two texts that differ in a value, a name, a negation or the order of their
words are never taken for one, however near their vectors lie.

Invariant: nobody is skipped who is forced, has a warning of its own or stands in a suspected
succession; and with nothing redundant among the first, the answer is the one without this step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from memory.engine.config import SkipRedundant
from memory.engine.embedding import calibration_of
from memory.engine.graph import Graph
from memory.engine.lexical_veto import find_veto
from memory.engine.text import normalised
from memory.engine.types import EdgeType
from memory.engine.vector_table import exact_cosines

LOOKED_AT_MAX: Final = 20
LOOKED_AT_PER_SLOT: Final = 4

_APART: Final = (EdgeType.CONTRADICTS, EdgeType.SUSPECTED_SUPERSEDES)


@dataclass(frozen=True, slots=True)
class Distinct:
    """Positions to show in order, and by position the rows each stands for, best first."""

    positions: list[int]
    also: dict[int, list[int]]


def looked_at(top_k: int) -> int:
    """How many of the first members are compared."""
    return min(LOOKED_AT_MAX, LOOKED_AT_PER_SLOT * top_k)


def pick_distinct(
    graph: Graph,
    rows: Sequence[int],
    ordered: Sequence[int],
    *,
    top_k: int,
    forced: Collection[int],
    kind: SkipRedundant,
    has_warning: Callable[[int], bool],
) -> Distinct:
    """Of positions in `rows`, best first, those to show; forced rows hold no slot.

    `ordered` reaches `looked_at(top_k)` ordinary members beyond the slots, or to the end.
    """
    found = Distinct([], {})
    seen = slots = 0
    for position in ordered:
        row = rows[position]
        if row in forced:
            found.positions.append(position)
            continue
        if slots == top_k:
            continue
        seen += 1
        if seen <= looked_at(top_k) and not has_warning(row) and not _is_suspected(graph, row):
            same = (at for at in found.positions if _says_the_same(graph, rows[at], row, kind))
            standing_for = next(same, None)
            if standing_for is not None:
                found.also.setdefault(standing_for, []).append(row)
                continue
        found.positions.append(position)
        slots += 1
    return found


def _says_the_same(graph: Graph, one: int, other: int, kind: SkipRedundant) -> bool:
    left, right = graph.content_at(one), graph.content_at(other)
    if any(_is_joined(graph, one, other, edge_type) for edge_type in _APART):
        return False
    if normalised(left) == normalised(right):
        return True
    if kind is not SkipRedundant.SIMILAR or not _is_similar(graph, one, other):
        return False
    return is_one_claim(left, right)


def is_one_claim(left: str, right: str) -> bool:
    """Whether two texts of near vectors differ in nothing that makes two claims of them."""
    return find_veto(left, right) is None and not _has_moved_words(left, right)


def _is_similar(graph: Graph, one: int, other: int) -> bool:
    if _is_joined(graph, one, other, EdgeType.SEMANTIC):
        return True
    if graph.vectors is None or graph.contract is None:
        return False
    left, right = graph.vectors.get(one), graph.vectors.get(other)
    if left is None or right is None:
        return False
    cosine = exact_cosines(left[np.newaxis], right)[0]
    return bool(cosine >= calibration_of(graph.contract).merge_threshold)


def _is_joined(graph: Graph, one: int, other: int, edge_type: EdgeType) -> bool:
    """Whether an edge of a type leads from either to the other."""
    leaving, edges = graph.concepts.leaving, graph.edges
    return other in edges.ends_of(leaving[one], edge_type, "target") or one in edges.ends_of(
        leaving[other], edge_type, "target"
    )


def _is_suspected(graph: Graph, row: int) -> bool:
    """Whether it is either end of a suspected succession."""
    edges, concepts, kind = graph.edges, graph.concepts, EdgeType.SUSPECTED_SUPERSEDES
    return bool(
        edges.ends_of(concepts.leaving[row], kind, "target")
        or edges.ends_of(concepts.arriving[row], kind, "source")
    )


def _has_moved_words(left: str, right: str) -> bool:
    """The same words in another order: who does what to whom may have changed."""
    one, other = left.casefold().split(), right.casefold().split()
    return one != other and sorted(one) == sorted(other)
