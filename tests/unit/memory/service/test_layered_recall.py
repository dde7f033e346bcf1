"""A recall over several sessions through a host: who takes part, who seems absent."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting import AGENT, act, hosting, statement
from memory.embed.fixture import FixtureEmbedder
from memory.engine.embedding import EmbeddingContract
from memory.engine.errors import InvalidArgument
from memory.engine.requests import Layer, RecallRequest
from memory.engine.rights import LOCAL, Rights, Scope
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import (
    EmbedderFault,
    FaultKind,
    FaultyStore,
    InMemoryStore,
    ScriptedEmbedder,
)

QUERY = "how often does billing retry"


@pytest.fixture
def scripted() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder())


@pytest.fixture
async def host(scripted: ScriptedEmbedder) -> AsyncIterator[SessionHost]:
    async with hosting(InMemoryStore(), embedder=scripted) as host:
        await fill(host)
        yield host


async def derive(host: SessionHost, session: str, *texts: str) -> None:
    await host.write(session, lambda m: m.derive(statement(*texts), AGENT), create=True)


async def fill(host: SessionHost) -> None:
    await derive(host, "shop", "billing does retry often in the shop")
    await derive(host, "infra", "billing in infra does retry how often we say")


async def ask(
    host: SessionHost,
    *names: str,
    session: str = "shop",
    query: str = QUERY,
    rights: Rights = LOCAL,
    least: float | None = 0.0,
    **more: Any,
) -> Reply:
    layers = tuple(Layer(name, min_similarity=least) for name in names)
    request = RecallRequest(query, layers=layers, **more)
    return await host.views.recall(await host.view(session), request, AGENT, rights)


def sources(reply: Reply) -> list[str | None]:
    return [hit.get("session") for hit in reply.structured["hits"]]


def gone(name: str, *names: str) -> str:
    return f"recall: layer {name} is unavailable; results are from {', '.join(names)}"


async def test_hits_of_layers_say_where_they_come_from(host: SessionHost) -> None:
    reply = await ask(host, "infra")
    assert sources(reply) == [None, "infra"]
    assert reply.text == reply.structured["context"]
    assert reply.text.splitlines()[-1].endswith(" from infra")
    assert reply.structured["warnings"] == []


async def test_the_question_is_embedded_once(host: SessionHost, scripted: ScriptedEmbedder) -> None:
    await derive(host, "company", "billing is retried by all")
    scripted.calls.clear()
    await ask(host, "infra", "company")
    assert scripted.calls == [[QUERY]]


async def test_a_layer_put_away_is_opened(host: SessionHost) -> None:
    await host.close_session("infra", AGENT)
    assert sources(await ask(host, "infra")) == [None, "infra"]
    assert "infra" in host.open_session_ids


async def test_a_layer_there_is_no_room_to_open_is_read_from_the_store(
    scripted: ScriptedEmbedder,
) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, open_sessions_max=1) as host:
        await derive(host, "infra", "billing in infra does retry how often we say")
        await derive(host, "shop", "billing does retry often in the shop")
        own = await host.memory("shop", create=False)
        async with own.cycle_turn:  # busy: it may not be put away
            reply = await ask(host, "infra")
        assert sources(reply) == [None, "infra"]
        (warning,) = reply.structured["warnings"]
        assert warning.startswith("[infra] read from the store")
        assert host.open_session_ids == ["shop"]


async def test_what_may_not_be_read_looks_like_what_is_not_there(host: SessionHost) -> None:
    rights = Rights(frozenset({Scope.READ}), ("shop",))
    forbidden = await ask(host, "infra", rights=rights)
    absent = await ask(host, "nowhere")
    alone = await ask(host)
    assert forbidden.structured["warnings"] == [gone("infra", "shop")]
    assert absent.structured["warnings"] == [gone("nowhere", "shop")]
    for reply in (forbidden, absent):
        reply.structured["warnings"] = []
        assert (reply.text, reply.structured) == (alone.text, alone.structured)
    assert "nowhere" not in host.open_session_ids


async def test_what_may_not_be_read_is_looked_for_like_what_is_not_there(
    scripted: ScriptedEmbedder,
) -> None:
    """Else the time it takes would tell which of the two a name is."""

    class Counting(FaultyStore):
        looks = 0

        def find_session(self, session_id: str) -> Any:
            self.looks += 1
            return super().find_session(session_id)

    store = Counting(InMemoryStore())
    async with hosting(store, embedder=scripted) as host:
        await fill(host)
        counts = []
        for name, patterns in (("infra", ("shop",)), ("nowhere", ("*",))):
            store.looks = 0
            await ask(host, name, rights=Rights(frozenset({Scope.READ}), patterns))
            counts.append(store.looks)
        assert counts[0] == counts[1] == 1


async def test_a_layer_that_fails_is_left_out(scripted: ScriptedEmbedder) -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store, embedder=scripted) as host:
        await fill(host)
        await derive(host, "company", "billing is retried by all, how often")
        await host.close_session("infra", AGENT)
        store.fail_next("load_session", FaultKind.TRANSIENT_BEFORE)
        reply = await ask(host, "infra", "company")
        assert reply.structured["warnings"] == [gone("infra", "shop", "company")]
        assert set(sources(reply)) == {None, "company"}


async def test_a_layer_of_another_contract_is_left_out(
    host: SessionHost, scripted: ScriptedEmbedder
) -> None:
    memory = await host.memory("infra", create=False)
    memory.graph.contract = EmbeddingContract("another", None, 384)
    reply = await ask(host, "infra")
    assert sources(reply) == [None]
    assert reply.structured["warnings"] == [gone("infra", "shop")]


async def test_when_the_question_is_not_embedded_layers_give_dependents_only(
    host: SessionHost, scripted: ScriptedEmbedder
) -> None:
    await host.write(
        "infra",
        lambda m: m.record_action(act("deploy infra", "the queue"), AGENT),
        create=False,
    )
    scripted.fault = EmbedderFault.DOWN
    ordinary = await ask(host, "infra")
    assert sources(ordinary) == [None]
    assert any("query embedding failed" in line for line in ordinary.structured["warnings"])
    dependents = await ask(host, "infra", query="what depends on the queue")
    assert "infra" in sources(dependents)


async def test_a_session_nobody_has_made_yet_is_answered_for_by_its_layers(
    host: SessionHost,
) -> None:
    reply = await ask(host, "infra", session="new")
    assert sources(reply) == ["infra"]
    assert "new" not in host.open_session_ids


async def test_without_layers_it_is_the_plain_recall(host: SessionHost) -> None:
    request = RecallRequest(QUERY)
    plain = await (await host.view("shop")).recall(request, agent_id=AGENT.agent_id)
    reply = await ask(host)
    assert (reply.text, reply.structured) == (plain.text, plain.structured)


async def test_a_session_is_no_layer_of_itself(host: SessionHost) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await ask(host, "infra", "shop")
    assert refused.value.field == "layers[1].session"


async def test_it_is_one_line_of_the_log(
    host: SessionHost, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="lambo.recall"):
        reply = await ask(host, "infra")
    (record,) = [one for one in caplog.records if one.name == "lambo.recall"]
    fields = vars(record)
    assert (fields["session"], fields["layers"], fields["by_meaning"]) == ("shop", 1, True)
    assert fields["hits"] == len(reply.structured["hits"])
    assert "billing" not in repr(fields)
