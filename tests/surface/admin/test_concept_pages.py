"""Concepts in the admin: found, explained as far as it is known, drawn, and also when gone."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from lambo_site.databases import ENGINE_READER
from memory.browser import neighbourhood
from memory.browser.neighbourhood import NEIGHBOURS_MAX, PER_SIDE_MAX
from surface.admin.pages_world import (
    add_audit_row,
    add_concept,
    add_edge,
    add_session,
    browsing,
    node_id,
    person,
)

LIST = "/admin/memory/concept/"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def chief() -> Client:
    return browsing(person("chief", is_superuser=True))


def page_of(client: Client, number: int, **query: str) -> str:
    answer = client.get(f"{LIST}{node_id(number)}/change/", query)
    assert answer.status_code == 200
    return answer.content.decode()


def picture_of(page: str) -> ElementTree.Element:
    found = re.search(r'<svg class="lambo-picture".*?</svg>', page, re.DOTALL)
    assert found is not None
    return ElementTree.fromstring(found[0])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [14, 13, 12, 11]),
        ({"session": "shop"}, [13, 12, 11]),
        ({"status__exact": "Canonical"}, [12]),
        ({"concept_type__exact": "Logic"}, [13]),
        ({"agent": "bob"}, [13]),
        ({"radius": "6"}, [12]),
        ({"q": "LOGIN handler"}, [13]),
        ({"q": "handler login"}, []),
        ({"q": node_id(11)}, [11]),
        ({"session": "shop", "q": "schema"}, [12]),
    ],
)
def test_list_is_narrowed(chief: Client, query: dict[str, str], found: list[int]) -> None:
    add_concept(11, "The session cookie", blast_radius=5)
    add_concept(12, "The user schema", status="Canonical", blast_radius=15)
    add_concept(13, "The login handler", concept_type="Logic", origin_agent="bob")
    add_concept(14, "Of another team", session="other")
    page = chief.get(LIST, query)
    ids = re.findall(rf'href="{LIST}([0-9a-f-]+)/change/', page.content.decode())
    assert ids == [node_id(number) for number in found]


def test_radius_that_is_no_number_leads_back_to_the_list(chief: Client) -> None:
    for radius in ("-1", "many", "9" * 30):
        assert chief.get(LIST, {"radius": radius}).status_code == 302


def test_page_shows_ladder_trail_and_what_the_server_cannot_say(chief: Client) -> None:
    """No server runs on the data folder of these tests."""
    add_concept(11, "The user schema", status="Venerable")
    add_audit_row(101, node=11)
    add_audit_row(102, node=11, session_id="other")
    page = page_of(chief, 11)
    assert re.findall(r'aria-current="step">(\w+)<', page) == ["Venerable"]
    assert re.findall(r"<li[^>]*>(None|Candidate|Venerable|Canonical)<", page) == [
        "None", "Candidate", "Venerable", "Canonical",
    ]  # fmt: skip
    assert "Why is not known now: no server runs on the data folder" in page
    assert f"/admin/memory/auditevent/{node_id(101)}/change/" in page
    assert node_id(102) not in page


def test_neighbourhood_is_drawn_by_what_leans_on_what(chief: Client) -> None:
    add_concept(11, "schema")
    for number, label in ((12, "handler"), (13, "child"), (14, "database"), (15, "rival")):
        add_concept(number, label)
    add_edge(51, 12, 11)
    add_edge(52, 11, 13, "Hierarchical")
    add_edge(53, 11, 14)
    add_edge(54, 15, 11, "Contradicts")
    add_edge(55, 15, 11, "CoOccurrence")
    add_edge(56, 1, 11, "Derives")
    picture = picture_of(page_of(chief, 11))
    place = {
        str(link.get("href")).split("/")[4]: int(link.find(f".//{SVG}rect").get("x"))  # type: ignore[union-attr,arg-type]
        for link in picture.iter(f"{SVG}a")
    }
    assert place.keys() == {node_id(number) for number in (12, 13, 14, 15)}
    left, right = place[node_id(12)], place[node_id(14)]
    assert place[node_id(13)] == left < right
    words = picture.findtext(f"{SVG}desc")
    assert words is not None
    assert "On it rest: child (Hierarchical); handler (Dependency)." in words or (
        "On it rest: handler (Dependency); child (Hierarchical)." in words
    )
    assert "It rests on: database (Dependency)." in words
    assert "Also linked: rival" in words
    assert picture.findtext(f"{SVG}title") == "Around schema"
    assert picture.get("role") == "img"
    # An arrow points from what depends to what it depends on.
    lines = list(picture.iter(f"{SVG}line"))
    assert len(lines) == 3
    assert all(int(line.get("x1", "")) < int(line.get("x2", "")) for line in lines)


def test_picture_is_bounded_and_says_what_it_leaves_out(chief: Client) -> None:
    add_concept(11, "hub")
    for number in range(40):
        add_concept(100 + number, f"spoke {number}")
        add_edge(300 + number, 100 + number, 11)
    picture = picture_of(page_of(chief, 11))
    drawn = list(picture.iter(f"{SVG}a"))
    assert len(drawn) == PER_SIDE_MAX <= NEIGHBOURS_MAX
    assert "32 more are not drawn." in str(picture.findtext(f"{SVG}desc"))


def test_hub_is_read_in_part_and_says_so(chief: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhood, "EDGES_READ_MAX", 30)
    add_concept(11, "hub")
    add_edge(299, 11, 11, "Causal")
    for number in range(40):
        add_concept(100 + number, f"spoke {number}")
        add_edge(300 + number, 100 + number, 11)
    page = page_of(chief, 11)
    assert "It has more edges than were read for this picture." in page
    assert "hub (Causal)" not in page  # an edge to itself leads nowhere


def test_content_cannot_break_out_of_the_picture(chief: Client) -> None:
    forged = '</text><script>alert(1)</script>" onload="x'
    add_concept(11, forged)
    add_concept(12, f"{forged} again")
    add_edge(51, 12, 11)
    page = page_of(chief, 11)
    assert "<script>alert" not in page
    assert forged in "".join(picture_of(page).itertext())[:200]


@pytest.mark.parametrize("edges", [1, 30])
def test_page_costs_the_same_number_of_statements_however_much_is_around(
    chief: Client, edges: int
) -> None:
    add_concept(11, "hub")
    for number in range(edges):
        add_concept(100 + number, f"spoke {number}")
        add_edge(300 + number, 100 + number, 11)
        add_audit_row(500 + number, node=11)
    with CaptureQueriesContext(connections[ENGINE_READER]) as asked:
        page_of(chief, 11)
    assert len(asked.captured_queries) == 5  # it, edges out, edges in, their ends, its trail


def test_concept_that_is_gone_has_a_page_with_its_trail(chief: Client) -> None:
    removed = json.dumps({"concept": {"content": "the old schema"}})
    add_audit_row(101, node=11)
    add_audit_row(102, node=11, kind="retract", to_status=None, actor="admin:olga", removed=removed)
    page = page_of(chief, 11, session="shop")
    assert "It was taken out 2026-01-01T00:01:42Z by admin:olga (retract)." in page
    assert f"/admin/memory/auditevent/{node_id(102)}/restore/" in page
    assert f"/admin/memory/auditevent/{node_id(101)}/change/" in page


def test_purged_concept_is_not_offered_back(chief: Client) -> None:
    add_audit_row(102, node=11, kind="retract", to_status=None, actor="admin:olga")
    page = page_of(chief, 11, session="shop")
    assert "it cannot come back" in page
    assert "/restore/" not in page


@pytest.mark.parametrize("query", [{}, {"session": "shop"}, {"session": "other"}])
def test_concept_that_never_was_has_no_page(chief: Client, query: dict[str, str]) -> None:
    add_session()
    assert chief.get(f"{LIST}{node_id(77)}/change/", query).status_code == 404
    assert chief.get(f"{LIST}nonsense/change/", query).status_code == 404
