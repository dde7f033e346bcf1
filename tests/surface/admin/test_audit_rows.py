"""The audit trail in the admin: found, read, exported, and changed by nobody."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver

from lambo_site.databases import DJANGO, ENGINE_READER
from memory.browser import export as exporting
from memory.browser import records
from memory.models import AuditEvent
from surface.admin.pages_world import (
    EVIDENCE,
    SECOND,
    START,
    add_audit_row,
    add_concept,
    audit_row,
    browsing,
    node_id,
    person,
)

LIST = "/admin/memory/auditevent/"
LOOKING_STATEMENTS = 2
"""Of Django's own tables: the log-in session and its person."""


@pytest.fixture
def chief() -> Client:
    return browsing(person("chief", is_superuser=True))


@pytest.fixture
def trail() -> None:
    add_concept(11, "The user schema")
    add_concept(12, "The login handler")
    add_audit_row(101, node=11, detail=EVIDENCE)
    add_audit_row(102, node=11, from_status="Candidate", to_status="Venerable")
    add_audit_row(
        103, node=12, kind="confirm", from_status=None, to_status=None, actor="admin:olga"
    )
    add_audit_row(
        104, node=99, kind="retract", to_status=None, actor="admin:olga", reason="superseded by v2"
    )
    add_audit_row(105, node=12, session_id="other", occurred_at=START + 86_400 * SECOND)


def listed(client: Client, **query: str) -> list[str]:
    """The ids of the rows of a list, as its links name them."""
    page = client.get(LIST, query)
    assert page.status_code == 200, (page.status_code, page.headers)
    return re.findall(rf'href="{LIST}([0-9a-f-]+)/change/', page.content.decode())


def ids(*numbers: int) -> list[str]:
    return [node_id(number) for number in numbers]


# -- finding -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("trail")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [105, 104, 103, 102, 101]),
        ({"session": "shop"}, [104, 103, 102, 101]),
        ({"session": "nowhere"}, []),
        ({"kind__exact": "confirm"}, [103]),
        ({"change": "promotions"}, [105, 102, 101]),
        ({"change": "removals"}, [104]),
        ({"change": "people"}, [104, 103]),
        ({"to_status__exact": "Venerable"}, [102]),
        ({"reason": "SUPERSEDED"}, [104]),
        ({"actor": "admin:olga"}, [104, 103]),
        ({"actor": "olga"}, []),
        ({"since": "2026-01-02"}, [105]),
        ({"until": "2026-01-01"}, [104, 103, 102, 101]),
        ({"since": "2026-01-01", "until": "2026-01-02", "session": "other"}, [105]),
        ({"q": node_id(11)}, [102, 101]),
        ({"q": node_id(104)}, [104]),
        ({"q": "olga"}, [104, 103]),
        ({"q": "by v2"}, [104]),
        ({"q": "login handler"}, []),
        ({"q": "login handler", "session": "shop"}, [103]),
        ({"q": "user schema", "session": "shop", "to_status__exact": "Candidate"}, [101]),
    ],
)
def test_list_is_narrowed(chief: Client, query: dict[str, str], found: list[int]) -> None:
    assert listed(chief, **query) == ids(*found)


@pytest.mark.usefixtures("trail")
def test_lost_status_is_a_demotion_and_no_promotion(chief: Client) -> None:
    add_audit_row(106, node=11, from_status="Canonical", to_status="None", reason="Budget")
    assert listed(chief, change="demotions") == ids(106)
    assert listed(chief, change="promotions") == ids(105, 102, 101)


@pytest.mark.usefixtures("trail")
@pytest.mark.parametrize("query", [{"since": "yesterday"}, {"p": "-3"}, {"nothing": "1"}])
def test_address_that_means_nothing_leads_back_to_the_list(
    chief: Client, query: dict[str, str]
) -> None:
    page = chief.get(LIST, query)
    assert page.status_code in (200, 302)
    if page.status_code == 302:
        assert page["Location"].endswith("?e=1")


@pytest.mark.usefixtures("trail")
def test_filters_keep_each_other(chief: Client) -> None:
    """A form that forgot the others would widen the list it was meant to narrow."""
    page = chief.get(LIST, {"session": "shop", "q": "olga"}).content.decode()
    forms = re.findall(r'<form method="get" class="lambo-filter">.*?</form>', page, re.DOTALL)
    assert len(forms) == 4
    by_day = next(form for form in forms if 'name="since"' in form)
    assert '<input type="hidden" name="session" value="shop">' in by_day
    assert '<input type="hidden" name="q" value="olga">' in by_day


@pytest.mark.parametrize("rows", [5, 100])
def test_list_costs_the_same_number_of_statements_however_long_it_is(
    chief: Client, rows: int
) -> None:
    for number in range(5):
        add_concept(11 + number, f"Concept {number}")
    AuditEvent.objects.bulk_create(
        [audit_row(1000 + number, node=11 + number % 5) for number in range(rows)]
    )
    chief.get(LIST)
    with (
        CaptureQueriesContext(connections[ENGINE_READER]) as asked,
        CaptureQueriesContext(connections[DJANGO]) as own,
    ):
        assert len(listed(chief)) == rows
    statements = [query["sql"] for query in asked.captured_queries]
    assert len(statements) == 3, statements  # a bounded count, the rows, what the concepts say
    assert len(own.captured_queries) == LOOKING_STATEMENTS
    assert all(
        "COUNT(" not in one or f"LIMIT {records.LIST_ROWS_MAX + 1}" in one for one in statements
    )


@pytest.mark.parametrize(
    "query", [{}, {"session": "shop"}, {"p": "2"}, {"session": "shop", "p": "2"}]
)
def test_list_is_read_in_the_order_of_an_index(chief: Client, query: dict[str, str]) -> None:
    """Sorting a hundred thousand rows for a page of a hundred is what makes a list slow."""
    AuditEvent.objects.bulk_create([audit_row(1000 + number) for number in range(150)])
    with CaptureQueriesContext(connections[ENGINE_READER]) as asked:
        assert listed(chief, **query)
    for query_ in asked.captured_queries:
        sql = query_["sql"]
        with connections[ENGINE_READER].cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            plan = " | ".join(str(step[3]) for step in cursor.fetchall())
        assert "TEMP B-TREE" not in plan, (sql, plan)
        if query.get("session") and "audit_event" in sql:
            assert "SEARCH lambo_audit_event USING" in plan, (sql, plan)


def test_list_counts_no_further_than_it_pages(
    chief: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "LIST_ROWS_MAX", 150)
    AuditEvent.objects.bulk_create([audit_row(1000 + number) for number in range(151)])
    page = chief.get(LIST).content.decode()
    assert "More than 150 rows match" in page
    assert len(listed(chief, p="2")) == 50
    AuditEvent.objects.filter(id=node_id(1000)).delete()
    assert "More than" not in chief.get(LIST).content.decode()


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("trail")
def test_row_says_in_sentences_what_let_the_concept_through(chief: Client) -> None:
    with CaptureQueriesContext(connections[ENGINE_READER]) as asked:
        page = chief.get(f"{LIST}{node_id(101)}/change/").content.decode()
    assert len(asked.captured_queries) == 2  # the row, and what all concepts it names say
    for sentence in (
        "It has outlived 4 sweeps of garbage collection; 3 are needed.",
        "What rests on it comes from 9 other interactions; 3 are needed.",
        "Its support spans 0.818 of the session; 0.3 is needed.",
        "It was never demoted.",
        "What it rested on: 3 dependents",
        "2 more counted; the row lists the first.",
        "under Swarm",
    ):
        assert sentence in page
    dependent = f'<a href="/admin/memory/concept/{node_id(12)}/change/?session=shop">'
    assert f"{dependent}The login handler</a>" in page


@pytest.mark.parametrize(
    "detail",
    [
        '{"checks": [{"gate": "warp", "measured": 1, "bar": 2, "met": false}]}',
        '{"checks": [{"gate": "coverage", "measured": "much", "bar": 2}], "supports": 7}',
        '{"checks": 1, "support_count": "x", "lost_edges": [], "removal": {"a": 1}}',
        "[1, 2]",
        "no json",
    ],
)
def test_row_of_a_foreign_hand_is_shown_as_far_as_it_can_be_read(
    chief: Client, detail: str
) -> None:
    add_audit_row(101, node=11, detail=detail, texts="{", removed="[")
    page = chief.get(f"{LIST}{node_id(101)}/change/")
    assert page.status_code == 200
    if "warp" in detail:
        assert "warp: measured 1, bar 2." in page.content.decode()


def test_text_of_the_memory_is_shown_as_text(chief: Client) -> None:
    script = "<script>alert(1)</script>"
    add_concept(11, script)
    add_audit_row(101, node=11, reason=script, texts=json.dumps({"content": script}))
    for page in (chief.get(LIST), chief.get(f"{LIST}{node_id(101)}/change/")):
        assert script not in page.content.decode()
        assert "&lt;script&gt;alert(1)" in page.content.decode()


# -- nobody changes a row ----------------------------------------------------------------------


def addresses() -> Iterator[str]:
    """Every address below the audit rows, with an id in its place."""
    for pattern in admin.site._registry[AuditEvent].get_urls():
        path = str(pattern.pattern).replace("<path:object_id>", node_id(101))
        yield LIST + path.replace("<str:form>", "csv")


@pytest.mark.usefixtures("trail")
def test_superuser_can_neither_add_nor_change_nor_delete(chief: Client) -> None:
    before = list(AuditEvent.objects.order_by("id").values())
    looked_at = [*addresses(), *(f"{LIST}{word}/" for word in ("add", f"{node_id(101)}/delete"))]
    assert len(looked_at) >= 6
    form = {
        "actor": "mallory",
        "action": "delete_selected",
        "_selected_action": node_id(101),
        "post": "yes",
        "form-TOTAL_FORMS": "1",
        "form-INITIAL_FORMS": "1",
        "form-MAX_NUM_FORMS": "1",
        "form-0-id": node_id(101),
        "form-0-actor": "mallory",
        "_save": "Save",
        "_saveasnew": "1",
    }
    for address in looked_at:
        for method in ("post", "put", "patch", "delete"):
            answer = getattr(chief, method)(address, form if method == "post" else "")
            assert answer.status_code in (404, 405), (method, address, answer.status_code)
    assert list(AuditEvent.objects.order_by("id").values()) == before


@pytest.mark.usefixtures("trail")
def test_pages_offer_no_way_to_change_a_row(chief: Client) -> None:
    for address in (LIST, f"{LIST}{node_id(101)}/change/", "/admin/memory/"):
        page = chief.get(address).content.decode()
        assert "auditevent/add" not in page
        assert "delete_selected" not in page
        assert "_save" not in page
    rows = admin.site._registry[AuditEvent]
    request: Any = type("Asked", (), {"user": None})()
    assert not rows.has_add_permission(request)
    assert not rows.has_change_permission(request)
    assert not rows.has_delete_permission(request)
    assert not rows.actions


def test_there_is_no_other_address_for_the_rows() -> None:
    """The tests above know all of them."""
    named = {
        name
        for name in get_resolver().namespace_dict["admin"][1].reverse_dict
        if isinstance(name, str)
    }
    assert {name for name in named if name.startswith("memory_auditevent_")} == {
        "memory_auditevent_changelist",
        "memory_auditevent_change",
        "memory_auditevent_export",
        "memory_auditevent_restore",
    }


# -- files -------------------------------------------------------------------------------------


def body(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


@pytest.mark.usefixtures("trail")
def test_exported_rows_are_those_of_the_list(chief: Client) -> None:
    query = {"session": "shop", "actor": "admin:olga"}
    answer = chief.get(f"{LIST}export.json", query)
    rows = json.loads(body(answer))
    assert [row["id"] for row in rows] == listed(chief, **query) == ids(104, 103)
    assert rows[0]["reason"] == "superseded by v2"
    assert rows[0]["occurred_at"] == "2026-01-01T00:01:44Z"
    assert answer["Lambo-Truncated"] == "false"
    lines = list(csv.DictReader(io.StringIO(body(chief.get(f"{LIST}export.csv", query)))))
    assert [line["id"] for line in lines] == ids(104, 103)
    assert lines[0]["reason"] == "superseded by v2"
    assert lines[1]["reason"] == ""


@pytest.mark.usefixtures("trail")
def test_export_holds_evidence_and_no_text_that_may_have_to_go(chief: Client) -> None:
    add_audit_row(106, node=11, texts='{"content": "secret"}', removed='{"content": "secret"}')
    rows = json.loads(body(chief.get(f"{LIST}export.json")))
    assert "secret" not in json.dumps(rows)
    assert rows[-1]["detail"] == EVIDENCE
    assert not {"texts", "removed"} & rows[0].keys()


def test_rows_of_a_session_are_sorted_once_for_the_whole_export(
    chief: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice of a session's rows sorted all that were left: half a minute for 100,000."""
    monkeypatch.setattr(exporting, "SLICE_ROWS", 50)
    AuditEvent.objects.bulk_create([audit_row(1000 + number) for number in range(175)])
    with CaptureQueriesContext(connections[ENGINE_READER]) as asked:
        rows = json.loads(body(chief.get(f"{LIST}export.json", {"session": "shop"})))
    assert [row["id"] for row in rows] == ids(*reversed(range(1000, 1175)))
    plans = []
    for query in asked.captured_queries:
        if 'FROM "lambo_audit_event"' in query["sql"]:
            with connections[ENGINE_READER].cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
                plans.append(" | ".join(str(step[3]) for step in cursor.fetchall()))
    slices = plans[-4:]
    assert all("(id=?)" in plan and "session_id" not in plan for plan in slices), plans
    assert not any("TEMP B-TREE" in plan for plan in slices), plans


def test_empty_export_is_a_document(chief: Client) -> None:
    assert json.loads(body(chief.get(f"{LIST}export.json"))) == []
    assert body(chief.get(f"{LIST}export.csv")).startswith("id,session_id,kind,")


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@sum(a1)", "\tx", "\rx", "  =1", "\n=1"])
def test_no_cell_of_a_table_begins_a_formula(chief: Client, formula: str) -> None:
    add_audit_row(101, node=11, reason=formula, actor=formula, session_id=formula)
    ((_, *_), line) = csv.reader(io.StringIO(body(chief.get(f"{LIST}export.csv")), newline=""))
    assert f"'{formula}" in line
    assert formula not in line


def test_export_is_bounded_and_says_so(chief: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "EXPORT_ROWS_MAX", 25)
    monkeypatch.setattr(exporting, "SLICE_ROWS", 10)
    AuditEvent.objects.bulk_create([audit_row(1000 + number) for number in range(26)])
    answer = chief.get(f"{LIST}export.json")
    assert [row["id"] for row in json.loads(body(answer))] == ids(*range(1025, 1000, -1))
    assert answer["Lambo-Truncated"] == "true"
    assert 'filename="audit-first-25.json"' in answer["Content-Disposition"]


def test_other_formats_and_senseless_filters_are_refused(chief: Client) -> None:
    assert chief.get(f"{LIST}export.exe").status_code == 404
    assert chief.get(f"{LIST}export.csv", {"since": "soon"}).status_code == 400


def test_a_row_of_a_token_leads_to_no_session(chief: Client) -> None:
    """It bears the name of the server's own chain, of which there is no page."""
    add_audit_row(
        106, node=None, kind="token-create", session_id="/server", from_status=None, to_status=None
    )
    assert "(the server)" in chief.get(LIST).content.decode()
    page = chief.get(f"{LIST}{node_id(106)}/change/").content.decode()
    assert "an act on the server" in page
    assert "memory/session//server" not in page
    assert "memory/session/_2Fserver" not in page
