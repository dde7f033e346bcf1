"""Audit rows in SQL: adding them, and finding what was taken out.

Owns every statement about `lambo_audit_event` but that of a step of a status, which moves a concept
as well (`memory.store.writers`), and the blanking of texts (`memory.store.purging`). Rows of a
deleted session bear its mark and are shown to nobody here.

Invariant: a row is added once; its id never changes hands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.db.backends.utils import CursorWrapper

from memory.engine.audit_chain import AuditChain, ChainHead, columns_of_entry, make_link
from memory.engine.limits import REMOVALS_FOUND
from memory.engine.mutations import PutAudit
from memory.engine.ports import Removal, StoreRejected
from memory.engine.standing import STANDING_KINDS
from memory.engine.times import Micros
from memory.engine.traces import Needles, is_same, may_hold, needles_of
from memory.engine.types import AuditEntry, Json
from memory.fields import UUID_TEXT
from memory.store import codecs
from memory.store.audit_trail import read_chain
from memory.store.codecs import Row
from memory.store.row_checks import row_fault

_COLUMNS: Final = ("session_id", *codecs.ENTRIES.columns, *codecs.LINK_COLUMNS)
_ADD: Final = (
    f"INSERT INTO lambo_audit_event ({', '.join(_COLUMNS)})"
    f" VALUES ({', '.join(['%s'] * len(_COLUMNS))}) ON CONFLICT (id) DO NOTHING"
)
_NAMES_PER_QUESTION: Final = 500
_FIND_SESSION: Final = "SELECT session_id FROM lambo_audit_event WHERE id = %s"

_IS_INDEXED: Final = "kind IN ('retract', 'collect', 'purge')"
"""Spelled as the condition of the index `lambo_audit_removal`, or the index is not used."""
IS_REMOVAL: Final = f"{_IS_INDEXED} AND (kind <> 'purge' OR from_status IS NOT NULL)"
"""What took a concept out: a purge too, of one that lived until then."""
_KEPT_TEXT: Final = f"{_IS_INDEXED} AND kind <> 'purge'"
OF_LIVE_SESSION: Final = "session_deleted_at IS NULL"
IS_STANDING: Final = (
    f"kind IN ({', '.join(repr(str(kind)) for kind in sorted(STANDING_KINDS))})"
    f" AND {OF_LIVE_SESSION}"
)
# The removed state of a hub is megabytes long, and what is shown of it stands in the texts.
_LISTED: Final = ", ".join(
    "NULL" if column == "removed" else column for column in codecs.ENTRIES.columns
)
ROWS_PER_SLICE: Final = 500


def add_entries(cursor: CursorWrapper, session_id: str, entries: Sequence[PutAudit]) -> None:
    """Store audit rows; those that are stored already are left as they are."""
    if not entries:
        return
    rows = [
        (*codecs.entry_row(session_id, put.entry), *codecs.link_row(put.link)) for put in entries
    ]
    cursor.executemany(_ADD, rows)
    if cursor.rowcount == len(entries):
        return
    for put in entries:
        check_owner(cursor, session_id, put.entry.id)


def add_act(
    cursor: CursorWrapper, session_id: str, entry: AuditEntry, *, chain_key: bytes | None
) -> ChainHead | None:
    """Store the audit row of an act that is in no session's log; its link where there is a key.

    Only for a name whose chain nobody else goes on with meanwhile.
    """
    link = None
    if chain_key is not None:
        chain = AuditChain.after(chain_key, session_id, read_chain(cursor, session_id))
        link = make_link(chain_key, session_id, chain.head, columns_of_entry(entry))
    add_entries(cursor, session_id, [PutAudit(entry, link)])
    return None if link is None else ChainHead(link.sequence, link.hash)


def check_owner(cursor: CursorWrapper, session_id: str, audit_id: str) -> None:
    """Refuse an audit row whose id belongs to another session."""
    cursor.execute(_FIND_SESSION, [audit_id])
    if cursor.fetchone() != (session_id,):
        raise StoreRejected("an audit row's id is taken by another session")


def entry_fault(row: Row) -> str | None:
    """Why a standing row with sound columns cannot be used, or None."""
    try:
        entry = codecs.entry_from(row)
    except ValueError:
        return "one of its columns is not JSON"
    return standing_fault(entry)


def standing_fault(entry: AuditEntry) -> str | None:
    """Why an entry cannot stand for its concept, or None."""
    if entry.node_id is None:
        return "it names no concept"
    survived = entry.detail.get("gc_survived") if isinstance(entry.detail, Mapping) else None
    if str(entry.kind) == "restore" and not codecs.count_is_sound(survived):
        return "it does not tell how many sweeps the concept had survived"
    return None


def list_removals(
    cursor: CursorWrapper, session_id: str, *, before: str | None, limit: int
) -> list[Removal]:
    """What was taken out of a session, newest first, before an audit id; without its states."""
    condition, parameters = ("", [session_id])
    if before is not None:
        condition, parameters = (" AND id < %s", [session_id, before])
    cursor.execute(
        f"SELECT {_LISTED} FROM lambo_audit_event WHERE session_id = %s AND {IS_REMOVAL}"
        f" AND {OF_LIVE_SESSION}{condition} ORDER BY id DESC LIMIT %s",
        [*parameters, limit],
    )
    return _with_presence(cursor, session_id, readable(cursor.fetchall()))


def find_removals(cursor: CursorWrapper, session_id: str, name: str) -> list[Removal]:
    """The removals that a name means, newest first: an audit id, a concept's id, or its content."""
    wanted, needles = name.strip().lower(), needles_of(name, is_cut=False)
    cursor.execute(
        f"SELECT id, node_id, texts FROM lambo_audit_event WHERE session_id = %s AND {_KEPT_TEXT}"
        f" AND {OF_LIVE_SESSION} ORDER BY id DESC",
        [session_id],
    )
    found: list[str] = []
    while (rows := cursor.fetchmany(ROWS_PER_SLICE)) and len(found) < REMOVALS_FOUND:
        found += [
            str(audit_id)
            for audit_id, node_id, texts in rows
            if wanted in (audit_id, node_id) or _says(texts, needles)
        ]
    if not found:
        return []
    del found[REMOVALS_FOUND:]
    cursor.execute(
        f"SELECT {codecs.ENTRIES.column_list} FROM lambo_audit_event"
        f" WHERE id IN ({', '.join(['%s'] * len(found))}) ORDER BY id DESC",
        found,
    )
    return _with_presence(cursor, session_id, readable(cursor.fetchall()))


def _says(texts: Any, needles: Needles) -> bool:
    """Whether the texts of a removal are a spelling of a content."""
    if not isinstance(texts, str) or not may_hold(texts, needles):
        return False
    texts = _json_or_none(texts)
    content = texts.get("content") if isinstance(texts, dict) else None
    return isinstance(content, str) and is_same(content, needles)


def _with_presence(
    cursor: CursorWrapper, session_id: str, entries: Sequence[AuditEntry]
) -> list[Removal]:
    stored = stored_concepts(cursor, session_id, {entry.node_id for entry in entries})
    return [Removal(entry, is_back=entry.node_id in stored) for entry in entries]


def bury(cursor: CursorWrapper, session_id: str, mark: Micros, limit: int) -> int:
    """Mark some audit rows of a session that is gone, and take their texts; how many."""
    cursor.execute(
        "UPDATE lambo_audit_event SET session_deleted_at = %s, texts = NULL, removed = NULL"
        f" WHERE id IN (SELECT id FROM lambo_audit_event WHERE session_id = %s"
        f" AND {OF_LIVE_SESSION} LIMIT %s)",
        [mark, session_id, limit],
    )
    return int(cursor.rowcount)


def stored_concepts(
    cursor: CursorWrapper, session_id: str, ids: Iterable[str | None]
) -> frozenset[str]:
    """Which of these concepts a session holds; what is no id at all names none."""
    names = sorted({name for name in ids if name is not None and UUID_TEXT.fullmatch(name)})
    found: set[str] = set()
    for low in range(0, len(names), _NAMES_PER_QUESTION):
        some = names[low : low + _NAMES_PER_QUESTION]
        cursor.execute(
            "SELECT id FROM lambo_concept WHERE session_id = %s"
            f" AND id IN ({', '.join(['%s'] * len(some))})",
            [session_id, *some],
        )
        found.update(str(name) for (name,) in cursor.fetchall())
    return frozenset(found)


def readable(rows: Iterable[Row]) -> list[AuditEntry]:
    """The entries of rows that a foreign hand may have been at.

    JSON that cannot be read counts as blanked; a row whose other columns are broken is no entry.
    """
    entries = []
    for row in rows:
        bare = (*row[:8], None, None, None)
        if row_fault(codecs.ENTRIES, bare) is None:
            detail, texts, removed = map(_json_or_none, row[8:])
            entry = codecs.entry_from(bare)
            entries.append(entry._replace(detail=detail, texts=texts, removed=removed))
    return entries


def _json_or_none(text: Any) -> Json:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, TypeError):
        return None
