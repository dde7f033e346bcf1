"""What a derive adds to the graph: concepts, their hierarchy, their citations.

Everything is validated before the first mutation is drafted; a refused derive leaves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, TypeAlias

from memory.engine.draft import (
    NO_VECTORS,
    Draft,
    Plan,
    Stamp,
    excerpt,
    needed_key,
    resolve_references,
)
from memory.engine.errors import InvalidArgument, RepeatedObservation, SecondParent
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings, Outcome, link_by_meaning
from memory.engine.requests import ConceptInput, DeriveRequest
from memory.engine.types import ConceptType, EdgeType, NodeId


@dataclass(frozen=True, slots=True)
class DeriveResult:
    """`created` and `matched` hold one entry per resolution, so an id can repeat in `matched`.

    `meaning` is what matching by meaning added; None in a session that matches by words alone.
    """

    interaction_id: NodeId
    given: int
    created: tuple[NodeId, ...]
    matched: tuple[NodeId, ...]
    reinforced: int
    meaning: Outcome | None = None

    @property
    def text(self) -> str:
        lines = [self.summary]
        for candidate in self.meaning.replacements if self.meaning else ():
            lines.append(f"  - may replace '{candidate.excerpt}' (id {candidate.id})")
        return "\n".join(lines)

    @property
    def summary(self) -> str:
        alike = f", {len(self.meaning.merged)} linked by meaning" if self.meaning else ""
        return (
            f"derived {self.given} concept(s): {len(self.created)} created, "
            f"{len(self.matched)} matched existing{alike}"
        )

    def as_wire(self) -> dict[str, Any]:
        wire = self._counts_as_wire()
        if self.meaning is not None:
            wire["semantic_merged"] = list(self.meaning.merged)
            wire["replacement_candidates"] = [
                candidate.as_wire() for candidate in self.meaning.replacements
            ]
        return wire

    def _counts_as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            "interaction_id": self.interaction_id,
            "created": list(self.created),
            "matched": list(self.matched),
            "reinforced": self.reinforced,
            "warnings": [],
        }


def plan_derive(
    graph: Graph,
    request: DeriveRequest,
    stamp: Stamp,
    *,
    co_occurrence_max: int,
    meanings: Meanings | None = None,
) -> Plan[DeriveResult]:
    """Plan a derive under the session's strategy.

    `co_occurrence_max` bounds the CoOccurrence edges of one call. `meanings` holds what could be
    embedded of its texts. Raises `RepeatedObservation` and `SecondParent` (the canonical strategy
    alone), `UnresolvedReference` or `InvalidArgument`, and then nothing is planned.
    """
    key_by_text = _needed_keys(graph, request)
    if not graph.is_hybrid:
        _check_observations(graph, request, key_by_text)
    _check_pairs(request, key_by_text)
    if not graph.is_hybrid:
        _check_parents(graph, request, key_by_text)
    cited = [_resolve_citations(graph, place, given) for place, given in _numbered(request)]
    draft = Draft(
        graph,
        stamp,
        "; ".join(given.content for given in request.concepts),
        vectors=meanings.vectors if meanings else NO_VECTORS,
    )
    resolutions = _Resolutions(draft, key_by_text, matches_observations=graph.is_hybrid)
    node_by_text: dict[str, NodeId] = {}
    for given, citations in zip(request.concepts, cited, strict=True):
        # The first of equal texts decides the type; the others add only their citations.
        node = node_by_text.get(given.content)
        if node is None:
            node = resolutions.resolve(given.content, given.concept_type)
            node_by_text[given.content] = node
        _cite(draft, node, citations)
    _link_co_occurring(draft, list(dict.fromkeys(node_by_text.values())), co_occurrence_max)
    new_by_text = dict(resolutions.created_by_text)
    for parent, child in request.parent_of:
        parent_id = resolutions.resolve(parent, ConceptType.ENTITY)
        child_id = resolutions.resolve(child, ConceptType.ENTITY)
        draft.link(parent_id, child_id, EdgeType.HIERARCHICAL)
    meaning = Outcome() if graph.is_hybrid else None
    if meanings is not None and graph.is_hybrid:
        # After every other edge: what the call itself says of a pair comes before what is guessed.
        written = {*resolutions.created, *resolutions.matched}
        meaning = link_by_meaning(draft, graph, meanings, new_by_text, written)
    return draft.plan(
        DeriveResult(
            interaction_id=draft.interaction_id,
            given=len(request.concepts),
            created=tuple(resolutions.created),
            matched=tuple(resolutions.matched),
            reinforced=draft.reinforced,
            meaning=meaning,
        )
    )


class _Resolutions:
    """Texts turned into concepts of one draft, and the count of how."""

    def __init__(
        self, draft: Draft, key_by_text: Mapping[str, str], *, matches_observations: bool
    ) -> None:
        self._draft = draft
        self._key_by_text = key_by_text
        self._matches_observations = matches_observations
        self.created: list[NodeId] = []
        self.created_by_text: dict[str, NodeId] = {}
        self.matched: list[NodeId] = []

    def resolve(self, content: str, concept_type: ConceptType) -> NodeId:
        """Match or create; either way this interaction derives the concept."""
        key = self._key_by_text[content]
        node = self._draft.match(key)
        if node is None and self._matches_observations and concept_type is ConceptType.OBSERVATION:
            node = self._draft.match_observation(content, key)
        if node is None:
            node = self._draft.create(content, key, concept_type)
            self.created.append(node)
            self.created_by_text[content] = node
        else:
            self._draft.derive(node)
            self.matched.append(node)
        return node


def _numbered(request: DeriveRequest) -> list[tuple[int, ConceptInput]]:
    return list(enumerate(request.concepts))


def _needed_keys(graph: Graph, request: DeriveRequest) -> dict[str, str]:
    """The key of every text the call writes; computed once, for keys cost most of a plan."""
    fields = {given.content: f"concepts[{place}].content" for place, given in _numbered(request)}
    for place, (parent, child) in enumerate(request.parent_of):
        fields.setdefault(parent, f"parent_of[{place}].parent")
        fields.setdefault(child, f"parent_of[{place}].child")
    return {text: needed_key(graph, field, text) for text, field in fields.items()}


def _check_observations(
    graph: Graph, request: DeriveRequest, key_by_text: Mapping[str, str]
) -> None:
    """An observation said twice under one key would split one thing in two.

    One whose key a concept of another type holds, or takes earlier in the call, matches that.
    """
    seen: set[str] = set()
    matchable: set[str] = set()
    observed: set[str] = set()
    for place, given in _numbered(request):
        if given.content in seen:
            continue
        seen.add(given.content)
        key = key_by_text[given.content]
        if graph.find_by_key(key) is not None or key in matchable:
            continue
        if given.concept_type is not ConceptType.OBSERVATION:
            matchable.add(key)
            continue
        if graph.observation_rows(key) or key in observed:
            raise RepeatedObservation(
                f"concepts[{place}] repeats an observation: {excerpt(given.content)!r}; "
                "cite it instead of writing it again",
                field=f"concepts[{place}].content",
            )
        observed.add(key)


def _check_pairs(request: DeriveRequest, key_by_text: Mapping[str, str]) -> None:
    for place, (parent, child) in enumerate(request.parent_of):
        if key_by_text[parent] == key_by_text[child]:
            field = f"parent_of[{place}]"
            raise InvalidArgument(field, f"{field}: parent and child name the same concept")


def _check_parents(graph: Graph, request: DeriveRequest, key_by_text: Mapping[str, str]) -> None:
    """Each child keeps one parent, in the graph and within the call."""
    planned: dict[str, str] = {}
    for place, (parent, child) in enumerate(request.parent_of):
        parent_key, child_key = key_by_text[parent], key_by_text[child]
        field = f"parent_of[{place}]"
        held = {planned.setdefault(child_key, parent_key)}
        row = graph.find_by_key(child_key)
        if row is not None:
            held.update(graph.key_at(above) for above in graph.in_rows(row, EdgeType.HIERARCHICAL))
        if held != {parent_key}:
            raise SecondParent(
                f"{field}: {excerpt(child)!r} has another parent already", field=field
            )


_Citation: TypeAlias = tuple[str, NodeId, EdgeType]
"""Where the request names an existing concept, which one, and how the two are to be joined."""


def _resolve_citations(graph: Graph, place: int, given: ConceptInput) -> list[_Citation]:
    cited: list[_Citation] = []
    for name, texts, edge_type in (
        ("depends_on", given.depends_on, EdgeType.DEPENDENCY),
        ("against", given.against, EdgeType.CONTRADICTS),
    ):
        if texts:
            targets = resolve_references(graph, f"concepts[{place}].{name}", texts)
            cited += [(field, target, edge_type) for field, target in targets]
    return cited


def _cite(draft: Draft, node: NodeId, cited: list[_Citation]) -> None:
    for field, target, edge_type in cited:
        if node == target:
            raise InvalidArgument(field, f"{field} may not name the concept itself")
        draft.link(node, target, edge_type)


def _link_co_occurring(draft: Draft, nodes: list[NodeId], most: int) -> None:
    """Join the call's distinct nodes pairwise, in call order, up to a number of edges."""
    for first, second in islice(combinations(nodes, 2), most):
        draft.link_either_way(first, second, EdgeType.CO_OCCURRENCE)
