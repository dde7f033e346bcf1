"""An inspection tells why a concept stands where it stands, as the server itself judges it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from canon.engine.admission import explain
from canon.engine.measurements import Circumstances
from canon.engine.settings import Policy
from hosting import hosting
from lambo_site.wiring import build_cycles, build_readers
from memory.engine.config import Config
from memory.engine.ports import StoreTransient
from memory.engine.requests import Caller, ConceptInput, DeriveRequest, InspectRequest
from memory.engine.rights import Scope
from memory.engine.snapshot import take_snapshot
from memory.engine.times import SECOND, Micros
from memory.engine.tokens import TokenRecord
from memory.engine.types import ConceptType
from memory.reply_models import InspectReply
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.service.tokens import OnWriter, TokenKeeper
from memory.store.tokens import InMemoryTokenStore
from memory.system import RandomIds, draw_token
from memory.testing import InMemoryStore, ManualClock, SequentialIds


@asynccontextmanager
async def explaining(clock: ManualClock, **config: Any) -> AsyncIterator[SessionHost]:
    """A host that explains, with a pillar that two other writes rest on."""
    cycles = build_cycles(Config(**config))
    async with hosting(InMemoryStore(), clock=clock, cycles=cycles, ticks=False, **config) as host:
        await write(host, "ann", "pillar")
        for name in ("first", "second"):
            clock.advance(100)
            await write(host, "ann", name, "pillar")
        clock.advance(100)
        yield host


async def write(host: SessionHost, agent: str, content: str, *cited: str) -> None:
    request = DeriveRequest((ConceptInput(content, ConceptType.ENTITY, cited),))
    await host.write("s", lambda memory: memory.derive(request, Caller(agent)), create=True)


async def inspect(host: SessionHost, focus: str = "pillar") -> Reply:
    return await (await host.view("s")).inspect(InspectRequest(focus, 1))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_the_view_tells_the_status_and_each_gate_that_is_not_passed(
    clock: ManualClock,
) -> None:
    async with explaining(clock) as host:
        reply = await inspect(host)
    assert reply.text.splitlines()[:6] == [
        "focus: pillar [Entity]",
        "blast radius: 2",
        "⚑ Load-bearing pillar — 2 nodes depend on this. Modify with caution.",
        "status: None under swarm, not yet Candidate",
        "  - It has outlived 0 sweeps of garbage collection; 3 are needed.",
        "",
    ]


async def test_the_explanation_is_the_evaluators_own_without_the_names_of_its_support(
    clock: ManualClock,
) -> None:
    async with explaining(clock) as host:
        reply = await inspect(host)
        graph = (await host.memory("s", create=False)).graph
        row = graph.find_by_content("pillar")
        assert row is not None
        expected = explain(graph, row, Circumstances(now=clock.now())).as_wire()
    assert expected.pop("supports")
    assert reply.structured["admission"] == expected
    InspectReply.model_validate(reply.structured)
    assert [check["gate"] for check in expected["checks"]] == [
        "gc_survived",
        "distinct_interactions",
    ]


async def test_an_interaction_has_nothing_to_explain(clock: ManualClock) -> None:
    async with explaining(clock) as host:
        graph = (await host.memory("s", create=False)).graph
        reply = await inspect(host, graph.interactions()[0].id)
    assert reply.structured["admission"] is None
    assert "status:" not in reply.text


async def test_asking_changes_nothing_that_a_gate_reads(clock: ManualClock) -> None:
    async with explaining(clock) as host:
        memory = await host.memory("s", create=False)

        def judged() -> list[tuple[Any, ...]]:
            snapshot = take_snapshot(memory.graph)
            return [
                (one.id, one.status, one.gc_survived, one.last_demotion_time)
                for one in snapshot.concepts
            ] + [(edge.id, edge.weight, edge.created_at) for edge in snapshot.edges]

        before = judged()
        first = await inspect(host)
        for _ in range(20):
            await inspect(host)
        assert judged() == before
        assert (await inspect(host)).structured["admission"] == first.structured["admission"]


async def test_solo_tells_its_terms(clock: ManualClock) -> None:
    async with explaining(clock, promotion_policy=Policy.SOLO) as host:
        admission = (await inspect(host)).structured["admission"]
    assert admission["solo_terms"] == {
        "sessions": 1,
        "confirmations": 0,
        "distinct": 2,
        "reverts": 0,
    }
    # One sitting, two interactions, and entities weigh a fifth more.
    assert admission["solo_score"] == pytest.approx((1 + 2 * 2) * 1.2)


class TokensAway(InMemoryTokenStore):
    """Tokens in a store that stops answering when told."""

    is_away = False

    def load_tokens(self) -> Sequence[TokenRecord]:
        if self.is_away:
            raise StoreTransient("away")
        return super().load_tokens()


@asynccontextmanager
async def quorum_of(clock: ManualClock, tokens: TokensAway) -> AsyncIterator[SessionHost]:
    """A host that asks for independent agents: ann's pillar, and what ben and cy rest on it."""
    config = Config(promotion_policy=Policy.QUORUM)

    def keep_tokens(on_writer: OnWriter) -> TokenKeeper:
        ids = SequentialIds()
        return TokenKeeper(tokens, clock=clock, ids=ids, draw=draw_token, on_writer=on_writer)

    host = SessionHost(
        InMemoryStore(),
        node_id="node-1",
        endpoint="http://node-1",
        config=config,
        readers=build_readers(config),
        clock=clock,
        ids=RandomIds(),
        keep_tokens=keep_tokens,
        cycles=build_cycles(config),
        ticks=False,
    )
    await host.start()
    try:
        await write(host, "ann", "pillar")
        for agent in ("ben", "cy"):
            clock.advance(100)
            await write(host, agent, f"work of {agent}", "pillar")
        clock.advance(100)
        yield host
    finally:
        await host.close()


def token_of(agent: str, created_at: Micros) -> TokenRecord:
    scopes = frozenset({Scope.WRITE})
    return TokenRecord(f"{agent:0>16}", agent, agent, scopes, ("*",), False, "0" * 64, created_at)


async def test_quorum_counts_the_agents_whose_tokens_the_server_keeps(clock: ManualClock) -> None:
    tokens = TokensAway()
    async with quorum_of(clock, tokens) as host:
        assert (await inspect(host)).structured["admission"]["agents"] == 0
        long_ago = clock.now() - 30 * 86_400 * SECOND
        for agent in ("ben", "cy"):
            tokens.put_token(token_of(agent, long_ago))
        clock.advance(10)  # a copy of the tokens is kept for a few seconds
        admission = (await inspect(host)).structured["admission"]
    assert admission["agents"] == 2
    gates = {check["gate"]: check["met"] for check in admission["checks"]}
    assert gates == {
        "gc_survived": False,
        "distinct_interactions": True,
        "independent_agents": True,
    }


async def test_an_inspection_is_answered_while_nothing_is_known_of_tokens(
    clock: ManualClock,
) -> None:
    tokens = TokensAway()
    async with quorum_of(clock, tokens) as host:
        tokens.is_away = True
        clock.advance(10)
        reply = await inspect(host)
    assert reply.structured["admission"] is None
    assert reply.structured["focus"]["blast_radius"] == 2
    line = "inspect: the tokens of agents are not known now, so no status is explained"
    assert line in reply.structured["warnings"]
