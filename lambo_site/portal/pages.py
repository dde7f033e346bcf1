"""The portal's pages: the one people keep open, and the one that asks who they are.

Owns the policy under which a browser may run them: files of this server and nothing else, no script
or style inside a page, no frame. What the page shows it asks of `lambo_site.portal.answers`.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from lambo_site.portal import callers
from memory.engine.errors import Forbidden, LamboError, Unauthenticated
from memory.version import VERSION

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


async def show_portal(request: HttpRequest) -> HttpResponse:
    """The page; a stranger is led to the login."""
    try:
        await callers.find_rights(request)
    except (Unauthenticated, Forbidden):
        return redirect("portal:login")
    if not settings.PROCESS.requires_tokens:
        return _page(request, "portal/page.html", shows_admin=True)
    has_token = callers.cookie_name() in request.COOKIES
    is_staff = (await request.auser()).is_staff
    return _page(request, "portal/page.html", has_token=has_token, shows_admin=is_staff)


async def log_in(request: HttpRequest) -> HttpResponse:
    """Take a token once and keep it in a cookie that no script reads."""
    if not settings.PROCESS.requires_tokens:
        return redirect("index")
    if request.method != "POST":
        return _page(request, "portal/login.html")
    token = request.POST.get("token", "").strip()
    try:
        await callers.rights_of(token)
    except LamboError as refusal:
        answer = _page(request, "portal/login.html", refusal=refusal.message)
        answer.status_code = 403
        return answer
    answer = redirect("index")
    callers.keep_token(answer, request, token)
    return answer


async def log_out(request: HttpRequest) -> HttpResponse:
    """Forget the token of this browser."""
    answer = redirect("index")
    if request.method == "POST":
        callers.drop_token(answer)
    return answer


def _page(request: HttpRequest, template: str, **context: object) -> HttpResponse:
    shown = {
        "version": VERSION,
        "url": settings.PROCESS.url,
        "admin_login": f"{reverse('admin:login')}?next={reverse('index')}",
        **context,
    }
    answer = render(request, template, shown)
    answer["Content-Security-Policy"] = POLICY
    answer["Cache-Control"] = "no-store"
    return answer
