"""The pages a person meets first need no network, no session and no database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import AsyncClient, Client

from memory.version import VERSION
from source_tree import ROOT

STATIC = ROOT / "lambo_site" / "static" / "portal"
OURS = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".svg"))
NAMES_ONLY = {"http://www.w3.org/2000/svg"}
"""Addresses that name a language and are never asked for."""


async def test_portal_is_the_first_page_and_says_where_the_other_doors_are() -> None:
    answer = await AsyncClient().get("/")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert f"Lambo {VERSION}" in page
    for door in ("/api/v1/docs", "/mcp/", "/admin/", "lambo mcp --session"):
        assert door in page
    assert set(re.findall(r"https?://[^/<\s]+\d", page)) == {"http://127.0.0.1:7700"}


async def test_page_runs_nothing_but_files_of_this_server() -> None:
    answer = await AsyncClient().get("/")
    page = answer.content.decode()
    policy = dict(
        part.strip().split(" ", 1) for part in answer["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    for kind in ("script-src", "style-src", "connect-src", "worker-src", "form-action"):
        assert policy[kind] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", page) == []


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_files_of_the_portal_name_no_other_server(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.parent.name == "vendor":  # a package names its home in a comment
        text = text.split("\n", 1)[1]
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= NAMES_ONLY | {
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/XML/1998/namespace",
        "http://www.w3.org/2000/xmlns/",
    }


@pytest.mark.parametrize("path", ["admin/css/base.css", "ninja/swagger-ui.css"])
async def test_files_of_pages_are_served_whole_and_kept_by_browsers(path: str) -> None:
    client = AsyncClient()
    answer = await client.get(f"/static/{path}")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/css"
    assert int(answer["Content-Length"]) == len(answer.content) > 1000
    headers = {"if-modified-since": answer["Last-Modified"]}
    assert (await client.get(f"/static/{path}", headers=headers)).status_code == 304


@pytest.mark.parametrize("path", ["../settings.py", "admin/../../settings.py", "nothing.css"])
def test_nothing_else_is_served(path: str) -> None:
    assert Client().get(f"/static/{path}").status_code in (400, 404)


@pytest.mark.django_db
def test_admin_asks_who_is_there() -> None:
    answer = Client().get("/admin/")
    assert answer.status_code == 302
    assert answer["Location"] == "/admin/login/?next=/admin/"
