"""Shipped doubles of the engine's ports, for our tests and for those of programs that embed us.

`InMemoryStore` keeps rows and honours the rules of the durable store. `FaultyStore` wraps either
and fails where a plan says; `ScriptedEmbedder` does so to an embedder. `ManualClock` and
`SequentialIds` make a run repeatable. No double sleeps.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar

from memory.engine.audit_chain import BlankedRows, SealedAct
from memory.engine.embedding import Embedder, EmbeddingContract, EmbeddingFailure
from memory.engine.mutations import Group, PurgeText, Receipt
from memory.engine.ports import (
    BeingDeleted,
    DeadLetter,
    Due,
    EventPage,
    GraphStore,
    Lease,
    LeaseRefused,
    LoadedSession,
    Removal,
    SessionBatch,
    SessionInfo,
    StoredPosition,
    StoreRejected,
    StoreTransient,
)
from memory.engine.times import SECOND, Micros
from memory.engine.types import AuditEntry, NodeId
from memory.store.in_memory import InMemoryStore

__all__ = [
    "THIEF",
    "EmbedderFault",
    "Fault",
    "FaultKind",
    "FaultyStore",
    "InMemoryStore",
    "ManualClock",
    "ScriptedEmbedder",
    "SequentialIds",
]

T = TypeVar("T")

# -- time and ids ------------------------------------------------------------------------------


class ManualClock:
    """A clock that stands still until told otherwise."""

    def __init__(self, start: Micros = 1_700_000_000_000_000) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> Micros:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        assert seconds >= 0
        self._now += round(seconds * SECOND)
        self._monotonic += seconds

    def set_wall_time(self, now: Micros) -> None:
        """Jump the wall clock, backwards too; the monotonic one does not follow."""
        self._now = now


class SequentialIds:
    """Valid UUIDs in a fixed order: the same seed gives the same ids. `next_id` counts up too."""

    def __init__(self, seed: int = 0) -> None:
        assert 0 <= seed < 1 << 32
        self._seed = seed
        self._count = 0
        self._ordered_count = 0

    def next_id(self) -> NodeId:
        self._count += 1
        return f"{self._seed:08x}-0000-4000-8000-{self._count:012x}"

    def next_ordered_id(self, now: Micros) -> NodeId:
        self._ordered_count += 1
        return f"{self._seed:08x}-0000-7000-8000-{self._ordered_count:012x}"


# -- faults on demand --------------------------------------------------------------------------


class FaultKind(Enum):
    """How a call fails."""

    TRANSIENT_BEFORE = "nothing is done, StoreTransient is raised"
    TRANSIENT_AFTER = "everything is done, StoreTransient is raised: the caller cannot know"
    REJECTED = "nothing is done, StoreRejected is raised"
    LEASE_LOST = "another node takes over the sessions, then the call runs"
    HANG = "the call waits until it is released, then runs"


@dataclass(frozen=True, slots=True)
class Fault:
    """The `call`-th call (from 1) of a method of the port fails in some way.

    For a hang, `entered` is set when the call waits, and it waits for `release`.
    """

    method: str
    call: int
    kind: FaultKind
    entered: threading.Event = field(default_factory=threading.Event, compare=False)
    release: threading.Event = field(default_factory=threading.Event, compare=False)


class EmbedderFault(Enum):
    """How an embedder misbehaves, until told otherwise."""

    DOWN = "every text fails, and may succeed later"
    HOPELESS = "every text fails for good"
    RAISES = "the call raises"
    TOO_FEW = "one result is missing"
    WRONG_WIDTH = "vectors have one number too many"
    NOT_A_NUMBER = "vectors hold NaN"


class ScriptedEmbedder:
    """Any embedder, misbehaving when told to. `calls` holds the texts of each call."""

    def __init__(self, inner: Embedder, *, contract: EmbeddingContract | None = None) -> None:
        self._inner = inner
        self._contract = inner.contract if contract is None else contract
        self.fault: EmbedderFault | None = None
        self.calls: list[list[str]] = []
        self.is_closed = False
        self.entered = threading.Event()
        """Set when a call waits, see `hold`."""
        self._gate = threading.Event()
        self._gate.set()

    @property
    def contract(self) -> EmbeddingContract:
        return self._contract

    def hold(self) -> None:
        """Let calls wait from now on, whatever their deadline, until `release`."""
        self.entered.clear()
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Any]:
        """What the inner embedder says, spoilt by the fault."""
        self.calls.append(list(texts))
        if not self._gate.is_set():
            self.entered.set()
            self._gate.wait()
        given = self._inner.embed(texts, deadline_seconds=deadline_seconds)
        match self.fault:
            case None:
                return given
            case EmbedderFault.DOWN:
                return [EmbeddingFailure("injected") for _ in texts]
            case EmbedderFault.HOPELESS:
                return [EmbeddingFailure("injected", is_final=True) for _ in texts]
            case EmbedderFault.RAISES:
                raise RuntimeError("injected")
            case EmbedderFault.TOO_FEW:
                return given[1:]
            case EmbedderFault.WRONG_WIDTH:
                return [[1.0] * (self._contract.dim + 1) for _ in texts]
            case EmbedderFault.NOT_A_NUMBER:
                return [[float("nan")] * self._contract.dim for _ in texts]

    def close(self) -> None:
        self.is_closed = True
        self._gate.set()
        self._inner.close()


THIEF: Final = "the-thief"
"""The node that takes over in `FaultKind.LEASE_LOST`."""


class FaultyStore:
    """Any store, failing where the plan says. `calls` counts the calls of each method."""

    def __init__(self, inner: GraphStore, plan: Iterable[Fault] = ()) -> None:
        self._inner = inner
        self._faults = {(fault.method, fault.call): fault for fault in plan}
        self.calls: Counter[str] = Counter()
        self.rejects: Callable[[Group], bool] = lambda group: False
        """Groups this store will never accept, however often and in whatever batch they come."""

    def fail_next(self, method: str, kind: FaultKind) -> Fault:
        """Make the next call of a method fail; returns the fault, for its events."""
        fault = Fault(method, self.calls[method] + 1, kind)
        self._faults[method, fault.call] = fault
        return fault

    def replace_inner(self, store: GraphStore) -> None:
        """Put another store behind the same handle, as restoring a backup under a server does."""
        self._inner = store

    def _call(
        self, method: str, run: Callable[[], T], tokens: Mapping[str, int] | None = None
    ) -> T:
        self.calls[method] += 1
        fault = self._faults.get((method, self.calls[method]))
        if fault is None:
            return run()
        match fault.kind:
            case FaultKind.TRANSIENT_BEFORE:
                raise StoreTransient(f"injected before {method}")
            case FaultKind.REJECTED:
                raise StoreRejected(f"injected in {method}")
            case FaultKind.TRANSIENT_AFTER:
                run()
                raise StoreTransient(f"injected after {method}")
            case FaultKind.LEASE_LOST:
                assert tokens is not None, f"{method} names no leases to lose"
                self._steal(tokens)
                return run()
            case FaultKind.HANG:
                fault.entered.set()
                fault.release.wait()
                return run()

    def _steal(self, tokens: Mapping[str, int]) -> None:
        stored = self._inner.read_positions(sorted(tokens))
        for session_id, row in sorted(stored.items()):
            self._inner.release_lease(session_id, node_id=row.node_id, token=row.token)
            taken = self._inner.acquire_lease(
                session_id,
                node_id=THIEF,
                endpoint="",
                ttl_seconds=45.0,
                create=False,
                match_strategy="",
                created_at=0,
                contract=None,
            )
            assert isinstance(taken, Lease)

    # -- the port, method by method ------------------------------------------------------------

    def acquire_lease(
        self,
        session_id: str,
        *,
        node_id: str,
        endpoint: str,
        ttl_seconds: float,
        create: bool,
        match_strategy: str,
        created_at: Micros,
        contract: EmbeddingContract | None = None,
        act: SealedAct | None = None,
    ) -> Lease | LeaseRefused | BeingDeleted | None:
        return self._call(
            "acquire_lease",
            lambda: self._inner.acquire_lease(
                session_id,
                node_id=node_id,
                endpoint=endpoint,
                ttl_seconds=ttl_seconds,
                create=create,
                match_strategy=match_strategy,
                created_at=created_at,
                contract=contract,
                act=act,
            ),
        )

    def renew_leases(
        self, tokens: Mapping[str, int], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        return self._call(
            "renew_leases",
            lambda: self._inner.renew_leases(tokens, node_id=node_id, ttl_seconds=ttl_seconds),
            tokens,
        )

    def release_lease(self, session_id: str, *, node_id: str, token: int) -> None:
        self._call(
            "release_lease",
            lambda: self._inner.release_lease(session_id, node_id=node_id, token=token),
        )

    def commit(
        self, batches: Sequence[SessionBatch], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        return self._call(
            "commit",
            lambda: self._commit_unless_rejected(batches, node_id, ttl_seconds),
            {batch.session_id: batch.token for batch in batches},
        )

    def _commit_unless_rejected(
        self, batches: Sequence[SessionBatch], node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        for batch in batches:
            for group in batch.groups:
                if self.rejects(group):
                    raise StoreRejected(f"group {group.position} is not accepted")
        return self._inner.commit(batches, node_id=node_id, ttl_seconds=ttl_seconds)

    def read_positions(self, session_ids: Sequence[str]) -> Mapping[str, StoredPosition]:
        return self._call("read_positions", lambda: self._inner.read_positions(session_ids))

    def load_session(self, session_id: str) -> LoadedSession | None:
        return self._call("load_session", lambda: self._inner.load_session(session_id))

    def load_vectors(self, session_id: str, contract_key: str) -> Sequence[tuple[NodeId, bytes]]:
        return self._call(
            "load_vectors", lambda: self._inner.load_vectors(session_id, contract_key)
        )

    def drop_vectors(
        self, session_id: str, contract_key: str, *, node_id: str, token: int
    ) -> Iterator[int]:
        return self._call(
            "drop_vectors",
            lambda: self._inner.drop_vectors(
                session_id, contract_key, node_id=node_id, token=token
            ),
            {session_id: token},
        )

    def put_aside(self, loaded: LoadedSession, *, node_id: str, token: int, at: Micros) -> int:
        return self._call(
            "put_aside",
            lambda: self._inner.put_aside(loaded, node_id=node_id, token=token, at=at),
            {loaded.snapshot.session_id: token},
        )

    def count_set_aside(self, session_id: str) -> int:
        return self._call("count_set_aside", lambda: self._inner.count_set_aside(session_id))

    def list_due(self, due: Due, *, at: Micros, limit: int) -> Sequence[str]:
        return self._call("list_due", lambda: self._inner.list_due(due, at=at, limit=limit))

    def find_receipt(self, session_id: str, agent_id: str, key: str) -> Receipt | None:
        return self._call(
            "find_receipt", lambda: self._inner.find_receipt(session_id, agent_id, key)
        )

    def list_events(
        self, session_id: str, *, after: int, limit: int, kinds: Sequence[str] = ()
    ) -> EventPage:
        return self._call(
            "list_events",
            lambda: self._inner.list_events(session_id, after=after, limit=limit, kinds=kinds),
        )

    def prune_receipts(self, *, before: Micros, keep_per_session: int) -> int:
        return self._call(
            "prune_receipts",
            lambda: self._inner.prune_receipts(before=before, keep_per_session=keep_per_session),
        )

    def put_dead_letter(self, letter: DeadLetter) -> None:
        self._call("put_dead_letter", lambda: self._inner.put_dead_letter(letter))

    def count_dead_letters(self, session_id: str) -> int:
        return self._call("count_dead_letters", lambda: self._inner.count_dead_letters(session_id))

    def list_removals(
        self, session_id: str, *, before: NodeId | None, limit: int
    ) -> Sequence[Removal]:
        return self._call(
            "list_removals",
            lambda: self._inner.list_removals(session_id, before=before, limit=limit),
        )

    def find_removals(self, session_id: str, name: str) -> Sequence[Removal]:
        return self._call("find_removals", lambda: self._inner.find_removals(session_id, name))

    def find_traces(self, session_id: str, purge: PurgeText) -> Mapping[str, int]:
        return self._call("find_traces", lambda: self._inner.find_traces(session_id, purge))

    def find_blanked(self, session_id: str, purge: PurgeText) -> BlankedRows:
        return self._call("find_blanked", lambda: self._inner.find_blanked(session_id, purge))

    def claim_chain_key(self, fingerprint: str) -> str:
        return self._call("claim_chain_key", lambda: self._inner.claim_chain_key(fingerprint))

    def scrub(self) -> bool:
        return self._call("scrub", self._inner.scrub)

    def list_sessions(self, *, after: str, limit: int) -> Sequence[SessionInfo]:
        return self._call(
            "list_sessions", lambda: self._inner.list_sessions(after=after, limit=limit)
        )

    def find_session(self, session_id: str) -> SessionInfo | None:
        return self._call("find_session", lambda: self._inner.find_session(session_id))

    def finish_deletions(self) -> Iterator[Mapping[str, int]]:
        return self._call("finish_deletions", self._inner.finish_deletions)

    def delete_session(
        self,
        session_id: str,
        *,
        node_id: str,
        token: int,
        entry: AuditEntry,
        chain_key: bytes | None = None,
    ) -> Iterator[Mapping[str, int]]:
        return self._call(
            "delete_session",
            lambda: self._inner.delete_session(
                session_id, node_id=node_id, token=token, entry=entry, chain_key=chain_key
            ),
            {session_id: token},
        )

    def close(self) -> None:
        self._call("close", self._inner.close)
