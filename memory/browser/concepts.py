"""Concepts: their list, and the page of one with its ladder, its surroundings and its trail.

Owns what a reviewer sees of a concept, also of one that is gone. Why it stands where it stands is
asked of the running server, whose evaluator explains itself; a page without that answer shows what
is stored and says what is missing.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from memory.browser import acts
from memory.browser.act_pages import Act, ReasonForm, act_page
from memory.browser.audit_rows import act_of
from memory.browser.evidence import read_checks
from memory.browser.filters import AgentFilter, RadiusFilter, SessionFilter
from memory.browser.neighbourhood import read_neighbourhood
from memory.browser.picture import describe, draw
from memory.browser.records import (
    LOOKING,
    RecordAdmin,
    facts_of,
    instant,
    list_url,
    row_url,
)
from memory.engine.errors import LamboError
from memory.engine.showing import in_passing
from memory.models import AuditEvent, Concept, Session, StatusChoices

TRAIL_SHOWN: Final = 50
"""Audit rows on a concept's page, the newest; a link leads to the rest."""
LADDER: Final = tuple(status.value for status in StatusChoices)
GONE_BY: Final = ("retract", "collect", "purge")


class PurgeForm(ReasonForm):
    """Cannot be undone, so it takes one step more."""

    is_sure = forms.BooleanField(label="Erase its text for good, everywhere it was written")


class Concepts(RecordAdmin):
    """What the sessions remember."""

    detail_template = "memory/concept.html"
    list_display = ("said", "concept_type", "status", "blast_radius", "origin_agent", "session_id",
                    "written")  # fmt: skip
    list_filter = (
        SessionFilter,
        ("status", admin.ChoicesFieldListFilter),
        ("concept_type", admin.ChoicesFieldListFilter),
        AgentFilter,
        RadiusFilter,
    )
    search_fields = ("content",)
    search_help_text = "A part of what it says, or its id."
    page_acts: ClassVar = ("confirm", "retract", "purge")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The newest of a session first. Over all sessions by id: no index knows their times."""
        return ("-created_at", "-id") if request.GET.get("session") else ("-id",)

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            return queryset.filter(id=Concept._meta.pk.to_python(term.lower())), False
        except ValidationError:
            # One text, not words apart: that is what was typed.
            return queryset.filter(content__icontains=term), False

    @admin.display(description="content")
    def said(self, row: Concept) -> str:
        return in_passing(row.content)

    @admin.display(description="written (UTC)")
    def written(self, row: Concept) -> str:
        return instant(row.created_at)

    # -- a concept ---------------------------------------------------------------------------------

    def show_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page of a concept; with `session` in the address, also of one that is gone."""
        if request.method not in LOOKING:
            return HttpResponseNotAllowed(LOOKING)
        try:
            return super().show_row(request, object_id)
        except Http404:
            session_id = request.GET.get("session", "")
            trail = _trail(session_id, object_id)
            if not trail:
                raise
        removal = next((row for row in trail if row.kind in GONE_BY), None)
        may_restore = request.user.has_perm("memory.restore_concept")
        context = {
            **self.row_context(request, None, title="A concept that is gone"),
            "object_id": object_id,
            "session_id": session_id,
            "removal": removal,
            "removed_at": removal and instant(removal.occurred_at),
            "restore_url": reverse("admin:memory_auditevent_restore", args=[removal.id])
            if removal is not None and removal.removed is not None and may_restore
            else None,
            "trail": [_line(row) for row in trail],
        }
        return TemplateResponse(request, "memory/concept_gone.html", context)

    def describe(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        around = read_neighbourhood(row)
        label = in_passing(row.content)
        return {
            "title": label,
            "subtitle": f"{row.concept_type} in {row.session_id}",
            "facts": facts_of(row, without=("status", "content", "session_id")),
            "ladder": LADDER,
            "picture": draw(row, label, around),
            "picture_text": describe(around),
            "around": around,
            "trail": [_line(event) for event in _trail(row.session_id, row.id)],
            "trail_url": list_url(AuditEvent, session=row.session_id, q=row.id),
            "acts": self._act_links(request, row),
            **_explanation(request, row),
        }

    def _act_links(self, request: HttpRequest, row: Concept) -> list[tuple[str, str]]:
        return [
            (name.capitalize(), reverse(f"admin:{self.url_name(name)}", args=[row.id]))
            for name in self.page_acts
            if request.user.has_perm(f"memory.{name}_concept")
        ]

    # -- acts --------------------------------------------------------------------------------------

    def more_urls(self) -> list[URLPattern]:
        return [
            path(
                f"<path:object_id>/{name}/",
                self.page(partial(self._act_page, name)),
                name=self.url_name(name),
            )
            for name in self.page_acts
        ]

    def _act_page(self, name: str, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page of an act; where its button is pressed again, what the first press did."""
        try:
            page: HttpResponse = getattr(self, f"{name}_page")(request, object_id)
        except Http404:
            removal = _last_removal(object_id) if request.method == "POST" else None
            if removal is None:
                raise
        else:
            return page
        if not request.user.has_perm(f"memory.{name}_concept"):
            raise PermissionDenied
        when = f"the concept was taken out {instant(removal.occurred_at)} by {removal.actor}"
        if removal.kind == name:
            messages.info(request, f"This was done already: {when} ({removal.kind}).")
        else:
            messages.warning(request, f"Nothing was done: {when} ({removal.kind}).")
        return HttpResponseRedirect(row_url(Concept, object_id, session=removal.session_id))

    def confirm_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say, as a person, that a concept holds."""
        row = self.find(request, object_id)
        act = Act(
            name="confirm",
            permission="memory.confirm_concept",
            title="Confirm a concept",
            question="Say that this concept holds? It is written to the audit trail under your "
            "name. It counts for status where one writer works alone, and nowhere else.",
            button="Confirm it",
            run=lambda client, given: client.confirm(
                row.session_id, row.id, reason=given["reason"] or None, idempotency_key=given["key"]
            ),
        )
        return self._ask(request, act, row)

    def retract_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take a concept out; it can be brought back."""
        row = self.find(request, object_id)
        act = Act(
            name="retract",
            permission="memory.retract_concept",
            title="Retract a concept",
            question="Take this concept and its edges out of the session? It can be restored.",
            button="Retract it",
            run=lambda client, given: client.retract(
                row.session_id, row.id, reason=given["reason"] or None, idempotency_key=given["key"]
            ),
            preview=lambda client: client.retract(row.session_id, row.id, dry_run=True),
        )
        return self._ask(request, act, row)

    def purge_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Erase a concept's text for good."""
        row = self.find(request, object_id)
        act = Act(
            name="purge",
            permission="memory.purge_concept",
            title="Purge a concept",
            question="Erase this concept's text for good? Nothing brings it back but a backup.",
            button="Purge it",
            run=lambda client, given: client.purge(
                row.session_id,
                row.id,
                confirm=row.id,
                reason=given["reason"] or None,
                idempotency_key=given["key"],
            ),
            preview=lambda client: client.purge(row.session_id, row.id),
            form=PurgeForm,
            is_grave=True,
        )
        return self._ask(request, act, row)

    def _ask(self, request: HttpRequest, act: Act, row: Any) -> HttpResponse:
        return act_page(
            request,
            self,
            act,
            row=row,
            object_id=row.id,
            facts=[
                ("concept", in_passing(row.content)),
                ("session", row.session_id),
                ("status", row.status),
            ],
            back=row_url(Concept, row.id, session=row.session_id),
        )


def _explanation(request: HttpRequest, row: Concept) -> dict[str, Any]:
    """What the server says of why the concept is where it is, or why that is not known."""
    try:
        answer = acts.ask(
            request.user,
            lambda client: client.inspect(row.session_id, row.id, depth=1),
            patience=acts.GLANCE,
        )
    except LamboError as error:
        return {"explanation_error": error}
    found = answer["structured"]
    admission = found.get("admission")
    checks = read_checks(admission["checks"]) if admission else ()
    return {"explanation": admission, "checks": checks}


def _last_removal(node_id: str) -> Any:
    """The newest row that tells how a concept went from a session that is there, or None."""
    # By way of the sessions: the index of concepts starts with the session's name.
    sessions = Session.objects.filter(deleted_at=None).values("session_id")
    try:
        rows = AuditEvent.objects.filter(
            session_id__in=sessions, node_id=node_id, session_deleted_at=None
        )
        return rows.filter(kind__in=GONE_BY).order_by("-id").first()
    except ValidationError:
        return None


def _trail(session_id: str, node_id: str) -> list[Any]:
    """The newest audit rows of a concept of a session."""
    try:
        rows = AuditEvent.objects.filter(session_id=session_id, node_id=node_id)
        return list(rows.order_by("-id")[:TRAIL_SHOWN])
    except ValidationError:
        return []


def _line(row: Any) -> dict[str, Any]:
    return {
        "url": row_url(AuditEvent, row.id),
        "when": instant(row.occurred_at),
        "what": act_of(row),
        "actor": row.actor,
        "reason": row.reason or "",
    }
