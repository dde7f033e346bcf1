"""One session's memory: the in-process API that every surface and embedding program calls.

A `MemoryView` answers questions from a graph. A `Memory` adds writes: each is planned and applied
to the RAM graph in one synchronous step on the event loop, queued as one group for the committer,
and answered when the mode says so. Between the step's checks and its effect nothing is awaited, so
no premise can go stale and no write is refused because another ran beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

from memory.engine.config import Config, Durability
from memory.engine.draft import Plan
from memory.engine.embedding import EmbeddingFailure
from memory.engine.errors import (
    EmbeddingMismatch,
    IdempotencyConflict,
    LamboError,
    LeaseLost,
    OutcomeUnknown,
    RejectedByStore,
    SessionClosed,
    SessionReloaded,
    StoreFault,
    StoreRewound,
    StoreUnavailable,
)
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.limits import BACKLOG_MUTATIONS, RECEIPTS_PER_SESSION
from memory.engine.mutations import Call, Group, Mutation, PutVector, Receipt
from memory.engine.ports import Clock, GraphStore, IdSource, StoreRejected, StoreTransient
from memory.engine.requests import Caller, RecallRequest
from memory.engine.times import Micros
from memory.service.committer import Outcome, Settled
from memory.service.meanings import find_meanings, find_query, is_mismatch
from memory.service.replies import Reply, receipt_reply, replay, replayed
from memory.service.stats import SessionStats, count_graph
from memory.service.text_embedder import TextEmbedder
from memory.service.view import MemoryView, Readers
from memory.service.writes import NO_TEXTS, MakePlan, R, Texts, Writes

log = logging.getLogger("lambo.memory")

FAULTS_MAX = 3
"""Rejected groups in a row after which a session's writes stop."""
RELOAD_WAIT_SECONDS = 10.0
ANSWER_RETRY_SECONDS = 1.0
Scope = tuple[str, str]


@dataclass(slots=True)
class _Pending:
    """A write that is applied to the RAM graph and not yet settled."""

    group: Group
    since: float  # monotonic seconds
    outcome: asyncio.Future[Outcome]
    reply: Reply


class SessionLink(Protocol):
    """What a `Memory` needs of its host: the committer's queue and the way to a fresh graph."""

    def submit(self, group: Group) -> None: ...

    @property
    def is_away(self) -> bool:
        """Whether the store does not answer now."""

    @property
    def lease_age_seconds(self) -> float:
        """Seconds since the lease was last confirmed by the store."""

    async def trouble_counts(self) -> tuple[int, int]:
        """Dead letters and rows set aside; zeros while the store does not answer."""

    def request_reload(self, memory: Memory) -> None:
        """Start replacing the graph by what the store holds; `on_reloaded` follows."""

    def forget(self, memory: Memory) -> None:
        """Drop this memory: the session is no longer ours."""

    def request_vectors(self) -> None:
        """Have the concepts that got no vector embedded later."""


class Memory(MemoryView, Writes):
    """An open session under our lease. Made by `SessionHost.memory`, never directly."""

    def __init__(
        self,
        graph: Graph,
        *,
        position: int,
        receipt_digests: dict[Scope, str],
        link: SessionLink,
        store: GraphStore,
        config: Config,
        readers: Readers,
        clock: Clock,
        ids: IdSource,
        embedder: TextEmbedder | None = None,
    ) -> None:
        MemoryView.__init__(self, graph, readers=readers, clock=clock)
        Writes.__init__(self, graph, config=config, ids=ids)
        self._link = link
        self._store = store
        self._position = position  # of the newest group applied to the RAM graph
        self._digests = OrderedDict(receipt_digests)
        self._embedder = embedder
        self._preparing: dict[Scope, asyncio.Event] = {}  # keys of writes not yet applied
        self._in_flight: dict[Scope, _Pending] = {}
        self._pending: OrderedDict[int, _Pending] = OrderedDict()
        self._pending_mutations = 0
        self._faults_in_row = 0
        self._ready = asyncio.Event()
        self._ready.set()
        self._fence: LamboError | None = None
        self._closing = False
        self.last_used = clock.monotonic()

    async def _find_query(
        self, request: RecallRequest
    ) -> tuple[Meanings | None, EmbeddingFailure | None]:
        return await find_query(lambda: self.graph, self._embedder, request)

    async def stats(self) -> Reply:
        """Counts and health, with what the store had to set aside."""
        dead_lettered, set_aside = await self._link.trouble_counts()
        stats = replace(self._stats(), dead_lettered=dead_lettered, set_aside=set_aside)
        return self._warn(Reply.of(stats))

    async def receipt(self, key: str, *, agent_id: str) -> Reply:
        """How a write under a key ended: `applied` (not yet committed) or `committed`."""
        scope = (agent_id, key)
        pending = self._in_flight.get(scope)
        if pending is not None:
            return receipt_reply(key, "applied", pending.reply)
        stored = await self._stored_receipt(scope)
        if stored is None:
            return await MemoryView.receipt(self, key, agent_id=agent_id)
        return receipt_reply(key, "committed", replay(stored))

    async def _write(
        self,
        verb: str,
        request: object,
        caller: Caller,
        make_plan: MakePlan[R],
        texts: Texts = NO_TEXTS,
    ) -> Reply:
        """The one way into the graph: answer from a receipt, or plan, apply, queue and wait."""
        self.last_used = self._clock.monotonic()
        arguments = _arguments_json(request)
        key = caller.key or self._ids.next_id()
        digest = hashlib.sha256(f"{verb}\n{arguments}".encode()).hexdigest()
        call = Call(verb, caller.agent_id, key, digest, arguments)
        scope = (call.agent_id, call.key)
        if caller.key is not None:
            known = await self._answer_of_key(call, scope)
            if known is not None:
                return known
        # A request under this key that comes while this one is prepared waits for its end.
        done = self._preparing[scope] = asyncio.Event()
        try:
            await self._until_writable()
            await self._read_ahead(request)
            meanings = await find_meanings(lambda: self.graph, self._embedder, texts)
            await self._until_writable()
            # From here to the end of `_apply` nothing is awaited.
            now = self._clock.now()
            plan = make_plan(now, meanings)
            if not plan.mutations:
                return Reply.of(plan.result, key=key)
            pending = self._apply(call, plan, now)
        finally:
            del self._preparing[scope]
            done.set()
        if self._config.durability is not Durability.COMMIT:
            return pending.reply
        return await self._settled(pending)

    async def _answer_of_key(self, call: Call, scope: Scope) -> Reply | None:
        """The answer under this key; None only when, without a pause since, nobody holds it."""
        while True:
            known = await self._known_reply(call)
            if known is not None:
                return known
            if scope in self._preparing:
                await self._preparing[scope].wait()
            elif scope not in self._in_flight and scope not in self._digests:
                return None

    async def _known_reply(self, call: Call) -> Reply | None:
        """The answer of an earlier request under this key, or None if there was none.

        A key in flight waits for its first request. Raises `IdempotencyConflict` for another body.
        """
        scope = (call.agent_id, call.key)
        pending = self._in_flight.get(scope)
        if pending is not None:
            assert pending.group.call is not None
            _check_same(pending.group.call.digest, call)
            if self._config.durability is not Durability.COMMIT:
                return replayed(pending.reply)
            return replayed(await self._settled(pending))
        digest = self._digests.get(scope)
        if digest is None:
            return None
        _check_same(digest, call)
        stored = await self._stored_receipt(scope)
        if stored is None:
            # Kept for a limited time: the key is free again, unless another request has used it
            # anew while this one asked; then the very object is another one.
            if self._digests.get(scope) is digest:
                del self._digests[scope]
            return None
        return replay(stored)

    async def _stored_receipt(self, scope: Scope) -> Receipt | None:
        try:
            return await asyncio.to_thread(self._store.find_receipt, self.graph.session_id, *scope)
        except (StoreTransient, StoreRejected) as error:
            raise StoreUnavailable(
                "the store did not answer for an earlier request under this key",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            ) from error

    async def _until_writable(self) -> None:
        """Wait for a reload under way; raise what stands against a write."""
        while not self._ready.is_set():
            await self._until_reloaded()
        self._check_writable()

    def _check_writable(self) -> None:
        if self._fence is not None:
            raise self._fence
        self._check_contract()
        if self._closing:
            raise SessionClosed(
                f"session '{self.graph.session_id}' is being put away; ask again",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            )
        if self._link.is_away:
            raise StoreUnavailable(
                "the store does not answer; nothing of this write was kept, reads go on",
                retry_after_seconds=self._config.away_after_seconds,
            )
        if self._pending_mutations > BACKLOG_MUTATIONS:
            raise StoreUnavailable(
                f"{self._pending_mutations} mutations wait for the store, over the limit of "
                f"{BACKLOG_MUTATIONS}; nothing of this write was kept",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            )

    def _check_contract(self) -> None:
        """Refuse to write where the server's vectors are not those of the session."""
        contract = self.graph.contract
        own = None if self._embedder is None else self._embedder.contract
        if contract is not None and is_mismatch(self.graph, own):
            configured = "none" if own is None else own.describe()
            raise EmbeddingMismatch(
                f"session '{self.graph.session_id}' holds vectors of {contract.describe()}; this "
                f"server's embedder is {configured}. It is read by words alone and takes no "
                f"writes until the server runs with embedder.kind {contract.kind} again",
                contract=contract.as_wire(),
                configured=None if own is None else own.as_wire(),
            )

    def _apply(self, call: Call, plan: Plan[R], now: Micros) -> _Pending:
        """Carry the plan out in RAM and queue its group."""
        reply = Reply.of(plan.result, key=call.key)
        receipt = Receipt(
            agent_id=call.agent_id,
            key=call.key,
            verb=call.verb,
            digest=call.digest,
            reply={"text": reply.text, "structured": reply.structured},
            position=self._position + 1,
            created_at=now,
        )
        pending = self._queue(plan.mutations, now, reply, call, receipt)
        self._in_flight[(call.agent_id, call.key)] = pending
        if self.graph.missing_vector_count:
            self._link.request_vectors()
        return pending

    def _queue(
        self,
        mutations: tuple[Mutation, ...],
        now: Micros,
        reply: Reply,
        call: Call | None = None,
        receipt: Receipt | None = None,
    ) -> _Pending:
        """Apply mutations to the RAM graph and hand their group to the committer."""
        self._position += 1
        vectors = [mutation for mutation in mutations if isinstance(mutation, PutVector)]
        group = Group(
            session_id=self.graph.session_id,
            position=self._position,
            mutations=mutations,
            created_at=now,
            call=call,
            receipt=receipt,
            byte_count=200 * len(mutations)
            + sum(len(mutation.vector) for mutation in vectors)
            + (0 if call is None else 3 * len(call.arguments)),
        )
        self.graph.apply_all(mutations)
        pending = _Pending(
            group, self._clock.monotonic(), asyncio.get_running_loop().create_future(), reply
        )
        self._pending[group.position] = pending
        self._pending_mutations += len(group.mutations)
        self._link.submit(group)
        return pending

    def takes_writes(self) -> bool:
        """Whether a write would be accepted now."""
        try:
            self._check_writable()
        except LamboError:
            return False
        return self._ready.is_set()

    async def append(self, mutations: Sequence[Mutation]) -> bool:
        """Write a group that no caller asked for and wait until it is settled.

        False when the store will never take it.
        """
        assert self.takes_writes()
        pending = self._queue(tuple(mutations), self._clock.now(), Reply("", {}))
        await asyncio.wait([pending.outcome])
        return pending.outcome.result() is not Outcome.REJECTED

    async def _settled(self, pending: _Pending) -> Reply:
        """Wait for the store's word on a group, and turn it into a reply or an error."""
        if not pending.outcome.done():
            await asyncio.wait(
                [pending.outcome], timeout=self._config.outcome_unknown_after_seconds
            )
        key = pending.reply.key
        if not pending.outcome.done():
            raise OutcomeUnknown(
                "the write is applied but the store has not confirmed it; ask for its receipt, or "
                "send the same request again under the same key",
                idempotency_key=key,
                retry_after_seconds=self._config.away_after_seconds,
            )
        match pending.outcome.result():
            case Outcome.COMMITTED:
                return pending.reply
            case Outcome.REJECTED:
                raise RejectedByStore(
                    "the store refused this write; nothing of it was kept, and the call was set "
                    "aside as a dead letter",
                    idempotency_key=key,
                )
            case Outcome.DROPPED:
                raise SessionReloaded(
                    "an earlier write of this session was refused by the store; nothing of this "
                    "one was stored, send it again",
                    idempotency_key=key,
                    retry_after_seconds=ANSWER_RETRY_SECONDS,
                )
            case Outcome.LOST:
                raise self._lease_lost(key)
            case Outcome.REWOUND:
                raise self._rewound()

    async def _until_reloaded(self) -> None:
        try:
            async with asyncio.timeout(RELOAD_WAIT_SECONDS):
                await self._ready.wait()
        except TimeoutError as error:
            raise StoreUnavailable(
                "the session is being reloaded from the store; nothing of this write was kept",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            ) from error

    # -- what the host tells ----------------------------------------------------------------------

    def on_settled(self, settled: Settled) -> None:
        """Take the store's word on one group."""
        pending = self._pending.pop(settled.group.position, None)
        if pending is None or pending.group is not settled.group:
            return
        self._pending_mutations -= len(settled.group.mutations)
        call = settled.group.call
        if call is not None:
            scope = (call.agent_id, call.key)
            self._in_flight.pop(scope, None)
            if settled.outcome is Outcome.COMMITTED:
                self._remember(scope, call.digest)
        if not pending.outcome.done():
            pending.outcome.set_result(settled.outcome)
        match settled.outcome:
            case Outcome.COMMITTED:
                self._faults_in_row = 0
            case Outcome.REJECTED:
                self._faults_in_row += 1
                self._ready.clear()
                self._link.request_reload(self)
            case Outcome.LOST:
                self._shut(self._lease_lost(None))
            case Outcome.REWOUND:
                self._shut(self._rewound())
            case Outcome.DROPPED:
                pass  # the rejection before it asked for the reload

    def on_reloaded(
        self,
        graph: Graph,
        position: int,
        receipt_digests: dict[Scope, str],
        link: SessionLink,
    ) -> None:
        """Swap in what the store holds; waiting writes go on."""
        for pending in self._pending.values():  # of the graph that is gone; they may never land
            pending.outcome.set_result(Outcome.DROPPED)
        self._pending.clear()
        self._in_flight.clear()
        self._pending_mutations = 0
        self._link = link
        self.graph = graph
        self._position = position
        self._digests = OrderedDict(receipt_digests)
        if self._faults_in_row >= FAULTS_MAX:
            self._shut(
                StoreFault(
                    f"the store refused {FAULTS_MAX} writes of session '{graph.session_id}' in a "
                    "row; writes stopped until an operator looks at the dead letters and closes "
                    "the session"
                )
            )
        self._ready.set()

    def on_reload_failed(self) -> None:
        """The stored session cannot be used: stop its writes, answer from what is in RAM."""
        self._shut(
            StoreFault(
                f"session '{self.graph.session_id}' could not be loaded again after a refused "
                "write; its writes are stopped, see the server's log"
            )
        )

    def on_lease_lost(self) -> None:
        """Another node holds the session: drop what is in RAM."""
        self._shut(self._lease_lost(None))

    def begin_close(self) -> None:
        """Refuse new writes; those applied go on to be committed."""
        self._closing = True

    @property
    def is_closing(self) -> bool:
        """Whether new writes are refused because the session is being put away."""
        return self._closing

    def touch(self) -> None:
        """Note that somebody uses the session."""
        self.last_used = self._clock.monotonic()

    def resume(self) -> None:
        """Take writes again: putting the session away did not succeed."""
        self._closing = False

    @property
    def is_fenced(self) -> bool:
        return self._fence is not None

    @property
    def unsettled_count(self) -> int:
        """Writes applied and not yet settled."""
        return len(self._pending)

    def _remember(self, scope: Scope, digest: str) -> None:
        self._digests[scope] = digest
        if len(self._digests) > RECEIPTS_PER_SESSION:
            self._digests.popitem(last=False)

    def _shut(self, fence: LamboError) -> None:
        if self._fence is None:
            self._fence = fence
        self._ready.set()
        if isinstance(fence, LeaseLost):
            self._link.forget(self)

    def _lease_lost(self, key: str | None) -> LeaseLost:
        named = {} if key is None else {"idempotency_key": key}
        return LeaseLost(
            f"another server took session '{self.graph.session_id}' over; nothing was stored",
            retry_after_seconds=ANSWER_RETRY_SECONDS,
            **named,
        )

    def _rewound(self) -> StoreRewound:
        return StoreRewound(
            f"the store of session '{self.graph.session_id}' is older than what was acknowledged; "
            "its writes are stopped"
        )

    def _stats(self) -> SessionStats:
        oldest = next(iter(self._pending.values()), None)
        lag = 0.0 if oldest is None else self._clock.monotonic() - oldest.since
        return SessionStats(
            session_id=self.graph.session_id,
            counts=count_graph(self.graph),
            durability=str(self._config.durability),
            flush_lag_ms=round(lag * 1000),
            flush_depth=self._pending_mutations,
            degraded=self._link.is_away,
            position=self._position,
            missing_vectors=self.graph.missing_vector_count,
        )

    def _warnings(self) -> list[str]:
        warnings = []
        if self._link.is_away and self._pending_mutations:
            warnings.append(f"{len(self._pending)} writes not committed: the store does not answer")
        if self._link.lease_age_seconds > self._config.lease_ttl_seconds:
            warnings.append("lease unconfirmed: another server may hold newer memories")
        if self._fence is not None:
            warnings.append(f"writes are stopped: {self._fence.message}")
        try:
            self._check_contract()
        except EmbeddingMismatch as error:
            warnings.append(error.message)
        return warnings


def _arguments_json(request: object) -> str:
    """A request record as JSON text; equal requests give equal text."""
    return json.dumps(request, default=_as_json, ensure_ascii=False, separators=(",", ":"))


def _as_json(value: object) -> Any:
    assert is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _check_same(digest: str, call: Call) -> None:
    if digest != call.digest:
        raise IdempotencyConflict(
            "this idempotency key was used for another request; use a new key",
            idempotency_key=call.key,
        )
