"""One act at a time on a session: opening, closing and deleting take turns.

Reads and writes of an open session need no turn. An act goes on when its caller is cancelled: half
an opening or half a deletion would be worse than all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Turns:
    """Who is at work on which session. Use it on one event loop."""

    def __init__(self) -> None:
        self._acting: dict[str, asyncio.Task[Any]] = {}

    def is_taken(self, session_id: str) -> bool:
        return session_id in self._acting

    async def pass_by(self, session_id: str) -> None:
        """Wait for the act under way, whatever comes of it."""
        acting = self._acting.get(session_id)
        if acting is not None:
            await asyncio.wait([acting])

    async def take(self, session_id: str, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Carry out an act on a session after those before it; its result or its error."""
        while session_id in self._acting:
            await self.pass_by(session_id)
        task = asyncio.get_running_loop().create_task(act())
        self._acting[session_id] = task
        task.add_done_callback(partial(self._end, session_id))
        return await asyncio.shield(task)

    def _end(self, session_id: str, task: asyncio.Task[Any]) -> None:
        del self._acting[session_id]
        if not task.cancelled():
            task.exception()  # the caller may be gone; then nobody else would fetch it
