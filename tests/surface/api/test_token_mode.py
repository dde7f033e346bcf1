"""Every door of a server in token mode, tried by every kind of caller: nothing leaks or changes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib import admin
from pytest_django import Settings

from lambo_site.api import api
from mcp_bridge.tools import VERB_BY_TOOL
from memory.engine.rights import Scope
from memory.verbs import VERBS
from memory.version import VERSION
from surface.api.callers import ARGUMENTS, BASE, OPERATOR, OPERATOR_SECRET, error_of
from surface.api.token_world import (
    MCP_METHODS,
    OURS,
    SECRET_TEXT,
    THEIRS,
    TOOL_ARGUMENTS,
    TokenWorld,
    token_world,
)

STRANGERS = [
    *("nobody", "wrong", "unknown", "garbled", "basic", "bare", "expired", "revoked"),
    *("wrong secret", "forwarded secret"),
]
SESSION_VERBS = [name for name, verb in VERBS.items() if "{session}" in verb.path]
SERVER_VERBS = [name for name, verb in VERBS.items() if verb.is_server_wide]


@pytest.fixture
async def world(tmp_path: Path, settings: Settings) -> AsyncIterator[TokenWorld]:
    async with token_world(tmp_path, settings) as made:
        yield made


def operations() -> set[tuple[str, str]]:
    return {
        (method.upper(), path)
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method in methods
    }


def is_silent(response: httpx.Response) -> bool:
    """Whether an answer tells nothing of what is stored, or of the server."""
    told = [SECRET_TEXT, "users need tokens", VERSION, "0000000000aa", OPERATOR_SECRET]
    return not any(text in response.text + str(response.headers) for text in told)


# -- callers that are not recognised -----------------------------------------------------------


@pytest.mark.parametrize("kind", STRANGERS)
async def test_stranger_is_turned_away_at_every_route(world: TokenWorld, kind: str) -> None:
    before, caller = await world.picture(), world.callers[kind]
    assert {(v.method, BASE + v.path) for v in VERBS.values()} == operations()
    answers = [
        await world.call(name, caller, session=session)
        for name in VERBS
        for session in (OURS, THEIRS, "nowhere", "*", "a%2Fb", "x" * 300)
    ]
    for path in ("openapi.json", "docs", "nowhere", "", "sessions/", "tokens/x", "../admin"):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
            answer = await world.client.request(method, f"{BASE}/{path}", headers=caller)
            answers += [answer] if answer.url.path.startswith("/api/") and method != "HEAD" else []
    assert {answer.status_code for answer in answers} == {401}
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {"Bearer"}
    assert len({answer.text for answer in answers}) == 1
    assert error_of(answers[0])["code"] == "unauthenticated"
    assert await world.picture() == before


async def test_every_stranger_gets_the_same_words(world: TokenWorld) -> None:
    answers = [await world.call("recall", world.callers[kind]) for kind in STRANGERS]
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("kind", STRANGERS)
async def test_stranger_is_turned_away_from_every_tool_and_method(
    world: TokenWorld, kind: str
) -> None:
    before, caller = await world.picture(), world.callers[kind]
    assert set(TOOL_ARGUMENTS) == set(VERB_BY_TOOL)
    answers = [
        await world.tool(tool, caller, session=session, agent_id="ann")
        for tool in TOOL_ARGUMENTS
        for session in (OURS, THEIRS, "nowhere")
    ]
    answers += [await world.mcp(method, {}, caller) for method in MCP_METHODS]
    assert {answer.status_code for answer in answers} == {401}
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {"Bearer"}
    assert len({answer.text for answer in answers}) == 1
    assert answers[0].json()["error"]["data"]["code"] == "unauthenticated"
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        refused = await world.client.request(method, f"/mcp/{THEIRS}", headers=caller)
        assert refused.status_code == 405
        assert is_silent(refused)
    assert await world.picture() == before


@pytest.mark.parametrize("kind", ["nobody", "reader", "whole", "revoked"])
async def test_pages_and_signs_of_life_tell_nothing(world: TokenWorld, kind: str) -> None:
    """A token opens no page: people log in."""
    before, caller = await world.picture(), world.callers[kind]
    site = [f"/admin/{meta.app_label}/{meta.model_name}/" for meta in _models()]
    closed = ["/", "/admin/", *site, *(f"{path}add/" for path in site), "/admin/password_change/"]
    for path in closed:
        for method in ("GET", "POST"):
            answer = await world.client.request(method, path, headers=caller)
            assert answer.status_code in (302, 403), (method, path)
            assert is_silent(answer)
    for path in ("/healthz", "/readyz"):
        answer = await world.client.get(path, headers=caller)
        assert answer.status_code == 200
        assert set(answer.json()) == {"status"}
    for path in ("/nowhere", "/static/../manage.py", "/static/nowhere.js", "/lambo.sqlite3"):
        answer = await world.client.get(path, headers=caller)
        assert answer.status_code == 404
        assert is_silent(answer)
    open_to_all = await world.client.get("/static/admin/css/base.css", headers=caller)
    assert open_to_all.status_code == 200
    assert is_silent(open_to_all)
    assert await world.picture() == before


def _models() -> list[Any]:
    """Names of what the admin shows."""
    return [model._meta for model in admin.site._registry]


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
async def test_foreign_pages_are_refused_with_a_good_token_too(
    world: TokenWorld, headers: dict[str, str]
) -> None:
    caller = {**world.callers["whole"], **headers}
    assert (await world.call("stats", caller)).status_code == 403
    assert (await world.mcp("ping", {}, caller)).status_code in (403, 421)
    assert (await world.client.get("/healthz", headers=headers)).status_code == 403


async def test_proxy_may_hand_a_token_on(world: TokenWorld) -> None:
    caller = {**world.callers["whole"], "X-Forwarded-For": "192.0.2.9"}
    assert (await world.call("stats", caller)).status_code == 200
    assert (await world.mcp("ping", {}, caller)).status_code == 200


OLD = {"concepts": [{"content": "old", "concept_type": "logic"}]}


# -- callers of less than everything -----------------------------------------------------------


async def test_whole_token_may_do_everything_in_its_own_name(world: TokenWorld) -> None:
    """So a refusal in the other tests is the refusal of a call that would have worked."""
    caller = world.callers["whole"]
    named = {"token-revoke": {"id": world.ids["reader"]}, "receipt": {"key": "mine"}}
    written = await world.call("derive", {**caller, "Idempotency-Key": "mine"})
    assert written.status_code == 200, written.text
    await world.call("derive", caller, arguments=OLD)
    gone = await world.call("retract", caller, arguments={"concept": "old"})
    named["restore"] = {"id": gone.json()["target"]}
    for name in ARGUMENTS:
        answer = await world.call(name, caller, arguments=named.get(name))
        assert answer.status_code == 200, (name, answer.text)
    for tool in TOOL_ARGUMENTS:
        told = (await world.tool(tool, caller)).json()["result"]
        assert not told.get("isError"), (tool, told)


async def test_reader_reads_and_changes_nothing(world: TokenWorld) -> None:
    before, caller = await world.picture(), world.callers["reader"]
    for name, verb in VERBS.items():
        named = {"receipt": {"key": "none of mine"}}
        for session in (THEIRS, "nowhere"):
            answer = await world.call(name, caller, session=session, arguments=named.get(name))
            if verb.scope is Scope.READ:
                assert answer.status_code in (200, 404), (name, answer.text)
            else:
                assert answer.status_code == 403, (name, answer.text)
                assert error_of(answer)["code"] == "forbidden"
                assert is_silent(answer)
    for tool, verb_name in VERB_BY_TOOL.items():
        told = (await world.tool(tool, caller)).json()["result"]
        assert bool(told.get("isError")) == (VERBS[verb_name].scope is not Scope.READ)
        if told.get("isError"):
            assert told["structuredContent"]["error"]["code"] == "forbidden"
    released = await world.tool("lambo_reserve", caller, release=True)
    assert released.json()["result"]["isError"]
    assert await world.picture() == before


async def test_session_outside_the_pattern_is_not_there(world: TokenWorld) -> None:
    """Asked for by name, with any verb: answered like a session that does not exist."""
    before, caller = await world.picture(), world.callers["neighbour"]
    for name in SESSION_VERBS:
        arguments = {"focus": SECRET_TEXT} if name == "inspect" else None
        real = await world.call(name, caller, session=THEIRS, arguments=arguments)
        unreal = await world.call(name, caller, session="nowhere", arguments=arguments)
        assert real.status_code == unreal.status_code == 404, (name, real.text)
        assert error_of(real)["code"] == "session_not_found"
        assert real.text.replace(THEIRS, "nowhere") == unreal.text
        assert is_silent(real)
    for taken in (THEIRS, "nowhere"):
        made = await world.call("session-create", caller, arguments={"session": taken})
        assert error_of(made)["code"] == "session_not_found"
    for name in SERVER_VERBS:
        assert (await world.call(name, caller)).status_code == 403
    for tool in TOOL_ARGUMENTS:
        real = await world.tool(tool, caller, session=THEIRS)
        unreal = await world.tool(tool, caller, session="nowhere")
        assert real.status_code == unreal.status_code == 404
        assert real.text.replace(THEIRS, "nowhere") == unreal.text
    for method in MCP_METHODS:
        assert (await world.mcp(method, {}, caller)).status_code == 404
    assert await world.picture() == before


async def test_layer_outside_the_pattern_is_not_there(world: TokenWorld) -> None:
    """By HTTP and by tool: answered like a layer that does not exist."""
    before, caller = await world.picture(), world.callers["neighbour"]

    def layered(name: str) -> dict[str, Any]:
        return {"query": SECRET_TEXT, "layers": [{"session": name, "min_similarity": 0}]}

    answers = [
        await world.call("recall", caller, session=OURS, arguments=layered(name))
        for name in (THEIRS, "nowhere")
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].text.replace(THEIRS, "nowhere") == answers[1].text
    assert SECRET_TEXT not in answers[0].text
    tools = [
        await world.tool("lambo_recall", caller, session=OURS, **layered(name))
        for name in (THEIRS, "nowhere")
    ]
    assert tools[0].text.replace(THEIRS, "nowhere") == tools[1].text
    assert not tools[0].json()["result"]["isError"]
    assert await world.picture() == before


async def test_list_of_sessions_names_those_of_the_pattern_alone(world: TokenWorld) -> None:
    for name in ("a-1", "s2", "zz"):
        await world.call("session-create", OPERATOR, arguments={"session": name})
    await world.make("several", sessions=["s*", "a-*"])
    seen, after = [], ""
    while True:
        page = await world.call(
            "session-list", world.callers["several"], arguments={"limit": "1", "after": after}
        )
        assert THEIRS not in page.text
        assert "zz" not in page.text
        seen += [row["session"] for row in page.json()["sessions"]]
        after = page.json()["next"]
        if after is None:
            break
    assert seen == ["a-1", "s", "s2"]
    await world.make("lost", sessions=["none-*"])
    empty = (await world.call("session-list", world.callers["lost"])).json()
    assert (empty["sessions"], empty["next"], empty["text"]) == ([], None, "no sessions")
    refused = await world.call("session-list", world.callers["lost"], arguments={"limit": "0"})
    assert refused.status_code == 422


async def test_node_of_another_session_is_not_reached_by_its_id(world: TokenWorld) -> None:
    asked = {"focus": SECRET_TEXT, "agent_id": "olga"}
    found = await world.call("inspect", OPERATOR, session=THEIRS, arguments=asked)
    node = found.json()["focus"]["node_id"]
    before, caller = await world.picture(), world.callers["neighbour"]
    for session in (OURS, THEIRS):
        for verb, field in (("inspect", "focus"), ("reserve", "node_id"), ("retract", "concept")):
            answer = await world.call(verb, caller, session=session, arguments={field: node})
            assert answer.status_code == 404
            assert is_silent(answer)
    cites = [{"content": "a claim", "concept_type": "entity", "depends_on": [node]}]
    cited = await world.call("derive", caller, arguments={"concepts": cites})
    assert error_of(cited)["code"] == "unresolved_reference"
    assert await world.picture() == before


@pytest.mark.parametrize("name", VERBS)
async def test_token_cannot_speak_as_another_agent(world: TokenWorld, name: str) -> None:
    before, caller = await world.picture(), world.callers["whole"]
    in_arguments = await world.call(name, caller, arguments={**ARGUMENTS[name], "agent_id": "ann"})
    in_header = await world.call(name, {**caller, "Lambo-Agent": "ann"})
    for answer in (in_arguments, in_header):
        assert answer.status_code == 403, answer.text
        assert error_of(answer)["code"] == "forbidden"
    assert await world.picture() == before


@pytest.mark.parametrize("tool", TOOL_ARGUMENTS)
async def test_tool_cannot_be_used_as_another_agent(world: TokenWorld, tool: str) -> None:
    before, caller = await world.picture(), world.callers["whole"]
    told = (await world.tool(tool, caller, agent_id="ann")).json()["result"]
    assert told["structuredContent"]["error"]["code"] == "forbidden"
    assert await world.picture() == before


async def test_write_is_attributed_to_the_agent_of_the_token(world: TokenWorld) -> None:
    await world.tool("lambo_derive", world.callers["whole"], session=OURS)
    asked = {"query": "intruder"}
    shown = (await world.call("recall", world.callers["reader"], arguments=asked)).json()["context"]
    assert "by whole" in shown
    await world.make("host", may_act_for_others=True)
    spoken = await world.tool(
        "lambo_reserve",
        world.callers["host"],
        session=OURS,
        agent_id="zoe",
        concept="intruder was here",
    )
    assert spoken.json()["result"]["structuredContent"]["agent_id"] == "zoe"


async def test_time_of_an_event_is_taken_from_everybody(world: TokenWorld) -> None:
    """Whether it dates evidence is another question, see the tests of the service."""
    await world.make("writer", scopes=["read", "write"])
    dated = {**ARGUMENTS["derive"], "event_time": "2020-01-01T00:00:00Z"}
    assert (await world.call("derive", world.callers["writer"], arguments=dated)).status_code == 200
    told = await world.tool(
        "lambo_derive", world.callers["writer"], event_time="2020-01-01T00:00:00Z"
    )
    assert not told.json()["result"]["isError"]


async def test_revoked_token_opens_nothing_from_the_answer_on(world: TokenWorld) -> None:
    caller = world.callers["reader"]
    assert (await world.call("stats", caller)).status_code == 200
    await world.call("token-revoke", OPERATOR, arguments={"id": world.ids["reader"]})
    assert (await world.call("stats", caller)).status_code == 401
    assert (await world.mcp("ping", {}, caller)).status_code == 401


async def test_tools_do_not_ask_for_a_name_that_the_token_has(world: TokenWorld) -> None:
    listed = (await world.mcp("tools/list", {}, world.callers["reader"])).json()["result"]
    required = [
        name for tool in listed["tools"] for name in tool["inputSchema"].get("required", [])
    ]
    assert "query" in required
    assert "agent_id" not in required


# -- many at once, and what is written down ----------------------------------------------------


async def test_calls_in_flight_never_show_the_other_session(world: TokenWorld) -> None:
    await world.make("left", sessions=["left"])
    await world.make("right", sessions=["right"])

    async def work(number: int) -> tuple[str, str]:
        mine = "left" if number % 2 else "right"
        caller = world.callers[mine]
        content = f"the {mine} session knows fact number {number}"
        concepts = [{"content": content, "concept_type": "entity"}]
        shown = [
            await world.call("derive", caller, session=mine, arguments={"concepts": concepts}),
            await world.call("recall", caller, session=mine, arguments={"query": "fact session"}),
            await world.tool("lambo_recall", caller, session=mine, query="fact session"),
            await world.call("inspect", caller, session=mine, arguments={"focus": content}),
            await world.call("session-list", caller),
        ]
        assert [answer.status_code for answer in shown] == [200] * 5
        return mine, "\n".join(answer.text for answer in shown)

    for mine, text in await asyncio.gather(*(work(number) for number in range(50))):
        other = "left" if mine == "right" else "right"
        assert f"the {mine} session" in text
        assert f"the {other} session" not in text
        assert f'"{other}"' not in text


async def test_secrets_are_in_no_log_and_in_no_answer_but_the_first(
    world: TokenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    for caller in world.callers.values():
        told.append(await world.call("token-list", caller))
        told.append(await world.call("derive", caller, arguments={"concepts": "wrong"}))
        told.append(await world.mcp("initialize", {"bad": 1}, caller))
    pasted = await world.call(
        "token-revoke",
        OPERATOR,
        arguments={"id": world.callers["whole"]["Authorization"].partition(" ")[2]},
    )
    assert pasted.status_code == 422
    told.append(pasted)
    said = "\n".join([caplog.text, *(answer.text for answer in told)])
    assert len(world.secrets) >= 5
    for secret in [*world.secrets, OPERATOR_SECRET]:
        assert secret not in said


async def test_document_says_that_a_token_is_asked_for(world: TokenWorld) -> None:
    answer = await world.client.get(f"{BASE}/openapi.json", headers=world.callers["reader"])
    schemes = json.loads(answer.text)["components"]["securitySchemes"]
    assert schemes == {"token": {"type": "http", "scheme": "bearer"}}
