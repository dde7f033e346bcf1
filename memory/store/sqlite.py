"""SQLite's part: its clock, its dynamic types, its result codes, the file behind a connection."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from memory.engine.ports import StoreReplaced, StoreTransient
from memory.store.dialects import Dialect, Verdict

# Primary result codes (the low byte of the extended one) after which the same attempt may succeed,
# with what an operator should read. BUSY and LOCKED: another connection is in the way. FULL:
# SQLite has undone the transaction itself. The rest concern the file or the connection to it,
# which a fresh connection may find in order.
_SAME_CONNECTION: Final = {
    sqlite3.SQLITE_BUSY: "the database is locked by another process",
    sqlite3.SQLITE_LOCKED: "a table of the database is locked",
    sqlite3.SQLITE_INTERRUPT: "the statement was interrupted",
    sqlite3.SQLITE_FULL: "the disk or the database is full",
}
_FRESH_CONNECTION: Final = {
    sqlite3.SQLITE_NOMEM: "the database is out of memory",
    sqlite3.SQLITE_READONLY: "the database file or its folder cannot be written",
    sqlite3.SQLITE_IOERR: "the disk reported an error",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened",
    sqlite3.SQLITE_PROTOCOL: "the lock of the write-ahead log could not be taken",
}
_CHUNK_ROWS: Final = 400
_PUT_VECTOR: Final = (
    "INSERT INTO lambo_embedding (session_id, contract_id, concept_id, vector)"
    " VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (session_id, contract_id, concept_id) DO UPDATE SET vector = excluded.vector"
)
_READ_VECTORS: Final = (
    "SELECT concept_id, vector FROM lambo_embedding"
    " WHERE session_id = %s AND contract_id = %s ORDER BY concept_id"
)
_CLOSED = "Cannot operate on a closed database"
_NOT_UTF8 = "Could not decode to UTF-8"


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def judge(error: BaseException) -> tuple[Verdict, str]:
    """Classify by SQLite's result code; the code's name ends the sentence."""
    for link in _causes(error):
        if isinstance(link, MemoryError):
            return Verdict.TRANSIENT, "out of memory"
        if isinstance(link, sqlite3.ProgrammingError) and str(link).startswith(_CLOSED):
            return Verdict.DISCONNECTED, "the connection to the database was closed"
        code = getattr(link, "sqlite_errorcode", None)
        if code is None:
            continue
        name = getattr(link, "sqlite_errorname", str(code))
        if reading := _SAME_CONNECTION.get(code & 0xFF):
            return Verdict.TRANSIENT, f"{reading} ({name})"
        if reading := _FRESH_CONNECTION.get(code & 0xFF):
            return Verdict.DISCONNECTED, f"{reading} ({name})"
        return Verdict.REJECTED, f"{link} ({name})"
    return Verdict.REJECTED, f"{type(error).__name__}: {error}"


def is_undecodable(error: BaseException) -> bool:
    """Whether Python's driver gave up on a text column; SQLite itself does not check text."""
    return any(str(link).startswith(_NOT_UTF8) for link in _causes(error))


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def decode_leniently(connection: Any) -> None:
    """Give undecodable text as bytes on this raw connection, from now on."""
    connection.text_factory = _text_or_bytes


def scrub(cursor: CursorWrapper) -> bool:
    """Move the write-ahead log into the database and empty it.

    What was deleted or written over is zeros in the database (`secure_delete`), but stands in the
    log until then. A reader that is still in an older state of the database keeps the log; it is
    not waited for, since every commit would wait with us.
    """
    cursor.execute("PRAGMA busy_timeout")
    (patience_ms,) = cursor.fetchone()
    cursor.execute("PRAGMA busy_timeout = 0")
    try:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (is_busy, _, _) = cursor.fetchone()
    finally:
        cursor.execute(f"PRAGMA busy_timeout = {patience_ms:d}")
    return not is_busy


def write_vectors(
    cursor: CursorWrapper, session_id: str, rows: Sequence[tuple[str, str, bytes]]
) -> None:
    """Store vectors by (contract, concept)."""
    cursor.executemany(_PUT_VECTOR, [(session_id, *row) for row in rows])


def read_vectors(
    cursor: CursorWrapper, session_id: str, contract_key: str
) -> list[tuple[str, bytes]]:
    """What stands under one contract, by concept id; what is no vector at all is left out."""
    cursor.execute(_READ_VECTORS, [session_id, contract_key])
    vectors: list[tuple[str, bytes]] = []
    while rows := cursor.fetchmany(_CHUNK_ROWS):
        vectors += [
            (concept, bytes(vector))
            for concept, vector in rows
            if isinstance(concept, str) and isinstance(vector, bytes | memoryview)
        ]
    return vectors


# Of each connection the raw one that is open, and the file it was opened on; None for a database
# that is no file.
_opened: Final[WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, tuple[int, int] | None]]] = (
    WeakKeyDictionary()
)


def check_place(connection: BaseDatabaseWrapper) -> None:
    """Refuse to write to a file that was moved away or written anew under an open connection.

    SQLite itself would go on with the file it opened, and acknowledge what nobody finds again.
    """
    at = _file_at(str(connection.settings_dict["NAME"]))
    raw, opened = _opened.get(connection, (None, None))
    if raw is not connection.connection:
        _opened[connection] = (connection.connection, at)
        return
    if opened is None or at == opened:
        return
    name = connection.settings_dict["NAME"]
    if at is None:
        raise StoreTransient(f"the database file {name} is gone")
    raise StoreReplaced(f"another file was put in the place of the database {name}")


def _file_at(path: str) -> tuple[int, int] | None:
    """What tells a file from every other one on this machine."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


SQLITE: Final = Dialect(
    # Whole milliseconds: `unixepoch('subsec')` needs SQLite 3.42, and `julianday` is a float that
    # holds no better than 40 microseconds.
    now_micros=(
        "(CAST(strftime('%%s', 'now') AS INTEGER) * 1000000"
        " + CAST(substr(strftime('%%f', 'now'), 4) AS INTEGER) * 1000)"
    ),
    row_lock="",  # BEGIN IMMEDIATE has locked everything already
    is_text="typeof({}) = 'text'",
    is_integer="typeof({}) = 'integer'",
    is_real="typeof({}) = 'real'",
    is_flag="{} IN (0, 1)",
    as_bytes="CAST({} AS BLOB)",
    judge=judge,
    is_undecodable=is_undecodable,
    decode_leniently=decode_leniently,
    scrub=scrub,
    write_vectors=write_vectors,
    read_vectors=read_vectors,
    check_place=check_place,
)
