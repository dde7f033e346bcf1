"""The stdio bridge as a process: real pipes, the SDK's client, and lines of our own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, Implementation, TextContent

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("bridge_script.py")
MODES = ["legacy", "2026-07-28"]

pytestmark = pytest.mark.slow


def environment(**changes: str) -> dict[str, str]:
    """A plain C locale; nothing that tells Python how to encode."""
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    return {**kept, "LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", **changes}


@asynccontextmanager
async def connected(mode: str, *arguments: str, errors: TextIO) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable, args=[str(SCRIPT), *arguments], env=environment()
    )
    info = Implementation(name="Tiny Client/2", version="1")
    transport = stdio_client(parameters, errlog=errors)
    async with Client(transport, mode=mode, client_info=info) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_calls_through_the_sdk_client(mode: str, tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w+") as errors:
        async with connected(mode, errors=errors) as client:
            assert len((await client.list_tools()).tools) == 7
            replies = await asyncio.gather(
                *(client.call_tool("lambo_recall", {"query": f"{n} 🦊é"}) for n in range(20))
            )
            refused = await client.call_tool("lambo_recall", {"query": "held"})
            broken = await client.call_tool("lambo_recall", {"query": "explode"})
            stats = await client.call_tool("lambo_stats", {})
    assert [text_of(reply) for reply in replies] == [f"shop: {n} 🦊é" for n in range(20)]
    assert text_of(refused) == "lambo_recall: reserved by bob [reservation_conflict]"
    assert "swordfish" not in str(broken)
    agent = stats.structured_content["agent"]
    assert agent.startswith("Tiny-Client-2-")
    assert len(agent) == len("Tiny-Client-2-") + 6
    assert stats.structured_content["key"] is None


async def test_agent_named_at_the_start_is_used(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w+") as errors:
        async with connected("legacy", "--agent", "ann", errors=errors) as client:
            stats = await client.call_tool("lambo_stats", {})
            other = await client.call_tool("lambo_stats", {"agent_id": "bob"})
            assert "You may leave out agent_id" in (client.instructions or "")
    assert stats.structured_content["agent"] == "ann"
    assert other.structured_content["agent"] == "bob"


async def test_unreachable_server_is_an_answer(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w+") as errors:
        async with connected("legacy", "--unreachable", errors=errors) as client:
            assert len((await client.list_tools()).tools) == 7
            result = await client.call_tool("lambo_recall", {"query": "q"})
    assert result.is_error
    assert "[server_unreachable]" in text_of(result)


HANDSHAKE: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def recall(request_id: int, query: str) -> dict[str, Any]:
    params = {"name": "lambo_recall", "arguments": {"query": query}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def run_lines(
    lines: list[bytes],
    *arguments: str,
    script: Path = SCRIPT,
    env: Mapping[str, str] | None = None,
) -> tuple[dict[Any, dict[str, Any]], str]:
    """Write all lines, close the input, and give the answers by id and what went to stderr."""
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        env=environment(**(env or {})),
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    return {answer.get("id"): answer for answer in answers}, done.stderr.decode()


def encoded(*messages: dict[str, Any]) -> list[bytes]:
    return [json.dumps(message, ensure_ascii=False).encode() for message in messages]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_stray_output_reaches_stderr_and_never_the_protocol(unbuffered: str) -> None:
    """`unbuffered`: nothing held back can be saved then, so the script's first print is exempt."""
    lines = encoded(*HANDSHAKE, recall(1, "child"), recall(2, "explode"))
    if unbuffered:
        done = subprocess.run(
            [sys.executable, str(SCRIPT)],
            input=b"\n".join(lines) + b"\n",
            capture_output=True,
            env=environment(PYTHONUNBUFFERED="1"),
            timeout=60,
            check=True,
        )
        first, *rest = done.stdout.splitlines()
        assert first.startswith(b"printed before the claim")
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest)
        return
    answers, errors = run_lines(lines)
    assert set(answers) == {0, 1, 2}
    for stray in (
        "printed before the claim",
        "printed after the claim",
        "printed while looking",
        "printed in a call",
        "written without a line end",
        "printed by a child",
        "warned in a call",
        "swordfish",
        "printed at the end",
    ):
        assert stray in errors


@pytest.mark.parametrize("locale", [{}, {"LANG": "de_DE.ISO-8859-1"}, {"PYTHONUTF8": "0"}])
def test_text_is_utf8_both_ways_in_any_locale(locale: dict[str, str]) -> None:
    text = "🦊 fox, café, שלום"
    answers, _errors = run_lines(encoded(*HANDSHAKE, recall(1, text)), env=locale)
    assert answers[1]["result"]["content"][0]["text"] == f"shop: {text}"


def test_calls_under_way_are_answered_after_the_input_ends() -> None:
    messages = [*HANDSHAKE, *(recall(n, "slow") for n in range(1, 9))]
    answers, _errors = run_lines(encoded(*messages))
    assert set(answers) == set(range(9))
    assert all("result" in answer for answer in answers.values())


def test_malformed_lines_are_answered_and_the_next_line_is_served() -> None:
    bad_bytes = json.dumps(recall(1, "x")).encode().replace(b"x", b"\xff\xfe")
    surrogate = json.dumps(recall(2, "\ud800")).encode()
    lines = [
        *encoded(*HANDSHAKE),
        b"",
        b"not json",
        b"[1, 2]",
        bad_bytes,
        surrogate,
        b"[" * 100_000,
        *encoded(recall(3, "fine")),
    ]
    answers, _errors = run_lines(lines)
    assert set(answers) == {0, 1, 2, 3, None}
    assert answers[1]["error"]["code"] == answers[2]["error"]["code"] == -32700
    assert answers[3]["result"]["content"][0]["text"] == "shop: fine"


def test_line_over_the_limit_is_refused_and_the_next_one_served() -> None:
    long_line = json.dumps(recall(1, "x" * (5 * 1024 * 1024))).encode()
    lines = [*encoded(*HANDSHAKE), long_line, *encoded(recall(2, "fine"))]
    answers, _errors = run_lines(lines)
    assert answers[None]["error"]["code"] == -32700
    assert answers[2]["result"]["content"][0]["text"] == "shop: fine"


def test_end_of_input_without_a_request_ends_the_process() -> None:
    assert run_lines([b""])[0] == {}


@pytest.mark.parametrize(
    ("claim", "env"), [((), {}), (("--claim-first",), {"PYTHONUNBUFFERED": "1"})]
)
def test_command_keeps_what_django_settings_print_from_the_protocol(
    claim: tuple[str, ...], env: dict[str, str], tmp_path: Path
) -> None:
    lines = encoded(*HANDSHAKE, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, recall(2, "q"))
    answers, errors = run_lines(
        lines,
        *claim,
        "mcp",
        "--session",
        "café 🦊",
        script=SCRIPT.with_name("command_script.py"),
        env={"LAMBO_DATA_DIR": str(tmp_path / "data"), **env},
    )
    assert set(answers) == {0, 1, 2}
    assert '"café 🦊"' in answers[0]["result"]["instructions"]
    assert len(answers[1]["result"]["tools"]) == 7
    assert "[server_unreachable]" in answers[2]["result"]["content"][0]["text"]
    assert "printed by the settings" in errors
    assert f"the data folder is {tmp_path / 'data'}" in errors
