"""Which tables a backup covers, and how their rows are read and written on any engine.

The engine's tables are read and written by plain SQL, column by column; Django's own, of which only
people's logins and what they did are kept, through its models. Not covered are web logins (they
are signed with a key that stays behind) and the calendar (every server makes its own).

Invariant: a row that is read and written again is the same row, whatever engine holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.apps import apps
from django.core.management.color import no_style
from django.db import connections
from django.db.backends.utils import CursorWrapper
from django.db.models import BooleanField, DateTimeField, Field, Model

ENGINE_WRITER: Final = "memory"
ENGINE_READER: Final = "memory_ro"
DJANGO: Final = "default"

DJANGO_MODELS: Final = (
    "contenttypes.ContentType",
    "auth.Permission",
    "auth.Group",
    "auth.Group_permissions",
    "auth.User",
    "auth.User_groups",
    "auth.User_user_permissions",
    "admin.LogEntry",
)
"""In an order in which each stands behind what it refers to."""

ROWS_PER_STEP: Final = 500

_ORDER: Final = {"lambo_audit_event": " ORDER BY session_id, sequence, id"}
"""Chains are proven and linked anew while they are read, so they stand in their order."""


def engine_models() -> list[type[Model]]:
    """The models of every table of the engine."""
    return list(apps.get_app_config("memory").get_models())


def django_models() -> list[type[Model]]:
    """The models of Django's own tables that are kept."""
    return [apps.get_model(name) for name in DJANGO_MODELS]


def present_django_models() -> list[type[Model]]:
    """None where nothing but the engine was ever used, as by a program that embeds it."""
    present = set(connections[DJANGO].introspection.table_names())
    return [model for model in django_models() if table_of(model) in present]


def columns_of(model: type[Model]) -> tuple[str, ...]:
    """The columns of a table, in the order of its model."""
    return tuple(str(field.column) for field in stored_fields(model))


def stored_fields(model: type[Model]) -> list[Field[Any, Any]]:
    # A composite key is no column.
    return [field for field in model._meta.local_fields if field.column is not None]


def table_of(model: type[Model]) -> str:
    return model._meta.db_table


# -- the engine's tables ---------------------------------------------------------------------------


def read_engine_rows(cursor: CursorWrapper, model: type[Model]) -> Iterator[list[Any]]:
    """Every row of a table, as it stands; bytes for text that is not UTF-8, if asked leniently."""
    name, flags = table_of(model), _places(model, BooleanField)
    cursor.execute(f"SELECT {', '.join(columns_of(model))} FROM {name}{_ORDER.get(name, '')}")
    while rows := cursor.fetchmany(ROWS_PER_STEP):
        for row in rows:
            cells = [str(cell) if isinstance(cell, UUID) else cell for cell in row]
            for at in flags:
                # An engine without a type for it gives 0 or 1.
                cells[at] = bool(cells[at]) if cells[at] in (0, 1) else cells[at]
            yield cells


def _places(model: type[Model], kind: type[Field[Any, Any]]) -> list[int]:
    return [at for at, field in enumerate(stored_fields(model)) if isinstance(field, kind)]


def add_engine_rows(
    cursor: CursorWrapper, model: type[Model], rows: Iterable[list[Any]]
) -> Iterator[int]:
    """Insert rows, in the columns of the model; how many, after each step."""
    columns = columns_of(model)
    statement = (
        f"INSERT INTO {table_of(model)} ({', '.join(columns)})"
        f" VALUES ({', '.join(['%s'] * len(columns))})"
    )
    waiting = iter(rows)
    while some := list(islice(waiting, ROWS_PER_STEP)):
        cursor.executemany(statement, some)
        yield len(some)


def set_counters(alias: str, models: list[type[Model]]) -> None:
    """Have numbers that the engine gives out go on behind the ones that are there."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


# -- Django's own tables ---------------------------------------------------------------------------


def read_django_rows(model: type[Model]) -> Iterator[list[Any]]:
    names = [field.attname for field in stored_fields(model)]
    for row in model._default_manager.using(DJANGO).order_by("pk").values_list(*names).iterator():
        yield [cell.isoformat() if isinstance(cell, datetime) else cell for cell in row]


def put_django_rows(parts: Mapping[type[Model], Iterable[list[Any]]]) -> int:
    """Have these rows, and no others, in the tables of Django; inside the caller's transaction."""
    count = 0
    with connections[DJANGO].cursor() as cursor:
        for model in reversed(list(parts)):
            cursor.execute(f"DELETE FROM {table_of(model)}")
    for model, rows in parts.items():
        fields, times = stored_fields(model), _places(model, DateTimeField)
        waiting = iter(rows)
        while some := list(islice(waiting, ROWS_PER_STEP)):
            for row in some:
                for at in times:
                    row[at] = None if row[at] is None else datetime.fromisoformat(row[at])
            made = [
                model(**{field.attname: cell for field, cell in zip(fields, row, strict=True)})
                for row in some
            ]
            model._default_manager.using(DJANGO).bulk_create(made)
            count += len(made)
    set_counters(DJANGO, list(parts))
    return count
