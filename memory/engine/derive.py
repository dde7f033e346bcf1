"""What a derive adds to the graph: concepts, their hierarchy, their citations.

Everything is validated before the first mutation is drafted; a refused derive leaves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.engine.draft import Draft, Plan, Stamp, excerpt, resolve_reference
from memory.engine.errors import InvalidArgument, RepeatedObservation, SecondParent
from memory.engine.graph import Graph
from memory.engine.requests import ConceptInput, DeriveRequest
from memory.engine.text import canonical_key
from memory.engine.types import ConceptType, EdgeType, NodeId


@dataclass(frozen=True, slots=True)
class DeriveResult:
    """`created` and `matched` hold one entry per resolution, so an id can repeat in `matched`."""

    interaction_id: NodeId
    given: int
    created: tuple[NodeId, ...]
    matched: tuple[NodeId, ...]
    reinforced: int

    @property
    def text(self) -> str:
        return (
            f"derived {self.given} concept(s): {len(self.created)} created, "
            f"{len(self.matched)} matched existing"
        )

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "interaction_id": self.interaction_id,
            "created": list(self.created),
            "matched": list(self.matched),
            "reinforced": self.reinforced,
            "warnings": [],
        }


@dataclass(frozen=True, slots=True)
class _Citations:
    """The existing concepts one concept of the call names, by id."""

    depends_on: tuple[NodeId, ...]
    against: tuple[NodeId, ...]


def plan_derive(
    graph: Graph, request: DeriveRequest, stamp: Stamp, *, co_occurrence_max: int
) -> Plan[DeriveResult]:
    """Plan a derive under the canonical strategy.

    `co_occurrence_max` bounds the CoOccurrence edges of one call. Raises `RepeatedObservation`,
    `SecondParent`, `UnresolvedReference` or `InvalidArgument`, and then nothing is planned.
    """
    _check_observations(graph, request)
    _check_parents(graph, request)
    citations = [_resolve_citations(graph, place, given) for place, given in _numbered(request)]
    draft = Draft(graph, stamp, "; ".join(given.content for given in request.concepts))
    counts = _Resolutions()
    nodes: dict[NodeId, None] = {}
    resolved: dict[str, NodeId] = {}
    for given, cited in zip(request.concepts, citations, strict=True):
        # The first of equal texts decides the type; the others add only their citations.
        if given.content not in resolved:
            node = _resolve(draft, given.content, given.concept_type, counts)
            resolved[given.content] = node
            nodes[node] = None
        _cite(draft, resolved[given.content], cited)
    _link_co_occurring(draft, list(nodes), co_occurrence_max)
    for parent, child in request.parent_of:
        parent_id = _resolve(draft, parent, ConceptType.ENTITY, counts)
        child_id = _resolve(draft, child, ConceptType.ENTITY, counts)
        draft.link(parent_id, child_id, EdgeType.HIERARCHICAL)
    return draft.plan(
        DeriveResult(
            interaction_id=draft.interaction_id,
            given=len(request.concepts),
            created=tuple(counts.created),
            matched=tuple(counts.matched),
            reinforced=draft.reinforced,
        )
    )


class _Resolutions:
    def __init__(self) -> None:
        self.created: list[NodeId] = []
        self.matched: list[NodeId] = []


def _numbered(request: DeriveRequest) -> list[tuple[int, ConceptInput]]:
    return list(enumerate(request.concepts))


def _resolve(draft: Draft, content: str, concept_type: ConceptType, counts: _Resolutions) -> NodeId:
    """Match or create; either way this interaction derives the concept."""
    key = draft.key_of(content)
    node = draft.match(key)
    if node is None:
        node = draft.create(content, key, concept_type)
        counts.created.append(node)
    else:
        draft.derive(node)
        counts.matched.append(node)
    return node


def _cite(draft: Draft, node: NodeId, cited: _Citations) -> None:
    for target in cited.depends_on:
        _check_other(node, target, "depends_on")
        draft.link(node, target, EdgeType.DEPENDENCY)
    for target in cited.against:
        _check_other(node, target, "against")
        draft.link(node, target, EdgeType.CONTRADICTS)


def _check_other(node: NodeId, target: NodeId, field: str) -> None:
    if node == target:
        raise InvalidArgument(field, f"{field} may not name the concept itself")


def _link_co_occurring(draft: Draft, nodes: list[NodeId], most: int) -> None:
    """Join the call's distinct nodes pairwise, in call order, up to a number of edges."""
    written = 0
    for place, first in enumerate(nodes):
        for second in nodes[place + 1 :]:
            if written == most:
                return
            draft.link_either_way(first, second, EdgeType.CO_OCCURRENCE)
            written += 1


def _check_observations(graph: Graph, request: DeriveRequest) -> None:
    """An observation said twice under one key would split one thing in two."""
    keys: dict[str, str] = {}
    for place, given in _numbered(request):
        if given.concept_type is not ConceptType.OBSERVATION:
            continue
        key = canonical_key(given.content, graph.synonyms)
        if graph.find_by_key(key) is not None:
            continue  # it matches a concept of another type
        if graph.observation_rows(key) or keys.setdefault(key, given.content) != given.content:
            raise RepeatedObservation(
                f"concepts[{place}] repeats an observation: {excerpt(given.content)!r}; "
                "cite it instead of writing it again",
                field=f"concepts[{place}].content",
            )


def _check_parents(graph: Graph, request: DeriveRequest) -> None:
    """Each child keeps one parent, in the graph and within the call."""
    planned: dict[str, str] = {}
    for place, (parent, child) in enumerate(request.parent_of):
        parent_key = canonical_key(parent, graph.synonyms)
        child_key = canonical_key(child, graph.synonyms)
        field = f"parent_of[{place}]"
        if parent_key == child_key:
            raise InvalidArgument(field, f"{field}: parent and child name the same concept")
        held = {planned.setdefault(child_key, parent_key)}
        row = graph.find_by_key(child_key)
        if row is not None:
            held.update(graph.key_at(above) for above in graph.in_rows(row, EdgeType.HIERARCHICAL))
        if held != {parent_key}:
            raise SecondParent(
                f"{field}: {excerpt(child)!r} has another parent already", field=field
            )


def _resolve_citations(graph: Graph, place: int, given: ConceptInput) -> _Citations:
    def resolve(name: str, texts: tuple[str, ...]) -> tuple[NodeId, ...]:
        return tuple(
            resolve_reference(graph, f"concepts[{place}].{name}[{at}]", text)
            for at, text in enumerate(texts)
        )

    return _Citations(resolve("depends_on", given.depends_on), resolve("against", given.against))
