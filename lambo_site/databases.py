"""Django's `DATABASES`: two SQLite files by default, or one PostgreSQL database; three connections.

The engine has exactly one writing connection, the committer's, and everybody else reads through an
alias that cannot write. On SQLite a second writer on a busy file waits for seconds, so Django's own
tables (users, admin log, task queue) live in a file of their own. On PostgreSQL they are in the
same database, in a schema of their own: all servers share its users, one backup has everything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from lambo_site.database_url import DatabaseUrl

DJANGO: Final = "default"
ENGINE_WRITER: Final = "memory"
ENGINE_READER: Final = "memory_ro"

BUSY_TIMEOUT_SECONDS: Final = 5
"""How long a statement waits for another process, such as a backup or a shell, to let go."""

READER_AGE_SECONDS: Final = 60
"""How long a thread keeps its reading connection between uses."""

# FULL: a committed transaction survives power loss, which NORMAL does not promise in WAL mode.
# fullfsync does what it says on macOS and nothing elsewhere. secure_delete overwrites what is
# deleted, since deleting a memory must delete its text.
_DURABLE: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",
    "PRAGMA secure_delete=ON",
)

DJANGO_SCHEMA: Final = "lambo_django"
"""Where Django's own tables are in a PostgreSQL database; the engine's are where its role's are."""

_STATEMENT_SECONDS: Final = 30
"""The longest statement: of a batch, of a load of a session."""
_READ_STATEMENT_SECONDS: Final = 120
_LOCK_SECONDS: Final = 10
"""How long a statement waits for another server's transaction, or for a person's."""
_IDLE_TRANSACTION_SECONDS: Final = 30
"""After this the server ends a transaction of ours whose process hangs, and frees its locks."""
_CONNECT_SECONDS: Final = 5
_POOL_READERS: Final = 16
"""Reading connections of one server process at most; who finds none waits."""


ENGINE_FILE: Final = "lambo.sqlite3"


def sqlite_databases(data_dir: Path) -> dict[str, dict[str, Any]]:
    """Django's `DATABASES` for a data folder: `lambo.sqlite3` and `django.sqlite3`.

    The reading alias opens the engine's file read-only, so it fails until the writer has made the
    file; in tests it mirrors the writer.
    """
    engine_file = data_dir.resolve() / ENGINE_FILE
    return {
        DJANGO: sqlite_writer(data_dir.resolve() / "django.sqlite3"),
        ENGINE_WRITER: sqlite_writer(engine_file),
        ENGINE_READER: sqlite_reader(engine_file),
    }


def sqlite_writer(path: Path) -> dict[str, Any]:
    """A connection that takes the write lock when a transaction begins.

    A transaction that read first and then wants to write fails at once if another wrote in between,
    without waiting; taking the lock at the start makes it wait its turn.
    """
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "timeout": BUSY_TIMEOUT_SECONDS,
            "transaction_mode": "IMMEDIATE",
            "init_command": ";".join((*_DURABLE, "PRAGMA cache_size=-65536")),
        },
    }


def sqlite_reader(path: Path) -> dict[str, Any]:
    """A connection that cannot write, twice over: by how it opens the file and by what it runs."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": f"{path.as_uri()}?mode=ro",
        "CONN_MAX_AGE": READER_AGE_SECONDS,
        "OPTIONS": {
            "timeout": BUSY_TIMEOUT_SECONDS,
            "init_command": "PRAGMA query_only=ON;PRAGMA cache_size=-16384",
        },
        "TEST": {"MIRROR": ENGINE_WRITER},
    }


def postgres_databases(url: DatabaseUrl) -> dict[str, dict[str, Any]]:
    """Django's `DATABASES` for one PostgreSQL database.

    The reading alias asks for a state of the database that holds for a whole transaction, and
    cannot write.
    """
    return {
        DJANGO: _postgres(url, search_path=DJANGO_SCHEMA),
        ENGINE_WRITER: postgres_writer(url),
        ENGINE_READER: postgres_reader(url),
    }


def postgres_writer(url: DatabaseUrl) -> dict[str, Any]:
    """The committer's connection: it waits until a commit is on the server's disk."""
    writer = _postgres(url, synchronous_commit="on")
    # Bound by the server, so that vectors may travel in binary. All its statements are our own.
    writer["OPTIONS"] |= {"server_side_binding": True, "prepare_threshold": 3}
    return {**writer, "ENGINE": _ENGINE_BACKEND, "CONN_MAX_AGE": None}


def postgres_reader(url: DatabaseUrl) -> dict[str, Any]:
    """Connections of a pool, whoever reads; each is looked at before it is given out."""
    # Imported here: whoever keeps sessions in SQLite does without the driver.
    from psycopg import IsolationLevel

    reader = _postgres(
        url,
        default_transaction_read_only="on",
        statement_timeout=f"{_READ_STATEMENT_SECONDS}s",
    )
    reader["OPTIONS"] |= {
        "isolation_level": IsolationLevel.REPEATABLE_READ,
        "pool": {"min_size": 0, "max_size": _POOL_READERS, "timeout": _LOCK_SECONDS},
    }
    return {
        **reader,
        "ENGINE": _ENGINE_BACKEND,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "TEST": {"MIRROR": ENGINE_WRITER},
    }


_ENGINE_BACKEND: Final = "memory.store.postgres_backend"


def _postgres(url: DatabaseUrl, **session: str) -> dict[str, Any]:
    """A connection with time-outs; `session` are settings of its session, which may override."""
    settings = {
        "statement_timeout": f"{_STATEMENT_SECONDS}s",
        "lock_timeout": f"{_LOCK_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{_IDLE_TRANSACTION_SECONDS}s",
        **session,
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.name,
        "USER": url.user,
        "PASSWORD": url.password,
        "HOST": url.host,
        "PORT": "" if url.port is None else str(url.port),
        "CONN_MAX_AGE": READER_AGE_SECONDS,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            **dict(url.arguments),
            "application_name": "lambo",
            "connect_timeout": _CONNECT_SECONDS,
            # A server that is gone without a word is noticed, not waited for.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        },
    }
