"""Streamable HTTP: `/mcp/<session>` for every session, `/mcp` for the session `default`.

Owns the guards in front of the SDK (path, method, forwarding headers, Host and Origin, identity,
body size, in this order) and the lifetime of its request tasks. Refuses to hold state between
requests: no MCP session ids, no streams, so a restarted server answers the next call of an old
client, and any server answers for any client.

Invariant: a request reaches a handler only with a whole, bounded body and a `Binding` in its scope.
Every refusal is a JSON-RPC error with a stable `code` in its data.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol
from urllib.parse import unquote_to_bytes

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.requests import Request

from mcp_bridge.server import SCOPE_BINDING, Binding, build_server
from mcp_bridge.tools import SESSION_DEFAULT, ToolCall, ToolSpec
from memory.engine.errors import BodyTooLarge, Forbidden, LamboError, SessionClosed
from memory.engine.limits import BODY_BYTES

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Principal(Protocol):
    """Who an HTTP request comes from. `agent_id` is None where the caller names itself."""

    @property
    def agent_id(self) -> str | None: ...


Authenticate = Callable[[Scope, str], Awaitable[Principal]]
"""`(scope, session) -> principal`. Raises `LamboError` for a caller that may not come in."""

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

STATUS_BY_CODE: Final[Mapping[str, int]] = {
    "unauthenticated": 401,
    "forbidden": 403,
    "session_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "body_too_large": 413,
    "host_refused": 421,
    "rate_limited": 429,
    "internal_error": 500,
    "too_many_sessions": 503,
    "session_closed": 503,
    "store_unavailable": 503,
}
"""HTTP status of a refusal that comes before the protocol; a code not named here is a 400."""


class McpHttpApp:
    """An ASGI app for the paths under `prefix`. Serves only inside `async with app.run():`."""

    def __init__(
        self,
        dispatch: ToolCall,
        tools: Sequence[ToolSpec],
        *,
        version: str = "",
        authenticate: Authenticate | None = None,
        allowed_hosts: Sequence[str] = (),
        refuse_forwarded: bool = True,
        body_bytes_max: int = BODY_BYTES,
        prefix: str = "/mcp",
    ) -> None:
        """`allowed_hosts` are host names beside the loopback ones, without port.

        `refuse_forwarded` is for local mode, where being on this machine is the only credential and
        a proxy would lend it to the world. Without `authenticate` every caller names itself.
        """
        self._server = build_server(dispatch, tools, version=version)
        self._authenticate = authenticate
        self._refuse_forwarded = refuse_forwarded
        self._body_bytes_max = body_bytes_max
        self._prefix = prefix
        self._security = TransportSecurityMiddleware(host_settings(allowed_hosts))
        self._transport: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Hold the request tasks; on leaving, whatever is still running is cancelled.

        The SDK's task group lives in a task of its own, so that this may be entered and left by
        different tasks, as servers and test fixtures do.
        """
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stopping = asyncio.Event()
        holding = asyncio.create_task(self._hold(started, stopping))
        try:
            await asyncio.wait({holding, started}, return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                holding.result()
            yield
        finally:
            stopping.set()
            await holding

    async def _hold(self, started: asyncio.Future[None], stopping: asyncio.Event) -> None:
        transport = StreamableHTTPSessionManager(
            self._server,
            stateless=True,  # nothing a client holds can die with this process
            json_response=True,  # half the cost of an event stream, and no tool reports progress
            max_request_body_size=self._body_bytes_max,
        )
        async with transport.run():
            self._transport = transport
            started.set_result(None)
            try:
                await stopping.wait()
            finally:
                self._transport = None

    def serves(self, path: str) -> bool:
        """Whether a request path belongs to this app."""
        return path == self._prefix or path.startswith(f"{self._prefix}/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"McpHttpApp serves http, not {scope['type']}")
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._serve(scope, receive, watched)
        except LamboError as refusal:
            await _refuse(send, refusal.as_wire(), refusal.retry_after_seconds)
        except Exception:
            logger.exception("an MCP request failed")
            if started:
                raise  # the server must cut the connection: the answer cannot be taken back
            await _refuse(send, {"code": "internal_error", "message": "internal error"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._session(scope)
        if session is None:
            await _refuse(send, {"code": "not_found", "message": "no such path"})
            return
        if scope["method"] != "POST":
            # GET would open a stream on which this server has nothing to say; DELETE would end a
            # session it does not keep. The protocol lets a server refuse both.
            await _refuse(send, {"code": "method_not_allowed", "message": "only POST"})
            return
        if self._refuse_forwarded:
            check_not_forwarded(scope)
        if response := await self._security.validate_request(Request(scope), is_post=True):
            code = "host_refused" if response.status_code == 421 else "forbidden"
            code = "invalid_argument" if response.status_code == 400 else code
            await _refuse(send, {"code": code, "message": bytes(response.body).decode()})
            return
        principal = await self._authenticate(scope, session) if self._authenticate else None
        body = await read_body(scope, receive, self._body_bytes_max)
        if body is None:
            return
        if self._transport is None:
            raise SessionClosed("the server is stopping", retry_after_seconds=1.0)
        binding = Binding(session, principal.agent_id if principal else None, principal)
        await self._transport.handle_request(
            {**scope, SCOPE_BINDING: binding}, _replay(body, receive), send
        )

    def _session(self, scope: Scope) -> str | None:
        """The session a path names, percent-decoded once; None for a path that is not ours."""
        # The decoded path cannot tell a slash in a name from a separator, the raw one can.
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw.partition(b"?")[0]
        prefix = self._prefix.encode()
        if path in (prefix, prefix + b"/"):
            return SESSION_DEFAULT
        head, separator, segment = path.partition(prefix + b"/")
        segment = segment.removesuffix(b"/")
        if head or not separator or not segment or b"/" in segment:
            return None
        try:
            return unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            return None


def host_settings(names: Sequence[str]) -> TransportSecuritySettings:
    """The Host and Origin values that may talk to us: loopback and `names`, on any port."""
    hosts = [*LOOPBACK_NAMES, *names]
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(
        allowed_hosts=[pattern for host in hosts for pattern in (host, f"{host}:*")],
        allowed_origins=[pattern for origin in origins for pattern in (origin, f"{origin}:*")],
    )


def check_not_forwarded(scope: Scope) -> None:
    """Refuse a request that came through a proxy."""
    for name, _value in scope["headers"]:
        if name == b"forwarded" or name.startswith(b"x-forwarded-") or name == b"x-real-ip":
            raise Forbidden("forwarded requests are refused in local mode")


async def read_body(scope: Scope, receive: Receive, bytes_max: int) -> bytes | None:
    """The whole body, declared or chunked; None when the client left before its end."""
    refusal = BodyTooLarge(f"the body exceeds {bytes_max} bytes", maximum=bytes_max)
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > bytes_max:
            raise refusal
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > bytes_max:
            raise refusal
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


async def _refuse(
    send: Send, wire: Mapping[str, Any], retry_after_seconds: float | None = None
) -> None:
    status = STATUS_BY_CODE.get(wire["code"], 400)
    number = INTERNAL_ERROR if status == 500 else INVALID_REQUEST
    error = {"code": number, "message": wire["message"], "data": dict(wire)}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 405:
        headers.append((b"allow", b"POST"))
    if retry_after_seconds is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(retry_after_seconds))).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
