"""An engine database of a test's own, on the engine it names: real connections, real tables.

The schema is migrated once per run and engine: on SQLite into a file that every test copies, on
PostgreSQL into a database that is the template of each test's.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections

from engine_counts import ENGINES
from lambo_site.database_url import read_database_url
from lambo_site.databases import postgres_reader, postgres_writer, sqlite_reader, sqlite_writer
from lambo_site.setting_readers import Given
from memory.store.django_store import DjangoStore
from postgres_server import query, shared_server

SQLITE, POSTGRES = ENGINES
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class EngineDatabase:
    """One database and the names of its two connections."""

    path: Path
    """The file, on SQLite."""
    writer: str
    reader: str
    engine: str = SQLITE
    url: str = ""
    """Of the database, on PostgreSQL."""

    def store(self) -> DjangoStore:
        return DjangoStore(self.writer, self.reader)

    def execute(
        self, statement: str, *parameters: str | int | float | None
    ) -> list[tuple[Any, ...]]:
        """Run a statement past the store, as a foreign hand would."""
        with connections[self.writer].cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def look(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query on a connection of its own, also where an event loop runs."""
        if self.engine == POSTGRES:
            return query(self.url, statement)
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()

    def count(self, table: str) -> int:
        """Rows of a table, counted by the database."""
        ((count,),) = self.execute(f"SELECT count(*) FROM {table}")
        return int(count)


@contextmanager
def engine_database(folder: Path, engine: str = SQLITE) -> Iterator[EngineDatabase]:
    """A migrated, empty database; a file is in the folder. Needs unblocked database access."""
    path = folder / "lambo.sqlite3"
    if engine == SQLITE:
        shutil.copy(_migrated_file(), path)
        with _sqlite(path) as database:
            yield database
        return
    server, template = shared_server(), _migrated_template()
    name = server.create_database(template)
    try:
        with _postgres(name, path) as database:
            yield database
    finally:
        server.drop_database(name)


def _sqlite(path: Path) -> AbstractContextManager[EngineDatabase]:
    return _aliases(path, SQLITE, sqlite_writer(path), sqlite_reader(path))


def _postgres(name: str, path: Path) -> AbstractContextManager[EngineDatabase]:
    line = shared_server().url(name)
    url = read_database_url("store.url", Given(line, "a test"), path)
    return _aliases(path, POSTGRES, postgres_writer(url), postgres_reader(url), line)


@contextmanager
def _aliases(
    path: Path, engine: str, writer: dict[str, Any], reader: dict[str, Any], url: str = ""
) -> Iterator[EngineDatabase]:
    name = f"engine_{next(_numbers)}"
    database = EngineDatabase(path, name, f"{name}_ro", engine, url)
    configured = {database.writer: writer, database.reader: reader}
    for alias, options in configured.items():
        # Fills in the defaults of every setting, as Django does at its start.
        complete = connections.configure_settings({"default": {}, alias: options})
        connections.databases[alias] = complete[alias]
    try:
        yield database
    finally:
        for alias in configured:
            connection: Any = connections[alias]
            connection.close()
            if engine == POSTGRES:
                connection.close_pool()
            del connections[alias]
            del connections.databases[alias]


@cache
def _migrated_file() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lambo-schema-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "lambo.sqlite3"
    with _sqlite(path) as database:
        call_command("migrate", database=database.writer, verbosity=0)
        # Leaves one file without a log beside it, so that copying it copies everything.
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@cache
def _migrated_template() -> str:
    name = shared_server().create_database()
    with _postgres(name, Path("lambo.sqlite3")) as database:
        call_command("migrate", database=database.writer, verbosity=0)
    return name
