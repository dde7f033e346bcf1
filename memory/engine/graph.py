"""The graph of one session in RAM.

Owns: nodes and edges as columns, the adjacency, the natural keys, the one interaction chain, the
keyword index, the vectors and the counters that scoring and blast radius read. `apply` is its only
mutator and takes the same records the store writes; so replaying a session's log gives an equal
graph. It refuses any record that would break an invariant (`InvalidSnapshot`), before changing
anything.

Not here: policy. What a derive or an action adds is planned by the modules of those names.

Rows are dense integers, reused after a removal; ids are what leaves the graph. The counters kept by
each write, per concept: `degree` (incident edges but Contradicts and SuspectedSupersedes),
`bonus_milli` (sum of the edge types' score bonus, in thousandths), `derivations` (incoming Derives
edges) and `dependents` (distinct concepts that rest on it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import groupby
from typing import Final

import numpy as np

from memory.engine.changes import ChangeLog
from memory.engine.concept_table import ConceptTable, time_cell
from memory.engine.content_order import fold
from memory.engine.deferred_index import DeferredIndex
from memory.engine.edge_bundles import put_bundle, remove_bundle
from memory.engine.edge_counts import count_edge
from memory.engine.edge_table import EdgeTable, pack_key, take_off
from memory.engine.embedding import EmbeddingContract, vector_from
from memory.engine.errors import InvalidSnapshot
from memory.engine.interaction_chain import InteractionChain
from memory.engine.inverted_index import InvertedIndex
from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    DeleteSynonym,
    Mutation,
    PurgeText,
    PutAccess,
    PutAudit,
    PutConcept,
    PutCycleState,
    PutEdge,
    PutInteraction,
    PutReservation,
    PutSynonym,
    PutVector,
    SetRootGoal,
    SwitchContract,
)
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES, LEGAL_TRANSITIONS, STATUS_CODE
from memory.engine.standing import STANDING_KINDS, StandingEntries
from memory.engine.text import index_tokens, parts_of
from memory.engine.times import Micros
from memory.engine.traces import Needles, holds, needles_of
from memory.engine.types import (
    AuditEntry,
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
from memory.engine.vector_table import VectorTable
from memory.engine.vectors_beside import VectorsBeside

_BUNDLE: Final = 64
"""So many edges in a row are put as one; fewer are not worth the arrays."""


class Graph:
    """A session's nodes and edges; see the module docstring for what it keeps true."""

    def __init__(
        self,
        session_id: str,
        created_at: Micros,
        *,
        contract: EmbeddingContract | None = None,
        match_strategy: str = "canonical",
    ) -> None:
        self.session_id = session_id
        self.created_at = created_at
        self.contract = contract
        self.match_strategy = match_strategy
        self.vectors = None if contract is None else VectorTable(contract.dim)
        """Vectors of `contract` alone; None in a session that has none."""
        self.beside = VectorsBeside()
        """Vectors of contracts that the session may switch to; no snapshot holds them."""
        self.closed_at: Micros | None = None
        self.root_goal: Json = None
        self.epoch = 0
        self.index = DeferredIndex(InvertedIndex(parts_of))
        self.chain = InteractionChain()
        self.concepts = ConceptTable()
        self.edges = EdgeTable()
        self.synonyms: dict[str, str] = {}
        self.reservation_by_node: dict[NodeId, Reservation] = {}
        self.transitions: dict[NodeId, Transition] = {}  # by event id, in order of application
        self.standing = StandingEntries()
        self.change_log: ChangeLog | None = None  # set by who keeps a view; None notes nothing

    # -- reading: counts and nodes ----------------------------------------------------------------

    @property
    def concept_count(self) -> int:
        return len(self.concepts.row_by_id)

    @property
    def edge_count(self) -> int:
        return len(self.edges.row_by_id)

    @property
    def interaction_count(self) -> int:
        return len(self.chain.records)

    @property
    def is_hybrid(self) -> bool:
        """Whether new texts are matched by meaning too."""
        return self.vectors is not None and self.match_strategy == "hybrid"

    @property
    def missing_vector_count(self) -> int:
        """Concepts that a search by meaning cannot find yet; 0 where there is none."""
        return 0 if self.vectors is None else self.concept_count - len(self.vectors)

    def rows_without_vector(self) -> list[int]:
        """Rows of the concepts whose vector is missing, ascending."""
        if self.vectors is None:
            return []
        missing = self.concepts.live[: self.concepts.used].copy()
        missing[self.vectors.rows()] = False
        rows: list[int] = np.flatnonzero(missing).tolist()
        return rows

    @property
    def tail(self) -> Interaction | None:
        """The newest interaction."""
        return self.chain.records[-1] if self.chain.records else None

    @property
    def logical_time(self) -> Micros:
        """The newest write time the graph holds: its clock, which replaying does not move."""
        written = [interaction.created_at for interaction in self.chain.records]
        # An imported session may hold concepts that are younger than its tail.
        written += self.concepts["created_at"][self.concepts.live_rows()].tolist()
        return max(written, default=self.created_at)

    def interactions(self) -> tuple[Interaction, ...]:
        """All interactions in chain order."""
        return tuple(self.chain.records)

    def interaction(self, node_id: NodeId) -> Interaction | None:
        row = self.chain.row_by_id.get(node_id)
        return None if row is None else self.chain.records[row]

    def newest_interactions(self, count: int) -> list[Interaction]:
        """Up to `count` interactions, newest first."""
        return self.chain.records[: -count - 1 : -1]

    def rows_originating(self, interaction_id: NodeId) -> list[int]:
        """Rows of the concepts an interaction was the first to write."""
        row = self.chain.row_by_id.get(interaction_id)
        return [] if row is None else list(self.chain.originated[row])

    def has_node(self, node_id: NodeId) -> bool:
        return node_id in self.concepts.row_by_id or node_id in self.chain.row_by_id

    def row_of(self, concept_id: NodeId) -> int | None:
        return self.concepts.row_by_id.get(concept_id)

    def id_at(self, row: int) -> NodeId:
        return self.concepts.ids[row]

    def content_at(self, row: int) -> str:
        return self.concepts.contents[row]

    def key_at(self, row: int) -> str:
        return self.concepts.keys[row]

    def type_at(self, row: int) -> ConceptType:
        return self.concepts.type_at(row)

    def status_at(self, row: int) -> Status:
        return self.concepts.status_at(row)

    def concept_rows(self) -> list[int]:
        """Rows of all concepts, ascending."""
        rows: list[int] = self.concepts.live_rows().tolist()
        return rows

    def concept(self, concept_id: NodeId) -> Concept | None:
        row = self.concepts.row_by_id.get(concept_id)
        return None if row is None else self.concept_at(row)

    def concept_at(self, row: int) -> Concept:
        """The record of a live row."""
        return self.concepts.record(row, self.chain.records)

    def find_by_key(self, canonical_key: str) -> int | None:
        """Row of the concept (of any type but Observation) with that key."""
        return self.concepts.row_by_key.get(canonical_key)

    def observation_rows(self, canonical_key: str) -> list[int]:
        """Rows of the observations with that key, by id."""
        return sorted(
            self.concepts.observations.get(canonical_key, ()), key=self.concepts.ids.__getitem__
        )

    def find_by_content(self, content: str) -> int | None:
        """Row of the concept with exactly that content; the smallest id if there are several."""
        found = self.rows_with_content(content)
        return min(found, key=self.concepts.ids.__getitem__, default=None)

    def rows_with_content(self, content: str) -> list[int]:
        """Rows of the concepts with exactly that content, in no order."""
        alike = self.concepts.order.rows_of(fold(content))
        return [row for row in alike if self.concepts.contents[row] == content]

    # -- reading: edges ---------------------------------------------------------------------------

    def edge(self, edge_id: NodeId) -> Edge | None:
        row = self.edges.row_by_id.get(edge_id)
        return None if row is None else self._edge_at(row)

    def edge_between(self, source: NodeId, target: NodeId, edge_type: EdgeType) -> Edge | None:
        """The edge with that natural key."""
        ends = self._endpoint_rows(source, target, edge_type)
        if ends is None:
            return None
        row = self.edges.row_by_key.get(pack_key(EDGE_TYPE_CODE[edge_type], *ends))
        return None if row is None else self._edge_at(row)

    def out_rows(self, row: int, edge_type: EdgeType) -> list[int]:
        """Rows of the concepts this concept points at by edges of that type."""
        return self.edges.ends_of(self.concepts.leaving[row], edge_type, "target")

    def in_rows(self, row: int, edge_type: EdgeType) -> list[int]:
        """Rows of the concepts that point at this one by edges of that (concept) type."""
        assert edge_type not in (EdgeType.DERIVES, EdgeType.TEMPORAL)
        return self.edges.ends_of(self.concepts.arriving[row], edge_type, "source")

    def out_edges(self, node_id: NodeId) -> list[Edge]:
        """Edges that leave a node of either kind."""
        row = self.concepts.row_by_id.get(node_id)
        if row is not None:
            return [self._edge_at(edge) for edge in self.concepts.leaving[row]]
        return [edge for edge in self._chain_edges(node_id) if edge.source == node_id]

    def in_edges(self, node_id: NodeId) -> list[Edge]:
        """Edges that arrive at a node of either kind."""
        row = self.concepts.row_by_id.get(node_id)
        if row is not None:
            return [self._edge_at(edge) for edge in self.concepts.arriving[row]]
        return [edge for edge in self._chain_edges(node_id) if edge.target == node_id]

    def incident_edge_rows(self, row: int) -> list[int]:
        """Edge rows of a concept, newest first: those are the cheapest to `take_off` a list."""
        # A self-edge stands in both lists; dict keeps one, in order.
        rows = self.concepts.leaving[row] + self.concepts.arriving[row]
        return list(dict.fromkeys(reversed(rows)))

    def edges_at(self, rows: Sequence[int]) -> list[Edge]:
        """The records of live edge rows, in the order given; for many at once."""
        chain, ids = self.chain.records, self.concepts.ids
        codes, sources, targets = (
            self.edges[name][rows].tolist() for name in ("type", "source", "target")
        )
        rules = [EDGES[EDGE_TYPES[code]] for code in codes]
        return self.edges.records(
            rows,
            [
                chain[source].id if rule.from_interaction else ids[source]
                for rule, source in zip(rules, sources, strict=True)
            ],
            [
                chain[target].id if rule.to_interaction else ids[target]
                for rule, target in zip(rules, targets, strict=True)
            ],
        )

    def all_edges(self) -> Iterator[Edge]:
        """Every edge, in row order."""
        for row in self.edges.live_rows().tolist():
            yield self._edge_at(row)

    def reaches(self, starts: Iterable[int], goal: int, *edge_types: EdgeType) -> bool:
        """Whether edges of those types lead from any start to the goal; visits each row once."""
        wanted = {EDGE_TYPE_CODE[edge_type] for edge_type in edge_types}
        types, targets, leaving = self.edges["type"], self.edges["target"], self.concepts.leaving
        frontier = list(starts)
        seen = set(frontier)
        while frontier and goal not in seen:
            for edge in leaving[frontier.pop()]:
                if types[edge] in wanted:
                    reached = int(targets[edge])
                    if reached not in seen:
                        seen.add(reached)
                        frontier.append(reached)
        return goal in seen

    def dependents(self, row: int, *, most: int | None = None) -> list[int]:
        """Rows of the concepts that rest on this one, by id, each once, itself excluded.

        With `most` only so many, the smallest ids.

        A concept rests on another when it has a Dependency edge to it or is its Hierarchical child.
        Every question about dependence is answered here.
        """
        rows = set(self.in_rows(row, EdgeType.DEPENDENCY))
        rows.update(self.out_rows(row, EdgeType.HIERARCHICAL))
        rows.discard(row)
        by_id = self.concepts.ids.__getitem__
        return sorted(rows, key=by_id) if most is None else nsmallest(most, rows, key=by_id)

    def blast_radius(self, row: int) -> int:
        """How many concepts rest on this one: the kept count of `dependents`."""
        return int(self.concepts["dependents"][row])

    def is_shielded(self, row: int) -> bool:
        """Whether a concept was restored so short a while ago that no sweep may collect it."""
        return self.standing.is_shielded(self.id_at(row), int(self.concepts["gc_survived"][row]))

    def reservation(self, node_id: NodeId) -> Reservation | None:
        """The soft lock on a node, live or expired."""
        return self.reservation_by_node.get(node_id)

    def reservations(self) -> list[Reservation]:
        return sorted(self.reservation_by_node.values())

    def _edge_at(self, row: int) -> Edge:
        rule = EDGES[self.edges.type_at(row)]
        source, target = self.edges.ends_at(row)
        chain, ids = self.chain.records, self.concepts.ids
        return self.edges.record(
            row,
            chain[source].id if rule.from_interaction else ids[source],
            chain[target].id if rule.to_interaction else ids[target],
        )

    def _chain_edges(self, node_id: NodeId) -> list[Edge]:
        """Edges of an interaction, in both directions."""
        row = self.chain.row_by_id.get(node_id)
        return [] if row is None else [self._edge_at(edge) for edge in self.chain.edges[row]]

    def _endpoint_rows(
        self, source: NodeId, target: NodeId, edge_type: EdgeType
    ) -> tuple[int, int] | None:
        rule = EDGES[edge_type]
        interactions, concepts = self.chain.row_by_id, self.concepts.row_by_id
        source_row = (interactions if rule.from_interaction else concepts).get(source)
        target_row = (interactions if rule.to_interaction else concepts).get(target)
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
            case PutVector(concept_id, contract, vector):
                self._put_vector(concept_id, contract, vector)
            case SwitchContract(contract):
                self._switch_contract(contract)
            case SetRootGoal(root_goal):
                self.root_goal = root_goal
            case PutSynonym(source_key, canonical_key):
                self.synonyms[source_key] = canonical_key
            case PutReservation(reservation):
                if not self.has_node(reservation.node_id):
                    raise InvalidSnapshot(f"reservation of unknown node {reservation.node_id}")
                self.reservation_by_node[reservation.node_id] = reservation
            case DeleteReservation(node_id):
                self.reservation_by_node.pop(node_id, None)
            case DeleteSynonym(source_key):
                self.synonyms.pop(source_key, None)
            case PutAudit(entry):
                self._put_audit(entry)
                return  # told of the graph, no change of it
            case PutAccess(concept_id, access_count, last_accessed):
                self.concepts.note_access(concept_id, access_count, last_accessed)
                return
            case PutCycleState():
                return
            case PurgeText(concept_ids, content):
                self._purge_text(concept_ids, needles_of(content))
        self.epoch += 1

    def apply_all(self, mutations: Iterable[Mutation]) -> None:
        """`apply` each in turn; many edges in a row are put as one where nothing is in the way."""
        for _, run in groupby(mutations, type):
            bundle = list(run)
            edges = [put.edge for put in bundle if isinstance(put, PutEdge)]
            if len(edges) < _BUNDLE or not self._put_edges(edges):
                for mutation in bundle:
                    self.apply(mutation)

    def _put_interaction(self, interaction: Interaction) -> None:
        row = self.chain.row_by_id.get(interaction.id)
        if row is not None:
            if self.chain.records[row].previous_id != interaction.previous_id:
                raise InvalidSnapshot(f"interaction {interaction.id} may not move in the chain")
            self.chain.records[row] = interaction
            return
        tail = self.chain.records[-1].id if self.chain.records else None
        if interaction.previous_id != tail:
            raise InvalidSnapshot(f"interaction {interaction.id} does not follow the tail")
        if interaction.id in self.concepts.row_by_id:
            raise InvalidSnapshot(f"interaction {interaction.id} has the id of a concept")
        self.chain.append(interaction)

    def _put_concept(self, concept: Concept) -> None:
        row = self.concepts.row_by_id.get(concept.id)
        if row is not None:
            self.concepts.update(row, concept)
            return
        origin = self.chain.row_by_id.get(concept.origin_interaction)
        if origin is None:
            raise InvalidSnapshot(f"concept {concept.id} has no origin interaction")
        if concept.id in self.chain.row_by_id:
            raise InvalidSnapshot(f"concept {concept.id} has the id of an interaction")
        is_observation = concept.concept_type is ConceptType.OBSERVATION
        if not is_observation and concept.canonical_key in self.concepts.row_by_key:
            raise InvalidSnapshot(f"two concepts have the key {concept.canonical_key!r}")
        row = self.concepts.insert(concept, origin)
        if self.change_log is not None:
            self.change_log.note_concept(row)
        self.chain.originated[origin].append(row)
        self.index.add(row, self.tokens_of(concept.content, concept.canonical_key))

    def tokens_of(self, content: str, canonical_key: str) -> list[str]:
        """What the keyword index holds of a concept, in no particular order.

        A key is the sorted tokens of its content unless a synonym stood in; the index does not look
        at order, so splitting the key saves stemming the text again.
        """
        is_aliased = bool(self.synonyms) and content.strip() in self.synonyms
        return index_tokens(content) if is_aliased else canonical_key.split()

    def _delete_concept(self, concept_id: NodeId) -> None:
        row = self.concepts.row_by_id.get(concept_id)
        if row is None:
            return
        lost = remove_bundle(
            self.edges, self.concepts.arrays, self.adjacency, row, self.incident_edge_rows(row)
        )
        if lost and self.change_log is not None:
            self.change_log.note_loss(row, *lost)
        self.chain.originated[self.concepts["origin"][row]].remove(row)
        self.reservation_by_node.pop(concept_id, None)
        self.standing.drop(concept_id)
        self.index.remove(row)
        if self.vectors is not None:
            self.vectors.remove(row)
        self.beside.remove(row)
        self.concepts.remove(row)
        if self.change_log is not None:
            self.change_log.note_concept(row)

    def _put_vector(self, concept_id: NodeId, contract: str, vector: bytes) -> None:
        row = self.concepts.row_by_id.get(concept_id)
        if row is None:
            raise InvalidSnapshot(f"vector of unknown concept {concept_id}")
        if self.vectors is None or self.contract is None or contract != self.contract.key:
            self.beside.put(row, contract, vector)
            return
        if len(vector) != 4 * self.vectors.dim:
            raise InvalidSnapshot(f"the vector of concept {concept_id} has another width")
        self.vectors.put(row, vector_from(vector))

    def _switch_contract(self, contract: EmbeddingContract) -> None:
        if contract != self.contract:
            self.vectors = self.beside.take(contract)
            self.contract = contract

    def _put_edge(self, edge: Edge) -> None:
        if edge.weight < 0:
            raise InvalidSnapshot(f"edge {edge.id} has a negative weight")
        ends = self._endpoint_rows(edge.source, edge.target, edge.edge_type)
        if ends is None:
            raise InvalidSnapshot(f"edge {edge.id} has an end that does not exist")
        row = self.edges.row_by_key.get(pack_key(EDGE_TYPE_CODE[edge.edge_type], *ends))
        if self.edges.row_by_id.get(edge.id) != row:
            raise InvalidSnapshot(f"edge {edge.id} belongs to another natural key")
        if row is not None:
            self.edges.update(row, edge)
            if self.change_log is not None:
                self.change_log.note_edge(row)
            return
        # Counters first: "is it a new dependent?" asks whether another edge joins the pair already.
        code, cells = EDGE_TYPE_CODE[edge.edge_type], self.concepts.arrays
        count_edge(cells, self.edges.row_by_key, code, *ends, +1)
        row = self.edges.insert(edge, *ends)
        if self.change_log is not None:
            self.change_log.note_edge(row)
        leaving, arriving = self.adjacency(edge.edge_type)
        leaving[ends[0]].append(row)
        arriving[ends[1]].append(row)

    def _put_edges(self, edges: list[Edge]) -> bool:
        """Put edges that are all new; False, and nothing is changed, where one may not be."""
        rows_of = (self.concepts.row_by_id, self.chain.row_by_id)
        placed: list[tuple[int, int]] = []
        for edge in edges:
            rule = EDGES[edge.edge_type]
            source = rows_of[rule.from_interaction].get(edge.source)
            target = rows_of[rule.to_interaction].get(edge.target)
            if source is None or target is None or edge.weight < 0:
                return False
            placed.append((source, target))
        rows = put_bundle(self.edges, self.concepts.arrays, self.adjacency, edges, placed)
        if self.change_log is not None:
            for row in rows:
                self.change_log.note_edge(row)
        self.epoch += len(rows)
        return bool(rows)

    def adjacency(self, edge_type: EdgeType) -> tuple[list[list[int]], list[list[int]]]:
        """Where the edges of a type are listed: by source row, by target row."""
        rule = EDGES[edge_type]
        return (
            self.chain.edges if rule.from_interaction else self.concepts.leaving,
            self.chain.edges if rule.to_interaction else self.concepts.arriving,
        )

    def _delete_edge(self, edge_id: NodeId) -> None:
        row = self.edges.row_by_id.get(edge_id)
        if row is not None:
            self._remove_edge(row)

    def _remove_edge(self, row: int) -> None:
        edge_type, (source, target) = self.edges.type_at(row), self.edges.ends_at(row)
        leaving, arriving = self.adjacency(edge_type)
        take_off(leaving[source], row)
        take_off(arriving[target], row)
        self.edges.remove(row)
        if self.change_log is not None:
            rule = EDGES[edge_type]
            self.change_log.note_loss(
                None if rule.from_interaction else source, None if rule.to_interaction else target
            )
        code, cells = EDGE_TYPE_CODE[edge_type], self.concepts.arrays
        count_edge(cells, self.edges.row_by_key, code, source, target, -1)

    def _apply_transition(self, transition: Transition) -> None:
        if transition.id in self.transitions:
            return
        row = self.concepts.row_by_id.get(transition.node_id)
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
            cells["last_demotion_time"][row] = time_cell(transition.last_demotion_time)
        self.transitions[transition.id] = transition

    def _put_audit(self, entry: AuditEntry) -> None:
        if entry.kind in STANDING_KINDS:
            if entry.node_id not in self.concepts.row_by_id:
                raise InvalidSnapshot(f"audit row {entry.id} names no concept")
            self.standing.keep(entry)

    def _purge_text(self, concept_ids: tuple[NodeId, ...], needles: Needles) -> None:
        self.standing.purge(concept_ids, needles)
        for name, transition in self.transitions.items():
            if holds(transition.reason, needles):
                self.transitions[name] = transition._replace(reason=None)
