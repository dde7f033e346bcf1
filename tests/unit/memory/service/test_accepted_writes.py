"""Writes that are acknowledged before they are applied, and what their receipts tell."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

import memory.service.accepted_writes as accepted_writes
from hosting import OPERATOR, contents, hosting, statement, until
from memory.engine.errors import (
    IdempotencyConflict,
    RejectedByStore,
    StoreUnavailable,
    UnresolvedReference,
)
from memory.engine.requests import Caller, ConceptInput, DeriveRequest, RetractRequest
from memory.engine.types import ConceptType
from memory.engine.warming import warm
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import FaultKind, FaultyStore, InMemoryStore, ManualClock

ANN = "ann"


async def accept(
    host: SessionHost, request: DeriveRequest, key: str | None = None, *, agent: str = ANN
) -> Reply:
    caller = Caller(agent, key)
    return await host.write(
        "s", lambda memory: memory.derive(request, caller, wait=False), create=True
    )


async def derive(host: SessionHost, text: str, *, key: str | None = None) -> Reply:
    caller = Caller(ANN, key)
    return await host.write("s", lambda memory: memory.derive(statement(text), caller), create=True)


async def receipt(host: SessionHost, key: str, *, agent: str = ANN) -> dict[str, Any]:
    view = await host.view("s")
    return (await view.receipt(key, agent_id=agent)).structured


async def settled(host: SessionHost, key: str) -> dict[str, Any]:
    """The receipt when nothing is under way any more."""
    async with asyncio.timeout(20):
        while True:
            told = await receipt(host, key)
            if told["state"] not in ("accepted", "applied"):
                return told
            await asyncio.sleep(0.005)


def citing(content: str, *cited: str) -> DeriveRequest:
    return DeriveRequest((ConceptInput(content, ConceptType.LOGIC, depends_on=cited),))


async def test_an_accepted_write_is_applied_later_and_its_receipt_answers() -> None:
    async with hosting(InMemoryStore()) as host:
        reply = await accept(host, statement("a fact"), "k1")
        assert reply.is_accepted
        assert (reply.key, reply.structured["accepted"]) == ("k1", True)
        told = await settled(host, "k1")
        assert (told["state"], told["after_restart"]) == ("committed", False)
        assert len(told["reply"]["created"]) == 1
        assert contents((await host.memory("s", create=False)).graph) == {"a fact"}


async def test_a_key_is_made_for_an_accepted_write_without_one() -> None:
    async with hosting(InMemoryStore()) as host:
        reply = await accept(host, statement("a fact"))
        assert reply.key is not None
        assert (await settled(host, reply.key))["state"] == "committed"


async def test_a_bad_reference_is_refused_at_once_and_makes_no_session() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        with pytest.raises(UnresolvedReference):
            await accept(host, citing("a rule", "nothing of that name"), "k1")
        assert (await receipt(host, "k1"))["state"] == "unknown"
    assert store.find_session("s") is None


async def test_a_write_may_cite_what_its_agent_has_only_just_sent() -> None:
    async with hosting(InMemoryStore()) as host:
        await accept(host, statement("the ground"), "k1")
        await accept(host, citing("a rule on it", "the ground"), "k2")
        assert (await settled(host, "k2"))["state"] == "committed"


async def test_references_are_checked_again_when_a_write_is_applied() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "the ground")
        memory = await host.memory("s", create=False)
        hang = store.fail_next("commit", FaultKind.HANG)
        await accept(host, statement("first"), "k1")
        await accept(host, citing("a rule on it", "the ground"), "k2")
        await until(hang.entered.is_set)
        retracting = asyncio.create_task(memory.retract(RetractRequest("the ground"), OPERATOR))
        await until(lambda: "the ground" not in contents(memory.graph))
        assert (await receipt(host, "k2"))["state"] == "accepted"
        hang.release.set()
        await retracting
        told = await settled(host, "k2")
        assert (told["state"], told["reply"]) == ("refused", None)
        assert told["error"]["code"] == "unresolved_reference"
        assert contents(memory.graph) == {"first"}


async def test_accepted_writes_of_one_agent_are_applied_in_the_order_accepted() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        texts = [f"fact {number}" for number in range(40)]
        for number, text in enumerate(texts):
            await accept(host, statement(text), f"k{number}")
        # Another agent's write does not wait for them.
        await accept(host, statement("of another"), "k0", agent="bob")
        hang.release.set()
        await settled(host, "k39")
        assert (await receipt(host, "k0", agent="bob"))["state"] == "committed"
    loaded = store.load_session("s")
    assert loaded is not None
    written = [each.prompt_text for each in loaded.snapshot.interactions]
    assert [text for text in written if text in texts] == texts


async def test_an_observation_said_twice_is_refused_when_its_turn_comes() -> None:
    """The first one waited too when the second was checked, so only applying it can tell."""
    store = FaultyStore(InMemoryStore())
    seen = statement("it rained", kind=ConceptType.OBSERVATION)
    async with hosting(store) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        for key, request in (("k1", statement("x")), ("k2", seen), ("k3", seen)):
            await accept(host, request, key)
        hang.release.set()
        assert (await settled(host, "k3"))["error"]["code"] == "repeated_observation"
        assert (await settled(host, "k2"))["state"] == "committed"
        # The key of a refused write is free: another request may use it.
        await accept(host, statement("it snowed"), "k3")
        assert (await settled(host, "k3"))["state"] == "committed"


async def test_the_same_accepted_request_again_is_accepted_once() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        await accept(host, statement("first"), "k1")
        replies = [await accept(host, statement("a fact"), "k2") for _ in range(3)]
        assert [reply.replayed for reply in replies] == [False, True, True]
        with pytest.raises(IdempotencyConflict):
            await accept(host, statement("another fact"), "k2")
        with pytest.raises(IdempotencyConflict):
            await derive(host, "another fact", key="k2")
        # Somebody who waits under the same key gets the answer of the write itself.
        waiting = asyncio.create_task(derive(host, "a fact", key="k2"))
        hang.release.set()
        answer = await waiting
        assert answer.replayed
        assert answer.structured == (await receipt(host, "k2"))["reply"]
        assert (await accept(host, statement("a fact"), "k2")).replayed
        memory = await host.memory("s", create=False)
        assert memory.graph.interaction_count == 3


async def test_a_request_sent_twice_beside_a_reload_is_accepted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both had found the key free and then waited for the reload; the second was an internal
    error."""
    gate, read = threading.Event(), Counter[str]()

    def warm_when_told(*arguments: Any) -> None:
        read["texts"] += 1
        gate.wait(20)
        warm(*arguments)

    monkeypatch.setattr("memory.service.writes.warm", warm_when_told)
    long = statement(" ".join(f"word{number}" for number in range(1_500)))
    faulty = FaultyStore(InMemoryStore())
    async with hosting(faulty) as host:
        await derive(host, "there")
        sent = [asyncio.create_task(accept(host, long, "k1")) for _ in range(2)]
        await until(lambda: read["texts"] == 2)
        load = faulty.fail_next("load_session", FaultKind.HANG)
        faulty.rejects = lambda group: True
        with pytest.raises(RejectedByStore):
            await derive(host, "refused")
        faulty.rejects = lambda group: False
        await until(load.entered.is_set)
        gate.set()
        await asyncio.wait(sent, timeout=0.05)
        load.release.set()
        replies = await asyncio.gather(*sent)
        assert sorted(reply.replayed for reply in replies) == [False, True]
        assert (await settled(host, "k1"))["state"] == "committed"


async def test_what_is_accepted_while_the_store_is_away_is_applied_when_it_returns() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store, away_after_seconds=0.1, outcome_unknown_after_seconds=0.2) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        await accept(host, statement("first"), "k1")
        await accept(host, statement("second"), "k2")
        await until(lambda: not host.is_healthy)
        with pytest.raises(StoreUnavailable):
            await accept(host, statement("too late"), "k3")
        hang.release.set()
        assert (await settled(host, "k2"))["state"] == "committed"
        assert (await receipt(host, "k3"))["state"] == "unknown"


async def test_a_write_the_store_refuses_is_told_by_its_receipt_and_the_next_goes_on() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "before")
        store.rejects = lambda group: group.call is not None and group.call.key == "k1"
        await accept(host, statement("bad"), "k1")
        await accept(host, statement("good"), "k2")
        assert (await settled(host, "k2"))["state"] == "committed"
        assert (await receipt(host, "k1"))["error"]["code"] == "rejected_by_store"
        assert contents((await host.view("s")).graph) == {"before", "good"}


@pytest.mark.parametrize(
    ("limit", "value"), [("ACCEPTED_WRITES", 2), ("ACCEPTED_BYTES", 250)], ids=["count", "bytes"]
)
async def test_more_than_may_wait_is_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(accepted_writes, limit, value)
    store = FaultyStore(InMemoryStore())
    async with hosting(store) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        await accept(host, statement("first"), "k1")
        await accept(host, statement("second"), "k2")
        with pytest.raises(StoreUnavailable) as full:
            await accept(host, statement("third"), "k3")
        assert full.value.retry_after_seconds
        hang.release.set()
        await settled(host, "k2")
        await accept(host, statement("third"), "k3")
        assert (await settled(host, "k3"))["state"] == "committed"


async def test_only_so_many_refusals_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_writes, "REFUSALS_KEPT", 2)
    store = FaultyStore(InMemoryStore())
    seen = statement("it rained", kind=ConceptType.OBSERVATION)
    async with hosting(store) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        await accept(host, statement("first"), "k1")
        for number in range(4):
            await accept(host, seen, f"seen {number}")
        hang.release.set()
        await settled(host, "seen 3")
        states = [(await receipt(host, f"seen {number}"))["state"] for number in range(4)]
        assert states == ["committed", "unknown", "refused", "refused"]


async def test_a_session_is_put_away_when_its_accepted_writes_are_applied() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        for number in range(20):
            await accept(host, statement(f"fact {number}"), f"k{number}")
        await host.close_session("s", OPERATOR)
        assert host.open_session_ids == []
    loaded = store.load_session("s")
    assert loaded is not None
    assert len(loaded.snapshot.concepts) == 20


async def test_a_close_waits_for_accepted_writes() -> None:
    store = InMemoryStore()
    async with hosting(store) as host:
        for number in range(20):
            await accept(host, statement(f"fact {number}"), f"k{number}")
    loaded = store.load_session("s")
    assert loaded is not None
    assert len(loaded.snapshot.concepts) == 20


async def test_what_a_close_cannot_wait_for_is_unknown_afterwards_and_may_be_sent_again() -> None:
    store = FaultyStore(InMemoryStore())
    async with hosting(store, close_deadline_seconds=0.3) as host:
        await derive(host, "before")
        hang = store.fail_next("commit", FaultKind.HANG)
        await accept(host, statement("first"), "k1")
        await accept(host, statement("second"), "k2")
        await until(hang.entered.is_set)
        await host.close()
    hang.release.set()
    await until(lambda: store.find_receipt("s", ANN, "k1") is not None)
    async with hosting(store) as host:
        assert (await receipt(host, "k2"))["state"] == "unknown"
        await accept(host, statement("second"), "k2")
        await settled(host, "k2")
        assert contents((await host.view("s")).graph) == {"before", "first", "second"}


async def test_a_receipt_of_an_earlier_process_says_so() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with hosting(store, clock=clock) as host:
        await accept(host, statement("a fact"), "k1")
        await settled(host, "k1")
        clock.advance(1)
        # Put away and opened again, but by the same process.
        await host.close_session("s", OPERATOR)
        assert (await receipt(host, "k1"))["after_restart"] is False
    async with hosting(store, clock=clock) as host:
        view = await host.view("s")
        told = await view.receipt("k1", agent_id=ANN)
        assert told.text.startswith("applied after a restart: derived 1 concept(s)")
        assert (told.structured["state"], told.structured["after_restart"]) == ("committed", True)


async def test_receipts_of_accepted_writes_are_kept_per_agent() -> None:
    async with hosting(InMemoryStore()) as host:
        await accept(host, statement("a fact"), "k1")
        assert (await receipt(host, "k1", agent="bob"))["state"] == "unknown"
