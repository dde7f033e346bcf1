"""Taking a concept out: first what would go and what rests on it, then the removal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.engine.disappearance import plan_removal
from memory.engine.draft import Plan, excerpt, find_named
from memory.engine.errors import ConceptNotFound
from memory.engine.graph import Graph
from memory.engine.ports import IdSource
from memory.engine.requests import RetractRequest
from memory.engine.showing import shown_status
from memory.engine.times import Micros
from memory.engine.types import AuditKind, NodeId, Status

DEPENDENTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RetractResult:
    """The impact of a removal. `dependents` shows the first by id; `blast_radius` counts all."""

    target: NodeId
    content: str
    status: Status
    blast_radius: int
    dependents: tuple[str, ...]
    incident_edges: int
    dry_run: bool

    @property
    def text(self) -> str:
        verb = "would remove" if self.dry_run else "removed"
        line = (
            f"{verb} '{excerpt(self.content)}' [{shown_status(self.status)}] with "
            f"{self.incident_edges} edge(s); {self.blast_radius} concept(s) rest on it"
        )
        return "\n".join([line, *(f"  - {excerpt(name)}" for name in self.dependents)])

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text.partition("\n")[0],
            "target": self.target,
            "content": self.content,
            "canonization_status": str(self.status),
            "blast_radius": self.blast_radius,
            "dependents": list(self.dependents),
            "incident_edges": self.incident_edges,
            "dry_run": self.dry_run,
            "removed": not self.dry_run,
            "warnings": [],
        }


def find_concept(graph: Graph, text: str) -> int:
    """Row of the concept a text names: by id, by key, else by exact content (smallest id).

    Raises `ConceptNotFound`.
    """
    row = find_named(graph, text)
    if row is None:
        row = graph.find_by_content(text)
    if row is None:
        raise ConceptNotFound(f"no concept matching {excerpt(text)!r}")
    return row


def plan_retract(
    graph: Graph, request: RetractRequest, *, actor: str, now: Micros, ids: IdSource
) -> Plan[RetractResult]:
    """Plan a removal; with `dry_run` the plan has the impact and no mutations."""
    row = find_concept(graph, request.concept)
    concept = graph.concept_at(row)
    edge_count = len(graph.incident_edge_rows(row))
    result = RetractResult(
        target=concept.id,
        content=concept.content,
        status=concept.status,
        blast_radius=graph.blast_radius(row),
        dependents=tuple(
            graph.content_at(dependent)
            for dependent in graph.dependents(row, most=DEPENDENTS_SHOWN)
        ),
        incident_edges=edge_count,
        dry_run=request.dry_run,
    )
    if request.dry_run:
        return Plan((), result)
    mutations = plan_removal(
        graph,
        row,
        kind=AuditKind.RETRACT,
        actor=actor,
        reason=request.reason,
        now=now,
        ids=ids,
        detail={"blast_radius": result.blast_radius, "edges": edge_count},
    )
    return Plan(tuple(mutations), result)
