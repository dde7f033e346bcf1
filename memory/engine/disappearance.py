"""Taking a concept out of the graph so that it can be brought back.

Owns the removed state: what an audit row keeps of a concept, its edges and its soft lock, and how
that is read again. Whoever removes a concept, a person or the system, plans it here; so no concept
goes without its audit row. The vector is not kept: it is computed again.

Invariant: `read_removed(removed_state(graph, row))` gives the very records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory.engine.errors import InvalidSnapshot
from memory.engine.graph import Graph
from memory.engine.mutations import (
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    Mutation,
    PutAudit,
)
from memory.engine.ports import IdSource
from memory.engine.showing import cut
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Json,
    NodeId,
    Status,
)


@dataclass(frozen=True, slots=True)
class RemovedState:
    """A concept as it was when it was taken out. `names` holds contents of neighbours, cut."""

    concept: Concept
    edges: tuple[Edge, ...]
    names: Mapping[NodeId, str]


def removed_state(graph: Graph, row: int) -> dict[str, Any]:
    """What an audit row keeps of a concept, as JSON; linear in its edges.

    Records stand as objects of their fields, instants in microseconds.
    """
    concept = graph.concept_at(row)
    edge_rows = [graph.edges.row_by_id[edge_id] for edge_id in graph.incident_edge_ids(row)]
    held = sorted(graph.edges_at(edge_rows))
    ends = {end for edge in held for end in (edge.source, edge.target)} - {concept.id}
    rows = {end: graph.row_of(end) for end in sorted(ends)}
    lock = graph.reservation(concept.id)
    return {
        "concept": concept._asdict(),
        "edges": [edge._asdict() for edge in held],
        "names": {end: cut(graph.content_at(at)) for end, at in rows.items() if at is not None},
        "reservation": None if lock is None else lock._asdict(),
    }


def read_removed(removed: Json) -> RemovedState:
    """The records of a removed state. Raises `InvalidSnapshot` for what is none."""
    try:
        concept, edges, names = removed["concept"], removed["edges"], removed["names"]
        return RemovedState(
            Concept(
                **{
                    **concept,
                    "concept_type": ConceptType(concept["concept_type"]),
                    "status": Status(concept["status"]),
                }
            ),
            tuple(Edge(**{**edge, "edge_type": EdgeType(edge["edge_type"])}) for edge in edges),
            dict(names),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSnapshot("the removed state of this audit row cannot be read") from error


def plan_removal(
    graph: Graph,
    row: int,
    *,
    kind: AuditKind,
    actor: str,
    reason: str | None,
    now: Micros,
    ids: IdSource,
    detail: Json = None,
    keeps_state: bool = True,
) -> list[Mutation]:
    """Remove a concept with its edges and its soft lock, and keep an audit row of it.

    Several concepts may be planned on one graph before any is removed: each row then keeps the
    edges between them. Without `keeps_state` nothing of the concept's text is kept.
    """
    concept = graph.concept_at(row)
    mutations: list[Mutation] = [DeleteEdge(edge_id) for edge_id in graph.incident_edge_ids(row)]
    if graph.reservation(concept.id) is not None:
        mutations.append(DeleteReservation(concept.id))
    mutations.append(DeleteConcept(concept.id))
    entry = AuditEntry(
        id=ids.next_ordered_id(now),
        kind=kind,
        node_id=concept.id,
        from_status=concept.status,
        to_status=None,
        occurred_at=now,
        actor=actor,
        reason=reason,
        detail=detail,
        removed=removed_state(graph, row) if keeps_state else None,
    )
    return [*mutations, PutAudit(entry)]
