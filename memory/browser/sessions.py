"""Sessions and their leases: what is stored, and what the running server says of a session now.

Owns the page of a session. Live figures are the server's own; when it does not answer, the page
says so and shows what is stored. The list asks the server nothing: it would open every session.
"""

from __future__ import annotations

import json
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from memory.browser import acts
from memory.browser.act_pages import Act, ActForm, act_page
from memory.browser.receipt_pages import receipts_page
from memory.browser.records import RecordAdmin, facts_of, instant, link, list_url, row_url
from memory.browser.removal_pages import removals_page
from memory.engine.errors import LamboError
from memory.engine.limits import LIMIT_GOAL_TEXTS, LIMIT_TEXT_BYTES
from memory.models import AuditEvent, Concept, DeadLetter, Lease, Session, SetAside

GOAL_FORM_CHARACTERS: Final = LIMIT_GOAL_TEXTS * (LIMIT_TEXT_BYTES + 1)


class GoalForm(ActForm):
    """What a session is for."""

    goals = forms.CharField(
        required=False,
        max_length=GOAL_FORM_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text="One text a line; none clears the goal.",
    )

    def clean_goals(self) -> list[str]:
        return [line.strip() for line in self.cleaned_data["goals"].splitlines() if line.strip()]


class Sessions(RecordAdmin):
    """Every session that is stored."""

    detail_template = "memory/session.html"
    list_display = ("session_id", "match_strategy", "created", "closed", "trail")
    ordering = ("session_id",)
    search_fields = ("session_id",)
    search_help_text = "A part of its name."

    def get_search_results(
        self, _request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        term = search_term.strip()
        return (queryset.filter(session_id__icontains=term) if term else queryset), False

    @admin.display(description="created (UTC)")
    def created(self, row: Session) -> str:
        return instant(row.created_at)

    @admin.display(description="put away (UTC)")
    def closed(self, row: Session) -> str:
        return instant(row.closed_at)

    @admin.display(description="trail")
    def trail(self, row: Session) -> SafeString:
        return link(list_url(AuditEvent, session=row.session_id), "audit rows")

    def describe(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        name = row.session_id
        lease = Lease.objects.filter(session_id=name).first()
        context: dict[str, Any] = {
            "title": name,
            "subtitle": "deleted" if row.deleted_at is not None else None,
            "facts": facts_of(row, without=("session_id", "cycle_state")),
            "lease": [] if lease is None else facts_of(lease, without=("session_id",)),
            "links": [
                ("Audit rows", list_url(AuditEvent, session=name)),
                ("Concepts", list_url(Concept, session=name)),
                ("What was taken out", self._own_url("removals", name)),
                ("Receipts", self._own_url("receipts", name)),
                ("Dead letters", list_url(DeadLetter, session=name)),
                ("Rows set aside", list_url(SetAside, session=name)),
            ],
            "goal_url": self._own_url("root_goal", name)
            if request.user.has_perm("memory.set_root_goal")
            else None,
        }
        try:
            answer = acts.ask(request.user, lambda client: client.stats(name), patience=acts.GLANCE)
        except LamboError as error:
            return {**context, "stats_error": error}
        return {**context, "stats": _shown_stats(answer["structured"])}

    def _own_url(self, page: str, name: str) -> str:
        return reverse(f"admin:{self.url_name(page)}", args=[quote(name)])

    # -- acts and lists of a session ---------------------------------------------------------------

    def more_urls(self) -> list[URLPattern]:
        return [
            path(
                "<path:object_id>/root-goal/",
                self.page(self.root_goal_page),
                name=self.url_name("root_goal"),
            ),
            path(
                "<path:object_id>/removals/",
                self.page(self.list_removals),
                name=self.url_name("removals"),
            ),
            path(
                "<path:object_id>/receipts/",
                self.page(self.list_receipts),
                name=self.url_name("receipts"),
            ),
        ]

    def root_goal_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say what a session is for."""
        row = self.find(request, object_id)
        act = Act(
            name="root goal",
            permission="memory.set_root_goal",
            title="Set the root goal",
            question="Say what this session is for? Concepts that are the goal become Venerable.",
            button="Set the goal",
            run=lambda client, given: client.set_root_goal(
                row.session_id, given["goals"], idempotency_key=given["key"]
            ),
            form=GoalForm,
            initial={"goals": "\n".join(_goals(row.root_goal))},
        )
        return act_page(
            request,
            self,
            act,
            row=row,
            object_id=row.session_id,
            facts=[("session", row.session_id)],
            back=row_url(Session, row.session_id),
        )

    def list_removals(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return removals_page(self, request, self.find(request, object_id).session_id)

    def list_receipts(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return receipts_page(self, request, self.find(request, object_id).session_id)


class Leases(RecordAdmin):
    """Which server holds which session."""

    list_display = ("session_id", "node_id", "endpoint", "token", "position", "expires")
    ordering = ("session_id",)
    search_fields = ("session_id", "node_id")

    @admin.display(description="expires (UTC)")
    def expires(self, row: Lease) -> str:
        return instant(row.expires_at)


def _goals(stored: str | None) -> list[str]:
    try:
        goals = json.loads(stored or "[]")
    except ValueError:  # a foreign hand
        return []
    return [goal for goal in goals if isinstance(goal, str)] if isinstance(goals, list) else []


def _shown_stats(stats: dict[str, Any]) -> list[tuple[str, str]]:
    """Every figure, one a line; tables of counts on one line each."""
    shown = []
    for name, value in stats.items():
        if name in ("summary", "session", "warnings"):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{key} {part}" for key, part in value.items() if part is not None)
        if value not in (None, ""):
            shown.append((name.replace("_", " "), str(value)))
    return shown
