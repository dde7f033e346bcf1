"""How far each concept is from what the session is for, kept up as the graph changes.

Owns the hop distance of every concept to the nearest root-goal concept, over Causal, Dependency and
Hierarchical edges taken in both directions, and which distances count as drift. Nothing else is
looked at: a concept joined to the goal by words or by a contradiction alone is far from it.

The distances are repaired, never recomputed. Two rules say that they are right: no edge joins
distances more than one apart, and every concept but a goal has a neighbour that is nearer. What a
change breaks is put right in two steps, nearest first: concepts left without a nearer neighbour
lose their distance (and so on outwards), then distances spread again from what kept theirs. Work is
bounded by what the change touched, and is done in slices; a field made for a whole session, or
given another goal, is only a large change.

Invariant: when `is_settled`, both rules hold for the graph as of the changes taken in.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

import numpy as np

from canon.engine.detectors import newest_first
from canon.engine.hot_list import HOT_LIST_MAX, NO_PATH_HOPS, Condition, Hit
from memory.engine.changes import Changes
from memory.engine.columns import Array
from memory.engine.goals import goal_rows, goal_texts
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPES
from memory.engine.types import EdgeType, Json

THRESHOLD_HOPS: Final = 5
"""A concept further away than this has drifted."""
SLICE_ENDS: Final = 100_000
"""Ends of edges looked at in one slice of work: some ten milliseconds."""

_ROWS_AT_ONCE: Final = 4_096
_JOINING: Final = (EdgeType.CAUSAL, EdgeType.DEPENDENCY, EdgeType.HIERARCHICAL)
_JOINS: Final = np.array([kind in _JOINING for kind in EDGE_TYPES])  # by type code


class _Buckets:
    """Rows waiting for their turn, by hops."""

    def __init__(self) -> None:
        self._by_hops: dict[int, list[Array]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_hops)

    def add(self, rows: Array, hops: Array) -> None:
        """Put rows in the buckets of their hops."""
        for level in np.unique(hops).tolist():
            self._by_hops.setdefault(level, []).append(rows[hops == level])

    def take(self) -> tuple[Array, int]:
        """Some of the rows with the fewest hops, and how many those were."""
        level = min(self._by_hops)
        waiting = self._by_hops[level]
        rows = _take_some(waiting)
        if not waiting:
            del self._by_hops[level]
        return rows, level


def _take_some(waiting: list[Array]) -> Array:
    """Take a bounded number of rows off a list of arrays that is not empty."""
    rows = waiting.pop()
    if rows.size > _ROWS_AT_ONCE:
        waiting.append(rows[_ROWS_AT_ONCE:])
    return rows[:_ROWS_AT_ONCE]


class DriftField:
    """The hop distances of one session's graph."""

    def __init__(self, graph: Graph) -> None:
        self.version = 0
        """Raised whenever a distance, a goal or the set of concepts may have changed."""
        self._hops = np.zeros(0, dtype=np.int64)
        self._goals: frozenset[int] = frozenset()
        self._root_goal: Json = None
        self._texts: frozenset[str] = frozenset()
        self._restart(graph)

    # -- reading ----------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        return not (self._doubted or self._spreading or self._lost)

    @property
    def goals(self) -> frozenset[int]:
        """Rows of the root-goal concepts."""
        return self._goals

    def hops_at(self, row: int) -> int:
        """Hops of a live row to the nearest goal, `NO_PATH_HOPS` for none."""
        return int(self._hops[row])

    def hops_of(self, rows: list[int]) -> list[int]:
        """`hops_at` of many rows."""
        hops: list[int] = self._hops[rows].tolist() if rows else []
        return hops

    def drifted_rows(self, graph: Graph, threshold: int) -> Array:
        """Rows of the concepts more than `threshold` hops away, ascending; none without a goal."""
        if not self._goals:
            return np.zeros(0, dtype=np.int64)
        used = graph.concepts.used
        return np.flatnonzero((self._hops[:used] > threshold) & graph.concepts.live[:used])

    # -- following the graph ----------------------------------------------------------------------

    def follow(self, graph: Graph, changes: Changes | None) -> None:
        """Take in what changed; None means that it is not known. `settle` does the work."""
        if changes is None:
            self._restart(graph)
            return
        self._grow(graph)
        if changes.concepts:
            self._hops[np.fromiter(changes.concepts, dtype=np.int64)] = NO_PATH_HOPS
        self._set_goals(self._find_goals(graph, changes), reset=changes.concepts)
        self._doubt(np.fromiter(changes.bereft, dtype=np.int64))
        self._pull(graph, np.fromiter(changes.edges, dtype=np.int64))
        if changes.size:
            self.version += 1

    def settle(self, graph: Graph, *, ends_max: int | None = SLICE_ENDS) -> None:
        """Do at most about `ends_max` worth of the work that is left; None does it all."""
        seen = 0
        while not self.is_settled and (ends_max is None or seen < ends_max):
            self.version += 1
            if self._doubted:
                seen += self._judge(graph)
            elif self._lost:
                seen += self._recover(graph)
            else:
                seen += self._spread(graph)

    def _restart(self, graph: Graph) -> None:
        """Forget all distances; the goals are where they begin again."""
        self.version += 1
        self._doubted, self._spreading = _Buckets(), _Buckets()
        self._lost: list[Array] = []
        self._hops = np.full(graph.concepts.live.size, NO_PATH_HOPS, dtype=np.int64)
        self._goals = frozenset()
        self._root_goal, self._texts = None, frozenset()
        self._set_goals(self._find_goals(graph, Changes()), reset=())

    def _grow(self, graph: Graph) -> None:
        if self._hops.size < graph.concepts.live.size:
            hops = np.full(graph.concepts.live.size, NO_PATH_HOPS, dtype=np.int64)
            hops[: self._hops.size] = self._hops
            self._hops = hops

    def _find_goals(self, graph: Graph, changes: Changes) -> frozenset[int]:
        """The goals now; all concepts are looked at only when the root goal is another."""
        if graph.root_goal != self._root_goal:
            self._root_goal = graph.root_goal
            self._texts = frozenset(goal_texts(graph.root_goal))
            return frozenset(goal_rows(graph, graph.root_goal))
        if not self._texts:
            return frozenset()
        concepts = graph.concepts
        fresh = {
            row
            for row in changes.concepts
            if concepts.live[row]
            and (concepts.contents[row] in self._texts or concepts.keys[row] in self._texts)
        }
        return frozenset(self._goals - changes.concepts | fresh)

    def _set_goals(self, goals: frozenset[int], *, reset: Iterable[int]) -> None:
        """Make these the goals; rows in `reset` are other concepts than before."""
        begun = goals - (self._goals - set(reset))
        ended = self._goals - goals - set(reset)
        self._goals = goals
        if ended:
            self._doubt(np.array(sorted(ended)))
        if begun:
            rows = np.array(sorted(begun))
            self._hops[rows] = 0
            self._spreading.add(rows, self._hops[rows])

    def _doubt(self, rows: Array) -> None:
        """These may have lost the neighbour that is nearer."""
        hops = self._hops[rows]
        known = hops != NO_PATH_HOPS
        self._doubted.add(rows[known], hops[known])

    def _pull(self, graph: Graph, edges: Array) -> None:
        """Where a written edge joins distances too far apart, bring the further end near."""
        edges = edges[graph.edges.live[edges]]
        edges = edges[_JOINS[graph.edges["type"][edges]]]
        ends = graph.edges["source"][edges], graph.edges["target"][edges]
        self._bring_near(np.concatenate(ends), np.concatenate(ends[::-1]))

    def _bring_near(self, near: Array, far: Array) -> None:
        """Give each `far` row at most one hop more than the `near` row beside it."""
        reached = self._hops[near] + 1
        closer = reached < self._hops[far]
        far, reached = far[closer], reached[closer]
        if far.size:
            np.minimum.at(self._hops, far, reached)
            rows = np.unique(far)
            self._spreading.add(rows, self._hops[rows])

    # -- the two steps ----------------------------------------------------------------------------

    def _judge(self, graph: Graph) -> int:
        """Take the distance of doubted rows without a nearer neighbour, and doubt those beyond."""
        rows, level = self._doubted.take()
        rows = rows[self._hops[rows] == level]
        rows = rows[~np.isin(rows, list(self._goals))]  # a goal needs no neighbour
        owners, others = _neighbours(graph, rows)
        is_held = np.zeros(rows.size, dtype=np.bool_)
        is_held[owners[self._hops[others] < level]] = True
        orphans = rows[~is_held]
        self._hops[orphans] = NO_PATH_HOPS
        self._lost.append(orphans)
        beyond = others[~is_held[owners]]
        self._doubt(np.unique(beyond[self._hops[beyond] > level]))
        return int(others.size + rows.size + 1)

    def _recover(self, graph: Graph) -> int:
        """Bring rows that lost their distance near to neighbours that kept theirs."""
        rows = _take_some(self._lost)
        owners, others = _neighbours(graph, rows)
        known = self._hops[others] != NO_PATH_HOPS
        self._bring_near(others[known], rows[owners[known]])
        return int(others.size + rows.size + 1)

    def _spread(self, graph: Graph) -> int:
        """Bring the neighbours of the nearest waiting rows near."""
        rows, level = self._spreading.take()
        rows = rows[self._hops[rows] == level]
        owners, others = _neighbours(graph, rows)
        self._bring_near(rows[owners], others)
        return int(others.size + rows.size + 1)


def _neighbours(graph: Graph, rows: Array) -> tuple[Array, Array]:
    """Across the edges that join: positions in `rows`, and beside each a row next to it."""
    concepts, edges = graph.concepts, graph.edges
    held = rows.tolist()
    lists = [*map(concepts.leaving.__getitem__, held), *map(concepts.arriving.__getitem__, held)]
    sizes = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    incident = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(sizes.sum()))
    owners = np.repeat(np.tile(np.arange(rows.size), 2), sizes)
    joins = _JOINS[edges["type"][incident]]
    incident, owners = incident[joins], owners[joins]
    sources = edges["source"][incident]
    others = np.where(sources == rows[owners], edges["target"][incident], sources)
    return owners, others.astype(np.int64)


# -- findings --------------------------------------------------------------------------------------


class DriftFinder:
    """Finds the concepts that have drifted; remembers its last hits, most of which stand."""

    def __init__(self, field: DriftField, threshold: int = THRESHOLD_HOPS) -> None:
        self.field = field
        self.threshold = threshold
        self._hits: dict[int, Hit] = {}  # by row, in standing order
        self._made_from: tuple[int, int] | None = None  # version of the field, and the limit
        self._goals: frozenset[int] = frozenset()

    def find(self, graph: Graph, limit: int = HOT_LIST_MAX) -> list[Hit]:
        """At most `limit` hits, the youngest concepts first, then by id.

        While distances are being repaired, what was found last stands, of concepts still there.
        """
        if not self.field.is_settled:
            standing = [hit for hit in self._hits.values() if graph.row_of(hit.node_id) is not None]
            return standing[:limit]
        if self._made_from != (self.field.version, limit):
            rows = self.field.drifted_rows(graph, self.threshold)
            born = graph.concepts["created_at"][rows]
            chosen = [row for row, _ in newest_first(graph, rows, born, limit)]
            # With several goals the nearest may be another though the distance is the same.
            known = self._hits if self._goals == self.field.goals and len(self._goals) == 1 else {}
            self._hits = {}
            ids, hops = graph.concepts.ids, self.field.hops_of(chosen)
            for row, away in zip(chosen, hops, strict=True):
                hit = known.get(row)
                if hit is None or hit.hops != away or hit.node_id != ids[row]:
                    hit = self._hit(graph, row)
                self._hits[row] = hit
            self._goals = self.field.goals
            self._made_from = self.field.version, limit
        return list(self._hits.values())

    def recheck(self, graph: Graph, hit: Hit, row: int) -> Hit | None:
        """The drift of a concept found before, if it has drifted now."""
        if not self.field.is_settled:
            return hit
        has_drifted = bool(self.field.goals) and self.field.hops_at(row) > self.threshold
        return self._hit(graph, row) if has_drifted else None

    def _hit(self, graph: Graph, row: int) -> Hit:
        hops = self.field.hops_at(row)
        nearest = None if hops == NO_PATH_HOPS else _nearest_goal(graph, self.field, row)
        named = min(self.field.goals, key=graph.id_at) if nearest is None else nearest
        return Hit(
            graph.id_at(row),
            Condition.DRIFT,
            int(graph.concepts["created_at"][row]),
            hops=hops,
            goal=None if nearest is None else graph.id_at(nearest),
            named_goal=graph.id_at(named),
        )


def _nearest_goal(graph: Graph, field: DriftField, row: int) -> int:
    """The goal that is reached by going to the nearer neighbour with the smallest id each time."""
    if len(field.goals) == 1:
        return next(iter(field.goals))
    while row not in field.goals:
        _, others = _neighbours(graph, np.array([row]))
        hops = field.hops_at(row)
        row = min((o for o in others.tolist() if field.hops_at(o) < hops), key=graph.id_at)
    return row
