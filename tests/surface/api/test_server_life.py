"""The life of the application: what starts with it, what it answers while it does not serve."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from lambo_site.asgi import Application
from lambo_site.wiring import build_host
from memory import runtime
from memory.data_folder import DataFolder, HeldFolder
from memory.engine.config import Config, Durability
from memory.engine.errors import Forbidden, SessionClosed
from memory.engine.requests import Caller
from memory.version import VERSION
from surface.api.lifespan import serving

IN_MEMORY = Config(durability=Durability.MEMORY)
TOOL_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture
def held(tmp_path: Path, settings: Settings) -> Any:
    """A locked data folder, and a server whose store is memory."""
    settings.PROCESS = replace(settings.PROCESS, config=IN_MEMORY)
    with DataFolder(tmp_path / "data").hold() as folder:
        runtime.set_held_folder(folder)
        yield folder
        runtime.set_held_folder(None)


async def test_server_serves_api_and_tools_from_start_to_stop(held: HeldFolder) -> None:
    application = Application()
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "lambo_recall", "arguments": {"agent_id": "mia", "query": "tokens"}},
    }
    async with serving(application) as client:
        written = await client.post(
            "/api/v1/sessions/s/derive",
            json={
                "agent_id": "ann",
                "concepts": [{"content": "tokens expire", "concept_type": "logic"}],
            },
        )
        assert written.status_code == 200
        answer = await client.post("/mcp/s", json=call, headers=TOOL_HEADERS)
        content = answer.json()["result"]["structuredContent"]
        assert [hit["content"] for hit in content["hits"]] == ["tokens expire"]
        assert runtime.find_host() is not None
    report = runtime.find_close_report()
    assert report is not None
    assert report.ok
    with pytest.raises(SessionClosed):
        runtime.get_host()


async def test_sign_of_life_names_version_and_node(held: HeldFolder) -> None:
    application = Application()
    async with serving(application) as client:
        health = await client.get("/healthz")
        said = health.json()
        assert (said["status"], said["version"]) == ("ok", VERSION)
        assert said["node_id"] == held.node_id
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        client_after = client
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(
        transport=transport, base_url=client_after.base_url
    ) as client_after:
        ready = await client_after.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
        call = await client_after.get("/api/v1/sessions")
        assert (call.status_code, call.json()["error"]["code"]) == (503, "session_closed")


async def test_server_without_the_folders_lock_does_not_start() -> None:
    """Any ASGI server can be pointed at the application; none may open sessions unlocked."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    await Application()({"type": "lifespan"}, receive, send)
    assert sent[0]["type"] == "lifespan.startup.failed"
    assert "lambo serve" in sent[0]["message"]


async def test_looking_is_no_activity_and_calling_is(held: HeldFolder) -> None:
    class Clock:
        now = 0.0

    clock = Clock()
    activity = runtime.Activity(lambda: clock.now)
    clock.now = 60.0
    assert activity.idle_seconds == 60.0
    activity.begin()
    clock.now = 90.0
    assert activity.idle_seconds == 0.0
    activity.end()
    clock.now = 100.0
    assert activity.idle_seconds == 10.0
    async with serving(Application()) as client:
        before = runtime.activity.idle_seconds
        await client.get("/healthz")
        await client.get("/readyz")
        await client.get("/api/v1/jobs")  # the calendar's, or a server with one would never idle
        await client.post("/api/v1/jobs", json={"job": "retention"})
        assert runtime.activity.idle_seconds >= before
        await client.get("/api/v1/sessions")
        assert runtime.activity.idle_seconds < 5.0


async def test_websocket_is_closed_not_left_waiting() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await Application()({"type": "websocket", "path": "/x"}, lambda: asyncio.sleep(0), send)
    assert sent[0]["type"] == "websocket.close"


async def test_demo_profile_serves_no_session_but_the_demos(settings: Settings) -> None:
    process = replace(settings.PROCESS, config=IN_MEMORY, is_demo=True)
    host = build_host(process, node_id="00000000-0000-4000-8000-0000000000aa")
    await host.start()
    try:
        with pytest.raises(Forbidden):
            await host.view("my-work")
        with pytest.raises(Forbidden):
            await host.memory("my-work", create=True)
        with pytest.raises(Forbidden):
            await host.create_session("my-work", Caller("ann"))
        assert (await host.create_session("demo-1", Caller("ann"))).structured["created"]
    finally:
        await host.close()
