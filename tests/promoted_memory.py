"""A stored memory of some hours, in which one concept earned every status, for servers to open.

Made by the real service and cycles under a clock that is told; no row is written by hand.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from pytest_django import DjangoDbBlocker

from engine_database import engine_database
from hosting import hosting
from lambo_site.wiring import build_cycles
from memory.engine.config import Config
from memory.engine.requests import Caller, ConceptInput, DeriveRequest
from memory.engine.types import ConceptType
from memory.service.cycle_jobs import cycle_jobs
from memory.store.django_store import DjangoStore
from memory.testing import ManualClock

SESSION: Final = "shop"
SUBJECT: Final = "user schema"
DEPENDENTS: Final = (
    "login handler",
    "token refresh",
    "audit export",
    "users repository",
    "password reset",
    "session middleware",
    "invoice address",
)
FIRST_DAY: Final = 1_790_000_000 * 1_000_000
HOUR_SECONDS: Final = 3_600.0
_EVALUATIONS_MAX: Final = 10


def make_promoted_memory(folder: Path, blocker: DjangoDbBlocker) -> None:
    """Store it in a data folder that no server has used yet."""
    folder.mkdir(parents=True)
    with blocker.unblock(), engine_database(folder) as database:
        asyncio.run(_live_through(database.store()))


async def _live_through(store: DjangoStore) -> None:
    clock, config = ManualClock(FIRST_DAY), Config()
    async with hosting(
        store, clock=clock, jobs=cycle_jobs(config), cycles=build_cycles(config), ticks=False
    ) as host:

        async def write(content: str, agent: str, *depends_on: str) -> None:
            given = ConceptInput(content, ConceptType.ENTITY, depends_on=depends_on)
            request = DeriveRequest((given,))
            await host.write(
                SESSION, lambda memory: memory.derive(request, Caller(agent)), create=True
            )
            clock.advance(HOUR_SECONDS)

        await write(SUBJECT, "ann")
        for number, content in enumerate(DEPENDENTS):
            await write(content, ("bob", "cleo")[number % 2], SUBJECT)
        for _ in range(3):
            await host.calendar.run("collect", session=SESSION, force=True)
        for _ in range(_EVALUATIONS_MAX):
            report = await host.calendar.run("evaluate", session=SESSION, force=True)
            assert not report.failed, report.failures
            if not report.did["promoted"]:
                return
