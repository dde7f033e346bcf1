"""What canonization would do, without doing it: evaluation repeated on a copy until it rests.

Owns the dry run and its report. It writes to the graph it is given, so that must be a copy, and it
may take seconds on a large one: run it away from the event loop. The clock stands still, so what
is too young now stays too young, and a sweep that has not happened is not foreseen.

Invariant: the run ends. Evidence only promotes, and what is demoted cools down for longer than the
run's single instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from canon.engine.admission import check_admission
from canon.engine.contradictions import CONTRADICTS
from canon.engine.evaluation import DEFERRALS_MAX, Decision, evaluate, rows_with
from canon.engine.evaluation_state import EvaluationState
from canon.engine.gate_times import Timeline
from canon.engine.gates import Check
from canon.engine.measurements import Circumstances, Measurements, measure
from canon.engine.policies import next_status
from canon.engine.probes import PROBES_MAX, TARGETS_MAX
from canon.engine.quorum import Backing
from canon.engine.settings import BOUNDS, CanonSettings, Policy
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.ports import IdSource
from memory.engine.showing import in_passing
from memory.engine.types import NodeId, Status

CYCLES_MAX: Final = 100_000
"""Cycles after which a dry run stops and says so; each but the last few moves a concept."""
LISTED_MAX: Final = 100
"""Concepts that miss by one gate which a report names; the total stands beside them."""
_CONCEPTS_PER_STEP: Final = 2_000


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A concept that one gate keeps from its next status."""

    node_id: NodeId
    content: str
    status: Status
    next_status: Status
    check: Check

    def as_wire(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "content": self.content,
            "status": str(self.status),
            "next_status": str(self.next_status),
            "check": self.check.as_wire(),
        }


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a policy would make of a session as it stands.

    `failures` counts, at rest, the concepts that fail each gate of their next hop, by next status
    and gate. `near_misses` are the first of `near_miss_count`, by id.
    """

    policy: Policy
    cycles: int
    is_at_rest: bool
    decisions: tuple[Decision, ...]
    statuses: dict[str, int]
    failures: dict[str, dict[str, int]]
    near_misses: tuple[NearMiss, ...]
    near_miss_count: int
    notes: tuple[str, ...] = ()

    def as_wire(self) -> dict[str, Any]:
        return {
            "policy": str(self.policy),
            "cycles": self.cycles,
            "at_rest": self.is_at_rest,
            "transitions": [_transition_wire(decision) for decision in self.decisions],
            "statuses": self.statuses,
            "failures": self.failures,
            "near_misses": [miss.as_wire() for miss in self.near_misses],
            "near_miss_count": self.near_miss_count,
            "notes": list(self.notes),
        }


def dry_run(
    copy: Graph,
    circumstances: Circumstances,
    *,
    ids: IdSource,
    scores: Array,
    on_cycle: Callable[[int, int], None] | None = None,
) -> DryRun:
    """Repeat cycles on `copy`, a graph of its own, until nothing changes, and report.

    `on_cycle` is told after each how many cycles and transitions there were so far.
    """
    circumstances = _with_wide_windows(copy, circumstances)
    timeline, state = Timeline(), EvaluationState()
    decisions: list[Decision] = []
    notes: dict[str, None] = {}
    cycles = quiet = 0
    while quiet < _cycles_to_rest(copy, circumstances.settings) and cycles < CYCLES_MAX:
        planned = evaluate(copy, state, circumstances, ids=ids, scores=scores, timeline=timeline)
        copy.apply_all(planned.mutations)
        state = planned.state
        decisions += planned.decisions
        notes.update(dict.fromkeys(planned.notes))
        cycles += 1
        quiet = 0 if planned.decisions else quiet + 1
        if on_cycle is not None:
            on_cycle(cycles, len(decisions))
    failures, misses = _judge_all(copy, circumstances, timeline)
    return DryRun(
        policy=circumstances.policy,
        cycles=cycles,
        is_at_rest=cycles < CYCLES_MAX,
        decisions=tuple(decisions),
        statuses={str(status): len(rows_with(copy, status)) for status in Status},
        failures=failures,
        near_misses=tuple(sorted(misses, key=lambda miss: miss.node_id)[:LISTED_MAX]),
        near_miss_count=len(misses),
        notes=tuple(notes),
    )


def _with_wide_windows(graph: Graph, circumstances: Circumstances) -> Circumstances:
    """As wide as allowed, for speed: where a concept ends does not depend on the windows.

    With something to supersede they stay, since the caps of supersession are made for them.
    """
    if circumstances.settings.canonization_supersede and _count_contradictions(graph):
        return circumstances
    widest = int(BOUNDS["canonization_eval_batch_size"].high)
    settings = replace(circumstances.settings, canonization_eval_batch_size=widest)
    return replace(circumstances, settings=settings)


def _cycles_to_rest(graph: Graph, settings: CanonSettings) -> int:
    """How many quiet cycles in a row have looked at every ring, and every pair, at least once."""
    longest = max(len(rows_with(graph, status)) for status in Status)
    cycles = 1 + longest // settings.canonization_eval_batch_size
    pairs = _count_contradictions(graph) if settings.canonization_supersede else 0
    if pairs:
        # A window waits a few cycles for its probes; a target costs a probe at least.
        cycles = DEFERRALS_MAX * cycles + pairs // PROBES_MAX + pairs // TARGETS_MAX + 2
    return cycles


def _count_contradictions(graph: Graph) -> int:
    kinds = graph.edges["type"][: graph.edges.used]
    return int(np.count_nonzero((kinds == CONTRADICTS) & graph.edges.live[: len(kinds)]))


def _judge_all(
    graph: Graph, circumstances: Circumstances, timeline: Timeline
) -> tuple[dict[str, dict[str, int]], list[NearMiss]]:
    failures: dict[str, Counter[str]] = {}
    misses = []
    rows, backing = graph.concept_rows(), Backing()
    canonical_count = len(rows_with(graph, Status.CANONICAL))
    for start in range(0, len(rows), _CONCEPTS_PER_STEP):
        some = rows[start : start + _CONCEPTS_PER_STEP]
        for measured in measure(graph, some, circumstances, timeline, backing=backing):
            checks = check_admission(
                graph, measured, circumstances, timeline, canonical_count=canonical_count
            )
            failed = [check for check in checks if not check.is_met]
            wanted = next_status(measured.status)
            if wanted is None:
                continue
            failures.setdefault(str(wanted), Counter()).update(str(one.gate) for one in failed)
            if len(failed) == 1:
                misses.append(_near_miss(graph, measured, wanted, failed[0]))
    return {status: dict(sorted(counts.items())) for status, counts in failures.items()}, misses


def _near_miss(graph: Graph, measured: Measurements, wanted: Status, failed: Check) -> NearMiss:
    content = in_passing(graph.content_at(measured.row))
    return NearMiss(measured.node_id, content, measured.status, wanted, failed)


def _transition_wire(decision: Decision) -> dict[str, Any]:
    transition = decision.transition
    return {
        "node_id": transition.node_id,
        "from_status": str(transition.from_status),
        "to_status": str(transition.to_status),
        "blast_radius": transition.blast_radius,
        "reason": transition.reason,
        "superseded_by": transition.superseded_by,
    }
