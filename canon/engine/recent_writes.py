"""Which edges and concepts were written in the last half minute, and by whom a node was written.

Owns two memories that spare the detectors a pass over the whole graph: the rows written within the
window, and the agents at the nodes looked at lately. Both are fed from a graph's change log and
hold row numbers only; what those rows say is read from the graph each time.

Invariant: every live edge or concept whose last write is in the window or in the future is among
the rows held, so that time passing needs no look at anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from memory.engine.changes import Changes
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE
from memory.engine.times import SECOND, Micros
from memory.engine.types import EdgeType, NodeId

WINDOW: Final[Micros] = 30 * SECOND
"""How long a write is recent; the end is inclusive."""

_NONE: Final[Array] = np.zeros(0, dtype=np.int64)
_DERIVES: Final = EDGE_TYPE_CODE[EdgeType.DERIVES]
_SILENT: Final = frozenset(
    EDGE_TYPE_CODE[kind] for kind in (EdgeType.CONTRADICTS, EdgeType.SUSPECTED_SUPERSEDES)
)
"""Edges whose writer does not count as having worked on what they touch."""


def last_written(graph: Graph, edge_rows: Array | slice) -> Array:
    """The instant of each edge's last write, (n,) int64."""
    edges = graph.edges
    return np.maximum(edges["created_at"][edge_rows], edges["last_reinforced"][edge_rows])


class RecentWrites:
    """The rows written since `now - window`, and those dated in the future."""

    def __init__(self, window: Micros = WINDOW) -> None:
        self.window = window
        self._edges = _NONE
        self._concepts = _NONE
        self._floor: Micros | None = None  # None: not looked yet, or too much was missed

    def follow(self, changes: Changes | None) -> None:
        """Take in what changed; None means that it is not known."""
        if changes is None:
            self._floor = None
        elif self._floor is not None:
            self._edges = _with(self._edges, changes.edges)
            self._concepts = _with(self._concepts, changes.concepts)

    def advance(self, graph: Graph, now: Micros) -> None:
        """Let go of what is no longer recent; with nothing known, look at the whole graph."""
        floor = now - self.window
        edges, concepts = graph.edges, graph.concepts
        if self._floor is None or floor < self._floor:  # a clock may be set back
            used = slice(0, edges.used)
            written = last_written(graph, used)
            self._edges = np.flatnonzero(edges.live[used] & (written >= floor))
            used = slice(0, concepts.used)
            born = concepts["created_at"][used]
            self._concepts = np.flatnonzero(concepts.live[used] & (born >= floor))
        else:
            rows = self._edges[edges.live[self._edges]]
            self._edges = rows[last_written(graph, rows) >= floor]
            rows = self._concepts[concepts.live[self._concepts]]
            self._concepts = rows[concepts["created_at"][rows] >= floor]
        self._floor = floor

    def edges(self, graph: Graph, now: Micros) -> tuple[Array, Array]:
        """Rows of the edges last written in the window and not in the future, and the instants."""
        return _until(self._edges, last_written(graph, self._edges), now)

    def concepts(self, graph: Graph, now: Micros) -> tuple[Array, Array]:
        """Rows of the concepts created in the window and not in the future, and the instants."""
        return _until(self._concepts, graph.concepts["created_at"][self._concepts], now)


def _with(rows: Array, more: Iterable[int]) -> Array:
    added = np.fromiter(more, dtype=np.int64)
    if not added.size:
        return rows
    both = np.sort(np.concatenate([rows, added]))
    distinct: Array = both[np.append(both[1:] != both[:-1], True)]
    return distinct


def _until(rows: Array, instants: Array, now: Micros) -> tuple[Array, Array]:
    is_past = instants <= now
    return rows[is_past], instants[is_past]


class Writers:
    """The agents who have written edges at a concept; remembered while they are asked for."""

    def __init__(self) -> None:
        self._by_row: dict[int, set[str]] = {}

    def follow(self, graph: Graph, changes: Changes | None) -> None:
        """Take in what changed; None means that it is not known."""
        if changes is None:
            self._by_row.clear()
            return
        if not self._by_row:
            return
        for row in changes.concepts | changes.bereft:
            self._by_row.pop(row, None)
        for edge in changes.edges:
            if graph.edges.live[edge]:
                self._add(graph, edge)

    def at(self, graph: Graph, row: int) -> set[str]:
        """Who wrote edges at a concept, first and last writes; not to be changed."""
        agents = self._by_row.get(row)
        if agents is None:
            agents = self._by_row[row] = set()
            incident = graph.concepts.leaving[row] + graph.concepts.arriving[row]
            codes = graph.edges["type"][incident].tolist() if incident else []
            for edge, code in zip(incident, codes, strict=True):
                if code not in _SILENT:
                    agents.update(writers_of(graph, edge))
        return agents

    def forget_all_but(self, rows: Iterable[int]) -> None:
        held = self._by_row
        self._by_row = {row: held[row] for row in rows if row in held}

    def _add(self, graph: Graph, edge: int) -> None:
        code = int(graph.edges["type"][edge])
        if code in _SILENT or code == EDGE_TYPE_CODE[EdgeType.TEMPORAL]:
            return
        source, target = graph.edges.ends_at(edge)
        for row in (target,) if code == _DERIVES else (source, target):
            if graph.edges["reinforcements"][edge] > 1:
                # An edge names its first and last writers: the last but one may be no writer now.
                self._by_row.pop(row, None)
            elif row in self._by_row:
                self._by_row[row].update(writers_of(graph, edge))


def writers_of(graph: Graph, edge: int) -> tuple[NodeId, ...]:
    """The agents of an edge's first and last write."""
    first, last = graph.edges.created_by[edge], graph.edges.reinforced_by[edge]
    if first and last:
        return (first,) if first == last else (first, last)
    return (last_writer(graph, edge),)


def last_writer(graph: Graph, edge: int) -> str:
    """Who wrote an edge last. An import may not say: then who wrote its source stands in."""
    named = graph.edges.reinforced_by[edge] or graph.edges.created_by[edge]
    if named:
        return named
    source = int(graph.edges["source"][edge])
    if graph.edges["type"][edge] == _DERIVES:
        return graph.chain.records[source].agent_id
    return graph.concepts.origin_agents[source]
