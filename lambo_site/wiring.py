"""The composition root: clock, ids, store and readers become one host. Once, here.

Owns which adapter stands behind each port. Decides nothing a setting does not say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from canon.engine.saints import list_saints
from lambo_site.configuration import ProcessSettings
from memory.demo_profile import DemoClock, SequentialIds, check_demo_session
from memory.engine.config import Config, Durability
from memory.engine.graph import Graph
from memory.engine.ports import Clock, GraphStore, IdSource
from memory.engine.requests import Caller, InspectRequest, RecallRequest
from memory.engine.times import Micros
from memory.service.host import SessionHost
from memory.service.memory import Memory, MemoryView, Readers
from memory.service.replies import Answer, Reply
from memory.service.writes import Writes
from memory.system import RandomIds, SystemClock
from recall.engine.inspection import inspect
from recall.engine.pipeline import recall
from recall.engine.settings import RecallSettings


def build_host(process: ProcessSettings, *, node_id: str) -> SessionHost:
    """The host of this process, not started yet."""
    clock, ids = _time_and_ids(is_demo=process.is_demo)
    kind: type[SessionHost] = _DemoHost if process.is_demo else SessionHost
    config = process.config
    return kind(
        _build_store(config),
        node_id=node_id,
        endpoint=process.url,
        config=config,
        readers=build_readers(config, show_authors=not process.is_demo),
        clock=clock,
        ids=ids,
    )


def build_readers(config: Config, *, show_authors: bool = True) -> Readers:
    """How questions are answered under these settings; labels name who wrote a concept."""
    settings = RecallSettings(
        w_daemon=config.recall_score_weight,
        w_query=config.recall_query_weight,
        show_authors=show_authors,
    )

    def answer(graph: Graph, request: RecallRequest, now: Micros) -> Answer:
        result = recall(graph, request, now=now, settings=settings)
        return _Shown(result.context, result.as_wire())

    return Readers(recall=answer, inspect=_inspect, saints=_saints)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A reader's result as the service takes it: its text, and its structured content."""

    text: str
    wire: dict[str, Any]

    def as_wire(self) -> dict[str, Any]:
        return self.wire


def _inspect(graph: Graph, request: InspectRequest, now: Micros) -> Answer:
    result = inspect(graph, request.focus, request.depth, now=now)
    return _Shown(result.view, result.as_wire())


def _saints(graph: Graph) -> Answer:
    result = list_saints(graph)
    return _Shown(result.view, result.as_wire())


def _build_store(config: Config) -> GraphStore:
    if config.durability is Durability.MEMORY:
        from memory.testing import InMemoryStore

        return InMemoryStore()
    # Imported here: models need Django to be set up.
    from memory.store.django_store import DjangoStore

    return DjangoStore()


def _time_and_ids(*, is_demo: bool) -> tuple[Clock, IdSource]:
    if is_demo:
        ids = SequentialIds()
        return DemoClock(ids), ids
    return SystemClock(), RandomIds()


class _DemoHost(SessionHost):
    """A host of made-up times: it refuses every session but the demo's own."""

    async def memory(self, session_id: str, *, create: bool) -> Memory:
        check_demo_session(session_id)
        return await super().memory(session_id, create=create)

    async def view(self, session_id: str) -> MemoryView:
        check_demo_session(session_id)
        return await super().view(session_id)

    async def write(
        self, session_id: str, act: Callable[[Writes], Awaitable[Reply]], *, create: bool
    ) -> Reply:
        check_demo_session(session_id)
        return await super().write(session_id, act, create=create)

    async def create_session(self, session_id: str, caller: Caller) -> Reply:
        check_demo_session(session_id)
        return await super().create_session(session_id, caller)
