"""Trying again until a session whose write the store refused is loaded anew.

Owns the waits between attempts and what follows when there is no use in another. Loads nothing
itself.

Invariant: a session that cannot be loaded takes no writes: either it is swapped, or they stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from memory.engine.config import Config
from memory.engine.errors import StoreUnavailable
from memory.service.memory import Memory

log = logging.getLogger("lambo.host")


async def reload_until_done(
    memory: Memory,
    *,
    is_open: Callable[[Memory], bool],
    load_again: Callable[[Memory], Awaitable[None]],
    config: Config,
) -> None:
    """Replace a session's graph by what the store holds, after a rejected group."""
    session_id = memory.graph.session_id
    delay = config.retry_initial_seconds
    try:
        while is_open(memory):
            try:
                return await load_again(memory)
            except StoreUnavailable as error:
                log.error("session %r cannot be reloaded yet: %s", session_id, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, config.retry_max_seconds)
    except Exception:  # a bug of ours, or rows that cannot be: writing on would build on sand
        log.exception("session %r cannot be reloaded; its writes stop", session_id)
        memory.on_reload_failed()
