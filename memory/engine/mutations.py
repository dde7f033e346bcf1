"""The session's log: frozen mutations gathered into groups.

A write is planned as a tuple of mutations. The same records are applied to the RAM graph
(`Graph.apply`), written to the store and replayed, so the three cannot disagree. A mutation carries
the state *after* it; replaying one twice changes nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from memory.engine.embedding import EmbeddingContract
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    ChainLink,
    Concept,
    Edge,
    Interaction,
    Json,
    NodeId,
    Reservation,
    Transition,
)


class PutInteraction(NamedTuple):
    """Append an interaction to the chain."""

    interaction: Interaction


class PutConcept(NamedTuple):
    """Create a concept, or update its counters. Never touches the status of a known one."""

    concept: Concept


class PutEdge(NamedTuple):
    """Create an edge or store its reinforced form."""

    edge: Edge


class DeleteConcept(NamedTuple):
    """Remove a concept with whatever edges are left on it. A missing one is a no-op."""

    id: NodeId


class DeleteEdge(NamedTuple):
    """Remove an edge. A missing one is a no-op."""

    id: NodeId


class ApplyTransition(NamedTuple):
    """Move a concept's status and keep the audit row; a known event id is a no-op.

    `detail` is the evidence that decided it, as JSON of ids and numbers; of a session only the
    audit row keeps it. `link` is the row's place in the hash chain, where there is one.
    """

    transition: Transition
    detail: Json = None
    link: ChainLink | None = None


class PutVector(NamedTuple):
    """Set a concept's vector under a contract (`EmbeddingContract.key`); see `vector_bytes`.

    It goes with its concept when that is deleted. One of another contract than the session's stands
    beside the session's own and is not searched, until the session switches to that contract.
    """

    concept_id: NodeId
    contract: str
    vector: bytes


class SwitchContract(NamedTuple):
    """Give the session another embedding contract: the vectors put under it are now its own.

    Those of every other contract count for nothing from here on.
    """

    contract: EmbeddingContract


class SetRootGoal(NamedTuple):
    """Replace the session's root goal (any JSON, or None)."""

    root_goal: Json


class PutSynonym(NamedTuple):
    """Map one raw spelling to another."""

    source_key: str
    canonical_key: str


class DeleteSynonym(NamedTuple):
    """Read a spelling as itself again. A missing one is a no-op."""

    source_key: str


class PutReservation(NamedTuple):
    """Take or extend a soft lock."""

    reservation: Reservation


class DeleteReservation(NamedTuple):
    """Give a soft lock back."""

    node_id: NodeId


class PutAudit(NamedTuple):
    """Keep an audit row; a known id is a no-op. `link` is as of `ApplyTransition`."""

    entry: AuditEntry
    link: ChainLink | None = None


class PutCycleState(NamedTuple):
    """Keep what the background cycles of a session go on from; no change of the graph.

    `evaluate_at` and `collect_at` tell when the session wants its next evaluation and its next
    sweep if nobody writes to it, None for never.
    """

    state: Json
    evaluate_at: Micros | None
    collect_at: Micros | None


class PutAccess(NamedTuple):
    """Note that a concept was shown to somebody; no change of the graph. A missing one is a no-op.

    `access_count` and `last_accessed` are those after it.
    """

    concept_id: NodeId
    access_count: int
    last_accessed: Micros


class PurgeText(NamedTuple):
    """Blank a text wherever it is stored beside concepts, prompts, synonyms and the root goal.

    What those hold of it goes by mutations of their own. Here: receipts, dead letters, rows set
    aside, and the texts of audit rows; `concept_ids` are the concepts that bore the text. It stands
    last in its group, and blanks what the groups up to here have written.
    """

    concept_ids: tuple[NodeId, ...]
    content: str


Mutation: TypeAlias = (
    PutInteraction
    | PutConcept
    | PutEdge
    | DeleteConcept
    | DeleteEdge
    | ApplyTransition
    | PutVector
    | SwitchContract
    | SetRootGoal
    | PutSynonym
    | PutReservation
    | DeleteReservation
    | DeleteSynonym
    | PutAudit
    | PutCycleState
    | PutAccess
    | PurgeText
)


@dataclass(frozen=True, slots=True)
class Call:
    """Who asked for a write and with which words; kept by receipts and dead letters.

    `digest` is the SHA-256 of verb and arguments, to tell a retry from another request under the
    same key. `arguments` is JSON text in a group, and the parsed value in a dead letter.
    """

    verb: str
    agent_id: str
    key: str
    digest: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Receipt:
    """The remembered answer to a write, scoped by (session, agent, key)."""

    agent_id: str
    key: str
    verb: str
    digest: str
    reply: Json
    position: int
    created_at: Micros


class LoggedEvent(NamedTuple):
    """What a group tells listeners (`memory.engine.events`); ids count from 1."""

    id: int
    kind: str
    agent_id: str
    data: Json


@dataclass(frozen=True, slots=True)
class Group:
    """One indivisible entry of a session's log: it is stored whole or not at all.

    `position` counts from 1 and has no gaps. `created_at` is when it was applied to the RAM graph.
    """

    session_id: str
    position: int
    mutations: tuple[Mutation, ...]
    created_at: Micros
    call: Call | None = None
    receipt: Receipt | None = None
    events: tuple[LoggedEvent, ...] = ()
    byte_count: int = 0  # an estimate, for the size of batches

    @property
    def row_count(self) -> int:
        """Rows this group writes, receipt and events included."""
        return len(self.mutations) + (self.receipt is not None) + len(self.events)
