"""What the portal's page asks of the server: JSON, read-only, one address for each panel.

Owns addresses below `/portal/` and who may ask there. What an answer holds is made by the verbs'
own service calls, without naming an agent: looking through the portal counts as no access.

Invariant: nothing here writes, and no answer is given before `callers` has told whose it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, TypeAlias

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase

from lambo_site.errors import error_response, json_response
from lambo_site.portal import callers
from lambo_site.portal.graph_export import export_graph, export_since, find_reach
from lambo_site.portal.health import history
from lambo_site.portal.overview import (
    count_agents,
    find_near,
    list_findings,
    list_reservations,
    most_depended_on,
)
from lambo_site.portal.promotions import list_promotions
from memory.argument_reading import parse_arguments
from memory.browser.evidence import read_checks
from memory.engine.errors import ConceptNotFound, InvalidArgument, LamboError
from memory.engine.goals import goal_texts
from memory.engine.limits import PORTAL_SESSIONS, SESSIONS_PER_PAGE
from memory.engine.requests import check_session_name, parse_node_id
from memory.engine.rights import Rights
from memory.engine.showing import cut, one_line
from memory.runtime import get_host
from memory.schemas import InspectArguments, RecallArguments
from memory.service.session_list import list_seen
from memory.service.view import MemoryView

Answer: TypeAlias = dict[str, Any]
Page: TypeAlias = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def _reading(ask: Callable[..., Awaitable[Answer | bytes]]) -> Page:
    """An address that answers GET with JSON, or with the refusal every surface would give."""

    @wraps(ask)
    async def respond(request: HttpRequest, **named: str) -> HttpResponseBase:
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        try:
            rights = await callers.find_rights(request)
            answer = await ask(request, rights, **named)
            response = _written(answer)
        except LamboError as refusal:
            response = error_response(refusal)
        response["Cache-Control"] = "no-store"
        return response

    return respond


def _written(answer: Answer | bytes) -> HttpResponse:
    if isinstance(answer, bytes):
        return HttpResponse(answer, content_type="application/json")
    return json_response(answer)


async def _view(rights: Rights, session: str) -> MemoryView:
    check_session_name(session)
    callers.check_may_read(rights, session)
    return await get_host().view(session)


@_reading
async def sessions(_request: HttpRequest, rights: Rights) -> Answer:
    """The sessions a person may choose from, by name."""
    found, after = list[Any](), ""
    while len(found) < PORTAL_SESSIONS:
        page = await list_seen(get_host(), rights, after=after, limit=SESSIONS_PER_PAGE)
        found += page.structured["sessions"]
        if page.structured["next"] is None:
            return {"sessions": found, "is_cut": False}
        after = page.structured["next"]
    return {"sessions": found[:PORTAL_SESSIONS], "is_cut": True}


@_reading
async def overview(_request: HttpRequest, rights: Rights, session: str) -> Answer:
    """Counts, health, and the lists that change with every write."""
    view = await _view(rights, session)
    stats = (await view.stats()).structured
    return {
        "stats": stats,
        "most_depended_on": most_depended_on(view.graph),
        "findings": list_findings(view, view.now),
        "reservations": list_reservations(view.graph, view.now),
        "agents": await count_agents(view.graph),
        "goals": [one_line(cut(text)) for text in goal_texts(view.graph.root_goal)],
    }


@_reading
async def near(_request: HttpRequest, rights: Rights, session: str) -> Answer:
    """What is one gate away from its next status."""
    return await find_near(await _view(rights, session))


@_reading
async def promotions(_request: HttpRequest, rights: Rights, session: str) -> Answer:
    """The newest steps of statuses, with their evidence."""
    view = await _view(rights, session)
    return {"steps": await list_promotions(view.graph)}


@_reading
async def health(_request: HttpRequest, rights: Rights, session: str) -> Answer:
    """The last hour."""
    check_session_name(session)
    callers.check_may_read(rights, session)
    return history.as_wire(session)


@_reading
async def graph(request: HttpRequest, rights: Rights, session: str) -> bytes:
    """The picture of the session; with `since` only what came after that instant."""
    view = await _view(rights, session)
    since = request.GET.get("since", "")
    if not since:
        # The only answer that grows with the session: put into words beside the event loop.
        return await asyncio.to_thread(export_graph(view.graph).as_json)
    if not (since.isascii() and since.isdigit() and len(since) < 18):
        raise InvalidArgument("since", "since must be an instant in microseconds")
    return export_since(view.graph, int(since)).as_json()


@_reading
async def reach(request: HttpRequest, rights: Rights, session: str) -> Answer:
    """Which concepts rest on one, by steps."""
    view = await _view(rights, session)
    node_id = parse_node_id("focus", request.GET.get("focus", ""))
    row = view.graph.row_of(node_id)
    if row is None:
        raise ConceptNotFound(f"no concept {node_id} in this session", node_id=node_id)
    return {"node_id": node_id, "steps": find_reach(view.graph, row)}


@_reading
async def inspect(request: HttpRequest, rights: Rights, session: str) -> Answer:
    """A concept, what surrounds it, and why it has its status."""
    view = await _view(rights, session)
    arguments = parse_arguments(
        InspectArguments, {"focus": request.GET.get("focus", ""), "depth": 1}
    )
    reply = (await view.inspect(arguments.to_request())).structured
    held = view.graph.concept(reply["focus"]["node_id"])
    about = None
    if held is not None:
        about = {
            "content": held.content,
            "concept_type": str(held.concept_type),
            "status": str(held.status),
            "agent_id": held.origin_agent,
        }
    if reply["admission"] is not None:
        # Each gate in a sentence, those that are passed too.
        reply["admission"]["checks"] = [
            {"gate": one.gate, "met": one.is_met, "sentence": one.sentence}
            for one in read_checks(reply["admission"]["checks"])
        ]
    return {**reply, "concept": about}


@_reading
async def recall(request: HttpRequest, rights: Rights, session: str) -> Answer:
    """What an agent would be answered, hit by hit and as its block of text."""
    view = await _view(rights, session)
    asked: dict[str, Any] = {"query": request.GET.get("query", "")}
    for name in ("top_k", "max_tokens"):
        if (text := request.GET.get(name)) is not None:
            asked[name] = int(text) if text.isascii() and text.isdigit() else text
    arguments = parse_arguments(RecallArguments, asked)
    reply = (await view.recall(arguments.to_request(), with_details=True)).structured
    details = reply.pop("details")
    for hit, legs in zip(reply["hits"], details["legs"], strict=True):
        hit["legs"] = legs
    return {**reply, "tokens": details["tokens"], "max_tokens": arguments.max_tokens}
