"""`DjangoTokenStore` and `InMemoryTokenStore`: tokens as rows, and as objects.

Owns the columns of `lambo_token` and nothing of what a token opens. Both keep digests and never see
a secret. The durable one shares the writing connection with the session store by being called on
the same thread.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from django.db.backends.utils import CursorWrapper

from memory.engine.audit_chain import ChainHead, SealedAct
from memory.engine.ports import StoreRejected
from memory.engine.rights import Scope
from memory.engine.server_acts import SERVER_CHAIN
from memory.engine.times import Micros
from memory.engine.tokens import TokenRecord, droppable_tokens
from memory.store.audit import add_act
from memory.store.transactions import reading, writing

_COLUMNS: Final = (
    "id, name, agent_id, scopes, session_patterns, may_act_for_others, digest,"
    " created_at, expires_at, revoked_at, last_used_at"
)
_PUT: Final = f"INSERT INTO lambo_token ({_COLUMNS}) VALUES ({', '.join(['%s'] * 11)})"
_LOAD: Final = f"SELECT {_COLUMNS} FROM lambo_token ORDER BY created_at, id"
_REVOKE: Final = "UPDATE lambo_token SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL"
_USED: Final = (
    "UPDATE lambo_token SET last_used_at = %s"
    " WHERE id = %s AND (last_used_at IS NULL OR last_used_at < %s)"
)
_DROP: Final = "DELETE FROM lambo_token WHERE id = %s"


class DjangoTokenStore:
    """A `TokenStore` on Django's connections. Writes belong to the committer's thread."""

    def __init__(self, writer_alias: str = "memory", reader_alias: str = "memory_ro") -> None:
        self._writer_alias = writer_alias
        self._reader_alias = reader_alias

    def put_token(self, record: TokenRecord, act: SealedAct | None = None) -> ChainHead | None:
        with writing(self._writer_alias) as cursor:
            cursor.execute(_PUT, _row(record))
            return _add_row(cursor, act)

    def load_tokens(self) -> Sequence[TokenRecord]:
        with reading(self._reader_alias) as cursor:
            return _load(cursor)

    def revoke_token(
        self, token_id: str, *, at: Micros, act: SealedAct | None = None
    ) -> ChainHead | None:
        with writing(self._writer_alias) as cursor:
            cursor.execute(_REVOKE, [at, token_id])
            return _add_row(cursor, act) if cursor.rowcount else None

    def note_token_use(self, used_at: Mapping[str, Micros]) -> None:
        with writing(self._writer_alias) as cursor:
            for token_id, moment in used_at.items():
                cursor.execute(_USED, [moment, token_id, moment])

    def drop_dead_tokens(self, *, before: Micros) -> int:
        with writing(self._writer_alias) as cursor:
            dropped = droppable_tokens(_load(cursor), before=before)
            for token_id in dropped:
                cursor.execute(_DROP, [token_id])
        return len(dropped)


def _add_row(cursor: CursorWrapper, act: SealedAct | None) -> ChainHead | None:
    if act is None:
        return None
    return add_act(cursor, SERVER_CHAIN, act.entry, chain_key=act.chain_key)


def _load(cursor: CursorWrapper) -> list[TokenRecord]:
    cursor.execute(_LOAD)
    return [record for row in cursor.fetchall() if (record := _record(row)) is not None]


def _row(record: TokenRecord) -> list[Any]:
    return [
        record.token_id,
        record.name,
        record.agent_id,
        json.dumps(sorted(record.scopes)),
        json.dumps(list(record.patterns), ensure_ascii=False),
        record.may_act_for_others,
        record.digest,
        record.created_at,
        record.expires_at,
        record.revoked_at,
        record.last_used_at,
    ]


def _record(row: Sequence[Any]) -> TokenRecord | None:
    """The record of a row; None for one that a foreign hand broke, which then opens nothing."""
    token_id, name, agent_id, scopes, patterns, for_others, digest, *times = row
    try:
        known = frozenset(Scope(word) for word in json.loads(scopes))
        listed = tuple(str(pattern) for pattern in json.loads(patterns))
    except (ValueError, TypeError):
        return None
    return TokenRecord(token_id, name, agent_id, known, listed, bool(for_others), digest, *times)


class InMemoryTokenStore:
    """A `TokenStore` whose tokens live as long as the object; safe to call from any thread.

    It keeps no audit rows: nobody could read them, and they would end with the tokens.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, TokenRecord] = {}

    def put_token(self, record: TokenRecord, act: SealedAct | None = None) -> ChainHead | None:
        with self._lock:
            if record.token_id in self._records:
                raise StoreRejected(f"token {record.token_id} exists")
            self._records[record.token_id] = record
        return None

    def load_tokens(self) -> Sequence[TokenRecord]:
        with self._lock:
            return sorted(
                self._records.values(), key=lambda record: (record.created_at, record.token_id)
            )

    def revoke_token(
        self, token_id: str, *, at: Micros, act: SealedAct | None = None
    ) -> ChainHead | None:
        with self._lock:
            record = self._records.get(token_id)
            if record is not None and record.revoked_at is None:
                self._records[token_id] = replace(record, revoked_at=at)
        return None

    def note_token_use(self, used_at: Mapping[str, Micros]) -> None:
        with self._lock:
            for token_id, moment in used_at.items():
                record = self._records.get(token_id)
                if record is not None and (record.last_used_at or 0) < moment:
                    self._records[token_id] = replace(record, last_used_at=moment)

    def drop_dead_tokens(self, *, before: Micros) -> int:
        with self._lock:
            dropped = droppable_tokens(self._records.values(), before=before)
            for token_id in dropped:
                del self._records[token_id]
            return len(dropped)
