"""What a host does for the background cycles of its sessions: attach, tick, count tokens.

Owns the ticker. Without cycles it does nothing, so that a host of plain memories needs no other
path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from memory.engine.graph import Graph
from memory.engine.ports import Clock, LoadedSession
from memory.service.cycle_ticker import CycleTicker
from memory.service.cycles import Cycles, SessionCycles, Tokens
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
        tokens: Callable[[], TokenKeeper | None],
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Without `ticks` cycles run only where somebody asks for them."""
        self._cycles = cycles
        self._ticks = ticks and cycles is not None
        self.memories = memories
        """The open sessions; asking for them here keeps none open."""
        self._tokens = tokens
        self._clock = clock
        self._spawn = spawn
        self.ticker = CycleTicker(
            memories,
            clock=clock,
            spawn=spawn,
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
