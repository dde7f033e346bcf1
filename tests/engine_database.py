"""An engine database of a test's own: a real SQLite file under real connection aliases.

The schema is migrated once per run, into a file that every test copies.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections

from lambo_site.databases import sqlite_reader, sqlite_writer
from memory.store.django_store import DjangoStore

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class EngineDatabase:
    """One file and the names of its two connections."""

    path: Path
    writer: str
    reader: str

    def store(self) -> DjangoStore:
        return DjangoStore(self.writer, self.reader)

    def execute(
        self, statement: str, *parameters: str | int | float | None
    ) -> list[tuple[Any, ...]]:
        """Run a statement past the store, as a foreign hand would."""
        with connections[self.writer].cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def count(self, table: str) -> int:
        """Rows of a table, counted by the database."""
        ((count,),) = self.execute(f"SELECT count(*) FROM {table}")
        return int(count)


@contextmanager
def engine_database(folder: Path) -> Iterator[EngineDatabase]:
    """A migrated, empty database in a folder. Needs unblocked database access."""
    path = folder / "lambo.sqlite3"
    shutil.copy(_migrated_file(), path)
    with _aliases(path) as database:
        yield database


@contextmanager
def _aliases(path: Path) -> Iterator[EngineDatabase]:
    name = f"engine_{next(_numbers)}"
    database = EngineDatabase(path, name, f"{name}_ro")
    configured = {database.writer: sqlite_writer(path), database.reader: sqlite_reader(path)}
    for alias, options in configured.items():
        # Fills in the defaults of every setting, as Django does at its start.
        complete = connections.configure_settings({"default": {}, alias: options})
        connections.databases[alias] = complete[alias]
    try:
        yield database
    finally:
        for alias in configured:
            connections[alias].close()
            del connections[alias]
            del connections.databases[alias]


@cache
def _migrated_file() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lambo-schema-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "lambo.sqlite3"
    with _aliases(path) as database:
        call_command("migrate", database=database.writer, verbosity=0)
        # Leaves one file without a log beside it, so that copying it copies everything.
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path
