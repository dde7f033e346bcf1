"""The HTTP surface through a real server on loopback: the SDK's client, and raw requests."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest
from mcp import Client
from mcp_types import CallToolResult, RequestParamsMeta, TextContent

from mcp_bridge.http_app import McpHttpApp, Scope
from mcp_bridge.tools import CallContext, ToolReply
from memory.engine.errors import LamboError, SessionNotFound
from surface.mcp.serving import served
from surface.mcp.stand_in import Calls, specs

MODERN = "2026-07-28"
MODES = ["legacy", MODERN]
JSON_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@dataclass
class Running:
    url: str
    calls: Calls
    raw: httpx.AsyncClient

    async def post(self, path: str = "/mcp", **options: Any) -> httpx.Response:
        headers = {**JSON_HEADERS, **options.pop("headers", {})}
        if not {"content", "json"} & set(options):
            options["json"] = PING
        return await self.raw.post(path, headers=headers, **options)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Running]:
    calls = Calls()
    app = McpHttpApp(calls, specs(), version="1", **options)
    async with app.run(), served(app) as url, httpx.AsyncClient(base_url=url) as raw:
        yield Running(url, calls, raw)


@pytest.fixture
async def http() -> AsyncIterator[Running]:
    async with running() as started:
        yield started


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def text_of(result: CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["data"]["code"]


async def test_call_through_the_sdk_client(http: Running, mode: str) -> None:
    async with Client(f"{http.url}/mcp", mode=mode) as client:
        assert len((await client.list_tools()).tools) == 7
        result = await client.call_tool("lambo_recall", {"agent_id": "a", "query": "hi"})
    assert text_of(result) == "default: hi"
    assert not result.is_error


async def test_refusals_faults_and_warnings_over_http(http: Running, mode: str) -> None:
    async with Client(f"{http.url}/mcp/s", mode=mode) as client:
        answers = [
            await client.call_tool("lambo_recall", {"agent_id": "a", "query": query})
            for query in ("held", "explode", "warn")
        ]
    assert [answer.is_error for answer in answers] == [True, True, False]
    assert answers[0].structured_content["error"]["code"] == "reservation_conflict"
    assert answers[1].structured_content["error"]["code"] == "internal_error"
    assert len(answers[2].content) == 2


async def test_key_and_client_name_arrive(http: Running, mode: str) -> None:
    async with Client(f"{http.url}/mcp", mode=mode) as client:
        await client.call_tool(
            "lambo_stats",
            {"agent_id": "a"},
            meta=cast(RequestParamsMeta, {"lambo/idempotency-key": "k"}),
        )
    context = http.calls.seen[-1][2]
    assert context.idempotency_key == "k"
    # The older generation names the client only at the handshake, and nothing is kept of it.
    assert (context.client_name is None) == (mode == "legacy")


async def test_instructions_name_the_session_of_the_path(http: Running) -> None:
    for mode in ("legacy", "auto"):
        async with Client(f"{http.url}/mcp/caf%C3%A9", mode=mode) as client:
            assert '"café"' in (client.instructions or "")


@pytest.mark.parametrize(
    ("path", "session"),
    [
        ("/mcp", "default"),
        ("/mcp/", "default"),
        ("/mcp/shop", "shop"),
        ("/mcp/shop/", "shop"),
        ("/mcp/shop?x=1", "shop"),
        ("/mcp/a%2Fb", "a/b"),
        ("/mcp/100%25", "100%"),
        ("/mcp/%F0%9F%A6%8A", "🦊"),
        ("/mcp/mcp", "mcp"),
    ],
)
async def test_path_names_the_session(http: Running, path: str, session: str) -> None:
    call = {"name": "lambo_stats", "arguments": {"agent_id": "a"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    response = await http.post(path, json=body)
    assert response.status_code == 200
    assert http.calls.seen[-1][2].session == session


@pytest.mark.parametrize("path", ["/mcp/a/b", "/mcp//", "/mcp/%FF", "/mcpx", "/mcp/a//"])
async def test_other_paths_are_not_found(http: Running, path: str) -> None:
    assert refusal(await http.post(path)) == (404, "not_found")


async def test_twenty_calls_at_once_in_twenty_sessions(http: Running, mode: str) -> None:
    async def one(n: int) -> str:
        async with Client(f"{http.url}/mcp/s{n}", mode=mode) as client:
            return text_of(
                await client.call_tool("lambo_recall", {"agent_id": "a", "query": f"q{n}"})
            )

    assert await asyncio.gather(*map(one, range(20))) == [f"s{n}: q{n}" for n in range(20)]


async def test_twenty_calls_at_once_over_one_client(http: Running, mode: str) -> None:
    async with Client(f"{http.url}/mcp", mode=mode) as client:
        replies = await asyncio.gather(
            *(
                client.call_tool("lambo_recall", {"agent_id": "a", "query": f"q{n}"})
                for n in range(20)
            )
        )
    assert [text_of(reply) for reply in replies] == [f"default: q{n}" for n in range(20)]


async def test_call_needs_no_handshake_so_a_restart_is_not_noticed(mode: str) -> None:
    """An old client's next call is answered by a server that never saw its handshake."""
    calls = Calls()
    first, second = (McpHttpApp(calls, specs()) for _ in range(2))
    current = [first]

    async def switch(scope: Any, receive: Any, send: Any) -> None:
        await current[0](scope, receive, send)

    async with (
        first.run(),
        second.run(),
        served(switch) as url,
        Client(f"{url}/mcp", mode=mode) as client,
    ):
        current[0] = second
        result = await client.call_tool("lambo_recall", {"agent_id": "a", "query": "hi"})
    assert text_of(result) == "default: hi"


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_notification_is_answered_202_without_a_body(http: Running, version: str) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    response = await http.post(json=note, headers={"mcp-protocol-version": version})
    assert response.status_code == 202
    assert response.content == b""


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
async def test_only_post_is_served(http: Running, method: str) -> None:
    response = await http.raw.request(method, "/mcp", headers=JSON_HEADERS)
    assert refusal(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == "POST"


def big(size: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"ping"' + b" " * (size - 40) + b"}"


def in_chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


async def achunks(body: bytes) -> AsyncIterator[bytes]:
    for part in in_chunks(body):
        yield part


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
@pytest.mark.parametrize("chunked", [False, True])
async def test_body_over_four_mebibytes_is_refused(
    http: Running, chunked: bool, version: str
) -> None:
    body = big(4 * 1024 * 1024 + 1)
    content = achunks(body) if chunked else body
    response = await http.post(content=content, headers={"mcp-protocol-version": version})
    assert refusal(response) == (413, "body_too_large")
    assert (await http.post()).status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_of_four_mebibytes_is_taken(http: Running, chunked: bool) -> None:
    body = big(4 * 1024 * 1024)
    response = await http.post(content=achunks(body) if chunked else body)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"forwarded": "for=1.2.3.4"},
        {"x-forwarded-for": "1.2.3.4"},
        {"X-Forwarded-Host": "x"},
        {"x-real-ip": "1.2.3.4"},
    ],
)
async def test_forwarded_request_is_refused_in_local_mode(
    http: Running, headers: dict[str, str]
) -> None:
    assert refusal(await http.post(headers=headers)) == (403, "forbidden")


async def test_forwarded_request_is_served_where_tokens_are_asked() -> None:
    async with running(refuse_forwarded=False) as http:
        assert (await http.post(headers={"x-forwarded-for": "1.2.3.4"})).status_code == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"host": "evil.example"}, (421, "host_refused")),
        ({"host": "evil.example:7700"}, (421, "host_refused")),
        ({"origin": "http://evil.example"}, (403, "forbidden")),
        ({"origin": "null"}, (403, "forbidden")),
        ({"content-type": "text/plain"}, (400, "invalid_argument")),
    ],
)
async def test_foreign_host_origin_and_form_posts_are_refused(
    http: Running, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    assert refusal(await http.post(headers=headers)) == expected


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:9", "[::1]:9", "[::1]"])
async def test_loopback_names_are_served(http: Running, host: str) -> None:
    headers = {"host": host, "origin": f"http://{host}"}
    assert (await http.post(headers=headers)).status_code == 200


async def test_named_host_is_served_with_its_origins() -> None:
    async with running(allowed_hosts=["memory.example"]) as http:
        headers = {"host": "memory.example", "origin": "https://memory.example:8443"}
        assert (await http.post(headers=headers)).status_code == 200


@dataclass
class Token:
    agent_id: str | None


class Unauthenticated(LamboError):
    code = "unauthenticated"


async def authenticate(scope: Scope, session: str) -> Token:
    header = dict(scope["headers"]).get(b"authorization", b"").decode()
    if session != "shop":
        raise SessionNotFound("no such session")
    if not header:
        raise Unauthenticated("a token is needed")
    return Token(header.removeprefix("Bearer ") or None)


async def test_principal_supplies_the_agent_and_travels_with_the_call() -> None:
    async with running(authenticate=authenticate) as http:
        headers = {"authorization": "Bearer tok"}
        listing = await http.post(
            "/mcp/shop", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers
        )
        call = {"name": "lambo_stats", "arguments": {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        await http.post("/mcp/shop", json=body, headers=headers)
    tools = listing.json()["result"]["tools"]
    assert all("agent_id" not in tool["inputSchema"].get("required", []) for tool in tools)
    context = http.calls.seen[0][2]
    assert context.agent_id == "tok"
    assert context.principal == Token("tok")


async def test_unauthenticated_request_is_401_and_foreign_session_404() -> None:
    async with running(authenticate=authenticate) as http:
        missing = await http.post("/mcp/shop")
        foreign = await http.post("/mcp/other", headers={"authorization": "Bearer tok"})
    assert refusal(missing) == (401, "unauthenticated")
    assert missing.headers["www-authenticate"] == "Bearer"
    assert refusal(foreign) == (404, "session_not_found")


async def test_fault_in_front_of_the_protocol_is_contained() -> None:
    async def broken(scope: Scope, session: str) -> Token:
        raise RuntimeError("swordfish")

    async with running(authenticate=broken) as http:
        response = await http.post()
    assert refusal(response) == (500, "internal_error")
    assert "swordfish" not in response.text


async def test_context_variables_of_the_server_reach_the_verb(mode: str) -> None:
    """What the composition sets around the app holds in dispatch, in whatever task that runs."""
    request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")
    seen: list[str] = []

    async def dispatch(verb: str, arguments: dict[str, Any], context: CallContext) -> ToolReply:
        seen.append(request_id.get())
        return ToolReply(text="", structured={})

    app = McpHttpApp(dispatch, specs())

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        request_id.set("r1")
        await app(scope, receive, send)

    async with app.run(), served(outer) as url, Client(f"{url}/mcp", mode=mode) as client:
        await client.call_tool("lambo_stats", {"agent_id": "a"})
    assert seen == ["r1"]


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
@pytest.mark.parametrize("query", ["\ud800", "\udfff tail"])
async def test_half_a_surrogate_pair_is_answered_with_json(
    http: Running, version: str, query: str
) -> None:
    """Whether the parser or the verb refuses it, the client reads an answer, never a bare 500."""
    params: dict[str, Any] = {
        "name": "lambo_recall",
        "arguments": {"agent_id": "a", "query": query},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    if version != MODERN:
        del params["_meta"]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"mcp-protocol-version": version}
    if version == MODERN:
        headers |= {"mcp-method": "tools/call", "mcp-name": "lambo_recall"}
    response = await http.post(content=body.encode(), headers=headers)
    assert response.status_code in (200, 400)
    answer = json.loads(response.content)
    assert "error" in answer or answer["result"]["isError"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0"}', b"[" * 5_000])
async def test_malformed_body_is_a_json_rpc_error(http: Running, body: bytes) -> None:
    for version in ("2025-11-25", MODERN):
        response = await http.post(content=body, headers={"mcp-protocol-version": version})
        assert 400 <= response.status_code < 500
        assert "error" in response.json()


async def test_app_can_be_run_again_and_refuses_in_between() -> None:
    app = McpHttpApp(Calls(), specs())
    async with served(app) as url, httpx.AsyncClient(base_url=url) as raw:
        for _ in range(2):
            between = await raw.post("/mcp", json=PING, headers=JSON_HEADERS)
            assert refusal(between) == (503, "session_closed")
            assert between.headers["retry-after"] == "1"
            async with app.run():
                assert (await raw.post("/mcp", json=PING, headers=JSON_HEADERS)).status_code == 200
