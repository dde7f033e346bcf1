"""Who may do what in the admin: logins, groups, and acts that are asked of the server alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.test import Client
from django.urls import URLResolver
from django.utils import timezone
from django_q.models import Failure, OrmQ, Success, Task

from lambo_site.databases import DJANGO, ENGINE_WRITER
from memory.browser.acts import InsideTransaction, actor_name, ask, refuse_transaction
from memory.browser.leftovers import wire_arguments
from memory.client import ServerUnreachable
from memory.engine.requests import Caller
from memory.models import AuditEvent, Concept, DeadLetter, Lease, Receipt, Session, SetAside, Token
from surface.admin.pages_world import (
    START,
    add_audit_row,
    add_concept,
    add_session,
    browsing,
    node_id,
    person,
)

RECORDS = (AuditEvent, Concept, Session, Lease, DeadLetter, SetAside, Token)
CONCEPT, ROW, LETTER = (
    f"/admin/memory/concept/{node_id(11)}",
    f"/admin/memory/auditevent/{node_id(101)}",
    "/admin/memory/deadletter/1",
)
ACTS = {
    "confirm_concept": f"{CONCEPT}/confirm/",
    "retract_concept": f"{CONCEPT}/retract/",
    "purge_concept": f"{CONCEPT}/purge/",
    "restore_concept": f"{ROW}/restore/",
    "set_root_goal": "/admin/memory/session/shop/root-goal/",
    "retry_deadletter": f"{LETTER}/retry/",
    "add_token": "/admin/memory/token/create/",
    "revoke_token": "/admin/memory/token/0123456789abcdef/revoke/",
}
LISTS = [f"/admin/memory/{model._meta.model_name}/" for model in RECORDS]
READER_LISTS = [address for address in LISTS if "token" not in address]


@pytest.fixture(autouse=True)
def rows(databases: None) -> None:
    add_session()
    add_concept(11, "The user schema")
    add_audit_row(101, node=12, kind="retract", to_status=None, removed="{}", actor="admin:olga")
    DeadLetter.objects.create(
        id=1,
        session_id="shop",
        position=3,
        verb="derive",
        agent_id="ann",
        key="key-1",
        digest="d",
        arguments='{"concepts": []}',
        error="the store said no",
        created_at=START,
    )
    Token.objects.create(
        id="0123456789abcdef",
        name="ci",
        agent_id="ci",
        scopes='["read"]',
        session_patterns='["*"]',
        may_act_for_others=False,
        digest="not shown",
        created_at=START,
    )
    Receipt.objects.create(
        session_id="shop",
        agent_id="ann",
        key="key-2",
        verb="derive",
        digest="d",
        reply='{"summary": "kept"}',
        position=2,
        created_at=START,
    )


def allowed(client: Client) -> set[str]:
    """The acts whose page a person gets to see."""
    answers = {name: client.get(address).status_code for name, address in ACTS.items()}
    assert set(answers.values()) <= {200, 403}
    return {name for name, status in answers.items() if status == 200}


def test_groups_are_there_after_migrating() -> None:
    assert set(Group.objects.values_list("name", flat=True)) == {"reviewer", "operator"}


@pytest.mark.parametrize(
    ("groups", "acts"),
    [
        ([], set()),
        (["reviewer"], {"confirm_concept"}),
        (
            ["operator"],
            {
                "confirm_concept",
                "retract_concept",
                "restore_concept",
                "set_root_goal",
                "retry_deadletter",
            },
        ),
    ],
)
def test_group_may_do_what_its_name_says(groups: list[str], acts: set[str]) -> None:
    client = browsing(person("olga", *groups))
    assert allowed(client) == acts
    for name, address in ACTS.items():
        if name not in acts:
            assert client.post(address, {"key": "k"}).status_code == 403
    expected = 200 if groups else 403
    assert {client.get(address).status_code for address in READER_LISTS} == {expected}
    for name in ("success", "failure", "schedule"):
        runs = client.get(f"/admin/django_q/{name}/")
        assert runs.status_code == expected
        assert "resubmit_task" not in runs.content.decode()
    receipts = client.get("/admin/memory/session/shop/receipts/").status_code
    assert receipts == expected
    assert client.get("/admin/memory/token/").status_code == 403


def test_superuser_may_do_everything_but_change_rows() -> None:
    client = browsing(person("chief", is_superuser=True))
    assert allowed(client) == set(ACTS)
    for model, address in zip(RECORDS, LISTS, strict=True):
        assert client.get(address).status_code == 200
        assert client.post(address, {"action": "delete_selected"}).status_code == 405
        row: Any = model._default_manager.first()
        if row is not None:
            page = f"{address}{row.pk}/change/"
            assert client.get(page).status_code == 200
            assert client.post(page, {"_save": "1"}).status_code == 405
            assert client.post(f"{address}{row.pk}/delete/", {"post": "yes"}).status_code in (
                404,
                405,
            )


@pytest.mark.parametrize("address", [*LISTS, *ACTS.values(), "/admin/memory/auditevent/export.csv"])
def test_strangers_are_asked_to_log_in(address: str) -> None:
    answer = Client().get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/admin/login/?next=")


def test_every_address_of_the_admin_asks_who_is_there() -> None:
    """The log-in page, what it needs, and nothing else is for strangers."""
    open_to_all = {"login", "jsi18n", "logout"}
    asked = 0
    for name, address in addresses_of(admin.site.urls[0], "/admin/"):
        if name in open_to_all:
            continue
        for method in ("get", "post"):
            answer = getattr(Client(), method)(address)
            assert answer.status_code == 302, (method, address)
            assert answer["Location"].startswith("/admin/login/?next="), (method, address)
        asked += 1
    assert asked > 40


def addresses_of(patterns: Any, prefix: str) -> Iterator[tuple[str | None, str]]:
    """Every address below some patterns, with something in the place of what varies."""
    for one in patterns:
        part = re.sub(r"<\w+:\w+>", "1", str(one.pattern))
        part = re.sub(r"^\^|\(\?P<\w+>(\w+)\|?.*?\)|[$\\]", r"\1", part)
        if isinstance(one, URLResolver):
            yield from addresses_of(one.url_patterns, prefix + part)
        else:
            yield one.name, prefix + part


def test_login_without_a_place_in_the_team_opens_nothing() -> None:
    user = person("guest")
    user.is_staff = False
    user.save()
    assert browsing(user).get(LISTS[0]).status_code == 302


@pytest.mark.parametrize("address", sorted(ACTS.values()))
def test_form_of_another_page_is_refused(address: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("chief", is_superuser=True))
    assert client.post(address, {"key": "k"}).status_code == 403


@pytest.mark.parametrize("address", sorted(set(ACTS.values()) - {ACTS["add_token"]}))
def test_act_without_a_server_changes_nothing_and_says_so(address: str) -> None:
    client = browsing(person("chief", is_superuser=True))
    answer = client.post(address, {"key": "k", "is_sure": "on"})
    assert answer.status_code == 409
    assert "no server runs on the data folder" in answer.content.decode()
    assert not LogEntry.objects.exists()


def test_purge_asks_for_one_step_more() -> None:
    client = browsing(person("chief", is_superuser=True))
    assert client.post(ACTS["purge_concept"], {"key": "k"}).status_code == 422


def test_pages_show_no_digest_of_a_token() -> None:
    client = browsing(person("chief", is_superuser=True))
    for address in ("/admin/memory/token/", "/admin/memory/token/0123456789abcdef/change/"):
        assert "not shown" not in client.get(address).content.decode()


def test_session_says_when_live_figures_are_not_to_be_had() -> None:
    client = browsing(person("olga", "reviewer"))
    page = client.get("/admin/memory/session/shop/change/").content.decode()
    assert "Live figures are unavailable: no server runs on the data folder" in page
    removals = client.get("/admin/memory/session/shop/removals/").content.decode()
    assert "no server runs on the data folder" in removals


def test_receipts_are_paged_by_position() -> None:
    for number in range(150):
        Receipt.objects.create(
            session_id="shop", agent_id="ann", key=f"k{number}", verb="derive", digest="d",
            reply="{}", position=1000 + number, created_at=START,
        )  # fmt: skip
    client = browsing(person("olga", "reviewer"))
    address = "/admin/memory/session/shop/receipts/"
    first = client.get(address).content.decode()
    assert "k149" in first
    assert "<code>k49</code>" not in first
    assert '<a href="?before=1050">Older</a>' in first
    second = client.get(address, {"before": "1050"}).content.decode()
    assert "<code>k49</code>" in second
    assert "key-2" in second
    assert client.get(address, {"before": "soon"}).status_code == 200


@pytest.mark.parametrize("run", [Success, Failure])
def test_reader_of_runs_has_none_run_again(run: Any) -> None:
    now = timezone.now()
    row = Task.objects.create(
        id="1" * 32, name="retention", func="memory.tasks.run_job", args=("retention",),
        started=now, stopped=now, success=run is Success,
    )  # fmt: skip
    address = f"/admin/django_q/{run._meta.model_name}/"
    form = {"action": "resubmit_task", "_selected_action": row.pk}
    browsing(person("olga", "operator")).post(address, form)
    assert not OrmQ.objects.exists()
    assert Task.objects.filter(pk=row.pk).exists()
    browsing(person("chief", is_superuser=True)).post(address, form)
    assert OrmQ.objects.exists()


# -- acts are asked outside transactions -------------------------------------------------------


@pytest.mark.parametrize("alias", [DJANGO, ENGINE_WRITER])
def test_server_is_not_asked_inside_a_transaction(alias: str) -> None:
    user = person("olga", "operator")
    with transaction.atomic(using=alias), pytest.raises(InsideTransaction):
        ask(user, lambda client: client.stats("shop"))
    refuse_transaction()
    with pytest.raises(ServerUnreachable):
        ask(user, lambda client: client.stats("shop"))


def test_no_page_opens_a_transaction_on_the_engine() -> None:
    """It would take the write lock from the committer."""
    client = browsing(person("chief", is_superuser=True))
    begun: list[str] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        begun.append(sql)
        return execute(sql, params, many, context)

    with connections[ENGINE_WRITER].execute_wrapper(watch):
        for address in (*LISTS, *ACTS.values(), f"{CONCEPT}/change/", f"{ROW}/change/"):
            client.get(address)
            client.post(address, {"key": "k"})
    assert begun == []


@pytest.mark.parametrize("name", ["olga", "Zoë.Ünal+x@example", "a" * 150])
def test_every_login_has_a_name_the_audit_trail_takes(name: str) -> None:
    user = person(name)
    assert actor_name(user) == f"admin:{name}"
    Caller(actor_name(user))


# -- dead letters ------------------------------------------------------------------------------


def test_kept_request_goes_over_the_wire_as_it_came() -> None:
    kept = {
        "concepts": [
            {
                "content": "a",
                "concept_type": "Entity",
                "depends_on": ["b"],
                "against": [],
                "vector": None,
            }
        ],
        "parent_of": [["a", "b"]],
        "event_time": START,
        "vector_model": None,
    }
    assert wire_arguments(kept) == {
        "concepts": [
            {"content": "a", "concept_type": "entity", "depends_on": ["b"], "against": []}
        ],
        "parent_of": [{"parent": "a", "child": "b"}],
        "event_time": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"verb": None, "agent_id": None, "key": None}, "Nobody called for it"),
        ({"verb": "abolished"}, "no verb abolished"),
        ({"arguments": None}, "purged"),
        ({"arguments": "{"}, "cannot be read"),
        ({"arguments": "[]"}, "cannot be read"),
    ],
)
def test_letter_that_cannot_be_sent_again_says_why(columns: dict[str, Any], words: str) -> None:
    DeadLetter.objects.filter(id=1).update(**columns)
    client = browsing(person("olga", "operator"))
    page = client.get(f"{LETTER}/change/").content.decode()
    assert words in page
    assert "/retry/" not in page
    assert client.post(f"{LETTER}/retry/", {"key": "k"}).status_code == 404


def test_letter_that_was_carried_out_since_says_so() -> None:
    client = browsing(person("olga", "operator"))
    assert "carried out since" not in client.get(f"{LETTER}/change/").content.decode()
    Receipt.objects.filter(key="key-2").update(key="key-1")
    assert "carried out since" in client.get(f"{LETTER}/change/").content.decode()


def test_admin_knows_every_table_that_people_may_look_at() -> None:
    ours = {model for model in admin.site._registry if model._meta.app_label == "memory"}
    assert ours == set(RECORDS)
