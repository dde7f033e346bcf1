"""Vectors as part of a graph: set by a mutation, refused where they do not belong, gone in time."""

from __future__ import annotations

import pytest

from graph_writing import START, Scribe, concept
from memory.engine.embedding import (
    EmbeddingContract,
    EmbeddingFailure,
    check_vector,
    vector_bytes,
    vector_from,
)
from memory.engine.errors import InvalidSnapshot
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteConcept, PutVector, SwitchContract
from memory.engine.snapshot import lay_beside, load_snapshot, take_snapshot
from memory.engine.wire import (
    mutation_from_json,
    mutation_to_json,
    snapshot_from_json,
    snapshot_to_json,
)

CONTRACT = EmbeddingContract("fixture", None, 3)
OTHER = EmbeddingContract("fixture", "other", 2)


def unit(*numbers: float) -> bytes:
    vector = check_vector(numbers, 3)
    assert not isinstance(vector, EmbeddingFailure)
    return vector_bytes(vector)


VECTOR = unit(1, 2, 3)


@pytest.fixture
def scribe() -> Scribe:
    graph = Graph("session", START, contract=CONTRACT, match_strategy="hybrid")
    scribe = Scribe(graph)
    scribe.derive(concept("one"), concept("two"))
    return scribe


def id_of(graph: Graph, key: str) -> str:
    row = graph.find_by_key(key)
    assert row is not None
    return graph.id_at(row)


def test_a_vector_is_held_by_the_row_of_its_concept(scribe: Scribe) -> None:
    graph = scribe.graph
    name = id_of(graph, "one")
    assert graph.missing_vector_count == 2

    graph.apply(PutVector(name, CONTRACT.key, VECTOR))

    assert graph.vectors is not None
    row = graph.row_of(name)
    assert row is not None
    held = graph.vectors.get(row)
    assert held is not None
    assert held.tobytes() == vector_from(VECTOR).tobytes()
    assert graph.missing_vector_count == 1


def test_a_row_used_again_does_not_inherit_a_vector(scribe: Scribe) -> None:
    graph = scribe.graph
    name = id_of(graph, "two")
    graph.apply(PutVector(name, CONTRACT.key, VECTOR))
    row = graph.row_of(name)

    graph.apply(DeleteConcept(name))
    scribe.derive(concept("three"))

    assert graph.row_of(id_of(graph, "three")) == row
    assert graph.vectors is not None
    assert row is not None
    assert row not in graph.vectors


@pytest.mark.parametrize(
    ("contract", "vector", "fault"),
    [
        (OTHER.key, VECTOR[:-1], "is none"),
        (OTHER.key, b"", "is none"),
        (CONTRACT.key, VECTOR + VECTOR, "another width"),
        (CONTRACT.key, b"", "another width"),
    ],
)
def test_what_does_not_belong_is_refused_and_changes_nothing(
    scribe: Scribe, contract: str, vector: bytes, fault: str
) -> None:
    before = take_snapshot(scribe.graph)
    with pytest.raises(InvalidSnapshot, match=fault):
        scribe.graph.apply(PutVector(id_of(scribe.graph, "one"), contract, vector))
    assert take_snapshot(scribe.graph) == before


def test_a_vector_without_a_concept_or_a_contract_is_refused(scribe: Scribe) -> None:
    with pytest.raises(InvalidSnapshot, match="unknown concept"):
        scribe.graph.apply(PutVector(scribe.ids.next_id(), CONTRACT.key, VECTOR))
    plain = Scribe()
    plain.derive(concept("one"))
    assert not plain.graph.is_hybrid
    assert plain.graph.missing_vector_count == 0


# -- another contract beside the session's own -----------------------------------------------------


def narrow(*numbers: float) -> bytes:
    vector = check_vector(numbers, OTHER.dim)
    assert not isinstance(vector, EmbeddingFailure)
    return vector_bytes(vector)


def test_vectors_of_another_contract_are_not_searched_before_the_switch(scribe: Scribe) -> None:
    graph = scribe.graph
    one, two = id_of(graph, "one"), id_of(graph, "two")
    graph.apply(PutVector(one, CONTRACT.key, VECTOR))
    before = take_snapshot(graph)

    graph.apply(PutVector(one, OTHER.key, narrow(1, 0)))
    graph.apply(PutVector(two, OTHER.key, narrow(0, 1)))

    assert take_snapshot(graph) == before
    assert graph.missing_vector_count == 1
    assert graph.beside.count(OTHER) == 2


def test_a_switch_makes_them_the_only_vectors(scribe: Scribe) -> None:
    graph = scribe.graph
    one, two = id_of(graph, "one"), id_of(graph, "two")
    graph.apply(PutVector(one, CONTRACT.key, VECTOR))
    graph.apply(PutVector(two, OTHER.key, narrow(0, 1)))

    graph.apply(SwitchContract(OTHER))

    assert graph.contract == OTHER
    assert take_snapshot(graph).vectors == ((two, narrow(0, 1)),)
    assert graph.missing_vector_count == 1
    assert (graph.beside.count(OTHER), graph.beside.count(CONTRACT)) == (0, 0)
    graph.apply(SwitchContract(OTHER))  # told twice, done once
    assert take_snapshot(graph).vectors == ((two, narrow(0, 1)),)
    with pytest.raises(InvalidSnapshot, match="another width"):
        graph.apply(PutVector(one, OTHER.key, VECTOR))


def test_a_session_without_a_contract_gets_one_and_keeps_its_strategy() -> None:
    plain = Scribe()
    plain.derive(concept("one"))
    plain.graph.apply(PutVector(id_of(plain.graph, "one"), CONTRACT.key, VECTOR))
    assert plain.graph.missing_vector_count == 0

    plain.graph.apply(SwitchContract(CONTRACT))

    assert plain.graph.vectors is not None
    assert len(plain.graph.vectors) == 1
    assert plain.graph.match_strategy == "canonical"


def test_a_concept_takes_its_vectors_along_under_every_contract(scribe: Scribe) -> None:
    graph = scribe.graph
    two = id_of(graph, "two")
    graph.apply(PutVector(two, OTHER.key, narrow(0, 1)))

    graph.apply(DeleteConcept(two))
    scribe.derive(concept("three"))  # in the same row
    graph.apply(SwitchContract(OTHER))

    assert take_snapshot(graph).vectors == ()
    assert graph.missing_vector_count == 2


def test_one_contract_is_of_one_width_before_and_at_the_switch(scribe: Scribe) -> None:
    graph = scribe.graph
    one, two = id_of(graph, "one"), id_of(graph, "two")
    graph.apply(PutVector(one, OTHER.key, VECTOR))
    with pytest.raises(InvalidSnapshot, match="differ in width"):
        graph.apply(PutVector(two, OTHER.key, narrow(0, 1)))
    with pytest.raises(InvalidSnapshot, match="another width"):
        graph.apply(SwitchContract(OTHER))
    assert graph.contract == CONTRACT
    assert graph.beside.count(OTHER) == 1


def test_what_is_stored_beside_comes_back_but_for_what_is_no_vector(scribe: Scribe) -> None:
    one, two = id_of(scribe.graph, "one"), id_of(scribe.graph, "two")
    graph = load_snapshot(take_snapshot(scribe.graph))

    lay_beside(graph, OTHER, [(one, narrow(1, 0)), (two, VECTOR), ("gone", narrow(1, 0))])

    assert graph.beside.count(OTHER) == 1
    graph.apply(SwitchContract(OTHER))
    assert take_snapshot(graph).vectors == ((one, narrow(1, 0)),)


def test_the_switch_has_a_json_form() -> None:
    mutation = SwitchContract(OTHER)
    wire = mutation_to_json(mutation, "session")
    assert wire["op"] == "switch_contract"
    assert mutation_from_json(wire) == mutation


def test_snapshots_and_their_json_keep_contract_strategy_and_vectors(scribe: Scribe) -> None:
    scribe.graph.apply(PutVector(id_of(scribe.graph, "one"), CONTRACT.key, VECTOR))
    snapshot = take_snapshot(scribe.graph)
    assert snapshot.contract == CONTRACT
    assert len(snapshot.vectors) == 1
    assert take_snapshot(load_snapshot(snapshot)) == snapshot
    assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot


def test_the_mutation_has_a_json_form(scribe: Scribe) -> None:
    mutation = PutVector(id_of(scribe.graph, "one"), CONTRACT.key, VECTOR)
    wire = mutation_to_json(mutation, "session")
    assert wire["op"] == "set_embedding"
    assert mutation_from_json(wire) == mutation


def test_contracts_differ_in_each_of_their_four_facts() -> None:
    contracts = [
        EmbeddingContract("a", None, 3),
        EmbeddingContract("b", None, 3),
        EmbeddingContract("a", "", 3),
        EmbeddingContract("a", None, 4),
        EmbeddingContract("a", None, 3, "query"),
    ]
    assert len({contract.key for contract in contracts}) == len(contracts)
