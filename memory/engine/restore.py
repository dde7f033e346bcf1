"""Bringing a removed concept back, with its id and those of its edges that still have both ends.

Owns the checks that decide whether it can come back, and what is told of what cannot. It returns at
status None, whatever it was: a status is earned anew. Knows no store: the audit row is given.

Invariant: a refused restoration changes nothing, and one that is done leaves a graph that could
have been without the removal, but for the status and the edges it lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.engine.config import MatchStrategy
from memory.engine.disappearance import read_removed
from memory.engine.draft import Plan, excerpt
from memory.engine.errors import ConceptNotFound, KeyTaken, NotRemoved, TextPurged
from memory.engine.graph import Graph
from memory.engine.mutations import PutAudit, PutConcept, PutEdge
from memory.engine.ports import IdSource
from memory.engine.requests import RestoreRequest
from memory.engine.rules import EDGES
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    NodeId,
    Status,
)


@dataclass(frozen=True, slots=True)
class LostEdge:
    """An edge that cannot come back, and what is known of its other end."""

    edge_id: NodeId
    edge_type: EdgeType
    other_end: NodeId
    name: str | None
    why: str


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A concept that is back. `audit_id` is the row of the removal that was undone."""

    node_id: NodeId
    audit_id: NodeId
    content: str
    earlier_status: Status
    edges: int
    lost: tuple[LostEdge, ...]

    @property
    def text(self) -> str:
        line = (
            f"restored '{excerpt(self.content)}' with {self.edges} edge(s), as "
            f"{Status.NONE}; it was {self.earlier_status}"
        )
        lost = [
            f"  - {edge.edge_type} with '{excerpt(edge.name or edge.other_end)}': {edge.why}"
            for edge in self.lost
        ]
        return "\n".join(
            [line, *([f"{len(lost)} edge(s) did not come back:"] if lost else []), *lost]
        )

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text.partition("\n")[0],
            "node_id": self.node_id,
            "audit_id": self.audit_id,
            "content": self.content,
            "earlier_status": str(self.earlier_status),
            "restored_edges": self.edges,
            "lost_edges": [
                {
                    "edge_id": edge.edge_id,
                    "edge_type": str(edge.edge_type),
                    "other_end": edge.other_end,
                    "name": edge.name,
                    "why": edge.why,
                }
                for edge in self.lost
            ],
            "warnings": [],
        }


def plan_restore(
    graph: Graph,
    request: RestoreRequest,
    removal: AuditEntry | None,
    *,
    actor: str,
    now: Micros,
    ids: IdSource,
) -> Plan[RestoreResult]:
    """Undo a removal; `removal` is the audit row that the request names, the newest if several.

    Raises `ConceptNotFound`, `NotRemoved`, `TextPurged` or `KeyTaken`.
    """
    _check_gone(graph, request, removal)
    assert removal is not None
    removed = read_removed(removal.removed)
    concept = removed.concept._replace(status=Status.NONE, blast_radius=None)
    _check_key(graph, concept)
    kept: list[Edge] = []
    lost: list[LostEdge] = []
    for edge in removed.edges:
        why = _why_lost(graph, concept, edge)
        other = edge.target if edge.source == concept.id else edge.source
        if why is None:
            kept.append(edge)
        else:
            name = removed.names.get(other)
            lost.append(LostEdge(edge.id, edge.edge_type, other, name, why))
    entry = AuditEntry(
        id=ids.next_ordered_id(now),
        kind=AuditKind.RESTORE,
        node_id=concept.id,
        from_status=removed.concept.status,
        to_status=Status.NONE,
        occurred_at=now,
        actor=actor,
        reason=request.reason,
        detail={
            "removal": removal.id,
            "gc_survived": concept.gc_survived,
            "edges": len(kept),
            "lost_edges": [edge.edge_id for edge in lost],
        },
    )
    return Plan(
        (PutConcept(concept), *map(PutEdge, kept), PutAudit(entry)),
        RestoreResult(
            node_id=concept.id,
            audit_id=removal.id,
            content=concept.content,
            earlier_status=removed.concept.status,
            edges=len(kept),
            lost=tuple(lost),
        ),
    )


def _check_gone(graph: Graph, request: RestoreRequest, removal: AuditEntry | None) -> None:
    named = request.id.strip().lower()
    concept_id = named if removal is None else removal.node_id
    if concept_id is not None and graph.row_of(concept_id) is not None:
        raise NotRemoved(f"concept {concept_id} is not gone", node_id=concept_id)
    if removal is None:
        raise ConceptNotFound(f"nothing was removed under the id {named}")
    # The row may have been read before a purge that is in the graph already reached the store.
    if removal.removed is None or (concept_id and graph.standing.is_purged(concept_id)):
        raise TextPurged(f"concept {concept_id} was purged: nothing of it is kept")


def _check_key(graph: Graph, concept: Concept) -> None:
    if concept.concept_type is ConceptType.OBSERVATION:
        return
    holder = graph.find_by_key(concept.canonical_key)
    if holder is not None:
        holder_id, content = graph.id_at(holder), excerpt(graph.content_at(holder))
        raise KeyTaken(
            f"its key belongs to concept {holder_id} by now: '{content}'; retract that first",
            holder=holder_id,
            content=content,
        )


def _why_lost(graph: Graph, concept: Concept, edge: Edge) -> str | None:
    """Why an edge cannot come back, or None."""
    rule = EDGES[edge.edge_type]
    chain = graph.chain.row_by_id
    for end, is_interaction in (
        (edge.source, rule.from_interaction),
        (edge.target, rule.to_interaction),
    ):
        is_there = end in chain if is_interaction else graph.row_of(end) is not None
        if end != concept.id and not is_there:
            return "its other end is gone"
    if graph.edge(edge.id) is not None:
        return "its id is taken"
    is_canonical = graph.match_strategy == MatchStrategy.CANONICAL
    if edge.edge_type is EdgeType.HIERARCHICAL and is_canonical and edge.target != concept.id:
        child = graph.row_of(edge.target)
        if child is not None and graph.in_rows(child, EdgeType.HIERARCHICAL):
            return "the child has another parent by now"
    return None
