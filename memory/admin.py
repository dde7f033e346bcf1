"""Which pages the admin has, and what people may change of the calendar.

The pages over the memory itself stand in `memory.browser`: they show what is stored, and what they
do goes through the running server. Runs of jobs are there to read. The calendar: when a job is
asked for, and nothing else of a schedule. A schedule of django-q2 names any Python function, so one
that could be added or rewritten would turn a login into a shell on the server.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest
from django_q.admin import FailAdmin, ScheduleAdmin, TaskAdmin
from django_q.models import Failure, Schedule, Success

from memory.browser.audit_rows import AuditRows
from memory.browser.concepts import Concepts
from memory.browser.leftovers import DeadLetters, SetAsideRows
from memory.browser.sessions import Leases, Sessions
from memory.browser.tokens import Tokens
from memory.models import AuditEvent, Concept, DeadLetter, Lease, Session, SetAside, Token

admin.site.site_header = admin.site.site_title = "Lambo"
admin.site.index_title = "What the team remembers, and why"

admin.site.register(AuditEvent, AuditRows)
admin.site.register(Concept, Concepts)
admin.site.register(Session, Sessions)
admin.site.register(Lease, Leases)
admin.site.register(DeadLetter, DeadLetters)
admin.site.register(SetAside, SetAsideRows)
admin.site.register(Token, Tokens)

admin.site.unregister([Schedule, Success, Failure])


class _ReadByMany:
    """Mixed in before the pages of runs: only who may remove runs may also have them run again."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        may_remove = self.has_delete_permission(request)  # type: ignore[attr-defined]
        return super().get_actions(request) if may_remove else {}  # type: ignore[misc]


@admin.register(Success)
class EndedRuns(_ReadByMany, TaskAdmin):  # type: ignore[misc]
    """Runs of jobs that ended well."""


@admin.register(Failure)
class FailedRuns(_ReadByMany, FailAdmin):  # type: ignore[misc]
    """Runs of jobs that failed, or are under way."""


@admin.register(Schedule)
class CalendarAdmin(ScheduleAdmin):  # type: ignore[misc]
    """When the cluster asks for each job. `repeats` 0 stops a job, -1 lets it go on."""

    fields: ClassVar = (
        "name",
        "cluster",
        "func",
        "args",
        "schedule_type",
        "minutes",
        "repeats",
        "next_run",
    )
    readonly_fields: ClassVar = ("name", "cluster", "func", "args")

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """A server makes the rows of its jobs itself."""
        return False
