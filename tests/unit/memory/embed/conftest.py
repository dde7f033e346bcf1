"""The stand-in for an embedding server, for each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedding_server import StandIn


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    server = StandIn()
    try:
        yield server
    finally:
        server.close()
