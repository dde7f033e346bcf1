"""Events as server-sent events: one ASGI response that goes on until somebody ends it.

Owns the frames and the watch for a client that leaves. Who may listen is decided before.

Frames: `event` is the kind, `data` one line of JSON, `id` what `Last-Event-ID` brings back. `gap`
and `end` are events of their own. A heartbeat is a comment; the `id` beside it tells a listener of
few kinds how far the log has come.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Final

from memory.event_streams import (
    SEND_SECONDS_MAX,
    Alive,
    Ended,
    Said,
    StillAdmitted,
    follow,
)
from memory.service.events import Event, Gap, Listening

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

CONTENT_TYPE: Final = "text/event-stream"
RETRY_MILLISECONDS: Final = 1_000
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy that gathers would hold events back
]


def frame(said: Said) -> bytes:
    """One thing in the words of the protocol."""
    match said:
        case Alive(place):
            return f": heartbeat\nid: {place}\n\n".encode()
        case Event():
            return _frame(said.kind, said.as_wire(), said.id)
        case Gap():
            # What is read next has a larger id: resuming here would only tell of the gap again.
            return _frame("gap", said.as_wire(), said.resume - 1)
        case Ended():
            return _frame("end", said.as_wire(), said.place)


def _frame(name: str, data: dict[str, Any], place: int) -> bytes:
    # ASCII only, so that no character of a text can end a line.
    return f"event: {name}\nid: {place}\ndata: {json.dumps(data)}\n\n".encode()


async def stream(
    listening: Listening, receive: Receive, send: Send, still_admitted: StillAdmitted
) -> None:
    """Send everything a listener is told, until one of the two sides ends it."""
    sending = asyncio.create_task(_send_all(listening, send, still_admitted))
    leaving = asyncio.create_task(_until_left(receive))
    try:
        await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        listening.close()
        for task in (sending, leaving):
            task.cancel()
        results = await asyncio.gather(sending, leaving, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, OSError | TimeoutError):
            raise result


async def _send_all(listening: Listening, send: Send, still_admitted: StillAdmitted) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    first = f"retry: {RETRY_MILLISECONDS}\n".encode()
    async with aclosing(follow(listening, still_admitted)) as said:  # type: ignore[type-var]
        async for one in said:
            async with asyncio.timeout(SEND_SECONDS_MAX):
                body = first + frame(one)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            first = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(SEND_SECONDS_MAX):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
