"""Callers of the event streams, straight at an ASGI application: no socket, no server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from asgiref.testing import ApplicationCommunicator

HOST = "127.0.0.1:7700"
SSE = {"Accept": "text/event-stream"}
SECONDS = 20


def raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    named = {"Host": HOST, **headers}
    return [(name.lower().encode(), value.encode()) for name, value in named.items()]


@dataclass
class Stream:
    """One response under way."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_over: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def frames(self) -> list[dict[str, Any]]:
        """What has come so far: `event`, `id` and `data` of each whole frame that has data."""
        found = []
        for block in self.body.decode().split("\n\n")[:-1]:
            lines = [line.partition(": ") for line in block.splitlines()]
            said = {name: value for name, _, value in lines if name}
            if "data" in said:
                said["data"] = json.loads(said["data"])
                found.append(said)
        return found

    async def until(self, count: int) -> list[dict[str, Any]]:
        """The first `count` frames."""
        async with asyncio.timeout(SECONDS):
            while len(self.frames) < count and not self.is_over:
                self.news.clear()
                await self.news.wait()
        return self.frames[:count]

    async def until_over(self) -> None:
        async with asyncio.timeout(SECONDS):
            while not self.is_over:
                self.news.clear()
                await self.news.wait()

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


@asynccontextmanager
async def streaming(
    application: Any, target: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> AsyncIterator[Stream]:
    """A request that accepts a stream; its client leaves at the end."""
    path, _, query = target.partition("?")
    stream = Stream()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": raw({**SSE, **(headers or {})}),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7700),
    }
    requests = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if requests:
            return requests.pop()
        await stream.left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            stream.status = message["status"]
            stream.headers = {name.decode(): text.decode() for name, text in message["headers"]}
        else:
            stream.body += message.get("body", b"")
            stream.is_over = not message.get("more_body", False)
        stream.news.set()

    serving = asyncio.create_task(application(scope, receive, send))
    try:
        async with asyncio.timeout(SECONDS):
            while not stream.status:
                stream.news.clear()
                await stream.news.wait()
        yield stream
    finally:
        stream.left.set()
        async with asyncio.timeout(SECONDS):
            await serving


class Socket:
    """A WebSocket to the application."""

    def __init__(
        self, application: Any, target: str, headers: Mapping[str, str] | None = None
    ) -> None:
        path, _, query = target.partition("?")
        scope = {
            "type": "websocket",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": raw(headers or {}),
            "subprotocols": [],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7700),
        }
        communicator: Any = ApplicationCommunicator
        self._caller = communicator(application, scope)

    async def connect(self) -> bool:
        """Whether it is accepted."""
        await self._caller.send_input({"type": "websocket.connect"})
        return bool((await self.receive())["type"] == "websocket.accept")

    async def receive(self) -> dict[str, Any]:
        """Whatever comes next."""
        message: dict[str, Any] = await self._caller.receive_output(SECONDS)
        return message

    async def said(self, kind: str) -> dict[str, Any]:
        """The next message of a type."""
        while True:
            message: dict[str, Any] = json.loads((await self.receive())["text"])
            if message["type"] == kind:
                return message

    async def say(self, text: str) -> None:
        await self._caller.send_input({"type": "websocket.receive", "text": text})

    async def leave(self) -> None:
        """Hang up, and wait until the application is done with it."""
        await self._caller.send_input({"type": "websocket.disconnect", "code": 1005})
        await self._caller.wait(SECONDS)


SSE_PATH = "/api/v1/sessions/{session}/events"
WS_PATH = "/ws/v1/sessions/{session}/events"
