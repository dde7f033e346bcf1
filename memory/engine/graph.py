"""The graph of one session in RAM.

Owns: nodes and edges as columns, the adjacency, the natural keys, the one interaction chain, the
keyword index and the counters that scoring and blast radius read. `apply` is its only mutator and
takes the same records the store writes; so replaying a session's log gives an equal graph. It
refuses anything that would break an invariant (`InvalidSnapshot`), before changing anything.

Not here: policy. What a derive or an action adds is planned by the modules of those names.

Rows are dense integers, reused after a removal; ids are what leaves the graph. The counters kept by
each write, per concept: `degree` (incident edges but Contradicts and SuspectedSupersedes),
`bonus_milli` (sum of the edge types' score bonus, in thousandths), `derivations` (incoming Derives
edges) and `dependents` (distinct concepts that rest on it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memory.engine.columns import NO_TIME, Columns
from memory.engine.errors import InvalidSnapshot
from memory.engine.inverted_index import InvertedIndex
from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    Mutation,
    PutConcept,
    PutEdge,
    PutInteraction,
    PutReservation,
    PutSynonym,
    SetRootGoal,
)
from memory.engine.rules import (
    EDGE_TYPE_CODE,
    EDGE_TYPES,
    EDGES,
    LEGAL_TRANSITIONS,
    STATUS_CODE,
    STATUSES,
    TYPE_CODE,
    TYPES,
)
from memory.engine.text import index_tokens
from memory.engine.times import Micros
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Json,
    NodeId,
    Reservation,
    Status,
    Transition,
)

CONCEPT_COLUMNS: Final = {
    "type": "int8",
    "status": "int8",
    "created_at": "int64",
    "last_accessed": "int64",
    "access_count": "int64",
    "gc_survived": "int64",
    "blast_radius": "int64",  # stamped; -1 for none
    "last_demotion_time": "int64",
    "origin": "int32",  # interaction row
    "degree": "int32",
    "bonus_milli": "int32",  # thousandths: a float sum would drift under removals
    "derivations": "int32",
    "dependents": "int32",
}
EDGE_COLUMNS: Final = {
    "type": "int8",
    "source": "int32",
    "target": "int32",
    "weight": "float64",
    "reinforcements": "int64",
    "created_at": "int64",
    "last_reinforced": "int64",
    "event_time": "int64",
}
_DERIVES = EDGE_TYPE_CODE[EdgeType.DERIVES]
_TEMPORAL = EDGE_TYPE_CODE[EdgeType.TEMPORAL]
_DEPENDENCY = EDGE_TYPE_CODE[EdgeType.DEPENDENCY]
_HIERARCHICAL = EDGE_TYPE_CODE[EdgeType.HIERARCHICAL]


def pack_key(type_code: int, source_row: int, target_row: int) -> int:
    """The natural key of an edge as one integer: cheap to hash, 5 million of them fit in RAM."""
    return (type_code << 60) | (source_row << 30) | target_row


def _time(value: Micros | None) -> Micros:
    return NO_TIME if value is None else value


def _maybe(value: int) -> Micros | None:
    return None if value == NO_TIME else value


class Graph:
    """A session's nodes and edges; see the module docstring for what it keeps true."""

    def __init__(self, session_id: str, created_at: Micros) -> None:
        self.session_id = session_id
        self.created_at = created_at
        self.root_goal: Json = None
        self.epoch = 0
        self.index = InvertedIndex()
        self.synonyms: dict[str, str] = {}
        self.transitions: list[Transition] = []
        self._transition_ids: set[NodeId] = set()
        self._reservations: dict[NodeId, Reservation] = {}
        # interactions: append-only, row order is chain order
        self._interactions: list[Interaction] = []
        self._interaction_rows: dict[NodeId, int] = {}
        self._interaction_edges: list[list[int]] = []  # Derives out, Temporal both ways
        self._originating: list[list[int]] = []  # concept rows by origin interaction row
        # concepts
        self.concepts = Columns(CONCEPT_COLUMNS)
        self._ids: list[NodeId] = []
        self._contents: list[str] = []
        self._keys: list[str] = []
        self._origin_agents: list[str] = []
        self._chunk_groups: list[str | None] = []
        self._rows: dict[NodeId, int] = {}
        self._row_by_key: dict[str, int] = {}  # all types but Observation: unique
        self._observations: dict[str, list[int]] = {}
        self._out: list[list[int]] = []  # edge rows
        self._in: list[list[int]] = []
        # edges
        self.edges = Columns(EDGE_COLUMNS)
        self._edge_ids: list[NodeId] = []
        self._created_by: list[str] = []
        self._reinforced_by: list[str] = []
        self._edge_rows: dict[NodeId, int] = {}
        self._natural_keys: dict[int, int] = {}

    # -- reading: counts and nodes ----------------------------------------------------------------

    @property
    def concept_count(self) -> int:
        return len(self._rows)

    @property
    def edge_count(self) -> int:
        return len(self._edge_rows)

    @property
    def interaction_count(self) -> int:
        return len(self._interactions)

    @property
    def tail(self) -> Interaction | None:
        """The newest interaction."""
        return self._interactions[-1] if self._interactions else None

    def interactions(self) -> tuple[Interaction, ...]:
        """All interactions in chain order."""
        return tuple(self._interactions)

    def interaction(self, node_id: NodeId) -> Interaction | None:
        row = self._interaction_rows.get(node_id)
        return None if row is None else self._interactions[row]

    def newest_interactions(self, count: int) -> list[Interaction]:
        """Up to `count` interactions, newest first."""
        return self._interactions[: -count - 1 : -1]

    def rows_originating(self, interaction_id: NodeId) -> list[int]:
        """Rows of the concepts an interaction was the first to write."""
        row = self._interaction_rows.get(interaction_id)
        return [] if row is None else list(self._originating[row])

    def has_node(self, node_id: NodeId) -> bool:
        return node_id in self._rows or node_id in self._interaction_rows

    def row_of(self, concept_id: NodeId) -> int | None:
        return self._rows.get(concept_id)

    def id_at(self, row: int) -> NodeId:
        return self._ids[row]

    def content_at(self, row: int) -> str:
        return self._contents[row]

    def key_at(self, row: int) -> str:
        return self._keys[row]

    def type_at(self, row: int) -> ConceptType:
        kind: ConceptType = TYPES[self.concepts["type"][row]]
        return kind

    def status_at(self, row: int) -> Status:
        status: Status = STATUSES[self.concepts["status"][row]]
        return status

    def concept_rows(self) -> list[int]:
        """Rows of all concepts, ascending."""
        rows: list[int] = self.concepts.live_rows().tolist()
        return rows

    def concept(self, concept_id: NodeId) -> Concept | None:
        row = self._rows.get(concept_id)
        return None if row is None else self.concept_at(row)

    def concept_at(self, row: int) -> Concept:
        """The record of a live row."""
        columns = self.concepts.arrays
        radius = int(columns["blast_radius"][row])
        return Concept(
            id=self._ids[row],
            content=self._contents[row],
            canonical_key=self._keys[row],
            concept_type=TYPES[columns["type"][row]],
            origin_interaction=self._interactions[columns["origin"][row]].id,
            origin_agent=self._origin_agents[row],
            created_at=int(columns["created_at"][row]),
            access_count=int(columns["access_count"][row]),
            last_accessed=_maybe(int(columns["last_accessed"][row])),
            gc_survived=int(columns["gc_survived"][row]),
            status=STATUSES[columns["status"][row]],
            blast_radius=None if radius < 0 else radius,
            last_demotion_time=_maybe(int(columns["last_demotion_time"][row])),
            chunk_group_id=self._chunk_groups[row],
        )

    def find_by_key(self, canonical_key: str) -> int | None:
        """Row of the concept (of any type but Observation) with that key."""
        return self._row_by_key.get(canonical_key)

    def observation_rows(self, canonical_key: str) -> list[int]:
        """Rows of the observations with that key, by id."""
        return sorted(self._observations.get(canonical_key, ()), key=self._ids.__getitem__)

    def find_by_content(self, content: str) -> int | None:
        """Row of the concept with exactly that content; the smallest id if there are several."""
        found = [row for row, text in enumerate(self._contents) if text == content]
        live = [row for row in found if self.concepts.live[row]]
        return min(live, key=self._ids.__getitem__, default=None)

    # -- reading: edges ---------------------------------------------------------------------------

    def edge(self, edge_id: NodeId) -> Edge | None:
        row = self._edge_rows.get(edge_id)
        return None if row is None else self._edge_at(row)

    def edge_between(self, source: NodeId, target: NodeId, edge_type: EdgeType) -> Edge | None:
        """The edge with that natural key."""
        ends = self._endpoint_rows(source, target, edge_type)
        if ends is None:
            return None
        row = self._natural_keys.get(pack_key(EDGE_TYPE_CODE[edge_type], *ends))
        return None if row is None else self._edge_at(row)

    def out_rows(self, row: int, edge_type: EdgeType) -> list[int]:
        """Rows of the concepts this concept points at by edges of that type."""
        wanted = EDGE_TYPE_CODE[edge_type]
        types, targets = self.edges["type"], self.edges["target"]
        return [int(targets[edge]) for edge in self._out[row] if types[edge] == wanted]

    def in_rows(self, row: int, edge_type: EdgeType) -> list[int]:
        """Rows of the concepts that point at this one by edges of that (concept) type."""
        assert edge_type not in (EdgeType.DERIVES, EdgeType.TEMPORAL)
        wanted = EDGE_TYPE_CODE[edge_type]
        types, sources = self.edges["type"], self.edges["source"]
        return [int(sources[edge]) for edge in self._in[row] if types[edge] == wanted]

    def out_edges(self, node_id: NodeId) -> list[Edge]:
        """Edges that leave a node of either kind."""
        return [edge for edge in self._incident(node_id) if edge.source == node_id]

    def in_edges(self, node_id: NodeId) -> list[Edge]:
        """Edges that arrive at a node of either kind."""
        return [edge for edge in self._incident(node_id) if edge.target == node_id]

    def all_edges(self) -> Iterator[Edge]:
        """Every edge, in row order."""
        for row in self.edges.live_rows().tolist():
            yield self._edge_at(row)

    def dependents(self, row: int) -> list[int]:
        """Rows of the concepts that rest on this one, by id, each once, itself excluded.

        A concept rests on another when it has a Dependency edge to it or is its Hierarchical child.
        Every question about dependence is answered here.
        """
        rows = set(self.in_rows(row, EdgeType.DEPENDENCY))
        rows.update(self.out_rows(row, EdgeType.HIERARCHICAL))
        rows.discard(row)
        return sorted(rows, key=self._ids.__getitem__)

    def blast_radius(self, row: int) -> int:
        """How many concepts rest on this one: the kept count of `dependents`."""
        return int(self.concepts["dependents"][row])

    def reservation(self, node_id: NodeId) -> Reservation | None:
        """The soft lock on a node, live or expired."""
        return self._reservations.get(node_id)

    def reservations(self) -> list[Reservation]:
        return sorted(self._reservations.values())

    def _edge_at(self, row: int) -> Edge:
        columns = self.edges.arrays
        edge_type = EDGE_TYPES[columns["type"][row]]
        source, target = int(columns["source"][row]), int(columns["target"][row])
        rule = EDGES[edge_type]
        return Edge(
            id=self._edge_ids[row],
            source=self._interactions[source].id if rule.from_interaction else self._ids[source],
            target=self._interactions[target].id if rule.to_interaction else self._ids[target],
            edge_type=edge_type,
            weight=float(columns["weight"][row]),
            reinforcements=int(columns["reinforcements"][row]),
            created_at=int(columns["created_at"][row]),
            last_reinforced=int(columns["last_reinforced"][row]),
            created_by=self._created_by[row],
            reinforced_by=self._reinforced_by[row],
            event_time=_maybe(int(columns["event_time"][row])),
        )

    def _incident(self, node_id: NodeId) -> list[Edge]:
        row = self._rows.get(node_id)
        if row is not None:
            # A self-edge stands in both lists; dict keeps one, in order.
            return [self._edge_at(edge) for edge in dict.fromkeys(self._out[row] + self._in[row])]
        interaction = self._interaction_rows.get(node_id)
        if interaction is None:
            return []
        return [self._edge_at(edge) for edge in self._interaction_edges[interaction]]

    def _endpoint_rows(
        self, source: NodeId, target: NodeId, edge_type: EdgeType
    ) -> tuple[int, int] | None:
        rule = EDGES[edge_type]
        source_row = (self._interaction_rows if rule.from_interaction else self._rows).get(source)
        target_row = (self._interaction_rows if rule.to_interaction else self._rows).get(target)
        return None if source_row is None or target_row is None else (source_row, target_row)

    # -- the only mutator -------------------------------------------------------------------------

    def apply(self, mutation: Mutation) -> None:
        """Carry out one mutation of the session's log.

        Raises `InvalidSnapshot` and changes nothing when it would break an invariant.
        """
        match mutation:
            case PutEdge(edge):
                self._put_edge(edge)
            case PutConcept(concept):
                self._put_concept(concept)
            case PutInteraction(interaction):
                self._put_interaction(interaction)
            case DeleteEdge(edge_id):
                self._delete_edge(edge_id)
            case DeleteConcept(concept_id):
                self._delete_concept(concept_id)
            case ApplyTransition(transition):
                self._apply_transition(transition)
            case SetRootGoal(root_goal):
                self.root_goal = root_goal
            case PutSynonym(source_key, canonical_key):
                self.synonyms[source_key] = canonical_key
            case PutReservation(reservation):
                if not self.has_node(reservation.node_id):
                    raise InvalidSnapshot(f"reservation of unknown node {reservation.node_id}")
                self._reservations[reservation.node_id] = reservation
            case DeleteReservation(node_id):
                self._reservations.pop(node_id, None)
        self.epoch += 1

    def apply_all(self, mutations: Iterable[Mutation]) -> None:
        for mutation in mutations:
            self.apply(mutation)

    def _put_interaction(self, interaction: Interaction) -> None:
        row = self._interaction_rows.get(interaction.id)
        if row is not None:
            if self._interactions[row].previous_id != interaction.previous_id:
                raise InvalidSnapshot(f"interaction {interaction.id} may not move in the chain")
            self._interactions[row] = interaction
            return
        tail = self._interactions[-1].id if self._interactions else None
        if interaction.previous_id != tail:
            raise InvalidSnapshot(f"interaction {interaction.id} does not follow the tail")
        self._interaction_rows[interaction.id] = len(self._interactions)
        self._interactions.append(interaction)
        self._interaction_edges.append([])
        self._originating.append([])

    def _put_concept(self, concept: Concept) -> None:
        row = self._rows.get(concept.id)
        if row is None:
            self._insert_concept(concept)
            return
        columns = self.concepts.arrays
        columns["access_count"][row] = concept.access_count
        columns["last_accessed"][row] = _time(concept.last_accessed)
        columns["gc_survived"][row] = concept.gc_survived
        self._chunk_groups[row] = concept.chunk_group_id

    def _insert_concept(self, concept: Concept) -> None:
        origin = self._interaction_rows.get(concept.origin_interaction)
        if origin is None:
            raise InvalidSnapshot(f"concept {concept.id} has no origin interaction")
        is_observation = concept.concept_type is ConceptType.OBSERVATION
        if not is_observation and concept.canonical_key in self._row_by_key:
            raise InvalidSnapshot(f"two concepts have the key {concept.canonical_key!r}")
        row, reused = self.concepts.take_row()
        cells = self.concepts.arrays
        cells["type"][row] = TYPE_CODE[concept.concept_type]
        cells["status"][row] = STATUS_CODE[concept.status]
        cells["created_at"][row] = concept.created_at
        cells["last_accessed"][row] = _time(concept.last_accessed)
        cells["access_count"][row] = concept.access_count
        cells["gc_survived"][row] = concept.gc_survived
        cells["blast_radius"][row] = -1 if concept.blast_radius is None else concept.blast_radius
        cells["last_demotion_time"][row] = _time(concept.last_demotion_time)
        cells["origin"][row] = origin
        if reused:
            self._ids[row], self._contents[row] = concept.id, concept.content
            self._keys[row], self._origin_agents[row] = concept.canonical_key, concept.origin_agent
            self._chunk_groups[row] = concept.chunk_group_id
            self._out[row], self._in[row] = [], []
        else:
            self._ids.append(concept.id)
            self._contents.append(concept.content)
            self._keys.append(concept.canonical_key)
            self._origin_agents.append(concept.origin_agent)
            self._chunk_groups.append(concept.chunk_group_id)
            self._out.append([])
            self._in.append([])
        self._rows[concept.id] = row
        if is_observation:
            self._observations.setdefault(concept.canonical_key, []).append(row)
        else:
            self._row_by_key[concept.canonical_key] = row
        self._originating[origin].append(row)
        self.index.add(row, index_tokens(concept.content))

    def _delete_concept(self, concept_id: NodeId) -> None:
        row = self._rows.get(concept_id)
        if row is None:
            return
        for edge_row in dict.fromkeys(self._out[row] + self._in[row]):
            self._remove_edge(edge_row)
        del self._rows[concept_id]
        key = self._keys[row]
        if self.type_at(row) is ConceptType.OBSERVATION:
            self._observations[key].remove(row)
            if not self._observations[key]:
                del self._observations[key]
        else:
            del self._row_by_key[key]
        self._originating[self.concepts["origin"][row]].remove(row)
        self._reservations.pop(concept_id, None)
        self.index.remove(row)
        self._contents[row] = self._keys[row] = ""
        self.concepts.free_row(row)

    def _put_edge(self, edge: Edge) -> None:
        if edge.weight < 0:
            raise InvalidSnapshot(f"edge {edge.id} has a negative weight")
        ends = self._endpoint_rows(edge.source, edge.target, edge.edge_type)
        if ends is None:
            raise InvalidSnapshot(f"edge {edge.id} has an end that does not exist")
        natural_key = pack_key(EDGE_TYPE_CODE[edge.edge_type], *ends)
        row = self._natural_keys.get(natural_key)
        if self._edge_rows.get(edge.id) != row:
            raise InvalidSnapshot(f"edge {edge.id} belongs to another natural key")
        if row is None:
            row = self._insert_edge(edge, *ends)
            self._natural_keys[natural_key] = row
        cells = self.edges.arrays
        # A weight that is no number would poison every sum it enters: stored as 0.
        finite = edge.weight == edge.weight and edge.weight != float("inf")
        cells["weight"][row] = edge.weight if finite else 0.0
        cells["reinforcements"][row] = edge.reinforcements
        cells["created_at"][row] = edge.created_at
        cells["last_reinforced"][row] = edge.last_reinforced
        cells["event_time"][row] = _time(edge.event_time)
        self._created_by[row], self._reinforced_by[row] = edge.created_by, edge.reinforced_by

    def _insert_edge(self, edge: Edge, source: int, target: int) -> int:
        row, reused = self.edges.take_row()
        code = EDGE_TYPE_CODE[edge.edge_type]
        cells = self.edges.arrays
        cells["type"][row], cells["source"][row], cells["target"][row] = code, source, target
        if reused:
            self._edge_ids[row] = edge.id
        else:
            self._edge_ids.append(edge.id)
            self._created_by.append("")
            self._reinforced_by.append("")
        self._edge_rows[edge.id] = row
        # Counters first: "is it a new dependent?" asks whether another edge joins the pair already.
        self._count_edge(code, source, target, +1)
        rule = EDGES[edge.edge_type]
        (self._interaction_edges if rule.from_interaction else self._out)[source].append(row)
        (self._interaction_edges if rule.to_interaction else self._in)[target].append(row)
        return row

    def _delete_edge(self, edge_id: NodeId) -> None:
        row = self._edge_rows.get(edge_id)
        if row is not None:
            self._remove_edge(row)

    def _remove_edge(self, row: int) -> None:
        cells = self.edges.arrays
        code = int(cells["type"][row])
        source, target = int(cells["source"][row]), int(cells["target"][row])
        rule = EDGES[EDGE_TYPES[code]]
        (self._interaction_edges if rule.from_interaction else self._out)[source].remove(row)
        (self._interaction_edges if rule.to_interaction else self._in)[target].remove(row)
        del self._natural_keys[pack_key(code, source, target)]
        del self._edge_rows[self._edge_ids[row]]
        self._count_edge(code, source, target, -1)
        self.edges.free_row(row)

    def _count_edge(self, code: int, source: int, target: int, step: int) -> None:
        """Keep the counters of both ends; the edge is not (or no longer) in `_natural_keys`."""
        if code == _TEMPORAL:
            return
        cells = self.concepts.arrays
        rule = EDGES[EDGE_TYPES[code]]
        if rule.counts_for_degree:
            # A self-edge is one incident edge: it counts once.
            ends = {target} if code == _DERIVES else {source, target}
            for end in ends:
                cells["degree"][end] += step
                cells["bonus_milli"][end] += step * rule.bonus_milli
        if code == _DERIVES:
            cells["derivations"][target] += step
        elif source != target:
            if code == _DEPENDENCY:
                if pack_key(_HIERARCHICAL, target, source) not in self._natural_keys:
                    cells["dependents"][target] += step
            elif (
                code == _HIERARCHICAL
                and pack_key(_DEPENDENCY, target, source) not in self._natural_keys
            ):
                cells["dependents"][source] += step

    def _apply_transition(self, transition: Transition) -> None:
        if transition.id in self._transition_ids:
            return
        row = self._rows.get(transition.node_id)
        if row is None:
            raise InvalidSnapshot(f"transition of unknown concept {transition.node_id}")
        if self.status_at(row) is not transition.from_status:
            raise InvalidSnapshot(f"transition {transition.id} does not start at the status held")
        if (transition.from_status, transition.to_status) not in LEGAL_TRANSITIONS:
            raise InvalidSnapshot(
                f"no transition leads from {transition.from_status} to {transition.to_status}"
            )
        cells = self.concepts.arrays
        radius = transition.blast_radius
        cells["status"][row] = STATUS_CODE[transition.to_status]
        cells["blast_radius"][row] = -1 if radius is None else radius
        if transition.last_demotion_time is not None:
            cells["last_demotion_time"][row] = transition.last_demotion_time
        self.transitions.append(transition)
        self._transition_ids.add(transition.id)
