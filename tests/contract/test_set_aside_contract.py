"""What every `GraphStore` promises of rows that no load can use: they block nothing, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory.engine.mutations import PutConcept, PutEdge, PutInteraction, PutReservation, SetRootGoal
from memory.engine.ports import LoadedSession, StoreRejected
from memory.engine.types import EdgeType, Reservation
from session_log import NODE, START, SessionLog, in_order


def load(log: SessionLog) -> LoadedSession:
    loaded = log.store.load_session(log.session_id)
    assert loaded is not None
    return loaded


def put_aside(log: SessionLog, loaded: LoadedSession) -> int:
    return log.store.put_aside(loaded, node_id=NODE, token=log.token, at=START)


def test_rows_put_aside_are_not_reported_again_and_nothing_else_changes(log: SessionLog) -> None:
    first, mutations = log.call()
    sound, puts = log.derived(first, "sound")
    orphan = log.concept(first, "derived by nobody")
    to_orphan = log.edge(sound.id, orphan.id, EdgeType.CAUSAL)
    held = Reservation(orphan.id, "agent", START)
    log.interaction()  # is never stored, so the chain breaks here
    last, more = log.call()
    mutations += [*puts, PutConcept(orphan), PutEdge(to_orphan), PutReservation(held), *more]
    log.commit(mutations)
    found = load(log)

    # The concept, its edge and its reservation; the interaction before it was written over, and the
    # Temporal edge that leads nowhere.
    assert put_aside(log, found) == 5

    assert log.load() == in_order(found.snapshot)
    assert found.snapshot.interactions == (first, last._replace(previous_id=first.id))
    assert log.store.count_set_aside("s") == 5
    assert log.store.count_set_aside("nobody") == 0
    # Again, as after an answer that got lost.
    assert put_aside(log, found) == 0
    assert log.store.count_set_aside("s") == 5
    assert log.load() == in_order(found.snapshot)


def test_a_concept_put_aside_gives_its_key_back(log: SessionLog) -> None:
    first, mutations = log.call()
    blocker = log.concept(first, "same")
    log.commit([*mutations, PutConcept(blocker)])
    concept, puts = log.derived(first, "same")
    with pytest.raises(StoreRejected):
        log.commit(puts)

    assert put_aside(log, load(log)) == 1

    assert not log.commit(puts)
    assert log.load().concepts == (concept,)


def test_a_temporal_edge_that_was_put_in_is_stored(log: SessionLog) -> None:
    first, mutations = log.call()
    second, _ = log.call()
    log.commit([*mutations, PutInteraction(second)])
    found = load(log)

    assert put_aside(log, found) == 0

    (edge,) = log.load().edges
    assert (edge,) == found.snapshot.edges
    assert (edge.source, edge.target) == (second.id, first.id)


def test_the_emptied_snapshot_is_enough_to_put_aside(log: SessionLog) -> None:
    first, mutations = log.call()
    kept, puts = log.derived(first, "kept")
    log.commit([*mutations, *puts, PutConcept(log.concept(first, "derived by nobody"))])
    found = load(log)
    emptied = found.snapshot._replace(interactions=(), concepts=(), edges=())

    assert put_aside(log, replace(found, snapshot=emptied)) == 1

    assert log.load().concepts == (kept,)


def test_only_the_holder_of_an_unchanged_session_may_put_aside(log: SessionLog) -> None:
    first, mutations = log.call()
    log.commit([*mutations, PutConcept(log.concept(first, "derived by nobody"))])
    found = load(log)

    for node_id, token in ((NODE, log.token - 1), ("node-b", log.token)):
        with pytest.raises(StoreRejected):
            log.store.put_aside(found, node_id=node_id, token=token, at=START)
    log.commit([SetRootGoal("written since")])
    with pytest.raises(StoreRejected):
        put_aside(log, found)

    assert log.store.count_set_aside("s") == 0
    assert put_aside(log, load(log)) == 1
