"""A host whose background cycles run when a test says so, and one concept that others rest on.

Time is told, so a day takes no time; jobs are asked for through the host's own calendar.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from canon.cycles import CanonCycles
from hosting import hosting
from lambo_site.wiring import build_cycles
from memory.engine.config import Config
from memory.engine.graph import Graph
from memory.engine.requests import (
    Caller,
    ConceptInput,
    DeriveRequest,
)
from memory.engine.types import ConceptType, Status
from memory.service.audit_keeper import UNSEALED, AuditKeeper
from memory.service.cycle_jobs import cycle_jobs
from memory.service.host import SessionHost
from memory.testing import ManualClock

HOUR, DAY = 3_600, 86_400
JOBS = cycle_jobs(Config())
SUBJECT = "schema"


@asynccontextmanager
async def cycling(
    store: Any,
    clock: ManualClock,
    *,
    cycles: CanonCycles | None = None,
    audit: AuditKeeper = UNSEALED,
    **config: Any,
) -> AsyncIterator[SessionHost]:
    """A host whose cycles run when the test says so."""
    made = cycles or build_cycles(Config(**config))
    async with hosting(
        store, clock=clock, jobs=JOBS, cycles=made, ticks=False, audit=audit, **config
    ) as host:
        yield host


async def write(host: SessionHost, *contents: str, agent: str = "agent-a", **cited: Any) -> None:
    given = tuple(ConceptInput(text, ConceptType.ENTITY, **cited) for text in contents)
    await host.write(
        "s", lambda memory: memory.derive(DeriveRequest(given), Caller(agent)), create=True
    )


async def rest_on_subject(
    host: SessionHost, clock: ManualClock, count: int, *, apart: float = HOUR, first: int = 0
) -> None:
    """One dependent each from an interaction of its own."""
    for number in range(first, first + count):
        await write(host, f"rests {number}", depends_on=(SUBJECT,))
        clock.advance(apart)


async def sweep(host: SessionHost, times: int = 3) -> None:
    for _ in range(times):
        report = await host.calendar.run("collect", session="s", force=True)
        assert report.failed == 0, report.failures


async def evaluate(host: SessionHost) -> dict[str, int]:
    report = await host.calendar.run("evaluate", session="s", force=True)
    assert report.failed == 0, report.failures
    return dict(report.did)


async def evaluate_until_settled(host: SessionHost) -> int:
    """How many steps of a status it took."""
    taken = 0
    for _ in range(20):
        did = await evaluate(host)
        taken += did["promoted"] + did["demoted"]
        if not did["promoted"] + did["demoted"]:
            return taken
    raise AssertionError("it never settles")


async def graph_of(host: SessionHost) -> Graph:
    return (await host.memory("s", create=False)).graph


def status_in(graph: Graph, content: str = SUBJECT) -> Status:
    row = graph.find_by_content(content)
    assert row is not None
    return graph.status_at(row)


def survived(graph: Graph, content: str = SUBJECT) -> int:
    row = graph.find_by_content(content)
    assert row is not None
    return int(graph.concepts["gc_survived"][row])
