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
from typing import Any

from memory.engine.audit_chain import (
    AuditChain,
    BlankedRows,
    SealedAct,
    columns_of_entry,
    make_link,
)
from memory.engine.audit_verification import AuditFacts, StoredAuditRow
from memory.engine.embedding import EmbeddingContract
from memory.engine.event_texts import shown_events
from memory.engine.mutations import Group, PurgeText, PutAudit, Receipt
from memory.engine.ports import (
    Clock,
    DeadLetter,
    Due,
    EventPage,
    Lease,
    LeaseRefused,
    LoadedSession,
    Removal,
    SessionBatch,
    SessionInfo,
    StoredPosition,
    StoreRejected,
)
from memory.engine.times import SECOND, Micros
from memory.engine.types import AuditEntry, NodeId
from memory.store import in_memory_audit
from memory.store.in_memory_rows import (
    Rows,
    apply,
    check_text,
    json_copy,
    move_aside,
    page_of_events,
    put_events,
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
        self._graves: dict[str, list[StoredAuditRow]] = {}  # audit rows of deleted sessions
        self._key_fingerprint: str | None = None

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
        act: SealedAct | None = None,
    ) -> Lease | LeaseRefused | None:
        with self._lock:
            if session_id not in self._sessions:
                if not create:
                    return None
                self._sessions[session_id] = Rows(created_at, match_strategy, contract)
                if act is not None:
                    self._add_act(session_id, act)
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
            letters: dict[str, list[DeadLetter]] = {}
            for batch in admitted:
                rows = self._sessions[batch.session_id].copy()
                letters[batch.session_id] = self._letters_of(batch.session_id)
                for group in batch.groups:
                    self._write(rows, batch.session_id, group, letters[batch.session_id])
                written[batch.session_id] = rows
            # Nothing can fail from here on: all of it is stored, or none.
            self._sessions.update(written)
            self._letters = [item for item in self._letters if item.session_id not in letters]
            self._letters += [letter for some in letters.values() for letter in some]
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

    def _letters_of(self, session_id: str) -> list[DeadLetter]:
        return [letter for letter in self._letters if letter.session_id == session_id]

    def _write(self, rows: Rows, session_id: str, group: Group, letters: list[DeadLetter]) -> None:
        for mutation in group.mutations:
            check_text(mutation)
            apply(rows, mutation, self._others(session_id))
        if group.receipt is not None:
            receipt = replace(group.receipt, reply=json_copy(group.receipt.reply))
            rows.receipts[receipt.agent_id, receipt.key] = receipt
        put_events(rows, group)
        for mutation in group.mutations:
            if isinstance(mutation, PurgeText):
                in_memory_audit.purge(rows, letters, mutation)

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
                tuple(sorted({contract for contract, _ in rows.embeddings})),
                json_copy(rows.cycles.state),
                rows.events[-1].id if rows.events else 0,
                in_memory_audit.chain_of(self._audit_rows(session_id)),
            )

    def load_vectors(self, session_id: str, contract_key: str) -> Sequence[tuple[NodeId, bytes]]:
        with self._lock:
            held = self._sessions[session_id].embeddings.items()
            return sorted((name, some) for (key, name), some in held if key == contract_key)

    def list_due(self, due: Due, *, at: Micros, limit: int) -> Sequence[str]:
        with self._lock:
            now, waiting = self._now(), []
            for name, rows in self._sessions.items():
                evaluate_at, collect_at = rows.cycles.evaluate_at, rows.cycles.collect_at
                wanted = evaluate_at if due is Due.EVALUATE else collect_at
                if wanted is not None and wanted <= at and self._leases[name].expires_at <= now:
                    waiting.append((wanted, name))
            return [name for _, name in sorted(waiting)[:limit]]

    def find_receipt(self, session_id: str, agent_id: str, key: str) -> Receipt | None:
        with self._lock:
            rows = self._sessions.get(session_id)
            return None if rows is None else rows.receipts.get((agent_id, key))

    def list_events(
        self, session_id: str, *, after: int, limit: int, kinds: Sequence[str] = ()
    ) -> EventPage:
        with self._lock:
            rows = self._sessions.get(session_id)
            if rows is None:
                return EventPage(read_to=after)
            page = page_of_events(rows.events, after, limit, kinds)
            return replace(page, events=shown_events(page.events, rows.concepts.__contains__))

    def list_removals(
        self, session_id: str, *, before: NodeId | None, limit: int
    ) -> Sequence[Removal]:
        with self._lock:
            rows = self._sessions.get(session_id)
            if rows is None:
                return []
            return in_memory_audit.list_removals(rows, before=before, limit=limit)

    def find_removals(self, session_id: str, name: str) -> Sequence[Removal]:
        with self._lock:
            rows = self._sessions.get(session_id)
            return [] if rows is None else in_memory_audit.find_removals(rows, name)

    def find_traces(self, session_id: str, purge: PurgeText) -> Mapping[str, int]:
        with self._lock:
            rows = self._sessions.get(session_id)
            if rows is None:
                return {}
            return in_memory_audit.purge(rows.copy(), self._letters_of(session_id), purge)

    def find_blanked(self, session_id: str, purge: PurgeText) -> BlankedRows:
        with self._lock:
            rows = self._sessions.get(session_id)
            before = self._audit_rows(session_id)
            if rows is None:
                return BlankedRows()
            after = rows.copy()
            in_memory_audit.purge(after, self._letters_of(session_id), purge)
            return in_memory_audit.blanked_rows(before, in_memory_audit.stored_rows(after))

    def _add_act(self, session_id: str, act: SealedAct) -> None:
        link = None
        if act.chain_key is not None:
            stored = in_memory_audit.chain_of(self._audit_rows(session_id))
            head = AuditChain.after(act.chain_key, session_id, stored).head
            link = make_link(act.chain_key, session_id, head, columns_of_entry(act.entry))
        put = PutAudit(act.entry, link)
        apply(self._sessions[session_id], put, self._others(session_id))

    def _audit_rows(self, session_id: str) -> list[StoredAuditRow]:
        """Every audit row under a name, those of deleted sessions first."""
        rows = self._sessions.get(session_id)
        own = [] if rows is None else in_memory_audit.stored_rows(rows)
        return [*self._graves.get(session_id, ()), *own]

    def claim_chain_key(self, fingerprint: str) -> str:
        with self._lock:
            self._key_fingerprint = self._key_fingerprint or fingerprint
            return self._key_fingerprint

    # -- the audit trail -----------------------------------------------------------------------

    def find_key_fingerprint(self) -> str | None:
        return self._key_fingerprint

    def list_audited(self, *, after: str, limit: int) -> Sequence[str]:
        with self._lock:
            names = sorted({*self._sessions, *self._graves})
            return [name for name in names if name > after and self._audit_rows(name)][:limit]

    def read_facts(self, session_id: str) -> AuditFacts:
        with self._lock:
            return in_memory_audit.facts_of(self._audit_rows(session_id))

    def read_rows(
        self, session_id: str, *, after: tuple[Any, str] | None, limit: int
    ) -> Sequence[StoredAuditRow]:
        with self._lock:
            return in_memory_audit.page_of(self._audit_rows(session_id), after=after, limit=limit)

    def scrub(self) -> bool:
        return True  # what was written over is gone

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

    def drop_vectors(
        self, session_id: str, contract_key: str, *, node_id: str, token: int
    ) -> Iterator[int]:
        with self._lock:
            rows = self._sessions.get(session_id)
            own = None if rows is None or rows.contract is None else rows.contract.key
            if rows is None or not self._is_held(session_id, node_id, token) or own == contract_key:
                raise StoreRejected("these vectors are not ours to remove")
            dropped = [place for place in rows.embeddings if place[0] == contract_key]
            for place in dropped:
                del rows.embeddings[place]
        yield len(dropped)

    def delete_session(
        self,
        session_id: str,
        *,
        node_id: str,
        token: int,
        entry: AuditEntry,
        chain_key: bytes | None = None,
    ) -> Iterator[Mapping[str, int]]:
        yield self._remove_session(session_id, node_id, token, entry, chain_key)

    def finish_deletions(self) -> Iterator[Mapping[str, int]]:
        return iter(())  # nothing of it outlives the process

    def _remove_session(
        self, session_id: str, node_id: str, token: int, entry: AuditEntry, key: bytes | None
    ) -> Mapping[str, int]:
        with self._lock:
            if session_id not in self._sessions:
                raise StoreRejected("there is no such session to delete")
            if not self._is_held(session_id, node_id, token):
                raise StoreRejected("the session to delete is held by another writer")
            rows, mark = self._sessions[session_id], self._now()
            letters = self._letters_of(session_id)
            self._letters = [letter for letter in self._letters if letter not in letters]
            lease = self._leases[session_id]
            lease.token += 1
            lease.expires_at = 0
            counts = {
                "edge": len(rows.edges),
                "embedding": len(rows.embeddings),
                "concept": len(rows.concepts),
                "interaction": len(rows.interactions),
                "synonym": len(rows.synonyms),
                "reservation": len(rows.reservations),
                "receipt": len(rows.receipts),
                "event": len(rows.events),
                "dead_letter": len(letters),
                "set_aside": len(rows.aside),
                "session": 1,
            }
            last = entry._replace(
                detail={**(entry.detail or {}), "counts": counts, "deleted_at": mark}
            )
            known = self._audit_rows(session_id)
            self._graves[session_id] = in_memory_audit.buried(known, session_id, last, key, mark)
            del self._sessions[session_id]
            return counts

    def close(self) -> None:
        """Nothing to give back; the rows stay."""
