"""The pieces of evidence that hold a concept up, and what is counted of them.

A piece is one dependence edge that arrives at a concept: a Dependency edge into it, or a
Hierarchical edge from it to a child. Owns gathering them as columns, for some concepts through
their adjacency or for all by one pass over the edges, and the plain counts: how many different
values, from when to when. Which pieces count is said by a mask; policy is elsewhere.

Invariant: a self-edge is no evidence, and a loop is walked by nobody: each edge is looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Final

import numpy as np

from canon.engine.gate_times import Timeline, edge_gate_times
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE
from memory.engine.times import Micros
from memory.engine.types import EdgeType

DEPENDENCY: Final = EDGE_TYPE_CODE[EdgeType.DEPENDENCY]
HIERARCHICAL: Final = EDGE_TYPE_CODE[EdgeType.HIERARCHICAL]

_NEVER: Final = 2**62
"""Later than any instant, for a minimum that has seen nothing yet."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Evidence as columns, (p,) each; `owner` is the place of its concept in the rows asked for.

    `written` and `dated` are the write and gate times of the edge, `origin_written` and
    `origin_dated` those of the interaction that first wrote the dependent (`origin`, a row).
    `own_origin` is the interaction that first wrote the concept that is held up.
    """

    owner: Array
    edge: Array
    dependent: Array
    origin: Array
    own_origin: Array
    written: Array
    dated: Array
    origin_written: Array
    origin_dated: Array

    def __len__(self) -> int:
        return len(self.owner)

    def where(self, mask: Array | slice) -> Pieces:
        """The pieces a mask or a slice keeps, in order."""
        return Pieces(*(getattr(self, field.name)[mask] for field in fields(self)))

    @property
    def stood_from(self) -> Array:
        """Since when each piece is there by its dates, (p,) int64: the dependent and its edge.

        The later of both. A text may be weeks older than the edge that makes it evidence, and one
        write can tie many such texts to a concept: their age is not the age of the support.
        """
        since: Array = np.maximum(self.dated, self.origin_dated)
        return since

    def is_aged(self, cutoff: Micros) -> Array:
        """Whose edge was written, and is dated, no later than the cutoff; (p,) bool."""
        mask: Array = (self.written <= cutoff) & (self.dated <= cutoff)
        return mask

    def is_support(self, cutoff: Micros) -> Array:
        """Which pieces count as support: edge and origin aged, and not of one write with it."""
        mask: Array = (
            self.is_aged(cutoff)
            & (self.origin_written <= cutoff)
            & (self.origin_dated <= cutoff)
            & (self.origin != self.own_origin)
        )
        return mask


def gather(graph: Graph, timeline: Timeline, rows: Sequence[int]) -> Pieces:
    """The evidence of some concepts, in the order of `rows`, by their adjacency.

    Linear in their incident edges. `timeline` has followed the graph.
    """
    owner, edge, dependent = dependence(graph, rows)
    owner_row = np.asarray(rows, dtype=np.int64)[owner]
    return _pieces(graph, timeline, owner, owner_row, edge, dependent)


def dependence(graph: Graph, rows: Sequence[int]) -> tuple[Array, Array, Array]:
    """Owner, edge row and dependent row of each dependence edge into `rows`, (p,) each.

    By owner, which is a place in `rows`.
    """
    concepts, cells = graph.concepts, graph.edges.arrays
    lists = [[*concepts.leaving[row], *concepts.arriving[row]] for row in rows]
    lengths = [len(some) for some in lists]
    edge = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=sum(lengths))
    owner = np.repeat(np.arange(len(rows)), lengths)
    owner_row = np.asarray(rows, dtype=np.int64)[owner]
    kind, source, target = (cells[name][edge] for name in ("type", "source", "target"))
    is_cited = (kind == DEPENDENCY) & (target == owner_row)
    is_parent = (kind == HIERARCHICAL) & (source == owner_row)
    dependent = np.where(is_cited, source, target)
    kept = (is_cited | is_parent) & (dependent != owner_row)
    return owner[kept], edge[kept], dependent[kept]


def scan(graph: Graph, timeline: Timeline, span: slice, is_wanted: Array) -> Pieces:
    """The evidence in a span of edge rows, for the concepts a mask by row wants.

    `owner` is the concept's row here. A pass over all spans sees each piece once.
    """
    cells = graph.edges.arrays
    stop = min(span.stop, graph.edges.used)
    kinds = cells["type"][span.start : stop]
    is_structural = (kinds == DEPENDENCY) | (kinds == HIERARCHICAL)
    edge = np.flatnonzero(is_structural & graph.edges.live[span.start : stop]) + span.start
    is_cited = cells["type"][edge] == DEPENDENCY
    source, target = cells["source"][edge], cells["target"][edge]
    owner = np.where(is_cited, target, source).astype(np.int64)
    dependent = np.where(is_cited, source, target)
    kept = is_wanted[owner] & (owner != dependent)
    return _pieces(graph, timeline, owner[kept], owner[kept], edge[kept], dependent[kept])


def _pieces(
    graph: Graph,
    timeline: Timeline,
    owner: Array,
    owner_row: Array,
    edge: Array,
    dependent: Array,
) -> Pieces:
    origins = graph.concepts["origin"]
    origin = origins[dependent]
    return Pieces(
        owner=owner,
        edge=edge,
        dependent=dependent,
        origin=origin,
        own_origin=origins[owner_row],
        written=graph.edges["created_at"][edge],
        dated=edge_gate_times(graph, edge),
        origin_written=timeline.written[origin],
        origin_dated=timeline.gate[origin],
    )


# -- counting --------------------------------------------------------------------------------------


def count_distinct(owner: Array, value: Array, owner_count: int) -> Array:
    """How many different values (small whole numbers) each owner has, (owner_count,) int64."""
    if not len(owner):
        return np.zeros(owner_count, dtype=np.int64)
    base = int(value.max()) + 1
    # Sorting is several times as fast as the hash table of `np.unique`.
    pairs = np.sort(owner.astype(np.int64) * base + value)
    is_first = np.ones(len(pairs), dtype=np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=is_first[1:])
    return np.bincount(pairs[is_first] // base, minlength=owner_count)


def spans(owner: Array, instants: Array, owner_count: int) -> Array:
    """From the earliest to the latest instant of each owner, (owner_count,) int64; -1 for none."""
    first = np.full(owner_count, _NEVER, dtype=np.int64)
    last = np.full(owner_count, -_NEVER, dtype=np.int64)
    np.minimum.at(first, owner, instants)
    np.maximum.at(last, owner, instants)
    return np.where(last < first, -1, last - first)


def coverage(span: Array, extent: Micros, window: Micros) -> Array:
    """How much of the session its support spans, in [0, 1]; (n,) float64.

    `span` is of `spans`. The denominator is the session's extent, capped by the window, so that in
    a long session evidence need not be spread for ever. Support in a session without extent covers
    it wholly; no support covers nothing.
    """
    denominator = min(extent, window)
    shares = np.clip(span / denominator, 0.0, 1.0) if denominator > 0 else np.ones(len(span))
    return np.where(span < 0, 0.0, shares)
