"""The pages a person meets first need no network, no session and no database."""

from __future__ import annotations

import re

import pytest
from django.test import AsyncClient, Client

from memory.version import VERSION


def test_landing_page_says_what_this_is_and_where_the_doors_are() -> None:
    page = Client().get("/").content.decode()
    assert f"Lambo {VERSION}" in page
    for door in ("/api/v1/docs", "/mcp/", "/admin/", "lambo mcp --session"):
        assert door in page
    assert set(re.findall(r"https?://[^/<\s]+", page)) == {"http://127.0.0.1:7700"}


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
