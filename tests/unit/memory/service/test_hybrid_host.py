"""Writes by meaning through a host: linked at once, or stored and linked to nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hosting import AGENT, act, contents, hosting, statement, until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.config import MatchStrategy
from memory.engine.embedding import EmbeddingContract
from memory.engine.errors import EmbeddingMismatch, IdempotencyConflict
from memory.engine.graph import Graph
from memory.engine.mutations import PutVector
from memory.engine.requests import (
    Caller,
    DemoteRequest,
    InspectRequest,
    RecallRequest,
    RetractRequest,
)
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import ConceptType, EdgeType
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import (
    EmbedderFault,
    FaultKind,
    FaultyStore,
    InMemoryStore,
    ScriptedEmbedder,
)

HYBRID = MatchStrategy.HYBRID
THREE, THREE_AGAIN = "the billing service retries three times", "billing service retries 3 times"
FIVE = "the billing service retries five times"


@pytest.fixture
def scripted() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder())


async def derive(
    host: SessionHost,
    *texts: str,
    caller: Caller = AGENT,
    session: str = "s",
    kind: ConceptType = ConceptType.LOGIC,
) -> Reply:
    request = statement(*texts, kind=kind)
    return await host.write(session, lambda m: m.derive(request, caller), create=True)


async def stats(host: SessionHost, session: str = "s") -> dict[str, Any]:
    return (await (await host.view(session)).stats()).structured


async def until_filled(host: SessionHost) -> None:
    memory = await host.memory("s", create=False)
    await until(lambda: memory.graph.missing_vector_count == 0)


async def graph_of(host: SessionHost, session: str = "s") -> Graph:
    return (await host.memory(session, create=False)).graph


def semantic_pairs(graph: Graph) -> set[frozenset[str]]:
    text = {graph.id_at(row): graph.content_at(row) for row in graph.concept_rows()}
    return {
        frozenset([text[edge.source], text[edge.target]])
        for edge in graph.all_edges()
        if edge.edge_type is EdgeType.SEMANTIC
    }


# -- with an embedder ------------------------------------------------------------------------------


async def test_a_fact_in_other_words_is_linked_and_another_value_is_offered(
    scripted: ScriptedEmbedder,
) -> None:
    store = InMemoryStore()
    async with hosting(store, embedder=scripted, match_strategy=HYBRID) as host:
        first = await derive(host, THREE)
        again = await derive(host, THREE_AGAIN)
        other = await derive(host, FIVE)
        assert first.structured["semantic_merged"] == []
        assert again.structured["semantic_merged"] == first.structured["created"]
        assert other.structured["semantic_merged"] == []
        offered = [c["id"] for c in other.structured["replacement_candidates"]]
        assert first.structured["created"][0] in offered
        graph = await graph_of(host)
        assert semantic_pairs(graph) == {frozenset([THREE, THREE_AGAIN])}
        assert (await stats(host))["missing_vectors"] == 0

    async with hosting(store, embedder=scripted, match_strategy=HYBRID) as host:
        assert take_snapshot(await graph_of(host)) == take_snapshot(graph)


async def test_only_new_texts_are_embedded(scripted: ScriptedEmbedder) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, "alpha", "beta")
        await derive(host, "Alpha", "gamma")
        await derive(host, "alpha")
    assert scripted.calls == [["alpha", "beta"], ["gamma"]]


async def test_actions_targets_and_observations_get_vectors_and_no_links(
    scripted: ScriptedEmbedder,
) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, THREE)
        await host.write(
            "s", lambda m: m.record_action(act(THREE_AGAIN, FIVE), AGENT), create=False
        )
        chunk = DemoteRequest(f"{THREE} today. It rained.", "chunk")
        await host.write("s", lambda m: m.demote(chunk, AGENT), create=False)
        graph = await graph_of(host)
        assert graph.concept_count == 5
        assert graph.missing_vector_count == 0
        assert semantic_pairs(graph) == set()


async def test_writes_side_by_side_see_each_other(scripted: ScriptedEmbedder) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, "something else")
        scripted.hold()
        writes = [asyncio.create_task(derive(host, text)) for text in (THREE, THREE_AGAIN)]
        await asyncio.to_thread(scripted.entered.wait)
        scripted.release()
        await asyncio.gather(*writes)
        assert semantic_pairs(await graph_of(host)) == {frozenset([THREE, THREE_AGAIN])}


async def test_a_key_used_twice_while_texts_are_embedded_is_one_write(
    scripted: ScriptedEmbedder,
) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, "something else")
        scripted.hold()
        caller = Caller("agent-a", key="k")
        twins = [asyncio.create_task(derive(host, "alpha", caller=caller)) for _ in range(3)]
        other = asyncio.create_task(derive(host, "beta", caller=caller))
        await asyncio.to_thread(scripted.entered.wait)
        scripted.release()
        replies = await asyncio.gather(*twins)
        with pytest.raises(IdempotencyConflict):
            await other
        assert sorted(reply.replayed for reply in replies) == [False, True, True]
        assert contents(await graph_of(host)) == {"something else", "alpha"}


async def test_a_refused_write_frees_its_key(scripted: ScriptedEmbedder) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, "something else")
        caller = Caller("agent-a", key="k")
        bad = act("alpha", "alpha")
        for _ in range(2):
            with pytest.raises(Exception, match="depend on itself"):
                await host.write("s", lambda m: m.record_action(bad, caller), create=False)
        assert (await derive(host, "beta", caller=caller)).replayed is False


async def test_a_repeated_observation_is_matched_from_the_first_write_on(
    scripted: ScriptedEmbedder,
) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        kind = ConceptType.OBSERVATION
        reply = await derive(host, "rain fell", "rain  fell", kind=kind)
        assert len(reply.structured["created"]) == 1
        reply = await derive(host, "rain fell", kind=kind)
        assert reply.structured["created"] == []


async def test_recall_finds_what_shares_no_word_stem_with_the_question(
    scripted: ScriptedEmbedder,
) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, "reinvoicing")
        for number in range(4):
            await derive(host, f"noise {number} of another kind")
        asked = RecallRequest("invoicing", top_k=1, traversal_depth=0)
        view = await host.view("s")
        found = await view.recall(asked)
        assert [hit["content"] for hit in found.structured["hits"]] == ["reinvoicing"]
        assert found.structured["warnings"] == []

        scripted.fault = EmbedderFault.DOWN
        without = await view.recall(asked)
        assert "reinvoicing" not in without.text
        (warning,) = without.structured["warnings"]
        assert warning.startswith("recall: query embedding failed (injected)")


@pytest.mark.parametrize("asked_of", range(12))
async def test_the_one_fact_that_means_what_is_asked_comes_first_wherever_it_was_written(
    scripted: ScriptedEmbedder, asked_of: int
) -> None:
    """Fusion by rank once put it last: its neighbours' places added up to more than its own."""
    words = ["aardvark", "bison", "camel", "dormouse", "egret", "ferret"]
    words += ["gnu", "heron", "ibis", "jackal", "kudu", "lemur"]
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        for word in words:
            await derive(host, f"pre{word}s")
        view = await host.view("s")
        found = await view.recall(RecallRequest(f"pre{words[asked_of]}", traversal_depth=0))
        assert found.structured["hits"][0]["content"] == f"pre{words[asked_of]}s"


async def test_a_recall_of_a_session_without_vectors_asks_no_embedder(
    scripted: ScriptedEmbedder,
) -> None:
    async with hosting(InMemoryStore(), embedder=scripted, match_strategy=HYBRID) as host:
        await host.create_session("s", AGENT)
        await (await host.view("s")).recall(RecallRequest("anything"))
        await (await host.view("unknown")).recall(RecallRequest("anything"))
    assert scripted.calls == []


# -- an embedder in trouble ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", sorted(set(EmbedderFault) - {EmbedderFault.HOPELESS}, key=str))
async def test_writes_go_on_without_the_embedder_and_vectors_are_made_up_for(
    scripted: ScriptedEmbedder, fault: EmbedderFault
) -> None:
    store = InMemoryStore()
    scripted.fault = fault
    async with hosting(
        store, embedder=scripted, match_strategy=HYBRID, retry_initial_seconds=0.01
    ) as host:
        for number in range(20):
            reply = await derive(host, f"fact {number} of the matter")
            assert len(reply.structured["created"]) == 1
        assert (await stats(host))["missing_vectors"] == 20
        found = await (await host.view("s")).recall(RecallRequest("fact 7"))
        assert "fact 7" in found.text

        scripted.fault = None
        await until_filled(host)

        graph = await graph_of(host)
    loaded = store.load_session("s")
    assert loaded is not None
    assert len(loaded.snapshot.vectors) == 20
    assert take_snapshot(load_snapshot(loaded.snapshot)) == take_snapshot(graph)
    assert loaded.position == 21


async def test_a_hanging_embedder_holds_a_write_for_the_deadline_alone(
    scripted: ScriptedEmbedder,
) -> None:
    async with hosting(
        InMemoryStore(),
        embedder=scripted,
        match_strategy=HYBRID,
        embed_deadline_seconds=0.05,
        retry_initial_seconds=0.01,
    ) as host:
        scripted.hold()
        async with asyncio.timeout(10):
            for number in range(10):
                await derive(host, f"fact {number} of the matter")
        assert (await stats(host))["missing_vectors"] == 10
        scripted.release()
        await until_filled(host)


async def test_what_can_never_be_embedded_is_not_asked_again_and_again(
    scripted: ScriptedEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.fault = EmbedderFault.HOPELESS
    async with hosting(
        InMemoryStore(), embedder=scripted, match_strategy=HYBRID, retry_initial_seconds=0.01
    ) as host:
        await derive(host, "alpha")
        await until(lambda: "gets no vector" in caplog.text)
        scripted.fault = None
        await derive(host, "beta")
        await derive(host, "gamma")
        assert (await stats(host))["missing_vectors"] == 1
        assert scripted.calls == [["alpha"], ["alpha"], ["beta"], ["gamma"]]


async def test_vectors_missing_in_a_session_are_made_up_for_when_it_is_opened(
    scripted: ScriptedEmbedder,
) -> None:
    store = InMemoryStore()
    scripted.fault = EmbedderFault.DOWN
    async with hosting(store, embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, "alpha")
    well = ScriptedEmbedder(FixtureEmbedder())
    async with hosting(store, embedder=well, match_strategy=HYBRID) as host:
        await graph_of(host)
        await until_filled(host)


async def test_a_concept_retracted_while_it_is_embedded_gets_no_vector(
    scripted: ScriptedEmbedder,
) -> None:
    scripted.fault = EmbedderFault.DOWN
    async with hosting(
        InMemoryStore(), embedder=scripted, match_strategy=HYBRID, retry_initial_seconds=0.01
    ) as host:
        await derive(host, "alpha", "beta")
        scripted.hold()
        await asyncio.to_thread(scripted.entered.wait)
        scripted.fault = None
        memory = await host.memory("s", create=False)

        await memory.retract(RetractRequest("alpha"), AGENT)
        scripted.release()
        await until_filled(host)
        graph = await graph_of(host)
        assert graph.vectors is not None
        assert len(graph.vectors) == 1


async def test_vectors_lost_to_a_refused_write_before_them_are_made_up_for_again(
    scripted: ScriptedEmbedder,
) -> None:
    """They were dropped with the refused group before them, and the filler had looked at the graph
    that was going: in a session nobody wrote to, they stayed away."""
    faulty = FaultyStore(InMemoryStore())
    async with hosting(faulty, embedder=scripted, retry_initial_seconds=0.001) as host:
        scripted.fault = EmbedderFault.DOWN
        await derive(host, THREE)
        memory = await host.memory("s", create=False)
        commit = faulty.fail_next("commit", FaultKind.HANG)
        load = faulty.fail_next("load_session", FaultKind.HANG)
        faulty.rejects = lambda group: group.call is not None
        refused = asyncio.create_task(derive(host, "refused"))
        await until(commit.entered.is_set)
        scripted.fault = None
        await until_filled(host)
        commit.release.set()
        await asyncio.gather(refused, return_exceptions=True)
        await until(load.entered.is_set)
        for _ in range(20):  # the filler looks once more, and finds nothing to do
            await asyncio.sleep(0)
        load.release.set()
        await until(lambda: contents(memory.graph) == {THREE})
        await until_filled(host)


async def test_vectors_the_store_refuses_are_not_written_again(
    scripted: ScriptedEmbedder,
) -> None:
    store = FaultyStore(InMemoryStore())
    store.rejects = lambda group: (
        group.call is None and any(isinstance(mutation, PutVector) for mutation in group.mutations)
    )
    scripted.fault = EmbedderFault.DOWN
    async with hosting(
        store, embedder=scripted, match_strategy=HYBRID, retry_initial_seconds=0.01
    ) as host:
        await derive(host, "alpha")
        scripted.fault = None
        await until(lambda: store.calls["load_session"] > 1)
        reply = await derive(host, "beta")
        assert len(reply.structured["created"]) == 1
        assert (await stats(host))["missing_vectors"] == 1


# -- the contract ----------------------------------------------------------------------------------

OTHER_MODEL = EmbeddingContract("fixture", "another-model", 384)


@pytest.mark.parametrize("other", [FixtureEmbedder(64), OTHER_MODEL, None])
async def test_a_session_of_another_embedder_is_read_by_words_and_not_written(
    scripted: ScriptedEmbedder, other: FixtureEmbedder | EmbeddingContract | None
) -> None:
    store = InMemoryStore()
    async with hosting(store, embedder=scripted, match_strategy=HYBRID) as host:
        await derive(host, THREE)
    embedder = (
        ScriptedEmbedder(FixtureEmbedder(), contract=other)
        if isinstance(other, EmbeddingContract)
        else other
    )
    for _ in range(2):  # and so it stays, restart after restart
        async with hosting(store, embedder=embedder, match_strategy=HYBRID) as host:
            with pytest.raises(EmbeddingMismatch, match=r"embedder\.kind fixture"):
                await derive(host, FIVE)
            view = await host.view("s")
            found = await view.recall(RecallRequest("billing retries"))
            assert THREE in found.text
            assert any("vectors of fixture" in line for line in found.structured["warnings"])
            seen = await view.inspect(InspectRequest(THREE))
            assert any("takes no writes" in line for line in seen.structured["warnings"])
            await derive(host, "another session is free", session="t")
    async with hosting(store, embedder=FixtureEmbedder(), match_strategy=HYBRID) as host:
        reply = await derive(host, THREE_AGAIN)
        assert len(reply.structured["semantic_merged"]) == 1


async def test_a_session_made_without_an_embedder_takes_writes_under_any_and_stays_as_it_is(
    scripted: ScriptedEmbedder,
) -> None:
    store = InMemoryStore()
    async with hosting(store, match_strategy=HYBRID) as host:
        await derive(host, THREE)
    async with hosting(store, embedder=scripted, match_strategy=HYBRID) as host:
        reply = await derive(host, THREE_AGAIN)
        assert "semantic_merged" not in reply.structured
        assert reply.structured["warnings"] == []
        graph = await graph_of(host)
        assert (graph.contract, graph.match_strategy) == (None, "canonical")
        assert (await stats(host))["missing_vectors"] == 0
        (row,) = (await host.list_sessions()).structured["sessions"]
        assert row["match_strategy"] == "canonical"
    assert scripted.calls == []
