"""A re-embedding that was stopped, undone or refused somewhere: nothing mixed, and it goes on."""

from __future__ import annotations

import asyncio

import pytest

from hosting import OPERATOR, hosting, until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.mutations import Group, PutVector, SwitchContract
from memory.engine.ports import GraphStore
from memory.service.reembedding import TEXTS
from memory.testing import (
    FaultKind,
    FaultyStore,
    InMemoryStore,
    ScriptedEmbedder,
)
from reembedding_sessions import (
    HYBRID,
    MANY,
    THREE,
    DyingStore,
    ask,
    assert_stored,
    derive,
    expected_vectors,
    until_state,
    written,
)


@pytest.fixture
def first() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder())


@pytest.fixture
def second() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder(64))


# -- cut short -------------------------------------------------------------------------------------

COMMITS = 3 + 1  # batches of `MANY`, and the switch


@pytest.mark.parametrize("commits", range(COMMITS))
@pytest.mark.parametrize("is_last_one_kept", [False, True])
async def test_a_machine_that_stops_between_any_two_commits_mixes_nothing_and_goes_on(
    first: ScriptedEmbedder,
    second: ScriptedEmbedder,
    commits: int,
    is_last_one_kept: bool,
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    dying = DyingStore(store, commits, is_last_one_kept=is_last_one_kept)
    async with hosting(
        dying, embedder=second, match_strategy=HYBRID, close_deadline_seconds=0.1
    ) as host:
        await ask(host)
        await until(lambda: dying.is_dead)

    stored = commits + is_last_one_kept
    is_switched = stored == COMMITS
    loaded = store.load_session("s")
    assert loaded is not None
    holder = second if is_switched else first
    assert loaded.snapshot.contract == holder.contract
    assert dict(loaded.snapshot.vectors) == expected_vectors(holder.contract, loaded.snapshot)
    beside = store.load_vectors("s", second.contract.key)
    assert len(beside) == min(len(MANY), stored * TEXTS)

    again = ScriptedEmbedder(FixtureEmbedder(64))
    async with hosting(store, embedder=again, match_strategy=HYBRID) as host:
        if stored == 0:
            await ask(host)  # nothing of it was stored: no mark to go on from
        else:
            await host.view("s")
        if is_switched:
            await until(lambda: len(_contracts(store)) == 1)  # what was left behind goes
        else:
            await until_state(host, "done")
        embedded = [text for call in again.calls for text in call]
        assert len(embedded) == len(set(embedded)) == len(MANY) - len(beside)
        await derive(host, THREE)
    assert_stored(store, again)


def _contracts(store: GraphStore, session: str = "s") -> tuple[str, ...]:
    loaded = store.load_session(session)
    assert loaded is not None
    return loaded.contracts


async def test_vectors_left_behind_by_a_removal_cut_short_go_when_it_is_opened(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    faulty = FaultyStore(store)
    faulty.fail_next("drop_vectors", FaultKind.TRANSIENT_BEFORE)
    async with hosting(faulty, embedder=second, match_strategy=HYBRID) as host:
        await ask(host)
        await until_state(host, "done")
    assert len(_contracts(store)) == 2
    async with hosting(store, embedder=second, match_strategy=HYBRID) as host:
        await host.view("s")
        await until(lambda: len(_contracts(store)) == 1)
    assert_stored(store, second)


async def test_starting_the_first_embedder_again_gives_a_run_up(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    dying = DyingStore(store, 1, is_last_one_kept=False)
    async with hosting(dying, embedder=second, close_deadline_seconds=0.1) as host:
        await ask(host)
        await until(lambda: dying.is_dead)
    assert len(_contracts(store)) == 2
    again = FixtureEmbedder()
    async with hosting(store, embedder=again, match_strategy=HYBRID) as host:
        await derive(host, THREE)
        await until(lambda: len(_contracts(store)) == 1)
        assert (await ask(host))["state"] == "not_needed"
    assert_stored(store, first)


async def test_a_session_put_away_in_the_middle_goes_on_when_it_is_opened(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    async with hosting(store, embedder=second, retry_initial_seconds=0.001) as host:
        await ask(host)
        await until(lambda: len(_contracts(store)) == 2)
        second.hold()
        await until(second.entered.is_set)
        await host.close_session("s", OPERATOR)
        second.release()
        await until(lambda: host.reembedder.progress("s") is None)
        assert host.open_session_ids == []
        await host.view("s")
        await until_state(host, "done")
    assert_stored(store, second)


async def test_a_session_deleted_in_the_middle_is_gone_for_good(
    first: ScriptedEmbedder, second: ScriptedEmbedder
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    async with hosting(store, embedder=second, retry_initial_seconds=0.001) as host:
        second.hold()
        await ask(host)
        await until(second.entered.is_set)
        await host.delete_session("s", "s", OPERATOR)
        second.release()
        await derive(host, "another one of that name")
        await until(lambda: not host.reembedder.is_at_work_on("s"))
        assert (await ask(host))["state"] == "not_needed"
    assert_stored(store, second)


# -- a store in trouble ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PutVector, SwitchContract])
async def test_what_the_store_refuses_ends_it_and_asking_again_starts_anew(
    first: ScriptedEmbedder, second: ScriptedEmbedder, kind: type
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    faulty = FaultyStore(store)

    def is_refused(group: Group) -> bool:
        return any(isinstance(mutation, kind) for mutation in group.mutations)

    faulty.rejects = is_refused
    async with hosting(faulty, embedder=second, retry_initial_seconds=0.001) as host:
        await ask(host)
        failed = await until_state(host, "failed")
        assert "refused" in failed["error"]
        loaded = store.load_session("s")
        assert loaded is not None
        assert loaded.snapshot.contract == first.contract
        faulty.rejects = lambda _: False
        looked = await host.reembedder.ask("s", start=False)
        assert looked.structured["state"] == "failed"
        assert (await ask(host))["state"] == "running"
        await until_state(host, "done")
    assert_stored(store, second)


@pytest.mark.parametrize("kind", [FaultKind.TRANSIENT_BEFORE, FaultKind.TRANSIENT_AFTER])
async def test_a_store_that_stumbles_is_asked_again(
    first: ScriptedEmbedder, second: ScriptedEmbedder, kind: FaultKind
) -> None:
    store = await written(InMemoryStore(), first, *MANY)
    faulty = FaultyStore(store)
    for _ in range(2):
        faulty.fail_next("commit", kind)
    async with hosting(faulty, embedder=second, retry_initial_seconds=0.001) as host:
        await ask(host)
        await until_state(host, "done")
    assert_stored(store, second)


async def test_a_switch_lost_to_a_refused_write_before_it_is_made_again(
    second: ScriptedEmbedder,
) -> None:
    """The switch was in the RAM graph, and the group before it was refused: both were undone, and
    the run took the graph that was going for the end of its work."""
    store = await written(InMemoryStore(), None, THREE)
    faulty = FaultyStore(store)
    async with hosting(faulty, embedder=second, retry_initial_seconds=0.001) as host:
        await host.view("s")
        fault = faulty.fail_next("commit", FaultKind.HANG)
        hanging = asyncio.create_task(derive(host, "written first"))
        await until(fault.entered.is_set)
        faulty.rejects = lambda group: group.call is not None
        refused = asyncio.create_task(derive(host, "refused"))
        graph = (await host.memory("s", create=False)).graph
        await until(lambda: graph.concept_count == 3)
        await ask(host)
        fault.release.set()
        await asyncio.gather(hanging, refused, return_exceptions=True)
        faulty.rejects = lambda _: False
        await until_state(host, "done")
        await derive(host, "and on it goes")
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.snapshot.contract == second.contract
    assert_stored(store, second)


async def test_a_batch_lost_to_a_refused_write_before_it_is_no_bug_of_the_run(
    second: ScriptedEmbedder,
) -> None:
    """The last batch was dropped with the refused group before it: the switch was asked for while
    the session was being reloaded, and the run ended on an internal error."""
    store = await written(InMemoryStore(), None, THREE)
    faulty = FaultyStore(store)
    async with hosting(faulty, embedder=second, retry_initial_seconds=0.001) as host:
        await host.view("s")
        fault = faulty.fail_next("commit", FaultKind.HANG)
        hanging = asyncio.create_task(derive(host, "written first"))
        await until(fault.entered.is_set)
        faulty.rejects = lambda group: group.call is not None
        graph = (await host.memory("s", create=False)).graph
        await ask(host)
        await until(lambda: graph.beside.count(second.contract) == 2)
        fault.release.set()
        await asyncio.gather(hanging, return_exceptions=True)
        faulty.rejects = lambda _: False
        await until_state(host, "done")
    assert_stored(store, second)
