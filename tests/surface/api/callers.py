"""Calls as a person with curl would make them: addresses, bodies and headers written out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from memory.admission import Verb
from memory.embed.fixture import FixtureEmbedder
from memory.engine.embedding import Embedder
from memory.engine.tokens import DrawnToken
from memory.testing import EmbedderFault, ScriptedEmbedder
from memory.verbs import VERBS

OPERATOR_SECRET = "the-secret-of-this-run"
OPERATOR = {"Lambo-Operator": OPERATOR_SECRET, "Lambo-User": "olga"}
BASE = "/api/v1"

TOKEN = "users need tokens"
SCHEMA = "the user schema"
REMOVED = "00000000-0000-4000-8000-000000000003"
"""The concept that `write_first` takes out again; the ids of these tests count up."""

DRAWN = DrawnToken("00000000000000d1", "s" * 43)
"""The token that `token-create` makes in these tests."""


def silent_embedder() -> Embedder:
    """An embedder that takes no text: sessions have a contract, and words alone decide."""
    silent = ScriptedEmbedder(FixtureEmbedder())
    silent.fault = EmbedderFault.HOPELESS
    return silent


ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "derive": {"concepts": [{"content": TOKEN, "concept_type": "entity"}]},
    "recall": {"query": "which tokens?"},
    "record-action": {"action": "rotated the tokens", "modifies": [TOKEN]},
    "inspect": {"focus": TOKEN},
    "guard": {"action": f"delete: {TOKEN}"},
    "reserve": {"concept": TOKEN},
    "release": {"concept": TOKEN},
    "saints": {},
    "concepts": {},
    "events": {},
    "stats": {},
    "demote": {"chunk": "One thing. Another thing.", "chunk_group_id": "chunk-1"},
    "retract": {"concept": TOKEN, "dry_run": True},
    "disappearances": {},
    "restore": {"id": REMOVED},
    "purge": {"concept": TOKEN},
    "confirm": {"concept": TOKEN},
    "root-goal": {"goals": [TOKEN]},
    "synonym": {"source": "jwt", "target": "token"},
    "reembed": {},
    "receipt": {"key": "key-of-the-first-write"},
    "session-list": {},
    "session-create": {"session": "fresh"},
    "session-close": {},
    "session-delete": {"confirm": "s"},
    "job-run": {"job": "retention"},
    "job-list": {},
    "token-create": {"name": "ci", "agent": "ci", "scopes": ["read"], "sessions": ["*"]},
    "token-list": {},
    "token-revoke": {"id": DRAWN.token_id},
}
"""Arguments with which each verb succeeds, in the order of the table, after `write_first`."""


@dataclass(frozen=True)
class Api:
    """A client of the application under test."""

    client: httpx.AsyncClient

    async def verb(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        session: str = "s",
        agent: str | None = "ann",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Call a verb; `arguments` are those of `ARGUMENTS` when not given."""
        verb = VERBS[name]
        given = dict(ARGUMENTS[name] if arguments is None else arguments)
        named = {**(OPERATOR if verb.operator_only else {}), **(headers or {})}
        if agent is not None:
            named.setdefault("Lambo-Agent", agent)
        sent = {header.encode(): value.encode() for header, value in named.items()}
        address = path_of(verb, session, given)
        if verb.method == "POST":
            return await self.client.post(address, json=given, headers=sent)
        return await self.client.request(verb.method, address, params=given, headers=sent)

    async def post(
        self, path: str, content: bytes | str, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a body as it is, below `/api/v1`."""
        return await self.client.post(f"{BASE}{path}", content=content, headers=dict(headers or {}))

    async def write_first(self) -> None:
        """Give the session `s` one concept, under a key that can be asked for; and take one out."""
        await self.verb("derive", {"concepts": [{"content": "old", "concept_type": "logic"}]})
        gone = await self.verb("retract", {"concept": "old"})
        assert gone.json()["target"] == REMOVED
        key = {"Idempotency-Key": "key-of-the-first-write"}
        answer = await self.verb("derive", headers=key)
        assert answer.status_code == 200, answer.text


def path_of(verb: Verb, session: str, arguments: dict[str, Any]) -> str:
    """The address of a verb; takes out of `arguments` what stands in it."""
    path = verb.path.replace("{session}", session)
    if "{key}" in path:
        path = path.replace("{key}", arguments.pop("key"))
    return f"{BASE}{path}"


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error object of a failed call; fails when the answer is no failure in our shape."""
    assert response.status_code >= 400
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert error["code"]
    assert error["message"]
    return error
