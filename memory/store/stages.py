"""From a log to sets of rows: how a batch's mutations are gathered before they are written.

Writing mutation by mutation is always right; this gives the same rows in far fewer statements. A
session's mutations are cut into stages, each written as: deletions, then puts, then transitions.

- A deletion after anything else opens the next stage, so nothing moves across a deletion: a key
  may be freed and taken again within one batch.
- Within a stage the last version of each key counts. Puts of different kinds commute, because no
  table refers to another.
- A transition needs no stage of its own. A put never changes the status of a stored concept, and a
  concept that is created in the stage is inserted with the status of its *first* version; so all
  puts first and all transitions after give what the log's own order gives. Only a concept that is
  put for the first time after its transition opens the next stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
from memory.engine.ports import StoreRejected
from memory.engine.types import (
    Concept,
    Edge,
    EdgeType,
    Interaction,
    NodeId,
    Reservation,
)


@dataclass(slots=True)
class Stage:
    """Rows to delete, then to put, then to move; each mapping is in order of first appearance."""

    deleted_edges: list[NodeId] = field(default_factory=list)
    deleted_concepts: list[NodeId] = field(default_factory=list)
    deleted_reservations: list[NodeId] = field(default_factory=list)
    deleted_synonyms: list[str] = field(default_factory=list)
    interactions: dict[NodeId, Interaction] = field(default_factory=dict)
    concepts: dict[NodeId, Concept] = field(default_factory=dict)
    edges: dict[tuple[NodeId, NodeId, EdgeType], Edge] = field(default_factory=dict)
    synonyms: dict[str, str] = field(default_factory=dict)
    reservations: dict[NodeId, Reservation] = field(default_factory=dict)
    vectors: dict[tuple[str, NodeId], bytes] = field(default_factory=dict)
    goals: list[SetRootGoal] = field(default_factory=list)
    contracts: list[SwitchContract] = field(default_factory=list)
    cycle_states: list[PutCycleState] = field(default_factory=list)
    accesses: dict[NodeId, PutAccess] = field(default_factory=dict)  # of concepts not put here
    transitions: list[ApplyTransition] = field(default_factory=list)
    moved: set[NodeId] = field(default_factory=set)  # concepts with a transition
    entries: list[PutAudit] = field(default_factory=list)
    has_puts: bool = False

    def must_precede(self, mutation: Mutation) -> bool:
        """Whether this stage has to be written before a mutation may join one."""
        match mutation:
            case DeleteEdge() | DeleteConcept() | DeleteReservation() | DeleteSynonym():
                return self.has_puts
            case PutConcept(concept=concept):
                return concept.id in self.moved and concept.id not in self.concepts
            case _:
                return False

    def add(self, mutation: Mutation) -> None:
        match mutation:
            case DeleteEdge() | DeleteConcept() | DeleteReservation() | DeleteSynonym():
                self.delete(mutation)
            case PutAudit():
                self.entries.append(mutation)  # it commutes with everything, deletions too
            case PurgeText():
                pass  # written after the receipts of its group, see `memory.store.writers`
            case _:
                self.put(mutation)

    def delete(
        self, mutation: DeleteEdge | DeleteConcept | DeleteReservation | DeleteSynonym
    ) -> None:
        match mutation:
            case DeleteEdge(id=edge_id):
                self.deleted_edges.append(edge_id)
            case DeleteConcept(id=concept_id):
                self.deleted_concepts.append(concept_id)
            case DeleteReservation(node_id=node_id):
                self.deleted_reservations.append(node_id)
            case DeleteSynonym(source_key=source_key):
                self.deleted_synonyms.append(source_key)

    def put(self, mutation: Mutation) -> None:
        self.has_puts = True
        match mutation:
            case PutInteraction(interaction=interaction):
                first = self.interactions.setdefault(interaction.id, interaction)
                self.interactions[interaction.id] = _in_its_place(first, interaction)
            case PutConcept(concept=concept):
                self.concepts[concept.id] = _put_over(self.concepts.get(concept.id), concept)
                self.accesses.pop(concept.id, None)
            case PutAccess():
                self._note_access(mutation)
            case PutEdge(edge=edge):
                ends = (edge.source, edge.target, edge.edge_type)
                self.edges[ends] = _reinforced(self.edges.get(ends), edge)
            case PutSynonym(source_key=source_key, canonical_key=canonical_key):
                self.synonyms[source_key] = canonical_key
            case PutReservation(reservation=reservation):
                self.reservations[reservation.node_id] = reservation
            case PutVector(concept_id=concept_id, contract=contract, vector=vector):
                self.vectors[contract, concept_id] = vector
            case SetRootGoal():
                self.goals = [mutation]
            case SwitchContract():
                self.contracts = [mutation]
            case PutCycleState():
                self.cycle_states = [mutation]
            case ApplyTransition(transition=transition):
                self.transitions.append(mutation)
                self.moved.add(transition.node_id)
            case _:
                raise AssertionError(f"no rule to write {type(mutation).__name__}")

    def _note_access(self, access: PutAccess) -> None:
        """The last word on a concept's accesses counts, whichever mutation says it."""
        put = self.concepts.get(access.concept_id)
        if put is None:
            self.accesses[access.concept_id] = access
        else:
            self.concepts[put.id] = put._replace(
                access_count=access.access_count, last_accessed=access.last_accessed
            )


def stages_of(mutations: Iterable[Mutation]) -> list[Stage]:
    """The stages that, written in order, store the mutations of one session."""
    stage = Stage()
    stages = [stage]
    for mutation in mutations:
        if stage.must_precede(mutation):
            stage = Stage()
            stages.append(stage)
        stage.add(mutation)
    return stages


def _in_its_place(first: Interaction, interaction: Interaction) -> Interaction:
    """The later version, which must stand where the first stands in the chain."""
    place = (first.previous_id, first.created_at)
    if (interaction.previous_id, interaction.created_at) != place:
        raise StoreRejected(f"interaction {interaction.id} changed its place")
    return interaction


def _put_over(first: Concept | None, concept: Concept) -> Concept:
    """What putting a concept again leaves: counters of the last version, the rest of the first."""
    if first is None:
        return concept
    return first._replace(
        access_count=concept.access_count,
        last_accessed=concept.last_accessed,
        gc_survived=concept.gc_survived,
    )


def _reinforced(first: Edge | None, edge: Edge) -> Edge:
    """What writing an edge again leaves: strength of the last version, identity of the first."""
    if first is None:
        return edge
    return first._replace(
        weight=edge.weight,
        reinforcements=edge.reinforcements,
        last_reinforced=edge.last_reinforced,
        reinforced_by=edge.reinforced_by,
        event_time=edge.event_time,
    )
