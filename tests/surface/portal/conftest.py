"""The portal of the real application over a host in memory, with the background cycles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from hosting import hosting
from lambo_site.asgi import application
from lambo_site.wiring import build_cycles
from memory import runtime
from memory.engine.config import Config
from memory.engine.requests import Caller, ConceptInput, DeriveRequest, ReserveRequest
from memory.engine.types import ConceptType
from memory.service.host import SessionHost
from memory.testing import InMemoryStore, ManualClock
from surface.api.token_world import TokenWorld, token_world

SESSION = "s"


@dataclass(frozen=True)
class World:
    """A session with something in it, its clock, and a browser at the portal."""

    host: SessionHost
    clock: ManualClock
    client: httpx.AsyncClient

    async def write(self, agent: str, content: str, *depends_on: str, **more: Any) -> None:
        given = ConceptInput(content, ConceptType.ENTITY, depends_on=depends_on, **more)
        request = DeriveRequest((given,))
        await self.host.write(
            SESSION, lambda memory: memory.derive(request, Caller(agent)), create=True
        )
        self.clock.advance(1)

    async def reserve(self, agent: str, content: str, ttl_seconds: int) -> None:
        request = ReserveRequest(None, content, ttl_seconds)
        await self.host.write(
            SESSION, lambda memory: memory.reserve(request, Caller(agent)), create=False
        )

    async def ask(self, name: str, **query: Any) -> Any:
        answer = await self.client.get(f"/portal/sessions/{SESSION}/{name}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = ManualClock()
    async with hosting(
        InMemoryStore(clock), clock=clock, cycles=build_cycles(Config()), ticks=False
    ) as host:
        runtime.set_host(host)
        transport = httpx.ASGITransport(app=application)
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:7700"
            ) as client:
                yield World(host, clock, client)
        finally:
            runtime.set_host(None)


@pytest.fixture
async def tokens(tmp_path: Path, settings: Settings) -> AsyncIterator[TokenWorld]:
    async with token_world(tmp_path, settings) as made:
        yield made
