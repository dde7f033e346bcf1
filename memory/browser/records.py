"""Pages that show stored rows and change none: a list and a page for each row.

Owns what all of them share: who may look, lists that stay quick over any number of rows, instants
as people read them. Whoever registers a model with `RecordAdmin` gets no form, no deletion, no bulk
action and no address that takes any of these.

Invariant: a request to these pages runs no statement that writes to the engine's database and opens
no transaction on it, whoever sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memory.engine.showing import in_passing
from memory.engine.times import format_rfc3339_seconds
from memory.models import Concept

LIST_ROWS_MAX: Final = 10_000
"""Rows that a list counts and pages through; what is older is found by a filter."""
ROWS_PER_PAGE: Final = 100
LOOKING: Final = ("GET", "HEAD")

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:  # generic in the type checker's eyes alone
    _ModelAdmin = admin.ModelAdmin


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # not generic when it runs
    """Counts no further than it pages, so that a page costs the same over any number of rows."""

    @cached_property
    def _found(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: LIST_ROWS_MAX + 1].count())

    @property
    def is_cut(self) -> bool:
        """Whether more rows match than are counted."""
        return self._found > LIST_ROWS_MAX

    @cached_property
    def count(self) -> int:
        return min(self._found, LIST_ROWS_MAX)


class RecordAdmin(_ModelAdmin):
    """A list and a page per row. `detail_template` draws the page from `describe`'s context."""

    actions = None
    paginator = BoundedPaginator
    show_full_result_count: ClassVar = False
    show_facets: ClassVar = admin.ShowFacets.NEVER
    list_per_page: ClassVar = ROWS_PER_PAGE
    list_max_show_all: ClassVar = ROWS_PER_PAGE
    sortable_by: ClassVar = ()
    """By the key alone: any other order over all rows would sort the table."""
    detail_template: ClassVar = "memory/record.html"
    change_list_template = "memory/record_list.html"

    # -- who may do what ---------------------------------------------------------------------------

    def has_add_permission(self, _request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, _request: HttpRequest, _row: Any = None) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _row: Any = None) -> bool:
        return False

    # -- pages -------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """The list, then what a subclass adds, then the page of a row; nothing else."""
        return [
            path("", self.page(self.changelist_view), name=self.url_name("changelist")),
            *self.more_urls(),
            path(
                "<path:object_id>/change/",
                self.page(self.show_row),
                name=self.url_name("change"),
            ),
        ]

    def more_urls(self) -> list[URLPattern]:
        """Addresses of a subclass."""
        return []

    def page(self, view: Any) -> Any:
        """A view for people who are logged in."""
        return self.admin_site.admin_view(view)

    def url_name(self, page: str) -> str:
        """The name of one of the model's addresses."""
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method not in LOOKING:
            return HttpResponseNotAllowed(LOOKING)
        title = str(self.opts.verbose_name_plural).capitalize()
        response = super().changelist_view(request, {"title": title, **(extra_context or {})})
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            changes = response.context_data["cl"]
            if changes.paginator.is_cut:
                response.context_data["subtitle"] = (
                    f"More than {LIST_ROWS_MAX:,} rows match; the first {LIST_ROWS_MAX:,} are "
                    "listed. Narrow the list to see others."
                )
        return response

    def show_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page of one row."""
        if request.method not in LOOKING:
            return HttpResponseNotAllowed(LOOKING)
        row = self.find(request, object_id)
        context = {**self.row_context(request, row), **self.describe(request, row)}
        return TemplateResponse(request, self.detail_template, context)

    def find(self, request: HttpRequest, object_id: str) -> Any:
        """The row an address names. Raises `PermissionDenied` or `Http404`."""
        self.check_may_look(request)
        try:
            row = self.get_queryset(request).filter(pk=unquote(object_id)).first()
        except (ValidationError, ValueError) as error:
            raise Http404(f"no {self.opts.verbose_name} has this id") from error
        if row is None:
            raise Http404(f"no {self.opts.verbose_name} has this id")
        return row

    def check_may_look(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def row_context(self, request: HttpRequest, row: Model | None, **more: Any) -> dict[str, Any]:
        """What every page of a row knows."""
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "row": row,
            "title": "" if row is None else str(self.opts.verbose_name).capitalize(),
            "subtitle": "" if row is None else str(row.pk),
            "list_url": reverse(f"admin:{self.url_name('changelist')}"),
            **more,
        }

    def describe(self, _request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the page of a row shows: `facts` are (name, value) pairs."""
        return {"facts": facts_of(row)}


class LabelledChanges(ChangeList):
    """A page of rows that name a concept, with what each of these says: one statement for all."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        labels = labels_of(row.node_id for row in rows)
        for row in rows:
            row.label = labels.get(row.node_id)
        self.result_list = rows


# -- what rows show --------------------------------------------------------------------------------


def facts_of(row: Model, *, without: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """The columns of a row that hold something, instants as people read them."""
    return [
        (str(field.verbose_name), shown_column(field, getattr(row, field.attname)))
        for field in row._meta.concrete_fields
        if field.attname not in without and getattr(row, field.attname) is not None
    ]


def shown_column(field: Any, value: Any) -> Any:
    """A column's value: a number of microseconds means nothing to anybody."""
    return instant(value) if type(field).__name__ == "MicrosField" else value


def instant(micros: int | None) -> str:
    """A stored instant to the second, in UTC."""
    return "" if micros is None else format_rfc3339_seconds(micros)


def labels_of(ids: Iterable[str | None]) -> dict[str, str]:
    """The start of the content of those concepts that are there; at most a page of them."""
    named = {name for name in ids if name is not None}
    if not named:
        return {}
    rows = Concept.objects.filter(id__in=named).values_list("id", "content")
    return {name: in_passing(content) for name, content in rows}


def row_url(model: type[Model], pk: Any, **query: str) -> str:
    """The address of a row's page."""
    opts = model._meta
    url = reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[quote(pk)])
    return f"{url}?{urlencode(query)}" if query else url


def list_url(model: type[Model], **query: str) -> str:
    """The address of a list, narrowed."""
    opts = model._meta
    url = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    return f"{url}?{urlencode(query)}" if query else url


def link(url: str, text: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text)


def concept_link(node_id: str, session_id: str, label: str | None = None) -> SafeString:
    """A link to a concept's page, which also tells of one that is gone."""
    return link(row_url(Concept, node_id, session=session_id), label or node_id)
