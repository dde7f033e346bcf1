"""A session host over any store, for tests of the service and of the surfaces above it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from lambo_site.wiring import build_readers
from memory.engine.config import Config
from memory.engine.embedding import Embedder
from memory.engine.graph import Graph
from memory.engine.ports import Clock, GraphStore, IdSource
from memory.engine.requests import ActionRequest, Caller, ConceptInput, DeriveRequest
from memory.engine.types import ConceptType
from memory.service.audit_keeper import UNSEALED, AuditKeeper
from memory.service.cycles import Cycles
from memory.service.host import SessionHost
from memory.service.jobs import Job
from memory.service.measures import NO_MEASURES, Measures
from memory.system import RandomIds, SystemClock

AGENT = Caller("agent-a")
OPERATOR = Caller("operator", is_operator=True)


@asynccontextmanager
async def hosting(
    store: GraphStore,
    *,
    node_id: str = "node-1",
    clock: Clock | None = None,
    ids: IdSource | None = None,
    embedder: Embedder | None = None,
    jobs: Sequence[Job] = (),
    has_cluster: bool = False,
    cycles: Cycles | None = None,
    ticks: bool = True,
    audit: AuditKeeper = UNSEALED,
    measures: Measures = NO_MEASURES,
    **config: Any,
) -> AsyncIterator[SessionHost]:
    """A started host; closed at the end, whatever the body did."""
    settings = Config(**config)
    host = SessionHost(
        store,
        node_id=node_id,
        endpoint=f"http://{node_id}",
        config=settings,
        readers=build_readers(settings),
        clock=clock or SystemClock(),
        ids=ids or RandomIds(),
        embedder=embedder,
        jobs=jobs,
        has_cluster=has_cluster,
        cycles=cycles,
        ticks=ticks,
        audit=audit,
        measures=measures,
    )
    await host.start()
    try:
        yield host
    finally:
        await host.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread or task brings about, in short steps."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # threads set no asyncio event
            await asyncio.sleep(0.005)


def statement(*contents: str, kind: ConceptType = ConceptType.ENTITY) -> DeriveRequest:
    return DeriveRequest(tuple(ConceptInput(content, kind) for content in contents))


def act(text: str, *depends_on: str) -> ActionRequest:
    return ActionRequest(text, depends_on=depends_on)


def contents(graph: Graph) -> set[str]:
    return {graph.content_at(row) for row in graph.concept_rows()}
