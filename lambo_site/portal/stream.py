"""Tells open pages what happened, as server-sent events: pushed, never asked for.

Owns the address of the stream for people, whose browsers can show no token but the portal's cookie.
What a stream says is that of the API (`memory.event_streams`); beside it stand events of health,
which no log keeps.

Invariant: a stream ends when its reader may no longer look: who it is, is asked every few seconds.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from django.http import HttpRequest, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase

from lambo_site.errors import error_response
from lambo_site.portal import callers
from lambo_site.portal.health import history
from memory.engine.errors import LamboError
from memory.engine.requests import check_session_name
from memory.event_sse import CONTENT_TYPE, RETRY_MILLISECONDS, frame
from memory.event_streams import follow, open_listening, read_request
from memory.runtime import get_host
from memory.service.events import Listening

_RETRY: Final = f"retry: {RETRY_MILLISECONDS}\n".encode()


async def stream(request: HttpRequest, session: str) -> HttpResponseBase:
    """The events of a session, from now on or from where the page was cut."""
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    try:
        rights = await callers.find_rights(request)
        check_session_name(session)
        query = request.META.get("QUERY_STRING", "").encode()
        wanted = read_request(query, request.headers.get("Last-Event-ID") or None)
        listening = await open_listening(get_host().events, session, wanted, rights)
    except LamboError as refusal:
        return error_response(refusal)
    answer = StreamingHttpResponse(
        _frames(request, session, listening), content_type=f"{CONTENT_TYPE}; charset=utf-8"
    )
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


async def _frames(request: HttpRequest, session: str, listening: Listening) -> AsyncIterator[bytes]:
    async def still_admitted() -> None:
        callers.check_may_read(await callers.find_rights(request, is_call=False), session)

    told_of: Any = None
    said = follow(listening, still_admitted)
    async with aclosing(said):  # type: ignore[type-var]
        yield _RETRY
        async for one in said:
            yield frame(one)
            newest = history.newest(session)
            if newest != told_of:
                told_of = newest
                yield f"event: health\ndata: {json.dumps(newest)}\n\n".encode()
