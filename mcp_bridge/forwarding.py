"""The bridge's way to the server: a tool call becomes a call of the HTTP client.

Owns the moment a server is looked for and the one connection that all calls share. Refuses to hold
memory of its own, and leaves keys, retries and the search for a server that was lost to the client,
which does them for every program alike. It is given an address and a way to connect, nothing else,
so it has no secret to send.

Invariant: many calls at once look for a server once; a search that failed is told to the calls that
waited for it, and the next call searches again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from mcp_bridge.tools import CallContext, ToolReply
from memory.client import ServerUnreachable
from memory.engine.errors import LamboError

logger = logging.getLogger(__name__)

_CLIENT_NAME_CHARS: Final = 64


class VerbClient(Protocol):
    """The part of the HTTP client that the bridge uses. A write gets a key there if it has none."""

    async def call(
        self,
        session: str,
        verb: str,
        arguments: Mapping[str, Any],
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mapping[str, Any]: ...

    async def aclose(self) -> None: ...


FindServer = Callable[[], str]
"""Finds the running server or starts one, and gives its URL and no more. May block."""

Connect = Callable[[str], VerbClient]


class Forwarder:
    """Carries out verbs by asking the server. Safe for any number of calls at once."""

    def __init__(self, find_server: FindServer, connect: Connect) -> None:
        self._find_server = find_server
        self._connect = connect
        self._connecting: asyncio.Task[VerbClient] | None = None

    async def dispatch(
        self, verb: str, arguments: dict[str, Any], context: CallContext
    ) -> ToolReply:
        """The `ToolCall` of a bridge."""
        body = dict(arguments)
        # Beside the arguments, where it also serves verbs that are sent without a body.
        agent_id = body.pop("agent_id", context.agent_id)
        client = await self._connected()
        answer = await client.call(
            context.session,
            verb,
            body,
            agent_id=agent_id,
            idempotency_key=context.idempotency_key,
        )
        return ToolReply(
            text=answer["text"],
            structured=dict(answer["structured"]),
            warnings=list(answer["warnings"]),
        )

    async def prefetch(self) -> None:
        """Find or start the server now, so that the first call does not wait for it."""
        with suppress(LamboError):  # told by the first call, which searches again
            await self._connected()

    async def aclose(self) -> None:
        """Give the connection back, or stop waiting for it."""
        connecting, self._connecting = self._connecting, None
        if connecting is None:
            return
        connecting.cancel()  # of no effect on one that is done
        # How a connection fails to open or to close is of no interest to who leaves.
        with suppress(Exception, asyncio.CancelledError):
            await (await connecting).aclose()

    async def _connected(self) -> VerbClient:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._search())
        connecting = self._connecting
        try:
            # A call that is cancelled must not end a search that others wait for.
            return await asyncio.shield(connecting)
        except LamboError:
            if self._connecting is connecting:
                self._connecting = None
            raise

    async def _search(self) -> VerbClient:
        try:
            return self._connect(await asyncio.to_thread(self._find_server))
        except OSError as error:
            logger.exception("no server was found and none could be started")
            raise ServerUnreachable("no memory server answers and none can be started") from error


def machine_agent_name(client_name: str | None) -> str:
    """The agent a bridge speaks for when none is named: the client's name and this machine."""
    words = "".join(c if c.isalnum() or c in "-_." else "-" for c in client_name or "agent")
    return f"{words.strip('-')[:_CLIENT_NAME_CHARS] or 'agent'}-{machine_id()}"


def machine_id() -> str:
    """Six hexadecimal digits, the same at every start on this machine."""
    seed = platform.node()
    with suppress(OSError):
        seed += Path("/etc/machine-id").read_text(encoding="ascii", errors="replace")
    return hashlib.sha256(seed.encode()).hexdigest()[:6]
