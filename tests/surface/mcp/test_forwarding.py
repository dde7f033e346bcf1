"""The bridge's way to the server: finding it, sharing it, and the real client on the wire."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_bridge.forwarding import Forwarder, machine_agent_name, machine_id
from mcp_bridge.tools import CallContext
from memory.client import Address, AsyncLamboClient, Retries, ServerUnreachable
from memory.engine.errors import InvalidConfiguration, LamboError, OutcomeUnknown
from surface.mcp.serving import served

CONTEXT = CallContext(session="s", agent_id="default-agent")


@dataclass
class World:
    """A server that may take time, or fail, to be found."""

    failures: list[Exception] = field(default_factory=list)
    searches: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)
    closed: int = 0
    may_answer: threading.Event = field(default_factory=threading.Event)
    searching: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_answer.set()

    def find(self) -> str:
        self.searches += 1
        self.searching.set()
        assert self.may_answer.wait(10)
        if self.failures:
            raise self.failures.pop(0)
        return "http://127.0.0.1:1"

    def forwarder(self) -> Forwarder:
        return Forwarder(self.find, lambda url: Connection(self))


@dataclass
class Connection:
    world: World

    async def call(
        self,
        session: str,
        verb: str,
        arguments: Mapping[str, Any],
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mapping[str, Any]:
        self.world.calls.append(
            {"session": session, "verb": verb, "arguments": dict(arguments)}
            | {"agent": agent_id, "key": idempotency_key}
        )
        return {"text": "t", "structured": {"summary": "t"}, "warnings": ["w"], "replayed": False}

    async def aclose(self) -> None:
        self.world.closed += 1


async def test_reply_is_passed_on_and_the_agent_taken_out_of_the_arguments() -> None:
    world = World()
    given = {"query": "q", "agent_id": "ann"}
    reply = await world.forwarder().dispatch("recall", given, CONTEXT)
    assert (reply.text, reply.structured, reply.warnings) == ("t", {"summary": "t"}, ["w"])
    assert world.calls == [
        {"session": "s", "verb": "recall", "arguments": {"query": "q"}, "agent": "ann", "key": None}
    ]
    assert given == {"query": "q", "agent_id": "ann"}


async def test_default_agent_is_used_and_a_blank_one_is_left_for_the_verb_to_refuse() -> None:
    world = World()
    await world.forwarder().dispatch("recall", {}, CONTEXT)
    await world.forwarder().dispatch("recall", {"agent_id": ""}, CONTEXT)
    assert [call["agent"] for call in world.calls] == ["default-agent", ""]


async def test_key_of_the_client_is_kept() -> None:
    world = World()
    context = CallContext(session="s", agent_id="a", idempotency_key="mine")
    await world.forwarder().dispatch("derive", {}, context)
    assert world.calls[0]["key"] == "mine"


async def test_many_calls_at_once_look_for_the_server_once() -> None:
    world = World()
    forwarder = world.forwarder()
    await asyncio.gather(*(forwarder.dispatch("recall", {}, CONTEXT) for _ in range(20)))
    await forwarder.aclose()
    assert (world.searches, len(world.calls), world.closed) == (1, 20, 1)


async def test_search_begins_ahead_of_the_first_call_and_is_shared_with_it() -> None:
    world = World()
    world.may_answer.clear()
    forwarder = world.forwarder()
    ahead = asyncio.create_task(forwarder.prefetch())
    call = asyncio.create_task(forwarder.dispatch("recall", {}, CONTEXT))
    await asyncio.sleep(0)
    world.may_answer.set()
    await asyncio.gather(ahead, call)
    assert world.searches == 1


async def test_cancelled_call_leaves_the_search_to_the_others() -> None:
    world = World()
    world.may_answer.clear()
    forwarder = world.forwarder()
    first, second = (
        asyncio.create_task(forwarder.dispatch("recall", {}, CONTEXT)) for _ in range(2)
    )
    await asyncio.to_thread(world.searching.wait, 10)
    first.cancel()
    await asyncio.sleep(0)
    world.may_answer.set()
    assert (await second).text == "t"
    assert first.cancelled()
    assert world.searches == 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (InvalidConfiguration("bad setting"), "invalid_configuration"),
        (OSError("no"), "server_unreachable"),
        (TimeoutError("slow"), "server_unreachable"),
    ],
)
async def test_failed_search_is_told_and_the_next_call_searches_again(
    failure: Exception, code: str
) -> None:
    world = World(failures=[failure])
    forwarder = world.forwarder()
    with pytest.raises(LamboError) as caught:
        await forwarder.dispatch("derive", {}, CONTEXT)
    assert caught.value.code == code
    assert (await forwarder.dispatch("derive", {}, CONTEXT)).text == "t"
    assert world.searches == 2


async def test_failed_search_ahead_of_the_first_call_is_silent() -> None:
    world = World(failures=[OSError("no")])
    forwarder = world.forwarder()
    await forwarder.prefetch()
    assert (await forwarder.dispatch("derive", {}, CONTEXT)).text == "t"


async def test_closing_without_a_connection_or_during_the_search_is_quiet() -> None:
    world = World()
    await world.forwarder().aclose()
    world.may_answer.clear()
    forwarder = world.forwarder()
    ahead = asyncio.create_task(forwarder.prefetch())
    await asyncio.to_thread(world.searching.wait, 10)
    closing = asyncio.create_task(forwarder.aclose())
    await asyncio.sleep(0)
    world.may_answer.set()
    await closing
    await asyncio.gather(ahead, return_exceptions=True)


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("claude-code", "claude-code"),
        ("Cursor (Beta)\n2", "Cursor--Beta--2"),
        (None, "agent"),
        ("///", "agent"),
        ("x" * 500, "x" * 64),
    ],
)
def test_machine_agent_name_is_one_short_word(client: str | None, name: str) -> None:
    assert machine_agent_name(client) == f"{name}-{machine_id()}"
    assert machine_id() == machine_id()
    assert len(machine_id()) == 6


# -- with the real client, over HTTP -------------------------------------------------------------


@dataclass
class Api:
    """A server of the HTTP API that answers from a script: a status and a body, or a lost line."""

    script: list[Any]
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body = json.loads(message["body"] or b"null")
        self.seen.append({"path": scope["path"], "headers": headers, "body": body})
        step = self.script.pop(0) if self.script else None
        if step == "lost":
            raise ConnectionResetError("the answer is lost on the way")
        status, reply = step or (200, {"text": "t", "summary": "t", "warnings": []})
        data = json.dumps(reply).encode()
        headers_sent = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers_sent})
        await send({"type": "http.response.body", "body": data})


def refused(code: str, status: int = 503, **fields: Any) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"code": code, "message": code, **fields}}


def connecting(urls: list[str]) -> Forwarder:
    """A forwarder wired as the bridge wires it; `urls` is where the server is, in turn."""

    def find() -> str:
        return urls.pop(0) if len(urls) > 1 else urls[0]

    def connect(url: str) -> AsyncLamboClient:
        return AsyncLamboClient(
            url, retries=Retries(patience_seconds=5), locate=lambda: Address(find())
        )

    return Forwarder(find, connect)


WRITE = {"concepts": [{"content": "x", "concept_type": "entity"}]}


async def test_write_is_repeated_under_one_key_without_the_operator_secret() -> None:
    away = refused("store_unavailable", retry_after_seconds=0.01)
    api = Api([away, refused("session_reloaded")])
    async with served(api) as url:
        forwarder = connecting([url])
        assert (await forwarder.dispatch("derive", WRITE, CONTEXT)).text == "t"
        await forwarder.aclose()
    assert [request["path"] for request in api.seen] == ["/api/v1/sessions/s/derive"] * 3
    assert len({request["headers"]["idempotency-key"] for request in api.seen}) == 1
    assert all(request["body"]["agent_id"] == "default-agent" for request in api.seen)
    assert not any(name.startswith("lambo-operator") for r in api.seen for name in r["headers"])


async def test_two_writes_have_two_keys() -> None:
    api = Api([])
    async with served(api) as url:
        forwarder = connecting([url])
        for _ in range(2):
            await forwarder.dispatch("derive", WRITE, CONTEXT)
        await forwarder.aclose()
    assert len({request["headers"]["idempotency-key"] for request in api.seen}) == 2


async def test_server_that_moved_is_followed() -> None:
    first, second = Api([]), Api([])
    async with served(second) as new:
        async with served(first) as old:
            forwarder = connecting([old, new])
            await forwarder.dispatch("derive", WRITE, CONTEXT)
        assert (await forwarder.dispatch("derive", WRITE, CONTEXT)).text == "t"
        await forwarder.aclose()
    assert (len(first.seen), len(second.seen)) == (1, 1)


async def test_verbs_without_a_body_get_the_agent_too() -> None:
    api = Api([])
    async with served(api) as url:
        forwarder = connecting([url])
        await forwarder.dispatch("stats", {"agent_id": "ann"}, CONTEXT)
        await forwarder.aclose()
    assert api.seen[0]["headers"]["lambo-agent"] == "ann"


async def test_refusal_of_the_server_arrives_with_its_code_and_fields() -> None:
    api = Api([refused("reservation_conflict", 409, holder="bob")])
    async with served(api) as url:
        forwarder = connecting([url])
        with pytest.raises(LamboError) as caught:
            await forwarder.dispatch("reserve", {"concept": "x"}, CONTEXT)
        await forwarder.aclose()
    assert caught.value.as_wire() == {
        "code": "reservation_conflict",
        "message": "reservation_conflict",
        "holder": "bob",
    }


async def test_server_that_never_answers_ends_in_an_error_within_patience() -> None:
    forwarder = Forwarder(
        lambda: "http://127.0.0.1:9",
        lambda url: AsyncLamboClient(url, retries=Retries(patience_seconds=0.2)),
    )
    with pytest.raises((ServerUnreachable, OutcomeUnknown)):
        await forwarder.dispatch("derive", WRITE, CONTEXT)
    await forwarder.aclose()
