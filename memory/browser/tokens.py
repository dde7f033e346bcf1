"""Tokens: their list, making one, revoking one.

Owns the only page that ever shows a token's secret: the answer to the form that made it. It is in
no address, no message, no log and no session, so that going back or looking again shows nothing.
"""

from __future__ import annotations

import json
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from memory.browser.act_pages import Act, ActForm, act_page
from memory.browser.records import RecordAdmin, facts_of, instant, row_url
from memory.client import Answer
from memory.engine.limits import AGENT_ID_BYTES
from memory.engine.rights import Scope
from memory.engine.tokens import PATTERNS_MAX, SECONDS_MAX
from memory.models import Token

DAY_SECONDS: Final = 86_400
CREATE: Final = "memory.add_token"
REVOKE: Final = "memory.revoke_token"


class TokenForm(ActForm):
    """Who gets a token, and what it opens."""

    name = forms.CharField(max_length=AGENT_ID_BYTES, help_text="What people call it.")
    agent = forms.CharField(max_length=AGENT_ID_BYTES, help_text="The agent it speaks for.")
    scopes = forms.MultipleChoiceField(
        choices=[(str(scope), str(scope)) for scope in Scope],
        widget=forms.CheckboxSelectMultiple,
        help_text="None includes another.",
    )
    sessions = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=f"Names, one a line, at most {PATTERNS_MAX}; * stands for any text.",
    )
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=SECONDS_MAX // DAY_SECONDS,
        label="Days until it expires",
        help_text="Left empty, it never does.",
    )
    may_act_for_others = forms.BooleanField(required=False)

    def clean_sessions(self) -> list[str]:
        lines = self.cleaned_data["sessions"].splitlines()
        return [line.strip() for line in lines if line.strip()]


class Tokens(RecordAdmin):
    """Every token that is kept, without its secret."""

    detail_template = "memory/token.html"
    change_list_template = "memory/token_list.html"
    list_display = ("id", "name", "agent_id", "opens", "made", "expires", "revoked")
    ordering = ("-created_at",)

    @admin.display(description="scopes")
    def opens(self, row: Token) -> str:
        return _listed(row.scopes)

    @admin.display(description="made (UTC)")
    def made(self, row: Token) -> str:
        return instant(row.created_at)

    @admin.display(description="expires (UTC)")
    def expires(self, row: Token) -> str:
        return instant(row.expires_at)

    @admin.display(description="revoked (UTC)")
    def revoked(self, row: Token) -> str:
        return instant(row.revoked_at)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        url = reverse(f"admin:{self.url_name('create')}") if request.user.has_perm(CREATE) else None
        return super().changelist_view(request, {**(extra_context or {}), "create_url": url})

    def describe(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        can_revoke = row.revoked_at is None and request.user.has_perm(REVOKE)
        facts = facts_of(row, without=("digest", "scopes", "session_patterns"))
        return {
            "title": row.name,
            "facts": [
                *facts,
                ("scopes", _listed(row.scopes)),
                ("sessions", _listed(row.session_patterns)),
            ],
            "revoke_url": reverse(f"admin:{self.url_name('revoke')}", args=[row.pk])
            if can_revoke
            else None,
        }

    # -- acts --------------------------------------------------------------------------------------

    def more_urls(self) -> list[URLPattern]:
        return [
            path("create/", self.page(self.create_page), name=self.url_name("create")),
            path(
                "<path:object_id>/revoke/",
                self.page(self.revoke_page),
                name=self.url_name("revoke"),
            ),
        ]

    def create_page(self, request: HttpRequest) -> HttpResponse:
        """Make a token, and show its secret this once."""
        act = Act(
            name="create token",
            permission=CREATE,
            title="Make a token",
            question="Whoever holds the token may do what it opens, as the agent it speaks for.",
            button="Make it",
            run=lambda client, given: client.create_token(
                given["name"],
                agent=given["agent"],
                scopes=given["scopes"],
                sessions=given["sessions"],
                may_act_for_others=given["may_act_for_others"],
                expires_seconds=given["days"] * DAY_SECONDS if given["days"] else None,
            ),
            form=TokenForm,
        )

        def show_once(answer: Answer) -> HttpResponse:
            made = answer["structured"]
            page = self.row_context(request, None, title="A token was made", made=made)
            response = TemplateResponse(request, "memory/token_made.html", page)
            response["Cache-Control"] = "no-store"
            return response

        return act_page(
            request,
            self,
            act,
            row=Token,
            object_id="new",
            facts=[],
            back=reverse(f"admin:{self.url_name('changelist')}"),
            answered=show_once,
        )

    def revoke_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Have a token open nothing any more."""
        row = self.find(request, object_id)
        act = Act(
            name="revoke token",
            permission=REVOKE,
            title="Revoke a token",
            question="Have this token open nothing any more? It cannot be undone.",
            button="Revoke it",
            run=lambda client, _given: client.revoke_token(row.id),
            form=ActForm,
            is_grave=True,
        )
        return act_page(
            request,
            self,
            act,
            row=row,
            object_id=row.id,
            facts=[("name", row.name), ("agent", row.agent_id)],
            back=row_url(Token, row.pk),
        )


def _listed(stored: str) -> str:
    try:
        return ", ".join(str(one) for one in json.loads(stored))
    except (ValueError, TypeError):  # a foreign hand
        return stored
