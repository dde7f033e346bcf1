"""Events over SSE and WebSocket: what is said, to whom, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from hosting import until
from lambo_site.asgi import application
from memory import event_streams, runtime
from memory.consumers import REFUSED, UNSUPPORTED, sockets
from surface.api.callers import Api
from surface.api.conftest import World
from surface.api.streaming import SSE_PATH, WS_PATH, Socket, Stream, streaming
from surface.api.test_token_mode import STRANGERS, is_silent
from surface.api.token_world import OURS, THEIRS, TokenWorld, token_world

EVENTS = SSE_PATH.format(session="s")
SOCKET = WS_PATH.format(session="s")
HOME = {"Origin": "http://127.0.0.1:7700"}


async def write(api: Api, content: str, session: str = "s") -> None:
    body = {"concepts": [{"content": content, "concept_type": "entity"}]}
    assert (await api.verb("derive", body, session=session)).status_code == 200


@pytest.fixture
async def tokens(tmp_path: Path, settings: Settings) -> AsyncIterator[TokenWorld]:
    async with token_world(tmp_path, settings) as made:
        yield made


# -- server-sent events ---------------------------------------------------------------------------


async def test_stream_begins_now_and_tells_each_write(api: Api) -> None:
    await write(api, "before")
    async with streaming(application, EVENTS) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        await write(api, "one\u2028line")
        (frame,) = await stream.until(1)
        assert (frame["event"], frame["id"]) == ("write", "2")
        assert frame["data"]["data"]["concepts"][0]["content"] == "one ⏎ line"
        assert b"retry: 1000\n: heartbeat\nid: 1\n\n" in stream.body


async def test_stream_resumes_after_the_last_id_that_was_read(api: Api) -> None:
    for number in range(5):
        await write(api, f"fact {number}")
    async with streaming(application, f"{EVENTS}?since=1", {"Last-Event-ID": "3"}) as stream:
        frames = await stream.until(2)
        assert [frame["id"] for frame in frames] == ["4", "5"]
    async with streaming(application, f"{EVENTS}?since=1&kinds=write") as stream:
        assert len(await stream.until(4)) == 4


async def test_stream_of_a_log_that_begun_anew_says_so(api: Api) -> None:
    await write(api, "fact")
    async with streaming(application, f"{EVENTS}?since=70") as stream:
        gap, event = await stream.until(2)
        assert (gap["event"], gap["id"]) == ("gap", "0")
        assert gap["data"] == {"after": 70, "resume": 1, "lost": 0}
        assert event["id"] == "1"


async def test_listeners_of_an_unknown_session_wait_and_create_nothing(
    api: Api, world: World
) -> None:
    async with streaming(application, SSE_PATH.format(session="new")) as stream:
        assert stream.status == 200
        assert (await api.verb("session-list")).json()["sessions"] == []
        await write(api, "first", session="new")
        assert [frame["id"] for frame in await stream.until(1)] == ["1"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=-1", "since"),
        ("since=x", "since"),
        ("since=1&since=2", "since"),
        ("kinds=writes", "kinds"),
        ("colour=red", "colour"),
        ("limit=0", "limit"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_name(api: Api, query: str, field: str) -> None:
    async with streaming(application, f"{EVENTS}?{query}") as stream:
        assert (stream.status, stream.error) == (422, "invalid_argument")
        assert field in stream.body.decode()
    page = await api.client.get(f"{EVENTS}?{query}")
    assert page.status_code == 422
    assert page.json()["error"]["code"] == "invalid_argument"


async def test_same_address_gives_a_page_to_who_accepts_no_stream(api: Api) -> None:
    await write(api, "fact")
    page = (await api.client.get(f"{EVENTS}?since=0")).json()
    assert [event["id"] for event in page["events"]] == [1]
    async with streaming(application, EVENTS, method="POST") as stream:
        assert stream.status == 405


async def test_heartbeats_come_where_nothing_happens(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(api, "fact")
    monkeypatch.setattr(event_streams, "HEARTBEAT_SECONDS", 0.01)
    async with streaming(application, f"{EVENTS}?kinds=drift") as stream:
        await until(lambda: stream.body.count(b": heartbeat\nid: 1\n\n") > 3)
        await write(api, "another")
        await until(lambda: b": heartbeat\nid: 2\n\n" in stream.body)


async def test_client_that_leaves_leaves_nothing(api: Api, world: World) -> None:
    await write(api, "fact")
    tasks = len(asyncio.all_tasks())
    for _ in range(50):
        async with streaming(application, EVENTS):
            assert world.host.events.count == 1
        socket = Socket(application, SOCKET, HOME)
        assert await socket.connect()
        await socket.leave()
        await until(lambda: world.host.events.count == 0)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_end_of_the_server_ends_streams_with_the_place_to_resume(
    api: Api, world: World
) -> None:
    await write(api, "fact")
    socket = Socket(application, SOCKET, HOME)
    assert await socket.connect()
    async with streaming(application, f"{EVENTS}?since=0") as stream:
        await stream.until(1)
        world.host.events.end()
        await world.host.events.until_left(5)
        await stream.until_over()
        assert stream.frames[-1]["event"] == "end"
        assert stream.frames[-1]["data"]["code"] == "shutdown"
        assert stream.frames[-1]["id"] == "1"
    assert (await socket.said("end"))["resume"] == 1
    assert (await socket.receive())["type"] == "websocket.close"
    async with streaming(application, EVENTS) as late:
        assert (late.status, late.error) == (503, "session_closed")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"X-Forwarded-For": "192.0.2.1"},
    ],
)
async def test_foreign_pages_and_proxies_are_refused(api: Api, headers: dict[str, str]) -> None:
    async with streaming(application, EVENTS, headers) as stream:
        assert (stream.status, stream.error) == (403, "forbidden")
    assert not await Socket(application, SOCKET, {**HOME, **headers}).connect()


# -- WebSockets -----------------------------------------------------------------------------------


async def test_socket_tells_the_same_as_the_stream(api: Api) -> None:
    await write(api, "before")
    socket = Socket(application, f"{SOCKET}?since=0&kinds=write", HOME)
    assert await socket.connect()
    assert await socket.said("alive") == {"type": "alive", "resume": 0}
    assert (await socket.said("event"))["id"] == 1
    await write(api, "after")
    told = await socket.said("event")
    page = (await api.verb("events", {"since": 1})).json()
    assert {**page["events"][0], "type": "event"} == told
    await socket.leave()


async def test_socket_takes_no_messages(api: Api) -> None:
    socket = Socket(application, SOCKET, HOME)
    assert await socket.connect()
    await socket.said("alive")
    await socket.say("hello")
    closed = await socket.receive()
    assert (closed["type"], closed["code"]) == ("websocket.close", UNSUPPORTED)
    await socket.leave()


async def test_socket_says_why_it_is_refused(api: Api) -> None:
    socket = Socket(application, f"{SOCKET}?kinds=writes", HOME)
    assert await socket.connect()
    assert (await socket.said("end"))["code"] == "invalid_argument"
    closed = await socket.receive()
    assert (closed["code"], closed["reason"]) == (REFUSED, "invalid_argument")
    await socket.leave()


@pytest.mark.parametrize("path", ["/", "/ws/v1/sessions/s/other", "/ws/v1/sessions/a/b/events"])
async def test_there_is_no_other_socket(api: Api, path: str) -> None:
    assert not await Socket(application, path, HOME).connect()


# -- token mode -----------------------------------------------------------------------------------


def served_by(world: TokenWorld) -> Any:
    """The application behind a client."""
    transport = world.client._transport
    assert isinstance(transport, httpx.ASGITransport)
    return transport.app


async def open_all(
    world: TokenWorld, session: str, caller: dict[str, str]
) -> list[tuple[Stream, bool]]:
    """Try every stream and every socket of a session as a caller: the answer, and who came in."""
    application = served_by(world)
    asked = SSE_PATH.format(session=session)
    tried = []
    assert isinstance(sockets, URLRouter)
    assert [str(route.pattern) for route in sockets.routes] == [
        "ws/v1/sessions/<str:session>/events"
    ]
    socket = Socket(application, WS_PATH.format(session=session), {**HOME, **caller})
    has_come_in = await socket.connect()
    if has_come_in:
        has_come_in = json.loads((await socket.receive())["text"])["type"] == "alive"
        await socket.leave()
    async with streaming(application, asked, caller) as stream:
        tried.append((stream, has_come_in))
    return tried


@pytest.mark.parametrize("kind", STRANGERS)
async def test_stranger_listens_to_nothing(tokens: TokenWorld, kind: str) -> None:
    before = await tokens.picture()
    for session in (OURS, THEIRS, "nowhere"):
        for stream, has_come_in in await open_all(tokens, session, tokens.callers[kind]):
            assert not has_come_in
            assert (stream.status, stream.error) == (401, "unauthenticated")
            assert stream.headers["WWW-Authenticate".lower()] == "Bearer"
            assert b"crown jewels" not in stream.body
    assert await tokens.picture() == before


async def test_reader_listens_and_a_neighbour_only_at_home(tokens: TokenWorld) -> None:
    for stream, has_come_in in await open_all(tokens, THEIRS, tokens.callers["reader"]):
        assert has_come_in
        assert stream.status == 200
    for session in (THEIRS, "nowhere"):
        for stream, has_come_in in await open_all(tokens, session, tokens.callers["neighbour"]):
            assert not has_come_in
            assert (stream.status, stream.error) == (404, "session_not_found")


async def test_token_in_an_address_opens_nothing(tokens: TokenWorld) -> None:
    token = tokens.callers["whole"]["Authorization"].removeprefix("Bearer ")
    for query in (f"token={token}", f"access_token={token}", f"authorization=Bearer%20{token}"):
        async with streaming(
            served_by(tokens), f"{SSE_PATH.format(session=OURS)}?{query}"
        ) as stream:
            assert stream.status == 401
        target = f"{WS_PATH.format(session=OURS)}?{query}"
        assert not await Socket(served_by(tokens), target, HOME).connect()


async def test_token_that_is_revoked_ends_its_streams(
    tokens: TokenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "RECHECK_SECONDS", 0.02)
    caller = tokens.callers["reader"]
    socket = Socket(served_by(tokens), WS_PATH.format(session=OURS), {**HOME, **caller})
    assert await socket.connect()
    async with streaming(served_by(tokens), SSE_PATH.format(session=OURS), caller) as stream:
        assert stream.status == 200
        await tokens.call(
            "token-revoke", tokens.callers["whole"], arguments={"id": tokens.ids["reader"]}
        )
        await stream.until_over()
        assert stream.frames[-1]["data"]["code"] == "unauthenticated"
    assert (await socket.said("end"))["code"] == "unauthenticated"
    assert (await socket.receive())["type"] == "websocket.close"
    await until(lambda: runtime.get_host().events.count == 0)


def log_in(name: str, *, is_superuser: bool, settings: Settings) -> dict[str, str]:
    user = User.objects.create_user(name, password="correct horse", is_staff=True)
    user.is_superuser = is_superuser
    user.save()
    browser = Client()
    browser.force_login(user)
    return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={browser.session.session_key}"}


@pytest.mark.django_db(transaction=True)
async def test_login_of_the_admin_opens_streams_for_who_may_look_there(
    tokens: TokenWorld, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "RECHECK_SECONDS", 0.05)
    person = await asyncio.to_thread(log_in, "olga", is_superuser=True, settings=settings)
    nobody = await asyncio.to_thread(log_in, "new", is_superuser=False, settings=settings)
    for stream, has_come_in in await open_all(tokens, THEIRS, person):
        assert has_come_in
        assert stream.status == 200
    for cookie in (nobody, {"Cookie": f"{settings.SESSION_COOKIE_NAME}=forged"}, {"Cookie": "x"}):
        for stream, has_come_in in await open_all(tokens, THEIRS, cookie):
            assert not has_come_in
            assert stream.status == 401
    elsewhere = {**person, "Origin": "https://evil.example"}
    for stream, has_come_in in await open_all(tokens, THEIRS, elsewhere):
        assert not has_come_in
        assert stream.status == 403
    # A socket from no page at all is no browser's: its cookie counts for nothing.
    assert not await Socket(served_by(tokens), WS_PATH.format(session=OURS), person).connect()
    # The cookie opens no other call.
    assert (await tokens.call("stats", person)).status_code == 401
    async with streaming(served_by(tokens), SSE_PATH.format(session=OURS), person) as stream:
        assert stream.status == 200
        await asyncio.to_thread(
            lambda: User.objects.filter(username="olga").update(is_active=False)
        )
        await stream.until_over()
        assert stream.frames[-1]["data"]["code"] == "unauthenticated"
    assert is_silent(await tokens.call("stats", person))
