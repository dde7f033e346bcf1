"""The one task of the worker processes: ask the server for a job, and hand back what it did.

Owns the trace each attempt leaves and the bounds of trying: a row before the work begins, so that
an attempt whose worker is killed is counted like any other. Touches no session and no table of the
engine: the server is asked over HTTP, by the client everybody uses. Which jobs there are is the
server's to know, when they are asked for is the schedules'.

Invariant: a run is begun at most `max_attempts` times, however its attempts end, and its row says
how the last one did.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any, ClassVar, Final

from django.conf import settings
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import Failure, Schedule, Task
from django_q.signals import pre_execute

from memory.client import LamboClient
from memory.client_calls import JobFailed
from memory.engine.errors import LamboError

TASK: Final = "memory.tasks.run_job"
"""How schedules name it."""
FAILURES_KEPT: Final = 500
PAUSE_SECONDS: Final = 1.0
"""Between two looks at a run that is somebody else's."""
UNFINISHED: Final = "begun and not ended"

_current: dict[str, Any] = {}
"""What this worker process is at, as the cluster describes it."""


class GivenUp(LamboError):
    """Every attempt ended with the worker process; the run is not begun again."""

    code: ClassVar[str] = "given_up"


def run_job(name: str) -> dict[str, Any]:
    """Have a job run wherever it is due; what it did. Raises `JobFailed` if it failed anywhere."""
    begin_attempt(_current)
    forget_old_failures()
    interval = interval_of(name)
    done: Counter[str] = Counter()
    did: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    with LamboClient.local(settings.PROCESS.data_dir, as_operator=True) as client:
        while True:
            part = client.run_job(name, interval_seconds=interval)["structured"]
            if not done:
                done["not_due"] = part["not_due"]
            done += Counter({"ran": part["ran"], "failed": part["failed"]})
            did.update(part["did"])
            failures += part["failures"]
            if part["running"]:
                time.sleep(PAUSE_SECONDS)
            elif not part["left"]:
                break
    report: dict[str, Any] = {
        "job": name,
        **{word: done[word] for word in ("ran", "not_due", "failed")},
    }
    if failures:
        first = failures[0]
        where = f" in session '{first['session']}'" if first["session"] else ""
        raise JobFailed(f"{name} failed{where}: {first['message']}", **report, failures=failures)
    return {**report, "did": dict(did)}


def interval_of(name: str) -> int | None:
    """How often this node's schedule asks for a job, in seconds; None if that cannot be told."""
    schedule = Schedule.objects.filter(name=name, cluster=Conf.CLUSTER_NAME).first()
    if schedule is None or schedule.schedule_type in (Schedule.ONCE, Schedule.CRON):
        return None
    now = timezone.now()
    seconds: float = (schedule.calculate_next_run(now) - now).total_seconds()
    return round(seconds)


def begin_attempt(task: dict[str, Any]) -> None:
    """Note that a run is begun; raises `GivenUp` when its attempts are used up.

    The cluster itself counts an attempt when it ends, so one whose worker was killed would never
    count, and would be begun again for ever.
    """
    now = timezone.now()
    mark = f"{UNFINISHED}: process {os.getpid()}, {now:%Y-%m-%dT%H:%M:%SZ}"
    row, is_first = Task.objects.get_or_create(
        id=task["id"],
        defaults={
            "name": task["name"],
            "func": TASK,
            "args": task["args"],
            "kwargs": task["kwargs"],
            "cluster": task.get("cluster"),
            "group": task.get("group"),
            "started": task["started"],
            "stopped": now,
            "success": False,
            "result": mark,
        },
    )
    if is_first:
        return
    before = str(row.result)
    if before.startswith(UNFINISHED):
        row.attempt_count += 1
    row.stopped, row.result = now, f"{mark}; before: {before}"
    row.save()
    if row.attempt_count >= Conf.MAX_ATTEMPTS:
        raise GivenUp(f"not begun again after {row.attempt_count} attempts; the last: {before}")


def forget_old_failures() -> None:
    """Keep the newest failures; the cluster bounds only the successes."""
    old = Failure.objects.order_by("-stopped").values_list("pk", flat=True)[FAILURES_KEPT:]
    if pks := list(old):
        Failure.objects.filter(pk__in=pks).delete()


def _note_task(task: dict[str, Any], **_: Any) -> None:
    """Called by the cluster before each task, where an error would end the worker."""
    _current.clear()
    _current.update(task)


pre_execute.connect(_note_task)
