"""The server through the SDK's own client, in memory, in both protocol generations."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Implementation, RequestParamsMeta, TextContent

from mcp_bridge.server import AgentNamer, build_server
from surface.mcp.stand_in import Calls, specs

MODES = ["legacy", "2026-07-28"]


def connect(
    calls: Calls, mode: str, agent: str | AgentNamer | None = None, session: str = "shop"
) -> Client:
    server = build_server(calls, specs(), session, agent, version="1.2")
    return Client(server, mode=mode, client_info=Implementation(name="tester", version="1"))


def text_of(result: CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_list_shows_seven_annotated_tools(mode: str) -> None:
    async with connect(Calls(), mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert len(tools) == 7
    recall, derive = tools["lambo_recall"].annotations, tools["lambo_derive"].annotations
    assert recall is not None
    assert derive is not None
    assert (recall.read_only_hint, recall.destructive_hint) == (True, None)
    assert (derive.read_only_hint, derive.destructive_hint) == (False, False)
    assert all(tool.description and tool.output_schema for tool in tools.values())


async def test_instructions_name_the_session_in_both_generations() -> None:
    async with connect(Calls(), "legacy") as client:
        assert '"shop"' in (client.instructions or "")
    async with connect(Calls(), "auto") as client:
        assert client.protocol_version == "2026-07-28"
        assert '"shop"' in (client.instructions or "")
        assert "Always pass agent_id" in (client.instructions or "")


async def test_call_carries_session_agent_key_and_client(mode: str) -> None:
    calls = Calls()
    async with connect(calls, mode) as client:
        result = await client.call_tool(
            "lambo_derive",
            {"agent_id": "ann", "concepts": [{"content": "x", "concept_type": "entity"}]},
            meta=cast(RequestParamsMeta, {"lambo/idempotency-key": "k1"}),
        )
    assert not result.is_error
    assert result.structured_content["summary"] == "derive by ann in shop"
    verb, arguments, context = calls.seen[0]
    assert verb == "derive"
    assert arguments["agent_id"] == "ann"
    assert (context.session, context.agent_id) == ("shop", None)
    assert (context.idempotency_key, context.client_name) == ("k1", "tester")


async def test_agent_is_optional_when_the_transport_names_it(mode: str) -> None:
    calls = Calls()
    async with connect(calls, mode, lambda client: f"{client}-7") as client:
        tools = (await client.list_tools()).tools
        await client.call_tool("lambo_recall", {"query": "q"})
    assert all("agent_id" not in tool.input_schema.get("required", []) for tool in tools)
    assert calls.seen[0][2].agent_id == "tester-7"


@pytest.mark.parametrize("arguments", [{"query": "q"}, {"agent_id": None, "query": "q"}, None])
async def test_missing_agent_is_refused_before_the_verb(
    mode: str, arguments: dict[str, Any] | None
) -> None:
    calls = Calls()
    async with connect(calls, mode) as client:
        result = await client.call_tool("lambo_recall", arguments)
    assert result.is_error
    assert text_of(result).startswith("lambo_recall: agent_id is required")
    assert calls.seen == []


async def test_unknown_tool_is_a_protocol_error_that_names_the_tools(mode: str) -> None:
    async with connect(Calls(), mode) as client:
        with pytest.raises(MCPError, match=r"lambo_search.*lambo_recall") as caught:
            await client.call_tool("lambo_search", {"agent_id": "a"})
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("tool", "arguments", "place"),
    [
        ("lambo_recall", {"query": "q", "topk": 3}, "topk"),
        (
            "lambo_derive",
            {"concepts": [{"content": "x", "concept_type": "entity", "kind": "y"}]},
            "concepts[0].kind",
        ),
        (
            "lambo_derive",
            {
                "concepts": [{"content": "x", "concept_type": "entity"}],
                "parent_of": [{"parent": "a", "child": "b", "weight": 1}],
            },
            "parent_of[0].weight",
        ),
    ],
)
async def test_unknown_argument_is_refused_at_every_level(
    mode: str, tool: str, arguments: dict[str, Any], place: str
) -> None:
    async with connect(Calls(), mode) as client:
        result = await client.call_tool(tool, {"agent_id": "a", **arguments})
    assert result.is_error
    assert text_of(result) == f"{tool}: unknown argument '{place}' [invalid_argument]"
    assert result.structured_content["error"]["field"] == place


async def test_refusal_is_a_result_with_code_and_fields(mode: str) -> None:
    async with connect(Calls(), mode) as client:
        held = await client.call_tool("lambo_recall", {"agent_id": "a", "query": "held"})
        away = await client.call_tool("lambo_recall", {"agent_id": "a", "query": "away"})
    assert text_of(held) == "lambo_recall: reserved by bob [reservation_conflict]"
    assert held.structured_content["error"]["holder"] == "bob"
    assert away.structured_content["error"]["retry_after_seconds"] == 2.5


async def test_fault_is_contained_and_logged(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(Calls(), mode) as client:
        with caplog.at_level(logging.ERROR, logger="mcp_bridge"):
            broken = await client.call_tool("lambo_recall", {"agent_id": "a", "query": "explode"})
        after = await client.call_tool("lambo_recall", {"agent_id": "a", "query": "fine"})
    assert broken.is_error
    assert "internal error" in text_of(broken)
    assert "swordfish" not in str(broken)
    assert "swordfish" in caplog.text
    assert not after.is_error


async def test_warnings_form_a_second_block(mode: str) -> None:
    async with connect(Calls(), mode) as client:
        result = await client.call_tool("lambo_recall", {"agent_id": "a", "query": "warn"})
    block = result.content[1]
    assert isinstance(block, TextContent)
    assert block.text == "warnings:\n- see <redacted-url> and ⏎ that\n- plain"
    assert len(result.structured_content["warnings"]) == 2


async def test_reserve_and_release_are_one_tool(mode: str) -> None:
    calls = Calls()
    async with connect(calls, mode) as client:
        given = {"agent_id": "a", "concept": "n", "ttl_seconds": 9}
        await client.call_tool("lambo_reserve", given)
        await client.call_tool("lambo_reserve", {**given, "release": True})
    assert [verb for verb, _, _ in calls.seen] == ["reserve", "release"]


async def test_key_that_is_no_text_is_refused(mode: str) -> None:
    async with connect(Calls(), mode) as client:
        result = await client.call_tool(
            "lambo_stats",
            {"agent_id": "a"},
            meta=cast(RequestParamsMeta, {"lambo/idempotency-key": 7}),
        )
    assert "must be a string [invalid_argument]" in text_of(result)


async def test_twenty_calls_at_once_get_their_own_answers(mode: str) -> None:
    async with connect(Calls(), mode, "a") as client:
        replies = await asyncio.gather(
            *(client.call_tool("lambo_recall", {"query": f"q{n}"}) for n in range(20))
        )
    assert [text_of(reply) for reply in replies] == [f"shop: q{n}" for n in range(20)]
