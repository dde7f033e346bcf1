"""Many sessions in one process: opened on demand under their lease, closed in order.

The host owns the open memories, the committer, the heartbeat and the order of shutdown. It keeps no
policy of any verb. A session is opened once, however many calls ask for it at the same time; an
unknown one is created by its first write and never by a read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from memory.engine.audit_chain import SealedAct
from memory.engine.config import Config
from memory.engine.embedding import Embedder, EmbeddingContract
from memory.engine.errors import (
    Forbidden,
    InvalidArgument,
    NoEmbedder,
    SessionClosed,
    SessionExists,
    StoreUnavailable,
)
from memory.engine.limits import SESSIONS_PER_PAGE
from memory.engine.ports import Clock, GraphStore, IdSource, Lease, LoadedSession
from memory.engine.requests import Caller, check_session_name
from memory.engine.times import Micros
from memory.engine.types import AuditKind
from memory.service.audit_keeper import UNSEALED, AuditKeeper
from memory.service.committer_thread import CommitterThread
from memory.service.cycle_work import CycleWork
from memory.service.cycles import Cycles
from memory.service.disappearances import Disappearances
from memory.service.embedding_work import EmbeddingWork
from memory.service.events import EventFeed
from memory.service.held_sessions import Heartbeat, Held, find_live, finish_accepted
from memory.service.jobs import RETENTION, Calendar, Job, JobSessions
from memory.service.log_end import LogEnd
from memory.service.measures import NO_MEASURES, Measures
from memory.service.memory import Memory
from memory.service.reembedding import Reembedder, Sessions
from memory.service.reloading import reload_until_done
from memory.service.replies import Reply
from memory.service.room import Room
from memory.service.session_link import HostLink
from memory.service.session_list import list_page
from memory.service.settlements import Settlements
from memory.service.store_access import StoreAccess, session_not_found, strategy_of
from memory.service.ticker import Ticker
from memory.service.tokens import OnWriter, TokenKeeper
from memory.service.trial import Trial
from memory.service.turns import Turns
from memory.service.view import MemoryView, Readers
from memory.service.views import Views
from memory.service.vital_signs import StoreProbe, VitalSigns, read_vital_signs
from memory.service.writes import Writes

log = logging.getLogger("lambo.host")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CloseReport:
    """How a shutdown ended. `unsettled` counts writes whose commit was not confirmed."""

    ok: bool
    unsettled: int


class SessionHost:
    """All sessions of one process over one store. Use it on one event loop."""

    def __init__(
        self,
        store: GraphStore,
        *,
        node_id: str,
        endpoint: str,
        config: Config,
        readers: Readers,
        clock: Clock,
        ids: IdSource,
        keep_tokens: Callable[[OnWriter], TokenKeeper] | None = None,
        embedder: Embedder | None = None,
        jobs: Sequence[Job] = (RETENTION,),
        has_cluster: bool = False,
        cycles: Cycles | None = None,
        ticks: bool = True,
        audit: AuditKeeper = UNSEALED,
        measures: Measures = NO_MEASURES,
    ) -> None:
        """`cycles` makes the background cycles of sessions; without it there are none. Without
        `ticks` nothing is done by itself, only what somebody asks for. `measures` counts the work.
        """
        self._store = store
        self._node_id = node_id
        self._endpoint = endpoint
        self._config = config
        self._readers = readers
        self._clock = clock
        self._ids = ids
        self._open: dict[str, Held] = {}
        self._turns = Turns()
        self._room = Room(
            config,
            open_memories=self._memories,
            may_go=self._may_go,
            put_away=lambda name: self._turns.take(name, partial(self._put_away, name)),
        )
        self.events = EventFeed(
            lambda *args, **asked: self._access().list_events(*args, **asked),
            partial(find_live, self._open),
        )
        self._settlements = Settlements(self._open, self.events)
        self._tasks: set[asyncio.Task[None]] = set()
        self._committer: CommitterThread | None = None
        self._store_access: StoreAccess | None = None
        self._embedder = embedder
        self._embedding: EmbeddingWork | None = None
        self.views = Views(
            partial(self.memory, create=False),
            self._open,
            access=self._access,
            readers=readers,
            clock=clock,
            config=config,
            contract=self._contract,
            embedder=lambda: None if self._embedding is None else self._embedding.texts,
        )
        self._keep_tokens = keep_tokens
        self._tokens: TokenKeeper | None = None
        self.calendar = Calendar(jobs, self._job_sessions(), clock=clock, has_cluster=has_cluster)
        self._ticks = ticks
        self.cycles = CycleWork(
            cycles,
            ticks=ticks,
            memories=self._memories,
            tokens=lambda: self._tokens,
            clock=clock,
            spawn=self._spawn,
        )
        self._probe = StoreProbe(lambda: self._access().find(""), clock=clock)
        self._heartbeat: Heartbeat | None = None
        self._closing = False
        self._started_at: Micros = 0
        self._audit = audit
        self.measures = measures
        self.failed = asyncio.Event()
        """Set when the committer has ended on a bug; the process should end too."""

    @property
    def open_session_ids(self) -> Sequence[str]:
        return sorted(self._open)

    @property
    def is_healthy(self) -> bool:
        """Whether writes can be acknowledged now."""
        committer = self._committer
        return committer is not None and not committer.has_failed and not committer.is_away

    async def is_ready(self) -> bool:
        """`is_healthy`, and the store has answered when it was asked just now."""
        return not self._closing and self.is_healthy and await self._probe.answers()

    def read_vital_signs(self) -> VitalSigns:
        """How this host stands now."""
        return read_vital_signs(self._memories().values(), is_store_away=not self.is_healthy)

    @property
    def tokens(self) -> TokenKeeper:
        """The tokens beside the sessions; raises `Forbidden` where none are kept."""
        if self._tokens is None:
            raise Forbidden("this host keeps no tokens")
        return self._tokens

    @property
    def reembedder(self) -> Reembedder:
        """Gives sessions vectors of the embedder; raises `NoEmbedder` where there is none."""
        if self._embedding is None:
            raise NoEmbedder(
                "the server runs with embedder.kind none; start it with an embedder, and ask again"
            )
        return self._embedding.reembedder

    @property
    def disappearances(self) -> Disappearances:
        """What was taken out of the sessions: to list it, bring it back, erase it for good."""
        parts = self._access(), self._running(), self._config, self._ids
        return Disappearances(self.write, *parts, self._spawn)

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the committer and the heartbeat; sessions open when they are first asked for."""
        self._started_at = self._clock.now()
        self._committer = CommitterThread(
            self._store,
            node_id=self._node_id,
            config=self._config,
            clock=self._clock,
            on_settled=self._settlements.deliver,
            on_failure=self._on_failure,
            measures=self.measures,
        )
        if self._keep_tokens is not None:
            self._tokens = self._keep_tokens(self._committer.run)
        self._store_access = StoreAccess(
            self._store,
            self._committer,
            node_id=self._node_id,
            endpoint=self._endpoint,
            config=self._config,
            clock=self._clock,
            contract=self._contract,
        )
        try:
            await self._audit.claim(self._store_access)
        except BaseException:
            await self._committer.stop()
            raise
        if self._embedder is not None:
            self._embedding = EmbeddingWork(
                self._embedder,
                config=self._config,
                clock=self._clock,
                ids=self._ids,
                fillable=lambda: [entry.memory for entry in self._open.values()],
                sessions=Sessions(
                    partial(self.memory, create=False), self._find_open, self._drop_vectors
                ),
                spawn=self._spawn,
                measures=self.measures,
            )
        self._spawn(self._store_access.finish_deletions())
        self._spawn(self._store_access.scrub_until_done())  # an end may have cut a purge short
        self._heartbeat = Heartbeat(
            self._open,
            self._store_access,
            clock=self._clock,
            interval_seconds=self._config.heartbeat_seconds,
            shrink=self._room.shrink,
            on_lost=self._settlements.drop,
        )
        self._spawn(self._heartbeat.run())
        self.cycles.start()
        if self._ticks:
            self._spawn(Ticker(self.calendar, clock=self._clock).run())

    @property
    def _contract(self) -> EmbeddingContract | None:
        return None if self._embedder is None else self._embedder.contract

    async def close(self) -> CloseReport:
        """Stop accepting, wait for the committer, give the leases back, stop. Idempotent."""
        if self._closing or self._committer is None:
            return CloseReport(ok=True, unsettled=0)
        self._closing = True
        deadline = self._clock.monotonic() + self._config.close_deadline_seconds
        await finish_accepted(list(self._memories().values()), self._config.close_deadline_seconds)
        for entry in self._open.values():
            entry.memory.note_cycles()
        left = max(0.0, deadline - self._clock.monotonic())
        drained = await self._committer.drain(left)
        await asyncio.sleep(0)  # let the last settlements, queued by the committer, be delivered
        self.events.end()
        await self._audit.anchor_at_end(self._memories().values())
        unsettled = sum(entry.memory.unsettled_count for entry in self._open.values())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._embedding is not None:
            self._embedding.close()
        if drained:
            assert self._heartbeat is not None
            await self._heartbeat.release_all()
            if self._tokens is not None:
                await self._tokens.close()
        await self._committer.stop()
        healthy = drained and not self._committer.has_failed
        return CloseReport(ok=healthy and unsettled == 0, unsettled=unsettled)

    # -- sessions ---------------------------------------------------------------------------------

    async def memory(self, session_id: str, *, create: bool) -> Memory:
        """The open memory of a session. Raises `SessionNotFound` for an unknown one."""
        check_session_name(session_id)
        entry = self._open.get(session_id)
        while entry is not None and entry.memory.is_closing and self._turns.is_taken(session_id):
            await self._turns.pass_by(session_id)  # it is being put away: open it anew
            entry = self._open.get(session_id)
        if entry is None:
            entry = await self._turns.take(
                session_id, partial(self._open_session, session_id, create, None)
            )
        entry.memory.touch()
        return entry.memory

    async def write(
        self,
        session_id: str,
        act: Callable[[Writes], Awaitable[Reply]],
        *,
        create: bool,
    ) -> Reply:
        """Carry out a write, creating its session with `create` if it is the first.

        The first write of a session is tried on an empty graph before the session is made, so that
        a refused one leaves nothing. A session put away in between is opened again, once.
        """
        check_session_name(session_id)
        if session_id not in self._open and await self._access().find(session_id) is None:
            if not create:
                raise session_not_found(session_id)
            strategy = strategy_of(self._config, self._contract)
            await act(
                Trial(
                    session_id,
                    config=self._config,
                    contract=self._contract,
                    match_strategy=strategy,
                )
            )
        memory = await self.memory(session_id, create=create)
        try:
            return await act(memory)
        except SessionClosed:
            if self._closing:
                raise
            return await act(await self.memory(session_id, create=create))

    async def view(self, session_id: str) -> MemoryView:
        """The memory to ask questions of; an unknown session is empty and stays unknown."""
        return await self.views.find(session_id)

    async def create_session(self, session_id: str, caller: Caller) -> Reply:
        """Make a session; raises `SessionExists`."""
        check_session_name(session_id)
        if session_id in self._open or await self._access().find(session_id) is not None:
            raise SessionExists(f"session '{session_id}' exists already", session=session_id)
        now, kind = self._clock.now(), AuditKind.SESSION_CREATE
        act = self._audit.seal(kind, ids=self._ids, at=now, actor=caller.agent_id)
        await self._turns.take(session_id, partial(self._open_session, session_id, True, act))
        log.info("session %r created by %r", session_id, caller.agent_id)
        return _session_reply(f"created session '{session_id}'", session=session_id, created=True)

    async def list_sessions(self, *, after: str = "", limit: int = SESSIONS_PER_PAGE) -> Reply:
        """Sessions by name, at most `limit` (1-200) after a name; `next` asks for the rest."""
        return await list_page(self._access(), self._open, after=after, limit=limit)

    async def close_session(self, session_id: str, caller: Caller) -> Reply:
        """Put an open session away: everything committed, its lease given back."""
        check_session_name(session_id)
        if session_id not in self._open and await self._access().find(session_id) is None:
            raise session_not_found(session_id)
        if not await self._turns.take(session_id, partial(self._put_away, session_id)):
            return _session_reply(
                f"session '{session_id}' is not open", session=session_id, closed=False
            )
        log.info("session %r closed by %r", session_id, caller.agent_id)
        return _session_reply(f"closed session '{session_id}'", session=session_id, closed=True)

    async def delete_session(self, session_id: str, confirm: str, caller: Caller) -> Reply:
        """Remove a session for good. `confirm` must repeat its name; operators only."""
        if not caller.is_operator:
            raise Forbidden("deleting a session needs the operator's secret")
        check_session_name(session_id)
        if confirm != session_id:
            raise InvalidArgument("confirm", "confirm must repeat the session's name")
        if session_id not in self._open and await self._access().find(session_id) is None:
            raise session_not_found(session_id)
        act = partial(self._delete, session_id, caller.agent_id)
        counts = await self._turns.take(session_id, act)
        log.warning("session %r deleted by %r: %s", session_id, caller.agent_id, counts)
        return _session_reply(
            f"deleted session '{session_id}': {counts['concept']} concepts",
            session=session_id,
            deleted=dict(counts),
        )

    async def _delete(self, session_id: str, actor: str) -> Counter[str]:
        """Remove a session, open or not; one that cannot be loaded can be deleted all the same."""
        entry = self._open.get(session_id)
        if entry is None:
            lease = await self._access().acquire(session_id, create=False)
        else:
            await self._drain(entry)
            lease = entry.lease
            self._open.pop(session_id, None)
            self._settlements.drop(entry.memory)
        if self._embedding is not None:
            self._embedding.reembedder.forget(session_id)
        key = self._audit.key
        try:
            return await self._access().delete(lease, actor=actor, ids=self._ids, chain_key=key)
        finally:
            self.events.forget(session_id)  # listeners see that its log is gone

    # -- opening and putting away -----------------------------------------------------------------

    async def _open_session(self, session_id: str, create: bool, act: SealedAct | None) -> Held:
        entry = self._open.get(session_id)
        if entry is not None:
            return entry
        if self._closing:
            raise SessionClosed("the server is shutting down", retry_after_seconds=1.0)
        place = asyncio.current_task()
        assert place is not None
        await self._room.take_place(place)
        try:
            entry = await self._load_session(session_id, create, act)
        finally:
            self._room.give_back(place)
        self._spawn(self._room.shrink())
        return entry

    async def _load_session(self, session_id: str, create: bool, act: SealedAct | None) -> Held:
        access = self._access()
        lease = await access.acquire(session_id, create=create, act=act)
        loaded, graph = await access.load(session_id)
        await access.put_aside(loaded, lease.token)
        lease = replace(lease, position=loaded.position)
        incarnation = await access.attach(lease)
        cycles = await self.cycles.attach(loaded, graph)
        memory = Memory(
            graph,
            log_end=self._log_end(loaded),
            receipt_digests=dict(loaded.receipt_digests),
            link=self._link(session_id, incarnation),
            store=self._store,
            config=self._config,
            readers=self._readers,
            clock=self._clock,
            ids=self._ids,
            process_started_at=self._started_at,
            embedder=None if self._embedding is None else self._embedding.texts,
            cycles=cycles,
        )
        entry = Held(memory, lease, self._clock.monotonic())
        self._open[session_id] = entry
        self._settlements.expect(incarnation, memory)
        if self._embedding is not None:
            self._embedding.on_opened(session_id, graph, loaded.contracts)
        return entry

    def _log_end(self, loaded: LoadedSession) -> LogEnd:
        chain = self._audit.chain_of(loaded, self._ids)
        return LogEnd(loaded.position, loaded.event_id, chain)

    def _link(self, session_id: str, incarnation: int) -> HostLink:
        return HostLink(
            session_id,
            incarnation,
            self._running(),
            self._access(),
            self._embedding,
            lease_age=partial(self._lease_age, session_id),
            reload=lambda memory: self._spawn(self._reload(memory)),
            drop=self._forget,
            cycles=self.cycles,
            measures=self.measures,
        )

    def _may_go(self, session_id: str) -> bool:
        is_worked_on = self._embedding and self._embedding.reembedder.is_at_work_on(session_id)
        memory = self._find_open(session_id)
        is_cycling = memory is not None and memory.cycle_turn.locked()
        return not (self._turns.is_taken(session_id) or is_worked_on or is_cycling)

    async def _put_away(self, session_id: str) -> bool:
        """Close an open session; False if it is not open."""
        entry = self._open.get(session_id)
        if entry is None:
            return False
        await entry.memory.settle_cycles()
        await self._drain(entry)
        if self._open.pop(session_id, None) is not None:
            await self._audit.anchor_at_end([entry.memory])
            self._settlements.drop(entry.memory)
            await self._access().release([entry.lease])
        return True

    async def _drain(self, entry: Held) -> None:
        """Refuse new writes to a session and wait until none of it is unsettled."""
        entry.memory.begin_close()
        try:
            await entry.memory.accepted.drain(self._config.close_deadline_seconds)
            entry.memory.note_cycles()
            if entry.memory.unsettled_count:
                await self._running().drain(self._config.close_deadline_seconds)
                await asyncio.sleep(0)
            if not entry.memory.is_idle:
                count = entry.memory.unsettled_count + len(entry.memory.accepted)
                raise StoreUnavailable(
                    f"{count} writes of the session are not committed yet",
                    retry_after_seconds=self._config.away_after_seconds,
                )
        except BaseException:
            entry.memory.resume()
            raise

    # -- upkeep -----------------------------------------------------------------------------------

    async def renew_leases(self) -> None:
        """One heartbeat; a store that does not answer leaves the leases unconfirmed."""
        assert self._heartbeat is not None, "SessionHost.start was not awaited"
        await self._heartbeat.renew()

    def _job_sessions(self) -> JobSessions:
        return JobSessions(
            held=lambda: self.open_session_ids,
            find=self._find_open,
            open=partial(self.memory, create=False),
            put_away=lambda name: self._turns.take(name, partial(self._put_away, name)),
            access=self._access,
            is_healthy=lambda: self.is_healthy,
        )

    def _on_failure(self) -> None:
        """The committer ended on a bug: nothing can be acknowledged any more."""
        self.failed.set()

    async def _reload(self, memory: Memory) -> None:
        """Replace a session's graph by what the store holds, after a rejected group."""
        name = memory.graph.session_id
        await reload_until_done(
            memory,
            is_open=lambda memory: self._find_open(name) is memory,
            # In a turn: if it were opened anew meanwhile, we would take the log from that.
            load_again=lambda memory: self._turns.take(name, partial(self._load_again, memory)),
            config=self._config,
        )

    async def _load_again(self, memory: Memory) -> None:
        session_id = memory.graph.session_id
        if (entry := self._open.get(session_id)) is None or entry.memory is not memory:
            return
        loaded, graph = await self._access().load(session_id)
        await self._access().put_aside(loaded, entry.lease.token)
        lease = Lease(session_id, self._node_id, entry.lease.token, loaded.position)
        incarnation = await self._access().attach(lease)
        self._settlements.drop(memory)
        self._settlements.expect(incarnation, memory)
        link = self._link(session_id, incarnation)
        cycles = await self.cycles.attach(loaded, graph)
        log_end, digests = self._log_end(loaded), dict(loaded.receipt_digests)
        memory.on_reloaded(graph, log_end, digests, link, cycles)
        log.warning("session %r reloaded at position %d", session_id, loaded.position)

    def _memories(self) -> Mapping[str, Memory]:
        return {name: entry.memory for name, entry in self._open.items()}

    def _find_open(self, session_id: str) -> Memory | None:
        entry = self._open.get(session_id)
        return None if entry is None else entry.memory

    def _lease_age(self, session_id: str) -> float:
        entry = self._open.get(session_id)
        return 0.0 if entry is None else self._clock.monotonic() - entry.confirmed_at

    def _forget(self, memory: Memory) -> None:
        session_id = memory.graph.session_id
        if self._find_open(session_id) is memory:
            del self._open[session_id]

    async def _drop_vectors(self, session_id: str, contract_key: str) -> int:
        entry = self._open.get(session_id)
        if entry is None:
            return 0
        return await self._access().drop_vectors(entry.lease, contract_key)

    # -- plumbing ---------------------------------------------------------------------------------

    def _running(self) -> CommitterThread:
        assert self._committer is not None, "SessionHost.start was not awaited"
        return self._committer

    def _access(self) -> StoreAccess:
        assert self._store_access is not None, "SessionHost.start was not awaited"
        return self._store_access

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _session_reply(text: str, **structured: Any) -> Reply:
    return Reply(text, {"summary": text.partition("\n")[0], **structured, "warnings": []})
