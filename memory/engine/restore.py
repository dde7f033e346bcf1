"""Bringing a removed concept back, with its id and those of its edges that still have both ends.

Owns the checks that decide whether it can come back, and what is told of what cannot. It returns at
status None, whatever it was: a status is earned anew. Knows no store: the audit row is given.

Invariant: a refused restoration changes nothing, and one that is done leaves a graph that could
have been without the removal, but for the status and the edges it lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory.engine.config import MatchStrategy
from memory.engine.disappearance import RemovedState, read_removed
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

LOST_EDGES_SHOWN: Final = 20
"""Of the edges that did not come back, so many are named; all are counted."""


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
    """A concept that is back. `audit_id` is the row of the removal that was undone.

    `lost` are the first of the `lost_count` edges that did not come back.
    """

    node_id: NodeId
    audit_id: NodeId
    content: str
    earlier_status: Status
    edges: int
    lost: tuple[LostEdge, ...]
    lost_count: int

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
        if self.lost_count > len(lost):
            lost.append(f"  - and {self.lost_count - len(lost)} more")
        head = [f"{self.lost_count} edge(s) did not come back:"] if lost else []
        return "\n".join([line, *head, *lost])

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
            "lost_edge_count": self.lost_count,
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
    removed: RemovedState | None = None,
) -> Plan[RestoreResult]:
    """Undo a removal; `removal` is the audit row that the request names, the newest if several.

    `removed` is its removed state where that was read before: of a hub it is large.
    Raises `ConceptNotFound`, `NotRemoved`, `TextPurged` or `KeyTaken`.
    """
    _check_gone(graph, request, removal)
    assert removal is not None
    removed = removed or read_removed(removal.removed)
    concept = removed.concept._replace(status=Status.NONE, blast_radius=None)
    _check_key(graph, concept)
    judged = list(zip(removed.edges, _why_lost(graph, concept, removed.edges), strict=True))
    kept = [edge for edge, why in judged if why is None]
    lost = [(edge, why) for edge, why in judged if why is not None]
    shown = tuple(_lost_edge(removed, edge, why) for edge, why in lost[:LOST_EDGES_SHOWN])
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
            "lost_edges": [edge.edge_id for edge in shown],
            "lost_edge_count": len(lost),
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
            lost=shown,
            lost_count=len(lost),
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


def _lost_edge(removed: RemovedState, edge: Edge, why: str) -> LostEdge:
    other = edge.target if edge.source == removed.concept.id else edge.source
    return LostEdge(edge.id, edge.edge_type, other, removed.names.get(other), why)


def _why_lost(graph: Graph, concept: Concept, edges: Sequence[Edge]) -> list[str | None]:
    """Why each edge cannot come back, or None; of thousands at once, so without a call for each."""
    nodes = (graph.concepts.row_by_id, graph.chain.row_by_id)
    taken, me = graph.edges.row_by_id, concept.id
    is_canonical = graph.match_strategy == MatchStrategy.CANONICAL
    reasons: list[str | None] = []
    for edge in edges:
        kind, rule = edge.edge_type, EDGES[edge.edge_type]
        if edge.source == me:
            other, among = edge.target, nodes[rule.to_interaction]
        else:
            other, among = edge.source, nodes[rule.from_interaction]
        why = None
        if other not in among and other != me:
            why = "its other end is gone"
        elif edge.id in taken:
            why = "its id is taken"
        elif (
            is_canonical
            and kind is EdgeType.HIERARCHICAL
            and edge.target != me
            and graph.in_rows(among[other], kind)
        ):
            why = "the child has another parent by now"
        reasons.append(why)
    return reasons
