"""What stands between a request and its view.

Owns the outer door (Host and Origin, in local mode forwarding headers too) and keeps the machinery
of people's pages away from programs' calls. Django's own middleware is synchronous inside: under
ASGI each one costs two thread switches per request. Paths of the API need none of it, so they pass
it by; the admin gets all of it. Decides nothing about who may do what.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

from memory.engine.errors import Forbidden

PROGRAM_PATHS = ("/api/",)
"""Paths that programs call: no cookie, no form, no page."""

FORWARDING_HEADERS = ("forwarded", "x-forwarded-", "x-real-ip")
"""How their names begin."""

GetResponse = Callable[[HttpRequest], HttpResponseBase]


def find_refusal(
    headers: Mapping[str, str],
    allowed_hosts: Sequence[str],
    *,
    host: str,
    may_be_forwarded: bool = False,
) -> Forbidden | None:
    """Why this server does not answer a request, or None. Names in `headers` in lower case.

    A web page can make a browser call 127.0.0.1. It cannot forge Host or Origin, so both must be
    ours: Host against DNS rebinding, Origin against every other page. Forwarding headers mean that
    the caller is not on this machine, whatever its address says; where a token is asked for, that
    may be.
    """
    domain, _port = split_domain_port(host)
    if not domain or not validate_host(domain, list(allowed_hosts)):
        return Forbidden("this server is not known by that Host", field="host")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return Forbidden("calls from pages of another origin are refused", field="origin")
    for name in () if may_be_forwarded else headers:
        if name.lower().startswith(FORWARDING_HEADERS):
            return Forbidden("forwarded calls are refused in local mode", field=name)
    return None


def _refuse(request: HttpRequest) -> JsonResponse | None:
    try:
        host = request.get_host()
    except DisallowedHost:
        host = ""
    refusal = find_refusal(
        request.headers,
        settings.ALLOWED_HOSTS,
        host=host,
        may_be_forwarded=settings.PROCESS.requires_tokens,
    )
    return None if refusal is None else JsonResponse(refusal.as_wire(), status=403)


@sync_and_async_middleware
def local_door(get_response: GetResponse) -> Callable[[HttpRequest], Any]:
    """Refuse what `find_refusal` refuses, before anything else looks at the request."""
    if iscoroutinefunction(get_response):
        answer = cast(Callable[[HttpRequest], Awaitable[HttpResponseBase]], get_response)

        async def guard_async(request: HttpRequest) -> HttpResponseBase:
            return _refuse(request) or await answer(request)

        return guard_async

    def guard(request: HttpRequest) -> HttpResponseBase:
        return _refuse(request) or get_response(request)

    return guard


def is_program_path(request: HttpRequest) -> bool:
    """True for the paths that pass people's middleware by."""
    return request.path_info.startswith(PROGRAM_PATHS)


class _PagesOnly(MiddlewareMixin):
    """Mixed in before a middleware of Django: lets the calls of programs pass it by.

    In an asynchronous chain the inner handler returns a coroutine, which is handed on as it is.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if is_program_path(request):
            return self.get_response(request)
        return super().__call__(request)


class PageSecurity(_PagesOnly, SecurityMiddleware):
    """Security headers of pages."""


class PageSessions(_PagesOnly, SessionMiddleware):
    """Log-in sessions of people; has nothing to do with memory sessions."""


class PageCommon(_PagesOnly, CommonMiddleware):
    """Slashes at the end of page addresses."""


class PageCsrf(_PagesOnly, CsrfViewMiddleware):
    """Forms must come from our pages. Programs send no cookie that a forged form could use."""

    # Hooks before a view are called for every path, past __call__; a plain function here would cost
    # each call of the API a thread switch.
    async def process_view(  # type: ignore[override]
        self,
        request: HttpRequest,
        callback: Callable[..., HttpResponseBase],
        callback_args: tuple[Any, ...],
        callback_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        if is_program_path(request):
            return None
        check = sync_to_async(super().process_view, thread_sensitive=True)
        return cast(
            HttpResponseBase | None,
            await check(request, callback, callback_args, callback_kwargs),
        )


class PageAuthentication(_PagesOnly, AuthenticationMiddleware):
    """The person behind a page."""


class PageMessages(_PagesOnly, MessageMiddleware):
    """One-time messages of pages."""


class PageFrames(_PagesOnly, XFrameOptionsMiddleware):
    """Pages may not be framed."""
