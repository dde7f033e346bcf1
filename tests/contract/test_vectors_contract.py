"""Vectors in a store: filed under their contract, gone with their concept, back after a load."""

from __future__ import annotations

import numpy as np
import pytest

from memory.engine.embedding import EmbeddingContract, check_vector, vector_bytes
from memory.engine.mutations import DeleteConcept, DeleteEdge, PutVector, SwitchContract
from memory.engine.ports import GraphStore, StoreRejected
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import EdgeType
from memory.store.deletion import VECTORS_PER_SLICE
from session_log import SessionLog, acquire, deletion_entry

CONTRACT = EmbeddingContract("fixture", "a model of ours", 4)
SAME_WIDTH = EmbeddingContract("fixture", "another model", 4)


def vector(*numbers: float) -> bytes:
    unit = check_vector(numbers, 4)
    assert isinstance(unit, np.ndarray)
    return vector_bytes(unit)


NORTH, EAST = vector(1, 0, 0, 0), vector(0, 1, 0, 0)


def test_the_contract_is_that_of_the_creation_whoever_opens_the_session(store: GraphStore) -> None:
    acquire(store, contract=CONTRACT)
    acquire(store, contract=SAME_WIDTH)

    session = store.load_session("s")

    assert session is not None
    assert session.snapshot.contract == CONTRACT
    assert session.snapshot.match_strategy == "hybrid"


def test_a_session_without_a_contract_stays_without(store: GraphStore) -> None:
    acquire(store)
    acquire(store, contract=CONTRACT)
    session = store.load_session("s")
    assert session is not None
    assert session.snapshot.contract is None


def test_a_contract_without_a_model_comes_back(store: GraphStore) -> None:
    contract = EmbeddingContract("openai", None, 1024)
    acquire(store, contract=contract)
    session = store.load_session("s")
    assert session is not None
    assert session.snapshot.contract == contract


def test_vectors_come_back_and_the_last_one_counts(store: GraphStore) -> None:
    log = SessionLog(store, contract=CONTRACT)
    first, second, third = log.write("one", "two", "three")
    log.commit(
        [PutVector(first.id, CONTRACT.key, NORTH), PutVector(second.id, CONTRACT.key, NORTH)],
        [PutVector(first.id, CONTRACT.key, EAST)],
    )

    snapshot = log.load()
    graph = load_snapshot(snapshot)

    assert snapshot.vectors == tuple(sorted([(first.id, EAST), (second.id, NORTH)]))
    assert graph.missing_vector_count == 1
    assert take_snapshot(graph) == snapshot
    row = graph.row_of(third.id)
    assert graph.vectors is not None
    assert row is not None
    assert row not in graph.vectors


def test_vectors_of_another_contract_are_never_loaded(store: GraphStore) -> None:
    log = SessionLog(store, contract=CONTRACT)
    (concept,) = log.write("one")
    log.commit([PutVector(concept.id, SAME_WIDTH.key, EAST)])
    assert log.load().vectors == ()

    log.commit([PutVector(concept.id, CONTRACT.key, NORTH)])

    assert log.load().vectors == ((concept.id, NORTH),)


def test_a_vector_goes_with_its_concept_under_every_contract(store: GraphStore) -> None:
    log = SessionLog(store, contract=CONTRACT)
    kept, gone = log.write("kept", "gone")
    log.commit(
        [
            PutVector(name, contract.key, NORTH)
            for name in (kept.id, gone.id)
            for contract in (CONTRACT, SAME_WIDTH)
        ]
    )
    derives = [edge for edge in log.load().edges if edge.target == gone.id]
    assert [edge.edge_type for edge in derives] == [EdgeType.DERIVES]

    log.commit([DeleteEdge(derives[0].id), DeleteConcept(gone.id)])

    assert log.load().vectors == ((kept.id, NORTH),)
    log.commit([PutVector(kept.id, CONTRACT.key, EAST)])
    steps = list(
        store.delete_session("s", node_id=log.node_id, token=log.token, entry=deletion_entry())
    )
    assert sum(step.get("embedding", 0) for step in steps) == 2


def test_what_is_no_unit_vector_leaves_its_concept_without_one(store: GraphStore) -> None:
    log = SessionLog(store, contract=CONTRACT)
    names = [concept.id for concept in log.write("good", "short", "nan", "long")]
    stored = [
        NORTH,
        NORTH[:-1],
        np.array([np.nan] * 4, dtype="<f4").tobytes(),
        np.array([3e38] * 4, dtype="<f4").tobytes(),
    ]
    log.commit(
        [PutVector(name, CONTRACT.key, some) for name, some in zip(names, stored, strict=True)]
    )

    graph = load_snapshot(log.load())

    assert graph.missing_vector_count == 3
    assert take_snapshot(graph).vectors == ((names[0], NORTH),)


# -- from one contract to another ------------------------------------------------------------------


@pytest.mark.parametrize("before", [CONTRACT, None])
def test_a_switch_changes_the_contract_and_nothing_else(
    store: GraphStore, before: EmbeddingContract | None
) -> None:
    log = SessionLog(store, contract=before)
    first, second = log.write("one", "two")
    log.commit([PutVector(first.id, CONTRACT.key, NORTH)])
    log.commit([PutVector(second.id, SAME_WIDTH.key, EAST)])
    earlier = log.load()
    assert store.load_vectors("s", SAME_WIDTH.key) == [(second.id, EAST)]

    log.commit([SwitchContract(SAME_WIDTH)])

    later = log.load()
    assert later.contract == SAME_WIDTH
    assert later.vectors == ((second.id, EAST),)
    assert later._replace(contract=before, vectors=earlier.vectors) == earlier
    acquire(store, contract=CONTRACT)  # whoever opens it next
    assert log.load().contract == SAME_WIDTH


def test_a_switch_is_stored_with_the_vectors_of_its_batch_or_not_at_all(store: GraphStore) -> None:
    log = SessionLog(store, contract=CONTRACT)
    (concept,) = log.write("one")
    groups = ([PutVector(concept.id, SAME_WIDTH.key, EAST)], [SwitchContract(SAME_WIDTH)])
    stale = log.batch(*groups, token=log.token - 1)
    assert store.commit([stale], node_id=log.node_id, ttl_seconds=45.0) == {"s"}
    assert log.load().contract == CONTRACT

    log.commit(*groups)

    assert (log.load().contract, log.load().vectors) == (SAME_WIDTH, ((concept.id, EAST),))


def test_a_load_tells_under_which_contracts_there_are_vectors(store: GraphStore) -> None:
    log = SessionLog(store, contract=CONTRACT)
    other = SessionLog(store, "t", seed=2, contract=SAME_WIDTH)
    first, second = log.write("one", "two")
    assert _contracts(store) == ()
    log.commit([PutVector(first.id, SAME_WIDTH.key, EAST)])
    assert _contracts(store) == (SAME_WIDTH.key,)
    log.commit([PutVector(name, CONTRACT.key, NORTH) for name in (first.id, second.id)])
    assert _contracts(store) == tuple(sorted([CONTRACT.key, SAME_WIDTH.key]))
    assert _contracts(store, other.session_id) == ()


def test_vectors_left_behind_go_in_slices_and_no_others_with_them(store: GraphStore) -> None:
    log = SessionLog(store, contract=SAME_WIDTH)
    other = SessionLog(store, "t", seed=2, contract=CONTRACT)
    concepts = log.write(*[f"concept {at}" for at in range(VECTORS_PER_SLICE + 1)])
    (elsewhere,) = other.write("elsewhere")
    log.commit([PutVector(concept.id, CONTRACT.key, NORTH) for concept in concepts])
    log.commit([PutVector(concepts[0].id, SAME_WIDTH.key, EAST)])
    other.commit([PutVector(elsewhere.id, CONTRACT.key, NORTH)])

    steps = store.drop_vectors("s", CONTRACT.key, node_id=log.node_id, token=log.token)

    removed = list(steps)
    assert sum(removed) == len(concepts)
    assert max(removed) <= len(concepts)
    assert _contracts(store) == (SAME_WIDTH.key,)
    assert log.load().vectors == ((concepts[0].id, EAST),)
    assert other.load().vectors == ((elsewhere.id, NORTH),)
    again = store.drop_vectors("s", CONTRACT.key, node_id=log.node_id, token=log.token)
    assert sum(again) == 0


def test_a_removal_cut_short_goes_on_where_it_was(store: GraphStore) -> None:
    log = SessionLog(store, contract=SAME_WIDTH)
    concepts = log.write(*[f"concept {at}" for at in range(VECTORS_PER_SLICE + 1)])
    log.commit([PutVector(concept.id, CONTRACT.key, NORTH) for concept in concepts])
    steps = store.drop_vectors("s", CONTRACT.key, node_id=log.node_id, token=log.token)
    first = next(iter(steps))
    del steps

    rest = store.drop_vectors("s", CONTRACT.key, node_id=log.node_id, token=log.token)

    assert first + sum(rest) == len(concepts)


def test_vectors_of_others_and_those_in_use_are_not_removed(store: GraphStore) -> None:
    log = SessionLog(store, contract=CONTRACT)
    (concept,) = log.write("one")
    log.commit([PutVector(concept.id, CONTRACT.key, NORTH)])
    log.commit([PutVector(concept.id, SAME_WIDTH.key, EAST)])
    for contract, node_id, token in [
        (CONTRACT, log.node_id, log.token),
        (SAME_WIDTH, "node-b", log.token),
        (SAME_WIDTH, log.node_id, log.token + 1),
    ]:
        with pytest.raises(StoreRejected):
            list(store.drop_vectors("s", contract.key, node_id=node_id, token=token))
    assert len(_contracts(store)) == 2


def _contracts(store: GraphStore, session_id: str = "s") -> tuple[str, ...]:
    session = store.load_session(session_id)
    assert session is not None
    return session.contracts
