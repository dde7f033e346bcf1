"""What background cycles leave in a store: their state, when they are due, evidence, accesses."""

from __future__ import annotations

import json

import pytest
from django.db import connections

from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    PutAccess,
    PutConcept,
    PutCycleState,
)
from memory.engine.ports import Due, GraphStore
from memory.engine.types import Concept, Status
from memory.store.django_store import DjangoStore
from memory.store.in_memory import InMemoryStore
from session_log import NODE, START, SessionLog, acquire, counted, deletion_entry

STATE = {"swept_at": START, "evaluation": {"held": [], "deferrals": 0}, "rules": "swarm"}


def release(store: GraphStore, log: SessionLog) -> None:
    store.release_lease(log.session_id, node_id=NODE, token=log.token)


def stored_concept(store: GraphStore, concept_id: str) -> Concept:
    loaded = store.load_session("s")
    assert loaded is not None
    return next(one for one in loaded.snapshot.concepts if one.id == concept_id)


def test_state_is_given_back_as_it_was_and_the_last_one_counts(store: GraphStore) -> None:
    log = SessionLog(store)
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.cycle_state is None
    log.commit([PutCycleState({"rules": "solo"}, 1, 2)], [PutCycleState(STATE, None, START)])
    again = store.load_session("s")
    assert again is not None
    assert again.cycle_state == STATE
    assert again.set_aside == ()


def test_due_sessions_are_those_nobody_holds_the_longest_waiting_first(store: GraphStore) -> None:
    logs = {name: SessionLog(store, name, seed=at) for at, name in enumerate("abcde", start=1)}
    logs["a"].commit([PutCycleState(None, START + 5, None)])
    logs["b"].commit([PutCycleState(None, START + 3, START)])
    logs["c"].commit([PutCycleState(None, None, START + 1)])
    logs["d"].commit([PutCycleState(None, START + 9, None)])
    for name in "abce":
        release(store, logs[name])
    assert list(store.list_due(Due.EVALUATE, at=START + 8, limit=10)) == ["b", "a"]
    assert list(store.list_due(Due.EVALUATE, at=START + 9, limit=10)) == ["b", "a"]  # d is held
    assert list(store.list_due(Due.EVALUATE, at=START + 9, limit=1)) == ["b"]
    assert list(store.list_due(Due.COLLECT, at=START + 1, limit=10)) == ["b", "c"]
    assert list(store.list_due(Due.COLLECT, at=START, limit=10)) == ["b"]
    acquire(store, "b")
    assert list(store.list_due(Due.COLLECT, at=START + 1, limit=10)) == ["c"]


def test_a_deleted_session_is_due_for_nothing(store: GraphStore) -> None:
    log = SessionLog(store)
    log.commit([PutCycleState(STATE, START, START)])
    steps = store.delete_session("s", node_id=NODE, token=log.token, entry=deletion_entry())
    next(steps)
    assert list(store.list_due(Due.EVALUATE, at=START, limit=10)) == []
    counted(steps)
    again = SessionLog(store, seed=2)
    release(store, again)
    assert list(store.list_due(Due.COLLECT, at=START, limit=10)) == []


def test_an_access_moves_only_the_counts_and_the_last_word_wins(store: GraphStore) -> None:
    log = SessionLog(store)
    one, two, three = log.write("one", "two", "three")
    log.commit(
        [PutAccess(one.id, 1, START), PutAccess(one.id, 2, START + 1)],
        [PutAccess(two.id, 5, START), PutConcept(two._replace(access_count=6, gc_survived=1))],
        [PutConcept(three._replace(gc_survived=1)), PutAccess(three.id, 7, START + 2)],
    )
    assert stored_concept(store, one.id) == one._replace(access_count=2, last_accessed=START + 1)
    assert stored_concept(store, two.id) == two._replace(access_count=6, gc_survived=1)
    assert stored_concept(store, three.id) == three._replace(
        access_count=7, last_accessed=START + 2, gc_survived=1
    )


def test_an_access_of_a_concept_that_is_gone_is_no_fault(store: GraphStore) -> None:
    log = SessionLog(store)
    (concept,) = log.write("one")
    log.commit([DeleteConcept(concept.id), PutAccess(concept.id, 1, START)])
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.snapshot.concepts == ()


def test_evidence_stands_in_the_audit_row_and_burdens_no_load(store: GraphStore) -> None:
    log = SessionLog(store)
    (concept,) = log.write("one")
    step = log.transition(concept, Status.NONE, Status.CANDIDATE)
    evidence = {"policy": "swarm", "checks": [{"gate": "distinct_interactions", "measured": 2}]}
    log.commit([ApplyTransition(step, evidence)])
    log.commit([ApplyTransition(step, {"policy": "another"})])  # a replay changes nothing
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.snapshot.transitions == (step,)
    if isinstance(store, InMemoryStore):
        assert store._sessions["s"].evidence[step.id] == evidence
    else:
        assert isinstance(store, DjangoStore)
        with connections[store._writer_alias].cursor() as cursor:
            cursor.execute("SELECT detail FROM lambo_audit_event WHERE id = %s", [step.id])
            assert json.loads(cursor.fetchone()[0]) == evidence


@pytest.mark.parametrize("text", ["{", "NaN-"])
def test_a_state_that_is_no_json_is_set_aside_with_a_sentence(store: GraphStore, text: str) -> None:
    if isinstance(store, InMemoryStore):
        pytest.skip("holds values, not texts")
    assert isinstance(store, DjangoStore)
    log = SessionLog(store)
    log.commit([PutCycleState(STATE, START, None)])
    with connections[store._writer_alias].cursor() as cursor:
        cursor.execute("UPDATE lambo_session SET cycle_state = %s", [text])
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.cycle_state is None
    (item,) = loaded.set_aside
    assert "is not JSON" in item.sentence
    assert store.put_aside(loaded, node_id=NODE, token=log.token, at=START) == 1
    again = store.load_session("s")
    assert again is not None
    assert again.set_aside == ()
