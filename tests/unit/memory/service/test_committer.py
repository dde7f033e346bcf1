"""The group-commit algorithm, one step at a time, over the in-memory store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memory.engine.config import Config, Durability
from memory.engine.mutations import Call, Group, PutSynonym, Receipt
from memory.engine.ports import Lease, SessionBatch, StoredPosition
from memory.service.committer import Committer, Outcome, Settled, is_rewound
from memory.testing import Fault, FaultKind, FaultyStore, InMemoryStore, ManualClock

NODE = "node-1"


class Bench:
    """A committer over a store with faults, and what it delivered."""

    def __init__(self, *sessions: str, plan: Sequence[Fault] = (), **config: object) -> None:
        self.clock = ManualClock()
        self.inner = InMemoryStore(self.clock)
        self.store = FaultyStore(self.inner, plan)
        self.settled: list[Settled] = []
        self.committer = Committer(
            self.store,
            node_id=NODE,
            config=Config(**config),  # type: ignore[arg-type]  # keywords of the tests below
            clock=self.clock,
            deliver=self.settled.extend,
        )
        self.positions: dict[str, int] = {}
        self.incarnations: dict[str, int] = {}
        for session in sessions or ("s",):
            self.attach(session)

    def attach(self, session: str) -> None:
        lease = self.inner.acquire_lease(
            session,
            node_id=NODE,
            endpoint="",
            ttl_seconds=45.0,
            create=True,
            match_strategy="canonical",
            created_at=self.clock.now(),
        )
        assert isinstance(lease, Lease)
        self.incarnations[session] = self.committer.attach(lease)
        self.positions.setdefault(session, lease.position)

    def submit(self, *texts: str, session: str = "s", size: int = 1) -> None:
        for text in texts:
            self.positions[session] += 1
            position = self.positions[session]
            key = f"{session}-{position}"
            call = Call("synonym", "agent", key, "digest", '{"source": "x"}')
            receipt = Receipt("agent", key, "synonym", "digest", {}, position, self.clock.now())
            mutations = tuple(PutSynonym(f"{text}-{at}", text) for at in range(size))
            group = Group(session, position, mutations, self.clock.now(), call, receipt)
            self.committer.submit(group, self.incarnations[session])

    def outcomes(self, session: str = "s") -> dict[int, Outcome]:
        return {
            item.group.position: item.outcome
            for item in self.settled
            if item.group.session_id == session
        }

    def stored(self, session: str = "s") -> set[str]:
        loaded = self.inner.load_session(session)
        assert loaded is not None
        return {target for _, target in loaded.snapshot.synonyms}

    def run(self, seconds: float = 60.0) -> None:
        """Step until idle, letting the time pass that the committer asks for."""
        end = self.clock.monotonic() + seconds
        while not self.committer.is_idle and self.clock.monotonic() < end:
            delay = self.committer.step()
            if delay is None:
                return
            self.clock.advance(delay)


C, R, D, L = Outcome.COMMITTED, Outcome.REJECTED, Outcome.DROPPED, Outcome.LOST


def test_waiting_groups_of_all_sessions_go_out_in_one_transaction() -> None:
    bench = Bench("a", "b")
    bench.submit("one", "two", session="a")
    bench.submit("three", session="b")
    assert bench.committer.step() is None
    assert bench.store.calls["commit"] == 1
    assert bench.outcomes("a") == {1: C, 2: C}
    assert bench.outcomes("b") == {1: C}


def test_a_batch_stops_growing_at_its_row_limit_and_a_larger_group_goes_alone() -> None:
    bench = Bench()
    bench.submit("big", size=5_000)
    bench.submit("small")
    assert bench.committer.step() == 0.0
    assert bench.outcomes() == {1: C}
    assert bench.committer.step() is None
    assert bench.outcomes() == {1: C, 2: C}


@pytest.mark.parametrize("kind", [FaultKind.TRANSIENT_BEFORE, FaultKind.TRANSIENT_AFTER])
def test_an_attempt_of_unknown_outcome_is_settled_by_what_is_stored(kind: FaultKind) -> None:
    bench = Bench(plan=[Fault("commit", 1, kind)])
    bench.submit("one", "two")
    assert (bench.committer.step() or 0.0) > 0
    assert bench.settled == []
    bench.run()
    assert bench.outcomes() == {1: C, 2: C}
    # Landed before the connection broke: it is not written a second time.
    assert bench.store.calls["commit"] == (1 if kind is FaultKind.TRANSIENT_AFTER else 2)


def test_nothing_is_tried_before_its_backoff_is_over() -> None:
    bench = Bench(plan=[Fault("commit", 1, FaultKind.TRANSIENT_BEFORE)])
    bench.submit("one")
    delay = bench.committer.step()
    assert delay is not None
    assert bench.committer.step() == pytest.approx(delay)
    assert bench.store.calls["commit"] == 1


def test_backoff_doubles_up_to_its_limit() -> None:
    faults = [Fault("commit", n, FaultKind.TRANSIENT_BEFORE) for n in range(1, 20)]
    bench = Bench(plan=faults, retry_initial_seconds=0.1, retry_max_seconds=1.0)
    bench.submit("one")
    delays = []
    for _ in range(6):
        delay = bench.committer.step()
        assert delay is not None
        delays.append(round(delay, 6))
        bench.clock.advance(delay)
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_the_guilty_group_is_rejected_what_precedes_it_lands_what_follows_is_dropped() -> None:
    bench = Bench("a", "b")
    bench.store.rejects = lambda group: group.session_id == "a" and group.position == 2
    bench.submit("one", "two", "three", "four", session="a")
    bench.submit("other", session="b")
    bench.run()
    assert bench.outcomes("a") == {1: C, 2: R, 3: D, 4: D}
    assert bench.outcomes("b") == {1: C}
    assert bench.stored("a") == {"one"}
    assert bench.inner.count_dead_letters("a") == 1


def test_a_broken_session_takes_no_group_until_it_is_attached_again() -> None:
    bench = Bench()
    bench.store.rejects = lambda group: group.position == 1
    bench.submit("bad")
    bench.run()
    bench.submit("late")
    bench.run()
    assert bench.outcomes() == {1: R, 2: D}
    bench.attach("s")
    bench.positions["s"] = 0
    bench.store.rejects = lambda group: False
    bench.submit("again")
    bench.run()
    assert bench.stored() == {"again"}


def test_a_group_of_a_graph_that_is_gone_never_lands_in_the_one_that_replaced_it() -> None:
    """Queued before its session was taken and opened again, it carried a position of its own."""
    bench = Bench()
    bench.submit("old")
    bench.attach("s")
    bench.positions["s"] = 0
    bench.submit("new")
    bench.run()
    assert [item.outcome for item in bench.settled] == [D, C]
    assert bench.stored() == {"new"}


def test_a_rejection_whose_dead_letter_cannot_be_kept_is_not_settled_before_it_can() -> None:
    bench = Bench(plan=[Fault("put_dead_letter", 1, FaultKind.TRANSIENT_BEFORE)])
    bench.store.rejects = lambda group: True
    bench.submit("bad")
    bench.committer.step()
    assert bench.settled == []
    bench.run()
    assert bench.outcomes() == {1: R}
    assert bench.inner.count_dead_letters("s") == 1


def test_a_lost_lease_takes_out_its_session_and_no_other() -> None:
    bench = Bench("a", "b")
    bench.submit("one", session="a")
    bench.submit("two", session="b")
    bench.inner.release_lease("a", node_id=NODE, token=1)
    taken = bench.inner.acquire_lease(
        "a", node_id="other", endpoint="", ttl_seconds=45.0, create=False,
        match_strategy="", created_at=0,
    )  # fmt: skip
    assert isinstance(taken, Lease)
    assert taken.token == 2
    bench.run()
    assert bench.outcomes("a") == {1: L}
    assert bench.outcomes("b") == {1: C}
    assert bench.stored("a") == set()


def test_a_commit_that_landed_just_before_a_take_over_is_known_by_its_receipt() -> None:
    """The stored position is the new holder's by then; saying "not stored" would be a lie."""
    bench = Bench(plan=[Fault("commit", 1, FaultKind.TRANSIENT_AFTER)])
    bench.submit("one", "two")
    bench.committer.step()
    bench.submit("three")
    bench.inner.release_lease("s", node_id=NODE, token=1)
    bench.inner.acquire_lease(
        "s", node_id="other", endpoint="", ttl_seconds=45.0, create=False,
        match_strategy="", created_at=0,
    )  # fmt: skip
    bench.run()
    assert bench.outcomes() == {1: C, 2: C, 3: L}
    assert bench.stored() == {"one", "two"}


def test_the_same_request_kept_by_the_next_holder_is_no_witness_of_ours() -> None:
    """Retried elsewhere it got the same place in the log; we answered with ids never stored."""
    bench = Bench(plan=[Fault("commit", 1, FaultKind.TRANSIENT_BEFORE)])
    bench.submit("one")
    bench.committer.step()
    bench.inner.release_lease("s", node_id=NODE, token=1)
    taken = bench.inner.acquire_lease(
        "s", node_id="other", endpoint="", ttl_seconds=45.0, create=False,
        match_strategy="", created_at=0,
    )  # fmt: skip
    assert isinstance(taken, Lease)
    bench.clock.advance(1.0)
    receipt = Receipt("agent", "s-1", "synonym", "digest", {}, 1, bench.clock.now())
    again = Group("s", 1, (PutSynonym("one-0", "one"),), bench.clock.now(), None, receipt)
    batch = SessionBatch("s", taken.token, 0, (again,))
    assert not bench.inner.commit([batch], node_id="other", ttl_seconds=45.0)
    bench.run()
    assert bench.outcomes() == {1: L}


def test_attaching_again_never_judges_groups_in_hand_by_the_position_others_reached() -> None:
    """Two groups of a thief once made two of ours, never stored, look committed."""
    bench = Bench(plan=[Fault("commit", 1, FaultKind.TRANSIENT_BEFORE)])
    bench.submit("one", "two")
    bench.committer.step()
    bench.inner.release_lease("s", node_id=NODE, token=1)
    stolen = bench.inner.acquire_lease(
        "s", node_id="other", endpoint="", ttl_seconds=45.0, create=False,
        match_strategy="", created_at=0,
    )  # fmt: skip
    assert isinstance(stolen, Lease)
    groups = tuple(Group("s", at, (PutSynonym(f"x{at}", "stolen"),), 0) for at in (1, 2))
    batch = SessionBatch("s", stolen.token, 0, groups)
    assert not bench.inner.commit([batch], node_id="other", ttl_seconds=45.0)
    bench.inner.release_lease("s", node_id="other", token=stolen.token)
    bench.attach("s")
    bench.positions["s"] = 2
    bench.submit("three")
    bench.run()
    assert bench.outcomes() == {1: D, 2: D, 3: C}
    assert bench.stored() == {"stolen", "three"}


def test_attaching_again_acknowledges_what_landed_unseen() -> None:
    bench = Bench(plan=[Fault("commit", 1, FaultKind.TRANSIENT_AFTER)])
    bench.submit("one")
    bench.committer.step()
    bench.attach("s")
    assert bench.outcomes() == {1: C}


def test_a_store_older_than_what_was_acknowledged_fences_the_session() -> None:
    bench = Bench()
    bench.submit("one")
    bench.run()
    rewound = InMemoryStore(bench.clock)
    lease = rewound.acquire_lease(
        "s", node_id=NODE, endpoint="", ttl_seconds=45.0, create=True,
        match_strategy="canonical", created_at=0,
    )  # fmt: skip
    assert isinstance(lease, Lease)
    assert lease.token == 1
    bench.store.replace_inner(rewound)
    bench.submit("two")
    bench.run()
    assert bench.outcomes() == {1: C, 2: Outcome.REWOUND}


def test_mode_behind_waits_for_its_interval_or_its_number_of_mutations() -> None:
    bench = Bench(durability=Durability.BEHIND, flush_interval_seconds=1.0, flush_mutations=10)
    bench.submit("one")
    assert bench.committer.step() == pytest.approx(1.0)
    bench.clock.advance(0.25)
    assert bench.committer.step() == pytest.approx(0.75)
    bench.submit("many", size=9)
    assert bench.committer.step() is None
    assert bench.outcomes() == {1: C, 2: C}
    bench.submit("three")
    assert bench.committer.step(drain=True) is None
    assert bench.outcomes()[3] is C


def test_detaching_a_session_settles_what_waits_as_lost() -> None:
    bench = Bench()
    bench.submit("one")
    bench.committer.detach("s")
    assert bench.outcomes() == {1: L}
    bench.submit("two")
    bench.run()
    assert bench.outcomes() == {1: L, 2: L}


@pytest.mark.parametrize(
    ("row", "is_older"),
    [
        (None, True),
        (StoredPosition(NODE, 2, 9), True),
        (StoredPosition("other", 2, 9), True),
        (StoredPosition(NODE, 3, 4), True),
        (StoredPosition(NODE, 3, 5), False),
        (StoredPosition(NODE, 3, 6), False),
        (StoredPosition("other", 4, 0), False),
    ],
)
def test_only_an_older_store_has_no_row_a_lower_token_or_a_lower_position(
    row: StoredPosition | None, is_older: bool
) -> None:
    assert is_rewound(row, token=3, position=5) is is_older


@pytest.mark.parametrize("has_row", [True, False], ids=["lower token", "no row"])
def test_a_store_with_a_lower_token_or_without_the_row_is_no_other_holder(has_row: bool) -> None:
    """An older copy once looked like a take-over: the session was read from it and went on."""
    bench = Bench()
    bench.attach("s")  # under the next token
    bench.submit("one")
    bench.run()
    older = Bench() if has_row else Bench("another")
    bench.store.replace_inner(older.inner)
    bench.submit("two")
    bench.run()
    assert bench.outcomes() == {1: C, 2: Outcome.REWOUND}
