"""A write in the making: what it would add, seen through what the graph holds already.

A `Draft` collects mutations and never changes the graph; throwing it away leaves no trace. Every
plan module writes through it, so the rules of stamping, deriving and reinforcing stand once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from memory.engine.embedding import Vector, vector_bytes
from memory.engine.errors import InvalidArgument, UnresolvedReference
from memory.engine.graph import Graph
from memory.engine.limits import COUNTER_MAX, WEIGHT_MAX
from memory.engine.mutations import (
    DeleteEdge,
    Mutation,
    PutConcept,
    PutEdge,
    PutInteraction,
    PutVector,
)
from memory.engine.ports import IdSource
from memory.engine.rules import EDGES
from memory.engine.text import canonical_key, normalised
from memory.engine.times import Micros
from memory.engine.types import Concept, ConceptType, Edge, EdgeType, Interaction, NodeId

R = TypeVar("R")

NO_VECTORS: Final[Mapping[str, Vector]] = MappingProxyType({})
_SETTLING: Final = frozenset([EdgeType.CONTRADICTS, EdgeType.DEPENDENCY])


@dataclass(frozen=True, slots=True)
class Plan(Generic[R]):
    """What a write would do: mutations in log order, and what its caller is told.

    No mutations means that there is nothing to write.
    """

    mutations: tuple[Mutation, ...]
    result: R


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who writes and when. `ids` names the new records.

    `event_time` is the time the write is about, as told; it dates evidence if `is_backdated`.
    """

    agent_id: str
    now: Micros
    ids: IdSource
    event_time: Micros | None = None
    is_backdated: bool = False


class Draft:
    """One interaction and what it writes.

    All records carry the interaction's `created_at`, which is `now` or one microsecond after the
    interaction before it, whichever is later: time in a session strictly increases.

    `vectors`, by text, are of the session's contract; a new concept whose text has none is stored
    without and gets its vector later.
    """

    def __init__(
        self,
        graph: Graph,
        stamp: Stamp,
        prompt_text: str | None,
        *,
        vectors: Mapping[str, Vector] = NO_VECTORS,
    ) -> None:
        tail = graph.tail
        self._graph = graph
        self._stamp = stamp
        self._vectors = vectors
        self._created: dict[str, NodeId] = {}  # by key, all types but Observation
        self._observed: dict[str, NodeId] = {}  # by normalised content
        self._types: dict[NodeId, ConceptType] = {}  # of what this draft creates
        self._edges: set[tuple[NodeId, NodeId, EdgeType]] = set()
        self.created_at = stamp.now if tail is None else max(stamp.now, tail.created_at + 1)
        self.interaction_id = stamp.ids.next_id()
        self.reinforced = 0
        self.mutations: list[Mutation] = [
            PutInteraction(
                Interaction(
                    id=self.interaction_id,
                    agent_id=stamp.agent_id,
                    prompt_text=prompt_text,
                    previous_id=None if tail is None else tail.id,
                    created_at=self.created_at,
                    event_time=stamp.event_time,
                    is_backdated=stamp.is_backdated,
                )
            )
        ]
        if tail is not None:
            self.link(self.interaction_id, tail.id, EdgeType.TEMPORAL)

    def match(self, key: str) -> NodeId | None:
        """The concept a key names: written by this draft, or held. Observations never match."""
        planned = self._created.get(key)
        if planned is not None:
            return planned
        row = self._graph.find_by_key(key)
        return None if row is None else self._graph.id_at(row)

    def match_observation(self, content: str, key: str) -> NodeId | None:
        """The observation that says the same, white space and Unicode form aside."""
        wanted = normalised(content)
        planned = self._observed.get(wanted)
        if planned is not None:
            return planned
        for row in self._graph.observation_rows(key):
            if normalised(self._graph.content_at(row)) == wanted:
                return self._graph.id_at(row)
        return None

    def created_type(self, concept_id: NodeId) -> ConceptType | None:
        """The type of a concept that this draft creates."""
        return self._types.get(concept_id)

    @property
    def claimed_at(self) -> Micros:
        """The time this write is about, never later than it is written."""
        about = self._stamp.event_time
        return self.created_at if about is None else min(about, self.created_at)

    def has_edge(self, source: NodeId, target: NodeId, edge_type: EdgeType) -> bool:
        """Whether the edge is drafted, or held."""
        return (source, target, edge_type) in self._edges or (
            self._graph.edge_between(source, target, edge_type) is not None
        )

    def create(
        self,
        content: str,
        key: str,
        concept_type: ConceptType,
        *,
        chunk_group_id: str | None = None,
        last_demotion_time: Micros | None = None,
    ) -> NodeId:
        """A new concept with its vector, if there is one, and its Derives edge."""
        concept_id = self._stamp.ids.next_id()
        self.mutations.append(
            PutConcept(
                Concept(
                    id=concept_id,
                    content=content,
                    canonical_key=key,
                    concept_type=concept_type,
                    origin_interaction=self.interaction_id,
                    origin_agent=self._stamp.agent_id,
                    created_at=self.created_at,
                    last_demotion_time=last_demotion_time,
                    chunk_group_id=chunk_group_id,
                )
            )
        )
        self._types[concept_id] = concept_type
        if concept_type is not ConceptType.OBSERVATION:
            self._created[key] = concept_id
        elif self._graph.is_hybrid:
            self._observed.setdefault(normalised(content), concept_id)
        vector, contract = self._vectors.get(content), self._graph.contract
        if vector is not None and contract is not None:
            self.mutations.append(PutVector(concept_id, contract.key, vector_bytes(vector)))
        self.derive(concept_id)
        return concept_id

    def derive(self, concept_id: NodeId) -> None:
        """Note that this interaction wrote the concept; once per draft."""
        self.link(self.interaction_id, concept_id, EdgeType.DERIVES)

    def link(
        self,
        source: NodeId,
        target: NodeId,
        edge_type: EdgeType,
        *,
        weight: float | None = None,
    ) -> bool:
        """Write the edge, or reinforce the one that stands; True if it is new.

        A natural key is written once per draft. Reinforcing keeps id, dates of birth and first
        writer: weight + 1 up to 10, one write more, last written now by this agent. A new edge has
        the first weight of its type unless another is given. A citation settles what stands
        between two concepts: a suspicion that one supersedes the other goes.
        """
        natural_key = (source, target, edge_type)
        if natural_key in self._edges:
            return False
        self._edges.add(natural_key)
        if edge_type in _SETTLING:
            self._drop_suspicion(source, target)
        standing = self._graph.edge_between(source, target, edge_type)
        agent_id = self._stamp.agent_id
        if standing is None:
            edge = Edge(
                id=self._stamp.ids.next_id(),
                source=source,
                target=target,
                edge_type=edge_type,
                weight=EDGES[edge_type].first_weight if weight is None else weight,
                reinforcements=1,
                created_at=self.created_at,
                last_reinforced=self.created_at,
                created_by=agent_id,
                reinforced_by=agent_id,
                event_time=self._stamp.event_time if self._stamp.is_backdated else None,
            )
        else:
            self.reinforced += 1
            edge = standing._replace(
                weight=min(standing.weight + 1.0, WEIGHT_MAX),
                reinforcements=min(standing.reinforcements + 1, COUNTER_MAX),
                last_reinforced=self.created_at,
                reinforced_by=agent_id,
            )
        self.mutations.append(PutEdge(edge))
        return standing is None

    def link_either_way(self, first: NodeId, second: NodeId, edge_type: EdgeType) -> bool:
        """`link` for a symmetric type: the direction that stands is the one reinforced."""
        if (
            self._graph.edge_between(first, second, edge_type) is None
            and self._graph.edge_between(second, first, edge_type) is not None
        ):
            first, second = second, first
        return self.link(first, second, edge_type)

    def _drop_suspicion(self, first: NodeId, second: NodeId) -> None:
        for newer, older in ((first, second), (second, first)):
            held = self._graph.edge_between(newer, older, EdgeType.SUSPECTED_SUPERSEDES)
            if held is not None:
                self.mutations.append(DeleteEdge(held.id))

    def plan(self, result: R) -> Plan[R]:
        return Plan(tuple(self.mutations), result)


def find_named(graph: Graph, text: str) -> int | None:
    """Row of the concept a text names by its id or its key; observations only by id.

    Text without a key names nothing: an observation of stop words alone has an empty key too, and
    every such text would find it.
    """
    row = graph.row_of(text.strip().lower())
    if row is None:
        key = canonical_key(text, graph.synonyms)
        row = graph.find_by_key(key) if key else None
    return row


def needed_key(graph: Graph, field: str, text: str) -> str:
    """The canonical key of text that must have one, under the session's synonyms.

    Requests are checked without synonyms; a session from elsewhere may map a word to nothing.
    """
    key = canonical_key(text, graph.synonyms)
    if not key:
        raise InvalidArgument(field, f"{field} must contain a word that is not a stop word")
    return key


def resolve_reference(graph: Graph, field: str, text: str) -> NodeId:
    """The one existing concept a citation names: by id, by key, or a single observation's key.

    Raises `UnresolvedReference` when none or several match; a reference never creates anything.
    """
    row = find_named(graph, text)
    if row is not None:
        return graph.id_at(row)
    key = canonical_key(text, graph.synonyms)
    observations = graph.observation_rows(key) if key else []
    if len(observations) == 1:
        return graph.id_at(observations[0])
    found = "no concept" if not observations else f"{len(observations)} observations"
    raise UnresolvedReference(
        f"{field} names {found} of this session: {excerpt(text)!r}; "
        "cite one existing concept, or derive it first",
        field=field,
    )


def resolve_references(
    graph: Graph, field: str, texts: tuple[str, ...]
) -> list[tuple[str, NodeId]]:
    """`resolve_reference` for each text of a list, with the place that named it."""
    places = [f"{field}[{place}]" for place in range(len(texts))]
    return [
        (place, resolve_reference(graph, place, text))
        for place, text in zip(places, texts, strict=True)
    ]


def excerpt(text: str, length: int = 80) -> str:
    """The start of a text, on one line, for messages."""
    # So many words are longer than the line, whatever follows: the rest need not be taken apart.
    line = " ".join(text.split(None, length))
    return line if len(line) <= length else line[: length - 1] + "…"
