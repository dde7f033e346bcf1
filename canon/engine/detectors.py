"""Conflicts, risky changes and a session gone quiet.

Owns when each of the three is found, and the words of a reason. Each has two forms that share their
rule: one looks at what was written lately and finds all, the other looks at one node again. Drift
and contradictions have modules of their own.

A conflict is looked for at concepts only: it takes a Causal or Dependency edge, and those join
nothing else. Instants compare to the microsecond; the end of a window belongs to it, and what is
dated in the future is not seen before its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from canon.engine.hot_list import HOT_LIST_MAX, Condition, Hit
from canon.engine.recent_writes import RecentWrites, Writers, last_writer, last_written
from canon.engine.scoring import last_touched
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES, STATUS_CODE
from memory.engine.times import SECOND, Micros
from memory.engine.types import EdgeType, Status

DEPENDENTS_HIGH: Final = 5
"""A concept is of high value when more than this many rest on it, whatever its status."""
STALE_AFTER: Final[Micros] = 3_600 * SECOND
"""A session is stale when nothing was done in it for longer than this."""
_AGENTS_MIN: Final = 2

_CANONICAL: Final = STATUS_CODE[Status.CANONICAL]
_WORK: Final = (EDGE_TYPE_CODE[EdgeType.CAUSAL], EDGE_TYPE_CODE[EdgeType.DEPENDENCY])
_TEMPORAL: Final = EDGE_TYPE_CODE[EdgeType.TEMPORAL]
_FROM_INTERACTION: Final = np.array([EDGES[kind].from_interaction for kind in EDGE_TYPES])
_TO_INTERACTION: Final = np.array([EDGES[kind].to_interaction for kind in EDGE_TYPES])


# -- conflict --------------------------------------------------------------------------------------


def find_conflicts(
    graph: Graph,
    recent: RecentWrites,
    writers: Writers,
    now: Micros,
    *,
    limit: int = HOT_LIST_MAX,
) -> list[Hit]:
    """Concepts that several agents have written and one has worked on just now; newest first.

    Finds at most `limit`, those with the newest work.
    """
    edges, written = _work(graph, *recent.edges(graph, now))
    rows = np.concatenate([graph.edges["source"][edges], graph.edges["target"][edges]])
    written = np.concatenate([written, written])
    order, last = _grouped_by_row(rows, written)
    nodes, newest = rows[order[last]], written[order[last]]
    writers.forget_all_but(nodes.tolist())
    agents = list(map(partial(writers.at, graph), nodes.tolist()))
    is_shared = np.array(list(map(len, agents)), dtype=np.int64) >= _AGENTS_MIN
    group = np.repeat(np.arange(last.size), np.diff(last, prepend=-1))
    is_newest = is_shared[group] & (written[order] == newest[group])
    shared = rows[order[is_newest]].tolist()
    tied: dict[int, list[int]] = {row: [] for row in shared}
    for row, edge in zip(shared, edges[order[is_newest] % edges.size].tolist(), strict=True):
        tied[row].append(edge)
    return [
        _conflict(graph, row, tied[row], writers.at(graph, row), at)
        for row, at in newest_first(graph, nodes[is_shared], newest[is_shared], limit)
    ]


def recheck_conflict(
    graph: Graph, recent: RecentWrites, writers: Writers, row: int, now: Micros
) -> Hit | None:
    """The conflict at one concept, if there is one now."""
    incident = np.array(graph.concepts.leaving[row] + graph.concepts.arriving[row], dtype=np.int64)
    written = last_written(graph, incident)
    in_window = (written >= now - recent.window) & (written <= now)
    edges, written = _work(graph, incident[in_window], written[in_window])
    agents = writers.at(graph, row)
    if not edges.size or len(agents) < _AGENTS_MIN:
        return None
    at = int(written.max())
    return _conflict(graph, row, edges[written == at].tolist(), agents, at)


def _conflict(graph: Graph, row: int, tied: list[int], agents: set[str], at: Micros) -> Hit:
    """The hit of a concept; `tied` are the edges of its newest work, written at `at`."""
    newest = tied[0] if len(tied) == 1 else min(tied, key=graph.edges.ids.__getitem__)
    writer, named = last_writer(graph, newest), tuple(sorted(agents))
    return Hit(graph.id_at(row), Condition.CONFLICT, at, writer, named)


def _work(graph: Graph, edges: Array, written: Array) -> tuple[Array, Array]:
    """Of some edges those that say that something was worked on."""
    codes = graph.edges["type"][edges]
    is_work = (codes == _WORK[0]) | (codes == _WORK[1])
    return edges[is_work], written[is_work]


# -- high risk -------------------------------------------------------------------------------------


def find_high_risks(
    graph: Graph, recent: RecentWrites, now: Micros, *, limit: int = HOT_LIST_MAX
) -> list[Hit]:
    """Concepts of high value that were just created, or at which any edge was just written.

    Finds at most `limit`, those with the newest writes; newest first.
    """
    edges, written = recent.edges(graph, now)
    codes = graph.edges["type"][edges]
    leaving, arriving = ~_FROM_INTERACTION[codes], ~_TO_INTERACTION[codes]
    born, born_at = recent.concepts(graph, now)
    rows = np.concatenate(
        [graph.edges["source"][edges[leaving]], graph.edges["target"][edges[arriving]], born]
    )
    instants = np.concatenate([written[leaving], written[arriving], born_at])
    valued = _is_high_value(graph, rows)
    rows, instants = rows[valued], instants[valued]
    order, last = _grouped_by_row(rows, instants)
    nodes, newest = rows[order[last]], instants[order[last]]
    chosen = newest_first(graph, nodes, newest, limit)
    return [_high_risk(graph, row, at) for row, at in chosen]


def recheck_high_risk(graph: Graph, recent: RecentWrites, row: int, now: Micros) -> Hit | None:
    """The high risk at one concept, if there is one now."""
    if not _is_high_value(graph, np.array([row])).all():
        return None
    incident = graph.concepts.leaving[row] + graph.concepts.arriving[row]
    written = last_written(graph, np.array(incident, dtype=np.int64))
    instants = np.append(written, graph.concepts["created_at"][row])
    instants = instants[(instants >= now - recent.window) & (instants <= now)]
    return _high_risk(graph, row, int(instants.max())) if instants.size else None


def _is_high_value(graph: Graph, rows: Array) -> Array:
    cells = graph.concepts
    is_high: Array = cells["status"][rows] == _CANONICAL
    return is_high | (cells["dependents"][rows] > DEPENDENTS_HIGH)


def _high_risk(graph: Graph, row: int, at: Micros) -> Hit:
    node_id = graph.id_at(row)
    reason = (
        f"high-value node {node_id} ({graph.status_at(row)}, blast radius "
        f"{graph.blast_radius(row)}) modified within 30s"
    )
    return Hit(node_id, Condition.HIGH_RISK, at, reason=reason)


# -- stale -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _EdgeActivity:
    """The newest edge write of a session, as it was found, and how long that stays so."""

    epoch: int
    edges: list[int]  # rows of all that were written at that instant
    at: Micros | None
    seen_from: Micros
    good_until: Micros | None  # the first write that is dated in the future, if any

    def holds(self, graph: Graph, now: Micros) -> bool:
        return (
            self.epoch == graph.epoch
            and self.seen_from <= now
            and (self.good_until is None or now < self.good_until)
        )


class Quiet:
    """When a session was last active; looks at all edges at most once between two writes."""

    def __init__(self) -> None:
        self._edges: _EdgeActivity | None = None

    def find(self, graph: Graph, recent: RecentWrites, now: Micros) -> Hit | None:
        """The session's staleness, anchored at the node of its newest activity, smallest id.

        Activity is a concept's last touch or an edge written at a concept; what is dated in the
        future is none.
        """
        edges, _ = recent.edges(graph, now)
        if (graph.edges["type"][edges] != _TEMPORAL).any():
            return None
        touched, rows = _newest_touch(graph, now)
        newest = self._newest_edges(graph, now)
        instants = [instant for instant in (touched, newest.at) if instant is not None]
        at = max(instants, default=None)
        if at is None or now - at <= STALE_AFTER:
            return None
        nodes = set(rows) if touched == at else set()
        if newest.at == at:
            nodes.update(_concept_ends(graph, newest.edges))
        anchor = min(map(graph.id_at, nodes))
        return Hit(anchor, Condition.STALE, at)

    def _newest_edges(self, graph: Graph, now: Micros) -> _EdgeActivity:
        if self._edges is None or not self._edges.holds(graph, now):
            self._edges = _find_edge_activity(graph, now)
        return self._edges


def _newest_touch(graph: Graph, now: Micros) -> tuple[Micros | None, list[int]]:
    rows = graph.concepts.live_rows()
    touched = last_touched(graph, rows)
    is_past = touched <= now
    if not is_past.any():
        return None, []
    newest = int(touched[is_past].max())
    found: list[int] = rows[touched == newest].tolist()
    return newest, found


def _find_edge_activity(graph: Graph, now: Micros) -> _EdgeActivity:
    used = slice(0, graph.edges.used)
    rows = np.flatnonzero(graph.edges.live[used] & (graph.edges["type"][used] != _TEMPORAL))
    written = last_written(graph, rows)
    is_past = written <= now
    future = written[~is_past]
    past = written[is_past]
    newest = int(past.max()) if past.size else None
    return _EdgeActivity(
        epoch=graph.epoch,
        edges=[] if newest is None else rows[written == newest].tolist(),
        at=newest,
        seen_from=now,
        good_until=int(future.min()) if future.size else None,
    )


def _concept_ends(graph: Graph, edges: list[int]) -> set[int]:
    codes = graph.edges["type"][edges]
    sources, targets = graph.edges["source"][edges], graph.edges["target"][edges]
    return {*sources[~_FROM_INTERACTION[codes]].tolist(), *targets.tolist()}


# -- shared ----------------------------------------------------------------------------------------


def newest_first(
    graph: Graph, rows: Array, instants: Array, limit: int
) -> list[tuple[int, Micros]]:
    """Up to `limit` of different rows with their instants, by instant descending, then id."""
    if rows.size > limit:
        cut = np.partition(instants, rows.size - limit)[rows.size - limit]
        # All that are tied at the cut stay in: their ids decide.
        kept = instants >= cut
        rows, instants = rows[kept], instants[kept]
    order = np.argsort(-instants)  # so that little is left for the sort by id
    found = rows[order].tolist()
    ids = map(graph.concepts.ids.__getitem__, found)
    pairs = zip((-instants[order]).tolist(), ids, found, strict=True)
    return [(row, -negated) for negated, _, row in sorted(pairs)[:limit]]


def _grouped_by_row(rows: Array, instants: Array) -> tuple[Array, Array]:
    """Positions ordered by row, then instant; and where in that order each row's last one is."""
    order = np.lexsort((instants, rows))
    in_order = rows[order]
    return order, np.flatnonzero(np.diff(in_order, append=-1))
