"""What the host asks of the store, on the right thread and in the caller's errors.

Reads go to worker threads, everything that writes or decides to the committer's. A store that does
not answer becomes `StoreUnavailable`; what came of committed groups is the committer's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from memory.engine.audit_chain import BlankedRows, SealedAct
from memory.engine.config import Config, MatchStrategy
from memory.engine.embedding import EmbeddingContract
from memory.engine.errors import LeaseHeld, SessionNotFound, StoreUnavailable
from memory.engine.graph import Graph
from memory.engine.limits import DUE_SESSIONS, RECEIPT_DAYS, RECEIPTS_PER_SESSION
from memory.engine.mutations import PurgeText
from memory.engine.ports import (
    BeingDeleted,
    Clock,
    Due,
    EventPage,
    GraphStore,
    IdSource,
    Lease,
    LeaseRefused,
    LoadedSession,
    Removal,
    SessionInfo,
    StoreRejected,
    StoreTransient,
)
from memory.engine.snapshot import lay_beside, load_snapshot
from memory.engine.times import SECOND
from memory.engine.types import AuditEntry, AuditKind
from memory.service.committer import is_rewound
from memory.service.committer_thread import CommitterThread

log = logging.getLogger("lambo.host")
T = TypeVar("T")

RECORDS_PER_SLICE: Final = 1_000
RETRY_SECONDS: Final = 1.0


class StoredSessions:
    """Sessions as they are stored, for whoever only reads them."""

    def __init__(self, store: GraphStore, contract: EmbeddingContract | None) -> None:
        """`contract` is the reader's own: vectors of it are read beside the session's."""
        self._store = store
        self._contract = contract

    async def find(self, session_id: str) -> SessionInfo | None:
        return await self._read(partial(self._store.find_session, session_id), "the session")

    async def load(self, session_id: str) -> tuple[LoadedSession, Graph]:
        """What is stored, and its graph; the records themselves are let go."""
        job = partial(_load, self._store, session_id, self._contract)
        result = await self._read(job, "the session")
        if result is None:
            raise session_not_found(session_id)
        return result

    async def _read(self, job: Callable[[], T], what: str) -> T:
        try:
            return await asyncio.to_thread(job)
        except StoreTransient as error:
            raise _unavailable(what) from error


class StoreAccess(StoredSessions):
    """One node's way to the store. Use it on one event loop."""

    def __init__(
        self,
        store: GraphStore,
        committer: CommitterThread,
        *,
        node_id: str,
        endpoint: str,
        config: Config,
        clock: Clock,
        contract: EmbeddingContract | None = None,
    ) -> None:
        super().__init__(store, contract)  # of the sessions made from now on
        self._committer = committer
        self._node_id = node_id
        self._endpoint = endpoint
        self._config = config
        self._clock = clock
        self._deletions = 0  # under way in this process
        self._is_scrubbing = False

    # -- reading ----------------------------------------------------------------------------------

    async def list_sessions(self, after: str, limit: int) -> Sequence[SessionInfo]:
        job = partial(self._store.list_sessions, after=after, limit=limit)
        return await self._read(job, "the session list")

    async def list_due(self, due: Due) -> Sequence[str]:
        """Sessions that nobody holds and that want a cycle of a kind now, longest due first."""
        job = partial(self._store.list_due, due, at=self._clock.now(), limit=DUE_SESSIONS)
        return await self._read(job, "what is due")

    async def trouble_counts(self, session_id: str) -> tuple[int, int]:
        """How many calls of a session the store refused, and how many of its rows are set aside."""

        def count() -> tuple[int, int]:
            return (
                self._store.count_dead_letters(session_id),
                self._store.count_set_aside(session_id),
            )

        return await self._read(count, "the counts of trouble")

    async def list_removals(
        self, session_id: str, before: str | None, limit: int
    ) -> Sequence[Removal]:
        job = partial(self._store.list_removals, session_id, before=before, limit=limit)
        return await self._read(job, "what is gone")

    async def find_removals(self, session_id: str, name: str) -> Sequence[Removal]:
        return await self._read(
            partial(self._store.find_removals, session_id, name), "what is gone"
        )

    async def find_traces(self, session_id: str, purge: PurgeText) -> Mapping[str, int]:
        return await self._read(partial(self._store.find_traces, session_id, purge), "a text")

    async def find_blanked(self, session_id: str, purge: PurgeText) -> BlankedRows:
        job = partial(self._store.find_blanked, session_id, purge)
        return await self._read(job, "the audit rows of a text")

    async def claim_chain_key(self, fingerprint: str) -> str:
        """Note the fingerprint of the chain key if none is noted; the one that is."""
        job = partial(self._store.claim_chain_key, fingerprint)
        return await self._on_committer(job, "the chain key")

    # -- the lease and the committer's line -------------------------------------------------------

    async def acquire(
        self, session_id: str, *, create: bool, act: SealedAct | None = None
    ) -> Lease:
        """Take the session for this node; one that is made has the audit row given.

        Raises `SessionNotFound`, `LeaseHeld`, or `StoreUnavailable` while the name's last session
        is being deleted.
        """
        job = partial(
            self._store.acquire_lease,
            session_id,
            node_id=self._node_id,
            endpoint=self._endpoint,
            ttl_seconds=self._config.lease_ttl_seconds,
            create=create,
            match_strategy=str(strategy_of(self._config, self._contract)),
            created_at=self._clock.now(),
            contract=self._contract,
            act=act,
        )
        answer = await self._on_committer(job, "the lease")
        if answer is None:
            raise session_not_found(session_id)
        if isinstance(answer, BeingDeleted):
            if not self._deletions:
                # A fault cut it short, and nobody else goes on with it before the next start.
                await self.finish_deletions()
            raise StoreUnavailable(
                f"session '{session_id}' is being deleted; ask again",
                retry_after_seconds=RETRY_SECONDS,
                session=session_id,
            )
        if isinstance(answer, LeaseRefused):
            raise LeaseHeld(
                f"session '{session_id}' is written by another server ({answer.endpoint})",
                retry_after_seconds=max(1.0, answer.expires_in_seconds),
                session=session_id,
                holder=answer.endpoint,
            )
        return answer

    async def attach(self, lease: Lease) -> int:
        """Let the committer take groups of a session; returns their incarnation."""
        job = partial(self._committer.committer.attach, lease)
        return await self._on_committer(job, "the receipts of what was on its way")

    async def release(self, leases: Sequence[Lease]) -> None:
        """Take sessions from the committer and end their leases."""

        def release() -> None:
            for lease in leases:
                self._committer.committer.detach(lease.session_id)
                self._store.release_lease(
                    lease.session_id, node_id=self._node_id, token=lease.token
                )

        await self._on_committer(release, "the leases")

    async def renew(self, tokens: Mapping[str, int]) -> frozenset[str]:
        """One heartbeat; the sessions that are no longer ours."""
        job = partial(
            self._store.renew_leases,
            tokens,
            node_id=self._node_id,
            ttl_seconds=self._config.lease_ttl_seconds,
        )
        return await self._on_committer(job, "the leases")

    async def find_rewound(self, tokens: Mapping[str, int]) -> frozenset[str]:
        """Which sessions have a lease row from before ours: the store is an older copy."""

        def look() -> frozenset[str]:
            stored = self._store.read_positions(sorted(tokens))
            return frozenset(
                name
                for name, token in tokens.items()
                if is_rewound(stored.get(name), token=token, position=0)
            )

        return await self._on_committer(look, "the leases")

    # -- taking rows away -------------------------------------------------------------------------

    async def put_aside(self, loaded: LoadedSession, token: int) -> None:
        """Report the rows that a load could not use, and take them out of the way of writes."""
        if not loaded.set_aside:
            return
        session_id = loaded.snapshot.session_id
        for item in loaded.set_aside:
            log.error("session %r: %s", session_id, item.sentence)
        job = partial(
            self._store.put_aside,
            loaded,
            node_id=self._node_id,
            token=token,
            at=self._clock.now(),
        )
        try:
            count = await self._on_committer(job, "the rows set aside")
        except StoreUnavailable:
            # The session is whole without them; the next load finds them again.
            log.warning("session %r: its unusable rows stay where they are", session_id)
        else:
            log.warning("session %r: %d unusable rows kept in lambo_set_aside", session_id, count)

    async def delete(
        self, lease: Lease, *, actor: str, ids: IdSource, chain_key: bytes | None = None
    ) -> Counter[str]:
        """Remove a session we hold; rows by table. Its audit rows stay, with one of the act."""
        now = self._clock.now()
        kind = AuditKind.SESSION_DELETE
        entry = AuditEntry(ids.next_ordered_id(now), kind, None, None, None, now, actor)

        def begin() -> tuple[Iterator[Mapping[str, int]], Mapping[str, int]]:
            # The first step marks it, in the same job: nobody can open it again in between.
            self._committer.committer.detach(lease.session_id)
            slices = self._store.delete_session(
                lease.session_id,
                node_id=self._node_id,
                token=lease.token,
                entry=entry,
                chain_key=chain_key,
            )
            return slices, next(slices, {})

        with self._deleting():
            slices, removed = await self._on_committer(begin, "a deletion")
            counts = await self._step_through(slices)
        counts.update(removed)
        await self.scrub()  # one try: what is left of the texts goes with later commits
        return counts

    async def drop_vectors(self, lease: Lease, contract_key: str) -> int:
        """Remove what a session we hold keeps under a contract that it left; how many."""
        begin = partial(
            self._store.drop_vectors,
            lease.session_id,
            contract_key,
            node_id=self._node_id,
            token=lease.token,
        )
        slices = await self._on_committer(begin, "vectors left behind")
        step = partial(next, slices, None)
        count = 0
        while (removed := await self._on_committer(step, "vectors left behind")) is not None:
            count += removed
        return count

    async def finish_deletions(self) -> None:
        """Go on with deletions that were cut short."""
        try:
            with self._deleting():
                slices = await self._on_committer(self._store.finish_deletions, "a deletion")
                counts = await self._step_through(slices)
        except StoreUnavailable as error:
            log.warning("unfinished deletions wait until their name is used again: %s", error)
            return
        if counts:
            log.info("finished a deletion that was cut short: %s", dict(counts))

    async def scrub(self) -> bool:
        """Have no file of the store hold what was purged; False when that must be tried again."""
        try:
            return await self._on_committer(self._store.scrub, "its files")
        except StoreUnavailable:
            return False

    async def scrub_until_done(self) -> None:
        """Go on until no file holds what was purged; one such line of tries at a time."""
        if self._is_scrubbing:
            return
        self._is_scrubbing = True
        tries = 1
        try:
            while not await self.scrub():
                tries += 1
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._is_scrubbing = False
        if tries > 1:
            log.info("what was purged is gone from the store's files")

    async def list_events(
        self, session_id: str, *, after: int, limit: int, kinds: Sequence[str]
    ) -> EventPage:
        """A page of a session's log of events; of an unknown session none."""
        job = partial(self._store.list_events, session_id, after=after, limit=limit, kinds=kinds)
        return await self._read(job, "the events")

    async def prune_receipts(self) -> int:
        """Drop receipts past their time or over their number; how many."""
        job = partial(
            self._store.prune_receipts,
            before=self._clock.now() - RECEIPT_DAYS * 86_400 * SECOND,
            keep_per_session=RECEIPTS_PER_SESSION,
        )
        return await self._on_committer(job, "the receipts")

    @contextmanager
    def _deleting(self) -> Iterator[None]:
        self._deletions += 1
        try:
            yield
        finally:
            self._deletions -= 1

    async def _step_through(self, slices: Iterator[Mapping[str, int]]) -> Counter[str]:
        """Take the steps of a deletion as jobs of their own: other sessions commit in between."""
        counts: Counter[str] = Counter()
        step = partial(next, slices, None)
        while (removed := await self._on_committer(step, "a deletion")) is not None:
            counts.update(removed)
        return counts

    async def _on_committer(self, job: Callable[[], T], what: str) -> T:
        try:
            return await self._committer.run(job)
        except (StoreTransient, StoreRejected) as error:
            log.warning("the store failed on %s: %s", what, error)
            raise _unavailable(what) from error


def strategy_of(config: Config, contract: EmbeddingContract | None) -> MatchStrategy:
    """How a session made now will match: by words alone for ever, where nothing is embedded."""
    return MatchStrategy.CANONICAL if contract is None else config.match_strategy


def _load(
    store: GraphStore, session_id: str, contract: EmbeddingContract | None
) -> tuple[LoadedSession, Graph] | None:
    loaded = store.load_session(session_id)
    if loaded is None:
        return None
    graph = load_snapshot(loaded.snapshot)
    if contract is not None and contract != graph.contract and contract.key in loaded.contracts:
        # It was being given this contract when it was left.
        lay_beside(graph, contract, store.load_vectors(session_id, contract.key))
    records: list[object] = [
        *loaded.snapshot.concepts,
        *loaded.snapshot.edges,
        *loaded.snapshot.vectors,
    ]
    bare = loaded.snapshot._replace(concepts=(), edges=(), vectors=())
    loaded = replace(loaded, snapshot=bare)
    # Freed all at once, half a million records would keep every other thread out.
    while records:
        del records[-RECORDS_PER_SLICE:]
    return loaded, graph


def session_not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(f"no session '{session_id}'", session=session_id)


def _unavailable(what: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the store did not answer for {what}", retry_after_seconds=RETRY_SECONDS
    )
