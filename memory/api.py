"""The HTTP routes: one per entry of the verb table, and no others.

Owns addresses and the documentation of each operation. A view reads the request, calls
`memory.admission.carry_out_counted` once and writes the reply; errors pass through to the API's
handlers. Bodies are read by hand rather than by ninja's parameters, so that a mistake is
named in the same words as over MCP and on the command line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import BaseModel, create_model
from pydantic.json_schema import models_json_schema

from memory.admission import Verb, carry_out_counted
from memory.engine.errors import InvalidArgument
from memory.engine.requests import check_session_name
from memory.http_calls import (
    AGENT_HEADER,
    KEY_HEADER,
    OPERATOR_HEADER,
    document_parameters,
    read_body,
    read_origin,
    read_query,
    reply_response,
)
from memory.reply_models import AcceptedReply, Answered
from memory.runtime import get_host
from memory.verbs import VERBS

View = Callable[..., Awaitable[HttpResponse]]

REF_TEMPLATE: Final = "#/components/schemas/{model}"

router = Router(tags=["memory"])


class ErrorBody(BaseModel):
    """Why a call failed. More fields tell more, such as `field`, `maximum` or `holder`."""

    code: str
    message: str
    retry_after_seconds: float | None = None


class Failure(BaseModel):
    """The body of every failed call."""

    error: ErrorBody


async def _answer(
    request: HttpRequest, verb: Verb, session: str, named: dict[str, str] | None = None
) -> HttpResponse:
    """Read, carry out, write. `named` holds arguments that are steps of the address."""
    origin = read_origin(request, verb)
    if session:
        check_session_name(session)
    if verb.method == "POST":
        for name in request.GET:
            shown = name[:64].encode("unicode_escape").decode()
            raise InvalidArgument(shown, f"unknown argument '{shown}' in the address")
        payload = read_body(request.body)
    else:
        payload = {**read_query(request, verb.request_model), **(named or {})}
    reply = await carry_out_counted(verb, get_host(), session, payload, origin)
    return reply_response(reply, verb)


def _make_view(verb: Verb) -> View:
    """The view of a verb; ninja reads the path's parameters from its signature."""
    if "{key}" in verb.path:

        async def view_key(request: HttpRequest, session: str, key: str) -> HttpResponse:
            return await _answer(request, verb, session, {"key": key})

        return view_key
    if "{session}" in verb.path:

        async def view_session(request: HttpRequest, session: str) -> HttpResponse:
            return await _answer(request, verb, session)

        return view_session

    async def view(request: HttpRequest) -> HttpResponse:
        return await _answer(request, verb, "")

    return view


def _reply_model(verb: Verb, reply: type[Answered]) -> type[BaseModel]:
    """A reply over HTTP: the structured part, and the text that MCP carries beside it."""
    extra: dict[str, Any] = {"text": (str, ...)}
    if verb.writes:
        extra["idempotency_key"] = (str, ...)
    model: type[BaseModel] = create_model(f"{reply.__name__}Body", __base__=reply, **extra)
    model.__doc__ = reply.__doc__
    return model


def _responses(verb: Verb) -> dict[int, type[BaseModel]]:
    responses: dict[int, type[BaseModel]] = {HTTPStatus.OK: _reply_model(verb, verb.reply_model)}
    if "wait" in verb.request_model.model_fields:
        responses[HTTPStatus.ACCEPTED] = _reply_model(verb, AcceptedReply)
    return responses


def _document(verb: Verb) -> dict[str, Any]:
    """What ninja cannot see: the body, the query and the headers."""
    headers = [(AGENT_HEADER, "The agent, where the arguments name none.")]
    if verb.writes:
        headers.append((KEY_HEADER, "Sent again with a retry, it keeps the write from being two."))
    if verb.operator_only:
        headers.append(
            (OPERATOR_HEADER, "The operator secret, where no token with `admin` is sent.")
        )
    parameters: list[dict[str, Any]] = [
        {
            "in": "header",
            "name": name,
            "required": False,
            "schema": {"type": "string"},
            "description": text,
        }
        for name, text in headers
    ]
    failure = {"$ref": REF_TEMPLATE.format(model=Failure.__name__)}
    document: dict[str, Any] = {
        "parameters": parameters,
        "responses": {"default": {"description": "Failed", "content": _json(failure)}},
    }
    if verb.method == "POST":
        schema = verb.request_model.model_json_schema(ref_template=REF_TEMPLATE)
        schema.pop("$defs", None)  # they go to the document's components: `find_definitions`
        document["requestBody"] = {"required": True, "content": _json(schema)}
    else:
        in_path = frozenset({"key"})
        parameters += document_parameters(verb.request_model, skip=in_path)
    return document


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def find_definitions() -> dict[str, Any]:
    """The schemas that `_document` refers to, for the components of the whole document."""
    _, of_failure = models_json_schema([(Failure, "serialization")], ref_template=REF_TEMPLATE)
    found: dict[str, Any] = dict(of_failure["$defs"])
    for verb in VERBS.values():
        schema = verb.request_model.model_json_schema(ref_template=REF_TEMPLATE)
        found |= schema.get("$defs", {})
    return found


for _verb in VERBS.values():
    router.add_api_operation(
        # A key may hold slashes; a session's name may not.
        _verb.path.replace("{key}", "{path:key}"),
        [_verb.method],
        _make_view(_verb),
        response=_responses(_verb),
        operation_id=_verb.name.replace("-", "_"),
        summary=_verb.summary,
        description=_verb.request_model.__doc__,
        openapi_extra=_document(_verb),
    )
