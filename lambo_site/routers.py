"""Which database a model lives in.

Reads of the engine's tables go to the read-only alias, whatever the thread: an ORM query in a view,
the admin or a task can then never hold up the committer. Writes go to the engine's writer, and only
migrations should meet that answer: the rows themselves are written by `memory.store`.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models import Model

from lambo_site.databases import DJANGO, ENGINE_READER, ENGINE_WRITER

ENGINE_APPS: Final = frozenset({"memory", "canon"})


class EngineRouter:
    """Engine apps in the engine's database, every other app in Django's."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        return ENGINE_READER if _is_engine(model) else DJANGO

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        return ENGINE_WRITER if _is_engine(model) else DJANGO

    def allow_relation(self, first: Model, second: Model, **hints: Any) -> bool:
        return _is_engine(type(first)) == _is_engine(type(second))

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        """Engine tables anywhere but in Django's database; no other app outside it.

        "Anywhere" lets tests and tools provision an engine database under an alias of their own.
        """
        if db == ENGINE_READER:
            return False
        return (app_label in ENGINE_APPS) == (db != DJANGO)


def _is_engine(model: type[Model]) -> bool:
    return model._meta.app_label in ENGINE_APPS
