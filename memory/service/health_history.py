"""How the server and its open sessions did over the last hour, for charts.

Owns a ring of samples in RAM: of the server how late its loop was and whether the store answered,
of each session how long its oldest write waited, how long its last cycle took, how many concepts
wait for a vector and how far its log is. Nothing is stored; a restart begins a new hour.

Invariant: what is kept is bounded by `HEALTH_SAMPLES` for each open session, and sampling keeps no
session open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from memory.engine.limits import HEALTH_SAMPLES
from memory.engine.times import Micros

if TYPE_CHECKING:
    from memory.service.host import SessionHost
    from memory.service.loop_lag import LoopLag

INTERVAL_SECONDS: Final = 10.0
"""Between two samples; the loop's lateness is of the same span."""


@dataclass(frozen=True, slots=True)
class ServerSample:
    """The server at one instant. `loop_lag_ms` is the worst since the sample before."""

    at: Micros
    loop_lag_ms: float
    store_answers: bool


@dataclass(frozen=True, slots=True)
class SessionSample:
    """An open session at one instant. `writes` are those since the sample before."""

    at: Micros
    flush_lag_ms: float
    cycle_ms: float
    vectors_missing: int
    writes: int


class HealthHistory:
    """The samples of one process. Use it on one event loop."""

    def __init__(self) -> None:
        self._server: deque[ServerSample] = deque(maxlen=HEALTH_SAMPLES)
        self._sessions: dict[str, deque[SessionSample]] = {}
        self._positions: dict[str, int] = {}

    async def watch(self, host: SessionHost, lag: LoopLag, now: Callable[[], Micros]) -> None:
        """Sample until cancelled."""
        while True:
            self.sample(host, lag, now())
            await asyncio.sleep(INTERVAL_SECONDS)

    def sample(self, host: SessionHost, lag: LoopLag, at: Micros) -> None:
        """Take one sample of everything that is open."""
        self._server.append(ServerSample(at, round(lag.report().max_ms, 2), host.is_healthy))
        memories = host.cycles.memories()
        for name in self._sessions.keys() - memories.keys():
            del self._sessions[name], self._positions[name]
        for name, memory in memories.items():
            before = self._positions.get(name, memory.position)
            self._positions[name] = memory.position
            self._sessions.setdefault(name, deque(maxlen=HEALTH_SAMPLES)).append(
                SessionSample(
                    at,
                    flush_lag_ms=round(memory.uncommitted_seconds * 1_000, 1),
                    cycle_ms=round(memory.round_seconds * 1_000, 2),
                    vectors_missing=memory.graph.missing_vector_count,
                    # A log that was loaded again may have become shorter.
                    writes=max(0, memory.position - before),
                )
            )

    def newest(self, session_id: str) -> dict[str, Any]:
        """The last sample of the server and of a session; None for what has none."""
        held = self._sessions.get(session_id)
        return {
            "server": asdict(self._server[-1]) if self._server else None,
            "session": asdict(held[-1]) if held else None,
        }

    def as_wire(self, session_id: str) -> dict[str, Any]:
        """Both series, oldest first, as columns; those of a session that is not open are empty."""
        return {
            "interval_seconds": INTERVAL_SECONDS,
            "samples_max": HEALTH_SAMPLES,
            "server": _columns(self._server),
            "session": _columns(self._sessions.get(session_id, ())),
        }


def _columns(
    samples: Sequence[ServerSample] | Sequence[SessionSample] | deque[Any],
) -> Mapping[str, list[Any]]:
    rows = [asdict(sample) for sample in samples]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
