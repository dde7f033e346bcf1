"""What was taken out of a session: the list of it, and the act that brings it back.

Owns no rule of a restoration: the server says what can come back and refuses what cannot.
"""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse

from memory.browser import acts
from memory.browser.act_pages import Act, act_page
from memory.browser.records import LOOKING, RecordAdmin, concept_link, instant, row_url
from memory.engine.errors import LamboError
from memory.models import AuditEvent, Concept

RESTORE: Final = "memory.restore_concept"
_REMOVALS: Final = ("retract", "collect")


def restore_page(admin: RecordAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """Bring back what the removal of an audit row took out."""
    row = admin.find(request, object_id)
    if row.kind not in _REMOVALS or row.session_deleted_at is not None:
        raise Http404("this row took nothing out that could come back")
    act = Act(
        name="restore",
        permission=RESTORE,
        title="Restore a concept",
        question="Bring this concept back? It returns without a status, with its id, and with "
        "those of its edges whose other ends are still there.",
        button="Restore it",
        run=lambda client, given: client.restore(
            row.session_id, row.id, reason=given["reason"] or None, idempotency_key=given["key"]
        ),
    )
    return act_page(
        request,
        admin,
        act,
        row=Concept,
        object_id=str(row.node_id),
        facts=[
            ("session", row.session_id),
            ("concept", row.node_id),
            ("status before", row.from_status),
            ("taken out", f"{instant(row.occurred_at)} by {row.actor} ({row.kind})"),
        ],
        back=row_url(Concept, row.node_id, session=row.session_id),
    )


def removals_page(admin: RecordAdmin, request: HttpRequest, session_id: str) -> HttpResponse:
    """A page of what was taken out of a session, newest first, as the server lists it."""
    if request.method not in LOOKING:
        return HttpResponseNotAllowed(LOOKING)
    admin.check_may_look(request)
    after = request.GET.get("after") or None
    context: dict[str, Any] = {"session_id": session_id, "removals": [], "next": None}
    try:
        answer = acts.ask(
            request.user, lambda client: client.list_disappearances(session_id, after=after)
        )
    except LamboError as error:
        context["error"] = error
    else:
        found = answer["structured"]
        context |= {"removals": [_shown(session_id, one) for one in found["disappearances"]]}
        context["next"] = found["next"]
    page = admin.row_context(request, None, title=f"Taken out of {session_id}", **context)
    return TemplateResponse(request, "memory/removals.html", page)


def _shown(session_id: str, removal: dict[str, Any]) -> dict[str, Any]:
    label = removal["content"] or f"{removal['node_id']} (purged)"
    return {
        **removal,
        "concept": concept_link(removal["node_id"], session_id, label),
        "row_url": row_url(AuditEvent, removal["audit_id"]),
        "can_restore": removal["state"] == "restorable",
    }
