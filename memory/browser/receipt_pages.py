"""Receipts of a session, to look at: what each write was answered.

A table whose key has three columns has no pages of Django's own. Listed by the index over a
session's log, a page at a time, so that a session of a hundred thousand costs no more.
"""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse

from memory.browser.records import LOOKING, RecordAdmin, instant
from memory.models import Receipt

RECEIPTS_PER_PAGE: Final = 100
LOOK: Final = "memory.view_receipt"


def receipts_page(admin: RecordAdmin, request: HttpRequest, session_id: str) -> HttpResponse:
    """The newest receipts, or those before a position of the session's log."""
    if request.method not in LOOKING:
        return HttpResponseNotAllowed(LOOKING)
    if not request.user.has_perm(LOOK):
        raise PermissionDenied
    before = request.GET.get("before", "")
    rows = Receipt.objects.filter(session_id=session_id)
    if before.isascii() and before.isdigit() and len(before) <= 18:
        rows = rows.filter(position__lt=int(before))
    found = list(rows.order_by("-position")[: RECEIPTS_PER_PAGE + 1])
    shown = found[:RECEIPTS_PER_PAGE]
    context: dict[str, Any] = {
        "session_id": session_id,
        "receipts": [(row, instant(row.created_at)) for row in shown],
        "next": shown[-1].position if len(found) > RECEIPTS_PER_PAGE else None,
    }
    page = admin.row_context(request, None, title=f"Receipts of {session_id}", **context)
    return TemplateResponse(request, "memory/receipts.html", page)
