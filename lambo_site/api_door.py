"""Django's handler for the calls of programs: the same routes, a shorter way to them.

Owns what Django's own ASGI handler does around a request, for paths of the API: reading the body,
making the request, sending the response. It differs on purpose in five points. A caller the gate
does not know is answered before its body is read. The body is bounded while it is read, declared or
chunked. No signals are sent and no response is closed on a thread: they look after database
connections, which the API does not use on the event loop, and cost two thread switches a call. A
caller who hangs up does not stop a write half way. Every answer is JSON in the shape of
`lambo_site.errors`, also those of Django and ninja themselves.
"""

from __future__ import annotations

import asyncio
import logging
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import get_resolver, set_script_prefix, set_urlconf

from lambo_site.errors import (
    MethodNotAllowed,
    NoSuchPath,
    error_response,
    internal_error,
)
from lambo_site.gate import Gate
from lambo_site.middleware import find_refusal
from mcp_bridge.http_app import read_body
from memory.engine.errors import InvalidArgument, LamboError, OutcomeUnknown
from memory.engine.limits import BODY_BYTES

logger = logging.getLogger("lambo.http")


class ApiDoor(ASGIHandler):
    """An ASGI application for the paths of the API."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate
        # Making the routes and their models takes a while: now, not while the first caller and all
        # others wait.
        assert get_resolver(settings.ROOT_URLCONF).url_patterns

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if await refuse_stranger(scope, send):
            return
        if await refuse_unknown(self._gate, scope, send):
            return
        body = await read_or_refuse(scope, receive, send)
        if body is not None:
            await send_response(await self._respond(scope, body), scope, send)

    async def _respond(self, scope: Any, body: bytes) -> HttpResponseBase:
        set_script_prefix("/")
        set_urlconf(settings.ROOT_URLCONF)
        try:
            request = _make_request(scope, body)
        except UnicodeDecodeError:
            return error_response(InvalidArgument("address", "the address is not UTF-8"))
        try:
            # What `get_response_async` calls; that would log every refusal on a thread of its own.
            response = await self._middleware_chain(request)  # type: ignore[attr-defined]
        except asyncio.CancelledError:
            # Only a shutdown that ran out of patience cancels a call. What it applied goes on to be
            # committed, so the one true answer is that nobody knows yet.
            return error_response(_unfinished(request))
        except Exception:  # noqa: BLE001 - the edge of a request; logged with its traceback
            return internal_error(request)
        return _as_json(response, request)


def _make_request(scope: Any, body: bytes) -> ASGIRequest:
    """The request. Raises `UnicodeDecodeError` for an address that is no text."""
    if "\ufffd" in scope["path"]:
        # Servers put this mark in place of what they cannot read: two names would become one.
        unquote_to_bytes(scope.get("raw_path") or b"").decode()
    return ASGIRequest(scope, BytesIO(body))


def _unfinished(request: HttpRequest) -> OutcomeUnknown:
    key = request.META.get("HTTP_IDEMPOTENCY_KEY")
    named = (
        {} if key is None else {"idempotency_key": key.encode("latin-1").decode("utf-8", "replace")}
    )
    return OutcomeUnknown(
        "the server stops and the call has not ended; a write may be stored or not: ask for its "
        "receipt, or send it again under the same key",
        **named,
    )


def _as_json(response: HttpResponseBase, request: HttpRequest) -> HttpResponseBase:
    """Answers that Django or ninja gave by themselves, in the shape of ours."""
    if response.status_code < 400 or response.get("Content-Type") == "application/json":
        return response
    match response.status_code:
        case 404:
            return error_response(NoSuchPath("no such path"))
        case 405:
            allowed = response.get("Allow", "")
            refusal = error_response(
                MethodNotAllowed(f"{request.method} is not allowed here, only {allowed}")
            )
            refusal["Allow"] = allowed
            return refusal
    logger.error("%s %s: status %d", request.method, request.path, response.status_code)
    return error_response(LamboError("internal error (the detail was logged on the server)"))


async def read_or_refuse(scope: Any, receive: Any, send: Any) -> bytes | None:
    """The whole body; None when it was too large, which is answered, or its sender has left."""
    try:
        return await read_body(scope, receive, BODY_BYTES)
    except LamboError as refusal:
        await send_response(error_response(refusal), scope, send)
        return None


async def refuse_stranger(scope: Any, send: Any) -> bool:
    """Answer a request that a local server does not take, and say whether it did."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    refusal = find_refusal(
        headers,
        settings.ALLOWED_HOSTS,
        host=headers.get("host", ""),
        may_be_forwarded=settings.PROCESS.requires_tokens,
    )
    if refusal is None:
        return False
    await send_response(error_response(refusal), scope, send)
    return True


async def refuse_unknown(gate: Gate, scope: Any, send: Any) -> bool:
    """Answer a caller that the gate does not let in, and say whether it did. Reads no body."""
    try:
        await gate.admit(scope)
    except LamboError as refusal:
        await send_response(error_response(refusal), scope, send)
        return True
    return False


async def send_response(response: HttpResponseBase, scope: Any, send: Any) -> None:
    """Send a whole response."""
    assert isinstance(response, HttpResponse), "the API streams nothing"
    headers = [
        (name.encode("ascii").lower(), value.encode("latin-1")) for name, value in response.items()
    ]
    if not response.has_header("Content-Length"):
        headers.append((b"content-length", str(len(response.content)).encode()))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else response.content
    await send({"type": "http.response.body", "body": body})
