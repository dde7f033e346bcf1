"""What a recorded action adds: the act, what it made or changed, what it rests on.

Unlike a derive, an action does not derive the concepts it only touches, so it does not raise their
activity. Its own Causal and Dependency edges may close no cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory.engine.draft import (
    NO_VECTORS,
    Draft,
    Plan,
    Stamp,
    excerpt,
    needed_key,
    resolve_references,
)
from memory.engine.embedding import Vector
from memory.engine.errors import DependencyCycle, InvalidArgument
from memory.engine.graph import Graph
from memory.engine.requests import ActionRequest
from memory.engine.types import ConceptType, EdgeType, NodeId


@dataclass(frozen=True, slots=True)
class ActionResult:
    """`created` in order of encounter; `edges` counts the new ones, Derives left out."""

    interaction_id: NodeId
    action: str
    action_node: NodeId
    created: tuple[NodeId, ...]
    edges: int

    @property
    def text(self) -> str:
        return (
            f"recorded action '{excerpt(self.action)}': {len(self.created)} concept(s) created, "
            f"{self.edges} edge(s) added"
        )

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "interaction_id": self.interaction_id,
            "action_node": self.action_node,
            "created": list(self.created),
            "edges": self.edges,
            "warnings": [],
        }


def plan_action(
    graph: Graph,
    request: ActionRequest,
    stamp: Stamp,
    *,
    vectors: Mapping[str, Vector] = NO_VECTORS,
) -> Plan[ActionResult]:
    """Plan an action. Raises `DependencyCycle` or `UnresolvedReference`; then nothing is planned.

    A text met twice is one concept; the type asked for first wins. New concepts get their vectors,
    by text, and are found by meaning; they are linked to nothing by it.
    """
    against = resolve_references(graph, "against", request.against)
    draft = Draft(graph, stamp, request.action, vectors=vectors)
    created: list[NodeId] = []

    def resolve(field: str, text: str, concept_type: ConceptType) -> NodeId:
        key = needed_key(graph, field, text)
        node = draft.match(key)
        if node is None:
            node = draft.create(text, key, concept_type)
            created.append(node)
        return node

    def resolve_all(
        field: str, texts: tuple[str, ...], concept_type: ConceptType, edge_type: EdgeType
    ) -> list[tuple[NodeId, EdgeType]]:
        return [
            (resolve(f"{field}[{place}]", text, concept_type), edge_type)
            for place, text in enumerate(texts)
        ]

    action = resolve("action", request.action, ConceptType.RESOURCE)
    planned = [
        *resolve_all("produces", request.produces, ConceptType.RESOURCE, EdgeType.CAUSAL),
        *resolve_all("modifies", request.modifies, ConceptType.RESOURCE, EdgeType.CAUSAL),
        *resolve_all("depends_on", request.depends_on, ConceptType.ENTITY, EdgeType.DEPENDENCY),
    ]
    _check_acyclic(graph, request, action, {target for target, _ in planned})
    for field, target in against:
        if target == action:
            raise InvalidArgument(field, f"{field} may not name the action itself")
    edges = sum(draft.link(action, target, edge_type) for target, edge_type in planned)
    edges += sum(draft.link(action, target, EdgeType.CONTRADICTS) for _, target in against)
    return draft.plan(
        ActionResult(
            interaction_id=draft.interaction_id,
            action=request.action,
            action_node=action,
            created=tuple(created),
            edges=edges,
        )
    )


def _check_acyclic(
    graph: Graph, request: ActionRequest, action: NodeId, targets: Iterable[NodeId]
) -> None:
    """Refuse targets that are the action or lead back to it over Causal and Dependency edges.

    Every planned edge leaves the action, so it is enough to walk from the targets in the graph as
    it stands.
    """
    targets = set(targets)
    starts = [row for row in map(graph.row_of, targets) if row is not None]
    goal = graph.row_of(action)
    if action in targets or (
        goal is not None and graph.reaches(starts, goal, EdgeType.CAUSAL, EdgeType.DEPENDENCY)
    ):
        raise DependencyCycle(
            f"action {excerpt(request.action)!r} would come to depend on itself through what it "
            "produces, modifies or depends on",
            field="action",
        )
