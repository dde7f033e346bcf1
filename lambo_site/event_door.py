"""The door of the event streams: who is let in to `/api/v1/sessions/<session>/events` as a stream,
and to the WebSockets.

Owns the order of the guards, the same as everywhere: Host and Origin, identity, arguments, right.
Beside a token or the operator secret a login of the admin's pages opens these streams, since a
browser's EventSource and WebSocket can send no other credential; a token never stands in an
address. What a stream says is the business of `memory.event_streams`.

Invariant: whoever listens is looked at again every few seconds, by the credential of the start.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from django.conf import settings

from lambo_site.api_door import refuse_stranger, send_response
from lambo_site.errors import error_response
from lambo_site.gate import Gate
from lambo_site.middleware import find_refusal
from lambo_site.people import find_person
from memory import event_sse
from memory.consumers import SCOPE_STILL_ADMITTED, sockets
from memory.engine.errors import Forbidden, LamboError
from memory.engine.rights import Rights
from memory.event_streams import open_listening, read_request
from memory.http_calls import SCOPE_RIGHTS
from memory.runtime import get_host
from memory.service.tokens import unauthenticated

_STREAM_PATH: Final = re.compile(r"/api/v1/sessions/([^/\ufffd]+)/events")
_SOCKET_PATH: Final = re.compile(r"/ws/v1/sessions/[^/\ufffd]+/events")
_CREDENTIALS: Final = frozenset({b"authorization", b"lambo-operator"})


class EventDoor:
    """ASGI applications of the streams and of the sockets."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def serves(self, scope: Any) -> bool:
        """Whether a request asks for events as a stream; else it asks for a page of them."""
        accept = _header(scope, b"accept") or ""
        return (
            scope["method"] == "GET"
            and event_sse.CONTENT_TYPE in accept.lower()
            and _STREAM_PATH.fullmatch(scope["path"]) is not None
        )

    async def stream(self, scope: Any, receive: Any, send: Any) -> None:
        """Server-sent events."""
        if await refuse_stranger(scope, send):
            return
        try:
            rights = await self._admit(scope)
            match = _STREAM_PATH.fullmatch(scope["path"])
            assert match is not None
            last_event_id = _header(scope, b"last-event-id") or None
            request = read_request(scope["query_string"], last_event_id)
            listening = await open_listening(get_host().events, match[1], request, rights)
        except LamboError as refusal:
            await send_response(error_response(refusal), scope, send)
            return
        await event_sse.stream(listening, receive, send, partial(self._recognise, scope))

    async def socket(self, scope: Any, receive: Any, send: Any) -> None:
        """WebSockets. One that is not let in is closed before it is accepted: status 403."""
        await receive()
        try:
            headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in scope.get("headers", ())
            }
            refusal = find_refusal(
                headers,
                settings.ALLOWED_HOSTS,
                host=headers.get("host", ""),
                may_be_forwarded=settings.PROCESS.requires_tokens,
            )
            if refusal is not None:
                raise refusal
            if _SOCKET_PATH.fullmatch(scope["path"]) is None:
                raise Forbidden("there is no such socket")
            await self._admit(scope)
        except LamboError:
            await send({"type": "websocket.close", "code": 1008})
            return
        connected = [{"type": "websocket.connect"}]

        async def receive_all() -> Any:
            return connected.pop() if connected else await receive()

        known = {**scope, SCOPE_STILL_ADMITTED: partial(self._recognise, scope)}
        await sockets(known, receive_all, send)

    async def _admit(self, scope: Any) -> Rights:
        rights = await self._person(scope) or await self._gate.admit(scope)
        scope[SCOPE_RIGHTS] = rights
        return rights

    async def _recognise(self, scope: Any) -> Rights:
        """The same caller once more: it counts as no call of a token."""
        return await self._person(scope) or await self._gate.recognise(scope)

    async def _person(self, scope: Any) -> Rights | None:
        """The person who is logged in, where nothing else is shown and something has to be."""
        if not settings.PROCESS.requires_tokens:
            return None
        if any(name.lower() in _CREDENTIALS for name, _ in scope.get("headers", ())):
            return None
        if _header(scope, b"cookie") is None:
            return None
        if scope["type"] == "websocket" and _header(scope, b"origin") is None:
            raise unauthenticated()  # every browser names the page a socket is opened from
        return await find_person(scope.get("headers", ()))


def _header(scope: Any, name: bytes) -> str | None:
    for key, value in scope.get("headers", ()):
        if key.lower() == name:
            return str(value.decode("latin-1"))
    return None
