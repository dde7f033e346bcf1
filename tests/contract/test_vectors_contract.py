"""Vectors in a store: filed under their contract, gone with their concept, back after a load."""

from __future__ import annotations

import numpy as np

from memory.engine.embedding import EmbeddingContract, check_vector, vector_bytes
from memory.engine.mutations import DeleteConcept, DeleteEdge, PutVector
from memory.engine.ports import GraphStore
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import EdgeType
from session_log import SessionLog, acquire

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
    steps = list(store.delete_session("s", node_id=log.node_id, token=log.token))
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
