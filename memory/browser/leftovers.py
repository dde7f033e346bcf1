"""What went wrong with the store, for people: calls it refused, and rows that could not be used.

Owns the retry of a dead letter: the kept call is sent again, under its agent, its key and its very
words, so a letter is carried out once however often it is retried. Letters and rows are shown and
never changed here.

Invariant: a retry gives the call no right that its sender had not: what told a time of its own is
left to its sender where a retry would date evidence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse

from memory.browser.act_pages import Act, ActForm, act_page
from memory.browser.filters import SessionFilter
from memory.browser.records import RecordAdmin, facts_of, instant, row_url
from memory.client_calls import WRITE_VERBS
from memory.engine.times import format_rfc3339
from memory.models import DeadLetter, Receipt, SetAside

RETRY: Final = "memory.retry_deadletter"
SHOWN_CHARACTERS: Final = 100


class DeadLetters(RecordAdmin):
    """Calls whose group the store refused."""

    detail_template = "memory/dead_letter.html"
    list_display = ("written", "session_id", "verb", "agent_id", "why")
    list_filter = (SessionFilter,)
    ordering = ("-id",)

    @admin.display(description="when (UTC)")
    def written(self, row: DeadLetter) -> str:
        return instant(row.created_at)

    @admin.display(description="error")
    def why(self, row: DeadLetter) -> str:
        return row.error[:SHOWN_CHARACTERS]

    def describe(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        reason = why_not_retried(row)
        may_retry = request.user.has_perm(RETRY)
        return {
            "facts": facts_of(row, without=("arguments",)),
            "arguments": row.arguments,
            "receipt": _receipt_of(row),
            "why_not": reason,
            "retry_url": reverse(f"admin:{self.url_name('retry')}", args=[row.pk])
            if may_retry and reason is None
            else None,
        }

    def more_urls(self) -> list[URLPattern]:
        return [
            path("<path:object_id>/retry/", self.page(self.retry_page), name=self.url_name("retry"))
        ]

    def retry_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Send a kept call again."""
        row = self.find(request, object_id)
        if why_not_retried(row) is not None:
            raise Http404("this call cannot be sent again")
        act = Act(
            name="retry",
            permission=RETRY,
            title="Send a call again",
            question=f"Send this {row.verb} again, as {row.agent_id} sent it? If it was carried "
            "out since, nothing happens.",
            button="Send it again",
            run=lambda client, _given: client.call(
                row.session_id,
                row.verb,
                wire_arguments(json.loads(row.arguments)),
                agent_id=row.agent_id,
                idempotency_key=row.key,
            ),
            form=ActForm,
        )
        return act_page(
            request,
            self,
            act,
            row=row,
            object_id=str(row.pk),
            facts=[("session", row.session_id), ("refused", row.error)],
            back=row_url(DeadLetter, row.pk),
        )


class SetAsideRows(RecordAdmin):
    """Rows that no load could use, as they were."""

    detail_template = "memory/record.html"
    list_display = ("set_aside", "session_id", "table_name", "row_id", "reason")
    list_filter = (SessionFilter,)
    ordering = ("-id",)

    @admin.display(description="when (UTC)")
    def set_aside(self, row: SetAside) -> str:
        return instant(row.set_aside_at)


def why_not_retried(row: DeadLetter) -> str | None:
    """Why a letter cannot be sent again from here, or None."""
    if row.verb is None or row.agent_id is None or row.key is None:
        return "Nobody called for it: the server does such work again by itself."
    if row.verb not in WRITE_VERBS:
        return f"There is no verb {row.verb} in this version."
    if row.arguments is None:
        return "Its words were purged."
    try:
        arguments = json.loads(row.arguments)
    except ValueError:
        return "Its words cannot be read."
    if not isinstance(arguments, dict):
        return "Its words cannot be read."
    if settings.PROCESS.requires_tokens and arguments.get("event_time") is not None:
        return "It told a time of its own, and would date evidence if an operator sent it."
    return None


def wire_arguments(kept: Mapping[str, Any]) -> dict[str, Any]:
    """A request as it is kept beside its write, as arguments go over the wire."""
    given = {name: value for name, value in kept.items() if value is not None}
    if "event_time" in given:
        given["event_time"] = format_rfc3339(given["event_time"])
    if "parent_of" in given:
        given["parent_of"] = [
            {"parent": parent, "child": child} for parent, child in given["parent_of"]
        ]
    if "concepts" in given:
        given["concepts"] = [_wire_concept(concept) for concept in given["concepts"]]
    return given


def _wire_concept(kept: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in kept.items() if value is not None}
    return {**given, "concept_type": str(given["concept_type"]).lower()}


def _receipt_of(row: DeadLetter) -> Receipt | None:
    """The answer to the very call, if it was carried out since."""
    if row.agent_id is None or row.key is None:
        return None
    return Receipt.objects.filter(
        session_id=row.session_id, agent_id=row.agent_id, key=row.key, digest=row.digest
    ).first()
