"""The page on which a person is asked once more before an act, and does it.

Owns its life: permission, the question (with what the server says would happen), the form, the
answer. What an act is, is said by an `Act`. Looking at the page changes nothing.

Invariant: one page is one write to a session, however often its button is pressed: the idempotency
key is made with the page and sent with the form.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse

from memory.browser import acts
from memory.browser.records import RecordAdmin
from memory.client import Answer, LamboClient
from memory.engine.errors import LamboError
from memory.engine.limits import IDEMPOTENCY_KEY_BYTES, LIMIT_TEXT_BYTES

Given = Mapping[str, Any]


class ActForm(forms.Form):
    """What every act is sent with."""

    key = forms.CharField(max_length=IDEMPOTENCY_KEY_BYTES, widget=forms.HiddenInput)


class ReasonForm(ActForm):
    """An act that may say why."""

    reason = forms.CharField(
        required=False,
        max_length=LIMIT_TEXT_BYTES,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="For the audit trail. Quote no text there that may have to go.",
    )

    def clean_reason(self) -> str:
        """With the line ends of stored text; a form sends its own."""
        return str(self.cleaned_data["reason"]).replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class Act:
    """One act. `run` is asked with the form's values; `preview` tells what would happen."""

    name: str
    permission: str
    title: str
    question: str
    button: str
    run: Callable[[LamboClient, Given], Answer]
    preview: Callable[[LamboClient], Answer] | None = None
    form: type[ActForm] = ReasonForm
    initial: Given = field(default_factory=dict)
    is_grave: bool = False
    """Whether it cannot be undone."""


TEMPLATE: Final = "memory/act.html"


def act_page(
    request: HttpRequest,
    admin: RecordAdmin,
    act: Act,
    *,
    row: Model | type[Model],
    object_id: str,
    facts: list[tuple[str, Any]],
    back: str,
    answered: Callable[[Answer], HttpResponse] | None = None,
) -> HttpResponse:
    """Ask (GET) or do (POST). Goes `back` afterwards, unless `answered` makes a page of its own."""
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponseNotAllowed(("GET", "HEAD", "POST"))
    if not request.user.has_perm(act.permission):
        raise PermissionDenied
    error, status = None, 200
    if request.method == "POST":
        form = act.form(request.POST)
        if form.is_valid():
            try:
                answer = acts.ask(request.user, lambda client: act.run(client, form.cleaned_data))
            except LamboError as refusal:
                error, status = refusal, 409
            else:
                acts.note(request.user, row, object_id, act.name)
                return _tell(request, answer, back, answered)
        else:
            status = 422
    else:
        form = act.form(initial={"key": uuid.uuid4().hex, **act.initial})
    context = {
        **admin.row_context(request, None, title=act.title),
        "act": act,
        "form": form,
        "error": error,
        "facts": facts,
        "back": back,
        **_preview(request, act, skip=error is not None),
    }
    return TemplateResponse(request, TEMPLATE, context, status=status)


def _tell(
    request: HttpRequest,
    answer: Answer,
    back: str,
    answered: Callable[[Answer], HttpResponse] | None,
) -> HttpResponse:
    for line in answer["warnings"]:
        messages.warning(request, line)
    if answered is not None:
        return answered(answer)
    messages.success(request, str(answer["structured"].get("summary") or answer["text"]))
    return HttpResponseRedirect(back)


def _preview(request: HttpRequest, act: Act, *, skip: bool) -> dict[str, Any]:
    if act.preview is None or skip:
        return {}
    try:
        return {"preview": acts.ask(request.user, act.preview, patience=acts.GLANCE)["text"]}
    except LamboError as refusal:
        return {"error": refusal}
