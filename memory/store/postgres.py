"""PostgreSQL's part: its clock, its locks, its error codes, and what erasing takes there.

Which errors are worth another try is decided by their SQLSTATE alone; an error without one comes
from the driver, which lost the connection or got none. Columns are typed and text is UTF-8 there,
so what SQLite must be asked about every row is always so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import psycopg
from django.db import Error as DjangoDatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from memory.store.dialects import Dialect, Verdict
from memory.store.postgres_vectors import read_vectors, vector_tables, write_vectors

# By class (two characters) or whole code, the longest first: what an operator should read. What is
# not here is this data's fault. 25P03 and 25P04 end the session, unlike the rest of their class.
_SAME_CONNECTION: Final = {
    "40": "the transaction collided with another one",
    "53": "the database server is short of memory, disk or connections",
    "55P03": "a lock is held by another session",
    "57014": "the statement took too long or was cancelled",
    "58": "the database server has trouble with its system",
}
_FRESH_CONNECTION: Final = {
    "08": "the connection to the database was lost",
    "25006": "the database is read-only",
    "25P03": "the database ended a session that was idle in a transaction",
    "25P04": "the transaction took too long",
    "40003": "the database does not know whether the statement was carried out",
    "57": "the database server is stopping, starting or cut the connection",
}
_NO_CONNECTION: Final = "the database cannot be reached"

# Everything that may hold text of a memory; edges hold ids, names and numbers.
_TABLES_WITH_TEXT: Final = (
    *("lambo_concept", "lambo_interaction", "lambo_synonym", "lambo_session", "lambo_receipt"),
    *("lambo_audit_event", "lambo_dead_letter", "lambo_event", "lambo_set_aside"),
)
_OTHERS_LOOK_BACK: Final = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL LIMIT 1"
)
"""Whether any transaction may still see an older state of this database."""
_PATIENCE_MS: Final = 500
"""How long a table's readers are waited for before it is rewritten; every commit waits with us."""


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def judge(error: BaseException) -> tuple[Verdict, str]:
    """Classify by SQLSTATE; the code ends the sentence."""
    for link in _causes(error):
        if isinstance(link, MemoryError):
            return Verdict.TRANSIENT, "out of memory"
        if isinstance(link, psycopg.Error):
            return _judge(link)
    if isinstance(error, DjangoDatabaseError):
        # Django's own words about a connection that it gave up.
        return Verdict.DISCONNECTED, f"{_NO_CONNECTION} ({error})"
    return Verdict.REJECTED, f"{type(error).__name__}: {error}"


def _judge(error: psycopg.Error) -> tuple[Verdict, str]:
    code = error.sqlstate
    if code is None:
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return Verdict.DISCONNECTED, _NO_CONNECTION
        return Verdict.REJECTED, f"{type(error).__name__}: {error}"
    for key in (code, code[:2]):
        if reading := _FRESH_CONNECTION.get(key) if key not in _SAME_CONNECTION else None:
            return Verdict.DISCONNECTED, f"{reading} ({code})"
        if reading := _SAME_CONNECTION.get(key):
            return Verdict.TRANSIENT, f"{reading} ({code})"
    # The message's first line names columns and constraints; the detail below it quotes values.
    return Verdict.REJECTED, f"{error.diag.message_primary or type(error).__name__} ({code})"


def is_undecodable(_error: BaseException) -> bool:
    """Never: the server refuses text that is not UTF-8."""
    return False


def decode_leniently(_connection: Any) -> None:
    """Nothing to do, see `is_undecodable`."""


def scrub(cursor: CursorWrapper) -> bool:
    """Write every table that may hold text anew, so that the old files go.

    What was deleted or written over stays in the pages of a table, as bytes that no row owns, until
    they happen to be used again; an ordinary vacuum leaves them too. A table that is rewritten has
    only what is stored. It cannot be while a transaction may look back at what was: that one is not
    waited for. The write-ahead log is the server's and goes when its segments are recycled.
    """
    cursor.execute(f"SET lock_timeout = {_PATIENCE_MS}")
    cursor.execute("SET statement_timeout = 0")
    try:
        for table in (*_TABLES_WITH_TEXT, *vector_tables(cursor)):
            cursor.execute(_OTHERS_LOOK_BACK)
            if cursor.fetchone() is not None:
                return False
            cursor.execute(f"VACUUM (FULL) {table}")
    finally:
        cursor.execute("RESET lock_timeout")
        cursor.execute("RESET statement_timeout")
    return True


def check_place(connection: BaseDatabaseWrapper) -> None:
    """An address always leads to the server that answers there; nothing is put in its place."""


POSTGRES: Final = Dialect(
    # The clock, not the time the transaction began: it may have waited for a lock since.
    now_micros="(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    row_lock=" FOR UPDATE",
    is_text="TRUE",
    is_integer="TRUE",
    is_real="TRUE",
    is_flag="TRUE",
    as_bytes="convert_to(CAST({} AS text), 'UTF8')",
    judge=judge,
    is_undecodable=is_undecodable,
    decode_leniently=decode_leniently,
    scrub=scrub,
    write_vectors=write_vectors,
    read_vectors=read_vectors,
    check_place=check_place,
)
