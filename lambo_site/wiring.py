"""The composition root: clock, ids, store and readers become one host. Once, here.

Owns which adapter stands behind each port. Decides nothing a setting does not say.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from canon.cycles import CanonCycles, CanonSessionCycles
from canon.engine.cycle import CycleSettings
from canon.engine.garbage import GarbageSettings
from canon.engine.saints import list_saints
from canon.engine.settings import CanonSettings
from lambo_site.configuration import ProcessSettings
from lambo_site.hot_entries import ShownHotList
from lambo_site.shown_beliefs import ShownBeliefs
from memory.anchors import AnchorFile
from memory.data_folder import DataFolder
from memory.demo_profile import DemoClock, SequentialIds, check_demo_session
from memory.embed.registry import build_embedder
from memory.engine.config import Config, Durability
from memory.engine.embedding import Embedder, EmbeddingContract, Vector
from memory.engine.errors import StoreUnavailable
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.ports import Clock, GraphStore, IdSource
from memory.engine.requests import Caller, GuardRequest, InspectRequest, Layer, RecallRequest
from memory.engine.times import SECOND, Micros
from memory.engine.tokens import TokenStore
from memory.service.audit_keeper import UNSEALED, AuditKeeper
from memory.service.cycle_jobs import cycle_jobs
from memory.service.cycles import SessionCycles, Tokens
from memory.service.host import SessionHost
from memory.service.jobs import RETENTION, Job
from memory.service.measures import NO_MEASURES, Measures
from memory.service.memory import Memory
from memory.service.replies import Answer, Reply
from memory.service.store_access import StoredSessions
from memory.service.text_embedder import TextEmbedder
from memory.service.tokens import OnWriter, TokenKeeper
from memory.service.view import MemoryView, Ranking, Readers, RecallAnswer
from memory.service.views import Views
from memory.service.writes import Writes
from memory.system import RandomIds, SystemClock, draw_token
from recall.engine.guarding import guard
from recall.engine.hot_list import NO_HOT_LIST, HotList
from recall.engine.inspection import inspect
from recall.engine.layers import Tier, layer_request, merge, note_layer, note_tier
from recall.engine.member_cache import MemberCache
from recall.engine.pipeline import rank, recall
from recall.engine.ranking import Scores
from recall.engine.settings import FusionSettings, RecallSettings


def build_host(
    process: ProcessSettings, *, node_id: str, measures: Measures = NO_MEASURES
) -> SessionHost:
    """The host of this process, not started yet; `measures` counts its work."""
    clock, ids = _time_and_ids(is_demo=process.is_demo)
    kind: type[SessionHost] = _DemoHost if process.is_demo else SessionHost
    config = process.config
    token_store = _build_token_store(config)
    audit = build_audit(process, clock)

    def keep_tokens(on_writer: OnWriter) -> TokenKeeper:
        return TokenKeeper(
            token_store,
            clock=clock,
            ids=ids,
            draw=draw_token,
            on_writer=on_writer,
            audit=audit,
            calls_per_second=process.calls_per_second,
            names_are_proven=process.requires_tokens,
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
        jobs=(*build_jobs(config), *audit.jobs()),
        has_cluster=process.runs_cluster,
        cycles=build_cycles(config),
        # Times that depend on the machine would make no two demos alike.
        ticks=not process.is_demo,
        audit=audit,
        measures=measures,
    )


@asynccontextmanager
async def read_views(process: ProcessSettings) -> AsyncIterator[Views]:
    """The sessions of a store that no server of this folder writes, to be read."""
    config, embedder = process.config, _build_embedder(process)
    contract = None if embedder is None else embedder.contract
    stored = StoredSessions(_build_store(config), contract)
    texts = None
    if embedder is not None:
        texts = TextEmbedder(embedder, deadline_seconds=config.embed_deadline_seconds)

    async def read(session_id: str) -> MemoryView:
        nobody = StoreUnavailable("no server runs on this data folder")
        return await views.read(session_id, instead_of=nobody)

    views = Views(
        read,
        (),
        access=lambda: stored,
        readers=build_readers(config, show_authors=not process.is_demo),
        clock=SystemClock(),
        config=config,
        contract=contract,
        embedder=lambda: texts,
    )
    try:
        yield views
    finally:
        if texts is not None:
            texts.close()


def build_audit(process: ProcessSettings, clock: Clock) -> AuditKeeper:
    """What seals audit rows: the key that was given, or the data folder's own."""
    if process.config.durability is Durability.MEMORY:
        return UNSEALED
    # Imported here: it reads through Django.
    from memory.store.audit_trail import DjangoAuditTrail

    folder = DataFolder(process.data_dir)
    key = process.chain_key or folder.chain_key()
    return AuditKeeper.sealing(
        key.encode(),
        anchors=AnchorFile(folder.anchors_path),
        trail=DjangoAuditTrail(),
        clock=clock,
    )


def build_jobs(config: Config) -> tuple[Job, ...]:
    """Everything a server does by itself, again and again."""
    return (RETENTION, *cycle_jobs(config))


def build_cycles(config: Config) -> CanonCycles:
    """The background cycles under these settings."""
    return CanonCycles(
        canon=CanonSettings(
            promotion_policy=config.promotion_policy,
            canonization_edge_min_age_seconds=config.canonization_edge_min_age_seconds,
            canonization_coverage_window_seconds=config.canonization_coverage_window_seconds,
            canonization_eval_batch_size=config.canonization_eval_batch_size,
            canonization_repromotion_cooldown_seconds=(
                config.canonization_repromotion_cooldown_seconds
            ),
            max_canonical_nodes=config.max_canonical_nodes,
            canonization_supersede=config.canonization_supersede,
        ),
        garbage=GarbageSettings(
            interval_mutations=config.gc_interval_mutations,
            interval_max_seconds=config.gc_max_interval_seconds,
            idle_floor_mutations=config.gc_idle_floor_mutations,
            canonical_max=config.max_canonical_nodes,
        ),
        rounds=CycleSettings(
            recency_window=round(config.conflict_recency_window_seconds * SECOND),
            drift_threshold_hops=config.drift_threshold_hops,
            hot_list_max=config.hot_list_max,
            hot_list_contradiction_max=config.hot_list_contradiction_max,
            contradiction_evidence_min_age=round(config.canonization_edge_min_age_seconds * SECOND),
        ),
    )


def recall_settings(config: Config, *, show_authors: bool = True) -> RecallSettings:
    """What the engine's settings say of a recall; labels name who wrote a concept."""
    return RecallSettings(
        w_daemon=config.recall_score_weight,
        w_query=config.recall_query_weight,
        show_authors=show_authors,
        suspected_supersession_line=config.suspected_supersession_line,
        skip_redundant=config.skip_redundant,
        fusion=FusionSettings(
            kind=config.fusion_kind,
            k=config.fusion_k,
            keyword_weight=config.fusion_keyword_weight,
            vector_weight=config.fusion_vector_weight,
            recent_weight=config.fusion_recent_weight,
            context_weight=config.fusion_context_weight,
        ),
    )


def build_readers(config: Config, *, show_authors: bool = True) -> Readers:
    """How questions are answered under these settings."""
    settings = recall_settings(config, show_authors=show_authors)
    evidence_min_age = round(config.canonization_edge_min_age_seconds * SECOND)
    cache = MemberCache()

    def answer(
        graph: Graph,
        request: RecallRequest,
        now: Micros,
        meanings: Meanings | None,
        cycles: SessionCycles | None,
    ) -> RecallAnswer:
        scores, hot = _standing(graph, now, cycles)
        result = recall(
            graph,
            request,
            now=now,
            scores=scores,
            hot=hot,
            settings=settings,
            meanings=meanings,
            beliefs=ShownBeliefs(graph, now, evidence_min_age),
            cache=cache,
        )
        return _Recalled(result.context, result.as_wire(), result.as_ledger(), result.as_details())

    def judge(graph: Graph, request: GuardRequest, agent_id: str, now: Micros) -> Answer:
        beliefs = ShownBeliefs(graph, now, evidence_min_age)
        verdict = guard(graph, request, agent_id=agent_id, now=now, beliefs=beliefs)
        return _Shown(verdict.text, verdict.as_wire())

    def rank_alone(
        graph: Graph,
        request: RecallRequest,
        now: Micros,
        meanings: Meanings | None,
        cycles: SessionCycles | None,
        layer: Layer | None,
    ) -> Tier:
        scores, hot = _standing(graph, now, cycles)
        ranked = rank(
            graph,
            request if layer is None else layer_request(request),
            now=now,
            scores=scores,
            hot=hot,
            settings=settings,
            meanings=meanings,
            beliefs=ShownBeliefs(graph, now, evidence_min_age),
            cache=cache,
        )
        return note_tier(graph, ranked) if layer is None else note_layer(graph, ranked, layer)

    def merge_tiers(
        tiers: Sequence[Ranking],
        request: RecallRequest,
        query: Vector | None,
        contract: EmbeddingContract | None,
    ) -> RecallAnswer:
        known = [tier for tier in tiers if isinstance(tier, Tier)]
        result = merge(known, request, query=query, contract=contract, settings=settings)
        return _Recalled(result.context, result.as_wire(), result.as_ledger(), result.as_details())

    return Readers(
        recall=answer,
        inspect=_inspect,
        saints=_saints,
        guard=judge,
        rank=rank_alone,
        merge=merge_tiers,
    )


def _standing(
    graph: Graph, now: Micros, cycles: SessionCycles | None
) -> tuple[Scores | None, HotList]:
    """What the background cycles say of a session's concepts; nothing where there are none."""
    if isinstance(cycles, CanonSessionCycles):
        return cycles.scores, ShownHotList(cycles.hot(graph, now))
    return None, NO_HOT_LIST


@dataclass(frozen=True, slots=True)
class _Shown:
    """A reader's result as the service takes it: its text, and its structured content."""

    text: str
    wire: dict[str, Any]

    def as_wire(self) -> dict[str, Any]:
        return self.wire


@dataclass(frozen=True, slots=True)
class _Recalled(_Shown):
    """The answer to a question, with what the log may say of it, and how it was found."""

    ledger: dict[str, Any]
    details: dict[str, Any]


def _inspect(
    graph: Graph,
    request: InspectRequest,
    now: Micros,
    cycles: SessionCycles | None,
    tokens: Tokens | None,
) -> Answer:
    explain: Callable[[int], _Shown] | None = None
    if isinstance(cycles, CanonSessionCycles) and tokens is not None:
        explain = partial(_explain, cycles, graph, now, tokens)
    result = inspect(graph, request.focus, request.depth, now=now, explain=explain)
    return _Shown(result.view, result.as_wire())


def _explain(
    cycles: CanonSessionCycles, graph: Graph, now: Micros, tokens: Tokens, row: int
) -> _Shown:
    """Where a concept stands, without the names of what it rests on: the neighbours show those."""
    admission = cycles.explain(graph, row, now, tokens)
    wire = {name: value for name, value in admission.as_wire().items() if name != "supports"}
    return _Shown(admission.text, wire)


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
