"""What a host does for the background cycles of its sessions: attach, tick, tell, count tokens.

Owns the ticker and the way of what it finds to the listeners. Without cycles it does nothing, so
that a host of plain memories needs no other path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from memory.engine.graph import Graph
from memory.engine.ports import Clock, LoadedSession
from memory.service.cycle_ticker import CycleTicker
from memory.service.cycles import Cycles, Finding, SessionCycles, Tokens
from memory.service.events import EventFeed
from memory.service.memory import Memory
from memory.service.tokens import TokenKeeper


class CycleWork:
    """The cycles of all sessions of a host. Use it on one event loop."""

    def __init__(
        self,
        cycles: Cycles | None,
        *,
        ticks: bool,
        memories: Callable[[], Mapping[str, Memory]],
        events: EventFeed,
        tokens: Callable[[], TokenKeeper | None],
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Without `ticks` cycles run only where somebody asks for them."""
        self._cycles = cycles
        self._ticks = ticks and cycles is not None
        self._memories = memories
        self._events = events
        self._tokens = tokens
        self._clock = clock
        self._spawn = spawn
        self.ticker = CycleTicker(
            memories,
            clock=clock,
            spawn=spawn,
            tell=self._tell,
            collect=lambda memory: memory.collect(is_paced=True),
        )

    def start(self) -> None:
        """Tick from now on."""
        if self._ticks:
            self._spawn(self.ticker.run())

    async def attach(self, loaded: LoadedSession, graph: Graph) -> SessionCycles | None:
        """The cycles of a session just loaded, made beside the event loop."""
        if self._cycles is None:
            return None
        now = self._clock.now()
        return await asyncio.to_thread(partial(self._cycles.attach, graph, loaded.cycle_state, now))

    async def token_ages(self) -> Tokens:
        """Since when agents have tokens; none where no tokens are kept."""
        tokens = self._tokens()
        return Tokens() if tokens is None else Tokens(created_at=await tokens.read_ages())

    def _tell(self, session_id: str, found: Sequence[Finding]) -> None:
        memory = self._memories().get(session_id)
        if memory is not None:
            self._events.tell_found(session_id, found, memory.position, self._clock.now())
