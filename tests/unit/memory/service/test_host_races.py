"""Opening, closing, deleting and reloading beside writes: what once went wrong in between."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hosting import AGENT, OPERATOR, contents, hosting, statement, until
from memory.engine.errors import (
    LamboError,
    SessionNotFound,
    StoreFault,
    StoreUnavailable,
    TooManySessions,
)
from memory.engine.mutations import Group
from memory.engine.requests import Caller
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import Fault, FaultKind, FaultyStore, InMemoryStore, ManualClock


async def derive(host: SessionHost, text: str, session: str = "s", key: str | None = None) -> Reply:
    caller = Caller("agent-a", key)
    return await host.write(session, lambda m: m.derive(statement(text), caller), create=True)


async def test_a_session_is_opened_once_however_many_write_and_close_it() -> None:
    """Waiters once opened it a second time and told callers of another server."""
    store = InMemoryStore()
    kept: set[str] = set()
    async with hosting(store) as host:

        async def writer(number: int) -> None:
            for turn in range(20):
                text = f"fact w{number}x{turn}"
                await derive(host, text)
                kept.add(text)

        async def closer() -> None:
            for _ in range(15):
                with contextlib.suppress(SessionNotFound):
                    await host.close_session("s", AGENT)

        await asyncio.gather(*(writer(number) for number in range(12)), closer(), closer())
        assert contents((await host.view("s")).graph) == kept
        assert len(host._settlements._routes) == 1
    loaded = store.load_session("s")
    assert loaded is not None
    assert {concept.content for concept in loaded.snapshot.concepts} == kept


async def test_a_key_sent_thrice_during_a_reload_takes_effect_once() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "before")
        hang = store.fail_next("load_session", FaultKind.HANG)
        store.rejects = lambda group: group.position == 2
        with contextlib.suppress(LamboError):
            await derive(host, "refused")
        store.rejects = lambda group: False
        await asyncio.to_thread(hang.entered.wait, 5)
        writes = [asyncio.create_task(derive(host, "once", key="k")) for _ in range(3)]
        await asyncio.sleep(0)
        hang.release.set()
        replies = await asyncio.gather(*writes)
        assert sum(not reply.replayed for reply in replies) == 1
        assert (await host.memory("s", create=False)).graph.interaction_count == 2


async def test_a_write_that_slips_in_during_a_refusal_is_told_to_come_again() -> None:
    """It once stopped the session for good, after a single refusal."""
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "before")
        memory = await host.memory("s", create=False)
        hang = store.fail_next("put_dead_letter", FaultKind.HANG)
        store.rejects = lambda group: group.position == 2
        refused = asyncio.create_task(derive(host, "refused"))
        await asyncio.to_thread(hang.entered.wait, 5)
        late = asyncio.create_task(derive(host, "late"))
        await asyncio.sleep(0)
        store.rejects = lambda group: False
        hang.release.set()
        outcomes = await asyncio.gather(refused, late, return_exceptions=True)
        codes = [getattr(outcome, "code", "done") for outcome in outcomes]
        assert codes == ["rejected_by_store", "session_reloaded"]
        await derive(host, "after")
        assert contents(memory.graph) == {"before", "after"}


async def test_groups_in_hand_of_a_session_taken_and_opened_again_are_settled_truthfully() -> None:
    """They were once judged by the position that the thief's own groups had reached."""
    inner = InMemoryStore()
    faults = [Fault("commit", number, FaultKind.TRANSIENT_BEFORE) for number in range(2, 40)]
    store = FaultyStore(inner, faults)
    async with hosting(store, retry_initial_seconds=0.01, retry_max_seconds=0.01) as host:
        await derive(host, "before")
        unsettled = [asyncio.create_task(derive(host, f"in hand {n}")) for n in range(2)]
        await until(lambda: store.calls["commit"] >= 3)  # one attempt failed and was repeated
        async with hosting(inner, node_id="thief") as thief:
            inner.release_lease("s", node_id="node-1", token=1)
            await derive(thief, "stolen one")
            await derive(thief, "stolen two")
        await host.renew_leases()
        outcomes = await asyncio.gather(*unsettled, return_exceptions=True)
        assert [getattr(outcome, "code", "done") for outcome in outcomes] == ["lease_lost"] * 2
        held = contents((await host.view("s")).graph)
        assert held == {"before", "stolen one", "stolen two"}
        assert not host._running().has_failed


async def test_no_more_sessions_are_open_than_the_limit_whatever_comes_at_once() -> None:
    async with hosting(InMemoryStore(), open_sessions_max=4) as host:
        peak = 0

        async def first_write(number: int) -> None:
            nonlocal peak
            while True:
                with contextlib.suppress(TooManySessions):
                    await derive(host, "fact", session=f"s{number}")
                    break
                await asyncio.sleep(0)
            peak = max(peak, len(host.open_session_ids))

        await asyncio.gather(*(first_write(number) for number in range(40)))
        assert peak <= 4
        await host.view("s0")  # a read counts as use
        await derive(host, "fact", session="new")
        assert "s0" in host.open_session_ids


async def test_delete_beside_delete_and_close_ends_in_an_answer_for_each() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, "fact")
        acts = [
            host.delete_session("s", "s", OPERATOR),
            host.delete_session("s", "s", OPERATOR),
            host.close_session("s", OPERATOR),
        ]
        outcomes = await asyncio.gather(*acts, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert all(isinstance(error, LamboError) for error in errors)
        assert sum(isinstance(outcome, Reply) for outcome in outcomes) >= 1
        await derive(host, "a new life")
        assert contents((await host.view("s")).graph) == {"a new life"}


async def test_a_close_whose_caller_leaves_is_carried_out_and_the_session_opens_again() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store, away_after_seconds=0.3, outcome_unknown_after_seconds=5) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        write = asyncio.create_task(derive(host, "slow"))
        await asyncio.to_thread(hang.entered.wait, 5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.close_session("s", AGENT), 0.1)
        hang.release.set()
        await write
        await derive(host, "after")
        assert contents((await host.view("s")).graph) == {"before", "slow", "after"}


async def test_a_bug_in_the_committer_is_told_at_once_and_ends_the_host() -> None:
    class Broken(FaultyStore):
        def commit(self, *args: object, **kwargs: object) -> frozenset[str]:
            raise ZeroDivisionError("a bug of ours")

    async with hosting(Broken(InMemoryStore()), outcome_unknown_after_seconds=2.0) as host:
        with pytest.raises(LamboError):
            await derive(host, "fact")
        async with asyncio.timeout(5):
            await host.failed.wait()
            with pytest.raises(StoreUnavailable):
                await derive(host, "fact", session="another")
            await host.renew_leases()
        assert not host.is_healthy


async def test_a_stopped_session_is_not_started_anew_by_making_room() -> None:
    store = FaultyStore(InMemoryStore())

    def refuse_s(group: Group) -> bool:
        return group.session_id == "s"

    async with hosting(store, open_sessions_max=2) as host:
        await derive(host, "good")
        store.rejects = refuse_s
        for text in ("bad1", "bad2", "bad3"):
            with contextlib.suppress(LamboError):
                await derive(host, text)
        store.rejects = lambda group: False
        for name in ("a", "b"):
            await derive(host, "fact", session=name)
        with pytest.raises(StoreFault):
            await derive(host, "too early")
        await host.close_session("s", OPERATOR)
        await derive(host, "looked at")


async def test_a_key_whose_receipt_was_dropped_is_free_for_one_request_not_for_all() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        await derive(host, "fact", key="k")
        store.prune_receipts(before=2**62, keep_per_session=0)
        replies = await asyncio.gather(*(derive(host, "fact", key="k") for _ in range(3)))
        assert sum(not reply.replayed for reply in replies) == 1
        assert (await host.memory("s", create=False)).graph.interaction_count == 2


async def test_reading_a_session_counts_as_using_it() -> None:
    clock = ManualClock()
    async with hosting(InMemoryStore(clock), clock=clock, open_sessions_max=2) as host:
        for name in ("a", "b"):
            clock.advance(1.0)
            await derive(host, "fact", session=name)
        clock.advance(1.0)
        await host.view("a")
        await derive(host, "fact", session="c")
        assert host.open_session_ids == ["a", "c"]


async def test_a_session_opened_anew_beside_its_reload_keeps_its_log() -> None:
    """It was put away and opened again while the reload of its earlier memory waited for the store.
    That reload then took the log over: every later write was dropped, and stayed in RAM."""
    store = InMemoryStore()
    faulty = FaultyStore(store)
    async with hosting(faulty) as host:
        await derive(host, "before")
        load = faulty.fail_next("load_session", FaultKind.HANG)
        faulty.rejects = lambda group: True
        with pytest.raises(LamboError):
            await derive(host, "refused")
        faulty.rejects = lambda group: False
        await until(load.entered.is_set)

        async def use_again() -> None:
            await host.close_session("s", OPERATOR)
            await derive(host, "again")

        using = asyncio.create_task(use_again())
        await asyncio.wait([using], timeout=0.2)
        load.release.set()
        await using
        for number in range(3):
            await derive(host, f"later {number}")
        held = contents((await host.memory("s", create=False)).graph)
        assert held == {"before", "again", "later 0", "later 1", "later 2"}
    loaded = store.load_session("s")
    assert loaded is not None
    assert {concept.content for concept in loaded.snapshot.concepts} == held
