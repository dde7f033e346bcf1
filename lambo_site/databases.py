"""The databases of the embedded default: two SQLite files, three connections.

The engine's file has exactly one writing connection, the committer's: a second writer on a busy
file waits for seconds. Django's own tables (users, admin log, task queue) therefore live in a file
of their own, and everybody else reads the engine's file through an alias that cannot write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

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


def sqlite_databases(data_dir: Path) -> dict[str, dict[str, Any]]:
    """Django's `DATABASES` for a data folder: `lambo.sqlite3` and `django.sqlite3`.

    The reading alias opens the engine's file read-only, so it fails until the writer has made the
    file; in tests it mirrors the writer.
    """
    engine_file = data_dir.resolve() / "lambo.sqlite3"
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
