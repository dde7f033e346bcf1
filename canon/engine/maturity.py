"""When an evaluation may find something that the last one could not, though nobody writes.

Owns the instants at which evidence gets old enough, a cooldown ends or a token counts, and how many
evaluations look at everything once. Judges nothing: an instant named here may turn out to change
nothing, but before it nothing changes.

Invariant: on a graph that stands still, an evaluation that decided nothing decides nothing again
before the next instant named here, once `rounds_to_cover` of them have looked around.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

import numpy as np

from canon.engine.evaluation import DEFERRALS_MAX, rows_with
from canon.engine.evidence import DEPENDENCY, HIERARCHICAL
from canon.engine.gate_times import Timeline, edge_gate_times
from canon.engine.probes import PROBES_MAX, TARGETS_MAX
from canon.engine.quorum import TOKEN_AGE_SECONDS
from canon.engine.settings import CanonSettings, Policy
from memory.engine.columns import NO_TIME, Array
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE, STATUS_CODE
from memory.engine.times import SECOND, Micros
from memory.engine.types import EdgeType, Status


def next_maturity(
    graph: Graph,
    timeline: Timeline,
    after: Micros,
    *,
    settings: CanonSettings,
    token_created_at: Mapping[str, Micros],
) -> Micros | None:
    """The first instant after `after` at which something may count that does not yet.

    Linear in edges and interactions, on columns. `timeline` has followed the graph.
    """
    instants = [
        _first_after(_edge_maturities(graph, settings.edge_min_age), after),
        _first_after(np.maximum(timeline.written, timeline.gate) + settings.edge_min_age, after),
        _first_after(_cooldown_ends(graph, settings), after),
    ]
    if settings.promotion_policy is Policy.QUORUM:
        age = TOKEN_AGE_SECONDS * SECOND + 1  # a token counts once it is older than that
        instants += [at + age for at in token_created_at.values() if at + age > after]
    return min(_known(instants), default=None)


def rounds_to_cover(graph: Graph, settings: CanonSettings) -> int:
    """How many evaluations in a row look at every concept and every rivalry once."""
    rings = [len(rows_with(graph, status)) for status in (Status.CANDIDATE, Status.VENERABLE)]
    rounds = max(1, ceil(max(rings) / settings.canonization_eval_batch_size))
    if settings.canonization_supersede:
        used = graph.edges.used
        codes = graph.edges["type"][:used][graph.edges.live[:used]]
        rivalries = int((codes == EDGE_TYPE_CODE[EdgeType.CONTRADICTS]).sum())
        rounds += DEFERRALS_MAX + ceil(rivalries / TARGETS_MAX) + ceil(rivalries / PROBES_MAX)
    return rounds


def _edge_maturities(graph: Graph, min_age: Micros) -> Array:
    """When each dependence edge is old enough by both its times, (e,) int64."""
    edges, used = graph.edges, graph.edges.used
    kinds = edges["type"][:used]
    rows = np.flatnonzero(((kinds == DEPENDENCY) | (kinds == HIERARCHICAL)) & edges.live[:used])
    ages: Array = np.maximum(edges["created_at"][rows], edge_gate_times(graph, rows)) + min_age
    return ages


def _cooldown_ends(graph: Graph, settings: CanonSettings) -> Array:
    """When each cooldown ends that may stand in a concept's way, (c,) int64."""
    concepts, used = graph.concepts, graph.concepts.used
    demoted = concepts["last_demotion_time"][:used]
    waits = concepts.live[:used] & (demoted != NO_TIME)
    if not settings.canonization_supersede:  # else a cooldown shields a rival of any status
        waits = waits & (concepts["status"][:used] == STATUS_CODE[Status.VENERABLE])
    ends: Array = demoted[waits] + settings.repromotion_cooldown
    return ends


def _first_after(instants: Array, after: Micros) -> Micros | None:
    later = instants[instants > after]
    return int(later.min()) if later.size else None


def _known(instants: Iterable[Micros | None]) -> list[Micros]:
    return [at for at in instants if at is not None]
