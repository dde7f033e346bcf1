"""The rows of one session as plain dictionaries, and how a mutation changes them.

Mutations are applied one by one, in log order: the plain meaning of a log, against which the
durable store's gathered statements are tested.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from memory.engine.embedding import EmbeddingContract
from memory.engine.events import last_id_to_drop
from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    DeleteSynonym,
    Group,
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
    Receipt,
    SetRootGoal,
    SwitchContract,
)
from memory.engine.ports import EventPage, SetAside, StoredEvent, StoreRejected
from memory.engine.standing import standing_of
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    ChainLink,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Json,
    NodeId,
    Reservation,
    Snapshot,
    Transition,
)
from memory.store import codecs, soundness

_NO_CYCLES: Final = PutCycleState(None, None, None)


@dataclass(frozen=True, slots=True)
class Kept:
    """A record that was moved aside or written over, why, and when; None once it was purged."""

    why: SetAside
    record: Concept | Edge | Interaction | Reservation | None
    at: Micros


@dataclass(slots=True)
class Rows:
    """The rows of one session, and what its unique constraints look up."""

    created_at: Micros
    match_strategy: str
    contract: EmbeddingContract | None = None
    root_goal: Json = None
    interactions: dict[NodeId, Interaction] = field(default_factory=dict)
    concepts: dict[NodeId, Concept] = field(default_factory=dict)
    edges: dict[tuple[NodeId, NodeId, EdgeType], Edge] = field(default_factory=dict)
    synonyms: dict[str, str] = field(default_factory=dict)
    reservations: dict[NodeId, Reservation] = field(default_factory=dict)
    transitions: dict[NodeId, Transition] = field(default_factory=dict)
    evidence: dict[NodeId, Json] = field(default_factory=dict)  # of transitions, by event id
    entries: dict[NodeId, AuditEntry] = field(default_factory=dict)
    links: dict[NodeId, ChainLink] = field(default_factory=dict)  # of audit rows, by their id
    cycles: PutCycleState = _NO_CYCLES
    embeddings: dict[tuple[str, NodeId], bytes] = field(default_factory=dict)
    receipts: dict[tuple[str, str], Receipt] = field(default_factory=dict)
    events: list[StoredEvent] = field(default_factory=list)
    aside: list[Kept] = field(default_factory=list)
    holder_by_key: dict[str, NodeId] = field(default_factory=dict)
    ends_by_edge: dict[NodeId, tuple[NodeId, NodeId, EdgeType]] = field(default_factory=dict)

    def copy(self) -> Rows:
        return replace(
            self,
            interactions=dict(self.interactions),
            concepts=dict(self.concepts),
            edges=dict(self.edges),
            synonyms=dict(self.synonyms),
            reservations=dict(self.reservations),
            transitions=dict(self.transitions),
            evidence=dict(self.evidence),
            entries=dict(self.entries),
            links=dict(self.links),
            embeddings=dict(self.embeddings),
            receipts=dict(self.receipts),
            events=list(self.events),
            aside=list(self.aside),
            holder_by_key=dict(self.holder_by_key),
            ends_by_edge=dict(self.ends_by_edge),
        )


def check_text(value: Any) -> None:
    """Refuse text that is no Unicode (half of a surrogate pair), wherever it stands."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise StoreRejected(str(error)) from error
    elif isinstance(value, list | tuple):
        for item in value:
            check_text(item)


def json_copy(value: Json) -> Json:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreRejected(str(error)) from error
    check_text(text)
    return json.loads(text)


def apply(rows: Rows, mutation: Mutation, others: Iterable[Rows]) -> None:
    """Store one mutation. `others` are the sessions that may hold an id already."""
    match mutation:
        case PutInteraction(interaction=interaction):
            _put_interaction(rows, interaction, others)
        case PutConcept(concept=concept):
            _put_concept(rows, concept, others)
        case PutEdge(edge=edge):
            _put_edge(rows, edge, others)
        case DeleteConcept(id=concept_id):
            _delete_concept(rows, concept_id)
        case DeleteEdge(id=edge_id):
            _delete_edge(rows, edge_id)
        case ApplyTransition(transition=transition, detail=detail, link=link):
            _apply_transition(rows, transition, others)
            rows.evidence.setdefault(transition.id, json_copy(detail))
            _put_link(rows, transition.id, link)
        case PutCycleState():
            rows.cycles = mutation._replace(state=json_copy(mutation.state))
        case PutAccess():
            _note_access(rows, mutation)
        case PutVector(concept_id=concept_id, contract=contract, vector=vector):
            rows.embeddings[contract, concept_id] = vector
        case SwitchContract(contract=own):
            rows.contract = own
        case SetRootGoal(root_goal=root_goal):
            rows.root_goal = json_copy(root_goal)
        case PutSynonym(source_key=source_key, canonical_key=canonical_key):
            rows.synonyms[source_key] = canonical_key
        case PutReservation(reservation=reservation):
            rows.reservations[reservation.node_id] = reservation
        case DeleteReservation(node_id=node_id):
            rows.reservations.pop(node_id, None)
        case DeleteSynonym(source_key=source_key):
            rows.synonyms.pop(source_key, None)
        case PutAudit(entry=entry, link=link):
            _put_entry(rows, entry, others)
            _put_link(rows, entry.id, link)
        case PurgeText():
            pass  # carried out after the receipt of its group is written: `purge`


def _put_interaction(rows: Rows, interaction: Interaction, others: Iterable[Rows]) -> None:
    known = rows.interactions.get(interaction.id)
    is_moved = known is not None and (known.previous_id, known.created_at) != (
        interaction.previous_id,
        interaction.created_at,
    )
    if is_moved or any(interaction.id in other.interactions for other in others):
        raise StoreRejected(f"interaction {interaction.id} stands elsewhere")
    rows.interactions[interaction.id] = interaction


def _put_concept(rows: Rows, concept: Concept, others: Iterable[Rows]) -> None:
    if any(concept.id in other.concepts for other in others):
        raise StoreRejected(f"concept {concept.id} belongs to another session")
    known = rows.concepts.get(concept.id)
    if known is not None:
        rows.concepts[concept.id] = known._replace(
            access_count=concept.access_count,
            last_accessed=concept.last_accessed,
            gc_survived=concept.gc_survived,
        )
        return
    is_matched = concept.concept_type is not ConceptType.OBSERVATION
    if is_matched and (
        rows.holder_by_key.setdefault(concept.canonical_key, concept.id) != concept.id
    ):
        raise StoreRejected(f"the key of concept {concept.id} is taken")
    rows.concepts[concept.id] = concept


def _note_access(rows: Rows, access: PutAccess) -> None:
    known = rows.concepts.get(access.concept_id)
    if known is not None:
        rows.concepts[known.id] = known._replace(
            access_count=access.access_count, last_accessed=access.last_accessed
        )


def _delete_concept(rows: Rows, concept_id: NodeId) -> None:
    concept = rows.concepts.pop(concept_id, None)
    if concept is not None and rows.holder_by_key.get(concept.canonical_key) == concept_id:
        del rows.holder_by_key[concept.canonical_key]
    rows.reservations.pop(concept_id, None)
    for held in [held for held in rows.embeddings if held[1] == concept_id]:
        del rows.embeddings[held]
    for ends in [ends for ends in rows.edges if concept_id in ends[:2]]:
        _delete_edge(rows, rows.edges[ends].id)


def _delete_edge(rows: Rows, edge_id: NodeId) -> None:
    ends = rows.ends_by_edge.pop(edge_id, None)
    if ends is not None:
        del rows.edges[ends]


def _put_edge(rows: Rows, edge: Edge, others: Iterable[Rows]) -> None:
    if not edge.weight == edge.weight:
        raise StoreRejected(f"the weight of edge {edge.id} is no number")
    ends = (edge.source, edge.target, edge.edge_type)
    known = rows.edges.get(ends)
    if known is not None:
        rows.edges[ends] = known._replace(
            weight=edge.weight,
            reinforcements=edge.reinforcements,
            last_reinforced=edge.last_reinforced,
            reinforced_by=edge.reinforced_by,
            event_time=edge.event_time,
        )
        return
    if any(edge.id in some.ends_by_edge for some in (rows, *others)):
        raise StoreRejected(f"the id of edge {edge.id} is taken")
    rows.edges[ends] = edge
    rows.ends_by_edge[edge.id] = ends


def _apply_transition(rows: Rows, transition: Transition, others: Iterable[Rows]) -> None:
    if any(transition.id in other.transitions for other in others):
        raise StoreRejected(f"audit row {transition.id} belongs to another session")
    if transition.id in rows.transitions:
        return
    concept = rows.concepts.get(transition.node_id)
    if concept is None:
        raise StoreRejected("a transition names a concept that is not stored")
    rows.transitions[transition.id] = transition
    rows.concepts[concept.id] = concept._replace(
        status=transition.to_status,
        blast_radius=transition.blast_radius,
        last_demotion_time=(
            concept.last_demotion_time
            if transition.last_demotion_time is None
            else transition.last_demotion_time
        ),
    )


def _put_entry(rows: Rows, entry: AuditEntry, others: Iterable[Rows]) -> None:
    if any(entry.id in other.entries or entry.id in other.transitions for other in others):
        raise StoreRejected(f"audit row {entry.id} belongs to another session")
    stored = entry._replace(
        detail=json_copy(entry.detail),
        texts=json_copy(entry.texts),
        removed=json_copy(entry.removed),
    )
    rows.entries.setdefault(entry.id, stored)


def _put_link(rows: Rows, audit_id: NodeId, link: ChainLink | None) -> None:
    if link is not None:
        rows.links.setdefault(audit_id, link)


def snapshot_of(session_id: str, rows: Rows) -> tuple[Snapshot, list[SetAside]]:
    """The rows as a sound snapshot, and a sentence for each one left out."""
    by_time = sorted(rows.interactions.values(), key=lambda item: item.created_at)
    interactions, faults = soundness.in_chain_order(by_time)
    joined: list[Edge] = []
    for edge in rows.edges.values():
        fault = soundness.edge_fault(edge, rows.interactions, rows.concepts)
        if fault is None:
            joined.append(edge)
        else:
            faults.append(soundness.set_aside(codecs.EDGES, edge.id, fault))
    concepts, edges, more = soundness.sound_graph(
        rows.interactions, list(rows.concepts.values()), joined
    )
    faults += more
    edges, more = soundness.edges_along_chain(interactions, edges)
    faults += more
    reservations, more = soundness.sound_reservations(
        rows.reservations.values(), rows.interactions.keys() | {item.id for item in concepts}
    )
    faults += more
    snapshot = Snapshot(
        session_id=session_id,
        created_at=rows.created_at,
        root_goal=rows.root_goal,
        interactions=tuple(interactions),
        concepts=tuple(sorted(concepts, key=lambda item: item.id)),
        edges=tuple(sorted(edges, key=lambda item: item.id)),
        synonyms=tuple(sorted(rows.synonyms.items())),
        reservations=tuple(sorted(reservations)),
        transitions=tuple(sorted(rows.transitions.values(), key=lambda item: item.id)),
        match_strategy=rows.match_strategy,
        contract=rows.contract,
        vectors=_vectors(rows, {concept.id for concept in concepts}),
        standing=standing_of(rows.entries.values(), (concept.id for concept in concepts)),
    )
    return snapshot, faults


def _vectors(rows: Rows, concepts: set[NodeId]) -> tuple[tuple[NodeId, bytes], ...]:
    """The vectors of the session's own contract whose concepts are there."""
    if rows.contract is None:
        return ()
    key = rows.contract.key
    return tuple(
        sorted(
            (concept_id, vector)
            for (contract, concept_id), vector in rows.embeddings.items()
            if contract == key and concept_id in concepts
        )
    )


def move_aside(rows: Rows, items: Sequence[SetAside], others: Iterable[Rows], *, at: Micros) -> int:
    """Take rows that a load could not use out of their tables; how many were kept aside."""
    before = len(rows.aside)
    for item in items:
        record = _taken(rows, item)
        if record is not None:
            rows.aside.append(Kept(item, record, at))
    for item in items:
        match item.instead:
            case Interaction() as joined:
                rows.interactions[joined.id] = joined
            case Edge() as edge:
                _put_edge(rows, edge, others)
    return len(rows.aside) - before


def _taken(rows: Rows, item: SetAside) -> Concept | Edge | Interaction | Reservation | None:
    """The record that a sentence is about, removed; nothing else goes with it."""
    match item.table:
        case codecs.CONCEPTS.name:
            concept = rows.concepts.pop(item.row_id, None)
            if concept is not None and rows.holder_by_key.get(concept.canonical_key) == concept.id:
                del rows.holder_by_key[concept.canonical_key]
            return concept
        case codecs.EDGES.name:
            ends = rows.ends_by_edge.pop(item.row_id, None)
            return None if ends is None else rows.edges.pop(ends)
        case codecs.RESERVATIONS.name:
            return rows.reservations.pop(item.row_id, None)
        case codecs.INTERACTIONS.name:
            known = rows.interactions.pop(item.row_id)
            return None if known == item.instead else known
        case _:
            return None


def put_events(rows: Rows, group: Group) -> None:
    """Add what a group tells listeners, and let go of the oldest now and then."""
    rows.events += [
        StoredEvent(
            event.id,
            group.position,
            event.kind,
            event.agent_id,
            group.created_at,
            json_copy(event.data),
        )
        for event in group.events
    ]
    if group.events:
        dropped = last_id_to_drop(group.events[0].id, group.events[-1].id)
        rows.events = [event for event in rows.events if event.id > dropped]


def page_of_events(
    kept: Sequence[StoredEvent], after: int, limit: int, kinds: Sequence[str]
) -> EventPage:
    """The part of the log that was asked for."""
    if not kept:
        return EventPage(read_to=after)
    start = bisect_right(kept, after, key=lambda event: event.id)
    wanted = (event for event in islice(kept, start, None) if not kinds or event.kind in kinds)
    events = tuple(islice(wanted, limit))
    read_to = events[-1].id if len(events) == limit else max(after, kept[-1].id)
    return EventPage(events, kept[0].id, kept[-1].id, read_to)
