"""Group commit: one thread per database writes the waiting groups of all sessions.

Groups go out whole and in log order, so a session's rows are always a prefix of its log. While one
batch commits the next gathers; there is no timer in mode `commit`. Every group is settled exactly
once, and an outcome is told only when the store's own answer proves it:

* committed: its position is stored, under our token;
* rejected: the store will never take it; the call is kept as a dead letter;
* dropped: an earlier group of its session was rejected, so it may not land;
* lost: another holder, token or position stands in the lease row;
* rewound: the store is older than what was acknowledged.

`Committer.step` is the whole algorithm and needs no thread; `CommitterThread` only drives it.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from memory.engine.config import Config, Durability
from memory.engine.limits import BATCH_BYTES, BATCH_ROWS
from memory.engine.mutations import Group, Receipt
from memory.engine.ports import (
    Clock,
    DeadLetter,
    GraphStore,
    Lease,
    SessionBatch,
    StoredPosition,
    StoreRejected,
    StoreReplaced,
    StoreTransient,
)
from memory.engine.times import Micros
from memory.service.measures import NO_MEASURES, Measures

log = logging.getLogger("lambo.committer")


class Outcome(StrEnum):
    """How a group ended."""

    COMMITTED = "committed"
    REJECTED = "rejected"
    DROPPED = "dropped"
    LOST = "lost"
    REWOUND = "rewound"


@dataclass(frozen=True, slots=True)
class Settled:
    """A group and its end. `settled_at` is monotonic seconds."""

    group: Group
    incarnation: int
    outcome: Outcome
    settled_at: float


@dataclass(slots=True)
class _Line:
    """What the committer knows of a session it may write."""

    incarnation: int
    token: int
    position: int  # the last position known to be stored
    is_broken: bool = False  # set by a rejection, until the session is attached again


@dataclass(frozen=True, slots=True)
class _Item:
    group: Group
    incarnation: int
    since: float  # monotonic seconds

    @property
    def session_id(self) -> str:
        return self.group.session_id


class Committer:
    """The algorithm of group commit. All methods are for one thread.

    `deliver` receives every settlement, in order. `step` returns the seconds after which it wants
    to be called again, 0.0 for at once, None when it waits for new groups.
    """

    def __init__(
        self,
        store: GraphStore,
        *,
        node_id: str,
        config: Config,
        clock: Clock,
        deliver: Callable[[Sequence[Settled]], None],
        measures: Measures = NO_MEASURES,
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._config = config
        self._clock = clock
        self._deliver = deliver
        self._measures = measures
        self._lines: dict[str, _Line] = {}
        self._incarnations = 0
        self._waiting: deque[_Item] = deque()
        self._in_hand: list[_Item] = []
        self._attempts = 0
        self._retry_at: float | None = None
        self.unsettled_since: float | None = None
        """Monotonic start of the batch in hand; None while none is unsettled."""

    # -- who may write ----------------------------------------------------------------------------

    def attach(self, lease: Lease) -> int:
        """Accept groups of a session under this lease, from its stored position on.

        Returns the incarnation that its groups must name: a group planned on a graph that is gone
        may never land in the one that replaced it.
        """
        self._settle_earlier(lease.session_id)
        self._incarnations += 1
        self._lines[lease.session_id] = _Line(self._incarnations, lease.token, lease.position)
        return self._incarnations

    def _settle_earlier(self, session_id: str) -> None:
        """Settle what an earlier incarnation left: it may never land in the one that follows.

        A group in hand may have landed in an attempt of unknown outcome; its receipt tells.
        """
        earlier = self._items_of(session_id)
        if not earlier:
            return
        landed = [item for item in self._in_hand_of(session_id) if self._has_receipt(item)]
        self._settle(landed, Outcome.COMMITTED)
        outcome = Outcome.DROPPED if session_id in self._lines else Outcome.LOST
        self._settle([item for item in earlier if item not in landed], outcome)

    def detach(self, session_id: str) -> None:
        """Accept no more groups of a session; what waits is settled as lost."""
        if self._lines.pop(session_id, None) is not None:
            self._settle(self._items_of(session_id), Outcome.LOST)

    def submit(self, group: Group, incarnation: int) -> None:
        """Queue a group; each session's must come in log order."""
        self._waiting.append(_Item(group, incarnation, self._clock.monotonic()))

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._in_hand

    # -- one step ---------------------------------------------------------------------------------

    def step(self, *, drain: bool = False) -> float | None:
        """Try one batch. With `drain` mode `behind` does not wait for its interval."""
        now = self._clock.monotonic()
        if self._retry_at is not None and now < self._retry_at:
            return self._retry_at - now
        if not self._in_hand:
            wait = self._seconds_until_due(now, drain)
            if wait != 0.0:
                return wait
            self._take_batch()
            if not self._in_hand:
                return 0.0 if self._waiting else None
            self.unsettled_since = now
        try:
            if self._attempts:
                self._settle_by_stored_position()
            self._attempt(list(self._in_hand))
        except StoreReplaced as error:
            log.error("the store is not the one that was opened: %s", error)
            for session_id in sorted({item.session_id for item in self._in_hand}):
                self._fence(session_id, Outcome.REWOUND)
        except StoreTransient as error:
            return self._back_off(error)
        assert not self._in_hand
        self._attempts, self._retry_at, self.unsettled_since = 0, None, None
        return 0.0 if self._waiting else None

    def _seconds_until_due(self, now: float, drain: bool) -> float | None:
        if not self._waiting:
            return None
        if drain or self._config.durability is not Durability.BEHIND:
            return 0.0
        mutations = 0
        for waiting in self._waiting:
            mutations += len(waiting.group.mutations)
            if mutations >= self._config.flush_mutations:
                return 0.0
        return max(0.0, self._waiting[0].since + self._config.flush_interval_seconds - now)

    def _take_batch(self) -> None:
        """Move whole groups in hand, up to the batch limits; one larger group goes alone."""
        rows = size = 0
        while self._waiting:
            item = self._waiting[0]
            if not self._may_write(item):
                self._refuse(item)
                continue
            rows += item.group.row_count
            size += item.group.byte_count
            if self._in_hand and (rows > BATCH_ROWS or size > BATCH_BYTES):
                break
            self._in_hand.append(self._waiting.popleft())

    def _may_write(self, item: _Item) -> bool:
        line = self._lines.get(item.session_id)
        return line is not None and line.incarnation == item.incarnation and not line.is_broken

    def _refuse(self, item: _Item) -> None:
        """Settle a group that comes after its session was lost, or broken by a rejection."""
        is_held = item.session_id in self._lines
        self._settle([item], Outcome.DROPPED if is_held else Outcome.LOST)

    def _attempt(self, items: list[_Item]) -> None:
        """Commit the groups in one transaction; on a rejection narrow down to the guilty one.

        Narrowing goes session by session, then group by group in log order: what precedes the
        guilty group lands, what follows it in its session is dropped.
        """
        items = [item for item in items if self._may_write(item)]
        if not items:
            return
        try:
            self._commit(items)
        except StoreRejected as error:
            if len(items) == 1:
                self._reject(items[0], error)
                return
            for piece in _split(items):
                self._attempt(piece)

    def _commit(self, items: list[_Item]) -> None:
        batches = []
        for session_id, members in _by_session(items):
            line = self._lines[session_id]
            groups = tuple(item.group for item in members)
            batches.append(SessionBatch(session_id, line.token, line.position, groups))
        began_at = self._clock.monotonic()
        lost = self._store.commit(
            batches, node_id=self._node_id, ttl_seconds=self._config.lease_ttl_seconds
        )
        seconds = self._clock.monotonic() - began_at
        self._measures.committed(sum(item.group.row_count for item in items), seconds)
        for batch in batches:
            if batch.session_id not in lost:
                self._lines[batch.session_id].position = batch.last_position
        self._settle([item for item in items if item.session_id not in lost], Outcome.COMMITTED)
        for session_id in sorted(lost):
            self._lose(session_id)

    def _settle_by_stored_position(self) -> None:
        """After an attempt of unknown outcome: believe the store, not the failed call."""
        sessions = sorted({item.session_id for item in self._in_hand})
        stored = self._store.read_positions(sessions)
        for session_id in sessions:
            line, row = self._lines[session_id], stored.get(session_id)
            if is_rewound(row, token=line.token, position=line.position):
                self._fence(session_id, Outcome.REWOUND)
            elif row is None or row.token != line.token or row.node_id != self._node_id:
                # The position is another holder's by now. A receipt is still our own witness.
                landed = [item for item in self._in_hand_of(session_id) if self._has_receipt(item)]
                self._settle(landed, Outcome.COMMITTED)
                self._fence(session_id, Outcome.LOST)
            else:
                line.position = row.position
                landed = [
                    item
                    for item in self._in_hand_of(session_id)
                    if item.group.position <= row.position
                ]
                self._settle(landed, Outcome.COMMITTED)

    def _in_hand_of(self, session_id: str) -> list[_Item]:
        return [item for item in self._in_hand if item.session_id == session_id]

    def _has_receipt(self, item: _Item) -> bool:
        """Whether the store holds the receipt that only this group would have written.

        The same request sent to the holder after us has the same digest, and may have got the same
        place in the log; it was planned at another instant, and answered with other ids.
        """
        own = item.group.receipt
        if own is None:
            return False
        stored = self._store.find_receipt(item.session_id, own.agent_id, own.key)
        return stored is not None and _witness(stored) == _witness(own)

    # -- ends -------------------------------------------------------------------------------------

    def _lose(self, session_id: str) -> None:
        """The lease row is not as we left it: an older one, or that of another holder."""
        line = self._lines[session_id]
        row = self._store.read_positions([session_id]).get(session_id)
        is_older = is_rewound(row, token=line.token, position=line.position)
        self._fence(session_id, Outcome.REWOUND if is_older else Outcome.LOST)

    def _fence(self, session_id: str, outcome: Outcome) -> None:
        del self._lines[session_id]
        log.error("session %r is fenced: %s", session_id, outcome)
        self._settle(self._items_of(session_id), outcome)

    def _reject(self, item: _Item, error: StoreRejected) -> None:
        """Keep the call as a dead letter, then drop what follows it in its session."""
        group = item.group
        log.error(
            "the store refused group %d of session %r",
            group.position,
            group.session_id,
            exc_info=error,
        )
        call = group.call
        if call is not None:
            # The call travels as JSON text, since most are never read again.
            call = replace(call, arguments=json.loads(call.arguments))
        self._store.put_dead_letter(
            DeadLetter(group.session_id, group.position, call, str(error), self._clock.now())
        )
        self._measures.rejected()
        self._lines[group.session_id].is_broken = True
        self._settle([item], Outcome.REJECTED)
        self._settle(self._items_of(group.session_id), Outcome.DROPPED)

    def _items_of(self, session_id: str) -> list[_Item]:
        """Every unsettled group of a session, in log order."""
        return [item for item in (*self._in_hand, *self._waiting) if item.session_id == session_id]

    def _settle(self, items: list[_Item], outcome: Outcome) -> None:
        if not items:
            return
        gone = {id(item) for item in items}
        self._in_hand = [item for item in self._in_hand if id(item) not in gone]
        if outcome is not Outcome.COMMITTED:  # what commits was in hand
            self._waiting = deque(item for item in self._waiting if id(item) not in gone)
        if not self._in_hand:
            # Before anybody is told: whoever hears of it may write again at once.
            self.unsettled_since = None
        now = self._clock.monotonic()
        self._deliver([Settled(item.group, item.incarnation, outcome, now) for item in items])

    def _back_off(self, error: StoreTransient) -> float:
        self._attempts += 1
        self._measures.commit_failed()
        initial, most = self._config.retry_initial_seconds, self._config.retry_max_seconds
        delay = min(most, initial * 2.0 ** min(self._attempts - 1, 30))
        if self._attempts in (1, 4) or self._attempts % 20 == 0:
            log.warning("commit attempt %d failed, trying again: %s", self._attempts, error)
        self._retry_at = self._clock.monotonic() + delay
        return delay


def _witness(receipt: Receipt) -> tuple[str, int, Micros]:
    return receipt.digest, receipt.position, receipt.created_at


def is_rewound(row: StoredPosition | None, *, token: int, position: int) -> bool:
    """Whether a session's lease row is from before what we know was stored.

    Tokens never fall and the row is never deleted, so one that is missing or has a lower token can
    only be that of an older copy of the store.
    """
    if row is None or row.token < token:
        return True
    return row.token == token and row.position < position


def _by_session(items: Sequence[_Item]) -> list[tuple[str, list[_Item]]]:
    # sorted is stable: log order within a session is kept.
    ordered = sorted(items, key=lambda item: item.session_id)
    return [(name, list(members)) for name, members in groupby(ordered, lambda i: i.session_id)]


def _split(items: Sequence[_Item]) -> list[list[_Item]]:
    """Narrow a refused batch: by session if it holds several, else group by group."""
    sessions = [members for _, members in _by_session(items)]
    return sessions if len(sessions) > 1 else [[item] for item in items]
