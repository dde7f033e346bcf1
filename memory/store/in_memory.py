"""`InMemoryStore`: a `GraphStore` whose rows live as long as the object.

The double for tests, and the store of a server that promises to keep nothing. It honours the rules
of the durable store, which one contract suite checks on both. It applies mutations one by one, in
log order, while the durable store gathers them: so each is the other's reference.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memory.engine.embedding import EmbeddingContract
from memory.engine.mutations import Group, Receipt
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
from memory.store.in_memory_rows import (
    Rows,
    apply,
    check_text,
    json_copy,
    move_aside,
    snapshot_of,
)


def _wall_time() -> Micros:
    return time.time_ns() // 1000


@dataclass(slots=True)
class _LeaseRow:
    node_id: str = ""
    endpoint: str = ""
    token: int = 0
    position: int = 0
    expires_at: Micros = 0


class InMemoryStore:
    """A `GraphStore` whose rows live as long as the object; safe to call from any thread.

    `clock` plays the store's clock, by which leases expire; without one it is the wall clock.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._now = _wall_time if clock is None else clock.now
        self._lock = threading.RLock()
        self._sessions: dict[str, Rows] = {}
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
        contract: EmbeddingContract | None = None,
    ) -> Lease | LeaseRefused | None:
        with self._lock:
            if session_id not in self._sessions:
                if not create:
                    return None
                self._sessions[session_id] = Rows(created_at, match_strategy, contract)
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
            written: dict[str, Rows] = {}
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

    def _write(self, rows: Rows, session_id: str, group: Group) -> None:
        for mutation in group.mutations:
            check_text(mutation)
            apply(rows, mutation, self._others(session_id))
        if group.receipt is not None:
            receipt = replace(group.receipt, reply=json_copy(group.receipt.reply))
            rows.receipts[receipt.agent_id, receipt.key] = receipt

    def _others(self, session_id: str) -> list[Rows]:
        return [rows for name, rows in self._sessions.items() if name != session_id]

    def put_aside(self, loaded: LoadedSession, *, node_id: str, token: int, at: Micros) -> int:
        session_id = loaded.snapshot.session_id
        with self._lock:
            is_held = self._is_held(session_id, node_id, token)
            if not is_held or self._leases[session_id].position != loaded.position:
                raise StoreRejected("the session was written since its rows were found unusable")
            rows = self._sessions[session_id].copy()
            count = move_aside(rows, loaded.set_aside, self._others(session_id), at=at)
            self._sessions[session_id] = rows
            return count

    # -- reads ---------------------------------------------------------------------------------

    def load_session(self, session_id: str) -> LoadedSession | None:
        with self._lock:
            rows = self._sessions.get(session_id)
            if rows is None:
                return None
            snapshot, faults = snapshot_of(session_id, rows)
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

    def count_set_aside(self, session_id: str) -> int:
        with self._lock:
            rows = self._sessions.get(session_id)
            return 0 if rows is None else len(rows.aside)

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
                "embedding": len(rows.embeddings),
                "concept": len(rows.concepts),
                "interaction": len(rows.interactions),
                "synonym": len(rows.synonyms),
                "reservation": len(rows.reservations),
                "audit_event": len(rows.transitions),
                "receipt": len(rows.receipts),
                "dead_letter": len(letters),
                "set_aside": len(rows.aside),
                "session": 1,
            }

    def close(self) -> None:
        """Nothing to give back; the rows stay."""
