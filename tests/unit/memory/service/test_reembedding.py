"""From one embedder's vectors to another's: in the background, and never mixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hosting import OPERATOR, contents, hosting, until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.errors import (
    EmbeddingMismatch,
    NoEmbedder,
    SessionNotFound,
    TooManySessions,
)
from memory.engine.requests import PurgeRequest, RecallRequest, RestoreRequest, RetractRequest
from memory.engine.snapshot import take_snapshot
from memory.testing import (
    EmbedderFault,
    InMemoryStore,
    ScriptedEmbedder,
)
from reembedding_sessions import (
    HYBRID,
    MANY,
    THREE,
    THREE_AGAIN,
    PoisonedEmbedder,
    TurnedEmbedder,
    ask,
    assert_stored,
    derive,
    embedding,
    until_state,
    written,
)


@pytest.fixture
def first() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder())


@pytest.fixture
def second() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder(64))


# -- another model ---------------------------------------------------------------------------------


@pytest.mark.parametrize("another_model", [lambda: FixtureEmbedder(64), TurnedEmbedder])
async def test_a_session_of_another_model_is_read_by_words_until_it_is_embedded_again(
    first: ScriptedEmbedder, another_model: Callable[[], Any]
) -> None:
    store = await written(InMemoryStore(), first, THREE, *MANY)
    second = ScriptedEmbedder(another_model())
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        with pytest.raises(EmbeddingMismatch, match="lambo reembed --session s") as refused:
            await derive(host, THREE_AGAIN)
        assert refused.value.fields["way_out"] == "lambo reembed --session s"
        looked = await host.reembedder.ask("s", start=False)
        assert looked.structured["state"] == "not_started"
        second.hold()
        started = await ask(host)
        assert (started["state"], started["embedded"]) == ("running", 0)
        assert started["total"] == len(MANY) + 1
        assert started["from_contract"] == first.contract.as_wire()
        assert started["to_contract"] == second.contract.as_wire()
        await until(second.entered.is_set)
        # Words answer meanwhile, and whoever writes learns that it is under way.
        found = await (await host.view("s")).recall(RecallRequest("billing retries"))
        assert THREE in found.text
        with pytest.raises(EmbeddingMismatch, match="under way"):
            await derive(host, THREE_AGAIN)
        assert (await ask(host))["state"] == "running"
        assert (await embedding(host))["contract"] == first.contract.as_wire()
        second.release()
        done = await until_state(host, "done")
        assert (done["embedded"], done["total"], done["without_vector"]) == (
            *(len(MANY) + 1, len(MANY) + 1),
            0,
        )
        assert sorted(text for call in second.calls for text in call) == sorted([THREE, *MANY])
        assert_stored(store, second)
        merged = await derive(host, THREE_AGAIN)
        assert len(merged.structured["semantic_merged"]) == 1
        assert (await ask(host))["state"] == "done"
    for _ in range(2):
        async with hosting(store, embedder=another_model(), match_strategy=HYBRID) as host:
            assert (await ask(host))["state"] == "not_needed"
            memory = await host.memory("s", create=False)
            assert memory.graph.contract == second.contract
            assert memory.graph.missing_vector_count == 0
            await derive(host, "and on it goes")
    assert_stored(store, second)


async def test_the_statistics_tell_both_contracts_and_how_far_it_is(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        shown = await embedding(host)
        assert shown == {
            "contract": first.contract.as_wire(),
            "configured": second.contract.as_wire(),
            "reembedding": None,
        }
        second.hold()
        await ask(host)
        assert (await embedding(host))["reembedding"] == {
            "state": "running",
            "embedded": 0,
            "total": len(MANY),
            "without_vector": 0,
            "error": None,
        }
        stats = await (await host.view("s")).stats()
        assert f"0 of {len(MANY)} concepts embedded" in stats.text
        second.release()
        await until_state(host, "done")
        shown = await embedding(host)
        assert shown["contract"] == shown["configured"] == second.contract.as_wire()
    async with hosting(InMemoryStore()) as host:
        nothing = {"contract": None, "configured": None, "reembedding": None}
        assert await embedding(host, "unknown") == nothing


async def test_a_server_without_an_embedder_has_no_vectors_to_give(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, THREE)
    async with hosting(store, match_strategy=HYBRID) as host:
        with pytest.raises(NoEmbedder, match=r"embedder\.kind none"):
            await ask(host)
        with pytest.raises(EmbeddingMismatch, match=r"embedder\.kind fixture again") as refused:
            await derive(host, THREE_AGAIN)
        assert "way_out" not in refused.value.fields
    async with hosting(store, embedder=second) as host:
        with pytest.raises(SessionNotFound):
            await ask(host, "unknown")
        assert (await host.list_sessions()).structured["sessions"][0]["session"] == "s"


async def test_the_command_in_the_refusal_quotes_the_name(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, THREE, session="the shop")
    async with hosting(store, embedder=second) as host:
        with pytest.raises(EmbeddingMismatch, match="reembed --session 'the shop'"):
            await derive(host, THREE_AGAIN, session="the shop")


# -- a session without vectors ---------------------------------------------------------------------


async def test_a_session_without_vectors_is_given_some_and_keeps_its_strategy(
    second: ScriptedEmbedder,
) -> None:
    store = await written(InMemoryStore(), None, THREE, *MANY)
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        second.hold()
        started = await ask(host)
        assert (started["state"], started["from_contract"]) == ("running", None)
        await until(second.entered.is_set)
        # Its writes match by words as before, so nothing stands against them.
        await derive(host, "written meanwhile")
        second.release()
        await until_state(host, "done")
        memory = await host.memory("s", create=False)
        assert (memory.graph.match_strategy, memory.graph.missing_vector_count) == ("canonical", 0)
        found = await (await host.view("s")).recall(RecallRequest("retryings of billings"))
        assert THREE in found.text
        later = await derive(host, "written after")
        assert "semantic_merged" not in later.structured
    assert_stored(store, second)


async def test_what_is_retracted_during_a_run_leaves_no_vector(second: ScriptedEmbedder) -> None:
    store = await written(InMemoryStore(), None, *MANY)
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        second.hold()
        await ask(host)
        await until(second.entered.is_set)
        gone = [MANY[0], MANY[1], MANY[-1]]  # embedded right now, and later
        for text in gone:
            memory = await host.memory("s", create=False)
            await memory.retract(RetractRequest(text), OPERATOR)
        second.release()
        done = await until_state(host, "done")
        assert done["total"] == len(MANY) - len(gone)
        assert not contents((await host.memory("s", create=False)).graph) & set(gone)
    assert_stored(store, second)


async def test_a_server_with_another_embedder_can_take_out_and_erase(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    """Neither act needs a vector, and both were refused: no text could be erased until every
    concept was embedded again. They do not disturb a run, and leave it no vector."""
    store = await written(InMemoryStore(), first, *MANY)
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        second.hold()
        await ask(host)
        await until(second.entered.is_set)
        memory = await host.memory("s", create=False)
        looked = await memory.retract(RetractRequest(MANY[0], dry_run=True), OPERATOR)
        gone = await memory.retract(RetractRequest(MANY[0]), OPERATOR)
        assert looked.structured["target"] == gone.structured["target"]
        for text in (MANY[1], MANY[-1]):  # embedded right now, and later
            preview = await host.disappearances.purge("s", PurgeRequest(text), OPERATOR)
            request = PurgeRequest(text, preview.structured["node_id"])
            done = await host.disappearances.purge("s", request, OPERATOR)
            assert done.structured["purged"]
        with pytest.raises(EmbeddingMismatch, match="no writes but retract and purge"):
            await host.disappearances.restore(
                "s", RestoreRequest(gone.structured["target"]), OPERATOR
            )
        with pytest.raises(EmbeddingMismatch):
            await derive(host, "still refused")
        second.release()
        ended = await until_state(host, "done")
        assert ended["total"] == len(MANY) - 3
        assert not contents(memory.graph) & {MANY[0], MANY[1], MANY[-1]}
    assert_stored(store, second)


async def test_an_empty_session_switches_at_once(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = InMemoryStore()
    async with hosting(store, embedder=first, match_strategy=HYBRID) as host:
        await host.create_session("s", OPERATOR)
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        await ask(host)
        done = await until_state(host, "done")
        assert (done["embedded"], done["total"]) == (0, 0)
        await derive(host, THREE)
    assert_stored(store, second)
    assert second.calls == [[THREE]]


# -- an embedder in trouble ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [fault for fault in EmbedderFault if fault.name != "HOPELESS"])
async def test_an_embedder_in_trouble_pauses_it_and_says_why(
    first: ScriptedEmbedder, second: ScriptedEmbedder, fault: EmbedderFault
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    second.fault = fault
    async with hosting(
        store, embedder=second, match_strategy=HYBRID, retry_initial_seconds=0.001
    ) as host:
        await ask(host)
        paused = await until_state(host, "paused")
        assert paused["error"]
        assert (await ask(host))["state"] in ("running", "paused")
        found = await (await host.view("s")).recall(RecallRequest("statement 7"))
        assert "statement number 7" in found.text
        second.fault = None
        done = await until_state(host, "done")
        assert (done["without_vector"], done["error"]) == (0, None)
    assert_stored(store, second)


async def test_texts_the_embedder_will_never_take_do_not_hold_the_switch(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    second.fault = EmbedderFault.HOPELESS
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        await ask(host)
        done = await until_state(host, "done")
        assert (done["embedded"], done["without_vector"]) == (0, len(MANY))
        second.fault = None
        await derive(host, THREE)
        loaded = store.load_session("s")
        assert loaded is not None
        assert loaded.snapshot.contract == second.contract


async def test_a_text_that_fails_while_others_do_not_is_left_to_the_filler(
    first: ScriptedEmbedder,
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    poisoned = PoisonedEmbedder(MANY[7])
    async with hosting(
        store, embedder=poisoned, match_strategy=HYBRID, retry_initial_seconds=0.001
    ) as host:
        await ask(host)
        done = await until_state(host, "done")
        assert (done["embedded"], done["without_vector"]) == (len(MANY) - 1, 1)
        poisoned.poison = None
        memory = await host.memory("s", create=False)
        await until(lambda: memory.graph.missing_vector_count == 0)
    assert_stored(store, poisoned)


async def test_the_only_text_of_a_session_failing_is_no_embedder_that_is_down(
    first: ScriptedEmbedder,
) -> None:
    store = await written(InMemoryStore(), first, THREE)
    async with hosting(
        store, embedder=PoisonedEmbedder(THREE), match_strategy=HYBRID, retry_initial_seconds=0.001
    ) as host:
        await ask(host)
        done = await until_state(host, "done")
        assert (done["embedded"], done["without_vector"]) == (0, 1)


# -- several sessions ------------------------------------------------------------------------------


async def test_one_session_is_at_work_at_a_time_and_the_others_follow(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = InMemoryStore()
    names = ["a", "b", "c"]
    for name in names:
        await written(store, first, THREE, session=name)
    second.hold()
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        for name in names:
            assert (await ask(host, name))["state"] == "running"
        await until(second.entered.is_set)
        assert [name for name in names if host.reembedder.is_at_work_on(name)] == ["a"]
        assert second.calls == [[THREE]]
        second.release()
        for name in names:
            await until_state(host, "done", name)
    for name in names:
        assert_stored(store, second, session=name)


async def test_a_session_at_work_keeps_its_place(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = InMemoryStore()
    for name in ("s", "t"):
        await written(store, first, THREE, session=name)
    second.hold()
    async with hosting(store, embedder=second, open_sessions_max=1) as host:
        await ask(host)
        await until(second.entered.is_set)
        with pytest.raises(TooManySessions):
            await host.view("t")
        second.release()
        await until_state(host, "done")
        await host.view("t")
        assert list(host.open_session_ids) == ["t"]


async def test_the_graph_in_ram_is_the_one_a_restart_loads(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, THREE, *MANY)
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        await ask(host)
        await until_state(host, "done")
        await derive(host, THREE_AGAIN)
        before = take_snapshot((await host.memory("s", create=False)).graph)
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        assert take_snapshot((await host.memory("s", create=False)).graph) == before
