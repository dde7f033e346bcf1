"""The records of a session's graph, frozen.

Ids are UUIDs as lower-case text with hyphens; text order is UUID order, so "by id" is plain string
order. Instants are `Micros`. Records are named tuples: they are built by the hundred thousand when
a session is opened, and a named tuple costs a sixth of a frozen dataclass there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from memory.engine.embedding import EmbeddingContract
from memory.engine.times import Micros

NodeId: TypeAlias = str
Json: TypeAlias = Any


class ConceptType(StrEnum):
    """What a concept is; fixed when it is first written."""

    ENTITY = "Entity"
    LOGIC = "Logic"
    CONSTRAINT = "Constraint"
    RESOURCE = "Resource"
    OBSERVATION = "Observation"


class Status(StrEnum):
    """How far a concept has climbed. Only a transition changes it."""

    NONE = "None"
    CANDIDATE = "Candidate"
    VENERABLE = "Venerable"
    CANONICAL = "Canonical"


class EdgeType(StrEnum):
    """Why two nodes are joined; see `docs/glossary.md` for the direction of each."""

    TEMPORAL = "Temporal"
    DERIVES = "Derives"
    CO_OCCURRENCE = "CoOccurrence"
    CAUSAL = "Causal"
    DEPENDENCY = "Dependency"  # dependent -> dependency
    HIERARCHICAL = "Hierarchical"  # parent -> child
    SEMANTIC = "Semantic"
    CONTRADICTS = "Contradicts"
    SUSPECTED_SUPERSEDES = "SuspectedSupersedes"


class Interaction(NamedTuple):
    """One write call. Append-only; `previous_id` joins them to one chain per session.

    `event_time` is what its caller told. It counts as evidence only if the caller had the right to
    date things (`is_backdated`); otherwise the write time does.
    """

    id: NodeId
    agent_id: str
    prompt_text: str | None
    previous_id: NodeId | None
    created_at: Micros
    event_time: Micros | None = None
    is_backdated: bool = False

    @property
    def about_time(self) -> Micros:
        """The time the content is about: `event_time` if given, else the write time."""
        return self.created_at if self.event_time is None else self.event_time


class Concept(NamedTuple):
    """A statement or name. `content` is kept as written; `canonical_key` is what matching uses."""

    id: NodeId
    content: str
    canonical_key: str
    concept_type: ConceptType
    origin_interaction: NodeId
    origin_agent: str
    created_at: Micros
    access_count: int = 0
    last_accessed: Micros | None = None
    gc_survived: int = 0
    status: Status = Status.NONE
    blast_radius: int | None = None  # as stamped by the last transition, not live
    last_demotion_time: Micros | None = None
    chunk_group_id: str | None = None


class Edge(NamedTuple):
    """A directed edge, unique by (source, target, edge_type); writing it again reinforces it.

    `reinforcements` counts the writes, the first included. `created_by` and `reinforced_by` are
    the agents of the first and the last write. `event_time` is kept only of a write that was
    backdated by right.
    """

    id: NodeId
    source: NodeId
    target: NodeId
    edge_type: EdgeType
    weight: float
    reinforcements: int
    created_at: Micros
    last_reinforced: Micros
    created_by: str
    reinforced_by: str
    event_time: Micros | None = None


class Transition(NamedTuple):
    """One step of a concept's status, kept for ever as an audit row."""

    id: NodeId
    node_id: NodeId
    from_status: Status
    to_status: Status
    blast_radius: int | None
    last_demotion_time: Micros | None
    occurred_at: Micros
    actor: str
    reason: str | None = None
    superseded_by: NodeId | None = None


class AuditKind(StrEnum):
    """What an audit row tells of."""

    TRANSITION = "transition"
    RETRACT = "retract"  # a person took a concept out
    COLLECT = "collect"  # the system did
    RESTORE = "restore"
    PURGE = "purge"
    ROOT_GOAL = "root-goal"
    SYNONYM = "synonym"
    CONFIRM = "confirm"
    SESSION_CREATE = "session-create"
    SESSION_DELETE = "session-delete"
    REEMBED = "reembed"  # a session's vectors became those of another embedder
    TOKEN_CREATE = "token-create"
    TOKEN_REVOKE = "token-revoke"


class AuditEntry(NamedTuple):
    """One act on a session's memory that is no step of a status, kept for ever as an audit row.

    `node_id` is None where the act was on the session. `detail` holds ids and numbers; text that
    was written to the memory stands in `texts` and `removed` alone, which a purge may blank.
    `reason` is what a person said.
    """

    id: NodeId
    kind: AuditKind
    node_id: NodeId | None
    from_status: Status | None
    to_status: Status | None
    occurred_at: Micros
    actor: str
    reason: str | None = None
    detail: Json = None
    texts: Json = None
    removed: Json = None


class ChainLink(NamedTuple):
    """The place of an audit row in its session's hash chain (`memory.engine.audit_chain`).

    `sequence` counts from 1 without gaps. `digests` is JSON text: the keyed digest of each text of
    the row, by column; None where it has no text.
    """

    sequence: int
    digests: str | None
    hash: str


class Reservation(NamedTuple):
    """An advisory soft lock on a node; active while `now < expires_at`."""

    node_id: NodeId
    agent_id: str
    expires_at: Micros


class Snapshot(NamedTuple):
    """Everything of one session's graph. Order: interactions by chain, the rest by id.

    `vectors` holds (concept, bytes) of the session's own contract only. `standing` holds the audit
    entries that still count for a concept (`memory.engine.standing`).
    """

    session_id: str
    created_at: Micros
    root_goal: Json
    interactions: tuple[Interaction, ...] = ()
    concepts: tuple[Concept, ...] = ()
    edges: tuple[Edge, ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()
    reservations: tuple[Reservation, ...] = ()
    transitions: tuple[Transition, ...] = ()
    closed_at: Micros | None = None
    match_strategy: str = "canonical"
    contract: EmbeddingContract | None = None
    vectors: tuple[tuple[NodeId, bytes], ...] = ()
    standing: tuple[AuditEntry, ...] = ()
