"""The real application over a host whose store is memory; no socket, no lifespan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from lambo_site.asgi import application
from lambo_site.wiring import build_readers
from memory import runtime
from memory.engine.config import Config
from memory.service.host import SessionHost
from memory.service.tokens import TokenKeeper
from memory.store.tokens import InMemoryTokenStore
from memory.testing import FaultyStore, InMemoryStore, ManualClock, SequentialIds
from surface.api.callers import DRAWN, OPERATOR_SECRET, Api, silent_embedder


@dataclass(frozen=True)
class World:
    """What stands behind the API in one test."""

    host: SessionHost
    store: FaultyStore
    clock: ManualClock


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = ManualClock()
    store = FaultyStore(InMemoryStore(clock))
    config = Config()
    host = SessionHost(
        store,
        node_id="00000000-0000-4000-8000-0000000000aa",
        endpoint="http://127.0.0.1:7700",
        config=config,
        readers=build_readers(config),
        clock=clock,
        ids=SequentialIds(),
        embedder=silent_embedder(),
        keep_tokens=lambda on_writer: TokenKeeper(
            InMemoryTokenStore(),
            clock=clock,
            ids=SequentialIds(),
            draw=lambda: DRAWN,
            on_writer=on_writer,
        ),
    )
    await host.start()
    runtime.set_host(host)
    runtime.set_operator_secret(OPERATOR_SECRET)
    try:
        yield World(host, store, clock)
    finally:
        runtime.set_host(None)
        runtime.set_operator_secret(None)
        await host.close()


@pytest.fixture
async def api(world: World) -> AsyncIterator[Api]:
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7700") as client:
        yield Api(client)
