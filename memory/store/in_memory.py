"""`InMemoryStore`: a `GraphStore` whose rows live as long as the object.

The double for tests, and the store of a server that promises to keep nothing. It honours the rules
of the durable store, which one contract suite checks on both. It applies mutations one by one, in
log order, while the durable store gathers them: so each is the other's reference.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    Group,
    Mutation,
    PutConcept,
    PutEdge,
    PutInteraction,
    PutReservation,
    PutSynonym,
    Receipt,
    SetRootGoal,
)
from memory.engine.ports import (
    Clock,
    DeadLetter,
    Lease,
    LeaseRefused,
    LoadedSession,
    SessionBatch,
    SessionInfo,
    StoredPosition,
    StoreRejected,
)
from memory.engine.times import SECOND, Micros
from memory.engine.types import (
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
from memory.store import soundness


def _wall_time() -> Micros:
    return time.time_ns() // 1000


@dataclass(slots=True)
class _LeaseRow:
    node_id: str = ""
    endpoint: str = ""
    token: int = 0
    position: int = 0
    expires_at: Micros = 0


@dataclass(slots=True)
class _Rows:
    """The rows of one session, and what its unique constraints look up."""

    created_at: Micros
    match_strategy: str
    root_goal: Json = None
    interactions: dict[NodeId, Interaction] = field(default_factory=dict)
    concepts: dict[NodeId, Concept] = field(default_factory=dict)
    edges: dict[tuple[NodeId, NodeId, EdgeType], Edge] = field(default_factory=dict)
    synonyms: dict[str, str] = field(default_factory=dict)
    reservations: dict[NodeId, Reservation] = field(default_factory=dict)
    transitions: dict[NodeId, Transition] = field(default_factory=dict)
    receipts: dict[tuple[str, str], Receipt] = field(default_factory=dict)
    holder_by_key: dict[str, NodeId] = field(default_factory=dict)
    ends_by_edge: dict[NodeId, tuple[NodeId, NodeId, EdgeType]] = field(default_factory=dict)

    def copy(self) -> _Rows:
        return replace(
            self,
            interactions=dict(self.interactions),
            concepts=dict(self.concepts),
            edges=dict(self.edges),
            synonyms=dict(self.synonyms),
            reservations=dict(self.reservations),
            transitions=dict(self.transitions),
            receipts=dict(self.receipts),
            holder_by_key=dict(self.holder_by_key),
            ends_by_edge=dict(self.ends_by_edge),
        )


class InMemoryStore:
    """A `GraphStore` whose rows live as long as the object; safe to call from any thread.

    `clock` plays the store's clock, by which leases expire; without one it is the wall clock.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._now = _wall_time if clock is None else clock.now
        self._lock = threading.RLock()
        self._sessions: dict[str, _Rows] = {}
        self._leases: dict[str, _LeaseRow] = {}  # outlive their sessions: tokens never fall
        self._letters: list[DeadLetter] = []

    # -- leases --------------------------------------------------------------------------------

    def acquire_lease(
        self,
        session_id: str,
        *,
        node_id: str,
        endpoint: str,
        ttl_seconds: float,
        create: bool,
        match_strategy: str,
        created_at: Micros,
    ) -> Lease | LeaseRefused | None:
        with self._lock:
            if session_id not in self._sessions:
                if not create:
                    return None
                self._sessions[session_id] = _Rows(created_at, match_strategy)
                lease = self._leases.setdefault(session_id, _LeaseRow())
                lease.position = lease.expires_at = 0
            lease = self._leases[session_id]
            now = self._now()
            if lease.node_id != node_id and lease.expires_at > now:
                left = (lease.expires_at - now) / SECOND
                return LeaseRefused(session_id, lease.node_id, lease.endpoint, left)
            lease.node_id, lease.endpoint = node_id, endpoint
            lease.token += 1
            lease.expires_at = now + round(ttl_seconds * SECOND)
            return Lease(session_id, node_id, lease.token, lease.position)

    def renew_leases(
        self, tokens: Mapping[str, int], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        with self._lock:
            lost = set()
            for session_id, token in tokens.items():
                if self._is_held(session_id, node_id, token):
                    self._extend(session_id, ttl_seconds)
                else:
                    lost.add(session_id)
            return frozenset(lost)

    def release_lease(self, session_id: str, *, node_id: str, token: int) -> None:
        with self._lock:
            if self._is_held(session_id, node_id, token):
                self._leases[session_id].expires_at = 0

    def read_positions(self, session_ids: Sequence[str]) -> Mapping[str, StoredPosition]:
        with self._lock:
            return {
                session_id: StoredPosition(lease.node_id, lease.token, lease.position)
                for session_id in session_ids
                if (lease := self._leases.get(session_id)) is not None
            }

    def _is_held(self, session_id: str, node_id: str, token: int) -> bool:
        lease = self._leases.get(session_id)
        return lease is not None and (lease.node_id, lease.token) == (node_id, token)

    def _extend(self, session_id: str, ttl_seconds: float) -> None:
        self._leases[session_id].expires_at = self._now() + round(ttl_seconds * SECOND)

    # -- the log -------------------------------------------------------------------------------

    def commit(
        self, batches: Sequence[SessionBatch], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        with self._lock:
            admitted = [batch for batch in batches if self._admits(batch, node_id)]
            written: dict[str, _Rows] = {}
            for batch in admitted:
                rows = self._sessions[batch.session_id].copy()
                for group in batch.groups:
                    self._write(rows, batch.session_id, group)
                written[batch.session_id] = rows
            # Nothing can fail from here on: all of it is stored, or none.
            self._sessions.update(written)
            for batch in admitted:
                self._leases[batch.session_id].position = batch.last_position
                self._extend(batch.session_id, ttl_seconds)
            return frozenset(batch.session_id for batch in batches).difference(written)

    def _admits(self, batch: SessionBatch, node_id: str) -> bool:
        assert [group.position for group in batch.groups] == list(
            range(batch.expected_position + 1, batch.expected_position + 1 + len(batch.groups))
        )
        return (
            self._is_held(batch.session_id, node_id, batch.token)
            and self._leases[batch.session_id].position == batch.expected_position
        )

    def _write(self, rows: _Rows, session_id: str, group: Group) -> None:
        others = [other for name, other in self._sessions.items() if name != session_id]
        for mutation in group.mutations:
            _check_text(mutation)
            _apply(rows, mutation, others)
        if group.receipt is not None:
            receipt = replace(group.receipt, reply=_json_copy(group.receipt.reply))
            rows.receipts[receipt.agent_id, receipt.key] = receipt

    # -- reads ---------------------------------------------------------------------------------

    def load_session(self, session_id: str) -> LoadedSession | None:
        with self._lock:
            rows = self._sessions.get(session_id)
            if rows is None:
                return None
            snapshot, faults = _snapshot(session_id, rows)
            return LoadedSession(
                snapshot,
                self._leases[session_id].position,
                {scope: receipt.digest for scope, receipt in rows.receipts.items()},
                tuple(faults),
            )

    def find_receipt(self, session_id: str, agent_id: str, key: str) -> Receipt | None:
        with self._lock:
            rows = self._sessions.get(session_id)
            return None if rows is None else rows.receipts.get((agent_id, key))

    def count_dead_letters(self, session_id: str) -> int:
        with self._lock:
            return sum(letter.session_id == session_id for letter in self._letters)

    def list_sessions(self, *, after: str, limit: int) -> Sequence[SessionInfo]:
        with self._lock:
            names = sorted(name for name in self._sessions if name > after)
            return [self._info(name) for name in names[:limit]]

    def find_session(self, session_id: str) -> SessionInfo | None:
        with self._lock:
            return self._info(session_id) if session_id in self._sessions else None

    def _info(self, session_id: str) -> SessionInfo:
        rows = self._sessions[session_id]
        return SessionInfo(session_id, rows.created_at, rows.match_strategy, None)

    # -- upkeep --------------------------------------------------------------------------------

    def prune_receipts(self, *, before: Micros, keep_per_session: int) -> int:
        with self._lock:
            dropped = 0
            for rows in self._sessions.values():
                newest = sorted(rows.receipts.values(), key=lambda receipt: -receipt.position)
                kept = [receipt for receipt in newest if receipt.created_at >= before]
                kept = kept[:keep_per_session]
                dropped += len(rows.receipts) - len(kept)
                rows.receipts = {(receipt.agent_id, receipt.key): receipt for receipt in kept}
            return dropped

    def put_dead_letter(self, letter: DeadLetter) -> None:
        with self._lock:
            known = {(kept.session_id, kept.position, kept.created_at) for kept in self._letters}
            if (letter.session_id, letter.position, letter.created_at) not in known:
                self._letters.append(letter)

    def delete_session(
        self, session_id: str, *, node_id: str, token: int
    ) -> Iterator[Mapping[str, int]]:
        yield self._remove_session(session_id, node_id, token)

    def finish_deletions(self) -> Iterator[Mapping[str, int]]:
        return iter(())  # nothing of it outlives the process

    def _remove_session(self, session_id: str, node_id: str, token: int) -> Mapping[str, int]:
        with self._lock:
            if session_id not in self._sessions:
                raise StoreRejected("there is no such session to delete")
            if not self._is_held(session_id, node_id, token):
                raise StoreRejected("the session to delete is held by another writer")
            rows = self._sessions.pop(session_id)
            letters = [letter for letter in self._letters if letter.session_id == session_id]
            self._letters = [letter for letter in self._letters if letter not in letters]
            lease = self._leases[session_id]
            lease.token += 1
            lease.expires_at = 0
            return {
                "edge": len(rows.edges),
                "concept": len(rows.concepts),
                "interaction": len(rows.interactions),
                "synonym": len(rows.synonyms),
                "reservation": len(rows.reservations),
                "audit_event": len(rows.transitions),
                "receipt": len(rows.receipts),
                "dead_letter": len(letters),
                "session": 1,
            }

    def close(self) -> None:
        """Nothing to give back; the rows stay."""


def _check_text(value: Any) -> None:
    """Refuse text that is no Unicode (half of a surrogate pair), wherever it stands."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise StoreRejected(str(error)) from error
    elif isinstance(value, list | tuple):
        for item in value:
            _check_text(item)


def _json_copy(value: Json) -> Json:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreRejected(str(error)) from error
    _check_text(text)
    return json.loads(text)


def _apply(rows: _Rows, mutation: Mutation, others: Iterable[_Rows]) -> None:
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
        case ApplyTransition(transition=transition):
            _apply_transition(rows, transition, others)
        case SetRootGoal(root_goal=root_goal):
            rows.root_goal = _json_copy(root_goal)
        case PutSynonym(source_key=source_key, canonical_key=canonical_key):
            rows.synonyms[source_key] = canonical_key
        case PutReservation(reservation=reservation):
            rows.reservations[reservation.node_id] = reservation
        case DeleteReservation(node_id=node_id):
            rows.reservations.pop(node_id, None)


def _put_interaction(rows: _Rows, interaction: Interaction, others: Iterable[_Rows]) -> None:
    known = rows.interactions.get(interaction.id)
    is_moved = known is not None and (known.previous_id, known.created_at) != (
        interaction.previous_id,
        interaction.created_at,
    )
    if is_moved or any(interaction.id in other.interactions for other in others):
        raise StoreRejected(f"interaction {interaction.id} stands elsewhere")
    rows.interactions[interaction.id] = interaction


def _put_concept(rows: _Rows, concept: Concept, others: Iterable[_Rows]) -> None:
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


def _delete_concept(rows: _Rows, concept_id: NodeId) -> None:
    concept = rows.concepts.pop(concept_id, None)
    if concept is not None and rows.holder_by_key.get(concept.canonical_key) == concept_id:
        del rows.holder_by_key[concept.canonical_key]
    rows.reservations.pop(concept_id, None)
    for ends in [ends for ends in rows.edges if concept_id in ends[:2]]:
        _delete_edge(rows, rows.edges[ends].id)


def _delete_edge(rows: _Rows, edge_id: NodeId) -> None:
    ends = rows.ends_by_edge.pop(edge_id, None)
    if ends is not None:
        del rows.edges[ends]


def _put_edge(rows: _Rows, edge: Edge, others: Iterable[_Rows]) -> None:
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


def _apply_transition(rows: _Rows, transition: Transition, others: Iterable[_Rows]) -> None:
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


def _snapshot(session_id: str, rows: _Rows) -> tuple[Snapshot, list[str]]:
    """The rows as a sound snapshot, and a sentence for each one left out."""
    by_time = sorted(rows.interactions.values(), key=lambda item: item.created_at)
    interactions, faults = soundness.in_chain_order(by_time)
    joined: list[Edge] = []
    for edge in rows.edges.values():
        fault = soundness.edge_fault(edge, rows.interactions, rows.concepts)
        if fault is None:
            joined.append(edge)
        else:
            faults.append(soundness.set_aside("Edge", edge.id, fault))
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
    )
    return snapshot, faults
