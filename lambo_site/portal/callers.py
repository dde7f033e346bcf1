"""Who looks at the portal: from a request of a browser to rights that can only read.

Owns the cookie that keeps a token, and the two ways in where tokens are asked for: a login of the
admin that may see the memory, or a token typed in once. On a machine of one's own nobody is asked,
as for every read of the API. Decides nothing about sessions (`memory.engine.rights`).

Invariant: whatever a browser holds, the portal acts with the scope `read` alone, so no page of
another site and no script of ours can write through it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from lambo_site.people import find_person
from memory import runtime
from memory.engine.errors import Forbidden
from memory.engine.rights import LOCAL, Act, Rights, Scope, decide
from memory.service.tokens import unauthenticated

COOKIE_SECONDS_MAX: Final = 30 * 86_400
"""How long a browser keeps a token; the token's own expiry and its revocation end it before."""


def cookie_name() -> str:
    """Of this server alone: cookies ignore ports."""
    return f"lambo_portal_{settings.PROCESS.port}"


async def find_rights(request: HttpRequest, *, is_call: bool = True) -> Rights:
    """What the person behind a request may read. Raises `Unauthenticated` for a stranger.

    Without `is_call` it counts as no call of a token: for who was let in and stays.
    """
    if not settings.PROCESS.requires_tokens:
        return _reading(LOCAL)
    token = request.COOKIES.get(cookie_name())
    if token:
        return await rights_of(token, is_call=is_call)
    scope: Any = request.scope  # type: ignore[attr-defined]  # of an ASGI request
    person = await find_person(scope["headers"])
    if person is None:
        raise unauthenticated()
    return person


async def rights_of(token: str, *, is_call: bool = True) -> Rights:
    """What the holder of a token may read. Raises `Unauthenticated`, or `Forbidden` for nothing."""
    rights = await runtime.get_host().tokens.authenticate(token, is_call=is_call)
    if Scope.READ not in rights.scopes:
        raise Forbidden("the portal needs a token with the scope read", scope=str(Scope.READ))
    return _reading(rights)


def _reading(rights: Rights) -> Rights:
    return replace(rights, scopes=frozenset({Scope.READ}))


def check_may_read(rights: Rights, session: str) -> None:
    """Raise `SessionNotFound` for a session that these rights do not take in."""
    decide(rights, Act(verb="portal", scope=Scope.READ, session=session))


def keep_token(response: HttpResponse, request: HttpRequest, token: str) -> None:
    """Leave a token with the browser, out of reach of every script."""
    response.set_cookie(
        cookie_name(),
        token,
        max_age=COOKIE_SECONDS_MAX,
        httponly=True,
        samesite="Strict",
        # A proxy in front speaks TLS. Who claims it falsely only loses a cookie of his own.
        secure=request.is_secure() or request.headers.get("X-Forwarded-Proto") == "https",
    )


def drop_token(response: HttpResponse) -> None:
    """Take the token back from the browser."""
    response.delete_cookie(cookie_name(), samesite="Strict")
