"""What a list of stored rows can be narrowed by, beside Django's own choices.

Owns the filters that take what is typed: one exact word, a part of a text, two days. A filter
that lists what there is would read a whole table to draw a page.

Invariant: a value that makes no sense narrows to nothing or sends back to the whole list; it is
never an error page.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar

from django.contrib.admin import ChoicesFieldListFilter, ListFilter, ModelAdmin, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from memory.engine.times import to_micros
from memory.models import AuditKindChoices, StatusChoices


class TypedFilter(ListFilter):
    """A filter of one or more fields of a form. Subclasses say which, and what they mean."""

    template = "memory/typed_filter.html"
    fields: ClassVar[tuple[tuple[str, str, str], ...]]
    """(parameter, label, type of the input)."""

    def __init__(
        self,
        request: HttpRequest,
        params: dict[str, Any],
        model: type[Model],
        model_admin: ModelAdmin[Any],
    ) -> None:
        super().__init__(request, params, model, model_admin)
        for name, _label, _kind in self.fields:
            if name in params:
                text = params.pop(name)[-1].strip()
                if text:
                    self.used_parameters[name] = text

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return [name for name, _label, _kind in self.fields]

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """One entry: the inputs, and the other parameters to keep when the form is sent."""
        own = {*self.expected_parameters(), "p", "e"}
        kept = [(name, value) for name, value in changelist.params.items() if name not in own]
        inputs = [
            {"name": name, "label": label, "type": kind, "value": self._given(name)}
            for name, label, kind in self.fields
        ]
        yield {"inputs": inputs, "kept": kept, "is_used": bool(self.used_parameters)}

    def _given(self, name: str) -> str:
        return str(self.used_parameters.get(name, ""))


class WordFilter(TypedFilter):
    """Rows whose column is exactly what was typed."""

    column: ClassVar[str]
    lookup: ClassVar[str] = "exact"

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        (name, _label, _kind), *_ = self.fields
        value = self._given(name)
        return queryset.filter(**{f"{self.column}__{self.lookup}": value}) if value else queryset


class SessionFilter(WordFilter):
    title = "session"
    column = "session_id"
    fields = (("session", "Name of the session", "text"),)


class ActorFilter(WordFilter):
    title = "actor"
    column = "actor"
    fields = (("actor", "Who did it", "text"),)


class ChangeFilter(SimpleListFilter):
    """What people look for, where kinds and statuses are how it is kept."""

    title = "change"
    parameter_name = "change"
    kinds: ClassVar = {
        "removals": ("retract", "collect", "purge"),
        "people": ("confirm", "retract", "restore", "purge", "root-goal", "synonym",
                   "session-create", "session-delete", "reembed", "token-create", "token-revoke"),
    }  # fmt: skip

    def lookups(
        self, _request: HttpRequest, _model_admin: ModelAdmin[Any]
    ) -> list[tuple[str, str]]:
        return [
            ("promotions", "Promotions"),
            ("demotions", "Demotions"),
            ("removals", "What was taken out"),
            ("people", "Acts of people"),
        ]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        steps = queryset.filter(kind=AuditKindChoices.TRANSITION)
        match self.value():
            case "promotions":
                return steps.exclude(to_status=StatusChoices.NONE)
            case "demotions":
                return steps.filter(to_status=StatusChoices.NONE)
            case "removals" | "people" as change:
                return queryset.filter(kind__in=self.kinds[change])
        return queryset


class NewStatusFilter(ChoicesFieldListFilter):
    """Of a column called `to_status`, as people would ask for it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.title = "new status"


class AgentFilter(WordFilter):
    title = "agent"
    column = "origin_agent"
    fields = (("agent", "Who wrote it first", "text"),)


class ReasonFilter(WordFilter):
    title = "reason"
    column = "reason"
    lookup = "icontains"
    fields = (("reason", "Part of the reason", "text"),)


class RadiusFilter(TypedFilter):
    title = "blast radius"
    fields = (("radius", "At least", "number"),)

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        given = self._given("radius")
        if not given:
            return queryset
        if not (given.isascii() and given.isdigit() and len(given) <= 9):
            raise IncorrectLookupParameters
        return queryset.filter(blast_radius__gte=int(given))


class DayFilter(TypedFilter):
    title = "date (UTC)"
    fields = (("since", "From", "date"), ("until", "To, inclusive", "date"))

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        since, until = _day(self._given("since")), _day(self._given("until"))
        if since is not None:
            queryset = queryset.filter(occurred_at__gte=_midnight(since))
        if until is not None:
            queryset = queryset.filter(occurred_at__lt=_midnight(until, days_later=1))
        return queryset


def _day(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise IncorrectLookupParameters from error


def _midnight(day: date, *, days_later: int = 0) -> int:
    start = to_micros(datetime.combine(day, time(), tzinfo=UTC))
    return start + days_later * (timedelta(days=1) // timedelta(microseconds=1))
