"""A server in token mode, two sessions with something to tell, and a caller of every kind.

The application is the real one, started by its lifespan. Behind it stands a host of our own, so
that its clock can be moved: a token expires without anybody waiting.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx
from pytest_django import Settings

from lambo_site.asgi import Application
from lambo_site.setting_readers import AuthMode
from lambo_site.wiring import build_cycles, build_jobs, build_readers
from memory import runtime
from memory.data_folder import DataFolder
from memory.engine.config import Config, Durability
from memory.engine.tokens import DrawnToken
from memory.service.host import SessionHost
from memory.service.tokens import TokenKeeper
from memory.store.tokens import InMemoryTokenStore
from memory.testing import InMemoryStore, ManualClock, SequentialIds
from memory.verbs import VERBS
from surface.api.callers import (
    ARGUMENTS,
    OPERATOR,
    OPERATOR_SECRET,
    TOKEN,
    path_of,
    silent_embedder,
)
from surface.api.lifespan import serving

OURS, THEIRS = "s", "vault"
SECRET_TEXT: Final = "the crown jewels are in the cellar"
KEY: Final = "key-of-the-first-write"

TOOL_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
TOOL_ARGUMENTS: Final[Mapping[str, dict[str, Any]]] = {
    "lambo_recall": {"query": SECRET_TEXT},
    "lambo_derive": {"concepts": [{"content": "intruder was here", "concept_type": "entity"}]},
    "lambo_record_action": {"action": "intruder was here", "modifies": [SECRET_TEXT]},
    "lambo_reserve": {"concept": SECRET_TEXT},
    "lambo_inspect": {"focus": SECRET_TEXT},
    "lambo_saints": {},
    "lambo_stats": {},
}
MCP_METHODS: Final = (
    "initialize",
    "ping",
    "tools/list",
    "resources/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "logging/setLevel",
    "completion/complete",
    "server/discover",
    "notifications/initialized",
    "no/such/method",
)


KEPT_NOWHERE = Config(durability=Durability.MEMORY)


@dataclass
class TokenWorld:
    """The server under test, and the headers of its callers by kind."""

    client: httpx.AsyncClient
    clock: ManualClock
    callers: dict[str, dict[str, str]] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)

    async def make(self, kind: str, **fields: Any) -> None:
        """A token of an agent of the same name, with all scopes and every session by default."""
        asked = {
            "name": kind,
            "agent": kind,
            "scopes": ["read", "write", "backdate", "admin"],
            "sessions": ["*"],
            **fields,
        }
        answer = await self.client.post("/api/v1/tokens", json=asked, headers=OPERATOR)
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["token"]
        self.secrets.append(token.split("_", 2)[2])
        self.ids[kind] = answer.json()["id"]
        self.callers[kind] = {"Authorization": f"Bearer {token}"}

    async def call(
        self,
        verb: str,
        caller: Mapping[str, str],
        *,
        session: str = OURS,
        arguments: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        """A call of a verb with exactly these headers."""
        given = dict(ARGUMENTS[verb] if arguments is None else arguments)
        spec = VERBS[verb]
        address = path_of(spec, session, given)
        if spec.method == "POST":
            return await self.client.post(address, json=given, headers=dict(caller))
        return await self.client.request(spec.method, address, params=given, headers=dict(caller))

    async def mcp(
        self, method: str, params: Any, caller: Mapping[str, str], *, session: str = THEIRS
    ) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        if method.startswith("notifications/"):
            del message["id"]
        headers = {**TOOL_HEADERS, **caller}
        return await self.client.post(f"/mcp/{session}", json=message, headers=headers)

    async def tool(
        self, name: str, caller: Mapping[str, str], *, session: str = THEIRS, **extra: Any
    ) -> httpx.Response:
        params = {"name": name, "arguments": {**TOOL_ARGUMENTS[name], **extra}}
        return await self.mcp("tools/call", params, caller, session=session)

    async def picture(self) -> str:
        """All that a call could change, as the operator sees it."""
        seen: list[Any] = []
        for session in (OURS, THEIRS):
            for verb, arguments in (
                ("stats", {}),
                ("saints", {}),
                ("recall", {"query": SECRET_TEXT, "top_k": 100, "agent_id": "olga"}),
                ("inspect", {"focus": SECRET_TEXT, "agent_id": "olga"}),
            ):
                answer = await self.call(verb, OPERATOR, session=session, arguments=arguments)
                seen.append(answer.json())
        sessions = (await self.call("session-list", OPERATOR)).json()
        tokens = (await self.call("token-list", OPERATOR)).json()["tokens"]
        assert SECRET_TEXT in json.dumps(seen), "the picture shows what it is about"
        told = [{k: v for k, v in token.items() if k != "last_used_at"} for token in tokens]
        return json.dumps([seen, sessions, told])


@asynccontextmanager
async def token_world(
    folder: Path, settings: Settings, *, config: Config = KEPT_NOWHERE
) -> AsyncIterator[TokenWorld]:
    """The world, filled; undone at the end."""
    settings.PROCESS = replace(settings.PROCESS, config=KEPT_NOWHERE, auth_mode=AuthMode.TOKENS)
    clock, numbers = ManualClock(), itertools.count(1)

    def draw() -> DrawnToken:
        number = next(numbers)
        return DrawnToken(f"{number:016x}", f"secret-{number:0>36}")

    readers = build_readers(config)
    host = SessionHost(
        InMemoryStore(clock),
        node_id="00000000-0000-4000-8000-0000000000aa",
        endpoint="http://127.0.0.1:7700",
        config=config,
        readers=readers,
        clock=clock,
        ids=SequentialIds(),
        embedder=silent_embedder(),
        cycles=build_cycles(config),
        jobs=build_jobs(config),
        ticks=False,
        keep_tokens=lambda on_writer: TokenKeeper(
            InMemoryTokenStore(),
            clock=clock,
            ids=SequentialIds(),
            draw=draw,
            on_writer=on_writer,
            calls_per_second=100_000,
        ),
    )
    with DataFolder(folder / "data").hold() as held:
        runtime.set_held_folder(held)
        runtime.set_operator_secret(OPERATOR_SECRET)
        await host.start()
        try:
            async with serving(Application()) as client:
                usual = runtime.get_host()
                runtime.set_host(host)
                world = TokenWorld(client, clock)
                await _fill(world)
                yield world
                runtime.set_host(usual)
        finally:
            runtime.set_operator_secret(None)
            runtime.set_held_folder(None)
            await host.close()


async def _fill(world: TokenWorld) -> None:
    for session, content in ((OURS, TOKEN), (THEIRS, SECRET_TEXT)):
        written = await world.call(
            "derive",
            {**OPERATOR, "Lambo-Agent": "ann", "Idempotency-Key": KEY},
            session=session,
            arguments={"concepts": [{"content": content, "concept_type": "entity"}]},
        )
        assert written.status_code == 200, written.text
    await world.make("whole")
    await world.make("reader", scopes=["read"])
    await world.make("neighbour", sessions=[OURS])
    await world.make("expired", expires_seconds=60)
    await world.make("revoked")
    revoked = await world.call("token-revoke", OPERATOR, arguments={"id": world.ids["revoked"]})
    assert revoked.json()["revoked"] is True
    world.clock.advance(61)
    whole = world.callers["whole"]["Authorization"]
    world.callers |= {
        "nobody": {},
        "wrong": {"Authorization": f"{whole[:-1]}x"},
        "unknown": {"Authorization": f"Bearer lambo_{'f' * 16}_{'x' * 43}"},
        "garbled": {"Authorization": "Bearer"},
        "basic": {"Authorization": whole.replace("Bearer", "Basic")},
        "bare": {"Authorization": whole.removeprefix("Bearer ")},
        "wrong secret": {"Lambo-Operator": OPERATOR_SECRET + "x"},
        "forwarded secret": {"Lambo-Operator": OPERATOR_SECRET, "X-Forwarded-For": "127.0.0.1"},
    }
