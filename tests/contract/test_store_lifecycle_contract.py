"""What every `GraphStore` promises of leases, the fence, receipts and the end of a session."""

from __future__ import annotations

from collections import Counter

import pytest

from memory.engine.mutations import (
    ApplyTransition,
    Call,
    PutReservation,
    PutSynonym,
    PutVector,
    SetRootGoal,
)
from memory.engine.ports import (
    BeingDeleted,
    DeadLetter,
    GraphStore,
    Lease,
    LeaseRefused,
    SessionInfo,
    StoredPosition,
    StoreRejected,
)
from memory.engine.types import Reservation, Status
from session_log import NODE, START, SessionLog, acquire, counted, deletion_entry

YEAR_1 = -62_135_596_800_000_000
YEAR_9999 = 253_402_300_799_999_999


# -- the lease ---------------------------------------------------------------------------------


def test_an_unknown_session_is_leased_only_when_it_may_be_created(store: GraphStore) -> None:
    assert acquire(store, create=False) is None
    assert store.list_sessions(after="", limit=10) == []

    assert acquire(store) == Lease("s", NODE, 1, 0)
    assert store.find_session("s") == SessionInfo("s", START, "hybrid", None)


def test_the_same_node_takes_its_session_again_at_once_with_a_higher_token(
    store: GraphStore,
) -> None:
    log = SessionLog(store)
    log.write("one")

    assert acquire(store, create=False) == Lease("s", NODE, 2, 1)


def test_another_node_is_refused_until_the_lease_expires(store: GraphStore) -> None:
    log = SessionLog(store)
    refused = acquire(store, node_id="node-b")
    assert isinstance(refused, LeaseRefused)
    assert (refused.node_id, refused.endpoint) == (NODE, f"http://{NODE}")
    assert 0 < refused.expires_in_seconds <= 45

    assert not store.renew_leases({"s": log.token}, node_id=NODE, ttl_seconds=0.0)

    assert acquire(store, node_id="node-b") == Lease("s", "node-b", 2, 0)
    assert log.commit([SetRootGoal("late")]) == {"s"}
    assert store.renew_leases({"s": log.token}, node_id=NODE, ttl_seconds=45.0) == {"s"}


def test_a_lease_that_expired_but_was_not_taken_is_still_ours(store: GraphStore) -> None:
    log = SessionLog(store)
    store.renew_leases({"s": log.token}, node_id=NODE, ttl_seconds=0.0)

    assert not log.commit([SetRootGoal("in time")])

    # The commit renewed it, too.
    assert isinstance(acquire(store, node_id="node-b"), LeaseRefused)


def test_release_frees_the_session_and_keeps_its_token(store: GraphStore) -> None:
    log = SessionLog(store)
    store.release_lease("s", node_id="node-b", token=log.token)
    store.release_lease("s", node_id=NODE, token=log.token + 1)
    assert isinstance(acquire(store, node_id="node-b"), LeaseRefused)

    store.release_lease("s", node_id=NODE, token=log.token)

    assert acquire(store, node_id="node-b") == Lease("s", "node-b", 2, 0)


def test_renewal_tells_which_sessions_are_no_longer_ours(store: GraphStore) -> None:
    kept, lost = SessionLog(store, "kept", seed=1), SessionLog(store, "lost", seed=2)
    acquire(store, "lost")

    tokens = {"kept": kept.token, "lost": lost.token, "unknown": 1}
    assert store.renew_leases(tokens, node_id=NODE, ttl_seconds=45.0) == {"lost", "unknown"}
    assert store.renew_leases({"kept": 1}, node_id="node-b", ttl_seconds=45.0) == {"kept"}
    assert store.renew_leases({}, node_id=NODE, ttl_seconds=45.0) == frozenset()


# -- the fence in every commit -----------------------------------------------------------------


def test_a_commit_under_another_token_node_or_position_is_taken_out(store: GraphStore) -> None:
    log = SessionLog(store)
    log.write("one")
    before = log.load()
    mutations = [SetRootGoal("fenced")]

    stale = log.batch(mutations, token=log.token - 1)
    assert store.commit([stale], node_id=NODE, ttl_seconds=45.0) == {"s"}
    assert store.commit([log.batch(mutations)], node_id="node-b", ttl_seconds=45.0) == {"s"}
    log.position -= 1
    assert store.commit([log.batch(mutations)], node_id=NODE, ttl_seconds=45.0) == {"s"}
    log.position += 2
    assert store.commit([log.batch(mutations)], node_id=NODE, ttl_seconds=45.0) == {"s"}

    log.position -= 1
    assert log.load() == before


def test_a_fenced_session_is_taken_out_and_the_others_are_committed(store: GraphStore) -> None:
    logs = [SessionLog(store, name, seed=seed) for seed, name in enumerate("cab", start=1)]
    acquire(store, "b")
    unknown = logs[0].batch([SetRootGoal("x")])
    unknown = type(unknown)("unknown", 1, 0, (unknown.groups[0].__class__("unknown", 1, (), 0),))
    batches = [log.batch([SetRootGoal(f"goal of {log.session_id}")]) for log in logs]

    taken_out = store.commit([*batches, unknown], node_id=NODE, ttl_seconds=45.0)

    assert taken_out == {"b", "unknown"}
    stored = store.read_positions(["a", "b", "c", "unknown"])
    assert stored == {
        "a": StoredPosition(NODE, 1, 1),
        "b": StoredPosition(NODE, 2, 0),
        "c": StoredPosition(NODE, 1, 1),
    }
    goals = {name: store.load_session(name) for name in "abc"}
    assert [goals[name].snapshot.root_goal for name in "abc"] == ["goal of a", None, "goal of c"]  # type: ignore[union-attr]


def test_one_refused_session_keeps_the_whole_transaction_out(store: GraphStore) -> None:
    good, bad = SessionLog(store, "good", seed=1), SessionLog(store, "bad", seed=2)
    batches = [good.batch([SetRootGoal("fine")]), bad.batch([SetRootGoal(float("inf"))])]

    with pytest.raises(StoreRejected):
        store.commit(batches, node_id=NODE, ttl_seconds=45.0)

    assert good.load().root_goal is None
    assert store.read_positions(["good", "bad"]) == {
        "good": StoredPosition(NODE, 1, 0),
        "bad": StoredPosition(NODE, 1, 0),
    }


# -- receipts and dead letters -----------------------------------------------------------------


def test_a_receipt_is_stored_with_its_group(log: SessionLog) -> None:
    receipt = log.receipt("key-1")
    log.commit([SetRootGoal("a")], [SetRootGoal("b")], receipt=receipt)

    assert log.store.find_receipt("s", "agent-a", "key-1") == receipt
    assert log.store.find_receipt("s", "agent-b", "key-1") is None
    assert log.store.find_receipt("t", "agent-a", "key-1") is None
    loaded = log.store.load_session("s")
    assert loaded is not None
    assert loaded.receipt_digests == {("agent-a", "key-1"): "digest of key-1"}


def test_receipts_past_their_time_or_number_are_pruned(store: GraphStore) -> None:
    crowded, quiet = SessionLog(store, "crowded", seed=1), SessionLog(store, "quiet", seed=2)
    for log, count in ((crowded, 6), (quiet, 3)):
        for number in range(count):
            at = START + number
            log.commit([SetRootGoal(number)], receipt=log.receipt(f"k{number}", created_at=at))

    assert store.prune_receipts(before=START + 1, keep_per_session=4) == 2 + 1

    def keys(session_id: str) -> list[str]:
        loaded = store.load_session(session_id)
        assert loaded is not None
        return sorted(key for _, key in loaded.receipt_digests)

    assert keys("crowded") == ["k2", "k3", "k4", "k5"]
    assert keys("quiet") == ["k1", "k2"]
    assert store.prune_receipts(before=START + 1, keep_per_session=4) == 0


def test_dead_letters_are_counted_by_session_and_once_each(store: GraphStore) -> None:
    SessionLog(store)
    call = Call("derive", "agent-a", "key", "digest", {"concepts": ["x"]})
    letter = DeadLetter("s", 3, call, "constraint failed", START)

    store.put_dead_letter(letter)
    store.put_dead_letter(letter)
    store.put_dead_letter(DeadLetter("s", 3, None, "again, later", START + 1))
    store.put_dead_letter(DeadLetter("t", 3, None, "elsewhere", START))

    assert store.count_dead_letters("s") == 2
    assert store.count_dead_letters("t") == 1


# -- the list, and the end of a session --------------------------------------------------------


def test_sessions_are_listed_by_name_page_by_page(store: GraphStore) -> None:
    names = ["Zoo", "alpha", "beta", "ähre", "%"]
    for name in names:
        acquire(store, name)

    pages = []
    after = ""
    while page := store.list_sessions(after=after, limit=2):
        pages += [info.session_id for info in page]
        after = page[-1].session_id
    assert pages == sorted(names)


def test_deleting_a_session_removes_all_of_it_and_nothing_else(store: GraphStore) -> None:
    logs = {}
    for seed, name in enumerate(["keep", "drop", "drop%"], start=1):
        log = logs[name] = SessionLog(store, name, seed=seed)
        concepts = log.write(*(f"{name} {number}" for number in range(250)))
        log.commit(
            [
                PutSynonym("a", "b"),
                PutReservation(Reservation(concepts[0].id, "agent", START)),
                ApplyTransition(log.transition(concepts[0], Status.NONE, Status.CANDIDATE)),
                PutVector(concepts[0].id, "contract", bytes(16)),
            ],
            receipt=log.receipt("k"),
        )
        store.put_dead_letter(DeadLetter(name, 1, None, "error", START))
        log.commit([PutReservation(Reservation(log.ids.next_id(), "agent", START))])
        loaded = store.load_session(name)
        assert loaded is not None
        assert store.put_aside(loaded, node_id=NODE, token=log.token, at=START) == 1
    before = {name: logs[name].load() for name in ("keep", "drop%")}

    counts = counted(
        store.delete_session("drop", node_id=NODE, token=logs["drop"].token, entry=deletion_entry())
    )

    assert counts == {
        "edge": 250,
        "embedding": 1,
        "concept": 250,
        "interaction": 1,
        "synonym": 1,
        "reservation": 1,
        "receipt": 1,
        "event": 0,
        "dead_letter": 1,
        "set_aside": 1,
        "session": 1,
    }
    assert store.load_session("drop") is None
    assert store.find_session("drop") is None
    assert store.find_receipt("drop", "agent-a", "k") is None
    assert store.count_dead_letters("drop") == 0
    assert [store.count_set_aside(name) for name in logs] == [1, 0, 1]
    assert [info.session_id for info in store.list_sessions(after="", limit=9)] == ["drop%", "keep"]
    assert {name: logs[name].load() for name in before} == before


@pytest.mark.parametrize("name", ["", "*", "%", "nobody"])
def test_deleting_an_unknown_session_is_rejected(log: SessionLog, name: str) -> None:
    log.write("here")
    before = log.load()

    with pytest.raises(StoreRejected):
        counted(
            log.store.delete_session(name, node_id=NODE, token=log.token, entry=deletion_entry())
        )

    assert log.load() == before


def test_only_the_holder_of_the_lease_may_delete(log: SessionLog) -> None:
    (concept,) = log.write("here")
    for node_id, token in (("node-b", log.token), (NODE, log.token - 1)):
        with pytest.raises(StoreRejected):
            counted(
                log.store.delete_session("s", node_id=node_id, token=token, entry=deletion_entry())
            )
    assert log.load().concepts == (concept,)


def test_a_name_can_be_used_again_when_its_deletion_is_through(store: GraphStore) -> None:
    old, other = SessionLog(store, seed=1), SessionLog(store, "t", seed=2)
    old.write("old one", "old two")
    counts: Counter[str] = Counter()
    for removed in store.delete_session("s", node_id=NODE, token=old.token, entry=deletion_entry()):
        counts.update(removed)
        assert acquire(store, create=False) is None
        other.write(f"step {other.position}")
        if not counts["session"]:
            assert acquire(store) == BeingDeleted("s")
            assert old.commit([SetRootGoal("too late")]) == {"s"}
    assert +counts == {"edge": 2, "concept": 2, "interaction": 1, "session": 1}

    new = SessionLog(store, seed=9)
    new.write("new one", "new two")
    assert counted(store.finish_deletions()) == {}
    assert [concept.content for concept in new.load().concepts] == ["new one", "new two"]


def test_a_name_used_again_starts_empty_under_a_higher_token(store: GraphStore) -> None:
    log = SessionLog(store)
    log.write("old")
    counted(store.delete_session("s", node_id=NODE, token=log.token, entry=deletion_entry()))
    assert acquire(store, create=False) is None

    again = SessionLog(store, seed=9)

    assert again.position == 0
    assert again.token > log.token + 1
    assert again.load().concepts == ()
    assert log.commit([SetRootGoal("from before the deletion")]) == {"s"}
    assert again.write("new")
    assert [concept.content for concept in again.load().concepts] == ["new"]
