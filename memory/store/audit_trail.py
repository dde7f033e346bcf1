"""All audit rows of a database, for proving them: one page at a time, on the reading connection.

Owns the statements about the places in the hash chain. Trusts no row: what a foreign hand put into
a column is given as it is, text that is not UTF-8 as bytes.

Invariant: nothing here writes, so it may run beside a server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from django.db import connections
from django.db.backends.utils import CursorWrapper

from memory.engine.audit_chain import AuditColumns, BlankedRows, ChainHead, StoredChain
from memory.engine.audit_verification import AuditFacts, ChainAct, StoredAuditRow
from memory.engine.ports import StoreRejected
from memory.engine.types import AuditKind, Json
from memory.store.dialects import dialect_for
from memory.store.transactions import reading

KEY_SETTING: Final = "chain_key_fingerprint"
HASH_DIGITS: Final = 64
SEQUENCE_MAX: Final = 2**62

_ROW_COLUMNS: Final = ", ".join(AuditColumns._fields)
_T = TypeVar("_T")


class DjangoAuditTrail:
    """The audit rows of all sessions of one database; see `AuditTrail` of the engine.

    `within` is a cursor whose transaction is read in, for rows that are not committed yet; whoever
    gives it sees to it that text that is not UTF-8 comes as bytes.
    """

    def __init__(
        self, reader_alias: str = "memory_ro", *, within: CursorWrapper | None = None
    ) -> None:
        self._alias = reader_alias
        self._within = within

    def find_key_fingerprint(self) -> str | None:
        return self._read(find_key_fingerprint)

    def list_audited(self, *, after: str, limit: int) -> Sequence[str]:
        def read(cursor: CursorWrapper) -> list[str]:
            # One look-up per name: a DISTINCT would read the entry of every row.
            names: list[str] = []
            name = after
            while len(names) < limit:
                cursor.execute(
                    "SELECT min(session_id) FROM lambo_audit_event WHERE session_id > %s", [name]
                )
                (name,) = cursor.fetchone()
                if name is None:
                    break
                names.append(name)
            return names

        return self._read(read)

    def read_facts(self, session_id: str) -> AuditFacts:
        def read(cursor: CursorWrapper) -> AuditFacts:
            cursor.execute(
                "SELECT sequence, kind, detail FROM lambo_audit_event WHERE session_id = %s"
                " AND sequence IS NOT NULL AND kind IN ('purge', 'session-delete')"
                " ORDER BY sequence, id",
                [session_id],
            )
            acts = [
                ChainAct(sequence, AuditKind(kind), _json(detail))
                for sequence, kind, detail in cursor.fetchall()
                if type(sequence) is int
            ]
            cursor.execute(
                "SELECT 1 FROM lambo_session WHERE session_id = %s AND deleted_at IS NOT NULL",
                [session_id],
            )
            is_being_deleted = cursor.fetchone() is not None
            return AuditFacts(_unchained_count(cursor, session_id), tuple(acts), is_being_deleted)

        return self._read(read)

    def read_rows(
        self, session_id: str, *, after: tuple[Any, str] | None, limit: int
    ) -> Sequence[StoredAuditRow]:
        condition, parameters = ("", [])
        if after is not None:
            condition, parameters = (" AND (sequence, id) > (%s, %s)", list(after))

        def read(cursor: CursorWrapper) -> list[StoredAuditRow]:
            cursor.execute(
                f"SELECT {_ROW_COLUMNS}, sequence, digests, link_hash, session_deleted_at"
                " FROM lambo_audit_event WHERE session_id = %s AND sequence IS NOT NULL"
                f"{condition} ORDER BY sequence, id LIMIT %s",
                [session_id, *parameters, limit],
            )
            width = len(AuditColumns._fields)
            return [
                StoredAuditRow(AuditColumns(*row[:width]), *row[width:])
                for row in cursor.fetchall()
            ]

        return self._read(read)

    def _read(self, read: Callable[[CursorWrapper], _T]) -> _T:
        if self._within is not None:
            return read(self._within)
        connection = connections[self._alias]
        dialect = dialect_for(connection.vendor)
        try:
            with reading(self._alias) as cursor:
                return read(cursor)
        except StoreRejected as error:
            if not dialect.is_undecodable(error):
                raise
        # Text that is not UTF-8: once more in a way that survives it, on a connection of its own.
        connection.close()
        try:
            with reading(self._alias) as cursor:
                dialect.decode_leniently(cursor.connection)
                return read(cursor)
        finally:
            connection.close()


def read_chain(cursor: CursorWrapper, session_id: str) -> StoredChain:
    """What a name's next audit row is linked to. A row whose place cannot be one is passed by."""
    latest_id = _latest_id(cursor, session_id)
    cursor.execute(
        "SELECT sequence, link_hash FROM lambo_audit_event WHERE session_id = %s"
        " AND sequence BETWEEN 1 AND %s ORDER BY sequence DESC, id DESC LIMIT 100",
        [session_id, SEQUENCE_MAX],
    )
    for sequence, link_hash in cursor.fetchall():
        is_sound = isinstance(link_hash, str) and len(link_hash) == HASH_DIGITS
        if type(sequence) is int and is_sound:
            return StoredChain(ChainHead(sequence, link_hash), latest_id=latest_id)
    return StoredChain(None, _unchained_count(cursor, session_id), latest_id)


def _latest_id(cursor: CursorWrapper, session_id: str) -> str | None:
    cursor.execute(
        "SELECT id FROM lambo_audit_event WHERE session_id = %s ORDER BY id DESC LIMIT 1",
        [session_id],
    )
    row = cursor.fetchone()
    return None if row is None else str(row[0])


def blanked_rows(cursor: CursorWrapper, session_id: str, audit_ids: Sequence[str]) -> BlankedRows:
    """The places of rows that a purge is going to blank, and of the newest row there is."""
    head = read_chain(cursor, session_id).head
    sequences = set()
    for audit_id in audit_ids:
        cursor.execute(
            "SELECT sequence FROM lambo_audit_event WHERE id = %s AND session_id = %s",
            [audit_id, session_id],
        )
        row = cursor.fetchone()
        if row is not None and type(row[0]) is int:
            sequences.add(row[0])
    return BlankedRows(ranges_of(sequences), 0 if head is None else head.sequence)


def ranges_of(sequences: set[int]) -> tuple[tuple[int, int], ...]:
    """Whole numbers as ranges with both ends included, in order."""
    ranges: list[tuple[int, int]] = []
    for sequence in sorted(sequences):
        if ranges and ranges[-1][1] == sequence - 1:
            ranges[-1] = (ranges[-1][0], sequence)
        else:
            ranges.append((sequence, sequence))
    return tuple(ranges)


def find_key_fingerprint(cursor: CursorWrapper) -> str | None:
    """The fingerprint that the database was given first, or None."""
    cursor.execute("SELECT value FROM lambo_setting WHERE name = %s", [KEY_SETTING])
    row = cursor.fetchone()
    return None if row is None else str(row[0])


def claim_key(cursor: CursorWrapper, fingerprint: str) -> str:
    """Keep the fingerprint of the chain key if there is none yet; the one that holds."""
    cursor.execute(
        "INSERT INTO lambo_setting (name, value) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING",
        [KEY_SETTING, fingerprint],
    )
    found = find_key_fingerprint(cursor)
    assert found is not None
    return found


def _unchained_count(cursor: CursorWrapper, session_id: str) -> int:
    cursor.execute(
        "SELECT count(*) FROM lambo_audit_event WHERE session_id = %s AND sequence IS NULL",
        [session_id],
    )
    (count,) = cursor.fetchone()
    return int(count)


def _json(text: Any) -> Json:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, TypeError):
        return None
