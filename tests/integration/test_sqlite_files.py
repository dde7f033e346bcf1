"""The file behind SQLite's writing connection: nothing is committed to one that nobody finds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from engine_database import EngineDatabase, engine_database
from memory.engine.mutations import PutSynonym
from memory.engine.ports import StoreReplaced, StoreTransient
from session_log import SessionLog


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path) as made:
        yield made


def test_a_file_that_was_put_in_the_place_of_the_open_one_is_not_written_to(
    database: EngineDatabase, tmp_path: Path
) -> None:
    log = SessionLog(database.store())
    assert not log.commit([PutSynonym("a", "b")])
    copy = tmp_path / "copy"
    shutil.copy(database.path, copy)
    os.replace(copy, database.path)
    for _ in range(2):
        with pytest.raises(StoreReplaced, match="another file was put in the place"):
            log.commit([PutSynonym("c", "d")])
    assert database.execute("SELECT count(*) FROM lambo_synonym") == [(1,)]


def test_a_file_that_is_gone_for_a_while_is_written_to_when_it_is_back(
    database: EngineDatabase, tmp_path: Path
) -> None:
    log = SessionLog(database.store())
    assert not log.commit([PutSynonym("a", "b")])
    away = tmp_path / "away"
    database.path.rename(away)
    with pytest.raises(StoreTransient, match="is gone"):
        log.store.read_positions(["s"])
    away.rename(database.path)
    assert not log.commit([PutSynonym("c", "d")])
