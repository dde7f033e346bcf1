"""Why a concept is where it is: its next hop, gate by gate, by the evaluator's own predicates.

Owns the explanation alone; every number comes from `measurements` and every verdict from
`policies`, so that what is told here and what the evaluation does cannot differ. It does not
predict when: windows, batches and a slot that a supersession frees decide that.

Invariant: `eligible` holds exactly if a cycle whose windows reach the concept would promote it,
competitors for the last canonical places aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canon.engine.contradictions import declarations
from canon.engine.evaluation import rows_with, solo_terms
from canon.engine.gate_times import Timeline
from canon.engine.gates import Check, check_budget, check_held
from canon.engine.measurements import Circumstances, Measurements, Support, measure, supports_at
from canon.engine.policies import check_hop, is_passed, next_status
from canon.engine.quorum import Backing
from canon.engine.settings import Policy
from canon.engine.supersession import Rivals
from memory.engine.graph import Graph
from memory.engine.showing import in_passing
from memory.engine.times import format_rfc3339
from memory.engine.types import NodeId, Status, Transition


@dataclass(frozen=True, slots=True)
class Admission:
    """Where a concept stands and what its next status asks for.

    `next_status` is None for a canonical memory, and then there are no checks. `solo_terms` and
    `solo_score` are given under Solo. `supports` are the first of `support_count` edges that count.
    `latest_demotion` is the last time it lost its status, if ever.
    """

    node_id: NodeId
    policy: Policy
    status: Status
    next_status: Status | None
    eligible: bool
    checks: tuple[Check, ...]
    measured: Measurements
    supports: tuple[Support, ...]
    latest_demotion: Transition | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for each gate that is not passed."""
        return tuple(check.sentence for check in self.checks if check.sentence is not None)

    @property
    def text(self) -> str:
        """The same for people, a line each."""
        lines = [self._headline, *(f"  - {reason}" for reason in self.reasons)]
        if self.measured.confirmations:
            effect = (
                "" if self.policy is Policy.SOLO else f"; under {self.policy} they move nothing"
            )
            lines.append(f"  confirmed by humans {self.measured.confirmations} time(s){effect}")
        if self.latest_demotion is not None:
            lines.append(f"  {_demotion_line(self.latest_demotion)}")
        return "\n".join(lines)

    @property
    def _headline(self) -> str:
        if self.next_status is None:
            return f"{self.status} under {self.policy}; there is no higher status"
        state = "eligible for" if self.eligible else "not yet"
        return f"{self.status} under {self.policy}, {state} {self.next_status}"

    def as_wire(self) -> dict[str, Any]:
        measured = self.measured
        wire: dict[str, Any] = {
            "policy": str(self.policy),
            "status": str(self.status),
            "next_status": None if self.next_status is None else str(self.next_status),
            "eligible": self.eligible,
            "checks": [check.as_wire() for check in self.checks],
            "reasons": list(self.reasons),
            "distinct": measured.distinct,
            "coverage": measured.coverage,
            "blast_radius": measured.blast_radius,
            "live_blast_radius": measured.live_radius,
            "gc_survived": measured.gc_survived,
            "confirmations": measured.confirmations,
            "supports": [support.as_wire() for support in self.supports],
            "support_count": len(measured.support_edges),
        }
        if self.policy is Policy.SOLO:
            wire |= {"solo_terms": solo_terms(measured), "solo_score": measured.solo_score}
        if self.policy is Policy.QUORUM:
            wire["agents"] = measured.agent_count
        if self.latest_demotion is not None:
            wire["latest_demotion"] = _demotion_wire(self.latest_demotion)
        return wire


def explain(
    graph: Graph,
    row: int,
    circumstances: Circumstances,
    *,
    timeline: Timeline | None = None,
) -> Admission:
    """Explain one live concept. Keep the `timeline` beside the graph, see `evaluate`."""
    timeline = timeline or Timeline()
    (measured,) = measure(graph, [row], circumstances, timeline, backing=Backing())
    checks = check_admission(graph, measured, circumstances, timeline)
    return Admission(
        node_id=measured.node_id,
        policy=circumstances.policy,
        status=measured.status,
        next_status=next_status(measured.status),
        eligible=bool(checks) and is_passed(checks),
        checks=checks,
        measured=measured,
        supports=supports_at(
            graph, measured.node_id, measured.support_edges, measured.distinct_edges
        ),
        latest_demotion=find_latest_demotion(graph, measured),
    )


def check_admission(
    graph: Graph,
    measured: Measurements,
    circumstances: Circumstances,
    timeline: Timeline,
    *,
    canonical_count: int | None = None,
) -> tuple[Check, ...]:
    """All gates of the next hop, budget and hold included; none for a canonical memory.

    `canonical_count` spares counting them for each concept of many.
    """
    checks = check_hop(measured, circumstances)
    if measured.status is not Status.VENERABLE:
        return checks
    settings = circumstances.settings
    if canonical_count is None:
        canonical_count = len(rows_with(graph, Status.CANONICAL))
    checks = (*checks, check_budget(canonical_count, settings.max_canonical_nodes))
    if not settings.canonization_supersede:
        return checks
    holder = _find_holder(graph, measured.row, circumstances, timeline)
    return (*checks, check_held(holder))


def _find_holder(
    graph: Graph, row: int, circumstances: Circumstances, timeline: Timeline
) -> NodeId | None:
    """The contradictor that would supersede the concept at once, the strongest of several."""
    rivals = Rivals(graph, circumstances, timeline)
    declared = declarations(graph, row)
    rivals.read({row, *(one.by for one in declared)})
    claims = [rivals.find_superseding(one, row) for one in declared]
    winning = [claim for claim in claims if claim is not None]
    strongest = min(winning, key=rivals.rank, default=None)
    return None if strongest is None else strongest.by_id


def find_latest_demotion(graph: Graph, measured: Measurements) -> Transition | None:
    """The last transition that took the concept's status away; its reason is never rewritten."""
    if measured.last_demotion_time is None:
        return None
    for transition in reversed(graph.transitions.values()):
        if transition.node_id == measured.node_id and transition.to_status is Status.NONE:
            return transition
    return None


def _demotion_line(demotion: Transition) -> str:
    reason = in_passing(demotion.reason or "Budget")  # stored text, whoever stored it
    by = f" by {demotion.superseded_by}" if demotion.superseded_by else ""
    return f"last demoted {format_rfc3339(demotion.occurred_at)}: {reason}{by}"


def _demotion_wire(demotion: Transition) -> dict[str, Any]:
    return {
        "occurred_at": format_rfc3339(demotion.occurred_at),
        "reason": demotion.reason or "Budget",
        "superseded_by": demotion.superseded_by,
    }
