"""Many sessions in one process: opened on demand under their lease, closed in order.

The host owns the open memories, the committer, the heartbeat and the order of shutdown. It keeps no
policy of any verb. A session is opened once, however many calls ask for it at the same time; an
unknown one is created by its first write and never by a read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from memory.engine.config import Config
from memory.engine.embedding import Embedder, EmbeddingContract
from memory.engine.errors import (
    Forbidden,
    InvalidArgument,
    LamboError,
    SessionClosed,
    SessionExists,
    SessionNotFound,
    StoreUnavailable,
    TooManySessions,
)
from memory.engine.graph import Graph
from memory.engine.limits import SESSIONS_PER_PAGE
from memory.engine.mutations import Group
from memory.engine.ports import (
    Clock,
    GraphStore,
    IdSource,
    Lease,
)
from memory.engine.requests import Caller, check_session_name
from memory.engine.times import format_rfc3339
from memory.service.committer import Outcome, Settled
from memory.service.committer_thread import CommitterThread
from memory.service.events import EventFeed, Told
from memory.service.meanings import VectorFiller
from memory.service.memory import Memory, SessionLink
from memory.service.replies import Reply
from memory.service.store_access import StoreAccess, session_not_found, strategy_of
from memory.service.text_embedder import TextEmbedder
from memory.service.tokens import OnWriter, TokenKeeper
from memory.service.trial import Trial
from memory.service.turns import Turns
from memory.service.view import MemoryView, Readers
from memory.service.writes import Writes

log = logging.getLogger("lambo.host")
T = TypeVar("T")

RETENTION_INTERVAL_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class CloseReport:
    """How a shutdown ended. `unsettled` counts writes whose commit was not confirmed."""

    ok: bool
    unsettled: int


@dataclass(slots=True)
class _Open:
    memory: Memory
    lease: Lease
    confirmed_at: float  # monotonic seconds


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
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._endpoint = endpoint
        self._config = config
        self._readers = readers
        self._clock = clock
        self._ids = ids
        self._open: dict[str, _Open] = {}
        self._routes: dict[int, Memory] = {}  # whose groups a settlement speaks of
        self._turns = Turns()
        self._room = asyncio.Lock()
        self._placed: set[asyncio.Task[Any]] = set()  # openings that have a place
        self._events = EventFeed()
        self._tasks: set[asyncio.Task[None]] = set()
        self._committer: CommitterThread | None = None
        self._store_access: StoreAccess | None = None
        self._embedder = embedder
        self._text_embedder: TextEmbedder | None = None
        self._filler: VectorFiller | None = None
        self._keep_tokens = keep_tokens
        self._tokens: TokenKeeper | None = None
        self._closing = False
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

    @property
    def tokens(self) -> TokenKeeper:
        """The tokens beside the sessions; raises `Forbidden` where none are kept."""
        if self._tokens is None:
            raise Forbidden("this host keeps no tokens")
        return self._tokens

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the committer and the heartbeat; sessions open when they are first asked for."""
        self._committer = CommitterThread(
            self._store,
            node_id=self._node_id,
            config=self._config,
            clock=self._clock,
            on_settled=self._on_settled,
            on_failure=self._on_failure,
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
        if self._embedder is not None:
            self._start_embedding(self._embedder)
        self._spawn(self._store_access.finish_deletions())
        self._spawn(self._beat())
        self._spawn(self._retain())

    def _start_embedding(self, embedder: Embedder) -> None:
        self._text_embedder = TextEmbedder(
            embedder, deadline_seconds=self._config.embed_deadline_seconds
        )
        self._filler = VectorFiller(
            self._text_embedder,
            lambda: [entry.memory for entry in self._open.values()],
            retry_initial_seconds=self._config.retry_initial_seconds,
        )
        self._spawn(self._filler.run())

    @property
    def _contract(self) -> EmbeddingContract | None:
        return None if self._embedder is None else self._embedder.contract

    async def close(self) -> CloseReport:
        """Stop accepting, wait for the committer, give the leases back, stop. Idempotent."""
        if self._closing or self._committer is None:
            return CloseReport(ok=True, unsettled=0)
        self._closing = True
        for entry in self._open.values():
            entry.memory.begin_close()
        drained = await self._committer.drain(self._config.close_deadline_seconds)
        await asyncio.sleep(0)  # let the last settlements, queued by the committer, be delivered
        self._events.end()
        unsettled = sum(entry.memory.unsettled_count for entry in self._open.values())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._text_embedder is not None:
            self._text_embedder.close()
        if drained:
            await self._release_all()
            if self._tokens is not None:
                await self._tokens.close()
        await self._committer.stop()
        healthy = drained and not self._committer.has_failed
        return CloseReport(ok=healthy and unsettled == 0, unsettled=unsettled)

    def events(self, session_id: str) -> AsyncIterator[Told]:
        """Committed writes of a session from now on; see `memory.service.events`."""
        check_session_name(session_id)
        return self._events.listen(session_id)

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
                session_id, partial(self._open_session, session_id, create)
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
        check_session_name(session_id)
        if session_id not in self._open and await self._access().find(session_id) is None:
            empty = Graph(session_id, self._clock.now())
            return MemoryView(empty, readers=self._readers, clock=self._clock)
        try:
            return await self.memory(session_id, create=False)
        except SessionNotFound:  # deleted in between
            empty = Graph(session_id, self._clock.now())
            return MemoryView(empty, readers=self._readers, clock=self._clock)

    async def create_session(self, session_id: str, caller: Caller) -> Reply:
        """Make a session; raises `SessionExists`."""
        check_session_name(session_id)
        if session_id in self._open or await self._access().find(session_id) is not None:
            raise SessionExists(f"session '{session_id}' exists already", session=session_id)
        await self.memory(session_id, create=True)
        log.info("session %r created by %r", session_id, caller.agent_id)
        return _session_reply(f"created session '{session_id}'", session=session_id, created=True)

    async def list_sessions(self, *, after: str = "", limit: int = SESSIONS_PER_PAGE) -> Reply:
        """Sessions by name, at most `limit` (1-200) after a name; `next` asks for the rest."""
        if not 1 <= limit <= SESSIONS_PER_PAGE:
            raise InvalidArgument("limit", f"limit must be in 1..={SESSIONS_PER_PAGE}")
        found = await self._access().list_sessions(after, limit + 1)
        page = found[:limit]
        rows = [
            {
                "session": info.session_id,
                "created_at": format_rfc3339(info.created_at),
                "match_strategy": info.match_strategy,
                "open": info.session_id in self._open,
            }
            for info in page
        ]
        text = "\n".join(f"{row['session']}  {row['created_at']}" for row in rows)
        following = page[-1].session_id if len(found) > limit else None
        return _session_reply(text or "no sessions", sessions=rows, next=following)

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
        counts = await self._turns.take(session_id, partial(self._delete, session_id))
        log.warning("session %r deleted by %r: %s", session_id, caller.agent_id, counts)
        return _session_reply(
            f"deleted session '{session_id}': {counts['concept']} concepts",
            session=session_id,
            deleted=dict(counts),
        )

    async def _delete(self, session_id: str) -> Counter[str]:
        """Remove a session, open or not; one that cannot be loaded can be deleted all the same."""
        entry = self._open.get(session_id)
        if entry is None:
            lease = await self._access().acquire(session_id, create=False)
        else:
            await self._drain(entry)
            lease = entry.lease
            self._open.pop(session_id, None)
            self._drop_routes(entry.memory)
        return await self._access().delete(lease)

    # -- opening and putting away -----------------------------------------------------------------

    async def _open_session(self, session_id: str, create: bool) -> _Open:
        entry = self._open.get(session_id)
        if entry is not None:
            return entry
        if self._closing:
            raise SessionClosed("the server is shutting down", retry_after_seconds=1.0)
        place = asyncio.current_task()
        assert place is not None
        await self._make_room(place)
        try:
            return await self._load_session(session_id, create)
        finally:
            self._placed.discard(place)

    async def _load_session(self, session_id: str, create: bool) -> _Open:
        access = self._access()
        lease = await access.acquire(session_id, create=create)
        loaded, graph = await access.load(session_id)
        await access.put_aside(loaded, lease.token)
        lease = replace(lease, position=loaded.position)
        incarnation = await access.attach(lease)
        memory = Memory(
            graph,
            position=loaded.position,
            receipt_digests=dict(loaded.receipt_digests),
            link=_Link(self, session_id, incarnation),
            store=self._store,
            config=self._config,
            readers=self._readers,
            clock=self._clock,
            ids=self._ids,
            embedder=self._text_embedder,
        )
        entry = _Open(memory, lease, self._clock.monotonic())
        self._open[session_id] = entry
        self._routes[incarnation] = memory
        self._request_vectors()
        return entry

    async def _make_room(self, place: asyncio.Task[Any]) -> None:
        """Keep a place for one more session, putting the least recently used away until it fits.

        A session whose writes were stopped stays: putting it away would start it anew unseen.
        """
        async with self._room:
            while len(self._open) + len(self._placed) >= self._config.open_sessions_max:
                idle = [
                    (entry.memory.last_used, name)
                    for name, entry in self._open.items()
                    if entry.memory.unsettled_count == 0
                    and not entry.memory.is_fenced
                    and not self._turns.is_taken(name)
                ]
                if idle:
                    name = min(idle)[1]
                    await self._turns.take(name, partial(self._put_away, name))
                elif self._placed:
                    await asyncio.wait(self._placed, return_when=asyncio.FIRST_COMPLETED)
                else:
                    raise TooManySessions(
                        f"all {self._config.open_sessions_max} open sessions are busy",
                        retry_after_seconds=1.0,
                    )
            self._placed.add(place)

    async def _put_away(self, session_id: str) -> bool:
        """Close an open session; False if it is not open."""
        entry = self._open.get(session_id)
        if entry is None:
            return False
        await self._drain(entry)
        if self._open.pop(session_id, None) is not None:
            self._drop_routes(entry.memory)
            await self._access().release([entry.lease])
        return True

    async def _drain(self, entry: _Open) -> None:
        """Refuse new writes to a session and wait until none of it is unsettled."""
        entry.memory.begin_close()
        try:
            if entry.memory.unsettled_count:
                await self._running().drain(self._config.close_deadline_seconds)
                await asyncio.sleep(0)
            if entry.memory.unsettled_count:
                raise StoreUnavailable(
                    f"{entry.memory.unsettled_count} writes of the session are not committed yet",
                    retry_after_seconds=self._config.away_after_seconds,
                )
        except BaseException:
            entry.memory.resume()
            raise

    async def _release_all(self) -> None:
        held = [entry.lease for entry in self._open.values() if not entry.memory.is_fenced]
        try:
            async with asyncio.timeout(2.0):
                await self._access().release(held)
        except (LamboError, TimeoutError) as error:
            # Everything is committed; an unreleased lease only makes others wait for its expiry.
            log.warning("leases not given back, they expire by themselves: %s", error)

    # -- upkeep -----------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Renew the leases of all sessions in one statement, at each heartbeat."""
        while True:
            await asyncio.sleep(self._config.heartbeat_seconds)
            try:
                await self.renew_leases()
            except Exception:  # the edge of a loop that must not end: the next beat tries again
                log.exception("a heartbeat failed unexpectedly")

    async def renew_leases(self) -> None:
        """One heartbeat; a store that does not answer leaves the leases unconfirmed."""
        tokens = {name: entry.lease.token for name, entry in self._open.items()}
        if not tokens:
            return
        asked_at = self._clock.monotonic()
        try:
            lost = await self._access().renew(tokens)
        except StoreUnavailable as error:
            log.warning("heartbeat failed: %s", error)
            return
        for name, token in tokens.items():
            entry = self._open.get(name)
            if entry is None or entry.lease.token != token:
                continue
            if name in lost:
                log.error("session %r was taken over by another server", name)
                entry.memory.on_lease_lost()
                if entry.memory.unsettled_count == 0:
                    self._drop_routes(entry.memory)
            else:
                entry.confirmed_at = asked_at

    async def _retain(self) -> None:
        """Drop receipts past their time, now and then."""
        while True:
            await asyncio.sleep(RETENTION_INTERVAL_SECONDS)
            try:
                await self._access().prune_receipts()
            except Exception:  # the edge of a loop that must not end
                log.exception("pruning receipts failed unexpectedly")

    def _on_settled(self, settled: Sequence[Settled]) -> None:
        for item in settled:
            memory = self._routes.get(item.incarnation)
            if memory is None:
                continue
            entry = self._open.get(item.group.session_id)
            if entry is not None and entry.memory is memory:
                entry.confirmed_at = item.settled_at
            memory.on_settled(item)
            if item.outcome is Outcome.COMMITTED:
                self._events.tell(item.group)
            if memory.is_fenced and memory.unsettled_count == 0:
                del self._routes[item.incarnation]

    def _on_failure(self) -> None:
        """The committer ended on a bug: nothing can be acknowledged any more."""
        self.failed.set()

    def _drop_routes(self, memory: Memory) -> None:
        self._routes = {at: held for at, held in self._routes.items() if held is not memory}

    async def _reload(self, memory: Memory) -> None:
        """Replace a session's graph by what the store holds, after a rejected group."""
        session_id = memory.graph.session_id
        try:
            await self._reload_when_possible(memory)
        except Exception:  # a bug of ours, or rows that cannot be: writing on would build on sand
            log.exception("session %r cannot be reloaded; its writes stop", session_id)
            memory.on_reload_failed()

    async def _reload_when_possible(self, memory: Memory) -> None:
        session_id = memory.graph.session_id
        delay = self._config.retry_initial_seconds
        while True:
            entry = self._open.get(session_id)
            if entry is None or entry.memory is not memory:
                return
            try:
                loaded, graph = await self._access().load(session_id)
                break
            except StoreUnavailable as error:
                log.error("session %r cannot be reloaded yet: %s", session_id, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, self._config.retry_max_seconds)
        await self._access().put_aside(loaded, entry.lease.token)
        lease = Lease(session_id, self._node_id, entry.lease.token, loaded.position)
        incarnation = await self._access().attach(lease)
        self._drop_routes(memory)
        self._routes[incarnation] = memory
        link = _Link(self, session_id, incarnation)
        memory.on_reloaded(graph, loaded.position, dict(loaded.receipt_digests), link)
        log.warning("session %r reloaded at position %d", session_id, loaded.position)

    def _request_vectors(self) -> None:
        if self._filler is not None:
            self._filler.wake()

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


class _Link(SessionLink):
    """A memory's way back to its host."""

    def __init__(self, host: SessionHost, session_id: str, incarnation: int) -> None:
        self._host = host
        self._session_id = session_id
        self._incarnation = incarnation

    def submit(self, group: Group) -> None:
        self._host._running().submit(group, self._incarnation)

    @property
    def is_away(self) -> bool:
        committer = self._host._running()
        return committer.is_away or committer.has_failed

    @property
    def lease_age_seconds(self) -> float:
        entry = self._host._open.get(self._session_id)
        return 0.0 if entry is None else self._host._clock.monotonic() - entry.confirmed_at

    async def trouble_counts(self) -> tuple[int, int]:
        try:
            return await self._host._access().trouble_counts(self._session_id)
        except StoreUnavailable:
            return 0, 0  # `degraded` says why

    def request_reload(self, memory: Memory) -> None:
        self._host._spawn(self._host._reload(memory))

    def request_vectors(self) -> None:
        self._host._request_vectors()

    def forget(self, memory: Memory) -> None:
        entry = self._host._open.get(self._session_id)
        if entry is not None and entry.memory is memory:
            del self._host._open[self._session_id]


def _session_reply(text: str, **structured: Any) -> Reply:
    return Reply(text, {"summary": text.partition("\n")[0], **structured, "warnings": []})
