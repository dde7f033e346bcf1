"""Faults at the k-th commit under twelve writers.

Whatever fails: afterwards the RAM graph equals the store, every acknowledged write is in both, no
refused write is in either, and the session takes writes again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from hosting import AGENT, contents, hosting, statement
from memory.engine.errors import LamboError, LeaseLost, RejectedByStore, SessionReloaded
from memory.engine.mutations import Group, PutConcept
from memory.engine.requests import Caller
from memory.engine.snapshot import take_snapshot
from memory.service.host import SessionHost
from memory.service.memory import Memory
from memory.testing import Fault, FaultKind, FaultyStore, InMemoryStore

WRITERS, WRITES = 12, 15


@dataclass
class Ledger:
    """What the callers were told."""

    kept: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    errors: list[LamboError] = field(default_factory=list)


async def write_all(host: SessionHost, ledger: Ledger) -> None:
    async def writer(number: int) -> None:
        caller = Caller(f"agent-{number}")
        for turn in range(WRITES):
            text = f"fact number{number}x{turn}"
            try:
                await host.write("s", lambda m, t=text: m.derive(statement(t), caller), create=True)  # type: ignore[misc]
                ledger.kept.add(text)
            except LamboError as error:
                ledger.errors.append(error)
                ledger.refused.add(text)

    await asyncio.gather(*(writer(number) for number in range(WRITERS)))


async def check(host: SessionHost, store: InMemoryStore, ledger: Ledger) -> None:
    """The three must agree: the ledger, RAM and the store; and the next write must land."""
    await host.write("s", lambda m: m.derive(statement("afterword"), AGENT), create=True)
    ledger.kept.add("afterword")
    memory = await host.memory("s", create=False)
    assert isinstance(memory, Memory)
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.set_aside == ()
    assert take_snapshot(memory.graph) == loaded.snapshot
    held = contents(memory.graph)
    assert held == ledger.kept
    assert not held & ledger.refused


@pytest.mark.parametrize("call", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [FaultKind.TRANSIENT_BEFORE, FaultKind.TRANSIENT_AFTER])
async def test_busy_and_broken_connections_heal_without_a_caller_noticing(
    kind: FaultKind, call: int
) -> None:
    inner = InMemoryStore()
    store = FaultyStore(inner, [Fault("commit", call, kind), Fault("commit", call + 1, kind)])
    ledger = Ledger()
    async with hosting(store, retry_initial_seconds=0.001) as host:
        await write_all(host, ledger)
        assert ledger.errors == []
        assert len(ledger.kept) == WRITERS * WRITES
        await check(host, inner, ledger)


@pytest.mark.parametrize("victim", ["fact number3x0", "fact number7x4", "fact number0x14"])
async def test_a_refused_write_costs_itself_and_those_behind_it_and_the_session_goes_on(
    victim: str,
) -> None:
    def holds_victim(group: Group) -> bool:
        return any(
            isinstance(mutation, PutConcept) and mutation.concept.content == victim
            for mutation in group.mutations
        )

    inner = InMemoryStore()
    store = FaultyStore(inner)
    store.rejects = holds_victim
    ledger = Ledger()
    async with hosting(store, retry_initial_seconds=0.001) as host:
        await write_all(host, ledger)
        rejected = [error for error in ledger.errors if isinstance(error, RejectedByStore)]
        reloaded = [error for error in ledger.errors if isinstance(error, SessionReloaded)]
        assert len(rejected) == 1
        assert len(rejected) + len(reloaded) == len(ledger.errors)
        assert victim in ledger.refused
        assert inner.count_dead_letters("s") == 1
        await check(host, inner, ledger)


@pytest.mark.parametrize("call", [1, 3])
async def test_a_session_taken_over_acknowledges_nothing_it_did_not_store(call: int) -> None:
    inner = InMemoryStore()
    store = FaultyStore(inner, [Fault("commit", call, FaultKind.LEASE_LOST)])
    ledger = Ledger()
    async with hosting(store) as host:
        await write_all(host, ledger)
        assert any(isinstance(error, LeaseLost) for error in ledger.errors)
        loaded = inner.load_session("s")
        assert loaded is not None
        assert {concept.content for concept in loaded.snapshot.concepts} == ledger.kept
        assert host.open_session_ids == []


async def test_a_batch_that_creates_deletes_and_recreates_a_key_survives_a_lost_commit() -> None:
    """The transaction holds the same key three times and its connection breaks at COMMIT."""
    from hosting import OPERATOR
    from memory.engine.requests import RetractRequest

    inner = InMemoryStore()
    store = FaultyStore(inner)
    async with hosting(store, retry_initial_seconds=0.001) as host:
        await host.write("s", lambda m: m.derive(statement("first"), AGENT), create=True)
        memory = await host.memory("s", create=False)
        # The committer is held in a commit while the three pile up behind it.
        hang = store.fail_next("commit", FaultKind.HANG)
        head = asyncio.create_task(memory.derive(statement("head"), AGENT))
        await asyncio.to_thread(hang.entered.wait, 5)
        store.fail_next("commit", FaultKind.TRANSIENT_AFTER)
        steps = [
            asyncio.create_task(memory.derive(statement("the key"), AGENT)),
            asyncio.create_task(memory.retract(RetractRequest("the key"), OPERATOR)),
            asyncio.create_task(memory.derive(statement("the key"), AGENT)),
        ]
        await asyncio.sleep(0)
        hang.release.set()
        replies = await asyncio.gather(head, *steps)
        assert replies[1].structured["created"] != replies[3].structured["created"]
        loaded = inner.load_session("s")
        assert loaded is not None
        assert take_snapshot(memory.graph) == loaded.snapshot
        assert contents(memory.graph) == {"first", "head", "the key"}
