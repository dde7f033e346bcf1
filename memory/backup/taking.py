"""Making a backup beside a running server: one state of the engine's database, row by row.

Everything of the engine is read in one transaction through the alias that cannot write, so the
server goes on and the backup is what was committed at one instant. Django's own tables are read
before it, in a transaction of their own: they hold logins, and nothing in them refers to a session.

Invariant: at most a few hundred rows are held at a time, and nothing but the file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

from memory.backup import tables
from memory.backup.archive import ArchiveWriter, ChainPart, Manifest, SessionPart, new_manifest
from memory.backup.errors import unwrapped
from memory.engine.audit_chain import key_fingerprint
from memory.engine.ports import StoreRejected
from memory.engine.times import Micros
from memory.store.audit_trail import find_key_fingerprint
from memory.store.dialects import dialect_for
from memory.store.transactions import reading

Progress = Callable[[str, int], None]
"""Told of a table and how many of its rows are done."""

PROGRESS_ROWS: Final = 5_000
_COUNTED: Final = {"lambo_interaction": "interactions", "lambo_concept": "concepts"} | {
    "lambo_edge": "edges",
    "lambo_audit_event": "audit_rows",
    "lambo_embedding": "vectors",
}


@dataclass(frozen=True, slots=True)
class Taken:
    """A backup that was made."""

    path: Path
    size_bytes: int
    manifest: Manifest


def take_backup(path: Path, *, chain_key: str | None, now: Micros, progress: Progress) -> Taken:
    """Write all sessions, tokens and logins to a new file. `chain_key` goes along, if given.

    Raises `BackupFailed`, and `StoreTransient` or `StoreRejected` where the store cannot be read.
    """
    with reading(tables.ENGINE_READER) as cursor:
        # Before any file is made: where no server has run, there is nothing to back up.
        cursor.execute("SELECT count(*) FROM lambo_session")
    try:
        return _take(path, chain_key, now, progress, is_lenient=False)
    except StoreRejected as error:
        if not dialect_for(connections[tables.ENGINE_READER].vendor).is_undecodable(error):
            raise
    # Some text is not UTF-8. From the start in a way that survives it, on a fresh connection.
    connections[tables.ENGINE_READER].close()
    try:
        return _take(path, chain_key, now, progress, is_lenient=True)
    finally:
        connections[tables.ENGINE_READER].close()


def _take(
    path: Path, chain_key: str | None, now: Micros, progress: Progress, *, is_lenient: bool
) -> Taken:
    with ArchiveWriter(path) as writer:
        with transaction.atomic(using=tables.DJANGO):
            for model in tables.present_django_models():
                rows = _told(tables.table_of(model), tables.read_django_rows(model), progress)
                name, columns = tables.table_of(model), tables.columns_of(model)
                writer.add_table(name, "django", columns, rows)
        connections[tables.DJANGO].close()
        with unwrapped(), reading(tables.ENGINE_READER) as cursor:
            if is_lenient:
                dialect_for(cursor.db.vendor).decode_leniently(cursor.connection)
            known = find_key_fingerprint(cursor)
            sessions, chains = _read_sessions(cursor), _read_chains(cursor, now)
            for model in tables.engine_models():
                name, columns = tables.table_of(model), tables.columns_of(model)
                rows = _told(name, tables.read_engine_rows(cursor, model), progress)
                writer.add_table(name, "engine", columns, rows)
        # A key that the rows are not linked with proves nothing, and is none of the backup's.
        fingerprint = None if chain_key is None else key_fingerprint(chain_key.encode())
        fits = fingerprint is not None and fingerprint == known
        manifest = new_manifest(
            writer,
            made_at=now,
            sessions=sessions,
            chains=chains,
            chain_key_fingerprint=known,
            has_chain_key=fits,
        )
        size = writer.finish(manifest, chain_key=chain_key if fits else None)
    return Taken(path, size, manifest)


def _told(name: str, rows: Iterator[list[Any]], progress: Progress) -> Iterator[list[Any]]:
    count = 0
    for count, row in enumerate(rows, 1):  # told once more at the end
        yield row
        if count % PROGRESS_ROWS == 0:
            progress(name, count)
    progress(name, count)


def _read_sessions(cursor: CursorWrapper) -> list[SessionPart]:
    counts: dict[str, dict[str, int]] = {}
    for table, noun in _COUNTED.items():
        cursor.execute(f"SELECT session_id, count(*) FROM {table} GROUP BY session_id")
        for session, count in cursor.fetchall():
            counts.setdefault(str(session), {})[noun] = count
    cursor.execute(
        "SELECT session.session_id, coalesce(lease.position, 0), coalesce(lease.token, 0)"
        " FROM lambo_session session"
        " LEFT JOIN lambo_lease lease ON lease.session_id = session.session_id"
        " WHERE session.deleted_at IS NULL ORDER BY session.session_id"
    )
    nouns = sorted(_COUNTED.values())
    return [
        SessionPart(
            str(session),
            position,
            token,
            {noun: counts.get(str(session), {}).get(noun, 0) for noun in nouns},
        )
        for session, position, token in cursor.fetchall()
    ]


def _read_chains(cursor: CursorWrapper, now: Micros) -> list[ChainPart]:
    """The newest link of each name; of a deleted session the name alone is left."""
    cursor.execute(
        "SELECT audit.session_id, session.created_at, audit.sequence, audit.link_hash"
        " FROM lambo_audit_event audit"
        " JOIN (SELECT session_id, max(sequence) AS newest FROM lambo_audit_event"
        " GROUP BY session_id) head"
        " ON head.session_id = audit.session_id AND head.newest = audit.sequence"
        " LEFT JOIN lambo_session session ON session.session_id = audit.session_id"
        " ORDER BY audit.session_id"
    )
    return [
        ChainPart(session, now if created is None else created, sequence, link)
        for session, created, sequence, link in cursor.fetchall()
        # What a foreign hand put there is no head; proving the rows will name it.
        if isinstance(session, str) and isinstance(link, str) and type(sequence) is int
    ]
