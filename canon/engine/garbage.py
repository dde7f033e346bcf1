"""Garbage collection: when it is due, and what one sweep would take.

Owns the triggers, the protections, the eviction score, the order in which the worst go first when
a sweep may not take all, and the counting of survivors. A sweep is planned as a record of what goes
and why; nothing is changed here, and the caller turns the record into mutations and audit rows.

Only structure decides. Being read neither saves nor kills: the eviction score looks at no access,
and recency counts from when a concept was written.

Invariant: interactions, Venerable, Canonical and root-goal concepts never go, nor does a concept
that contradicts a Venerable or Canonical one, nor one restored a few sweeps ago.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from canon.engine.scoring import DEFAULT_WEIGHTS, Scores, measure_terms, recency, share, with_extras
from memory.engine.columns import Array
from memory.engine.disappearance import plan_removal
from memory.engine.goals import goal_rows
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteEdge, Mutation
from memory.engine.ports import IdSource
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES, STATUS_CODE, TYPE_CODE, TYPES
from memory.engine.times import SECOND, Micros
from memory.engine.types import AuditKind, ConceptType, EdgeType, NodeId, Status

WEAK_BELOW: Final = 0.5
WEAK_AGE: Final[Micros] = 3_600 * SECOND
EVICTION_BAR: Final = 0.12
RESISTANCE: Final = {
    ConceptType.CONSTRAINT: 1.5,
    ConceptType.ENTITY: 1.2,
    ConceptType.LOGIC: 1.1,
    ConceptType.RESOURCE: 1.0,
    ConceptType.OBSERVATION: 0.7,
}
"""What a type's eviction bar is divided by."""
SHARE_MAX: Final = 4
"""One sweep takes at most one in this many of the unprotected concepts, and at least one."""
REMOVALS_PER_ROUND: Final = 250
"""Collected concepts taken out in one step, so that none holds the event loop for long."""
CONCEPTS_ADVISED: Final = 10_000
"""Above this many concepts a sweep warns; nothing is taken for want of room."""

_BAR_BY_CODE: Final = np.array([EVICTION_BAR / RESISTANCE[kind] for kind in TYPES])
_COUNTED: Final = np.array([EDGES[kind].counts_for_degree for kind in EDGE_TYPES])
_BONUS_MILLI: Final = np.array([EDGES[kind].bonus_milli for kind in EDGE_TYPES])
_CO_OCCURRENCE: Final = EDGE_TYPE_CODE[EdgeType.CO_OCCURRENCE]
_SEMANTIC: Final = EDGE_TYPE_CODE[EdgeType.SEMANTIC]
_DEPENDENCY: Final = EDGE_TYPE_CODE[EdgeType.DEPENDENCY]
_DERIVES: Final = EDGE_TYPE_CODE[EdgeType.DERIVES]
_CONTRADICTS: Final = EDGE_TYPE_CODE[EdgeType.CONTRADICTS]
_RESOURCE: Final = TYPE_CODE[ConceptType.RESOURCE]
_VENERABLE: Final = STATUS_CODE[Status.VENERABLE]
_CANONICAL: Final = STATUS_CODE[Status.CANONICAL]


# -- when ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageSettings:
    """The two triggers, and above how many Canonical concepts a sweep warns."""

    interval_mutations: int = 10_000
    interval_max_seconds: int = 86_400
    idle_floor_mutations: int = 100
    """The time trigger waits for so many: a session nobody writes is left alone."""
    canonical_max: int = 1_000


DEFAULT_GARBAGE: Final = GarbageSettings()


def is_due(
    mutations_since_sweep: int,
    last_sweep_at: Micros,
    now: Micros,
    *,
    has_pending_survivors: bool,
    settings: GarbageSettings = DEFAULT_GARBAGE,
) -> bool:
    """Whether a sweep should run now.

    `mutations_since_sweep` leaves out what sweeps and survivor counts wrote themselves; both
    counters outlive the process. `last_sweep_at` is the session's creation if there was none.
    """
    if has_pending_survivors:
        return False
    if mutations_since_sweep >= settings.interval_mutations:
        return True
    is_overdue = now - last_sweep_at >= settings.interval_max_seconds * SECOND
    return is_overdue and mutations_since_sweep >= settings.idle_floor_mutations


# -- what ------------------------------------------------------------------------------------------


class Grounds(StrEnum):
    """Why a concept goes."""

    UNCONNECTED = "no edge"
    LOW_SCORE = "eviction score below the bar"
    UNREACHABLE = "no path from the interactions"


@dataclass(frozen=True, slots=True)
class Collected:
    """A concept that goes, and the measurement that says so: it was taken once, here."""

    node_id: NodeId
    grounds: Grounds
    score: float
    bar: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one sweep would do at `now`. `spared_by_cap` would have gone too, had it been allowed.

    `survivors` are the concepts that stay, in no order; each is to be counted once.
    """

    now: Micros
    weak_edges: tuple[NodeId, ...]  # by id
    collected: tuple[Collected, ...]  # those furthest below their bar first, then by id
    survivors: tuple[NodeId, ...]
    protected_count: int
    spared_by_cap: int
    warnings: tuple[str, ...]


def plan_sweep(
    graph: Graph,
    now: Micros,
    *,
    settings: GarbageSettings = DEFAULT_GARBAGE,
) -> Sweep:
    """Plan a sweep of the whole graph; O(concepts + edges) on columns."""
    used = graph.concepts.used
    live = graph.concepts.live[:used]
    weak = _weak_edges(graph, now)
    degree, bonus_milli = _counts_without(graph, weak)
    scores = _eviction_scores(graph, degree, bonus_milli)
    bars = _BAR_BY_CODE[graph.concepts["type"][:used]]
    protected = _protected(graph, now)
    open_rows = live & ~protected
    cap = max(1, int(open_rows.sum()) // SHARE_MAX)

    is_orphan = open_rows & (degree == 0)
    is_low = open_rows & (scores < bars) & ~_is_rested_on_resource(graph)
    is_low &= ~_is_imported(graph, is_low)
    worst = _worst_first(graph, np.flatnonzero(is_orphan | is_low), scores - bars)
    chosen = worst[:cap]
    unreached = _unreached(graph, chosen, weak)
    stranded = [row for row in unreached if open_rows[row] and not (is_orphan | is_low)[row]]
    stranded = _worst_first(graph, np.array(stranded, dtype=np.int64), scores - bars)
    chosen_stranded = stranded[: cap - len(chosen)]

    def collected(row: int, grounds: Grounds) -> Collected:
        return Collected(graph.id_at(row), grounds, float(scores[row]), float(bars[row]))

    gone = [
        collected(row, Grounds.UNCONNECTED if is_orphan[row] else Grounds.LOW_SCORE)
        for row in chosen
    ]
    gone += [collected(row, Grounds.UNREACHABLE) for row in chosen_stranded]
    gone.sort(key=lambda one: (one.score - one.bar, one.node_id))
    stays = live.copy()
    stays[[*chosen, *chosen_stranded]] = False
    return Sweep(
        now=now,
        weak_edges=tuple(sorted(map(graph.edges.ids.__getitem__, weak.tolist()))),
        collected=tuple(gone),
        survivors=tuple(map(graph.concepts.ids.__getitem__, np.flatnonzero(stays).tolist())),
        protected_count=int((live & protected).sum()),
        spared_by_cap=len(worst) + len(stranded) - len(gone),
        warnings=_warnings(graph, int(stays.sum()), settings),
    )


def plan_removals(
    graph: Graph,
    sweep: Sweep,
    *,
    ids: IdSource,
    now: Micros,
    actor: str = "collector",
    start: int = 0,
    count: int = REMOVALS_PER_ROUND,
) -> tuple[Mutation, ...]:
    """The mutations that take out collected concepts number `start` to `start + count`.

    A sweep may be carried out over several rounds; its weak edges go with the first. Each concept
    leaves an audit row with the state it had and the measurement that condemned it. One that was
    written to or rose since the sweep was planned stays.
    """
    mutations: list[Mutation] = []
    if start == 0:
        mutations += [DeleteEdge(edge_id) for edge_id in sweep.weak_edges]
    for one in sweep.collected[start : start + count]:
        row = graph.row_of(one.node_id)
        if row is None or _has_changed(graph, row, sweep.now):
            continue
        mutations += plan_removal(
            graph,
            row,
            kind=AuditKind.COLLECT,
            actor=actor,
            reason=None,
            now=now,
            ids=ids,
            detail={"grounds": str(one.grounds), "score": one.score, "bar": one.bar},
        )
    return tuple(mutations)


def _has_changed(graph: Graph, row: int, since: Micros) -> bool:
    """Whether a concept rose, or an edge at it was written, after an instant."""
    edges = graph.edges
    incident = graph.concepts.leaving[row] + graph.concepts.arriving[row]
    return graph.concepts["status"][row] in (_VENERABLE, _CANONICAL) or any(
        edges["last_reinforced"][edge] > since or edges["created_at"][edge] > since
        for edge in incident
    )


# -- measurements, by concept row ------------------------------------------------------------------


def _weak_edges(graph: Graph, now: Micros) -> Array:
    """Rows of the edges that say too little and have not been repeated for long."""
    edges, used = graph.edges, slice(0, graph.edges.used)
    codes = edges["type"][used]
    is_weak = (codes == _CO_OCCURRENCE) | (codes == _SEMANTIC)
    is_weak &= edges.live[used] & (edges["weight"][used] < WEAK_BELOW)
    is_weak &= edges["last_reinforced"][used] < now - WEAK_AGE
    return np.flatnonzero(is_weak)


def _counts_without(graph: Graph, weak: Array) -> tuple[Array, Array]:
    """Degree and edge bonus of each concept once the weak edges (all between concepts) are gone."""
    used = graph.concepts.used
    degree = graph.concepts["degree"][:used].astype(np.int64)
    bonus_milli = graph.concepts["bonus_milli"][:used].astype(np.int64)
    if weak.size:
        sources, targets = graph.edges["source"][weak], graph.edges["target"][weak]
        worth = _BONUS_MILLI[graph.edges["type"][weak]]
        other = sources != targets  # a self-edge counts once
        np.subtract.at(degree, targets, 1)
        np.subtract.at(degree, sources[other], 1)
        np.subtract.at(bonus_milli, targets, worth)
        np.subtract.at(bonus_milli, sources[other], worth[other])
    return degree, bonus_milli


def _eviction_scores(graph: Graph, degree: Array, bonus_milli: Array) -> Scores:
    """The composite score without its frequency, the other three dimensions filling its place.

    Activity is a share of all interactions here: the scale the bars were set on.
    """
    cells, used = graph.concepts, graph.concepts.used
    terms, weights = measure_terms(graph, degree), DEFAULT_WEIGHTS
    score = weights.recency * recency(cells["created_at"][:used], terms)
    score += weights.activity * share(cells["derivations"][:used], graph.interaction_count)
    score += weights.density * share(degree, terms.degree_max)
    score /= weights.recency + weights.activity + weights.density
    return with_extras(score, bonus_milli, cells["type"][:used])


def _protected(graph: Graph, now: Micros) -> Array:
    status = graph.concepts["status"][: graph.concepts.used]
    is_high = (status == _VENERABLE) | (status == _CANONICAL)
    protected: Array = is_high.copy()
    protected[goal_rows(graph, graph.root_goal)] = True
    restored = [graph.concepts.row_by_id[name] for name in graph.standing.restored_ids()]
    protected[[row for row in restored if graph.is_shielded(row)]] = True
    edges, used = graph.edges, slice(0, graph.edges.used)
    declared = edges.live[used] & (edges["type"][used] == _CONTRADICTS)
    rows = np.flatnonzero(declared & (edges["created_at"][used] <= now))
    against_high = rows[is_high[edges["target"][rows]]]
    protected[edges["source"][against_high]] = True
    return protected


def _is_rested_on_resource(graph: Graph) -> Array:
    """Resources that something rests on: their score decides nothing."""
    edges, used = graph.edges, slice(0, graph.edges.used)
    rows = np.flatnonzero(edges.live[used] & (edges["type"][used] == _DEPENDENCY))
    is_rested_on = np.zeros(graph.concepts.used, dtype=np.bool_)
    is_rested_on[edges["target"][rows]] = True
    is_rested_on &= graph.concepts["type"][: graph.concepts.used] == _RESOURCE
    return is_rested_on


def _is_imported(graph: Graph, asked: Array) -> Array:
    """Of the rows asked for those an importer wrote: history that was made elsewhere, long ago."""
    is_imported = np.zeros(graph.concepts.used, dtype=np.bool_)
    origins, chain = graph.concepts["origin"], graph.chain.records
    for row in np.flatnonzero(asked).tolist():
        is_imported[row] = chain[origins[row]].is_backdated
    return is_imported


def _worst_first(graph: Graph, rows: Array, margins: Scores) -> list[int]:
    """Rows by how far they are below their bar, then id."""
    found: list[int] = rows.tolist()
    return sorted(found, key=lambda row: (float(margins[row]), graph.id_at(row)))


def _unreached(graph: Graph, collected: list[int], weak: Array) -> set[int]:
    """Live rows that no counted edge joins to an interaction once the collected are gone.

    A concept with a Derives edge is joined directly, and almost all have one; so the search goes
    backwards, from the few that have none.
    """
    used = graph.concepts.used
    adrift = graph.concepts.live[:used] & (graph.concepts["derivations"][:used] == 0)
    adrift[collected] = False
    unreached = set(np.flatnonzero(adrift).tolist())
    out = set(collected)
    gone_edges = set(weak.tolist()) if unreached else set()
    frontier = [
        row
        for row in unreached
        if not unreached.issuperset(_counted_neighbours(graph, row, gone_edges) - out)
    ]
    unreached.difference_update(frontier)
    while frontier:
        near = (_counted_neighbours(graph, frontier.pop(), gone_edges) - out) & unreached
        unreached -= near
        frontier.extend(near)
    return unreached


def _counted_neighbours(graph: Graph, row: int, gone_edges: set[int]) -> set[int]:
    """Rows joined to a concept without Derives edges, by edges that count and stay."""
    edges = graph.edges
    neighbours: set[int] = set()
    for edge in graph.concepts.leaving[row] + graph.concepts.arriving[row]:
        if _COUNTED[edges["type"][edge]] and edge not in gone_edges:
            neighbours.update(edges.ends_at(edge))
    return neighbours - {row}


def _warnings(graph: Graph, staying: int, settings: GarbageSettings) -> tuple[str, ...]:
    warnings = []
    canonical = graph.concepts.count_codes("status", len(Status))[_CANONICAL]
    if canonical > settings.canonical_max:
        warnings.append(f"{canonical} canonical concepts, over the {settings.canonical_max} meant")
    if staying > CONCEPTS_ADVISED:
        warnings.append(f"{staying} concepts, over the {CONCEPTS_ADVISED} advised for one session")
    return tuple(warnings)
