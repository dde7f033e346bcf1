"""The schedules of a node: one row for each job the cluster asks for, in Django's own database.

Owns which rows there should be when a node starts. What stands in a row that exists is the
operator's: only missing ones are made. Knows the jobs as the server lists them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Max
from django_q.models import OrmQ, Schedule

from memory.tasks import TASK

logger = logging.getLogger("lambo.jobs")

UNSEEN: Final = timedelta(days=1)
"""A node whose schedules are all overdue by this much is gone: one that runs moves them on."""
MINUTES_MAX: Final = 32_767
"""What the column holds."""


def bring_schedules_up_to_date(
    jobs: Iterable[Mapping[str, Any]], *, node_id: str, now: datetime
) -> None:
    """Make a node's missing schedules, and remove those of jobs and of nodes that are no more."""
    minutes = {
        job["job"]: min(MINUTES_MAX, max(1, round(job["interval_seconds"] / 60)))
        for job in jobs
        if job["run_by"] == "cluster"
    }
    ours = Schedule.objects.filter(func=TASK)
    ours.filter(cluster=node_id).exclude(name__in=minutes).delete()
    known = set(ours.filter(cluster=node_id).values_list("name", flat=True))
    for name in minutes.keys() - known:
        Schedule.objects.create(
            name=name,
            func=TASK,
            args=repr(name),
            schedule_type=Schedule.MINUTES,
            minutes=minutes[name],
            cluster=node_id,
            next_run=now,
        )
    _forget_nodes(now, but=node_id)


def release_tasks(node_id: str, now: datetime) -> None:
    """Let tasks be taken again that workers of an earlier cluster of this node had taken."""
    OrmQ.objects.filter(key=node_id, lock__gt=now).update(lock=now)


def _forget_nodes(now: datetime, *, but: str) -> None:
    others = Schedule.objects.filter(func=TASK, cluster__isnull=False).exclude(cluster=but)
    seen = others.order_by().values("cluster").annotate(next=Max("next_run"))
    gone = [row["cluster"] for row in seen if row["next"] and row["next"] < now - UNSEEN]
    if gone:
        Schedule.objects.filter(func=TASK, cluster__in=gone).delete()
        OrmQ.objects.filter(key__in=gone).delete()
        logger.warning("schedules of nodes unseen for a day removed: %s", ", ".join(gone))
