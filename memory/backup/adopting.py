"""Bringing one session of a backup back under a new name, beside whatever else is there.

Rows get ids of their own, since the session they came from may live on in the same database, and
the audit rows are linked anew: a chain belongs to its session's name. Before that, the old links
are proven. One row more, at the end of the chain, says who brought it back, and from what. Left
behind are what only meant something to callers of the old name (receipts, soft
locks, refused calls) and where its background cycles stood.

Invariant: two sessions that were brought back from one backup share no id, and each refers to
itself alone; the order of ids is that of the originals.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db.backends.utils import CursorWrapper
from django.db.models import Model

from memory import models
from memory.backup import tables
from memory.backup.archive import Archive
from memory.backup.errors import InvalidBackup, RestoreRefused, unwrapped
from memory.backup.taking import Progress
from memory.engine.audit_chain import (
    BLANKABLE,
    AuditColumns,
    chain_start,
    key_fingerprint,
    link_hash,
    text_digest,
)
from memory.engine.audit_verification import (
    AuditFacts,
    ChainAct,
    SessionVerifier,
    StoredAuditRow,
)
from memory.engine.ports import IdSource
from memory.engine.times import Micros
from memory.engine.types import AuditEntry, AuditKind, Json
from memory.fields import IdField
from memory.service.audit_keeper import move_past
from memory.store.audit import add_act
from memory.store.audit_trail import claim_key, read_chain
from memory.store.dialects import dialect_for
from memory.store.leases import create_lease
from memory.store.transactions import writing

_KEPT: Final[tuple[type[Model], ...]] = (
    *(models.Interaction, models.Concept, models.Embedding, models.Edge, models.Synonym),
)
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LOW_BITS: Final = 48
"""The end of an id, which is drawn by chance; what stands before it orders ids made in order."""
_SPOKEN: Final = frozenset(
    {"content", "canonical_key", "names", "agents", "origin_agent", "chunk_group_id"}
)
"""Fields of a removed state in which a text that looks like an id is a text."""

Remap = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was brought back: from which session, how many rows, and how many were linked anew."""

    source: str
    row_count: int
    linked_count: int


def find_source(archive: Archive, wanted: str | None) -> str:
    """The session of the backup that is meant. Raises `RestoreRefused`."""
    names = [part.session for part in archive.manifest.sessions]
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is not None and wanted in names:
        return wanted
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    if wanted is None:
        raise RestoreRefused(f"say which session with --session; the backup holds: {listed}")
    raise RestoreRefused(f"the backup holds no session '{wanted}'; it holds: {listed}")


def adopt_session(
    archive: Archive,
    source: str,
    name: str,
    *,
    source_key: str | None,
    own_key: str,
    actor: str,
    now: Micros,
    ids: IdSource,
    progress: Progress,
) -> Adopted:
    """Write one session of a checked backup under a new name, in one transaction.

    `source_key` is what its audit rows are linked with; None where none are. `actor` is who asked
    for it, as the row at the end of the chain says. Raises
    `RestoreRefused` where the name was ever used, `InvalidBackup` where the old chain is broken.
    """
    remap = remapper(f"{archive.seal} {name}")
    count = 0
    with unwrapped(), writing(tables.ENGINE_WRITER) as cursor:
        dialect_for(cursor.db.vendor).decode_leniently(cursor.connection)
        _check_is_free(cursor, name)
        known = claim_key(cursor, key_fingerprint(own_key.encode()))
        if known != key_fingerprint(own_key.encode()):
            raise RestoreRefused("the audit rows here are linked with another chain key than ours")
        count += _add_session(cursor, archive, source, name)
        for model in _KEPT:
            rows = _renamed(archive, model, source, name, remap)
            done = sum(tables.add_engine_rows(cursor, model, rows))
            progress(tables.table_of(model), done)
            count += done
        linked = 0
        chain = _Relinked(archive, source, name, remap, source_key, own_key)
        for step in tables.add_engine_rows(cursor, models.AuditEvent, chain.rows()):
            linked += step
        _tell_of_it(cursor, archive, source, name, own_key, actor, now, ids)
        linked += 1
        progress(tables.table_of(models.AuditEvent), linked)
    return Adopted(source, count + linked, linked)


def _check_is_free(cursor: CursorWrapper, name: str) -> None:
    """A name that was used before goes on with its old chain, to which these rows do not belong."""
    for table in ("lambo_session", "lambo_audit_event", "lambo_interaction"):
        cursor.execute(f"SELECT 1 FROM {table} WHERE session_id = %s LIMIT 1", [name])
        if cursor.fetchone() is not None:
            raise RestoreRefused(f"the name '{name}' is or was in use here; choose another")


def _add_session(cursor: CursorWrapper, archive: Archive, source: str, name: str) -> int:
    columns = tables.columns_of(models.Session)
    changed: dict[str, Any] = {"session_id": name, "cycle_state": None}
    rows = [
        [changed.get(column, cell) for column, cell in zip(columns, row, strict=True)]
        for row in archive.rows(tables.table_of(models.Session))
        if row[columns.index("session_id")] == source
    ]
    create_lease(cursor, name)
    return sum(tables.add_engine_rows(cursor, models.Session, rows))


def _tell_of_it(
    cursor: CursorWrapper,
    archive: Archive,
    source: str,
    name: str,
    own_key: str,
    actor: str,
    now: Micros,
    ids: IdSource,
) -> None:
    """The row of the act itself: the last of the new chain, and the last by its id."""
    latest_id = read_chain(cursor, name).latest_id
    if latest_id is not None:
        move_past(ids, latest_id, now)
    entry = AuditEntry(
        id=ids.next_ordered_id(now),
        kind=AuditKind.SESSION_CREATE,
        node_id=None,
        from_status=None,
        to_status=None,
        occurred_at=now,
        actor=actor,
        detail={"source": source, "backup": archive.seal, "made_at": archive.manifest.made_at},
    )
    add_act(cursor, name, entry, chain_key=own_key.encode())


def _renamed(
    archive: Archive, model: type[Model], source: str, name: str, remap: Remap
) -> Iterator[list[Any]]:
    """The rows of a session under its new name and with their new ids."""
    fields = tables.stored_fields(model)
    at = tables.columns_of(model).index("session_id")
    ids = [place for place, field in enumerate(fields) if isinstance(field, IdField)]
    for row in archive.rows(tables.table_of(model)):
        if row[at] != source:
            continue
        row[at] = name
        for place in ids:
            # What is no id came from a foreign hand; loading the session sets it aside.
            row[place] = remap(row[place]) if isinstance(row[place], str) else row[place]
        yield row


# -- ids -------------------------------------------------------------------------------------------


def remapper(salt: str) -> Remap:
    """New ids for old ones: another end, the same beginning. The same salt gives the same ids."""
    mask = int.from_bytes(hashlib.sha256(salt.encode()).digest()[: _LOW_BITS // 8]) | 1

    def remap(text: str) -> str:
        if not _ID.fullmatch(text):
            return text
        return f"{text[:24]}{int(text[24:], 16) ^ mask:012x}"

    return remap


def remapped_json(value: Json, remap: Remap) -> Json:
    """A document with every text that is an id replaced, but where people's words stand."""
    if isinstance(value, str):
        return remap(value)
    if isinstance(value, list):
        return [remapped_json(item, remap) for item in value]
    if isinstance(value, dict):
        return {
            remap(key): item if key in _SPOKEN else remapped_json(item, remap)
            for key, item in value.items()
        }
    return value


def _remapped_text(text: Any, remap: Remap) -> Any:
    """The same for JSON as a column holds it; what is none stays."""
    try:
        document = json.loads(text)
    except (TypeError, ValueError):
        return text
    return json.dumps(remapped_json(document, remap), ensure_ascii=False, separators=(",", ":"))


# -- the chain -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Relinked:
    """The audit rows of one session, proven by their old links and linked anew."""

    archive: Archive
    source: str
    name: str
    remap: Remap
    source_key: str | None
    own_key: str

    def rows(self) -> Iterator[list[Any]]:
        """Raises `InvalidBackup` at the first row that does not fit its old chain."""
        facts = self._facts()
        heads = {
            part.sequence: part.hash
            for part in self.archive.manifest.chains
            if part.session == self.source
        }
        verifier = None
        if self.source_key is not None:
            key = self.source_key.encode()
            verifier = SessionVerifier(key, self.source, facts, heads)
        own = self.own_key.encode()
        head = chain_start(own, self.name, facts.unchained_count)
        for row in self._own_rows():
            stored = _stored(row)
            if row["sequence"] is not None and verifier is not None:
                self._refuse(verifier.check(stored))
            self._rename(row)
            if row["sequence"] is not None and verifier is not None:
                columns = _stored(row).columns
                row["digests"] = _new_digests(own, columns, row["digests"])
                row["link_hash"] = link_hash(
                    own, self.name, head.hash, row["sequence"], columns, row["digests"]
                )
                head = head._replace(sequence=row["sequence"], hash=row["link_hash"])
            yield list(row.values())
        if verifier is not None:
            self._refuse(verifier.finish())

    def _own_rows(self) -> Iterator[dict[str, Any]]:
        columns = tables.columns_of(models.AuditEvent)
        for row in self.archive.rows(tables.table_of(models.AuditEvent)):
            named = dict(zip(columns, row, strict=True))
            if named["session_id"] == self.source:
                yield named

    def _facts(self) -> AuditFacts:
        unchained, acts = 0, []
        for row in self._own_rows():
            if row["sequence"] is None:
                unchained += 1
            elif row["kind"] in (AuditKind.PURGE.value, AuditKind.SESSION_DELETE.value):
                detail = None if row["detail"] is None else json.loads(row["detail"])
                acts.append(ChainAct(row["sequence"], AuditKind(row["kind"]), detail))
        return AuditFacts(unchained, tuple(acts))

    def _rename(self, row: dict[str, Any]) -> None:
        row["session_id"] = self.name
        for column in ("id", "node_id", "superseded_by"):
            if isinstance(row[column], str):
                row[column] = self.remap(row[column])
        for column in ("detail", "removed"):
            row[column] = _remapped_text(row[column], self.remap)

    def _refuse(self, fault: Any) -> None:
        if fault is not None:
            raise InvalidBackup(
                f"{self.archive.path} is not used: audit row {fault.sequence} of session "
                f"'{self.source}' does not fit its chain: {fault.sentence}",
                path=str(self.archive.path),
            )


def _stored(row: dict[str, Any]) -> StoredAuditRow:
    columns = AuditColumns(**{name: row[name] for name in AuditColumns._fields})
    return StoredAuditRow(
        columns, row["sequence"], row["digests"], row["link_hash"], row["session_deleted_at"]
    )


def _new_digests(key: bytes, columns: AuditColumns, digests: str | None) -> str | None:
    """Digests of the texts that are there; of one that was blanked, the old one stays."""
    made: dict[str, str] = dict(json.loads(digests)) if digests else {}
    for column in BLANKABLE:
        text = getattr(columns, column)
        if text is not None:
            made[column] = text_digest(key, columns.id, column, text)
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")) if made else None
