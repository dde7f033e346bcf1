"""The portal of a server that asks for tokens: two ways in, and out again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from admin_pages import PASSWORD, logged_in, make_people
from chromium import CHROMIUM, DRIVER, ENTER, browsing
from memory.client import LamboClient
from portal_page import Portal
from serving import RunningServer, serving

OURS, THEIRS = "shop", "vault"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("guarded")
    with serving(folder, LAMBO_AUTH="tokens") as running:
        with _operator(running) as client:
            for session in (OURS, THEIRS):
                client.derive(session, [{"content": f"{session} ground", "concept_type": "entity"}])
        yield running


def _operator(server: RunningServer) -> LamboClient:
    return LamboClient.local(
        server.data_dir, agent_id="ann", as_operator=True, always_operator=True
    )


def _token(server: RunningServer, *sessions: str) -> tuple[str, str]:
    """A fresh token that reads: its id and its text."""
    with _operator(server) as client:
        made = client.create_token(
            "watcher", agent="watcher", scopes=["read"], sessions=list(sessions)
        )["structured"]
    return made["id"], made["token"]


@pytest.mark.parametrize(("person", "status"), [("rita:reviewer", 200), ("root", 200)])
def test_login_of_the_admin_opens_the_portal(
    server: RunningServer, person: str, status: int
) -> None:
    make_people(server.data_dir, person)
    with logged_in(server.url, person.partition(":")[0]) as somebody:
        answer = somebody.http.get(f"/portal/sessions/{THEIRS}/overview")
        assert answer.status_code == status
        assert 'data-admin="/admin/"' in somebody.open("/")
        assert "Log out" not in somebody.open("/")  # there is no token to forget


def test_login_that_may_see_nothing_of_the_memory_opens_nothing(server: RunningServer) -> None:
    make_people(server.data_dir, "sam:reviewer")
    with logged_in(server.url, "sam") as sam:
        assert sam.http.get("/portal/sessions").status_code == 200
        _take_groups_away(server, "sam")
        assert sam.http.get("/portal/sessions").status_code == 401
        assert sam.http.get("/", follow_redirects=False).headers["Location"] == "/portal/login"


def _take_groups_away(server: RunningServer, name: str) -> None:
    with closing(sqlite3.connect(server.data_dir / "django.sqlite3")) as rows, rows:
        rows.execute(
            "DELETE FROM auth_user_groups WHERE user_id = "
            "(SELECT id FROM auth_user WHERE username = ?)",
            [name],
        )


@pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no chromium and chromedriver: apt-get install chromium chromium-driver",
)
def test_token_is_typed_in_once_and_ends_with_its_revocation(
    server: RunningServer, tmp_path: Path
) -> None:
    token_id, token = _token(server, OURS)
    with browsing(tmp_path / "profile") as browser:
        browser.go(f"{server.url}/")
        assert browser.url.endswith("/portal/login")
        browser.find("#token").fill(f"{token}x{ENTER}")
        assert browser.find("[role=alert]").text
        browser.find("#token").fill(token + ENTER)
        page = Portal(browser, server.url, OURS)
        browser.until(lambda: not browser.url.endswith("/portal/login"))
        page.until_live()
        assert page.graph_labels() == [f"{OURS} ground"]
        options = browser.run(
            "return [...document.querySelector('#session').options].map((o) => o.value)"
        )
        assert options == [OURS]
        assert token not in browser.run("return document.cookie")
        assert browser.find_all("a[href^='/admin']") == []
        assert page.accessibility_faults() == []
        with _operator(server) as client:
            client.derive(OURS, [{"content": "pushed", "concept_type": "entity"}])
        browser.until(lambda: "pushed" in page.graph_labels())
        with _operator(server) as client:
            client.revoke_token(token_id)
        # The stream is ended by the server, and the page finds that it has to ask again who it is.
        browser.until(lambda: browser.url.endswith("/portal/login"))


def test_nothing_is_told_without_a_login(server: RunningServer) -> None:
    with httpx.Client(base_url=server.url, trust_env=False) as stranger:
        for address in ("sessions", f"sessions/{OURS}/graph", f"sessions/{OURS}/events"):
            answer = stranger.get(f"/portal/{address}")
            assert answer.status_code == 401
            assert "ground" not in answer.text
        assert PASSWORD not in stranger.get("/portal/login").text
