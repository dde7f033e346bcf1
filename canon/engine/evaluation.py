"""One evaluation cycle: what is promoted and what is demoted now, with the evidence for each.

Everything is planned on the graph as it stands and nothing is applied, so a concept moves at most
one hop per cycle. The order of the plan is that of the audit trail: supersessions first, then
promotions, so that a slot just freed is used at once, then demotions over the budget.

A large session is surveyed in steps with writes in between (`evaluate_in_steps`). The last step
measures again whatever it promotes and is not interrupted, so the plan holds for the graph it was
made on; the caller applies it before anything else.

Owns order, windows and budgets. Not here: bars (`gates`), whose evidence counts (`quorum`, `solo`),
and who contradicts whom (`supersession`).

Invariant: the same graph, state and circumstances give the same plan, ids aside.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from canon.engine.contradictions import rows_declared_against
from canon.engine.evaluation_state import EvaluationState, take_window
from canon.engine.gate_times import Timeline
from canon.engine.gates import Check, check_budget, check_held
from canon.engine.measurements import (
    Circumstances,
    Measurements,
    Support,
    measure,
    supports_at,
)
from canon.engine.policies import check_hop, is_passed, next_status
from canon.engine.probes import TARGETS_MAX, probe
from canon.engine.quorum import Backing
from canon.engine.settings import Policy
from canon.engine.supersession import Claim, Rivals
from canon.engine.survey import EDGES_PER_STEP, by_score, is_without_status, survey
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.mutations import ApplyTransition
from memory.engine.ports import IdSource
from memory.engine.rules import STATUS_CODE
from memory.engine.types import NodeId, Status, Transition

ACTOR: Final = "canonization"
"""Who stands in the audit row of what evidence decided."""
REASON_BUDGET: Final = "Budget"
REASON_SUPERSEDED: Final = "Superseded"
DEFERRALS_MAX: Final = 3
"""Cycles in a row for which a window waits for its probes before the ring moves on."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a transition was made, as its audit row keeps it.

    `checks` are the gates that were passed; of a demotion, what the contradictor passed, or the
    budget. `supports` are the first edges that counted of `support_count`.
    """

    policy: Policy
    checks: tuple[Check, ...]
    blast_radius: int
    supports: tuple[Support, ...] = ()
    support_count: int = 0
    solo_terms: dict[str, int] | None = None
    claim: Claim | None = None

    def as_wire(self) -> dict[str, Any]:
        """JSON-able; what the audit row stores."""
        wire: dict[str, Any] = {
            "policy": str(self.policy),
            "checks": [check.as_wire() for check in self.checks],
            "blast_radius": self.blast_radius,
            "supports": [support.as_wire() for support in self.supports],
            "support_count": self.support_count,
        }
        if self.solo_terms is not None:
            wire["solo_terms"] = self.solo_terms
        if self.claim is not None:
            wire |= self.claim.as_wire()
        return wire


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of a concept, and the evidence that decided it."""

    transition: Transition
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The plan of a cycle, in the order it is applied, and what the next one starts from.

    `notes` are sentences for the log: caps that were reached.
    """

    decisions: tuple[Decision, ...]
    state: EvaluationState
    notes: tuple[str, ...] = ()

    @property
    def mutations(self) -> tuple[ApplyTransition, ...]:
        return tuple(ApplyTransition(decision.transition) for decision in self.decisions)


def evaluate(
    graph: Graph,
    state: EvaluationState,
    circumstances: Circumstances,
    *,
    ids: IdSource,
    scores: Array,
    timeline: Timeline | None = None,
) -> Evaluation:
    """One cycle at once. `scores` is (n,) float64 by concept row; rows beyond its end score 0.

    Keep the `timeline` beside the graph between cycles: then an interaction is read only once.
    """
    steps = evaluate_in_steps(
        graph, state, circumstances, ids=ids, scores=scores, timeline=timeline
    )
    while True:
        try:
            next(steps)
        except StopIteration as done:
            evaluation: Evaluation = done.value
            return evaluation


def evaluate_in_steps(
    graph: Graph,
    state: EvaluationState,
    circumstances: Circumstances,
    *,
    ids: IdSource,
    scores: Array,
    timeline: Timeline | None = None,
) -> Generator[None, None, Evaluation]:
    """The same in steps of a few milliseconds; writes may happen in between.

    Apply the result in the same synchronous step in which the generator returns it.
    """
    timeline, backing = timeline or Timeline(), Backing()
    hints = yield from survey(graph, scores, circumstances, timeline, backing)
    if graph.edge_count > EDGES_PER_STEP:
        yield
    timeline.follow(graph)
    cycle = _Cycle(graph, state, circumstances, ids, scores, timeline, backing)
    return cycle.plan(hints)


class _Cycle:
    """The last, uninterrupted step."""

    def __init__(
        self,
        graph: Graph,
        state: EvaluationState,
        circumstances: Circumstances,
        ids: IdSource,
        scores: Array,
        timeline: Timeline,
        backing: Backing,
    ) -> None:
        self._graph = graph
        self._state = state
        self._circumstances = circumstances
        self._settings = circumstances.settings
        self._ids = ids
        self._scores = scores
        self._timeline = timeline
        self._backing = backing
        self._rivals = Rivals(graph, circumstances, timeline)
        self._decisions: list[Decision] = []
        self._notes: list[str] = []

    def plan(self, hints: Sequence[int]) -> Evaluation:
        canonical = self._rows(Status.CANONICAL)
        superseded = self._plan_supersessions(canonical)
        count = len(canonical) - len(superseded)
        self._plan_candidates(hints)
        self._plan_venerables()
        count += self._plan_canonicals(count)
        if len(canonical) > self._settings.max_canonical_nodes:
            self._plan_budget_demotions([row for row in canonical if row not in superseded], count)
        return Evaluation(tuple(self._decisions), self._state, tuple(self._notes))

    # -- promotions ----------------------------------------------------------------------------

    def _plan_candidates(self, hints: Sequence[int]) -> None:
        standing = [row for row in hints if is_without_status(self._graph, row)]
        for measured in self._measure(standing):
            checks = check_hop(measured, self._circumstances)
            if is_passed(checks):
                self._promote(measured, checks)

    def _plan_venerables(self) -> None:
        size = self._settings.canonization_eval_batch_size
        ring = self._rows(Status.CANDIDATE)
        window = take_window(self._graph, ring, self._state.candidates_after, size)
        for measured in self._measure(window):
            checks = check_hop(measured, self._circumstances)
            if is_passed(checks):
                self._promote(measured, checks)
        if window:
            last = self._graph.id_at(window[-1])
            self._state = replace(self._state, candidates_after=last)

    def _plan_canonicals(self, canonical_count: int) -> int:
        """Promote what the budget has room for; returns how many."""
        budget_max = self._settings.max_canonical_nodes
        if canonical_count >= budget_max:
            return 0
        size = self._settings.canonization_eval_batch_size
        ring = self._rows(Status.VENERABLE)
        window = take_window(self._graph, ring, self._state.venerables_after, size)
        if not window:
            return 0
        passing = {}
        for measured in self._measure(window):
            checks = check_hop(measured, self._circumstances)
            if is_passed(checks):
                passing[measured.row] = (measured, checks)
        ordered = list(by_score(self._graph, self._scores, np.array([*passing], dtype=np.int64)))
        free = self._free_of_holds(ordered, self._graph.id_at(window[-1]))
        promoted = 0
        for row in free[: budget_max - canonical_count]:
            measured, checks = passing[row]
            room = check_budget(canonical_count + promoted, budget_max)
            held = (check_held(None),) if self._settings.canonization_supersede else ()
            self._promote(measured, (*checks, room, *held))
            promoted += 1
        return promoted

    def _free_of_holds(self, ordered: Sequence[int], last: NodeId) -> list[int]:
        """Those that no contradictor would supersede at once; moves the ring on, to `last`.

        While the probes do not cover the window, the ring stays and the rest is asked next time.
        """
        moved_on = replace(
            self._state, venerables_after=last, hold_resume=None, held=(), deferrals=0
        )
        if not self._settings.canonization_supersede:
            self._state = moved_on
            return list(ordered)
        held = set(self._state.held)
        waiting = [row for row in ordered if self._graph.id_at(row) not in held]
        resume, names = self._state.hold_resume, [self._graph.id_at(row) for row in waiting]
        first = names.index(resume.target) if resume and resume.target in names else 0
        in_turn = waiting[first:] + waiting[:first]
        probed = probe(self._graph, self._rivals, in_turn, resume=resume)
        free = [row for row in ordered if probed.verdicts.get(row, _HELD) is None]
        if probed.stopped is None:
            self._state = moved_on
            return free
        deferrals = self._state.deferrals + 1
        self._notes.append(
            f"the hold's probes did not cover the window of canonical candidates ({deferrals} of "
            f"{DEFERRALS_MAX} cycles in a row)"
        )
        if deferrals == DEFERRALS_MAX:
            # Where it stopped is kept: the next time around, others get their turn first.
            self._state = replace(moved_on, hold_resume=probed.stopped)
            return free
        held |= {self._graph.id_at(row) for row, claim in probed.verdicts.items() if claim}
        self._state = replace(
            self._state,
            hold_resume=probed.stopped,
            held=tuple(sorted(held)),
            deferrals=deferrals,
        )
        return free

    def _promote(self, measured: Measurements, checks: tuple[Check, ...]) -> None:
        to_status = next_status(measured.status)
        assert to_status is not None
        stored = int(self._graph.concepts["blast_radius"][measured.row])
        radius = None if stored < 0 else stored
        self._decide(
            measured.node_id,
            measured.status,
            to_status,
            # The very measurement that let it through.
            radius=measured.blast_radius if to_status is Status.CANONICAL else radius,
            evidence=self._evidence(measured, checks),
        )

    # -- demotions -----------------------------------------------------------------------------

    def _plan_supersessions(self, canonical: Sequence[int]) -> set[int]:
        """Demote what a contradictor with fresh evidence overturns; returns the rows."""
        if not self._settings.canonization_supersede or not canonical:
            return set()
        ring = set(rows_declared_against(self._graph).tolist()).intersection(canonical)
        window = take_window(self._graph, ring, self._state.targets_after, TARGETS_MAX)
        probed = probe(self._graph, self._rivals, window, resume=self._state.target_resume)
        claims = {row: claim for row, claim in probed.verdicts.items() if claim is not None}
        for measured in self._measure(list(claims)):
            self._demote(
                measured, REASON_SUPERSEDED, self._claim_evidence(measured, claims[measured.row])
            )
        if probed.stopped is not None or len(window) < len(ring):
            self._notes.append("supersession reached its probes; the rest is asked next cycle")
        self._state = replace(
            self._state,
            targets_after=_last_covered(self._graph, window, probed.verdicts)
            or self._state.targets_after,
            target_resume=probed.stopped,
        )
        return set(claims)

    def _plan_budget_demotions(self, canonical: Sequence[int], count: int) -> None:
        """Demote the least load-bearing until the session is within its budget."""
        overflow = count - self._settings.max_canonical_nodes
        ranked = sorted(
            self._measure(canonical), key=lambda found: (found.blast_radius, found.node_id)
        )
        for measured in ranked[: max(overflow, 0)]:
            over = check_budget(count, self._settings.max_canonical_nodes)
            self._demote(measured, REASON_BUDGET, self._evidence(measured, (over,)))

    def _demote(self, measured: Measurements, reason: str, evidence: Evidence) -> None:
        claim = evidence.claim
        self._decide(
            measured.node_id,
            measured.status,
            Status.NONE,
            radius=None,
            evidence=evidence,
            reason=reason,
            superseded_by=None if claim is None else claim.by_id,
        )

    # -- shared --------------------------------------------------------------------------------

    def _decide(
        self,
        node_id: NodeId,
        from_status: Status,
        to_status: Status,
        *,
        radius: int | None,
        evidence: Evidence,
        reason: str | None = None,
        superseded_by: NodeId | None = None,
    ) -> None:
        now = self._circumstances.now
        transition = Transition(
            id=self._ids.next_ordered_id(now),
            node_id=node_id,
            from_status=from_status,
            to_status=to_status,
            blast_radius=radius,
            last_demotion_time=None if reason is None else now,
            occurred_at=now,
            actor=ACTOR,
            reason=reason,
            superseded_by=superseded_by,
        )
        self._decisions.append(Decision(transition, evidence))

    def _evidence(self, measured: Measurements, checks: tuple[Check, ...]) -> Evidence:
        edges = measured.support_edges
        return Evidence(
            policy=self._circumstances.policy,
            checks=checks,
            blast_radius=measured.blast_radius,
            supports=supports_at(self._graph, measured.node_id, edges, measured.distinct_edges),
            support_count=len(edges),
            solo_terms=solo_terms(measured) if self._circumstances.policy is Policy.SOLO else None,
        )

    def _claim_evidence(self, measured: Measurements, claim: Claim) -> Evidence:
        edges = claim.support_edges
        return Evidence(
            policy=self._circumstances.policy,
            checks=claim.checks,
            blast_radius=measured.blast_radius,
            supports=supports_at(self._graph, claim.by_id, edges, frozenset(edges)),
            support_count=len(edges),
            claim=claim,
        )

    def _measure(self, rows: Sequence[int]) -> list[Measurements]:
        if not rows:
            return []
        return measure(
            self._graph, rows, self._circumstances, self._timeline, backing=self._backing
        )

    def _rows(self, status: Status) -> list[int]:
        return rows_with(self._graph, status)


_HELD: Final = object()


def rows_with(graph: Graph, status: Status) -> list[int]:
    """Rows of the concepts of a status, ascending."""
    used = graph.concepts.used
    is_it = graph.concepts["status"][:used] == STATUS_CODE[status]
    rows: list[int] = np.flatnonzero(is_it & graph.concepts.live[:used]).tolist()
    return rows


def solo_terms(measured: Measurements) -> dict[str, int]:
    """What the score of Solo was made of, beside the concept's type."""
    return {
        "sessions": measured.sessions,
        "confirmations": measured.confirmations,
        "distinct": measured.distinct,
        "reverts": measured.reverts,
    }


def _last_covered(
    graph: Graph, window: Sequence[int], verdicts: dict[int, Claim | None]
) -> NodeId | None:
    """The last id of the window up to which all have a verdict."""
    last = None
    for row in window:
        if row not in verdicts:
            break
        last = graph.id_at(row)
    return last
