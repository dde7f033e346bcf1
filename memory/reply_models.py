"""What the verbs of agents answer, as models: for published schemas, never for checking.

Owns names and types of the structured part of replies. The replies themselves are made by the
engine's results (`as_wire`) and by the service; the tests hold every reply against its model.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """The root of every object in a reply: nothing beside the fields that are named."""

    model_config = ConfigDict(extra="forbid")


class Answered(Record):
    """The root of all replies."""

    warnings: list[str] = []


class DeriveReply(Answered):
    """What a derive did. `created` and `matched` hold concept ids, one per resolution.

    The last two are given in sessions that match by meaning: the concepts that new ones were linked
    to, and those they might replace (`memory.engine.hybrid.ReplacementCandidate`; spelled out here,
    the record would cost every agent as much as a tool's description).
    """

    summary: str
    interaction_id: str
    created: list[str]
    matched: list[str]
    reinforced: int
    semantic_merged: list[str] = []
    replacement_candidates: list[dict[str, Any]] = []


class ActionReply(Answered):
    """What a recorded action did."""

    summary: str
    interaction_id: str
    action_node: str
    created: list[str]
    edges: int


class AcceptedReply(Answered):
    """A write that is to be applied later. What becomes of it is told by its receipt."""

    summary: str
    accepted: Literal[True]


class AnnotationRecord(Record):
    """One line of warning on a hit."""

    kind: str
    text: str


class ElsewhereRecord(Record):
    """A copy of a hit in a layer."""

    session: str
    node_id: str


class HitRecord(Record):
    """One concept of an answer. `blast_radius` is given for canonical ones."""

    node_id: str
    content: str
    concept_type: str
    score: float
    is_canonical: bool
    blast_radius: int | None
    included_in_context: bool
    annotations: list[AnnotationRecord]
    companion_of: str | None = None
    possibly_superseded_by: str | None = None
    skipped_redundant: list[str] = []
    session: str | None = None
    also_in: list[ElsewhereRecord] = []


class RecallReply(Answered):
    """An answer: a block of text within the token budget, and every hit."""

    context: str
    hits: list[HitRecord]
    left_out: int
    source: Literal["store"] | None = None


class ConceptRecord(Record):
    """A concept in a list; its content is cut if long."""

    node_id: str
    content: str
    concept_type: str
    status: str
    agent_id: str
    created_at: str


class ConceptsReply(Answered):
    """A page of concepts; `next` asks for the following one."""

    summary: str
    concepts: list[ConceptRecord]
    next: str | None


class EventRecord(Record):
    """Something that happened. What `data` holds depends on the kind; see the page on events."""

    id: int
    kind: str
    agent_id: str | None
    occurred_at: str
    position: int
    data: dict[str, Any] | None


class GapRecord(Record):
    """Events after `after` and before `resume` are not kept any more; `lost` counts them."""

    after: int
    resume: int
    lost: int


class EventsReply(Answered):
    """Events in the order of their ids. Ask `since` `resume` for what follows, up to `newest`."""

    summary: str
    events: list[EventRecord]
    gap: GapRecord | None
    resume: int
    newest: int


class NeighbourRecord(Record):
    """A node near the focus, and the edge by which it was met first."""

    node_id: str
    label: str
    edge_type: str
    direction: Literal["out", "in"]
    weight: float


class LevelRecord(Record):
    """All nodes first met at one distance."""

    hop: int
    neighbours: list[NeighbourRecord]


class FocusRecord(Record):
    """The node looked at. `blast_radius` is null for an interaction."""

    node_id: str
    label: str
    blast_radius: int | None
    levels: list[LevelRecord]


class GateRecord(Record):
    """One gate before the next status. `is_strict`: the bar must be exceeded, not reached.

    `sentence` says why it is not passed; `subject` is the concept in the way, if one is.
    """

    gate: str
    measured: float | None
    bar: float | None
    is_strict: bool
    met: bool
    sentence: str | None = None
    subject: str | None = None


class DemotionRecord(Record):
    """The last time a concept lost its status."""

    occurred_at: str
    reason: str
    superseded_by: str | None


class AdmissionRecord(Record):
    """Why a concept has its status, and every gate of its next one.

    Measured without evidence that is too young; `live_blast_radius` alone counts that too. The
    terms and the score of `solo` and the agents of `quorum` come under those policies.
    """

    policy: Literal["swarm", "solo", "quorum"]
    status: str
    next_status: str | None
    eligible: bool
    checks: list[GateRecord]
    reasons: list[str]
    distinct: int
    coverage: float
    blast_radius: int
    live_blast_radius: int
    gc_survived: int
    confirmations: int
    support_count: int
    solo_terms: dict[str, int] | None = None
    solo_score: float | None = None
    agents: int | None = None
    latest_demotion: DemotionRecord | None = None


class InspectReply(Answered):
    """A node and what surrounds it. `resolution` tells how a partial focus was understood.

    `admission` is null for an interaction.
    """

    view: str
    focus: FocusRecord
    resolution: str | None
    admission: AdmissionRecord | None


class FindingRecord(Record):
    """One thing that speaks against an action. `dependents` names at most ten of them."""

    decision: Literal["warn", "block"]
    kind: Literal["dependents", "reservation", "contradiction"]
    node_id: str
    content: str
    line: str
    dependents: list[str]
    dependent_count: int


class GuardReply(Answered):
    """May it be done? `reason` is the line of the first finding, where there is one."""

    decision: Literal["allow", "warn", "block"]
    reason: str
    findings: list[FindingRecord]
    named: int


class ReserveReply(Answered):
    """A lock taken or extended, until `expires_at`."""

    summary: str
    node_id: str
    agent_id: str
    expires_at: str
    released: bool


class ReleaseReply(Answered):
    """A lock given back."""

    summary: str
    node_id: str
    released: bool


class DemoteReply(Answered):
    """The observations kept, in the order of the text."""

    summary: str
    chunk_group_id: str
    created: list[str]


class SaintRecord(Record):
    """A canonical memory."""

    node_id: str
    content: str
    concept_type: str
    blast_radius: int
    access_count: int
    created_at: str


class SaintsReply(Answered):
    """The canonical memories, the most load-bearing first."""

    summary: str
    count: int
    saints: list[SaintRecord]


class ContractRecord(Record):
    """What vectors are of: only those of equal contracts are compared."""

    kind: str
    model: str | None
    dim: int
    template: str


class ReembeddingRecord(Record):
    """How far the newest re-embedding is. It goes on by itself while `running` or `paused`."""

    state: Literal["running", "paused", "done", "failed"]
    embedded: int
    total: int
    without_vector: int
    error: str | None


class EmbeddingRecord(Record):
    """The session's contract, the embedder of the server, and the way from one to the other."""

    contract: ContractRecord | None
    configured: ContractRecord | None
    reembedding: ReembeddingRecord | None


class CyclesRecord(Record):
    """How the background cycles stand; `round_ms` is how long the last round took."""

    promotion_policy: str
    hot_list_size: int
    mutations_since_sweep: int
    pending_survivors: bool
    swept_at: str | None
    evaluated_at: str | None
    round_ms: float


class StatsReply(Answered):
    """Counts and health. `flush_lag_ms` is the age of the oldest uncommitted write."""

    summary: str
    session: str
    interaction_count: int
    concept_count: int
    edge_count: int
    node_count: int
    canonical_count: int
    concepts_by_type: dict[str, int]
    concepts_by_status: dict[str, int]
    edges_by_type: dict[str, int]
    epoch: int
    position: int
    durability: str | None
    flush_lag_ms: int
    flush_depth: int
    degraded: bool
    missing_vectors: int
    resident_bytes: int
    dead_lettered: int
    set_aside: int
    embedding: EmbeddingRecord
    cycles: CyclesRecord | None


class ReceiptReply(Answered):
    """How a write ended: `reply` is what it answered, `error` why it was refused.

    `accepted` waits to be applied, `applied` is not yet committed. `after_restart`: found in the
    store by a process that did not write it.
    """

    key: str
    state: Literal["accepted", "applied", "committed", "refused", "unknown"]
    after_restart: bool
    reply: dict[str, Any] | None
    error: dict[str, Any] | None
