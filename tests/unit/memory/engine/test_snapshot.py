"""Sessions closed and opened again: nothing is lost, and what is unsound is refused by name."""

from __future__ import annotations

import gc
import json
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from graph_writing import START, Scribe, concept, dependency_snapshot, observation, reopened
from memory.engine.collection import collection_paused
from memory.engine.errors import InvalidSnapshot
from memory.engine.graph import Graph
from memory.engine.mutations import PutConcept, PutEdge, PutInteraction
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Reservation,
    Snapshot,
    Status,
    Transition,
)
from memory.engine.wire import snapshot_from_json, snapshot_to_json
from memory.testing import SequentialIds
from shared_data import shared_file

ABSENT = "ffffffff-0000-4000-8000-000000000000"
COUNTERS = ("degree", "bonus_milli", "derivations", "dependents")


def written() -> Scribe:
    """Something of everything, with rows that were freed and taken again."""
    scribe = Scribe()
    scribe.derive("alpha", "beta", observation("it rained"), parent_of=[("alpha", "leaf")])
    scribe.derive(concept("gamma", depends_on=["alpha"], against=["it rained"]), event_time=3)
    scribe.derive("gone", "gone too")
    scribe.retract("gone")
    scribe.act("write", produces=["file.rs"], depends_on=["beta", "gamma"])
    scribe.demote("One thing. One thing.")
    scribe.declare_synonym("alias", "alpha")
    scribe.set_goal("alpha")
    scribe.reserve("beta")
    scribe.retract("gone too")
    return scribe


def adjacency(graph: Graph) -> Any:
    """Every list of incident edges, by id, in order."""
    ids = graph.edges.ids
    return (
        [[ids[edge] for edge in rows] for rows in graph.chain.edges],
        {graph.id_at(row): [ids[e] for e in graph.concepts.leaving[row]] for row in rows_of(graph)},
        {
            graph.id_at(row): [ids[e] for e in graph.concepts.arriving[row]]
            for row in rows_of(graph)
        },
        [[graph.id_at(row) for row in rows] for rows in graph.chain.originated],
    )


def rows_of(graph: Graph) -> list[int]:
    return graph.concept_rows()


def counters(graph: Graph) -> dict[str, list[int]]:
    return {
        graph.id_at(row): [int(graph.concepts[name][row]) for name in COUNTERS]
        for row in rows_of(graph)
    }


# -- round trips -------------------------------------------------------------------------------


def test_snapshot_when_taken_then_holds_every_record_in_its_order() -> None:
    scribe = written()
    graph = scribe.graph
    snapshot = take_snapshot(graph)
    assert snapshot.interactions == graph.interactions()
    assert snapshot.concepts == tuple(sorted(graph.concept_at(row) for row in rows_of(graph)))
    assert snapshot.edges == tuple(sorted(graph.all_edges()))
    assert snapshot.synonyms == (("alias", "alpha"),)
    assert snapshot.root_goal == ["alpha"]
    assert [one.node_id for one in snapshot.reservations] == [scribe.id("beta")]
    assert [one.node_id for one in snapshot.transitions] == [scribe.id("alpha")]
    for record in (*snapshot.concepts, *snapshot.edges):
        plain = {type(value) for value in record}
        assert plain <= {str, int, float, type(None), ConceptType, Status, EdgeType}


def test_snapshot_when_loaded_then_the_graph_equals_the_one_it_was_taken_from() -> None:
    graph = written().graph
    again = reopened(graph)
    assert take_snapshot(again) == take_snapshot(graph)
    assert counters(again) == counters(graph)
    assert (again.session_id, again.created_at, again.epoch) == ("session", START, 0)


def test_snapshot_when_loaded_then_equals_a_replay_down_to_the_order_of_every_list() -> None:
    snapshot = take_snapshot(written().graph)
    replayed = Graph(snapshot.session_id, snapshot.created_at)
    replayed.apply_all(PutInteraction(one) for one in snapshot.interactions)
    replayed.apply_all(PutConcept(one) for one in snapshot.concepts)
    replayed.apply_all(PutEdge(one) for one in snapshot.edges)
    loaded = load_snapshot(snapshot)
    assert adjacency(loaded) == adjacency(replayed)
    assert counters(loaded) == counters(replayed)


def test_loaded_graph_when_written_to_then_goes_on_like_the_other() -> None:
    scribe = written()
    other = Scribe(reopened(scribe.graph))
    other.now = scribe.now
    for one in (scribe, other):
        one.ids = SequentialIds(seed=9)
        one.derive("alpha", concept("delta", depends_on=["file.rs", "gamma"]), "beta")
        one.act("write", modifies=["delta"])
        one.retract("gamma")
    assert take_snapshot(other.graph) == take_snapshot(scribe.graph)
    assert counters(other.graph) == counters(scribe.graph)


def test_snapshot_when_empty_then_loads_empty() -> None:
    snapshot = Snapshot("session", 7, None)
    graph = load_snapshot(snapshot)
    assert take_snapshot(graph) == snapshot
    assert (graph.concept_count, graph.edge_count, graph.interaction_count) == (0, 0, 0)


def test_snapshot_when_its_records_are_shuffled_then_loads_the_same() -> None:
    snapshot = take_snapshot(written().graph)
    shuffled = snapshot._replace(
        interactions=snapshot.interactions[::-1],
        concepts=snapshot.concepts[::-1],
        edges=snapshot.edges[::-1],
    )
    assert take_snapshot(load_snapshot(shuffled)) == snapshot


def test_session_when_closed_then_the_time_of_closing_is_kept() -> None:
    snapshot = take_snapshot(written().graph)._replace(closed_at=START + 1)
    assert take_snapshot(load_snapshot(snapshot)) == snapshot


def test_words_when_loaded_then_find_what_they_found_before() -> None:
    """A concept written through a synonym, or named like one, is indexed by its own words."""
    scribe = Scribe()
    scribe.declare_synonym("sign up", "create user")
    scribe.derive("sign up", "register user", "alpha")
    scribe.declare_synonym("register user", "other words")
    for graph in (scribe.graph, reopened(scribe.graph)):

        def found(*tokens: str, graph: Graph = graph) -> list[str]:
            hits = graph.index.search(tokens, 9, tie_key=graph.id_at)
            return [graph.content_at(row) for row, _ in hits]

        assert found("sign") == ["sign up"]
        assert found("creat") == []
        assert found("regist") == ["register user"]
        assert found("word") == []


def test_graph_when_more_than_one_chunk_of_records_then_all_are_there() -> None:
    snapshot = dependency_snapshot(2_500, [(n, n // 2) for n in range(1, 2_500)])
    graph = load_snapshot(snapshot)
    taken = take_snapshot(graph)
    assert taken.concepts == tuple(sorted(snapshot.concepts))
    assert taken.edges == tuple(sorted(snapshot.edges))
    # In a binary tree under node 0 each inner node has two children; node 0 is its own parent.
    row = graph.find_by_key("5 node")
    assert row is not None
    assert {graph.content_at(below) for below in graph.dependents(row)} == {"node 10", "node 11"}


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 0)],
        [(0, 1), (1, 0)],
        [(0, 1), (1, 2), (2, 0)],
    ],
)
@pytest.mark.parametrize(
    "types",
    [
        (EdgeType.CAUSAL,),
        (EdgeType.DEPENDENCY,),
        (EdgeType.HIERARCHICAL,),
        (EdgeType.CAUSAL, EdgeType.DEPENDENCY, EdgeType.HIERARCHICAL),
    ],
)
def test_cycle_when_in_a_snapshot_then_is_no_reason_to_refuse(
    pairs: list[tuple[int, int]], types: tuple[EdgeType, ...]
) -> None:
    snapshot = dependency_snapshot(3, pairs)
    kinds = iter(types * 3)
    edges = [
        edge._replace(edge_type=next(kinds)) if edge.edge_type is EdgeType.DEPENDENCY else edge
        for edge in snapshot.edges
    ]
    changed = snapshot._replace(edges=tuple(edges))
    assert take_snapshot(load_snapshot(changed)) == changed


# -- refusals ----------------------------------------------------------------------------------


def first(edges: tuple[Edge, ...], kind: EdgeType) -> Edge:
    return next(edge for edge in edges if edge.edge_type is kind)


def without(edges: tuple[Edge, ...], *gone: Edge) -> tuple[Edge, ...]:
    return tuple(edge for edge in edges if edge not in gone)


def spoil_fork(s: Snapshot) -> Snapshot:
    head, second, *rest = s.interactions
    third = rest[0]._replace(previous_id=head.id)
    return s._replace(interactions=(head, second, third, *rest[1:]))


def spoil_two_heads(s: Snapshot) -> Snapshot:
    head, second, *rest = s.interactions
    return s._replace(interactions=(head, second._replace(previous_id=None), *rest))


def spoil_no_head(s: Snapshot) -> Snapshot:
    head, *rest = s.interactions
    return s._replace(interactions=(head._replace(previous_id=rest[-1].id), *rest))


def spoil_off_chain(s: Snapshot) -> Snapshot:
    *rest, tail = s.interactions
    return s._replace(interactions=(*rest, tail._replace(previous_id=ABSENT)))


def spoil_ring_beside(s: Snapshot) -> Snapshot:
    *rest, tail = s.interactions
    return s._replace(interactions=(*rest, tail._replace(previous_id=tail.id)))


def spoil_interaction_id(s: Snapshot) -> Snapshot:
    *rest, tail = s.interactions
    return s._replace(interactions=(*rest, tail._replace(id=s.interactions[0].id)))


def spoil_missing_temporal(s: Snapshot) -> Snapshot:
    return s._replace(edges=without(s.edges, first(s.edges, EdgeType.TEMPORAL)))


def spoil_reversed_temporal(s: Snapshot) -> Snapshot:
    edge = first(s.edges, EdgeType.TEMPORAL)
    turned = edge._replace(source=edge.target, target=edge.source)
    return s._replace(edges=(*without(s.edges, edge), turned))


def spoil_extra_temporal(s: Snapshot) -> Snapshot:
    edge = first(s.edges, EdgeType.TEMPORAL)
    extra = edge._replace(id=ABSENT, source=s.interactions[0].id, target=s.interactions[-1].id)
    return s._replace(edges=(*s.edges, extra))


def spoil_missing_derives(s: Snapshot) -> Snapshot:
    (target, *_) = [c.id for c in s.concepts if c.content == "beta"]
    gone = [e for e in s.edges if e.edge_type is EdgeType.DERIVES and e.target == target]
    return s._replace(edges=without(s.edges, *gone))


def spoil_key(s: Snapshot) -> Snapshot:
    (beta, *_) = [c for c in s.concepts if c.content == "beta"]
    rest = tuple(c for c in s.concepts if c is not beta)
    return s._replace(concepts=(*rest, beta._replace(canonical_key="alpha")))


def spoil_concept(**changes: str) -> Callable[[Snapshot], Snapshot]:
    """The last concept changed; a value may name another record of the snapshot."""

    def spoil(s: Snapshot) -> Snapshot:
        *rest, last = s.concepts
        return s._replace(concepts=(*rest, last._replace(**resolved(s, changes))))

    return spoil


def spoil_edge(kind: EdgeType, **changes: str | float) -> Callable[[Snapshot], Snapshot]:
    """The first edge of a kind changed; a value may name another record of the snapshot."""

    def spoil(s: Snapshot) -> Snapshot:
        edge = first(s.edges, kind)
        changed = edge._replace(**resolved(s, changes))
        return s._replace(edges=(*without(s.edges, edge), changed))

    return spoil


def resolved(s: Snapshot, changes: Mapping[str, str | float]) -> dict[str, Any]:
    known = {"the first concept": s.concepts[0].id, "an interaction": s.interactions[0].id}
    return {name: known.get(str(value), value) for name, value in changes.items()}


def spoil_repeated_edge(s: Snapshot) -> Snapshot:
    return s._replace(edges=(*s.edges, s.edges[0]._replace(id=ABSENT)))


def spoil_edge_id(s: Snapshot) -> Snapshot:
    return s._replace(edges=(*s.edges[:-1], s.edges[-1]._replace(id=s.edges[0].id)))


def spoil_reservation(s: Snapshot) -> Snapshot:
    return s._replace(reservations=(Reservation(ABSENT, "agent-a", 1),))


def spoil_two_reservations(s: Snapshot) -> Snapshot:
    return s._replace(reservations=(*s.reservations, s.reservations[0]._replace(agent_id="x")))


def spoil_synonyms(s: Snapshot) -> Snapshot:
    return s._replace(synonyms=(*s.synonyms, ("alias", "beta")))


def spoil_transitions(s: Snapshot) -> Snapshot:
    return s._replace(transitions=s.transitions * 2)


IMPOSSIBLE_WEIGHT = "has an impossible weight"
WRONG_KIND = "may not be .* between its ends"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_fork, "forks the chain"),
        (spoil_two_heads, "forks the chain"),
        (spoil_no_head, "not one chain"),
        (spoil_off_chain, "not one chain"),
        (spoil_ring_beside, "not one chain"),
        (spoil_interaction_id, "not one chain|same id"),
        (spoil_missing_temporal, "Temporal edges do not follow"),
        (spoil_reversed_temporal, "Temporal edges do not follow"),
        (spoil_extra_temporal, "Temporal edges do not follow"),
        (spoil_missing_derives, "has no Derives edge"),
        (spoil_key, "two concepts have the key 'alpha'"),
        (spoil_concept(id="the first concept"), "two concepts have the same id"),
        (spoil_concept(id="an interaction"), "an interaction and a concept have the same id"),
        (spoil_concept(origin_interaction=ABSENT), "origin interaction .* is absent"),
        (spoil_edge(EdgeType.CAUSAL, source=ABSENT), "does not exist"),
        (spoil_edge(EdgeType.CAUSAL, target=ABSENT), "does not exist"),
        (spoil_edge(EdgeType.CAUSAL, source="an interaction"), WRONG_KIND),
        (spoil_edge(EdgeType.CAUSAL, target="an interaction"), WRONG_KIND),
        (spoil_edge(EdgeType.DERIVES, source="the first concept"), WRONG_KIND),
        (spoil_edge(EdgeType.DERIVES, target="an interaction"), WRONG_KIND),
        (spoil_edge(EdgeType.TEMPORAL, source="the first concept"), WRONG_KIND),
        (spoil_edge(EdgeType.TEMPORAL, target="the first concept"), WRONG_KIND),
        (spoil_edge(EdgeType.DEPENDENCY, weight=-0.5), IMPOSSIBLE_WEIGHT),
        (spoil_edge(EdgeType.DEPENDENCY, weight=math.nan), IMPOSSIBLE_WEIGHT),
        (spoil_edge(EdgeType.DEPENDENCY, weight=math.inf), IMPOSSIBLE_WEIGHT),
        (spoil_repeated_edge, "same id or the same natural key"),
        (spoil_edge_id, "same id or the same natural key"),
        (spoil_reservation, "reservation of unknown node"),
        (spoil_two_reservations, "reserved twice"),
        (spoil_synonyms, "two synonyms"),
        (spoil_transitions, "two transitions"),
    ],
)
def test_snapshot_when_unsound_then_refused(
    spoil: Callable[[Snapshot], Snapshot], message: str
) -> None:
    snapshot = take_snapshot(written().graph)
    load_snapshot(snapshot)
    with pytest.raises(InvalidSnapshot, match=message):
        load_snapshot(spoil(snapshot))


def test_snapshot_when_interactions_are_missing_altogether_then_refused() -> None:
    snapshot = take_snapshot(written().graph)
    with pytest.raises(InvalidSnapshot):
        load_snapshot(snapshot._replace(interactions=()))


def test_observations_when_they_share_a_key_with_each_other_and_an_entity_then_load() -> None:
    scribe = Scribe()
    scribe.demote("Rain. Rain.")
    scribe.derive("rain.")
    again = reopened(scribe.graph)
    assert len(again.observation_rows("rain.")) == 2
    assert again.find_by_key("rain.") is not None


def test_history_when_a_concept_is_gone_then_its_audit_rows_still_load() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.set_goal("alpha")
    scribe.retract("alpha")
    assert len(reopened(scribe.graph).transitions) == 1


# -- the collector -----------------------------------------------------------------------------


def test_collector_when_a_load_is_refused_then_runs_again() -> None:
    assert gc.isenabled()
    with pytest.raises(InvalidSnapshot):
        load_snapshot(spoil_fork(take_snapshot(written().graph)))
    assert gc.isenabled()


def test_collector_when_pauses_overlap_then_runs_after_the_last() -> None:
    outer, inner = collection_paused(), collection_paused()
    outer.__enter__()
    inner.__enter__()
    assert not gc.isenabled()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    assert gc.isenabled()


def test_collector_when_off_already_then_stays_off() -> None:
    gc.disable()
    try:
        load_snapshot(Snapshot("session", 0, None))
        assert not gc.isenabled()
    finally:
        gc.enable()


# -- the shared sessions -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "interactions", "concepts", "edges"),
    [("session-rest-api", 12, 22, 53), ("session-drift", 2, 9, 17)],
)
def test_shared_session_when_loaded_and_saved_then_the_file_comes_back(
    name: str, interactions: int, concepts: int, edges: int
) -> None:
    given = json.loads(shared_file(f"fixtures/lambo/{name}.json").read_text())
    snapshot = snapshot_from_json(given)
    graph = load_snapshot(snapshot)
    assert (graph.interaction_count, graph.concept_count, graph.edge_count) == (
        interactions,
        concepts,
        edges,
    )
    assert take_snapshot(graph) == snapshot
    assert snapshot_to_json(take_snapshot(graph)) == given


def test_shared_session_when_the_synonym_is_used_then_finds_the_concept() -> None:
    scribe = Scribe(load_shared("session-rest-api"))
    scribe.now = START * 1_000_000
    assert scribe.derive("register_user").matched == (scribe.id("create user"),)


@pytest.mark.parametrize(("content", "radius"), [("user schema", 6), ("api layer", 3)])
def test_shared_session_when_loaded_then_the_radius_counts_what_rests_on_it(
    content: str, radius: int
) -> None:
    scribe = Scribe(load_shared("session-rest-api"))
    row = scribe.row(content)
    assert scribe.graph.blast_radius(row) == len(scribe.graph.dependents(row)) == radius


def load_shared(name: str) -> Graph:
    text = shared_file(f"fixtures/lambo/{name}.json").read_text()
    return load_snapshot(snapshot_from_json(json.loads(text)))


def structure(graph: Graph, *, calls: int) -> Any:
    """The first `calls` interactions' graph by names: what remains when ids and dates are gone."""
    place = {one.id: number for number, one in enumerate(graph.interactions())}
    key = {graph.id_at(row): graph.key_at(row) for row in rows_of(graph)}
    name: dict[str, str | int] = {**key, **place}
    edges = [
        (edge.edge_type, name[edge.source], name[edge.target])
        for edge in graph.all_edges()
        if edge.edge_type is not EdgeType.TEMPORAL or place[edge.source] < calls
    ]
    records = [graph.concept_at(row) for row in rows_of(graph)]
    return (
        sorted((c.canonical_key, c.content, c.concept_type, place[c.origin_interaction])
               for c in records),
        sorted(edges, key=repr),
        graph.synonyms,
    )  # fmt: skip


def test_shared_session_when_rebuilt_by_public_calls_then_has_the_same_structure() -> None:
    """One derive for each interaction of the file, with the citations that were possible then.

    A dependency on something younger, or between concepts that exist already, is written by an
    action: it names both and derives neither. The file joins nothing by co-occurrence.
    """
    original = load_shared("session-rest-api")
    calls = original.interaction_count
    place = {one.id: number for number, one in enumerate(original.interactions())}

    def born(record: Concept) -> int:
        return place[record.origin_interaction]

    records = {one.id: one for one in map(original.concept_at, rows_of(original))}
    rests_on: dict[str, list[Concept]] = {node: [] for node in records}
    for edge in original.all_edges():
        if edge.edge_type is EdgeType.DEPENDENCY:
            rests_on[edge.source].append(records[edge.target])
    scribe = Scribe(agent_id="")
    for source, target in original.synonyms.items():
        scribe.declare_synonym(source, target)
    for number, interaction in enumerate(original.interactions()):
        scribe.agent_id = interaction.agent_id
        scribe.derive(
            *(
                concept(
                    one.content,
                    one.concept_type,
                    depends_on=[old.content for old in rests_on[one.id] if born(old) < number],
                )
                for one in records.values()
                if born(one) == number
            ),
            co_occurrence_max=0,
        )
    for one in records.values():
        later = [other.content for other in rests_on[one.id] if born(other) >= born(one)]
        if later:
            result = scribe.act(one.content, depends_on=later)
            assert (result.created, result.edges) == ((), len(later))
    assert structure(scribe.graph, calls=calls) == structure(original, calls=calls)


def test_shared_ids_when_read_then_are_in_the_form_ours_have() -> None:
    graph = load_shared("session-drift")
    assert all(str(uuid.UUID(graph.id_at(row))) == graph.id_at(row) for row in rows_of(graph))


def test_status_when_in_the_file_then_is_held_without_audit_rows() -> None:
    scribe = Scribe(load_shared("session-rest-api"))
    assert scribe.held("user schema").status is Status.CANONICAL
    assert scribe.held("api layer").status is Status.VENERABLE
    assert scribe.graph.transitions == dict[str, Transition]()
