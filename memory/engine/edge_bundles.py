"""Many edges of a graph written or removed at once: as one by one, several times as fast.

Owns the order in which the table, the adjacency lists and the counters are changed for a bundle.
Knows no records but edges; what an end means and who is told of a change is the graph's.

Invariant: a bundle is put whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from memory.engine.columns import Array
from memory.engine.edge_counts import count_added, count_removed
from memory.engine.edge_table import EdgeTable, pack_keys, take_off
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES
from memory.engine.types import Edge, EdgeType

Adjacency: TypeAlias = Callable[[EdgeType], tuple[list[list[int]], list[list[int]]]]
"""`Graph.adjacency`."""


def put_bundle(
    table: EdgeTable,
    cells: Mapping[str, Array],
    adjacency: Adjacency,
    edges: Sequence[Edge],
    ends: Sequence[tuple[int, int]],
) -> list[int]:
    """Put edges between those source and target rows; their rows.

    None, and nothing is changed, where an id or a natural key is taken or stands twice. `cells` are
    the columns of the concepts.
    """
    kinds = [edge.edge_type for edge in edges]
    codes = np.array([EDGE_TYPE_CODE[kind] for kind in kinds], dtype=np.int64)
    sources, targets = np.array(ends, dtype=np.int64).T
    keys = set(pack_keys(codes, sources, targets).tolist())
    ids = {edge.id for edge in edges}
    if len(keys) < len(edges) or len(ids) < len(edges):
        return []
    if not (keys.isdisjoint(table.row_by_key) and ids.isdisjoint(table.row_by_id)):
        return []
    # Counters first: "is it a new dependent?" asks whether another edge joins the pair already.
    count_added(cells, table.row_by_key, codes, sources, targets)
    rows = table.insert_many(edges, codes, sources, targets)
    lists = {kind: adjacency(kind) for kind in set(kinds)}
    for row, kind, (source, target) in zip(rows, kinds, ends, strict=True):
        leaving, arriving = lists[kind]
        leaving[source].append(row)
        arriving[target].append(row)
    return rows


def remove_bundle(
    table: EdgeTable,
    cells: Mapping[str, Array],
    adjacency: Adjacency,
    concept: int,
    rows: Sequence[int],
) -> list[int]:
    """Remove all edges of a concept row, which is about to go; the concepts at their other ends.

    `rows` are best newest first, which are the cheapest to `take_off` a list.
    """
    codes, sources, targets = (
        table[name][list(rows)].astype(np.int64) for name in ("type", "source", "target")
    )
    lists = [adjacency(kind) for kind in EDGE_TYPES]
    from_interaction = [EDGES[kind].from_interaction for kind in EDGE_TYPES]
    others: list[int] = []
    for row, code, source, target in zip(
        rows, codes.tolist(), sources.tolist(), targets.tolist(), strict=True
    ):
        leaving, arriving = lists[code]
        if from_interaction[code]:
            take_off(leaving[source], row)
        elif source != concept:
            take_off(leaving[source], row)
            others.append(source)
        elif target != concept:
            take_off(arriving[target], row)
            others.append(target)
    for own in adjacency(EdgeType.DEPENDENCY):
        own[concept].clear()
    table.remove_many(rows)
    count_removed(cells, concept, codes, sources, targets)
    return others
