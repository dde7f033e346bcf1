"""The pages over databases of each test's own: two files and three connections, as a server has.

No test here runs inside a transaction, since pages refuse to ask the server from within one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper
from pytest_django import DjangoDbBlocker

from lambo_site.databases import DJANGO, ENGINE_WRITER, sqlite_databases

FILES = {DJANGO: "django.sqlite3", ENGINE_WRITER: "lambo.sqlite3"}


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Path:
    """A folder with both files, which each test copies."""
    folder = tmp_path_factory.mktemp("migrated")
    with django_db_blocker.unblock(), _databases(folder):
        for alias in FILES:
            call_command("migrate", database=alias, verbosity=0)
            # Leaves one file without a log beside it, so that copying it copies everything.
            with connections[alias].cursor() as cursor:
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


@pytest.fixture(autouse=True)
def databases(tmp_path: Path, migrated: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Rows made by a test's `create` go in through the writer; pages read through the reader."""
    for name in FILES.values():
        shutil.copy(migrated / name, tmp_path)
    with django_db_blocker.unblock(), _databases(tmp_path):
        with connections[ENGINE_WRITER].cursor() as cursor:
            cursor.execute("SELECT 1 FROM lambo_session")  # the reader cannot make the log's files
        yield


@contextmanager
def _databases(folder: Path) -> Iterator[None]:
    # Fills in the defaults of every setting, as Django does at its start.
    configured = connections.configure_settings(sqlite_databases(folder))
    before = {alias: connections[alias] for alias in configured}
    ContentType.objects.clear_cache()  # ids of another file
    for alias, settings in configured.items():
        connections[alias] = DatabaseWrapper(settings, alias)
    try:
        yield
    finally:
        for alias, connection in before.items():
            connections[alias].close()
            connections[alias] = connection
        ContentType.objects.clear_cache()
