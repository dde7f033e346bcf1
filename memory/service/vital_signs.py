"""How a host stands at this instant: sums over its open sessions, for whoever watches the server.

Owns what is looked at and nothing that is kept. Names no session.

Invariant: looking changes nothing, waits for nothing, and takes time in the number of open sessions
alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from memory.engine.errors import StoreUnavailable
from memory.engine.ports import Clock, StoreRejected
from memory.service.memory import Memory

PROBE_SECONDS: Final = 1.0
"""How long the store may take to answer whoever asks whether it does,"""
PROBE_KEPT_SECONDS: Final = 1.0
"""and how long that answer counts: whoever may ask must not be able to keep the store busy."""


@dataclass(frozen=True, slots=True)
class VitalSigns:
    """The sums. `flush_lag_seconds` is the age of the oldest uncommitted write of all sessions."""

    open_sessions: int
    fenced_sessions: int
    flush_lag_seconds: float
    uncommitted_mutations: int
    missing_vectors: int
    resident_bytes: int
    is_store_away: bool


def read_vital_signs(memories: Collection[Memory], *, is_store_away: bool) -> VitalSigns:
    """Look at the open sessions of a host."""
    return VitalSigns(
        open_sessions=len(memories),
        fenced_sessions=sum(memory.is_fenced for memory in memories),
        flush_lag_seconds=max((memory.uncommitted_seconds for memory in memories), default=0.0),
        uncommitted_mutations=sum(memory.uncommitted_mutations for memory in memories),
        missing_vectors=sum(memory.graph.missing_vector_count for memory in memories),
        resident_bytes=sum(memory.resident_bytes for memory in memories),
        is_store_away=is_store_away,
    )


class StoreProbe:
    """Whether the store answers a question now. Use it on one event loop.

    Commits tell as much, but only while somebody writes: a store that goes away under a quiet
    server is found by asking.
    """

    def __init__(self, ask: Callable[[], Awaitable[object]], *, clock: Clock) -> None:
        """`ask` reads next to nothing from the store, or raises what the store failed with."""
        self._ask = ask
        self._clock = clock
        self._asked_at = float("-inf")
        self._asking: asyncio.Future[bool] | None = None

    async def answers(self) -> bool:
        """Whether the store has answered within `PROBE_SECONDS`; asked at most once at a time."""
        now = self._clock.monotonic()
        is_old = now - self._asked_at >= PROBE_KEPT_SECONDS
        if self._asking is None or (is_old and self._asking.done()):
            self._asked_at = now
            self._asking = asyncio.ensure_future(self._find_out())
        done, _ = await asyncio.wait([self._asking], timeout=PROBE_SECONDS)
        return bool(done) and self._asking.result()

    async def _find_out(self) -> bool:
        try:
            await self._ask()
        except (StoreUnavailable, StoreRejected):
            return False
        return True
