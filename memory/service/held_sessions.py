"""The sessions a process holds, and the heartbeat that keeps their leases.

Owns the record of a held session and the renewal and release of all leases together. Opens and puts
away nothing.

Invariant: one statement renews every lease; a store that does not answer leaves them unconfirmed,
and never makes a session ours or another's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from memory.engine.errors import LamboError, StoreUnavailable
from memory.engine.event_texts import IsLive
from memory.engine.ports import Clock, Lease
from memory.service.memory import Memory
from memory.service.store_access import StoreAccess

log = logging.getLogger("lambo.host")

RELEASE_SECONDS_MAX = 2.0


@dataclass(slots=True)
class Held:
    """An open session and the lease it is held under."""

    memory: Memory
    lease: Lease
    confirmed_at: float  # monotonic seconds


def find_live(held: Mapping[str, Held], session_id: str) -> IsLive | None:
    """Tells which concepts of a session live by what is applied; None where it is not held."""
    entry = held.get(session_id)
    return None if entry is None else entry.memory.graph.concepts.row_by_id.__contains__


class Heartbeat:
    """Keeps the leases of the sessions of one host. Use it on one event loop."""

    def __init__(
        self,
        held: Mapping[str, Held],
        access: StoreAccess,
        *,
        clock: Clock,
        interval_seconds: float,
        shrink: Callable[[], Awaitable[None]],
        on_lost: Callable[[Memory], None],
    ) -> None:
        """`on_lost` is told of a memory whose session was taken over, when nothing is unsettled."""
        self._held = held
        self._access = access
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._shrink = shrink
        self._on_lost = on_lost

    async def run(self) -> None:
        """Renew the leases of all sessions at each heartbeat, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.renew()
                await self._shrink()
            except Exception:  # the edge of a loop that must not end: the next beat tries again
                log.exception("a heartbeat failed unexpectedly")

    async def renew(self) -> None:
        """One heartbeat; a store that does not answer leaves the leases unconfirmed."""
        tokens = {name: entry.lease.token for name, entry in self._held.items()}
        if not tokens:
            return
        asked_at = self._clock.monotonic()
        try:
            lost = await self._access.renew(tokens)
            gone = {name: token for name, token in tokens.items() if name in lost}
            rewound = await self._access.find_rewound(gone) if gone else frozenset()
        except StoreUnavailable as error:
            log.warning("heartbeat failed: %s", error)
            return
        for name, token in tokens.items():
            entry = self._held.get(name)
            if entry is None or entry.lease.token != token:
                continue
            if name in rewound:
                log.error("the store of session %r is older than its lease", name)
                entry.memory.on_lease_lost(is_rewound=True)
            elif name in lost:
                log.error("session %r was taken over by another server", name)
                entry.memory.on_lease_lost(is_rewound=False)
                if entry.memory.unsettled_count == 0:
                    self._on_lost(entry.memory)
            else:
                entry.confirmed_at = asked_at

    async def release_all(self) -> None:
        """Give every lease back, if that does not take long."""
        held = [entry.lease for entry in self._held.values() if not entry.memory.is_fenced]
        try:
            async with asyncio.timeout(RELEASE_SECONDS_MAX):
                await self._access.release(held)
        except (LamboError, TimeoutError) as error:
            # Everything is committed; an unreleased lease only makes others wait for its expiry.
            log.warning("leases not given back, they expire by themselves: %s", error)


async def finish_accepted(memories: Sequence[Memory], deadline_seconds: float) -> None:
    """Refuse new writes; let those that were accepted be applied, if that does not take long.

    What is left then was never said to be stored: its receipt is unknown to the next process.
    """
    for memory in memories:
        memory.begin_close()
    most = deadline_seconds / 2  # the committer needs its share
    await asyncio.gather(*(memory.accepted.drain(most) for memory in memories))
    if dropped := sum(memory.accepted.drop() for memory in memories):
        log.warning("%d accepted writes were not applied before the end", dropped)
