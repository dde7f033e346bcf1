"""Twelve agents at once, over MCP and over HTTP: nobody is refused, nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

from memory.engine.limits import TOP_K_MAX
from serving import CALL_SECONDS, HttpClient, RunningServer, count, rows, serving

SESSION = "crowd"
CLIENTS_EACH = 6
UNIQUE = 100
IDENTICAL = 20
IDENTICAL_CONTENT = "the one statement that everybody makes"
WRITES = 2 * CLIENTS_EACH * UNIQUE + IDENTICAL

Derive = Callable[[str], Awaitable[str]]
"""Writes one concept; returns "" or what was answered instead of success."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@asynccontextmanager
async def over_mcp(url: str, agent: str) -> AsyncIterator[Derive]:
    async with Client(f"{url}/mcp/{SESSION}") as client:

        async def derive(content: str) -> str:
            arguments = {"agent_id": agent, "concepts": [concept(content)]}
            result = await client.call_tool("lambo_derive", arguments)
            return str(result.structured_content) if result.is_error else ""

        yield derive


@asynccontextmanager
async def over_http(url: str, agent: str) -> AsyncIterator[Derive]:
    async with httpx.AsyncClient(base_url=url, timeout=CALL_SECONDS) as client:

        async def derive(content: str) -> str:
            body = {"agent_id": agent, "concepts": [concept(content)]}
            answer = await client.post(f"/api/v1/sessions/{SESSION}/derive", json=body)
            return "" if answer.status_code == 200 else answer.text

        yield derive


def concept(content: str) -> dict[str, str]:
    return {"content": content, "concept_type": "logic"}


def statement(agent: str, number: int) -> str:
    return f"{agent} says thing{number}"


def agent_names() -> list[str]:
    return [f"{way}agent{n}" for way in ("mcp", "http") for n in range(CLIENTS_EACH)]


async def write_all(url: str) -> list[str]:
    """Everybody at once; what was answered instead of success."""
    async with AsyncExitStack() as stack:
        derive_by_agent: dict[str, Derive] = {}
        for agent in agent_names():
            way = over_mcp if agent.startswith("mcp") else over_http
            derive_by_agent[agent] = await stack.enter_async_context(way(url, agent))

        async def write_own(agent: str, derive: Derive) -> list[str]:
            return [await derive(statement(agent, number)) for number in range(UNIQUE)]

        ways = list(derive_by_agent.values())
        answers = await asyncio.gather(
            *(write_own(agent, derive) for agent, derive in derive_by_agent.items()),
            *(_alone(ways[n % len(ways)](IDENTICAL_CONTENT)) for n in range(IDENTICAL)),
        )
    return [answer for told in answers for answer in told if answer]


async def _alone(call: Awaitable[str]) -> list[str]:
    return [await call]


async def test_twelve_clients_at_once_lose_and_double_nothing(folder: Path) -> None:
    with serving(folder) as server:
        refusals = await write_all(server.url)
        assert refusals == []
        check_tables(server.data_dir)
        with HttpClient(server.url) as client:
            check_answers(client, server.data_dir)
        stopped = server.stop()
        assert (stopped.code, stopped.says_all_committed) == (0, True)
        check_log(server)
    with serving(folder) as server, HttpClient(server.url) as client:
        check_answers(client, server.data_dir)
        check_log(server)


def check_tables(data_dir: Path) -> None:
    """Straight from SQLite: each statement once, each derivation once."""
    concepts = rows(data_dir, "SELECT content, id FROM lambo_concept WHERE session_id = ?", SESSION)
    said = {statement(agent, number) for agent in agent_names() for number in range(UNIQUE)}
    assert Counter(content for content, _ in concepts) == Counter({*said, IDENTICAL_CONTENT})
    derived = Counter(
        target
        for (target,) in rows(
            data_dir,
            "SELECT target FROM lambo_edge WHERE session_id = ? AND edge_type = 'Derives'",
            SESSION,
        )
    )
    times = {content: derived[concept_id] for content, concept_id in concepts}
    assert times.pop(IDENTICAL_CONTENT) == IDENTICAL
    assert set(times.values()) == {1}
    assert count(data_dir, "interaction", SESSION) == count(data_dir, "receipt", SESSION) == WRITES
    by_agent = Counter(
        agent
        for (agent,) in rows(
            data_dir, "SELECT agent_id FROM lambo_interaction WHERE session_id = ?", SESSION
        )
    )
    assert set(by_agent) == set(agent_names())
    # One chain through all writes: none was planned on a state that another had left.
    previous = rows(
        data_dir, "SELECT previous_id FROM lambo_interaction WHERE session_id = ?", SESSION
    )
    assert len(set(previous)) == WRITES


def check_answers(client: HttpClient, data_dir: Path) -> None:
    """What the server says agrees with the tables, and recall finds every statement."""
    stats = client.stats(SESSION)
    assert stats["concept_count"] == count(data_dir, "concept", SESSION)
    assert stats["interaction_count"] == count(data_dir, "interaction", SESSION)
    assert stats["edge_count"] == count(data_dir, "edge", SESSION)
    # The server takes positions of its own, for what it does by itself.
    assert stats["position"] >= WRITES
    found: set[str] = set()
    for agent in agent_names():
        hits: list[dict[str, Any]] = client.recall(SESSION, agent, top_k=TOP_K_MAX)["hits"]
        found |= {hit["content"] for hit in hits}
    print(
        f"top_k {TOP_K_MAX}: recall by agent's name shows {len(found)} of {stats['concept_count']}"
    )
    for agent in agent_names():
        for number in range(0, UNIQUE, 9):
            wanted = statement(agent, number)
            (first, *_) = client.recall(SESSION, wanted, top_k=1)["hits"]
            assert first["content"] == wanted
    assert client.recall(SESSION, IDENTICAL_CONTENT, top_k=1)["hits"][0]["content"] == (
        IDENTICAL_CONTENT
    )


def check_log(server: RunningServer) -> None:
    assert "Traceback" not in server.log
    assert " ERROR " not in server.log
    assert " WARNING " not in server.log
