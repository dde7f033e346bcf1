"""Sessions, receipts and ends of writes through the in-process API, over the in-memory store."""

from __future__ import annotations

import asyncio

import pytest

from hosting import AGENT, OPERATOR, act, contents, hosting, statement
from memory.engine.errors import (
    DependencyCycle,
    Forbidden,
    IdempotencyConflict,
    InvalidArgument,
    LeaseHeld,
    OutcomeUnknown,
    RejectedByStore,
    SessionExists,
    SessionNotFound,
    StoreFault,
    StoreRewound,
    StoreUnavailable,
    UnresolvedReference,
)
from memory.engine.requests import (
    Caller,
    ConceptInput,
    DeriveRequest,
    RecallRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.types import ConceptType
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import Fault, FaultKind, FaultyStore, InMemoryStore, ManualClock


async def derive(host: SessionHost, *texts: str, caller: Caller = AGENT) -> Reply:
    return await host.write("s", lambda m: m.derive(statement(*texts), caller), create=True)


async def test_a_write_is_there_after_the_host_was_closed_and_started_again() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        await derive(host, "the billing service retries three times")
    async with hosting(store) as host:
        view = await host.view("s")
        assert contents(view.graph) == {"the billing service retries three times"}
        answer = await view.recall(RecallRequest("billing retries"))
        assert "billing service" in answer.text


async def test_reading_an_unknown_session_is_empty_and_creates_nothing() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        view = await host.view("nobody")
        assert (await view.recall(RecallRequest("anything"))).text == ""
        assert (await view.stats()).structured["concept_count"] == 0
        receipt = await view.receipt("k", agent_id="a")
        assert receipt.structured["state"] == "unknown"
        assert (await host.list_sessions()).structured["sessions"] == []
    assert store.find_session("nobody") is None


async def test_a_refused_first_write_leaves_no_session() -> None:
    store = InMemoryStore()
    request = DeriveRequest((ConceptInput("x", ConceptType.ENTITY, depends_on=("nothing",)),))
    async with hosting(store) as host:
        with pytest.raises(UnresolvedReference):
            await host.write("s", lambda m: m.derive(request, AGENT), create=True)
        with pytest.raises(DependencyCycle):
            await host.write("s", lambda m: m.record_action(act("x", "x"), AGENT), create=True)
    assert store.find_session("s") is None


async def test_a_refused_later_write_leaves_neither_interaction_nor_receipt() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, "a fact")
        memory = await host.memory("s", create=False)
        with pytest.raises(DependencyCycle):
            await memory.record_action(act("loop", "loop"), Caller("agent-a", "key-1"))
        assert memory.graph.interaction_count == 1
        receipt = await memory.receipt("key-1", agent_id="agent-a")
        assert receipt.structured["state"] == "unknown"


async def test_a_verb_that_does_not_create_refuses_an_unknown_session() -> None:
    async with hosting(InMemoryStore()) as host:
        with pytest.raises(SessionNotFound):
            await host.write(
                "s", lambda m: m.reserve(ReserveRequest(concept="x"), AGENT), create=False
            )


async def test_the_same_key_again_answers_from_the_receipt_also_after_a_restart() -> None:
    store = InMemoryStore()
    caller = Caller("agent-a", "key-1")
    async with hosting(store) as host:
        first = await derive(host, "a fact", caller=caller)
        again = await derive(host, "a fact", caller=caller)
        assert again.replayed
        assert again.structured == first.structured
    async with hosting(store) as host:
        later = await derive(host, "a fact", caller=caller)
        assert later.replayed
        memory = await host.memory("s", create=False)
        assert memory.graph.interaction_count == 1
        receipt = await memory.receipt("key-1", agent_id="agent-a")
        assert receipt.structured["state"] == "committed"
        assert receipt.structured["reply"] == first.structured


async def test_the_same_key_with_another_body_is_refused_and_another_agents_key_is_its_own() -> (
    None
):
    async with hosting(InMemoryStore()) as host:
        await derive(host, "a fact", caller=Caller("agent-a", "key-1"))
        with pytest.raises(IdempotencyConflict):
            await derive(host, "another fact", caller=Caller("agent-a", "key-1"))
        other = await derive(host, "another fact", caller=Caller("agent-b", "key-1"))
        assert not other.replayed


async def test_a_key_in_flight_waits_for_the_first_request() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, "before")
        caller = Caller("agent-a", "key-1")
        replies = await asyncio.gather(*(derive(host, "a fact", caller=caller) for _ in range(20)))
        assert sum(not reply.replayed for reply in replies) == 1
        assert len({str(reply.structured) for reply in replies}) == 1
        assert (await host.memory("s", create=False)).graph.interaction_count == 2


async def test_twenty_identical_derives_at_once_make_one_concept_with_twenty_derivations() -> None:
    async with hosting(InMemoryStore()) as host:
        await asyncio.gather(*(derive(host, "one fact") for _ in range(20)))
        graph = (await host.memory("s", create=False)).graph
        assert graph.concept_count == 1
        assert int(graph.concepts["derivations"][graph.concept_rows()[0]]) == 20


async def test_an_unsettled_commit_is_told_as_unknown_and_its_receipt_answers_later() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store, away_after_seconds=0.3, outcome_unknown_after_seconds=0.6) as host:
        await derive(host, "before")
        memory = await host.memory("s", create=False)
        hang = store.fail_next("commit", FaultKind.HANG)
        with pytest.raises(OutcomeUnknown) as unknown:
            await derive(host, "slow fact", caller=Caller("agent-a", "key-1"))
        assert unknown.value.fields["idempotency_key"] == "key-1"
        receipt = await memory.receipt("key-1", agent_id="agent-a")
        assert receipt.structured["state"] == "applied"
        # The store is away now: a new write is refused with a hint, reads go on and warn.
        with pytest.raises(StoreUnavailable) as away:
            await derive(host, "refused fact")
        assert away.value.retry_after_seconds
        stats = (await memory.stats()).structured
        assert stats["degraded"]
        assert stats["flush_depth"] > 0
        assert any("not committed" in warning for warning in stats["warnings"])
        hang.release.set()
        settled = await derive(host, "slow fact", caller=Caller("agent-a", "key-1"))
        assert settled.replayed
        await derive(host, "refused fact")
        assert contents(memory.graph) == {"before", "slow fact", "refused fact"}


async def test_three_refused_writes_in_a_row_stop_the_session_and_closing_it_starts_anew() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "good")
        store.rejects = lambda group: True
        for text in ("bad1", "bad2", "bad3"):
            with pytest.raises(RejectedByStore):
                await derive(host, text)
        with pytest.raises(StoreFault):
            await derive(host, "bad4")
        view = await host.view("s")
        answer = await view.recall(RecallRequest("good"))
        assert "good" in answer.text
        assert any("stopped" in warning for warning in answer.structured["warnings"])
        store.rejects = lambda group: False
        await host.close_session("s", OPERATOR)
        await derive(host, "better")
        assert contents((await host.view("s")).graph) == {"good", "better"}


async def test_a_session_held_elsewhere_is_refused_and_names_its_holder() -> None:
    store = InMemoryStore()
    async with hosting(store) as first, hosting(store, node_id="node-2") as second:
        await derive(first, "a fact")
        with pytest.raises(LeaseHeld) as held:
            await derive(second, "another")
        assert held.value.fields["holder"] == "http://node-1"


async def test_the_same_node_takes_its_session_back_with_a_higher_token() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        await derive(host, "a fact")
        before = store.read_positions(["s"])["s"].token
    async with hosting(store) as host:
        await derive(host, "another")
        assert store.read_positions(["s"])["s"].token == before + 1


async def test_a_heartbeat_that_finds_another_holder_drops_the_session() -> None:
    store = FaultyStore(InMemoryStore(), [Fault("renew_leases", 1, FaultKind.LEASE_LOST)])
    async with hosting(store) as host:
        await derive(host, "a fact")
        await host.renew_leases()
        assert host.open_session_ids == []


async def test_a_heartbeat_on_an_older_store_stops_writes_and_keeps_what_is_in_memory() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "a fact")
        store.replace_inner(InMemoryStore())
        await host.renew_leases()
        for _ in range(2):
            with pytest.raises(StoreRewound, match="older than what was acknowledged"):
                await derive(host, "another")
        assert host.open_session_ids == ["s"]
        stats = await (await host.view("s")).stats()
        assert stats.structured["concept_count"] == 1
        assert "writes are stopped" in stats.structured["warnings"][0]


async def test_reads_warn_when_the_lease_was_not_confirmed_for_its_lifetime() -> None:
    clock = ManualClock()
    async with hosting(InMemoryStore(clock), clock=clock) as host:
        await derive(host, "a fact")
        view = await host.view("s")
        assert (await view.stats()).structured["warnings"] == []
        clock.advance(46.0)
        assert "lease unconfirmed" in (await view.stats()).structured["warnings"][0]
        await host.renew_leases()
        assert (await view.stats()).structured["warnings"] == []


async def test_opening_one_session_too_many_puts_the_least_recently_used_away() -> None:
    clock = ManualClock()
    async with hosting(InMemoryStore(clock), clock=clock, open_sessions_max=2) as host:
        for name in ("a", "b", "c"):
            clock.advance(1.0)
            await host.write(name, lambda m: m.derive(statement("x"), AGENT), create=True)
        assert host.open_session_ids == ["b", "c"]
        view = await host.view("a")
        assert contents(view.graph) == {"x"}
        assert host.open_session_ids == ["a", "c"]


async def test_mode_behind_answers_from_ram_and_close_commits_the_rest() -> None:
    store = InMemoryStore()
    async with hosting(store, durability="behind", flush_interval_seconds=60.0) as host:
        await derive(host, "a fact", caller=Caller("agent-a", "key-1"))
        memory = await host.memory("s", create=False)
        stats = (await memory.stats()).structured
        assert (stats["durability"], stats["flush_depth"]) == ("behind", 3)
        receipt = await memory.receipt("key-1", agent_id="agent-a")
        assert receipt.structured["state"] == "applied"
        again = await derive(host, "a fact", caller=Caller("agent-a", "key-1"))
        assert again.replayed
    loaded = store.load_session("s")
    assert loaded is not None
    assert [concept.content for concept in loaded.snapshot.concepts] == ["a fact"]


async def test_close_tells_the_truth_about_what_could_not_be_committed() -> None:
    store = FaultyStore(InMemoryStore())
    host_context = hosting(
        store, close_deadline_seconds=0.2, away_after_seconds=0.3,
        outcome_unknown_after_seconds=0.6,
    )  # fmt: skip
    async with host_context as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        with pytest.raises(OutcomeUnknown):
            await derive(host, "late")
        asyncio.get_running_loop().call_later(1.0, hang.release.set)
        report = await host.close()
        assert (report.ok, report.unsettled) == (False, 1)


async def test_deleting_a_session_takes_the_operator_and_its_name_twice() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, "a fact")
        with pytest.raises(Forbidden):
            await host.delete_session("s", "s", AGENT)
        for confirm in ("", "*", "S", "s "):
            with pytest.raises(InvalidArgument):
                await host.delete_session("s", confirm, OPERATOR)
        assert contents((await host.view("s")).graph) == {"a fact"}
        reply = await host.delete_session("s", "s", OPERATOR)
        assert reply.structured["deleted"]["concept"] == 1
        with pytest.raises(SessionNotFound):
            await host.delete_session("s", "s", OPERATOR)
        assert (await host.view("s")).graph.concept_count == 0
        await derive(host, "a new life")
        assert contents((await host.view("s")).graph) == {"a new life"}


async def test_creating_a_session_twice_is_refused_and_listing_pages_by_name() -> None:
    async with hosting(InMemoryStore()) as host:
        for name in ("b", "a", "c"):
            await host.create_session(name, AGENT)
        with pytest.raises(SessionExists):
            await host.create_session("a", AGENT)
        page = (await host.list_sessions(limit=2)).structured
        assert [row["session"] for row in page["sessions"]] == ["a", "b"]
        rest = (await host.list_sessions(after=page["next"], limit=2)).structured
        assert [row["session"] for row in rest["sessions"]] == ["c"]
        assert rest["next"] is None


async def test_synonyms_goals_and_reservations_survive_a_restart() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        await derive(host, "create user")
        memory = await host.memory("s", create=False)
        await memory.declare_synonym(SynonymRequest("register_user", "create_user"), OPERATOR)
        await memory.set_root_goal(RootGoalRequest(("create user",)), OPERATOR)
        await memory.reserve(ReserveRequest(concept="register_user", ttl_seconds=3600), AGENT)
    async with hosting(store) as host:
        memory = await host.memory("s", create=False)
        assert memory.graph.synonyms == {"register_user": "create_user"}
        assert memory.graph.root_goal == ["create user"]
        (row,) = memory.graph.concept_rows()
        assert memory.graph.status_at(row) == "Venerable"
        assert memory.graph.reservation(memory.graph.id_at(row)) is not None
        assert len(memory.graph.transitions) == 1
        reply = await memory.retract(RetractRequest("register_user"), OPERATOR)
        assert reply.structured["removed"]
