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
from memory.embed.registry import build_embedder
from memory.engine.config import Config, Durability
from memory.engine.embedding import Embedder
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.ports import Clock, GraphStore, IdSource
from memory.engine.requests import Caller, InspectRequest, RecallRequest
from memory.engine.times import Micros
from memory.engine.tokens import TokenStore
from memory.service.host import SessionHost
from memory.service.memory import Memory
from memory.service.replies import Answer, Reply
from memory.service.tokens import OnWriter, TokenKeeper
from memory.service.view import MemoryView, Readers
from memory.service.writes import Writes
from memory.system import RandomIds, SystemClock, draw_token
from recall.engine.inspection import inspect
from recall.engine.pipeline import recall
from recall.engine.settings import RecallSettings


def build_host(process: ProcessSettings, *, node_id: str) -> SessionHost:
    """The host of this process, not started yet."""
    clock, ids = _time_and_ids(is_demo=process.is_demo)
    kind: type[SessionHost] = _DemoHost if process.is_demo else SessionHost
    config = process.config
    token_store = _build_token_store(config)

    def keep_tokens(on_writer: OnWriter) -> TokenKeeper:
        return TokenKeeper(
            token_store,
            clock=clock,
            draw=draw_token,
            on_writer=on_writer,
            calls_per_second=process.calls_per_second,
        )

    return kind(
        _build_store(config),
        node_id=node_id,
        endpoint=process.url,
        config=config,
        readers=build_readers(config, show_authors=not process.is_demo),
        clock=clock,
        ids=ids,
        keep_tokens=keep_tokens,
        embedder=_build_embedder(process),
    )


def build_readers(config: Config, *, show_authors: bool = True) -> Readers:
    """How questions are answered under these settings; labels name who wrote a concept."""
    settings = RecallSettings(
        w_daemon=config.recall_score_weight,
        w_query=config.recall_query_weight,
        show_authors=show_authors,
    )

    def answer(
        graph: Graph, request: RecallRequest, now: Micros, meanings: Meanings | None
    ) -> Answer:
        result = recall(graph, request, now=now, settings=settings, meanings=meanings)
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


def _build_embedder(process: ProcessSettings) -> Embedder | None:
    """The embedder of this process; the demo is told by words alone, so that it repeats itself."""
    if process.is_demo:
        return None
    return build_embedder(
        process.embedder_kind,
        dim=process.embedder_dim,
        url=process.embedder_url,
        model=process.embedder_model,
        model_path=process.embedder_model_path,
        api_key=process.embedder_api_key,
    )


def _build_store(config: Config) -> GraphStore:
    if config.durability is Durability.MEMORY:
        from memory.store.in_memory import InMemoryStore

        return InMemoryStore()
    # Imported here: models need Django to be set up.
    from memory.store.django_store import DjangoStore

    return DjangoStore()


def _build_token_store(config: Config) -> TokenStore:
    from memory.store.tokens import DjangoTokenStore, InMemoryTokenStore

    return InMemoryTokenStore() if config.durability is Durability.MEMORY else DjangoTokenStore()


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
