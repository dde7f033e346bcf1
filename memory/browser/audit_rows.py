"""The audit trail: its list, the page of a row with the evidence behind it, and its export.

Owns what an auditor sees of a row. Shows what was written and judges nothing; the measurements on a
row's page are those that decided, not today's.

Invariant: no address here adds, changes or deletes a row, for nobody.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Q, QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseNotAllowed,
)
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from memory.browser.evidence import ReadEvidence, read_detail
from memory.browser.export import EXPORT_ROWS_MAX, FORMATS, export
from memory.browser.filters import (
    ActorFilter,
    ChangeFilter,
    DayFilter,
    NewStatusFilter,
    ReasonFilter,
    SessionFilter,
)
from memory.browser.records import (
    LOOKING,
    LabelledChanges,
    RecordAdmin,
    concept_link,
    facts_of,
    instant,
    labels_of,
    link,
    row_url,
)
from memory.browser.removal_pages import restore_page
from memory.engine.server_acts import SERVER_CHAIN
from memory.models import AuditEvent, AuditKindChoices, Concept, Session

CONTENTS_FOUND_MAX: Final = 500
"""Concepts whose contents are searched for by a word, before their rows are looked for."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_REMOVALS: Final = (AuditKindChoices.RETRACT.value, AuditKindChoices.COLLECT.value)
_SHOWN_ELSEWHERE: Final = ("detail", "texts", "removed", "node_id", "superseded_by", "session_id")


class AuditRows(RecordAdmin):
    """Who did what to which memory, when and why; newest first."""

    detail_template = "memory/audit_row.html"
    change_list_template = "memory/audit_list.html"
    list_display = ("when", "act", "concept", "actor", "reason", "session_name")
    list_display_links = ("when",)
    list_filter = (
        SessionFilter,
        ChangeFilter,
        ("to_status", NewStatusFilter),
        ("kind", admin.ChoicesFieldListFilter),
        ReasonFilter,
        ActorFilter,
        DayFilter,
    )
    search_fields = ("actor",)  # says that there is a search; `get_search_results` does it
    search_help_text = (
        "The id of a concept or of a row, or a part of an actor or a reason. "
        "Where a session is chosen, also a part of what a concept says."
    )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[LabelledChanges]:
        return LabelledChanges

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Newest first, as the index at hand has it: ids and times grow together in a session."""
        return ("-occurred_at", "-id") if request.GET.get("session") else ("-id",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        if _UUID.fullmatch(term.lower()):
            named = term.lower()
            found = Q(node_id=named) | Q(id=named) | Q(superseded_by=named)
            return queryset.filter(found), False
        found = Q(actor__icontains=term) | Q(reason__icontains=term)
        session = request.GET.get("session", "").strip()
        if session:
            saying = Concept.objects.filter(session_id=session, content__icontains=term)
            found |= Q(node_id__in=list(saying.values_list("id", flat=True)[:CONTENTS_FOUND_MAX]))
        return queryset.filter(found), False

    # -- the list ----------------------------------------------------------------------------------

    @admin.display(description="when (UTC)")
    def when(self, row: AuditEvent) -> str:
        return instant(row.occurred_at)

    @admin.display(description="what")
    def act(self, row: AuditEvent) -> str:
        return act_of(row)

    @admin.display(description="concept")
    def concept(self, row: Any) -> SafeString | str:
        if row.node_id is None:
            return ""
        return concept_link(row.node_id, row.session_id, row.label)

    @admin.display(description="session")
    def session_name(self, row: AuditEvent) -> str:
        if row.session_id == SERVER_CHAIN:
            return "(the server)"
        gone = " (deleted)" if row.session_deleted_at is not None else ""
        return f"{row.session_id}{gone}"

    # -- a row -------------------------------------------------------------------------------------

    def describe(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        evidence = read_detail(row.detail)
        labels = labels_of(_named(row, evidence))
        is_removal = row.kind in _REMOVALS and row.session_deleted_at is None
        can_restore = is_removal and row.removed is not None and row.node_id not in labels
        if not request.user.has_perm("memory.restore_concept"):
            can_restore = False
        return {
            "title": f"{act_of(row)}, {instant(row.occurred_at)}",
            "subtitle": None,
            "facts": facts_of(row, without=_SHOWN_ELSEWHERE),
            "session_link": self._session_link(row),
            "node": row.node_id
            and concept_link(row.node_id, row.session_id, labels.get(row.node_id)),
            "superseded_by": row.superseded_by
            and concept_link(row.superseded_by, row.session_id, labels.get(row.superseded_by)),
            "evidence": evidence,
            "checks": [
                (check, check.subject and concept_link(check.subject, row.session_id))
                for check in (evidence.checks if evidence else ())
            ],
            "supports": [
                (one, concept_link(one.dependent, row.session_id, labels.get(one.dependent)))
                for one in (evidence.supports if evidence else ())
            ],
            "texts": _texts(row),
            "restore_url": reverse("admin:memory_auditevent_restore", args=[row.id])
            if can_restore
            else None,
        }

    def _session_link(self, row: AuditEvent) -> SafeString | str:
        if row.session_id == SERVER_CHAIN:
            return "none: an act on the server"
        if row.session_deleted_at is not None:
            return row.session_id
        return link(row_url(Session, row.session_id), row.session_id)

    # -- files -------------------------------------------------------------------------------------

    def more_urls(self) -> list[URLPattern]:
        return [
            path("export.<str:form>", self.page(self.export_list), name=self.url_name("export")),
            path(
                "<path:object_id>/restore/",
                self.page(lambda request, object_id: restore_page(self, request, object_id)),
                name=self.url_name("restore"),
            ),
        ]

    def export_list(self, request: HttpRequest, form: str) -> HttpResponse:
        """The rows of the list under the very filters of its address."""
        if request.method not in LOOKING:
            return HttpResponseNotAllowed(LOOKING)
        self.check_may_look(request)
        if form not in FORMATS:
            raise Http404("the trail is exported as csv or json")
        try:
            rows = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return HttpResponseBadRequest(
                "the address narrows the list in a way that means nothing"
            )
        return export(request, rows, form)  # type: ignore[return-value]  # a stream is an answer

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        more = {"export_rows_max": EXPORT_ROWS_MAX, "export_query": request.GET.urlencode()}
        return super().changelist_view(request, {**(extra_context or {}), **more})


def act_of(row: AuditEvent) -> str:
    """What a row tells of, in two or three words."""
    if row.kind != AuditKindChoices.TRANSITION.value:
        return row.kind.replace("-", " ").capitalize()
    return f"{row.from_status} → {row.to_status}"


def _named(row: AuditEvent, evidence: ReadEvidence | None) -> list[str | None]:
    """Every concept that a row's page names."""
    supports = evidence.supports if evidence else ()
    named = [one.dependent for one in supports if _UUID.fullmatch(one.dependent)]
    return [row.node_id, row.superseded_by, *named]


def _texts(row: AuditEvent) -> list[tuple[str, str]]:
    """What the row keeps of the memory's own words: (title, text), each on its own."""
    kept = []
    for title, stored in (("Texts", row.texts), ("Removed state", row.removed)):
        if stored is None:
            continue
        try:
            kept.append((title, json.dumps(json.loads(stored), ensure_ascii=False, indent=2)))
        except ValueError:  # a foreign hand
            kept.append((title, stored))
    return kept
