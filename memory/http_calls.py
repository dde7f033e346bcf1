"""HTTP requests as payloads, and replies as HTTP bodies. No routes, no rules.

Owns the reading of bodies, queries and headers. A body is JSON in UTF-8 that says each thing once;
what it says is judged by `memory.schemas`, where every surface meets the same words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, get_args, get_origin

from django.http import HttpRequest, HttpResponse

from memory.admission import Origin, Verb
from memory.argument_types import Arguments
from memory.engine.errors import InvalidArgument
from memory.engine.rights import OPERATOR, Rights
from memory.service.replies import Reply

KEY_HEADER: Final = "Idempotency-Key"
REPLAYED_HEADER: Final = "Idempotency-Replayed"
AGENT_HEADER: Final = "Lambo-Agent"
OPERATOR_HEADER: Final = "Lambo-Operator"
USER_HEADER: Final = "Lambo-User"

SCOPE_RIGHTS: Final = "lambo.rights"
"""Where the gate leaves the `Rights` of a request's caller, in its ASGI scope."""

_INTEGER_CHARS_MAX: Final = 20


def read_body(body: bytes) -> Any:
    """The document in a request body; an empty body says nothing, like `{}`."""
    if not body.strip():
        return {}
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument("body", f"the body is not UTF-8 (at byte {error.start})") from error
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidArgument("body", f"the body is not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise InvalidArgument("body", "the body is nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidArgument("body", "the body holds a number that is too long") from error


def _refuse_constant(name: str) -> Any:
    raise InvalidArgument("body", f"the body is not JSON: {name} is no value")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that names each member once: of two values, taking one would drop the other."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _value in pairs:
            if name in seen:
                shown = name[:64].encode("unicode_escape").decode()
                raise InvalidArgument("body", f"the body names '{shown}' twice in one object")
            seen.add(name)
    return found


def read_query(request: HttpRequest, model: type[Arguments]) -> dict[str, Any]:
    """The arguments in the address. Numbers are read as such where the model has a number."""
    payload: dict[str, Any] = {}
    for name, values in request.GET.lists():
        if _is_list(model, name):
            payload[name] = values
            continue
        if len(values) != 1:
            shown = name[:64].encode("unicode_escape").decode()
            raise InvalidArgument(shown, f"{shown} is given {len(values)} times")
        payload[name] = _typed(values[0], model, name)
    return payload


def _is_list(model: type[Arguments], name: str) -> bool:
    """Whether an argument may be given more than once: each time adds an entry."""
    field = model.model_fields.get(name)
    return field is not None and get_origin(field.annotation) is list


def _typed(text: str, model: type[Arguments], name: str) -> Any:
    field = model.model_fields.get(name)
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    if field is not None and _takes_number(field.annotation) and is_number:
        # Longer digits would be over any limit; as text they are refused by name all the same.
        return int(text) if len(text) <= _INTEGER_CHARS_MAX else text
    return text


def _takes_number(annotation: Any) -> bool:
    """Whether an argument is a whole number, or none."""
    parts = (annotation, *get_args(annotation))
    return any(part is int or get_args(part)[:1] == (int,) for part in parts)


def read_origin(request: HttpRequest, verb: Verb) -> Origin:
    """Who calls: the rights that the gate left in the scope, and the names in the headers."""
    rights: Rights = request.scope[SCOPE_RIGHTS]  # type: ignore[attr-defined]
    agent_id = _header(request, AGENT_HEADER, "agent_id")
    if agent_id is None and rights is OPERATOR:
        # A human act is recorded under the person who did it.
        agent_id = _header(request, USER_HEADER, "user") or "operator"
    key = _header(request, KEY_HEADER, "idempotency_key") if verb.writes else None
    return Origin(agent_id, key, rights)


def _header(request: HttpRequest, name: str, field: str) -> str | None:
    """A header as text. Headers travel as bytes, which Django reads as Latin-1; ours are UTF-8."""
    value = request.META.get("HTTP_" + name.upper().replace("-", "_"))
    if value is None:
        return None
    try:
        return str(value.encode("latin-1").decode())
    except UnicodeDecodeError as error:
        raise InvalidArgument(field, f"the header {name} is not UTF-8") from error


def reply_response(reply: Reply, verb: Verb) -> HttpResponse:
    """The answer to a call that succeeded; a write names its key in body and header."""
    body: dict[str, Any] = {**reply.structured, "text": reply.text}
    key = reply.key if verb.writes else None
    if key is not None:
        body["idempotency_key"] = key
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    status = HTTPStatus.ACCEPTED if reply.is_accepted else HTTPStatus.OK
    response = HttpResponse(content, content_type="application/json", status=status)
    if key is not None:
        response.headers[KEY_HEADER] = key.encode().decode("latin-1")
        if reply.replayed:
            response.headers[REPLAYED_HEADER] = "true"
    return response


def document_parameters(model: type[Arguments], *, skip: frozenset[str]) -> list[dict[str, Any]]:
    """A model's fields as query parameters of an OpenAPI operation."""
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        {"in": "query", "name": name, "required": name in required, "schema": _flat(field)}
        for name, field in schema["properties"].items()
        if name not in skip
    ]


def _flat(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field's schema without the choice of null, which an address cannot say."""
    real = [choice for choice in field.get("anyOf", ()) if choice != {"type": "null"}]
    rest = {k: v for k, v in field.items() if k not in ("anyOf", "title")}
    if real and rest.get("default") is None:
        rest.pop("default", None)
    return {**(real[0] if real else {}), **rest}
