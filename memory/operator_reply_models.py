"""What the verbs of people and of sessions as a whole answer, as models: published, never checked.

Owns names and types of the structured part of those replies; `memory.reply_models` has the verbs of
agents. The tests hold every reply against its model.
"""

from __future__ import annotations

from typing import Literal

from memory.reply_models import Answered, ContractRecord, Record


class ConfirmReply(Answered):
    """What a person confirmed; `confirmations` counts all since it was made or last restored."""

    summary: str
    node_id: str
    audit_id: str
    content: str
    canonization_status: str
    confirmations: int


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


class DisappearanceRecord(Record):
    """A removal. `content` is cut, and null once it was purged."""

    audit_id: str
    node_id: str
    content: str | None
    kind: Literal["retract", "collect", "purge"]
    earlier_status: str | None
    actor: str
    reason: str | None
    removed_at: str
    state: Literal["restorable", "back", "purged"]


class DisappearancesReply(Answered):
    """A page of removals, newest first; `next` is the id to ask the rest after, null at the end."""

    summary: str
    disappearances: list[DisappearanceRecord]
    next: str | None


class LostEdgeRecord(Record):
    """An edge that did not come back. `name` is what its other end said, cut."""

    edge_id: str
    edge_type: str
    other_end: str
    name: str | None
    why: str


class RestoreReply(Answered):
    """A concept that is back at status None. `audit_id` is the row of its removal.

    `lost_edges` are the first of the `lost_edge_count` edges that did not come back.
    """

    summary: str
    node_id: str
    audit_id: str
    content: str
    earlier_status: str
    restored_edges: int
    lost_edges: list[LostEdgeRecord]
    lost_edge_count: int


class PurgeReply(Answered):
    """What was blanked, or would be (`content` is given then alone), in rows by table.

    `still_in` are live concepts that hold the same words, the first of `still_in_count`. While
    `pending`, files of the store may still hold the text.
    """

    summary: str
    node_id: str
    content: str | None
    purged: bool
    blanked: dict[str, int]
    still_in: list[str]
    still_in_count: int
    pending: bool


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


class SessionRecord(Record):
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


class ReembedReply(Answered):
    """How far it is: `embedded` of `total` concepts have a vector of `to_contract`.

    `error` says what is in the way while `paused`, and what ended it when `failed`.
    """

    summary: str
    session: str
    state: Literal["running", "paused", "done", "not_needed", "not_started", "failed"]
    embedded: int
    total: int
    without_vector: int
    error: str | None
    from_contract: ContractRecord | None
    to_contract: ContractRecord


class JobFailure(Record):
    """What went wrong in one session; a job of the whole server has none."""

    session: str | None
    code: str
    message: str


class JobRunReply(Answered):
    """What a run came to, counted in sessions; a job of the whole server counts as one."""

    summary: str
    job: str
    ran: int
    not_due: int
    running: int
    left: int
    failed: int
    failures: list[JobFailure]
    did: dict[str, int]


class JobRecord(Record):
    """A job, who asks for it, and how it last ended since the server started."""

    job: str
    about: str
    interval_seconds: float
    asked_interval_seconds: float | None
    is_server_wide: bool
    run_by: Literal["cluster", "ticker"]
    last_run_at: str | None
    last_outcome: str | None


class JobListReply(Answered):
    """Every job of the server."""

    summary: str
    jobs: list[JobRecord]


class TokenRecord(Record):
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
