"""JSON-RPC over a pair of pipes, one message a line, for the SDK's server loop.

Owns reading, writing and the answer to a line that is no message. Stands in for the SDK's stdio
transport for four reasons: it works on pipes claimed before Django starts; bytes that are not UTF-8
are refused rather than stored as replacement characters; a malformed line is answered with its id
where one can be made out, so that no caller waits for ever; and calls under way are answered before
the end of input ends the server.

Invariant: every line written is one JSON-RPC message; every line read is delivered or answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, Final

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic_core import PydanticSerializationError

from mcp_bridge.protocol_pipes import ProtocolPipes
from memory.engine.limits import BODY_BYTES

logger = logging.getLogger(__name__)

LINE_BYTES_MAX: Final = BODY_BYTES
DRAIN_SECONDS: Final = 10.0
"""How long calls under way may still be answered once the client has closed its end."""

LAST_WORD_SECONDS: Final = 1.0
"""How long a reply already handed over may take to reach the client at the end."""

Inbound = MemoryObjectReceiveStream[SessionMessage | Exception]
Outbound = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def json_line_streams(
    pipes: ProtocolPipes, *, drain_seconds: float = DRAIN_SECONDS
) -> AsyncIterator[tuple[Inbound, Outbound]]:
    """The stream pair `Server.run` takes. Leaving the block stops both directions."""
    to_server, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbound, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    wire = _Wire(pipes, outbound.clone(), drain_seconds)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wire.read_into, to_server)
        tasks.start_soon(wire.write_from, from_server)
        yield inbound, outbound
        await outbound.aclose()
        with anyio.move_on_after(LAST_WORD_SECONDS):
            await wire.written.wait()
        tasks.cancel_scope.cancel()


class _Wire:
    def __init__(self, pipes: ProtocolPipes, answers: Outbound, drain_seconds: float) -> None:
        self._pipes = pipes
        self._answers = answers
        self._drain_seconds = drain_seconds
        self._unanswered: set[RequestId] = set()
        self._all_answered = anyio.Event()
        self._client_gone = anyio.Event()
        self.written = anyio.Event()

    async def read_into(
        self, to_server: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        async with to_server, self._answers:
            async for line in _lines(self._pipes.reader):
                if not line.strip():
                    continue
                try:
                    if len(line) > LINE_BYTES_MAX:
                        raise ValueError("line too long")
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    await self._answer_malformed(line)
                    continue
                self._note_inbound(message)
                try:
                    await to_server.send(SessionMessage(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return  # the server loop has ended
            await self._drain()

    async def write_from(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for outgoing in from_server:
                message = outgoing.message
                data = _encode(message)
                try:
                    await anyio.to_thread.run_sync(_write_all, self._pipes.writer, data)
                except OSError:
                    # The client is gone. What is still to be said has no reader; the end of input
                    # that follows ends the server.
                    self._client_gone.set()
                    self._all_answered.set()
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._settle(message.id)
        self.written.set()

    async def _answer_malformed(self, line: bytes) -> None:
        error = ErrorData(
            code=PARSE_ERROR,
            message=f"a line must be one JSON-RPC message in UTF-8, at most {LINE_BYTES_MAX} bytes",
        )
        answer = JSONRPCError(jsonrpc="2.0", id=_find_id(line), error=error)
        await self._answers.send(SessionMessage(answer))

    def _note_inbound(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._unanswered.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method.endswith("/cancelled"):
            # A cancelled request may stay without an answer: nobody waits for it.
            self._settle((message.params or {}).get("requestId"))

    def _settle(self, request_id: RequestId | None) -> None:
        self._unanswered.discard(request_id)
        if not self._unanswered:
            self._all_answered.set()
            self._all_answered = anyio.Event()

    async def _drain(self) -> None:
        """Hold the end of input back while answers are owed: the SDK cancels calls on it."""
        if self._unanswered and not self._client_gone.is_set():
            with anyio.move_on_after(self._drain_seconds):
                await self._all_answered.wait()


async def _lines(reader: BinaryIO) -> AsyncIterator[bytes]:
    """Lines of `reader`, a longer one cut just over the limit, until it ends.

    Read by a daemon thread of their own: a blocked read cannot be cancelled, and must not keep the
    process alive when everything else has ended.
    """
    loop = asyncio.get_running_loop()
    send, receive = anyio.create_memory_object_stream[bytes](0)

    def pump() -> None:
        try:
            while line := _read_line(reader):
                asyncio.run_coroutine_threadsafe(send.send(line), loop).result()
        except (OSError, ValueError):
            logger.debug("the protocol input cannot be read any more")
        except (anyio.BrokenResourceError, asyncio.CancelledError, RuntimeError):
            return  # the server has ended, and its loop with it
        try:
            loop.call_soon_threadsafe(send.close)
        except RuntimeError:
            return

    threading.Thread(target=pump, name="mcp-stdin", daemon=True).start()
    async with receive:
        async for line in receive:
            yield line


def _read_line(reader: BinaryIO) -> bytes:
    line = reader.readline(LINE_BYTES_MAX + 1)
    if len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
        while (rest := reader.readline(1 << 16)) and not rest.endswith(b"\n"):
            pass
    return line


def _find_id(line: bytes) -> RequestId | None:
    """The id of a malformed request, or None, which JSON-RPC writes as null."""
    try:
        decoded: Any = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    found = decoded.get("id") if isinstance(decoded, dict) else None
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    return found if isinstance(found, str) and found.isprintable() else None


def _encode(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        logger.exception("a reply cannot be written as UTF-8")
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return b""
        error = ErrorData(code=INTERNAL_ERROR, message="internal error")
        fallback = JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
        return fallback.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def _write_all(writer: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[writer.write(view) :]
