"""Which concepts without a status may become Candidates, found in one pass over the graph.

The survey may run in steps with writes in between, so what it returns are hints: rows worth
measuring, best score first. Whoever admits one measures it again, on the graph as it is then.

Invariant: on a graph that stands still, the hints are exactly the concepts that pass, up to the
number asked for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice, pairwise
from typing import Final

import numpy as np

from canon.engine.evidence import count_distinct, scan
from canon.engine.garbage import RESISTANCE
from canon.engine.gate_times import Timeline
from canon.engine.gates import CANDIDATE_DISTINCT, GC_SURVIVED
from canon.engine.measurements import Circumstances, measure
from canon.engine.policies import check_hop, is_passed
from canon.engine.quorum import Backing
from canon.engine.settings import Policy
from canon.engine.solo import (
    BANDS,
    CONFIRMATION_WEIGHT,
    DISTINCT_WEIGHT,
    SESSION_WEIGHT,
)
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.rules import STATUS_CODE, TYPES
from memory.engine.types import Status

EDGES_PER_STEP: Final = 250_000
INTERACTIONS_PER_STEP: Final = 20_000
CONCEPTS_PER_STEP: Final = 128
"""What one step looks at: a few milliseconds each."""

ROWS_SORTED: Final = 512
"""Rows put in order at once, of the many that may wait."""

_NONE: Final = STATUS_CODE[Status.NONE]
_RESISTANCE: Final = np.array([RESISTANCE[kind] for kind in TYPES])

Steps = Generator[None, None, list[int]]


def survey(
    graph: Graph,
    scores: Array,
    circumstances: Circumstances,
    timeline: Timeline,
    backing: Backing,
) -> Steps:
    """Find the first `canonization_eval_batch_size` rows to admit, by score and then id.

    `scores` is (n,) float64 by concept row; a row beyond its end scores 0. Yields between steps.
    """
    while not timeline.follow(graph, limit=INTERACTIONS_PER_STEP):
        yield
    count = circumstances.settings.canonization_eval_batch_size
    if circumstances.policy is Policy.SOLO:
        rows = np.flatnonzero(_may_reach_band(graph, circumstances))
    else:
        rows = yield from _supported_rows(graph, circumstances, timeline)
    ordered = by_score(graph, scores, rows)
    if circumstances.policy is Policy.SWARM:
        return list(islice(ordered, count))
    if circumstances.policy is Policy.QUORUM:
        yield from backing.read_steps(graph)
    return (yield from _refine(graph, ordered, circumstances, timeline, backing, count))


def by_score(graph: Graph, scores: Array, rows: Array) -> Iterator[int]:
    """Rows by score descending, equal scores by id; lazily, since few are asked as a rule."""
    held = np.zeros(len(rows))
    is_scored = rows < len(scores)
    held[is_scored] = scores[rows[is_scored]]
    while len(rows) > 2 * ROWS_SORTED:
        # Those with the score of the last one belong to the block: ties are for the ids to order.
        least = np.partition(held, len(held) - ROWS_SORTED)[len(held) - ROWS_SORTED]
        is_best = held >= least
        yield from _sorted_by_score(graph, held[is_best], rows[is_best])
        rows, held = rows[~is_best], held[~is_best]
    yield from _sorted_by_score(graph, held, rows)


def _sorted_by_score(graph: Graph, held: Array, rows: Array) -> Iterator[int]:
    order = np.argsort(-held, kind="stable")
    ordered, changes = rows[order].tolist(), np.flatnonzero(np.diff(held[order])) + 1
    for start, stop in pairwise((0, *changes.tolist(), len(ordered))):
        yield from sorted(ordered[start:stop], key=graph.id_at)


def _supported_rows(
    graph: Graph, circumstances: Circumstances, timeline: Timeline
) -> Generator[None, None, Array]:
    """Rows that Swarm would admit; Quorum admits some of them."""
    used = graph.concepts.used
    cells = graph.concepts.arrays
    is_wanted = (
        _without_status(graph)
        & GC_SURVIVED.is_met_by(cells["gc_survived"][:used])
        # Interactions are at most as many as the dependents, which are counted by each write.
        & CANDIDATE_DISTINCT.is_met_by(cells["dependents"][:used])
    )
    owners, origins = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for start in range(0, graph.edges.used, EDGES_PER_STEP):
        if start:
            yield
            timeline.follow(graph)
            grown = graph.concepts.used - len(is_wanted)
            is_wanted = np.concatenate([is_wanted, np.zeros(grown, dtype=np.bool_)])
        found = scan(graph, timeline, slice(start, start + EDGES_PER_STEP), is_wanted)
        counted = found.is_support(circumstances.cutoff)
        owners.append(found.owner[counted])
        origins.append(found.origin[counted].astype(np.int64))
    if graph.edges.used > EDGES_PER_STEP:
        yield
    distinct = count_distinct(np.concatenate(owners), np.concatenate(origins), len(is_wanted))
    return np.flatnonzero(CANDIDATE_DISTINCT.is_met_by(distinct))


def _may_reach_band(graph: Graph, circumstances: Circumstances) -> Array:
    """Rows whose score under Solo could admit them: every support a session, none reverted."""
    used = graph.concepts.used
    cells = graph.concepts.arrays
    confirmations = np.zeros(used)
    for node_id, count in circumstances.confirmations.items():
        row = graph.row_of(node_id)
        if row is not None:
            confirmations[row] = count
    # A dependent may be joined by two edges, each of which is a support.
    most = (
        SESSION_WEIGHT * (cells["derivations"][:used] + 2 * cells["dependents"][:used])
        + DISTINCT_WEIGHT * cells["dependents"][:used]
        + CONFIRMATION_WEIGHT * confirmations
    ) * _RESISTANCE[cells["type"][:used]]
    reach: Array = _without_status(graph) & (most >= BANDS[Status.CANDIDATE])
    return reach


def _without_status(graph: Graph) -> Array:
    used = graph.concepts.used
    free: Array = graph.concepts.live[:used] & (graph.concepts["status"][:used] == _NONE)
    return free


def _refine(
    graph: Graph,
    ordered: Iterator[int],
    circumstances: Circumstances,
    timeline: Timeline,
    backing: Backing,
    count: int,
) -> Steps:
    """The first `count` rows that pass when measured."""
    passing: list[int] = []
    while chunk := list(islice(ordered, CONCEPTS_PER_STEP)):
        standing = [row for row in chunk if is_without_status(graph, row)]
        for measured in measure(graph, standing, circumstances, timeline, backing=backing):
            if is_passed(check_hop(measured, circumstances)):
                passing.append(measured.row)
        if len(passing) >= count:
            break
        yield
    return passing[:count]


def is_without_status(graph: Graph, row: int) -> bool:
    """Whether a row found before still is a concept without a status."""
    return bool(graph.concepts.live[row]) and graph.status_at(row) is Status.NONE
