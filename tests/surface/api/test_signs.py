"""What a server shows to those who watch it: the truth about the store, and bounded numbers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from lambo_site.asgi import Application
from lambo_site.metrics import Metrics
from memory import runtime
from memory.data_folder import DataFolder, HeldFolder
from memory.engine.config import Config, Durability
from memory.testing import FaultKind
from memory.verbs import VERBS
from surface.api.callers import OPERATOR, OPERATOR_SECRET
from surface.api.conftest import World
from surface.api.lifespan import serving
from surface.api.token_world import SECRET_TEXT, TokenWorld, token_world

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

WRITE = {
    "agent_id": "ann",
    "concepts": [{"content": "tokens expire", "concept_type": "logic"}],
}


@pytest.fixture
def held(tmp_path: Path, settings: Settings) -> Iterator[HeldFolder]:
    settings.PROCESS = replace(settings.PROCESS, config=Config(durability=Durability.MEMORY))
    with DataFolder(tmp_path / "data").hold() as folder:
        runtime.set_held_folder(folder)
        yield folder
        runtime.set_held_folder(None)


@pytest.fixture
async def tokens(tmp_path: Path, settings: Settings) -> AsyncIterator[TokenWorld]:
    async with token_world(tmp_path, settings) as made:
        yield made


def samples_of(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(client: httpx.AsyncClient) -> Samples:
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return samples_of(answer.text)


def label(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


async def test_what_happens_is_counted_once_on_every_surface(held: HeldFolder) -> None:
    tool = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "lambo_recall", "arguments": {"agent_id": "mia", "query": "tokens"}},
    }
    mcp = {"Accept": "application/json, text/event-stream"}
    async with serving(Application()) as client:
        for _ in range(3):
            await client.post("/api/v1/sessions/s/derive", json=WRITE)
        await client.post("/mcp/s", json=tool, headers=mcp)
        await client.post("/api/v1/sessions/s/inspect", json={"agent_id": "a", "focus": "nothing"})
        await client.post("/api/v1/sessions/s/retract", json={"concept": "tokens expire"})
        found = await scrape(client)
    assert found["lambo_calls_total", label(verb="derive", outcome="ok")] == 3
    assert found["lambo_calls_total", label(verb="recall", outcome="ok")] == 1
    assert found["lambo_call_seconds_count", label(verb="recall")] == 1
    assert found["lambo_calls_total", label(verb="inspect", outcome="concept_not_found")] == 1
    assert found["lambo_refusals_total", label(code="concept_not_found")] == 1
    assert found["lambo_refusals_total", label(code="forbidden")] == 1
    assert found["lambo_http_responses_total", label(surface="api", status="200")] == 3
    assert found["lambo_http_responses_total", label(surface="mcp", status="200")] == 1
    assert found["lambo_http_responses_total", label(surface="api", status="403")] == 1
    assert found["lambo_open_sessions", ()] == 1
    assert found["lambo_store_up", ()] == 1
    # Three groups of callers, one or more to a batch; the cycles may add some of their own,
    # one of which may be on its way.
    assert 1 <= found["lambo_batch_rows_count", ()] <= 12
    assert found["lambo_batch_rows_sum", ()] >= 3
    assert found["lambo_flush_lag_seconds", ()] < 5
    assert found["process_resident_memory_bytes", ()] > 0


async def test_two_servers_of_one_process_share_no_count(held: HeldFolder) -> None:
    async with serving(Application()) as client:
        await client.post("/api/v1/sessions/s/derive", json=WRITE)
    async with serving(Application()) as client:
        found = await scrape(client)
    assert not any(name == "lambo_calls_total" for name, _ in found)


async def test_no_name_or_text_of_a_caller_becomes_a_label(held: HeldFolder) -> None:
    async with serving(Application()) as client:
        for number in range(20):
            body = {**WRITE, "agent_id": f"agent-{number}"}
            await client.post(f"/api/v1/sessions/session-{number}/derive", json=body)
            await client.get(f"/api/v1/no-such-path-{number}")
            await client.get(f"/page-{number}")
        text = (await client.get("/metrics")).text
    assert not any(word in text for word in ("agent-", "session-", "expire", "path-", "page-"))
    words = {value for _, labels in samples_of(text) for name, value in labels if name == "verb"}
    assert words <= set(VERBS)


async def test_fences_embedder_failures_and_retries_reach_the_page() -> None:
    metrics = Metrics()
    metrics.fenced("lease_lost")
    metrics.not_embedded(3)
    metrics.commit_failed()
    metrics.rejected()
    metrics.cycle_ran("round", 0.25)
    metrics.loop_was_late(0.004)
    found = samples_of(metrics.render(None).decode())
    assert found["lambo_fences_total", label(code="lease_lost")] == 1
    assert found["lambo_embedder_failures_total", ()] == 3
    assert found["lambo_commit_retries_total", ()] == 1
    assert found["lambo_dead_letters_total", ()] == 1
    assert found["lambo_cycle_seconds_sum", label(cycle="round")] == 0.25
    assert found["lambo_loop_lag_seconds_sum", ()] == 0.004
    assert found["lambo_store_up", ()] == 0  # there is no host


async def test_metrics_want_a_token_that_may_read_where_tokens_are_asked_for(
    tokens: TokenWorld,
) -> None:
    await tokens.make("scraper", scopes=["read"], sessions=["no-session-at-all"])
    await tokens.make("writer", scopes=["write"])
    seen = {
        kind: await tokens.client.get("/metrics", headers=caller)
        for kind, caller in tokens.callers.items()
    }
    let_in = {kind for kind, answer in seen.items() if answer.status_code == 200}
    assert let_in == {"scraper", "whole", "reader", "neighbour"}
    assert seen["writer"].status_code == 403
    assert all(seen[kind].status_code == 401 for kind in ("nobody", "expired", "revoked", "wrong"))
    text = seen["scraper"].text
    assert SECRET_TEXT not in text
    assert not any(secret in text for secret in tokens.secrets)
    assert samples_of(text)["lambo_refusals_total", label(code="unauthenticated")] >= 4
    operator = await tokens.client.get("/metrics", headers=OPERATOR)
    assert operator.status_code == 200
    assert OPERATOR_SECRET not in operator.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"X-Forwarded-For": "10.0.0.1"},
    ],
)
async def test_stranger_sees_no_sign(
    held: HeldFolder, path: str, headers: Mapping[str, str]
) -> None:
    async with serving(Application()) as client:
        answer = await client.get(path, headers=dict(headers))
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
        assert (await client.post(path)).status_code == 405
        empty = await client.head(path)
        assert (empty.status_code, empty.content) == (200, b"")


async def test_quiet_server_whose_store_goes_away_is_not_ready(world: World) -> None:
    """Nobody writes, so no commit fails: only asking finds out."""
    assert await world.host.is_ready()
    transport = httpx.ASGITransport(app=Application())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get("/readyz")).status_code == 200
        world.clock.advance(2)
        world.store.fail_next("find_session", FaultKind.TRANSIENT_BEFORE)
        assert (await client.get("/readyz")).json()["status"] == "not ready"
        assert (await client.get("/healthz")).json()["status"] == "ok"
        calls = world.store.calls["find_session"]
        await client.get("/readyz")
        assert world.store.calls["find_session"] == calls  # asked a moment ago
        world.clock.advance(2)
        assert (await client.get("/readyz")).status_code == 200


async def test_store_that_hangs_is_not_ready_and_asked_once(world: World) -> None:
    fault = world.store.fail_next("find_session", FaultKind.HANG)
    before = world.store.calls["find_session"]
    try:
        assert await asyncio.gather(*(world.host.is_ready() for _ in range(3))) == [False] * 3
        world.clock.advance(60)
        assert not await world.host.is_ready()
        assert world.store.calls["find_session"] == before + 1
    finally:
        fault.release.set()
