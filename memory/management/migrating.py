"""Bringing the databases to this version's tables, before anything is served from them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, router
from django.db.migrations.executor import MigrationExecutor

from memory.engine.errors import InvalidConfiguration, LamboError

logger = logging.getLogger("lambo.server")

READ_ONLY_ALIAS: Final = "memory_ro"


class DatabaseUnusable(LamboError):
    """A database cannot be opened or brought up to date; nothing was served from it."""

    code: ClassVar[str] = "database_unusable"


def bring_tables_up_to_date(*, may_migrate: bool) -> None:
    """Apply what is missing, on every database that can be written, and say so."""
    # Django's own database first: an engine database without it would look complete.
    for alias in sorted(connections, key=lambda name: (name != DEFAULT_DB_ALIAS, name)):
        if alias != READ_ONLY_ALIAS:
            with _explained(alias):
                _bring_up_to_date(alias, may_migrate=may_migrate)
    # The committer's thread opens its own; a second writing connection would stand in its way.
    connections.close_all()


def _bring_up_to_date(alias: str, *, may_migrate: bool) -> None:
    if connections[alias].vendor == "postgresql":
        _prepare_postgres(alias, may_migrate=may_migrate)
    executor = MigrationExecutor(connections[alias])
    plan = [
        (step, backwards)
        for step, backwards in executor.migration_plan(executor.loader.graph.leaf_nodes())
        if router.allow_migrate(alias, step.app_label)
    ]
    if not plan:
        return
    if not may_migrate:
        names = ", ".join(f"{step.app_label}.{step.name}" for step, _ in plan[:3])
        raise InvalidConfiguration(
            f"the database {alias!r} lacks {len(plan)} migration(s) ({names}, ...); "
            "start once without --no-migrate",
            setting="--no-migrate",
        )
    logger.info("lambo serve: applying %d migration(s) to the database %r", len(plan), alias)
    call_command("migrate", database=alias, interactive=False, verbosity=0)


def _prepare_postgres(alias: str, *, may_migrate: bool) -> None:
    """Give the tables of an alias their schema; what follows may take any time.

    The connection is closed after the migrations, and its time-outs are back with the next one.
    """
    with connections[alias].cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        (encoding,) = cursor.fetchone()
        if encoding != "UTF8":
            raise InvalidConfiguration(
                f"the database must have the encoding UTF8, not {encoding}", setting="store.url"
            )
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SET lock_timeout = 0")
        cursor.execute("SELECT current_schema(), current_setting('search_path')")
        schema, path = cursor.fetchone()
        if schema is None and may_migrate:
            name = connections[alias].ops.quote_name(path)
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")


@contextmanager
def _explained(alias: str) -> Iterator[None]:
    """Turn what the database says (no database, damaged, full, locked) into an error naming it."""
    try:
        yield
    except DatabaseError as error:
        name = connections[alias].settings_dict["NAME"]
        raise DatabaseUnusable(
            f"cannot use the database {name}: {error}", path=str(name)
        ) from error
