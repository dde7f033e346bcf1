"""What each verb answers, as models: for published schemas, never for checking.

Owns names and types of the structured part of replies. The replies themselves are made by the
engine's results (`as_wire`) and by the service; the tests hold every reply against its model.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answered(_Record):
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


class AnnotationRecord(_Record):
    """One line of warning on a hit."""

    kind: str
    text: str


class HitRecord(_Record):
    """One concept of an answer. `blast_radius` is given for canonical ones."""

    node_id: str
    content: str
    concept_type: str
    score: float
    is_canonical: bool
    blast_radius: int | None
    included_in_context: bool
    annotations: list[AnnotationRecord]


class RecallReply(Answered):
    """An answer: a block of text within the token budget, and every hit."""

    context: str
    hits: list[HitRecord]
    left_out: int


class NeighbourRecord(_Record):
    """A node near the focus, and the edge by which it was met first."""

    node_id: str
    label: str
    edge_type: str
    direction: Literal["out", "in"]
    weight: float


class LevelRecord(_Record):
    """All nodes first met at one distance."""

    hop: int
    neighbours: list[NeighbourRecord]


class FocusRecord(_Record):
    """The node looked at. `blast_radius` is null for an interaction."""

    node_id: str
    label: str
    blast_radius: int | None
    levels: list[LevelRecord]


class InspectReply(Answered):
    """A node and what surrounds it. `resolution` tells how a partial focus was understood."""

    view: str
    focus: FocusRecord
    resolution: str | None


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


class RetractReply(Answered):
    """What was removed, or would be."""

    summary: str
    target: str
    content: str
    canonization_status: str
    blast_radius: int
    dependents: list[str]
    incident_edges: int
    dry_run: bool
    removed: bool


class RootGoalReply(Answered):
    """The goal now held, and the concepts it made Venerable."""

    summary: str
    goals: list[str]
    promoted: list[str]
    changed: bool


class SynonymReply(Answered):
    """A spelling now read as another."""

    summary: str
    source: str
    target: str
    changed: bool


class SaintRecord(_Record):
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
    dead_lettered: int
    set_aside: int


class ReceiptReply(Answered):
    """How a write ended: `applied` is not yet committed. `reply` is what it answered."""

    key: str
    state: Literal["applied", "committed"]
    reply: dict[str, Any]


class SessionRecord(_Record):
    """One session. `open` tells whether it is held in RAM now."""

    session: str
    created_at: str
    match_strategy: str
    open: bool


class SessionListReply(Answered):
    """A page of sessions; `next` is the name to ask the rest after, null at the end."""

    summary: str
    sessions: list[SessionRecord]
    next: str | None


class SessionCreateReply(Answered):
    """A session made."""

    summary: str
    session: str
    created: bool


class SessionCloseReply(Answered):
    """A session put away; `closed` is false when it was not open."""

    summary: str
    session: str
    closed: bool


class SessionDeleteReply(Answered):
    """A session removed for good, with rows removed by table."""

    summary: str
    session: str
    deleted: dict[str, int]


class TokenRecord(_Record):
    """A token without its secret."""

    id: str
    name: str
    agent: str
    scopes: list[str]
    sessions: list[str]
    may_act_for_others: bool
    state: Literal["live", "expired", "revoked"]
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class TokenCreateReply(Answered):
    """A token made. `token` is what its holder sends; it is shown this once."""

    summary: str
    token: str
    id: str
    name: str
    agent: str
    scopes: list[str]
    sessions: list[str]
    may_act_for_others: bool
    state: Literal["live", "expired", "revoked"]
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class TokenListReply(Answered):
    """Every token that is kept."""

    summary: str
    tokens: list[TokenRecord]


class TokenRevokeReply(Answered):
    """A token that opens nothing any more; `revoked` is false when it was revoked before."""

    summary: str
    id: str
    revoked: bool
