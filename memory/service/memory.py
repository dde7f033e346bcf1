"""One session's memory: the in-process API that every surface and embedding program calls.

A `MemoryView` answers questions from a graph. A `Memory` adds writes: each is planned and applied
to the RAM graph in one synchronous step on the event loop, queued as one group for the committer,
and answered when the mode says so. Between the step's checks and its effect nothing is awaited, so
no premise can go stale and no write is refused because another ran beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memory.engine.audit_chain import AuditChain, ChainHead
from memory.engine.config import Config, Durability
from memory.engine.draft import Plan
from memory.engine.errors import (
    LamboError,
    StoreUnavailable,
    UnresolvedReference,
)
from memory.engine.events import Notice
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.limits import RECEIPTS_PER_SESSION
from memory.engine.mutations import Call, Group, Mutation, Receipt
from memory.engine.ports import Clock, GraphStore, IdSource, StoreRejected, StoreTransient
from memory.engine.requests import Caller
from memory.engine.resident_size import resident_bytes
from memory.engine.times import Micros
from memory.engine.types import NodeId
from memory.service import cycle_runs
from memory.service.accepted_writes import AcceptedWrites, Scope
from memory.service.access_counts import AccessCounts
from memory.service.calls import check_same, make_call
from memory.service.committer import Outcome, Settled
from memory.service.cycle_runs import Counts
from memory.service.cycles import SessionCycles, Tokens
from memory.service.log_end import LogEnd
from memory.service.meanings import find_meanings
from memory.service.outcomes import (
    ANSWER_RETRY_SECONDS,
    failure_of,
    lease_lost,
    outcome_unknown,
    refused_in_a_row,
    reload_failed,
    store_rewound,
)
from memory.service.readiness import Readiness
from memory.service.replies import (
    ReceiptState,
    Reply,
    accepted_reply,
    receipt_reply,
    replay,
    replayed,
)
from memory.service.session_link import SessionLink
from memory.service.stats import SessionStats, count_graph
from memory.service.text_embedder import TextEmbedder
from memory.service.view import MemoryView, Readers
from memory.service.writes import NO_TEXTS, LookUp, MakePlan, R, Texts, Writes

log = logging.getLogger("lambo.memory")

TAKE_AWAY: Final = frozenset({"retract", "purge"})
"""Verbs that need no vector, so that a server with another embedder can erase a text too."""

FAULTS_MAX = 3
"""Rejected groups in a row after which a session's writes stop."""


@dataclass(slots=True)
class _Pending:
    """A write that is applied to the RAM graph and not yet settled."""

    group: Group
    since: float  # monotonic seconds
    outcome: asyncio.Future[Outcome]
    reply: Reply
    head: ChainHead | None  # of the audit chain, after this group


class Memory(MemoryView, Writes, Readiness):
    """An open session under our lease. Made by `SessionHost.memory`, never directly."""

    def __init__(
        self,
        graph: Graph,
        *,
        log_end: LogEnd,
        receipt_digests: dict[Scope, str],
        link: SessionLink,
        store: GraphStore,
        config: Config,
        readers: Readers,
        clock: Clock,
        ids: IdSource,
        process_started_at: Micros,
        embedder: TextEmbedder | None = None,
        cycles: SessionCycles | None = None,
    ) -> None:
        MemoryView.__init__(
            self,
            graph,
            readers=readers,
            clock=clock,
            accepts_vectors=config.accept_client_vectors,
            embedder=embedder,
        )
        Writes.__init__(self, graph, config=config, ids=ids)
        Readiness.__init__(self, link)
        self.cycles = cycles
        self.cycle_turn = asyncio.Lock()
        """Held by whoever evaluates or collects: one at a time."""
        self._accesses = AccessCounts()
        self.round_seconds = 0.0
        """How long the last round of the background cycles took."""
        self._store = store
        self._log_end = log_end  # where the groups applied to the RAM graph end
        self._digests = OrderedDict(receipt_digests)
        self._process_started_at = process_started_at
        self.accepted = AcceptedWrites(
            retry_initial_seconds=config.retry_initial_seconds,
            retry_max_seconds=config.retry_max_seconds,
        )
        self._preparing: dict[Scope, asyncio.Event] = {}  # keys of writes not yet applied
        self._in_flight: dict[Scope, _Pending] = {}
        self._pending: OrderedDict[int, _Pending] = OrderedDict()
        self._faults_in_row = 0
        self.last_used = clock.monotonic()

    async def stats(self) -> Reply:
        """Counts and health, with what the store had to set aside."""
        dead_lettered, set_aside = await self._link.trouble_counts()
        stats = replace(self._stats(), dead_lettered=dead_lettered, set_aside=set_aside)
        return self._warn(Reply.of(stats))

    async def receipt(self, key: str, *, agent_id: str) -> Reply:
        """What is known of the write under a key."""
        scope = (agent_id, key)
        for _ in range(2):  # what was applied while the store was asked is found the second time
            pending = self._in_flight.get(scope)
            if pending is not None:
                return receipt_reply(key, ReceiptState.APPLIED, pending.reply)
            if self.accepted.find(scope) is not None:
                return receipt_reply(key, ReceiptState.ACCEPTED)
            stored = await self._stored_receipt(scope)
            if stored is not None:
                return receipt_reply(
                    key,
                    ReceiptState.COMMITTED,
                    replay(stored),
                    after_restart=stored.created_at < self._process_started_at,
                )
        error = self.accepted.find_refusal(scope)
        if error is not None:
            return receipt_reply(key, ReceiptState.REFUSED, error=error)
        return await MemoryView.receipt(self, key, agent_id=agent_id)

    async def _write(
        self,
        verb: str,
        request: object,
        caller: Caller,
        make_plan: MakePlan[R],
        texts: Texts = NO_TEXTS,
        *,
        wait: bool = True,
        look_up: LookUp | None = None,
    ) -> Reply:
        self.last_used = self._clock.monotonic()
        call = make_call(verb, request, caller, caller.key or self._ids.next_id())
        if not wait:
            return await self._accept(call, request, make_plan, texts)
        if caller.key is not None:
            known = await self._answer_of_key(call)
            if known is not None:
                return known
        return await self._carry_out(call, request, make_plan, texts, look_up=look_up)

    async def _carry_out(
        self,
        call: Call,
        request: object,
        make_plan: MakePlan[R],
        texts: Texts,
        *,
        was_accepted: bool = False,
        look_up: LookUp | None = None,
    ) -> Reply:
        """The one way into the graph: plan, apply, queue and wait. Nobody holds the call's key."""
        scope = (call.agent_id, call.key)
        needs_contract = call.verb not in TAKE_AWAY
        # A request under this key that comes while this one is prepared waits for its end.
        done = self._preparing[scope] = asyncio.Event()
        try:
            await self._until_writable(was_accepted=was_accepted, needs_contract=needs_contract)
            await self._read_ahead(request)
            if look_up is not None:
                await look_up()
            meanings = await find_meanings(lambda: self.graph, self._embedder, self._scans, texts)
            async with self._turn(was_accepted=was_accepted, needs_contract=needs_contract):
                # From here to the end of `_apply` nothing is awaited.
                now = self._clock.now()
                plan = make_plan(now, meanings)
                if not plan.mutations:
                    return Reply.of(plan.result, key=call.key)
                pending = self._apply(call, plan, now)
        finally:
            del self._preparing[scope]
            done.set()
        if self._config.durability is not Durability.COMMIT:
            return pending.reply
        return await self._settled(pending)

    async def _accept(
        self, call: Call, request: object, make_plan: MakePlan[R], texts: Texts
    ) -> Reply:
        """Acknowledge a write that can be planned now, and carry it out in its agent's turn."""

        def plan_unpurged(now: Micros, meanings: Meanings | None) -> Plan[R]:
            self.accepted.check_unpurged(call)
            return make_plan(now, meanings)

        async def carry_out() -> None:
            if await self._answer_of_key(call, was_accepted=True) is None:
                await self._carry_out(call, request, plan_unpurged, texts, was_accepted=True)

        reply = accepted_reply(call.key)
        await self._until_writable()
        await self._read_ahead(request)
        while True:
            waiting = self.accepted.find((call.agent_id, call.key))
            if waiting is not None:
                check_same(waiting.digest, call)
                return replayed(reply)
            if await self._answer_of_key(call) is not None:
                return replayed(reply)
            if not self._ready.is_set():
                await self._until_reloaded()
                continue  # another request under the key may have waited too
            self._check_writable()
            try:
                make_plan(self._clock.now(), None)
            except UnresolvedReference:
                # It may name what the agent has only just sent.
                if not self.accepted.has_line(call.agent_id):
                    raise
                await self._until_caught_up(call.agent_id)
                continue
            self.accepted.accept(call, carry_out)
            return reply

    async def _until_caught_up(self, agent_id: str) -> None:
        try:
            async with asyncio.timeout(self._config.outcome_unknown_after_seconds):
                await self.accepted.until_caught_up(agent_id)
        except TimeoutError as error:
            raise StoreUnavailable(
                "earlier accepted writes of this agent wait to be applied, and this one cites what "
                "may be among them; it was not accepted",
                retry_after_seconds=self._config.away_after_seconds,
            ) from error

    async def _answer_of_key(self, call: Call, *, was_accepted: bool = False) -> Reply | None:
        """The answer under this key; None only when, without a pause since, nobody holds it.

        With `was_accepted` the call itself is the one that waits under the key.
        """
        scope = (call.agent_id, call.key)
        while True:
            waiting = None if was_accepted else self.accepted.find(scope)
            if waiting is not None:
                check_same(waiting.digest, call)
                await self.accepted.until_done(scope)
                continue
            known = await self._known_reply(call)
            if known is not None:
                return known
            if scope in self._preparing:
                await self._preparing[scope].wait()
            elif scope in self._in_flight or scope in self._digests:
                continue
            elif was_accepted or self.accepted.find(scope) is None:
                return None

    async def _known_reply(self, call: Call) -> Reply | None:
        """The answer of an earlier request under this key, or None if there was none.

        A key in flight waits for its first request. Raises `IdempotencyConflict` for another body.
        """
        scope = (call.agent_id, call.key)
        pending = self._in_flight.get(scope)
        if pending is not None:
            assert pending.group.call is not None
            check_same(pending.group.call.digest, call)
            if self._config.durability is not Durability.COMMIT:
                return replayed(pending.reply)
            return replayed(await self._settled(pending))
        digest = self._digests.get(scope)
        if digest is None:
            return None
        check_same(digest, call)
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

    def _apply(self, call: Call, plan: Plan[R], now: Micros) -> _Pending:
        """Carry the plan out in RAM and queue its group."""
        reply = Reply.of(plan.result, key=call.key)
        receipt = Receipt(
            agent_id=call.agent_id,
            key=call.key,
            verb=call.verb,
            digest=call.digest,
            reply={"text": reply.text, "structured": reply.structured},
            position=self.position + 1,
            created_at=now,
        )
        pending = self._queue(plan.mutations, now, reply, call, receipt)
        self._in_flight[(call.agent_id, call.key)] = pending
        self._accesses.note_write(call.agent_id)
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
        notices: Sequence[Notice] = (),
    ) -> _Pending:
        """Apply mutations to the RAM graph and hand their group to the committer."""
        group = self._log_end.make_group(
            self.graph, mutations, now, call=call, receipt=receipt, notices=notices
        )
        mutations = group.mutations
        self.graph.apply_all(mutations)
        self._index_soon()
        if self.cycles is not None:
            self.cycles.on_applied(self.graph, mutations, now)
            if mutations:  # else it only tells something
                self._link.request_round()
        pending = _Pending(
            group,
            self._clock.monotonic(),
            asyncio.get_running_loop().create_future(),
            reply,
            None if self.chain is None else self.chain.head,
        )
        self._pending[group.position] = pending
        self._pending_mutations += len(group.mutations)
        self._link.submit(group)
        return pending

    async def append(self, mutations: Sequence[Mutation]) -> bool:
        """Write a group that no caller asked for and wait until it is settled.

        False when the store will never take it. Raises as `check_groups`.
        """
        outcome = self.queue(tuple(mutations))
        await asyncio.wait([outcome])
        return outcome.result() is not Outcome.REJECTED

    async def _read_tokens(self) -> Tokens:
        return await self._link.read_tokens()

    async def evaluate(self, *, is_forced: bool = False) -> Counts:
        """Promote and demote what the evidence says, if that is needed or forced."""
        tokens = await self._link.read_tokens()
        return await cycle_runs.evaluate(
            self, clock=self._clock, ids=self._ids, tokens=tokens, is_forced=is_forced
        )

    async def collect(self, *, is_forced: bool = False, is_paced: bool = False) -> Counts:
        """Sweep and count survivors, if due or `is_forced`; `is_paced`, beside others' work."""
        return await cycle_runs.collect(
            self, clock=self._clock, ids=self._ids, is_forced=is_forced, is_paced=is_paced
        )

    async def settle_cycles(self) -> None:
        """Look at what has matured before the session is put away; a fault waits for the next."""
        if self.cycle_turn.locked():  # a paced sweep may last: the next process evaluates
            return
        try:
            await self.evaluate()
        except Exception:  # putting away must not fail for want of an evaluation
            log.exception("session %r: not evaluated before it is put away", self.graph.session_id)

    def note_cycles(self) -> None:
        """Queue what the next process goes on from; for when no write comes any more."""
        if self.cycles is None or self.is_fenced or not self._ready.is_set() or self._link.is_away:
            return
        note = self.cycles.state_note()
        notes = (() if note is None else (note,)) + self._accesses.take(self.graph)
        if notes:
            self._queue(notes, self._clock.now(), Reply("", {}))

    def note_shown(self, agent_id: str, concept_ids: Sequence[NodeId]) -> None:
        if self.cycles is not None:  # they write the counts down
            self._accesses.note(agent_id, concept_ids, self._clock.now())

    def write_accesses(self) -> None:
        """Queue what was shown since the last time. Raises as `check_groups`."""
        mutations = self._accesses.take(self.graph)
        if mutations:
            self.queue(mutations)

    def queue(
        self, mutations: tuple[Mutation, ...], notices: Sequence[Notice] = ()
    ) -> asyncio.Future[Outcome]:
        """Write a group that no caller asked for, in this very step; how it is settled.

        Listeners are told the notices with it. Raises as `check_groups`.
        """
        self.check_groups()
        return self._queue(mutations, self._clock.now(), Reply("", {}), notices=notices).outcome

    async def _settled(self, pending: _Pending) -> Reply:
        """Wait for the store's word on a group, and turn it into a reply or an error."""
        if not pending.outcome.done():
            await asyncio.wait(
                [pending.outcome], timeout=self._config.outcome_unknown_after_seconds
            )
        key = pending.reply.key
        if not pending.outcome.done():
            raise outcome_unknown(key, self._config.away_after_seconds)
        failure = failure_of(pending.outcome.result(), self.graph.session_id, key)
        if failure is not None:
            raise failure
        return pending.reply

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
                if self.chain is not None and pending.head is not None:
                    self.chain.committed = pending.head
            case Outcome.REJECTED:
                self._faults_in_row += 1
                self._ready.clear()
                self._link.request_reload(self)
            case Outcome.LOST:
                self._shut(lease_lost(self.graph.session_id))
            case Outcome.REWOUND:
                self._shut(store_rewound(self.graph.session_id))
            case Outcome.DROPPED:
                pass  # the rejection before it asked for the reload

    def on_reloaded(
        self,
        graph: Graph,
        log_end: LogEnd,
        receipt_digests: dict[Scope, str],
        link: SessionLink,
        cycles: SessionCycles | None,
    ) -> None:
        """Swap in what the store holds; waiting writes go on."""
        for pending in self._pending.values():  # of the graph that is gone; they may never land
            pending.outcome.set_result(Outcome.DROPPED)
        self._pending.clear()
        self._in_flight.clear()
        self._pending_mutations = 0
        self._link = link
        self.graph, self.cycles, self._log_end = graph, cycles, log_end
        self._digests = OrderedDict(receipt_digests)
        if self._faults_in_row >= FAULTS_MAX:
            self._shut(refused_in_a_row(graph.session_id, FAULTS_MAX))
        self._ready.set()
        if graph.missing_vector_count:  # what was filled in may be undone
            link.request_vectors()

    def on_reload_failed(self) -> None:
        """The stored session cannot be used: stop its writes, answer from what is in RAM."""
        self._shut(reload_failed(self.graph.session_id))

    def on_lease_lost(self, *, is_rewound: bool) -> None:
        """Another node holds the session, or its store went back: drop it, or write no more."""
        name = self.graph.session_id
        self._shut(store_rewound(name) if is_rewound else lease_lost(name))

    def touch(self) -> None:
        """Note that somebody uses the session."""
        self.last_used = self._clock.monotonic()

    @property
    def position(self) -> int:
        """Of the newest group applied to the RAM graph."""
        return self._log_end.position

    @property
    def chain(self) -> AuditChain | None:
        """Links the audit rows of the log; None where none are linked."""
        return self._log_end.chain

    @property
    def unsettled_count(self) -> int:
        """Writes applied and not yet settled."""
        return len(self._pending)

    @property
    def uncommitted_seconds(self) -> float:
        """Age of the oldest write that is applied and not yet settled; 0 without one."""
        oldest = next(iter(self._pending.values()), None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest.since

    @property
    def is_idle(self) -> bool:
        """Whether nothing is applied and unsettled, and nothing accepted and not yet applied."""
        return not self._pending and not self.accepted

    @property
    def resident_bytes(self) -> int:
        """About how much of the process's memory the session takes up."""
        return resident_bytes(self.graph)

    def _remember(self, scope: Scope, digest: str) -> None:
        self._digests[scope] = digest
        if len(self._digests) > RECEIPTS_PER_SESSION:
            self._digests.popitem(last=False)

    def _shut(self, fence: LamboError) -> None:
        if self._raise_fence(fence):
            self._link.forget(self)

    def _stats(self) -> SessionStats:
        return SessionStats(
            session_id=self.graph.session_id,
            counts=count_graph(self.graph),
            durability=str(self._config.durability),
            flush_lag_ms=round(self.uncommitted_seconds * 1000),
            flush_depth=self._pending_mutations,
            degraded=self._link.is_away,
            position=self.position,
            missing_vectors=self.graph.missing_vector_count,
            resident_bytes=self.resident_bytes,
            contract=self.graph.contract,
            configured=None if self._embedder is None else self._embedder.contract,
            reembedding=self._link.reembedding(),
            cycles=None if self.cycles is None else self.cycles.stats(),
            round_seconds=self.round_seconds,
        )

    def warnings(self) -> list[str]:
        return self.find_warnings(len(self._pending))
