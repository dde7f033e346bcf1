"""The shipped doubles do what their users count on."""

from __future__ import annotations

import threading
import uuid

import pytest

from memory.engine.mutations import SetRootGoal
from memory.engine.ports import Lease, LeaseRefused, StoreRejected, StoreTransient
from memory.testing import (
    THIEF,
    Fault,
    FaultKind,
    FaultyStore,
    InMemoryStore,
    ManualClock,
    SequentialIds,
)
from session_log import NODE, START, SessionLog, acquire


def faulty(*plan: Fault) -> tuple[FaultyStore, SessionLog]:
    store = FaultyStore(InMemoryStore(ManualClock()), plan)
    return store, SessionLog(store)


def goal_of(log: SessionLog) -> object:
    loaded = log.store.load_session("s")
    assert loaded is not None
    return loaded.snapshot.root_goal


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(START)
    assert (clock.now(), clock.monotonic()) == (START, 0.0)

    clock.advance(1.5)
    assert (clock.now(), clock.monotonic()) == (START + 1_500_000, 1.5)

    clock.set_wall_time(START - 5)
    assert (clock.now(), clock.monotonic()) == (START - 5, 1.5)


def test_sequential_ids_are_valid_distinct_ordered_and_repeatable() -> None:
    ids, again, other = SequentialIds(7), SequentialIds(7), SequentialIds(8)
    made = [ids.next_id() for _ in range(20)]
    ordered = [ids.next_ordered_id(START - number) for number in range(20)]

    assert made == [again.next_id() for _ in range(20)] == sorted(made)
    assert ordered == sorted(ordered)
    assert len({*made, *ordered, *(other.next_id() for _ in range(20))}) == 60
    assert {uuid.UUID(text).version for text in made} == {4}
    assert {uuid.UUID(text).version for text in ordered} == {7}
    assert all(str(uuid.UUID(text)) == text for text in [*made, *ordered])


def test_leases_in_memory_expire_by_the_given_clock() -> None:
    clock = ManualClock()
    store = InMemoryStore(clock)
    acquire(store, ttl_seconds=45.0)

    clock.advance(44.0)
    refused = acquire(store, node_id="node-b")
    assert isinstance(refused, LeaseRefused)
    assert refused.expires_in_seconds == pytest.approx(1.0)

    clock.advance(1.0)
    assert acquire(store, node_id="node-b") == Lease("s", "node-b", 2, 0)


def test_what_was_loaded_does_not_change_with_later_commits() -> None:
    log = SessionLog(InMemoryStore())
    goal = ["mine"]
    log.commit([SetRootGoal(goal)])
    before = log.load()

    goal.append("changed after the commit")
    log.write("more")

    assert before.root_goal == ["mine"]
    assert before.concepts == ()
    assert log.load().root_goal == ["mine"]


def test_a_faulty_store_without_a_plan_is_the_store_itself() -> None:
    store, log = faulty()
    log.write("one")
    assert log.load().concepts[0].content == "one"
    assert store.calls["commit"] == 1


def test_transient_before_does_nothing_and_only_in_the_named_call() -> None:
    _, log = faulty(Fault("commit", 2, FaultKind.TRANSIENT_BEFORE))
    log.commit([SetRootGoal(1)])
    with pytest.raises(StoreTransient):
        log.commit([SetRootGoal(2)])
    assert goal_of(log) == 1
    log.commit([SetRootGoal(3)])
    assert goal_of(log) == 3


def test_transient_after_has_committed() -> None:
    store, log = faulty(Fault("commit", 1, FaultKind.TRANSIENT_AFTER))
    with pytest.raises(StoreTransient):
        log.commit([SetRootGoal("landed")])
    assert goal_of(log) == "landed"
    assert store.read_positions(["s"])["s"].position == 1


def test_rejected_does_nothing() -> None:
    _, log = faulty(Fault("commit", 1, FaultKind.REJECTED))
    with pytest.raises(StoreRejected):
        log.commit([SetRootGoal("never")])
    assert goal_of(log) is None


def test_lease_lost_lets_another_node_take_over_before_the_call() -> None:
    store, log = faulty(Fault("commit", 1, FaultKind.LEASE_LOST))
    assert log.commit([SetRootGoal("late")]) == {"s"}
    assert goal_of(log) is None
    stored = store.read_positions(["s"])["s"]
    assert (stored.node_id, stored.token) == (THIEF, log.token + 1)


def test_a_heartbeat_can_find_the_lease_lost_too() -> None:
    store, log = faulty()
    store.fail_next("renew_leases", FaultKind.LEASE_LOST)
    assert store.renew_leases({"s": log.token}, node_id=NODE, ttl_seconds=45.0) == {"s"}


def test_a_hanging_call_waits_for_its_release_then_runs() -> None:
    store, log = faulty()
    fault = store.fail_next("commit", FaultKind.HANG)
    thread = threading.Thread(target=log.commit, args=([SetRootGoal("at last")],))
    thread.start()
    assert fault.entered.wait(timeout=10)
    assert goal_of(log) is None

    fault.release.set()
    thread.join()
    assert goal_of(log) == "at last"
