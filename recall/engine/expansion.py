"""The neighbourhood of the candidates: what they point at, a few hops out, and what they were
written with.

Owns the breadth-first walk along out-edges, the siblings of a chunk, and the bound of both.
Contradicts and SuspectedSupersedes are never followed: being contradicted is no reason to be
recalled. Scores nothing; a reached concept has no relevance of its own.

Invariant: the rows reached depend on ids and edges alone, never on row numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from memory.engine.graph import Graph
from memory.engine.limits import EXPANSION_NODES
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES
from memory.engine.types import EdgeType

Rows: TypeAlias = npt.NDArray[np.int64]

FOLLOWED: Final = (
    EdgeType.DEPENDENCY,
    EdgeType.CAUSAL,
    EdgeType.HIERARCHICAL,
    EdgeType.CO_OCCURRENCE,
    EdgeType.SEMANTIC,
)
"""Edge types in the order in which a node's edges are walked."""

_NOT_FOLLOWED: Final = -1
_WALK_ORDER: Final = np.full(len(EDGE_TYPES), _NOT_FOLLOWED, dtype=np.int64)
for _place, _edge_type in enumerate(FOLLOWED):
    _WALK_ORDER[EDGE_TYPE_CODE[_edge_type]] = _place


def expand(graph: Graph, start: Sequence[int], *, depth: int, limit: int = EXPANSION_NODES) -> Rows:
    """Rows reached from `start` in at most `depth` hops, `start` itself excluded.

    Each node is reached once. Nodes are taken hop by hop: in the order of the node they are reached
    from (`start` as given), then of the edge type (`FOLLOWED`), then by id. The first `limit` of
    them are returned; within the last hop in no particular order.
    """
    frontier = np.asarray(start, dtype=np.int64)
    seen = np.zeros(len(graph.concepts.live), dtype=np.bool_)
    levels = [frontier[:0]]
    room = limit
    for hop in range(1, depth + 1):
        seen[frontier] = True
        targets, places = _next_hop(graph, frontier, seen)
        if targets.size > room:
            targets, places = _first(graph, targets, places, count=room)
        levels.append(targets)
        room -= targets.size
        # The order of a level decides only what a later cut keeps: none comes after the last one.
        if hop == depth or not room or not targets.size:
            break
        frontier = _in_walk_order(graph, targets, places)
    return np.concatenate(levels)


def find_siblings(graph: Graph, members: Rows, *, limit: int) -> Rows:
    """Concepts that share a chunk group with a member and are none; the first `limit` by id.

    Costs a look at each concept's chunk group, but only when a member has one.
    """
    groups = graph.concepts.chunk_groups
    wanted = {groups[row] for row in members.tolist()} - {None}
    if not wanted or limit < 1:
        return members[:0]
    # A freed row keeps its group until it is taken again.
    eligible = graph.concepts.live.copy()
    eligible[members] = False
    found = [row for row, group in enumerate(groups) if group in wanted and eligible[row]]
    return np.asarray(nsmallest(limit, found, key=graph.id_at), dtype=np.int64)


def _next_hop(graph: Graph, frontier: Rows, seen: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Unseen targets of the frontier's edges, ascending, each with the earliest place it is met.

    A place is (position of the source in the frontier, place of the edge type) as one number.
    """
    leaving = [graph.concepts.leaving[row] for row in frontier.tolist()]
    found = np.fromiter(chain.from_iterable(leaving), dtype=np.int64)
    position = np.repeat(np.arange(frontier.size), [len(edges) for edges in leaving])
    order = _WALK_ORDER[graph.edges["type"][found]]
    targets = graph.edges["target"][found].astype(np.int64)
    wanted = np.flatnonzero((order != _NOT_FOLLOWED) & ~seen[targets])
    targets, places = targets[wanted], (position * len(FOLLOWED) + order)[wanted]
    by_place = np.argsort(places, kind="stable")
    targets, first = np.unique(targets[by_place], return_index=True)
    return targets, places[by_place][first]


def _first(graph: Graph, targets: Rows, places: Rows, *, count: int) -> tuple[Rows, Rows]:
    """The `count` targets met first; ids are compared only where the cut falls."""
    cut = np.partition(places, count)[count]
    certain = places < cut
    tied = np.flatnonzero(places == cut)
    # Ids alone sort twice as fast as indices keyed by id.
    ids = sorted(map(graph.id_at, targets[tied].tolist()))
    first_out = ids[count - int(certain.sum())]
    kept = certain.copy()
    kept[tied] = [graph.id_at(row) < first_out for row in targets[tied].tolist()]
    return targets[kept], places[kept]


def _in_walk_order(graph: Graph, targets: Rows, places: Rows) -> Rows:
    rows = targets.tolist()
    keys = list(zip(places.tolist(), map(graph.id_at, rows), strict=True))
    return targets[sorted(range(len(rows)), key=keys.__getitem__)]
