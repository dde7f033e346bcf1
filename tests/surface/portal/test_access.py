"""Who may look where tokens are asked for, and that looking is all that is opened."""

from __future__ import annotations

import re

import pytest

from lambo_site.portal import callers
from surface.api.callers import OPERATOR
from surface.api.token_world import OURS, SECRET_TEXT, THEIRS, TokenWorld

PANELS = ("overview", "near", "promotions", "health", "graph", "events")
NEEDY = (f"reach?focus={'0' * 8}-0000-4000-8000-{'0' * 12}", "inspect?focus=a", "recall?query=a")


def _token_of(world: TokenWorld, kind: str) -> str:
    return world.callers[kind]["Authorization"].removeprefix("Bearer ")


async def _log_in(world: TokenWorld, token: str) -> int:
    """Type a token in, as a browser does; its cookies stay with the client."""
    page = await world.client.get("/portal/login")
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert found is not None
    answer = await world.client.post(
        "/portal/login",
        data={"token": token, "csrfmiddlewaretoken": found[1]},
        headers={"Origin": "http://127.0.0.1:7700"},
    )
    return answer.status_code


@pytest.mark.parametrize("name", [*PANELS, *NEEDY])
async def test_nothing_is_told_to_strangers(tokens: TokenWorld, name: str) -> None:
    answer = await tokens.client.get(f"/portal/sessions/{THEIRS}/{name}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
    assert SECRET_TEXT not in answer.text


async def test_page_leads_strangers_to_the_login(tokens: TokenWorld) -> None:
    answer = await tokens.client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/portal/login")
    assert (await tokens.client.get("/portal/sessions")).status_code == 401
    login = await tokens.client.get("/portal/login")
    assert "frame-ancestors 'none'" in login.headers["Content-Security-Policy"]


@pytest.mark.parametrize("kind", ["expired", "revoked", "wrong", "unknown"])
async def test_tokens_that_open_nothing_leave_no_cookie(tokens: TokenWorld, kind: str) -> None:
    assert await _log_in(tokens, _token_of(tokens, kind)) == 403
    assert callers.cookie_name() not in tokens.client.cookies


async def test_token_without_read_is_refused(tokens: TokenWorld) -> None:
    await tokens.make("writer", scopes=["write"])
    assert await _log_in(tokens, _token_of(tokens, "writer")) == 403


async def test_token_is_kept_out_of_reach_of_scripts_and_of_other_sites(
    tokens: TokenWorld,
) -> None:
    token = _token_of(tokens, "whole")
    assert await _log_in(tokens, token) == 302
    (cookie,) = (one for one in tokens.client.cookies.jar if one.name == callers.cookie_name())
    assert cookie.value == token
    kept = {name.lower(): value for name, value in cookie._rest.items()}  # type: ignore[attr-defined]
    assert "httponly" in kept
    assert kept["samesite"] == "Strict"
    for address in ("/", "/portal/sessions", f"/portal/sessions/{OURS}/overview"):
        answer = await tokens.client.get(address)
        assert answer.status_code == 200
        assert token not in answer.text


async def test_token_sees_its_own_sessions_alone(tokens: TokenWorld) -> None:
    assert await _log_in(tokens, _token_of(tokens, "neighbour")) == 302
    listed = (await tokens.client.get("/portal/sessions")).json()["sessions"]
    assert [one["session"] for one in listed] == [OURS]
    for name in (*PANELS, *NEEDY):
        for session in (THEIRS, "no-such-session"):
            answer = await tokens.client.get(f"/portal/sessions/{session}/{name}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (
                404,
                "session_not_found",
            )


async def test_cookie_of_the_portal_opens_nothing_else(tokens: TokenWorld) -> None:
    before = await tokens.picture()
    assert await _log_in(tokens, _token_of(tokens, "whole")) == 302
    for verb in ("stats", "derive", "retract", "token-list"):
        assert (await tokens.call(verb, {}, session=THEIRS)).status_code == 401
    assert (await tokens.client.get("/admin/")).status_code == 302
    assert await tokens.picture() == before


async def test_form_of_another_site_logs_nobody_in(tokens: TokenWorld) -> None:
    answer = await tokens.client.post(
        "/portal/login",
        data={"token": _token_of(tokens, "whole")},
        headers={"Origin": "http://127.0.0.1:7700"},
    )
    assert answer.status_code == 403
    assert callers.cookie_name() not in tokens.client.cookies


async def test_logging_out_forgets_the_token(tokens: TokenWorld) -> None:
    assert await _log_in(tokens, _token_of(tokens, "whole")) == 302
    page = await tokens.client.get("/")
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert found is not None
    await tokens.client.post(
        "/portal/logout",
        data={"csrfmiddlewaretoken": found[1]},
        headers={"Origin": "http://127.0.0.1:7700"},
    )
    assert (await tokens.client.get("/")).status_code == 302


async def test_revoked_token_opens_no_stream(tokens: TokenWorld) -> None:
    assert await _log_in(tokens, _token_of(tokens, "whole")) == 302
    revoked = await tokens.call("token-revoke", OPERATOR, arguments={"id": tokens.ids["whole"]})
    assert revoked.json()["revoked"] is True
    assert (await tokens.client.get(f"/portal/sessions/{OURS}/events")).status_code == 401
