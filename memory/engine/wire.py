"""Records as JSON objects and back: snapshots and mutation batches in files.

Names and shapes are a stable contract (`docs/schema.md`): snake_case keys, PascalCase enumeration
values, RFC 3339 times, mutations tagged by `op`, nodes by `kind`. Reading checks types and raises
`InvalidSnapshot` naming the record; unknown keys are refused.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from memory.engine.embedding import EmbeddingContract, vector_bytes, vector_from
from memory.engine.errors import InvalidArgument, InvalidSnapshot
from memory.engine.limits import COUNTER_MAX
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
from memory.engine.times import Micros, format_rfc3339, parse_rfc3339
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    ChainLink,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Reservation,
    Snapshot,
    Status,
    Transition,
)

JsonObject = Mapping[str, Any]
T = TypeVar("T")

_FLOAT_WHOLE_MAX = 2**53  # larger whole numbers are no weights; a float may not hold them at all


class _Reader:
    """Takes typed values out of one JSON object and refuses what is left over."""

    def __init__(self, what: str, obj: Any) -> None:
        if not isinstance(obj, Mapping):
            raise InvalidSnapshot(f"{what} must be an object")
        self.what = f"{what} {str(obj.get('id', ''))[:40]}".rstrip()
        self.left = dict(obj)

    def take(self, name: str, kind: type[T], default: Any = ...) -> T:
        value = self.left.pop(name, default)
        if value is ...:
            raise InvalidSnapshot(f"{self.what}: {name} is missing")
        if value is default:
            return value  # type: ignore[no-any-return]  # the caller's own default
        if isinstance(value, bool) and kind is not bool:
            raise InvalidSnapshot(f"{self.what}: {name} has the wrong type")
        if kind is float and isinstance(value, int):
            value = math.inf if abs(value) > _FLOAT_WHOLE_MAX else float(value)
        if not isinstance(value, kind):
            raise InvalidSnapshot(f"{self.what}: {name} has the wrong type")
        return value

    def maybe(self, name: str, kind: type[T]) -> T | None:
        return None if self.left.get(name) is None and self._drop(name) else self.take(name, kind)

    def count(self, name: str, default: Any = ...) -> int:
        value = self.take(name, int, default)
        if not 0 <= value <= COUNTER_MAX:
            raise InvalidSnapshot(f"{self.what}: {name} must be in 0..={COUNTER_MAX}")
        return value

    def maybe_count(self, name: str) -> int | None:
        return None if self.left.get(name) is None and self._drop(name) else self.count(name)

    def _drop(self, name: str) -> bool:
        self.left.pop(name, None)
        return True

    def id(self, name: str) -> str:
        text = self.take(name, str)
        try:
            return str(uuid.UUID(text))
        except ValueError as error:
            raise InvalidSnapshot(f"{self.what}: {name} is not a UUID") from error

    def ids(self, name: str) -> list[str]:
        return [_Reader(self.what, {"id": item}).id("id") for item in self.take(name, list)]

    def maybe_id(self, name: str) -> str | None:
        return None if self.left.get(name) is None and self._drop(name) else self.id(name)

    def time(self, name: str) -> Micros:
        try:
            return parse_rfc3339(name, self.take(name, str))
        except InvalidArgument as error:
            raise InvalidSnapshot(f"{self.what}: {error.message}") from error

    def maybe_time(self, name: str) -> Micros | None:
        return None if self.left.get(name) is None and self._drop(name) else self.time(name)

    def choice(self, name: str, kind: Callable[[str], T]) -> T:
        text = self.take(name, str)
        try:
            return kind(text)
        except ValueError as error:
            raise InvalidSnapshot(f"{self.what}: {name} is unknown: {text[:40]!r}") from error

    def maybe_choice(self, name: str, kind: Callable[[str], T]) -> T | None:
        return None if self.left.get(name) is None and self._drop(name) else self.choice(name, kind)

    def finish(self, record: T) -> T:
        self.left.pop("session_id", None)
        if self.left:
            raise InvalidSnapshot(f"{self.what}: unknown key {min(self.left)!r}")
        return record


def _time(value: Micros | None) -> str | None:
    return None if value is None else format_rfc3339(value)


def interaction_from_json(obj: Any) -> Interaction:
    read = _Reader("interaction", obj)
    return read.finish(
        Interaction(
            id=read.id("id"),
            agent_id=read.take("agent_id", str),
            prompt_text=read.maybe("prompt_text", str),
            previous_id=read.maybe_id("previous_id"),
            created_at=read.time("created_at"),
            event_time=read.maybe_time("event_time"),
            is_backdated=read.take("is_backdated", bool, False),
        )
    )


def interaction_to_json(record: Interaction, session_id: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "session_id": session_id,
        "agent_id": record.agent_id,
        "prompt_text": record.prompt_text,
        "previous_id": record.previous_id,
        "created_at": format_rfc3339(record.created_at),
        **({} if record.event_time is None else {"event_time": _time(record.event_time)}),
        **({"is_backdated": True} if record.is_backdated else {}),
    }


def concept_from_json(obj: Any) -> Concept:
    read = _Reader("concept", obj)
    if read.left.pop("embedding", None) is not None:
        raise InvalidSnapshot(f"{read.what}: embedding is not supported here")
    return read.finish(
        Concept(
            id=read.id("id"),
            content=read.take("content", str),
            canonical_key=read.take("canonical_key", str),
            concept_type=read.choice("concept_type", ConceptType),
            origin_interaction=read.id("origin_interaction"),
            origin_agent=read.take("origin_agent", str),
            created_at=read.time("created_at"),
            access_count=read.count("access_count", 0),
            last_accessed=read.maybe_time("last_accessed"),
            gc_survived=read.count("gc_survived", 0),
            status=read.choice("canonization_status", Status),
            blast_radius=read.maybe_count("blast_radius"),
            last_demotion_time=read.maybe_time("last_demotion_time"),
            chunk_group_id=read.maybe("chunk_group_id", str),
        )
    )


def concept_to_json(record: Concept, session_id: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "session_id": session_id,
        "content": record.content,
        "canonical_key": record.canonical_key,
        "concept_type": str(record.concept_type),
        "origin_interaction": record.origin_interaction,
        "origin_agent": record.origin_agent,
        "created_at": format_rfc3339(record.created_at),
        "access_count": record.access_count,
        "last_accessed": _time(record.last_accessed),
        "gc_survived": record.gc_survived,
        "canonization_status": str(record.status),
        "blast_radius": record.blast_radius,
        "last_demotion_time": _time(record.last_demotion_time),
        "embedding": None,
        **({} if record.chunk_group_id is None else {"chunk_group_id": record.chunk_group_id}),
    }


def edge_from_json(obj: Any) -> Edge:
    read = _Reader("edge", obj)
    return read.finish(
        Edge(
            id=read.id("id"),
            source=read.id("source"),
            target=read.id("target"),
            edge_type=read.choice("edge_type", EdgeType),
            weight=read.take("weight", float),
            reinforcements=read.count("reinforcements", 1),
            created_at=read.time("created_at"),
            last_reinforced=read.time("last_reinforced"),
            created_by=read.take("created_by", str, ""),
            reinforced_by=read.take("reinforced_by", str, ""),
            event_time=read.maybe_time("event_time"),
        )
    )


def edge_to_json(record: Edge, session_id: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "session_id": session_id,
        "source": record.source,
        "target": record.target,
        "edge_type": str(record.edge_type),
        "weight": record.weight,
        "reinforcements": record.reinforcements,
        "created_at": format_rfc3339(record.created_at),
        "last_reinforced": format_rfc3339(record.last_reinforced),
        **({"created_by": record.created_by} if record.created_by else {}),
        **({"reinforced_by": record.reinforced_by} if record.reinforced_by else {}),
        **({} if record.event_time is None else {"event_time": _time(record.event_time)}),
    }


def transition_from_json(obj: Any) -> Transition:
    read = _Reader("transition", obj)
    return read.finish(
        Transition(
            id=read.id("id"),
            node_id=read.id("node_id"),
            from_status=read.choice("from_status", Status),
            to_status=read.choice("to_status", Status),
            blast_radius=read.maybe_count("blast_radius"),
            last_demotion_time=read.maybe_time("last_demotion_time"),
            occurred_at=read.time("occurred_at"),
            actor=read.take("actor", str, ""),
            reason=read.maybe("reason", str),
            superseded_by=read.maybe_id("superseded_by"),
        )
    )


def transition_to_json(record: Transition, session_id: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "session_id": session_id,
        "node_id": record.node_id,
        "from_status": str(record.from_status),
        "to_status": str(record.to_status),
        "blast_radius": record.blast_radius,
        "last_demotion_time": _time(record.last_demotion_time),
        "occurred_at": format_rfc3339(record.occurred_at),
        "actor": record.actor,
        "reason": record.reason,
        "superseded_by": record.superseded_by,
    }


def audit_entry_from_json(obj: Any) -> AuditEntry:
    read = _Reader("audit entry", obj)
    if read.left.get("kind") == AuditKind.TRANSITION:
        raise InvalidSnapshot(f"{read.what}: a step of a status is no audit entry")
    return read.finish(
        AuditEntry(
            id=read.id("id"),
            kind=read.choice("kind", AuditKind),
            node_id=read.maybe_id("node_id"),
            from_status=read.maybe_choice("from_status", Status),
            to_status=read.maybe_choice("to_status", Status),
            occurred_at=read.time("occurred_at"),
            actor=read.take("actor", str),
            reason=read.maybe("reason", str),
            detail=read.left.pop("detail", None),
            texts=read.left.pop("texts", None),
            removed=read.left.pop("removed", None),
        )
    )


def audit_entry_to_json(entry: AuditEntry, session_id: str) -> dict[str, Any]:
    return {
        **entry._asdict(),
        "session_id": session_id,
        "kind": str(entry.kind),
        "from_status": None if entry.from_status is None else str(entry.from_status),
        "to_status": None if entry.to_status is None else str(entry.to_status),
        "occurred_at": format_rfc3339(entry.occurred_at),
    }


def reservation_from_json(obj: Any) -> Reservation:
    read = _Reader("reservation", obj)
    return read.finish(
        Reservation(read.id("node_id"), read.take("agent_id", str), read.time("expires_at"))
    )


def reservation_to_json(record: Reservation, session_id: str) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "node_id": record.node_id,
        "agent_id": record.agent_id,
        "expires_at": format_rfc3339(record.expires_at),
    }


def _synonym_from_json(obj: Any) -> tuple[str, str]:
    read = _Reader("synonym", obj)
    return read.finish((read.take("source_key", str), read.take("canonical_key", str)))


def snapshot_from_json(obj: Any) -> Snapshot:
    """Read a session snapshot; the graph's invariants are checked when it is loaded."""
    read = _Reader("snapshot", obj)
    session_id = read.left.get("session_id")
    if not isinstance(session_id, str):
        raise InvalidSnapshot("snapshot: session_id is missing")

    def records(name: str, parse: Callable[[Any], T]) -> tuple[T, ...]:
        items = read.take(name, list, [])
        for item in items:
            if isinstance(item, Mapping) and item.get("session_id", session_id) != session_id:
                raise InvalidSnapshot(f"snapshot: {name} holds a record of another session")
        return tuple(map(parse, items))

    return read.finish(
        Snapshot(
            session_id=session_id,
            created_at=read.time("created_at"),
            root_goal=read.left.pop("root_goal", None),
            closed_at=read.maybe_time("closed_at"),
            interactions=records("interactions", interaction_from_json),
            concepts=records("concepts", concept_from_json),
            edges=records("edges", edge_from_json),
            synonyms=records("synonyms", _synonym_from_json),
            reservations=records("reservations", reservation_from_json),
            transitions=records("canonization_events", transition_from_json),
            match_strategy=read.take("match_strategy", str, "canonical"),
            contract=_contract_from_json(read.left.pop("embedding_contract", None)),
            vectors=records("embeddings", _embedding_from_json),
            standing=records("standing_audit_entries", audit_entry_from_json),
        )
    )


def _contract_from_json(obj: Any) -> EmbeddingContract | None:
    if obj is None:
        return None
    read = _Reader("embedding_contract", obj)
    return read.finish(
        EmbeddingContract(
            read.take("kind", str),
            read.maybe("model", str),
            read.take("dim", int),
            read.take("template", str),
        )
    )


def _embedding_from_json(obj: Any) -> tuple[str, bytes]:
    read = _Reader("embedding", obj)
    return read.finish((read.id("concept_id"), _vector(read.take("embedding", list))))


def _vector(numbers: list[Any]) -> bytes:
    try:
        return vector_bytes(np.asarray(numbers, dtype=np.float32))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidSnapshot("an embedding must be a list of numbers") from error


def _meaning_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Strategy, contract and vectors; nothing for a session that matches by words alone."""
    if snapshot.contract is None:
        is_default = snapshot.match_strategy == "canonical"
        return {} if is_default else {"match_strategy": snapshot.match_strategy}
    return {
        "match_strategy": snapshot.match_strategy,
        "embedding_contract": snapshot.contract.as_wire(),
        "embeddings": [
            {"concept_id": concept_id, "embedding": vector_from(vector).tolist()}
            for concept_id, vector in snapshot.vectors
        ],
    }


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The JSON form of a snapshot; reading it back gives an equal snapshot."""
    name = snapshot.session_id
    return {
        "session_id": name,
        "root_goal": snapshot.root_goal,
        "created_at": format_rfc3339(snapshot.created_at),
        "closed_at": _time(snapshot.closed_at),
        "interactions": [interaction_to_json(item, name) for item in snapshot.interactions],
        "concepts": [concept_to_json(item, name) for item in snapshot.concepts],
        "edges": [edge_to_json(item, name) for item in snapshot.edges],
        "synonyms": [
            {"session_id": name, "source_key": source, "canonical_key": target}
            for source, target in snapshot.synonyms
        ],
        "reservations": [reservation_to_json(item, name) for item in snapshot.reservations],
        "canonization_events": [transition_to_json(item, name) for item in snapshot.transitions],
        **_meaning_to_json(snapshot),
        **_standing_to_json(snapshot),
    }


def _standing_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Nothing for a session in which nothing was restored or confirmed."""
    name = snapshot.session_id
    entries = [audit_entry_to_json(entry, name) for entry in snapshot.standing]
    return {"standing_audit_entries": entries} if entries else {}


def _link_from(mutation: _Reader) -> ChainLink | None:
    """The place in the hash chain that a mutation may tell of its audit row."""
    link = mutation.maybe("link", dict)
    if link is None:
        return None
    read = _Reader("link", link)
    sequence, digests = read.count("sequence"), read.maybe("digests", str)
    return read.finish(ChainLink(sequence, digests, read.take("hash", str)))


def _linked(link: ChainLink | None) -> dict[str, Any]:
    return {} if link is None else {"link": link._asdict()}


def mutation_from_json(obj: Any) -> Mutation:
    """Read one mutation of a batch file."""
    read = _Reader("mutation", obj)
    match read.take("op", str):
        case "upsert_node":
            node = dict(read.take("node", dict))
            kind = node.pop("kind", None)
            if kind == "interaction":
                return read.finish(PutInteraction(interaction_from_json(node)))
            if kind == "concept":
                return read.finish(PutConcept(concept_from_json(node)))
            raise InvalidSnapshot("mutation: node kind must be interaction or concept")
        case "upsert_edge":
            return read.finish(PutEdge(edge_from_json(read.take("edge", dict))))
        case "delete_node":
            return read.finish(DeleteConcept(read.id("id")))
        case "delete_edge":
            return read.finish(DeleteEdge(read.id("id")))
        case "canonization_transition":
            event = transition_from_json(read.take("event", dict))
            detail = read.left.pop("detail", None)
            return read.finish(ApplyTransition(event, detail, _link_from(read)))
        case "set_root_goal":
            return read.finish(SetRootGoal(read.left.pop("root_goal", None)))
        case "set_embedding":
            return read.finish(
                PutVector(
                    read.id("id"), read.take("contract", str), _vector(read.take("embedding", list))
                )
            )
        case "switch_contract":
            contract = _contract_from_json(read.take("contract", dict))
            assert contract is not None
            return read.finish(SwitchContract(contract))
        case "put_synonym":
            return read.finish(
                PutSynonym(read.take("source_key", str), read.take("canonical_key", str))
            )
        case "put_reservation":
            return read.finish(
                PutReservation(reservation_from_json(read.take("reservation", dict)))
            )
        case "delete_reservation":
            return read.finish(DeleteReservation(read.id("node_id")))
        case "delete_synonym":
            return read.finish(DeleteSynonym(read.take("source_key", str)))
        case "put_audit":
            entry = audit_entry_from_json(read.take("entry", dict))
            return read.finish(PutAudit(entry, _link_from(read)))
        case "put_cycle_state":
            due = read.maybe_time("evaluate_at"), read.maybe_time("collect_at")
            return read.finish(PutCycleState(read.left.pop("state", None), *due))
        case "put_access":
            concept_id, accesses = read.id("id"), read.count("access_count")
            return read.finish(PutAccess(concept_id, accesses, read.time("last_accessed")))
        case "purge_text":
            names = tuple(read.ids("concept_ids"))
            return read.finish(PurgeText(names, read.take("content", str)))
        case unknown:
            raise InvalidSnapshot(f"mutation: unknown op {unknown[:40]!r}")


def mutation_to_json(mutation: Mutation, session_id: str) -> dict[str, Any]:
    """The JSON form of a mutation; `mutation_from_json` reads it back."""
    match mutation:
        case PutInteraction(interaction):
            node = interaction_to_json(interaction, session_id)
            return {"op": "upsert_node", "node": {"kind": "interaction", **node}}
        case PutConcept(concept):
            node = concept_to_json(concept, session_id)
            return {"op": "upsert_node", "node": {"kind": "concept", **node}}
        case PutEdge(edge):
            return {"op": "upsert_edge", "edge": edge_to_json(edge, session_id)}
        case DeleteConcept(node_id):
            return {"op": "delete_node", "id": node_id}
        case DeleteEdge(edge_id):
            return {"op": "delete_edge", "id": edge_id}
        case ApplyTransition(transition, detail, link):
            event = transition_to_json(transition, session_id)
            told = {} if detail is None else {"detail": detail}
            return {"op": "canonization_transition", "event": event, **told, **_linked(link)}
        case SetRootGoal(root_goal):
            return {"op": "set_root_goal", "root_goal": root_goal}
        case PutSynonym(source, target):
            return {"op": "put_synonym", "source_key": source, "canonical_key": target}
        case PutVector(concept_id, contract, vector):
            numbers = vector_from(vector).tolist()
            return {
                "op": "set_embedding",
                "id": concept_id,
                "contract": contract,
                "embedding": numbers,
            }
        case SwitchContract(contract):
            return {"op": "switch_contract", "contract": contract.as_wire()}
        case PutReservation(reservation):
            wire = reservation_to_json(reservation, session_id)
            return {"op": "put_reservation", "reservation": wire}
        case DeleteReservation(node_id):
            return {"op": "delete_reservation", "node_id": node_id}
        case DeleteSynonym(source):
            return {"op": "delete_synonym", "source_key": source}
        case PutAudit(entry, link):
            wire = audit_entry_to_json(entry, session_id)
            return {"op": "put_audit", "entry": wire, **_linked(link)}
        case PutCycleState(state, evaluate_at, collect_at):
            return {
                "op": "put_cycle_state",
                "state": state,
                "evaluate_at": _time(evaluate_at),
                "collect_at": _time(collect_at),
            }
        case PutAccess(concept_id, access_count, last_accessed):
            return {
                "op": "put_access",
                "id": concept_id,
                "access_count": access_count,
                "last_accessed": format_rfc3339(last_accessed),
            }
        case PurgeText(concept_ids, content):
            return {"op": "purge_text", "concept_ids": list(concept_ids), "content": content}
