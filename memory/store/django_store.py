"""`DjangoStore`: the engine's `GraphStore` on Django's connections.

Owns which connection does what. The writing alias belongs to the one thread that first used it, the
committer's: a second writing connection would make both wait for each other's locks, so another
thread is refused loudly. Reads go through the reading alias from any thread and never wait for the
writer. What a mutation, a lease or a session looks like in SQL is the business of the neighbours.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from django.db import connections
from django.db.backends.utils import CursorWrapper

from memory.engine.audit_chain import BlankedRows, SealedAct
from memory.engine.embedding import EmbeddingContract
from memory.engine.mutations import PurgeText, Receipt
from memory.engine.ports import (
    BeingDeleted,
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
from memory.engine.times import Micros
from memory.engine.types import AuditEntry, NodeId
from memory.store import aside, audit, audit_trail, codecs, deletion, events, leases, purging
from memory.store.dialects import Dialect, dialect_for
from memory.store.loading import Reading, read_session
from memory.store.transactions import reading, store_failure, writing
from memory.store.writers import write_groups

_SESSION_COLUMNS: Final = "session_id, created_at, match_strategy, closed_at"
_PUT_DEAD_LETTER: Final = (
    f"INSERT INTO lambo_dead_letter ({', '.join(codecs.DEAD_LETTER_COLUMNS)})"
    f" VALUES ({', '.join(['%s'] * len(codecs.DEAD_LETTER_COLUMNS))})"
    " ON CONFLICT (session_id, position, created_at) DO NOTHING"
)


class DjangoStore:
    """All sessions of one database, durable.

    Methods that write (leases, `commit`, deletions, `prune_receipts`, `put_dead_letter`,
    `put_aside`, `scrub`) and `read_positions` must be called by one thread; the others by any. All
    of them block. Errors are `StoreTransient` and `StoreRejected`, as the port says.
    """

    def __init__(self, writer_alias: str = "memory", reader_alias: str = "memory_ro") -> None:
        self._writer_alias = writer_alias
        self._reader_alias = reader_alias
        self._writer_thread: threading.Thread | None = None
        self._claim_lock = threading.Lock()

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
    ) -> Lease | LeaseRefused | BeingDeleted | None:
        with writing(self._writer()) as cursor:
            if create:
                _create_session(cursor, session_id, match_strategy, contract, created_at, act)
            # The lease row first, as every writer: no deletion can begin between look and take.
            leases.locked_positions(cursor, self._dialect(), [session_id])
            if not _is_visible(cursor, session_id):
                # Removing what is left of it takes many transactions: not the asker's business.
                return BeingDeleted(session_id) if create else None
            lease = leases.take_lease(
                cursor,
                self._dialect(),
                session_id,
                node_id=node_id,
                endpoint=endpoint,
                ttl_seconds=ttl_seconds,
            )
            if lease is None:
                raise StoreRejected(f"session {session_id!r} has no lease row")
            return lease

    def renew_leases(
        self, tokens: Mapping[str, int], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        with writing(self._writer()) as cursor:
            return leases.renew(
                cursor, self._dialect(), tokens, node_id=node_id, ttl_seconds=ttl_seconds
            )

    def release_lease(self, session_id: str, *, node_id: str, token: int) -> None:
        with writing(self._writer()) as cursor:
            leases.release(cursor, session_id, node_id=node_id, token=token)

    def read_positions(self, session_ids: Sequence[str]) -> Mapping[str, StoredPosition]:
        # On the writing connection: after a commit of unknown outcome only a transaction that
        # queues behind it can tell for certain: it waits for the locks that one may still hold.
        with writing(self._writer()) as cursor:
            return leases.locked_positions(cursor, self._dialect(), session_ids)

    # -- the log -------------------------------------------------------------------------------

    def commit(
        self, batches: Sequence[SessionBatch], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        for batch in batches:
            _assert_consecutive(batch)
        dialect = self._dialect()
        with writing(self._writer()) as cursor:
            stored = leases.locked_positions(
                cursor, dialect, [batch.session_id for batch in batches]
            )
            admitted = [
                batch
                for batch in batches
                if stored.get(batch.session_id)
                == StoredPosition(node_id, batch.token, batch.expected_position)
            ]
            for batch in admitted:
                write_groups(cursor, dialect, batch.session_id, batch.groups)
            leases.advance(cursor, dialect, admitted, ttl_seconds=ttl_seconds)
        return frozenset(batch.session_id for batch in batches).difference(
            batch.session_id for batch in admitted
        )

    # -- reads, from any thread ----------------------------------------------------------------

    def load_session(self, session_id: str) -> LoadedSession | None:
        dialect = dialect_for(connections[self._reader_alias].vendor)
        try:
            with reading(self._reader_alias) as cursor:
                return read_session(Reading(cursor, dialect, session_id))
        except StoreRejected as error:
            if not dialect.is_undecodable(error):
                raise
        # Some text of the session is not UTF-8. Read it again in a way that survives that, on a
        # connection of its own, since the change would stay with it.
        connections[self._reader_alias].close()
        try:
            with reading(self._reader_alias) as cursor:
                dialect.decode_leniently(cursor.connection)
                return read_session(Reading(cursor, dialect, session_id, is_lenient=True))
        finally:
            connections[self._reader_alias].close()

    def load_vectors(self, session_id: str, contract_key: str) -> Sequence[tuple[NodeId, bytes]]:
        dialect = dialect_for(connections[self._reader_alias].vendor)
        with reading(self._reader_alias) as cursor:
            return dialect.read_vectors(cursor, session_id, contract_key)

    def find_receipt(self, session_id: str, agent_id: str, key: str) -> Receipt | None:
        with reading(self._reader_alias) as cursor:
            cursor.execute(
                f"SELECT {', '.join(codecs.RECEIPT_COLUMNS[1:])} FROM lambo_receipt"
                " WHERE session_id = %s AND agent_id = %s AND key = %s",
                [session_id, agent_id, key],
            )
            row = cursor.fetchone()
            return None if row is None else codecs.receipt_from(row)

    def list_events(
        self, session_id: str, *, after: int, limit: int, kinds: Sequence[str] = ()
    ) -> EventPage:
        with reading(self._reader_alias) as cursor:
            return events.list_events(cursor, session_id, after=after, limit=limit, kinds=kinds)

    def list_removals(
        self, session_id: str, *, before: NodeId | None, limit: int
    ) -> Sequence[Removal]:
        with reading(self._reader_alias) as cursor:
            return audit.list_removals(cursor, session_id, before=before, limit=limit)

    def find_removals(self, session_id: str, name: str) -> Sequence[Removal]:
        with reading(self._reader_alias) as cursor:
            return audit.find_removals(cursor, session_id, name)

    def find_traces(self, session_id: str, purge: PurgeText) -> Mapping[str, int]:
        dialect = dialect_for(connections[self._reader_alias].vendor)
        with reading(self._reader_alias) as cursor:
            return purging.find_traces(cursor, dialect, session_id, purge)

    def find_blanked(self, session_id: str, purge: PurgeText) -> BlankedRows:
        dialect = dialect_for(connections[self._reader_alias].vendor)
        with reading(self._reader_alias) as cursor:
            audit_ids = purging.find_audit_ids(cursor, dialect, session_id, purge)
            return audit_trail.blanked_rows(cursor, session_id, audit_ids)

    def count_dead_letters(self, session_id: str) -> int:
        return self._count("lambo_dead_letter", session_id)

    def count_set_aside(self, session_id: str) -> int:
        return self._count("lambo_set_aside", session_id)

    def _count(self, table: str, session_id: str) -> int:
        with reading(self._reader_alias) as cursor:
            cursor.execute(f"SELECT count(*) FROM {table} WHERE session_id = %s", [session_id])
            (count,) = cursor.fetchone()
            return int(count)

    def list_sessions(self, *, after: str, limit: int) -> Sequence[SessionInfo]:
        with reading(self._reader_alias) as cursor:
            cursor.execute(
                f"SELECT {_SESSION_COLUMNS} FROM lambo_session"
                " WHERE session_id > %s AND deleted_at IS NULL ORDER BY session_id LIMIT %s",
                [after, limit],
            )
            return [SessionInfo(*row) for row in cursor.fetchall()]

    def list_due(self, due: Due, *, at: Micros, limit: int) -> Sequence[str]:
        column = "evaluate_at" if due is Due.EVALUATE else "collect_at"
        with reading(self._reader_alias) as cursor:
            cursor.execute(
                "SELECT session.session_id FROM lambo_session session"
                " JOIN lambo_lease lease ON lease.session_id = session.session_id"
                f" WHERE session.{column} <= %s AND session.deleted_at IS NULL"
                f" AND lease.expires_at <= {self._dialect().now_micros}"
                f" ORDER BY session.{column}, session.session_id LIMIT %s",
                [at, limit],
            )
            return [str(name) for (name,) in cursor.fetchall()]

    def find_session(self, session_id: str) -> SessionInfo | None:
        with reading(self._reader_alias) as cursor:
            cursor.execute(
                f"SELECT {_SESSION_COLUMNS} FROM lambo_session"
                " WHERE session_id = %s AND deleted_at IS NULL",
                [session_id],
            )
            row = cursor.fetchone()
            return None if row is None else SessionInfo(*row)

    # -- upkeep, by the writing thread ---------------------------------------------------------

    def prune_receipts(self, *, before: Micros, keep_per_session: int) -> int:
        return deletion.prune_receipts(
            self._writer(), before=before, keep_per_session=keep_per_session
        )

    def claim_chain_key(self, fingerprint: str) -> str:
        with writing(self._writer()) as cursor:
            return audit_trail.claim_key(cursor, fingerprint)

    def put_dead_letter(self, letter: DeadLetter) -> None:
        with writing(self._writer()) as cursor:
            cursor.execute(_PUT_DEAD_LETTER, codecs.dead_letter_row(letter))

    def put_aside(self, loaded: LoadedSession, *, node_id: str, token: int, at: Micros) -> int:
        alias, dialect = self._writer(), self._dialect()
        try:
            with writing(alias) as cursor:
                # Some text of these rows may not be UTF-8.
                dialect.decode_leniently(cursor.connection)
                return aside.put_aside(cursor, dialect, loaded, node_id=node_id, token=token, at=at)
        finally:
            connections[alias].close()  # the change would stay with it

    def drop_vectors(
        self, session_id: str, contract_key: str, *, node_id: str, token: int
    ) -> Iterator[int]:
        yield from deletion.drop_vectors(
            self._writer(), session_id, contract_key, node_id=node_id, token=token
        )

    def scrub(self) -> bool:
        alias, dialect = self._writer(), self._dialect()
        try:
            with connections[alias].cursor() as cursor:
                return dialect.scrub(cursor)
        except Exception as error:
            raise store_failure(error, connections[alias], at_commit=False) from error

    def delete_session(
        self,
        session_id: str,
        *,
        node_id: str,
        token: int,
        entry: AuditEntry,
        chain_key: bytes | None = None,
    ) -> Iterator[Mapping[str, int]]:
        alias = self._writer()
        with writing(alias) as cursor:
            mark = deletion.mark_deleted(
                cursor,
                self._dialect(),
                session_id,
                node_id=node_id,
                token=token,
                entry=entry,
                chain_key=chain_key,
            )
        yield {}
        yield from deletion.remove_marked(alias, session_id, mark)

    def finish_deletions(self) -> Iterator[Mapping[str, int]]:
        alias = self._writer()
        with writing(alias) as cursor:
            marked = deletion.marked_sessions(cursor)
        for session_id, mark in marked:
            yield from deletion.remove_marked(alias, session_id, mark)

    def close(self) -> None:
        """Close the calling thread's connections; called last by the writing thread."""
        for alias in (self._writer_alias, self._reader_alias):
            connections[alias].close()
        with self._claim_lock:
            if self._writer_thread is threading.current_thread():
                self._writer_thread = None

    # -- which connection ----------------------------------------------------------------------

    def _writer(self) -> str:
        """The writing alias, for the one thread it belongs to."""
        current = threading.current_thread()
        with self._claim_lock:
            owner = self._writer_thread
            if owner is None or not owner.is_alive():
                self._writer_thread = owner = current
        if owner is not current:
            raise RuntimeError(
                f"the store's writing connection belongs to thread {owner.name!r};"
                f" {current.name!r} must hand its work over to it"
            )
        return self._writer_alias

    def _dialect(self) -> Dialect:
        return dialect_for(connections[self._writer_alias].vendor)


def _create_session(
    cursor: CursorWrapper,
    session_id: str,
    match_strategy: str,
    contract: EmbeddingContract | None,
    created_at: Micros,
    act: SealedAct | None,
) -> None:
    """Make the session and its lease, and add the audit row given, unless it exists."""
    values = codecs.contract_row(contract)
    cursor.execute(
        "INSERT INTO lambo_session"
        f" (session_id, match_strategy, created_at, {', '.join(codecs.CONTRACT_COLUMNS)})"
        f" VALUES (%s, %s, %s{', %s' * len(values)}) ON CONFLICT (session_id) DO NOTHING",
        [session_id, match_strategy, created_at, *values],
    )
    if cursor.rowcount == 1:
        leases.create_lease(cursor, session_id)
        if act is not None:
            audit.add_act(cursor, session_id, act.entry, chain_key=act.chain_key)


def _is_visible(cursor: CursorWrapper, session_id: str) -> bool:
    cursor.execute(
        "SELECT 1 FROM lambo_session WHERE session_id = %s AND deleted_at IS NULL", [session_id]
    )
    return cursor.fetchone() is not None


def _assert_consecutive(batch: SessionBatch) -> None:
    """The groups of a batch follow its expected position without a gap."""
    for offset, group in enumerate(batch.groups, start=1):
        assert group.session_id == batch.session_id
        assert group.position == batch.expected_position + offset
    assert batch.groups
