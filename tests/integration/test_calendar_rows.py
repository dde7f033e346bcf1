"""The rows of the calendar in Django's own database: schedules, attempts, and their pages."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client
from django_q.conf import Conf
from django_q.models import Failure, OrmQ, Schedule, Success, Task
from django_q.signals import pre_execute

from memory.client_calls import JobFailed
from memory.data_folder import DataFolder
from memory.management.schedules import bring_schedules_up_to_date, release_tasks
from memory.tasks import (
    FAILURES_KEPT,
    TASK,
    UNFINISHED,
    GivenUp,
    begin_attempt,
    forget_old_failures,
    interval_of,
    run_job,
)
from scripted_server import Reply, Script, ok, scripted_server

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NODE, OTHER = "node-one", "node-two"


def listed(name: str, seconds: float, by: str = "cluster") -> Mapping[str, Any]:
    return {"job": name, "interval_seconds": seconds, "run_by": by}


def bring(*jobs: Mapping[str, Any], node: str = NODE, now: datetime = NOW) -> None:
    bring_schedules_up_to_date(jobs, node_id=node, now=now)


def names(node: str = NODE) -> set[str]:
    return set(Schedule.objects.filter(cluster=node).values_list("name", flat=True))


# -- schedules ---------------------------------------------------------------------------------


def test_each_job_of_the_cluster_has_one_schedule_and_keeps_it() -> None:
    jobs = (listed("retention", 3_600.0), listed("evaluate", 60.0), listed("beat", 5.0, "ticker"))
    for _ in range(3):
        bring(*jobs)
    rows = {row.name: row for row in Schedule.objects.all()}
    assert rows.keys() == {"retention", "evaluate"}
    assert Schedule.objects.count() == 2
    assert (rows["retention"].minutes, rows["evaluate"].minutes) == (60, 1)
    assert rows["evaluate"].args == "'evaluate'"
    assert {row.next_run for row in rows.values()} == {NOW}


def test_change_of_an_operator_survives_a_start() -> None:
    bring(listed("retention", 3_600.0))
    Schedule.objects.update(minutes=10, repeats=0, next_run=NOW + timedelta(hours=5))
    bring(listed("retention", 3_600.0), now=NOW + timedelta(hours=1))
    row = Schedule.objects.get()
    assert (row.minutes, row.repeats, row.next_run) == (10, 0, NOW + timedelta(hours=5))


def test_job_that_is_no_more_loses_its_schedule_and_others_keep_theirs() -> None:
    Schedule.objects.create(name="mine", func="math.sqrt", cluster=NODE, next_run=NOW)
    bring(listed("retention", 3_600.0), listed("gone", 60.0))
    bring(listed("retention", 3_600.0))
    assert names() == {"retention", "mine"}


def test_schedules_of_two_nodes_do_not_mix() -> None:
    bring(listed("retention", 3_600.0))
    bring(listed("retention", 3_600.0), node=OTHER)
    bring(node=NODE)
    assert (names(), names(OTHER)) == (set(), {"retention"})


def test_node_unseen_for_a_day_is_forgotten_with_what_waits_for_it() -> None:
    bring(listed("retention", 3_600.0), listed("evaluate", 60.0), node=OTHER)
    OrmQ.objects.create(key=OTHER, payload="x", lock=NOW)
    # One of its jobs was stopped long ago; the other is asked for, so the node is there.
    Schedule.objects.filter(name="evaluate").update(repeats=0, next_run=NOW - timedelta(days=9))
    bring(listed("retention", 3_600.0), now=NOW + timedelta(hours=23))
    assert names(OTHER) == {"retention", "evaluate"}
    bring(listed("retention", 3_600.0), now=NOW + timedelta(hours=25))
    assert (names(), names(OTHER)) == ({"retention"}, set())
    assert not OrmQ.objects.filter(key=OTHER).exists()


def test_own_schedules_are_kept_however_long_the_server_was_down() -> None:
    bring(listed("retention", 3_600.0))
    Schedule.objects.update(minutes=10)
    bring(listed("retention", 3_600.0), now=NOW + timedelta(days=30))
    assert Schedule.objects.get().minutes == 10


def test_tasks_of_dead_workers_are_free_again_and_those_of_other_nodes_are_not() -> None:
    taken = NOW + timedelta(seconds=300)
    for key in (NODE, OTHER):
        OrmQ.objects.create(key=key, payload="x", lock=taken)
    release_tasks(NODE, NOW)
    assert OrmQ.objects.get(key=NODE).lock == NOW
    assert OrmQ.objects.get(key=OTHER).lock == taken


@pytest.mark.parametrize(
    ("kind", "minutes", "seconds"),
    [("I", 10, 600), ("H", None, 3_600), ("D", None, 86_400), ("W", None, 604_800), ("O", 1, None)],
)
def test_interval_that_the_server_is_told_is_the_schedules(
    kind: str, minutes: int | None, seconds: int | None
) -> None:
    bring(listed("retention", 3_600.0), node=Conf.CLUSTER_NAME)
    Schedule.objects.update(schedule_type=kind, minutes=minutes)
    assert interval_of("retention") == seconds
    assert interval_of("unknown") is None


# -- attempts ----------------------------------------------------------------------------------


def a_task() -> dict[str, Any]:
    return {
        "id": uuid.uuid4().hex,
        "name": "four-random-words-here",
        "args": ("retention",),
        "kwargs": {},
        "group": "retention",
        "cluster": NODE,
        "started": NOW,
    }


def end(task: Mapping[str, Any], *, success: bool, result: str) -> int:
    """What the cluster does when an attempt ends; the attempts so far."""
    row = Task.objects.get(id=task["id"], name=task["name"])
    row.attempt_count += 1
    row.success, row.result = success, result
    row.save()
    return int(row.attempt_count)


def test_run_under_way_can_be_seen_and_counts_when_it_ends() -> None:
    task = a_task()
    begin_attempt(task)
    row = Failure.objects.get()
    assert str(row.result).startswith(UNFINISHED)
    assert (row.attempt_count, row.group, row.cluster) == (0, "retention", NODE)
    assert end(task, success=True, result="done") == 1
    assert Success.objects.count() == 1


def test_run_whose_worker_is_always_killed_is_given_up() -> None:
    """Attempts were counted only when they ended, so such a run was begun again for ever."""
    task = a_task()
    begin_attempt(task)
    begin_attempt(task)
    with pytest.raises(GivenUp):
        begin_attempt(task)
    assert Failure.objects.get().attempt_count == Conf.MAX_ATTEMPTS


def test_run_that_fails_and_is_then_killed_is_given_up_too() -> None:
    task = a_task()
    begin_attempt(task)
    assert end(task, success=False, result="the store is away") == 1
    begin_attempt(task)
    assert "the store is away" in str(Failure.objects.get().result)
    with pytest.raises(GivenUp, match="the store is away"):
        begin_attempt(task)


def test_run_killed_once_may_succeed() -> None:
    task = a_task()
    begin_attempt(task)
    begin_attempt(task)
    assert end(task, success=True, result="done") == Conf.MAX_ATTEMPTS


def test_newest_failures_are_kept_and_no_success_is_touched() -> None:
    rows = [
        Task(
            id=f"{number:032x}",
            name=str(number),
            func=TASK,
            started=NOW,
            stopped=NOW + timedelta(seconds=number),
            success=number == 0,
        )
        for number in range(FAILURES_KEPT + 4)
    ]
    Task.objects.bulk_create(rows)
    forget_old_failures()
    kept = {int(name) for name in Task.objects.values_list("name", flat=True)}
    assert kept == {0, *range(4, FAILURES_KEPT + 4)}


# -- the task ----------------------------------------------------------------------------------


@pytest.fixture
def script() -> Iterator[Script]:
    """A server of this run's data folder that answers as written."""
    with scripted_server() as server, DataFolder(settings.PROCESS.data_dir).hold() as held:
        held.publish(url=server.url, version="0.1.0")
        yield server


@pytest.fixture
def task() -> dict[str, Any]:
    """A task in the hands of a worker."""
    taken = a_task()
    pre_execute.send(sender="django_q", func=run_job, task=taken)
    return taken


def part(**numbers: Any) -> Reply:
    nothing = dict.fromkeys(("ran", "not_due", "running", "left", "failed"), 0)
    return ok(**{**nothing, "failures": [], "did": {}, **numbers})


def test_report_of_a_long_run_adds_up_its_parts(
    script: Script, task: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.tasks.PAUSE_SECONDS", 0.0)
    bring(listed("retention", 3_600.0), node=Conf.CLUSTER_NAME)
    Schedule.objects.update(minutes=7)
    script.will_answer(
        part(ran=3, not_due=2, left=4, did={"kept": 3, "dropped": 1}),
        part(ran=2, not_due=5, running=2, did={"kept": 2}),
        part(ran=0, not_due=9),
    )
    report = run_job("retention")
    did = {"kept": 5, "dropped": 1}
    assert report == {"job": "retention", "ran": 5, "not_due": 2, "failed": 0, "did": did}
    assert [asked.body for asked in script.asked] == [
        {"job": "retention", "interval_seconds": 420}
    ] * 3
    assert all("lambo-operator" in asked.headers for asked in script.asked)
    assert Failure.objects.get().pk == task["id"]


def test_run_that_failed_in_a_session_says_where_and_is_a_failure(
    script: Script, task: dict[str, Any]
) -> None:
    failure = {"session": "shop", "code": "internal_error", "message": "no luck"}
    script.will_answer(part(ran=1, left=1, failed=1, failures=[failure]), part(ran=1, not_due=2))
    with pytest.raises(JobFailed, match="retention failed in session 'shop': no luck") as caught:
        run_job("retention")
    assert (caught.value.fields["ran"], caught.value.fields["failed"]) == (2, 1)
    assert Failure.objects.get().pk == task["id"]


# -- pages -------------------------------------------------------------------------------------


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("olga", password="x"))
    return client


def test_schedule_can_be_changed_and_never_pointed_at_another_function(admin: Client) -> None:
    """Its function may be any of Python's: to edit that would be to run anything."""
    bring(listed("retention", 3_600.0))
    row = Schedule.objects.get()
    address = f"/admin/django_q/schedule/{row.pk}/change/"
    assert admin.get(address).status_code == 200
    given = {
        "schedule_type": "I",
        "minutes": "5",
        "repeats": "-1",
        "next_run_0": "2026-03-01",
        "next_run_1": "13:00:00",
        "func": "os.system",
        "args": "'true'",
        "kwargs": "x=1",
        "hook": "os.abort",
        "cluster": OTHER,
        "name": "evaluate",
    }
    assert admin.post(address, given).status_code == 302
    row.refresh_from_db()
    assert (row.minutes, row.func, row.args) == (5, TASK, "'retention'")
    assert (row.name, row.cluster, row.kwargs, row.hook) == ("retention", NODE, None, None)
    assert admin.get("/admin/django_q/schedule/add/").status_code == 403


def test_runs_can_be_read(admin: Client) -> None:
    good, bad = a_task(), a_task()
    begin_attempt(good)
    end(good, success=True, result="a report of what was done")
    begin_attempt(bad)
    end(bad, success=False, result="why it did not work")
    for kind, task, told in (
        ("success", good, "a report of what was done"),
        ("failure", bad, "why it did not work"),
    ):
        assert task["name"] in admin.get(f"/admin/django_q/{kind}/").content.decode()
        page = admin.get(f"/admin/django_q/{kind}/{task['id']}/change/")
        assert told in page.content.decode()
    assert admin.get("/admin/django_q/ormq/").status_code == 200


def test_pages_of_the_calendar_need_no_network(admin: Client) -> None:
    bring(listed("retention", 3_600.0))
    page = admin.get("/admin/django_q/schedule/").content.decode()
    assert "retention" in page
    assert "/static/admin/css/base.css" in page
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)
