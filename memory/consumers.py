"""Events over a WebSocket, by channels: one JSON text message for each thing a listener is told.

Owns the messages: `{"type": "event" | "gap" | "alive" | "end", ...}`, the rest as over SSE. The
socket is one-way: what a client sends is refused. Who may come in is decided before, by the door
that leaves the caller's rights in the scope.

Invariant: a socket that is closed, by whichever side, leaves no task and no listener behind.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from typing import Any, Final

from channels.consumer import AsyncConsumer, get_handler_name
from channels.exceptions import StopConsumer
from channels.routing import URLRouter
from django.urls import path

from memory.engine.errors import LamboError
from memory.event_streams import (
    SEND_SECONDS_MAX,
    Alive,
    Ended,
    Said,
    follow,
    open_listening,
    read_request,
)
from memory.http_calls import SCOPE_RIGHTS
from memory.runtime import get_host
from memory.service.events import Event, Gap, Listening

SCOPE_STILL_ADMITTED: Final = "lambo.still_admitted"
SOCKET_PATH: Final = "ws/v1/sessions/<str:session>/events"

REFUSED, ENDED, UNSUPPORTED = 4400, 1001, 1003
"""Close codes. After `REFUSED` the reason names the error's code."""


class EventSocket(AsyncConsumer):  # type: ignore[misc]
    """One listener's socket.

    Not channels' ready-made one: that looks after database connections around its messages, on a
    thread, and nothing here uses any.
    """

    def __init__(self) -> None:
        self._listening: Listening | None = None
        self._sending: asyncio.Task[None] | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        await getattr(self, get_handler_name(message))(message)

    async def websocket_connect(self, _message: dict[str, Any]) -> None:
        session = self.scope["url_route"]["kwargs"]["session"]
        await self.send({"type": "websocket.accept"})
        try:
            request = read_request(self.scope.get("query_string", b""))
            rights = self.scope[SCOPE_RIGHTS]
            self._listening = await open_listening(get_host().events, session, request, rights)
        except LamboError as refusal:
            # After it is accepted: only so can a browser's page see why.
            await self._say(Ended(refusal.code, refusal.message, 0))
            await self._close(REFUSED, refusal.code)
            return
        self._sending = asyncio.create_task(self._send_all(self._listening))

    async def websocket_receive(self, _message: dict[str, Any]) -> None:
        self._stop()
        await self._close(UNSUPPORTED, "nothing is expected here")

    async def websocket_disconnect(self, _message: dict[str, Any]) -> None:
        self._stop()
        if self._sending is not None:
            with suppress(asyncio.CancelledError):
                await self._sending
        raise StopConsumer

    def _stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._sending is not None:
            self._sending.cancel()

    async def _send_all(self, listening: Listening) -> None:
        still_admitted = self.scope[SCOPE_STILL_ADMITTED]
        try:
            async with aclosing(follow(listening, still_admitted)) as said:  # type: ignore[type-var]
                async for one in said:
                    async with asyncio.timeout(SEND_SECONDS_MAX):
                        await self._say(one)
            await self._close(ENDED)
        except (OSError, TimeoutError):
            # It left, or takes nothing any more: its place is what its client read last.
            await self._close(ENDED)
        finally:
            listening.close()

    async def _say(self, said: Said) -> None:
        await self.send({"type": "websocket.send", "text": message(said)})

    async def _close(self, code: int, reason: str = "") -> None:
        with suppress(OSError, RuntimeError):  # it is gone already
            await self.send({"type": "websocket.close", "code": code, "reason": reason})


def message(said: Said) -> str:
    """One thing as a message."""
    match said:
        case Alive(place):
            content: dict[str, Any] = {"type": "alive", "resume": place}
        case Event():
            content = {"type": "event", **said.as_wire()}
        case Gap():
            content = {"type": "gap", **said.as_wire()}
        case Ended():
            content = {"type": "end", **said.as_wire()}
    return json.dumps(content)


sockets = URLRouter([path(SOCKET_PATH, EventSocket.as_asgi())])
"""Every WebSocket of the server."""
