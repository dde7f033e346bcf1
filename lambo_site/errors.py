"""Errors as HTTP: the code of an error decides the status, here and nowhere else.

Owns the failure body and the handlers of the API. Refuses to word anything: messages and fields are
the error's own, and an exception that is no `LamboError` shows nothing of itself.

Invariant: whatever happens on a route of the API, the answer is `{"error": {"code", "message"}}`.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any, Final

import ninja.errors
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI

from memory.engine.errors import BodyTooLarge, InvalidArgument, LamboError
from memory.engine.limits import BODY_BYTES

logger = logging.getLogger("lambo.http")

STATUS_BY_CODE: Final[Mapping[str, int]] = {
    "invalid_argument": 422,
    "unresolved_reference": 422,
    "dependency_cycle": 409,
    "second_parent": 409,
    "repeated_observation": 409,
    "ambiguous_focus": 409,
    "session_exists": 409,
    "reservation_conflict": 409,
    "idempotency_conflict": 409,
    "lease_held": 409,
    "concept_not_found": 404,
    "session_not_found": 404,
    "reservation_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "unauthenticated": 401,
    "forbidden": 403,
    "token_not_found": 404,
    "rate_limited": 429,
    "body_too_large": 413,
    "store_unavailable": 503,
    "session_reloaded": 503,
    "embedding_mismatch": 409,
    "no_embedder": 409,
    "not_removed": 409,
    "key_taken": 409,
    "text_purged": 409,
    "session_closed": 503,
    "too_many_listeners": 503,
    "too_many_sessions": 503,
    "store_fault": 503,
    "store_rewound": 503,
    "lease_lost": 503,
    "outcome_unknown": 504,
    "rejected_by_store": 500,
    "internal_error": 500,
    "invalid_snapshot": 500,
    "invalid_configuration": 500,
}
"""Every code of `memory.engine.errors`, and the two that only an address can earn."""


class NoSuchPath(LamboError):
    """The API has no such address."""

    code = "not_found"


class MethodNotAllowed(LamboError):
    """The address takes another method."""

    code = "method_not_allowed"


def error_response(error: LamboError) -> HttpResponse:
    """The answer to a failed call."""
    status = STATUS_BY_CODE.get(error.code, 500)
    response = json_response({"error": error.as_wire()}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    if error.retry_after_seconds is not None:
        # Whole seconds, rounded up: 0 would ask for a retry at once.
        response["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return response


def json_response(body: Mapping[str, Any], *, status: int = 200) -> HttpResponse:
    """A JSON answer in UTF-8."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    # A message may quote half a surrogate pair; the escape Python writes is the one JSON has.
    content = text.encode("utf-8", "backslashreplace")
    return HttpResponse(content, status=status, content_type="application/json")


def internal_error(request: HttpRequest) -> HttpResponse:
    """The answer to a fault of ours; call while the exception is being handled."""
    logger.exception("%s %s failed", request.method, request.path)
    return error_response(
        LamboError("internal error (the detail was logged on the server); look before trying again")
    )


def install(api: NinjaAPI) -> None:
    """Give an API its one handler: it is asked about every exception of every view."""
    for family in (
        # Ninja has handlers of its own for these; a nearer class would win over Exception.
        ninja.errors.ValidationError,
        ninja.errors.HttpError,
        ninja.errors.AuthenticationError,
        ninja.errors.Throttled,
        Http404,
        Exception,
    ):
        api.add_exception_handler(family, _on_exception)


def _on_exception(request: HttpRequest, error: Any) -> HttpResponse:
    match error:
        case LamboError():
            return error_response(error)
        case RequestDataTooBig():
            return error_response(body_too_large())
        case Http404():
            return error_response(NoSuchPath("no such path"))
        case SuspiciousOperation() | ninja.errors.ValidationError() | ninja.errors.HttpError():
            logger.info("request refused: %s", type(error).__name__)
            return error_response(InvalidArgument("request", "the request cannot be read"))
    return internal_error(request)


def body_too_large() -> BodyTooLarge:
    return BodyTooLarge(f"the body exceeds {BODY_BYTES} bytes", maximum=BODY_BYTES)
