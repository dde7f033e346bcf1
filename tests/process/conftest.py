"""The engines that process tests run a server on, by the `lambo.toml` of the test's folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_counts import ENGINES
from engine_database import POSTGRES
from postgres_server import shared_server


@pytest.fixture(params=ENGINES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder for a server, whose settings name an empty database on each engine in turn."""
    if request.param != POSTGRES:
        yield tmp_path
        return
    server = shared_server()
    name = server.create_database()
    (tmp_path / "lambo.toml").write_text(f'[store]\nurl = "{server.url(name)}"\n')
    yield tmp_path
    server.drop_database(name)
