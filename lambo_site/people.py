"""Who is logged in: from the cookie of the admin's pages to the right to watch.

Owns what a login is worth outside the pages themselves: reading, for people of the staff who may
see concepts and the audit trail there, and nothing more. Makes no login and ends none.

Invariant: a login opens no address that changes anything, so a page of another origin that borrows
a browser's cookie could at most make it read, and is refused before that.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from memory.engine.rights import Rights, Scope

WATCHING: Final = Rights(frozenset({Scope.READ}))
"""What a person who is logged in may do beside the pages."""

_NEEDED: Final = ("memory.view_concept", "memory.view_auditevent")


async def find_person(headers: list[tuple[bytes, bytes]]) -> Rights | None:
    """The rights of the person whose cookie a request carries; None where nobody is logged in."""
    key = _session_key(headers)
    if key is None:
        return None
    may_watch: bool = await sync_to_async(_may_watch, thread_sensitive=True)(key)
    return WATCHING if may_watch else None


def _session_key(headers: list[tuple[bytes, bytes]]) -> str | None:
    for name, value in headers:
        if name.lower() != b"cookie":
            continue
        try:
            morsel = SimpleCookie(value.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
        except CookieError:
            continue
        if morsel is not None:
            return morsel.value
    return None


def _may_watch(key: str) -> bool:
    engine: Any = import_module(settings.SESSION_ENGINE)
    request = HttpRequest()
    request.session = engine.SessionStore(key)
    user = get_user(request)
    return user.is_active and getattr(user, "is_staff", False) and user.has_perms(_NEEDED)
