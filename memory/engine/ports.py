"""What the engine and the service ask of the world. Adapters implement these; tests double them.

`GraphStore` is called from worker threads only: its commit, lease and read calls block. A store
raises `StoreTransient` when trying again may help (including "the commit's outcome is unknown"),
and `StoreRejected` when this data will never be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from memory.engine.audit_chain import NO_CHAIN, BlankedRows, SealedAct, StoredChain
from memory.engine.embedding import EmbeddingContract
from memory.engine.mutations import Call, Group, PurgeText, Receipt
from memory.engine.times import Micros
from memory.engine.types import AuditEntry, Edge, Interaction, Json, NodeId, Snapshot


class Clock(Protocol):
    """Wall time for records, and a monotonic one for waits."""

    def now(self) -> Micros: ...

    def monotonic(self) -> float: ...


class IdSource(Protocol):
    """Fresh ids."""

    def next_id(self) -> NodeId:
        """A random UUID (version 4) as lower-case text."""

    def next_ordered_id(self, now: Micros) -> NodeId:
        """A UUID that sorts after every earlier one of this source (version 7 with a counter)."""


class StoreTransient(Exception):
    """The attempt failed, or its outcome is unknown; the same attempt may succeed later."""


class StoreReplaced(StoreTransient):
    """Another database stands where the store's was opened, as when a copy is put in its place."""


class StoreRejected(Exception):
    """The store will never accept this data (constraint, type, corruption)."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a session. `token` grows with every acquisition and never falls.

    `position` is the last committed position of the session's log.
    """

    session_id: str
    node_id: str
    token: int
    position: int


@dataclass(frozen=True, slots=True)
class LeaseRefused:
    """Another node holds a live lease."""

    session_id: str
    node_id: str
    endpoint: str
    expires_in_seconds: float


@dataclass(frozen=True, slots=True)
class BeingDeleted:
    """The name belongs to a deleted session whose rows are not all removed yet."""

    session_id: str


@dataclass(frozen=True, slots=True)
class SessionBatch:
    """Consecutive groups of one session, to be written under a token from an expected position."""

    session_id: str
    token: int
    expected_position: int
    groups: tuple[Group, ...]

    @property
    def last_position(self) -> int:
        return self.groups[-1].position


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """What the lease row of a session says now."""

    node_id: str
    token: int
    position: int


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One row of the session list."""

    session_id: str
    created_at: Micros
    match_strategy: str
    closed_at: Micros | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A call whose group the store refused, kept so that it can be submitted again."""

    session_id: str
    position: int
    call: Call | None
    error: str
    created_at: Micros


@dataclass(frozen=True, slots=True)
class Removal:
    """A concept that was taken out: its audit row, and whether the concept is back.

    Without texts in the row its text was purged.
    """

    entry: AuditEntry
    is_back: bool


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One row of a session's log of events; `position` and `occurred_at` are its group's."""

    id: int
    position: int
    kind: str
    agent_id: str
    occurred_at: Micros
    data: Json


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in the order of their ids, and what the log holds: ids from `oldest` to `newest`.

    An empty log has 1 and 0. `read_to` is the id up to which all that was asked for is in `events`.
    """

    events: tuple[StoredEvent, ...] = ()
    oldest: int = 1
    newest: int = 0
    read_to: int = 0


@dataclass(frozen=True, slots=True)
class SetAside:
    """A stored row that a load could not use as it stands (a foreign hand), told in a sentence.

    `table` and `row_id` name it; the id is whatever is stored there. For a column of the session's
    own row the id is the column's name. It is None where a row was missing.
    """

    sentence: str
    table: str
    row_id: Any
    instead: Interaction | Edge | None = None
    """What the snapshot holds in its place: a re-joined interaction, a Temporal edge put in."""


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A session as stored. `receipt_digests` maps (agent, key) to (verb + body) digests.

    The snapshot's concepts and edges stand in any order: putting half a million in order takes
    longer than making them, and the graph does not ask for it.
    """

    snapshot: Snapshot
    position: int
    receipt_digests: Mapping[tuple[str, str], str]
    set_aside: tuple[SetAside, ...] = ()
    """Rows that could not be used; still where they were, until `put_aside` moves them."""
    contracts: tuple[str, ...] = ()
    """Keys of all contracts under which vectors are stored, sorted; the session's own or not."""
    cycle_state: Json = None
    """What the background cycles go on from; None in a session that has had none."""
    event_id: int = 0
    """Of the newest event in the log; 0 before the first."""
    chain: StoredChain = NO_CHAIN
    """What the next audit row is linked to; of the name, whichever sessions have borne it."""


class Due(StrEnum):
    """What a session that nobody has open may wait for; see `PutCycleState`."""

    EVALUATE = "evaluate"
    COLLECT = "collect"


class GraphStore(Protocol):
    """The durable side of all sessions of one database."""

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
        contract: EmbeddingContract | None = None,
        act: SealedAct | None = None,
    ) -> Lease | LeaseRefused | BeingDeleted | None:
        """Take the session for this node, always with token + 1.

        Allowed when nobody holds it, the holder is this node, or its lease expired by the store's
        clock. With `create` an unknown session is made first, with that strategy and contract for
        good, and with its audit row if that is given; without, an unknown one gives None. A name
        whose deletion is under way is unknown, but cannot be made before the last step is taken:
        `BeingDeleted`, and nothing is done.
        """

    def renew_leases(
        self, tokens: Mapping[str, int], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        """Move the expiry of the sessions whose token is still ours, also after it passed.

        Returns the sessions that are no longer ours.
        """

    def release_lease(self, session_id: str, *, node_id: str, token: int) -> None:
        """End the expiry; the row stays so that tokens never fall."""

    def commit(
        self, batches: Sequence[SessionBatch], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        """Write the batches in one transaction with full sync.

        Locks the lease rows in id order, takes out sessions whose row, token or position is not
        as expected, writes the others in log order and advances position and expiry. Returns the
        sessions taken out. Raises `StoreTransient` or `StoreRejected`; then nothing was written,
        or (transient) the outcome is unknown.
        """

    def read_positions(self, session_ids: Sequence[str]) -> Mapping[str, StoredPosition]:
        """The stored positions, for settling a commit of unknown outcome."""

    def load_session(self, session_id: str) -> LoadedSession | None:
        """Everything of a session, or None if it does not exist."""

    def load_vectors(self, session_id: str, contract_key: str) -> Sequence[tuple[NodeId, bytes]]:
        """What is stored under one contract, by concept id; also of concepts that are gone."""

    def drop_vectors(
        self, session_id: str, contract_key: str, *, node_id: str, token: int
    ) -> Iterator[int]:
        """Remove what a session we hold keeps under a contract, one transaction a step.

        Each step tells how many went. Raises `StoreRejected`, and removes nothing, when the session
        is not ours or the contract is its own.
        """

    def put_aside(self, loaded: LoadedSession, *, node_id: str, token: int, at: Micros) -> int:
        """Store what a load made of the rows it could not use, in one transaction.

        They are moved to where they block nothing; re-joined interactions and the edges that were
        put in are written, and the next load has nothing to report. Of an interaction that is
        written over a copy is kept. Only `loaded.set_aside` says what is done, so the snapshot may
        be emptied. Returns how many rows were kept aside; none when called again. Raises
        `StoreRejected` if the session is not ours or was written since.
        """

    def count_set_aside(self, session_id: str) -> int:
        """How many rows of a session are kept aside."""

    def list_due(self, due: Due, *, at: Micros, limit: int) -> Sequence[str]:
        """Sessions that want a cycle of a kind by then and that nobody holds, longest due first."""

    def find_receipt(self, session_id: str, agent_id: str, key: str) -> Receipt | None:
        """A committed receipt."""

    def list_events(
        self, session_id: str, *, after: int, limit: int, kinds: Sequence[str] = ()
    ) -> EventPage:
        """Committed events with larger ids than `after`, at most so many, of some kinds or all.

        They tell no text of a concept that is not stored (`memory.engine.event_texts`). An unknown
        session has none.
        """

    def prune_receipts(self, *, before: Micros, keep_per_session: int) -> int:
        """Drop receipts that are too old or too many; returns how many."""

    def put_dead_letter(self, letter: DeadLetter) -> None:
        """Keep a refused call."""

    def list_removals(
        self, session_id: str, *, before: NodeId | None, limit: int
    ) -> Sequence[Removal]:
        """What was taken out of a session, newest first, before an audit id (keyset paging).

        Purges of what lived until then are among it. The rows come without their removed states.
        """

    def find_removals(self, session_id: str, name: str) -> Sequence[Removal]:
        """The removals that a name means: an audit id, a concept's id, or its content.

        A content counts however it is spelt (`is_same`). With what was kept of each, newest first,
        at most `REMOVALS_FOUND`.
        """

    def find_traces(self, session_id: str, purge: PurgeText) -> Mapping[str, int]:
        """How many rows carrying out a purge would blank now, by table."""

    def find_blanked(self, session_id: str, purge: PurgeText) -> BlankedRows:
        """Which audit rows of the chain carrying out a purge would blank now."""

    def claim_chain_key(self, fingerprint: str) -> str:
        """Note the chain key's fingerprint if none is noted; the one that is, from now on."""

    def scrub(self) -> bool:
        """Let go of what was overwritten or deleted, so that no file of the store holds it.

        False when a reader holds on to it for now: to be tried again.
        """

    def count_dead_letters(self, session_id: str) -> int:
        """How many refused calls a session has."""

    def list_sessions(self, *, after: str, limit: int) -> Sequence[SessionInfo]:
        """Sessions by name, after a name (keyset paging)."""

    def find_session(self, session_id: str) -> SessionInfo | None:
        """One session, or None."""

    def delete_session(
        self,
        session_id: str,
        *,
        node_id: str,
        token: int,
        entry: AuditEntry,
        chain_key: bytes | None = None,
    ) -> Iterator[Mapping[str, int]]:
        """Remove a session we hold, one transaction a step; each step tells rows by table.

        Its audit rows stay, without texts, and out of sight of a later session of that name; the
        first step adds `entry` to them, linked under `chain_key`, with the rows to remove by table
        as `counts` of its detail and their mark as `deleted_at`.
        The first step marks it as gone: from then on nobody sees it and nothing is written to it,
        also if no further step is taken. Raises `StoreRejected` there if it is not ours. Steps that
        are taken after another deletion finished it remove nothing, whoever has the name by then.
        """

    def finish_deletions(self) -> Iterator[Mapping[str, int]]:
        """Go on with deletions that were cut short, one transaction a step."""

    def close(self) -> None:
        """Give connections back."""
