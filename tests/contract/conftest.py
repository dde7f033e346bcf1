"""The stores the contract suite runs over: every implementation we ship."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from engine_database import engine_database
from memory.engine.ports import GraphStore
from memory.testing import InMemoryStore
from session_log import SessionLog


@pytest.fixture(params=["in memory", *ENGINES])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[GraphStore]:
    if request.param == "in memory":
        yield InMemoryStore()
        return
    with django_db_blocker.unblock(), engine_database(tmp_path, request.param) as database:
        yield database.store()


@pytest.fixture
def log(store: GraphStore) -> SessionLog:
    return SessionLog(store)
