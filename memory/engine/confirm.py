"""A person's word that a concept is right: an audit row, and nothing else.

It moves no status by itself. A policy for a single writer counts it; under the others it is kept
and shown, for there importance is earned from structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.engine.draft import Plan, excerpt
from memory.engine.graph import Graph
from memory.engine.mutations import PutAudit
from memory.engine.ports import IdSource
from memory.engine.requests import ConfirmRequest
from memory.engine.retract import find_concept
from memory.engine.showing import shown_status
from memory.engine.times import Micros
from memory.engine.types import AuditEntry, AuditKind, NodeId, Status


@dataclass(frozen=True, slots=True)
class ConfirmResult:
    """A concept that was confirmed, and how often it now was."""

    node_id: NodeId
    audit_id: NodeId
    content: str
    status: Status
    confirmations: int

    @property
    def text(self) -> str:
        times = "once" if self.confirmations == 1 else f"{self.confirmations} times"
        named = f"'{excerpt(self.content)}' [{shown_status(self.status)}]"
        return f"confirmed {named}; confirmed {times} by people"

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "node_id": self.node_id,
            "audit_id": self.audit_id,
            "content": self.content,
            "canonization_status": str(self.status),
            "confirmations": self.confirmations,
            "warnings": [],
        }


def plan_confirm(
    graph: Graph, request: ConfirmRequest, *, actor: str, now: Micros, ids: IdSource
) -> Plan[ConfirmResult]:
    """Plan the audit row. Raises `ConceptNotFound`."""
    row = find_concept(graph, request.concept)
    concept = graph.concept_at(row)
    count = graph.standing.confirmation_count(concept.id) + 1
    entry = AuditEntry(
        id=ids.next_ordered_id(now),
        kind=AuditKind.CONFIRM,
        node_id=concept.id,
        from_status=concept.status,
        to_status=concept.status,
        occurred_at=now,
        actor=actor,
        reason=request.reason,
        detail={"confirmations": count},
    )
    result = ConfirmResult(concept.id, entry.id, concept.content, concept.status, count)
    return Plan((PutAudit(entry),), result)
