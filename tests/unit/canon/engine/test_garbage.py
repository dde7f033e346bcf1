from __future__ import annotations

import json

import pytest

from canon.engine.garbage import (
    GarbageSettings,
    Grounds,
    is_due,
    plan_removals,
    plan_sweep,
)
from canon.engine.survivors import PendingSurvivors
from graph_writing import START, Scribe
from memory.engine.disappearance import read_removed
from memory.engine.graph import Graph
from memory.engine.mutations import (
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    PutAudit,
    SetRootGoal,
)
from memory.engine.snapshot import load_snapshot
from memory.engine.times import SECOND, Micros, parse_rfc3339
from memory.engine.types import AuditEntry, AuditKind, ConceptType, EdgeType, NodeId, Status
from memory.engine.wire import snapshot_from_json
from memory.testing import SequentialIds
from recall_graphs import GraphWriter, numbered_id
from reference_detectors import plain_eviction_scores
from shared_data import shared_file

HOUR = 3_600 * SECOND
DAY = 86_400 * SECOND


# -- when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutations", "age", "expected"),
    [
        (9_999, DAY - 1, False),
        (10_000, 0, True),
        (100, DAY, True),
        (99, DAY * 30, False),
        (0, DAY, False),
        (100, DAY - 1, False),
    ],
)
def test_a_sweep_is_due_after_many_mutations_or_a_day_with_some(
    mutations: int, age: Micros, expected: bool
) -> None:
    assert is_due(mutations, START, START + age, has_pending_survivors=False) is expected


def test_no_sweep_is_due_while_survivors_are_being_counted() -> None:
    assert not is_due(99_999, START, START + 9 * DAY, has_pending_survivors=True)


def test_the_triggers_can_be_set() -> None:
    settings = GarbageSettings(interval_mutations=1)
    assert is_due(1, START, START, has_pending_survivors=False, settings=settings)


# -- the shared session ----------------------------------------------------------------------------


def test_shared_session_loses_exactly_the_planted_pair() -> None:
    text = shared_file("fixtures/lambo/session-drift.json").read_text(encoding="utf-8")
    graph = load_snapshot(snapshot_from_json(json.loads(text)))
    named = {graph.content_at(row): graph.id_at(row) for row in graph.concept_rows()}
    pair = {named["isolated widget"], named["isolated sibling"]}
    for edge in list(graph.all_edges()):
        if edge.edge_type is EdgeType.DERIVES and edge.target in pair:
            graph.apply(DeleteEdge(edge.id))
    now = parse_rfc3339("now", "2026-08-11T12:00:00Z")

    sweep = plan_sweep(graph, now)

    assert {one.node_id for one in sweep.collected} == pair
    assert {one.grounds for one in sweep.collected} == {Grounds.UNREACHABLE}
    assert sweep.weak_edges == ()
    assert len(sweep.survivors) == 7
    assert sweep.spared_by_cap == 0
    graph.apply_all(plan_removals(graph, sweep, ids=SequentialIds(), now=now))
    graph.apply_all(PendingSurvivors(sweep.survivors).plan_round(graph))
    survived = {row: graph.concept_at(row).gc_survived for row in graph.concept_rows()}
    by_content = {graph.content_at(row): count for row, count in survived.items()}
    assert by_content["launch the product"] == 6
    assert by_content["on path step one"] == 3
    assert len(by_content) == 7


# -- weak edges ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "weight", "age", "goes"),
    [
        (EdgeType.CO_OCCURRENCE, 0.49, HOUR + 1, True),
        (EdgeType.SEMANTIC, 0.49, HOUR + 1, True),
        (EdgeType.CO_OCCURRENCE, 0.5, HOUR + 1, False),
        (EdgeType.CO_OCCURRENCE, 0.49, HOUR, False),
        (EdgeType.DEPENDENCY, 0.1, HOUR + 1, False),
        (EdgeType.CONTRADICTS, 0.1, HOUR + 1, False),
    ],
)
def test_only_weak_old_edges_of_words_and_meaning_go(
    kind: EdgeType, weight: float, age: Micros, goes: bool
) -> None:
    writer = GraphWriter()
    writer.interact()
    ends = writer.concept("one"), writer.concept("two")
    writer.edge(*ends, kind, weight=weight)
    edge = writer.graph.edge_between(*ends, kind)
    assert edge is not None
    sweep = plan_sweep(writer.graph, edge.last_reinforced + age)
    assert sweep.weak_edges == ((edge.id,) if goes else ())
    removals = plan_removals(writer.graph, sweep, ids=SequentialIds(), now=sweep.now)
    assert removals == ((DeleteEdge(edge.id),) if goes else ())


def test_a_concept_is_judged_without_its_weak_edges() -> None:
    """Degree and bonus are those that are left when the weak edges are gone."""
    writer = GraphWriter()
    writer.interact()
    hub, other = writer.concept("hub"), writer.concept("other")
    writer.edge(hub, other, EdgeType.SEMANTIC, weight=0.1)
    writer.edge(hub, hub, EdgeType.CO_OCCURRENCE, weight=0.1)
    lone = cut_off(writer, "lone")
    writer.edge(lone, hub, EdgeType.SEMANTIC, weight=0.2)
    sweep = plan_sweep(writer.graph, writer.graph.logical_time + HOUR + SECOND)
    assert len(sweep.weak_edges) == 3
    (gone,) = sweep.collected
    assert (gone.node_id, gone.grounds) == (lone, Grounds.UNCONNECTED)
    for edge_id in sweep.weak_edges:
        writer.graph.apply(DeleteEdge(edge_id))
    assert gone.score == pytest.approx(plain_eviction_scores(writer.graph)[lone], abs=1e-12)


# -- concepts --------------------------------------------------------------------------------------


@pytest.fixture
def aged() -> GraphWriter:
    """A session of many calls whose concepts, a dozen around a hub, are of the last."""
    aged = GraphWriter()
    for _ in range(700):
        aged.interact()
    hub = aged.concept("hub")
    for number in range(12):
        aged.depend(aged.concept(f"spoke {number}"), hub)
    return aged


def cut_off(
    writer: GraphWriter,
    content: str,
    *,
    kind: ConceptType = ConceptType.ENTITY,
    status: Status = Status.NONE,
) -> NodeId:
    """A concept whose Derives edge is gone."""
    node = writer.concept(content, kind=kind, status=status)
    for edge in writer.graph.in_edges(node):
        writer.graph.apply(DeleteEdge(edge.id))
    return node


@pytest.fixture
def writer() -> GraphWriter:
    """A session of twelve ordinary concepts, so that three may go."""
    writer = GraphWriter()
    writer.interact()
    for number in range(12):
        writer.concept(f"ordinary {number}")
    return writer


def collected(graph: Graph, now: Micros | None = None) -> dict[NodeId, Grounds]:
    sweep = plan_sweep(graph, graph.logical_time if now is None else now)
    return {one.node_id: one.grounds for one in sweep.collected}


def test_nothing_of_an_ordinary_session_goes(writer: GraphWriter) -> None:
    assert collected(writer.graph) == {}


def test_a_concept_without_edges_goes(writer: GraphWriter) -> None:
    assert collected(writer.graph) == {}
    lone = cut_off(writer, "lone")
    assert collected(writer.graph) == {lone: Grounds.UNCONNECTED}


def test_contradictions_and_suspicions_are_no_connection(writer: GraphWriter) -> None:
    lone = cut_off(writer, "lone")
    writer.edge(lone, numbered_id(1), EdgeType.CONTRADICTS)
    writer.edge(numbered_id(2), lone, EdgeType.SUSPECTED_SUPERSEDES)
    assert collected(writer.graph) == {lone: Grounds.UNCONNECTED}


@pytest.mark.parametrize("status", [Status.VENERABLE, Status.CANONICAL])
def test_who_contradicts_a_high_concept_is_protected_from_then_on(
    writer: GraphWriter, status: Status
) -> None:
    high = writer.concept("law", status=status)
    lone = cut_off(writer, "objection")
    near = cut_off(writer, "neighbour")
    writer.edge(lone, high, EdgeType.CONTRADICTS)
    writer.edge(near, lone, EdgeType.CONTRADICTS)
    edge = writer.graph.edge_between(lone, high, EdgeType.CONTRADICTS)
    assert edge is not None
    assert collected(writer.graph) == {near: Grounds.UNCONNECTED}
    # Before it was declared it protected nothing.
    assert lone in collected(writer.graph, edge.created_at - 1)


def test_what_stands_above_or_for_the_goal_is_protected(writer: GraphWriter) -> None:
    cut_off(writer, "elder", status=Status.VENERABLE)
    cut_off(writer, "law", status=Status.CANONICAL)
    cut_off(writer, "the goal")
    lone = cut_off(writer, "candidate", status=Status.CANDIDATE)
    writer.graph.apply(SetRootGoal("the goal"))
    assert collected(writer.graph) == {lone: Grounds.UNCONNECTED}


def test_what_only_hangs_together_is_not_reached(writer: GraphWriter) -> None:
    first, second = cut_off(writer, "first"), cut_off(writer, "second")
    third, anchor = cut_off(writer, "third"), numbered_id(1)
    writer.depend(first, second)
    writer.edge(third, anchor, EdgeType.CO_OCCURRENCE)
    assert collected(writer.graph) == {
        first: Grounds.UNREACHABLE,
        second: Grounds.UNREACHABLE,
    }
    writer.edge(second, third, EdgeType.HIERARCHICAL)
    assert collected(writer.graph) == {}


def test_what_hung_on_a_collected_concept_goes_with_it(aged: GraphWriter) -> None:
    """Reachability is asked of what is left once the low scorers are gone."""
    graph = aged.graph
    faded = fade(aged, "faded")
    hanging = cut_off(aged, "hanging", kind=ConceptType.CONSTRAINT)
    aged.edge(hanging, faded, EdgeType.CO_OCCURRENCE)
    assert collected(graph) == {faded: Grounds.LOW_SCORE, hanging: Grounds.UNREACHABLE}


def test_a_collected_concept_holds_nothing_though_it_was_reached_itself(aged: GraphWriter) -> None:
    graph = aged.graph
    hub, faded = graph.concepts.ids[0], fade(aged, "faded")
    graph.apply_all(DeleteEdge(edge.id) for edge in graph.in_edges(faded))
    aged.edge(faded, hub, EdgeType.CO_OCCURRENCE)
    hanging = cut_off(aged, "hanging", kind=ConceptType.CONSTRAINT)
    aged.edge(hanging, faded, EdgeType.CO_OCCURRENCE)
    assert collected(graph) == {faded: Grounds.LOW_SCORE, hanging: Grounds.UNREACHABLE}


def test_a_weak_edge_that_goes_holds_nothing(writer: GraphWriter) -> None:
    first, second = cut_off(writer, "first"), cut_off(writer, "second")
    writer.depend(first, second)
    writer.edge(first, numbered_id(1), EdgeType.SEMANTIC, weight=0.2)
    graph = writer.graph
    assert collected(graph) == {}
    later = graph.logical_time + HOUR + SECOND
    assert collected(graph, later) == {first: Grounds.UNREACHABLE, second: Grounds.UNREACHABLE}


def fade(aged: GraphWriter, content: str, kind: ConceptType = ConceptType.OBSERVATION) -> NodeId:
    """A concept of the first call, with nothing but its Derives edge: below its bar."""
    graph = aged.graph
    first = graph.interactions()[0]
    node = aged.concept(content, kind=kind)
    graph.apply_all(DeleteEdge(edge.id) for edge in graph.in_edges(node))
    graph.concepts.arrays["created_at"][aged.row(node)] = first.created_at
    aged.edge(first.id, node, EdgeType.DERIVES)
    return node


def test_the_score_cut_is_strict_and_by_type(aged: GraphWriter) -> None:
    fade(aged, "faded")
    sweep = plan_sweep(aged.graph, aged.graph.logical_time)
    scores = plain_eviction_scores(aged.graph)
    (gone,) = sweep.collected
    assert gone.grounds is Grounds.LOW_SCORE
    assert gone.score == pytest.approx(scores[gone.node_id], abs=1e-12)
    assert gone.bar == pytest.approx(0.1714, abs=1e-4)
    assert gone.score < gone.bar


def test_a_resource_that_something_rests_on_is_spared_the_score_cut(aged: GraphWriter) -> None:
    lone = fade(aged, "lone file", ConceptType.RESOURCE)
    held = fade(aged, "file in use", ConceptType.RESOURCE)
    objected = fade(aged, "file objected to", ConceptType.RESOURCE)
    scores = plain_eviction_scores(aged.graph)
    assert max(scores[lone], scores[held], scores[objected]) < 0.12
    weak = aged.concept("user")
    aged.depend(weak, held)
    aged.edge(weak, objected, EdgeType.CONTRADICTS)
    aged.graph.concepts.arrays["bonus_milli"][aged.row(held)] = 0  # the bonus would save it
    assert set(collected(aged.graph)) == {lone, objected}


def test_imported_history_is_spared_the_score_cut_but_not_when_nothing_holds_it(
    aged: GraphWriter,
) -> None:
    faded = fade(aged, "faded")
    assert collected(aged.graph) == {faded: Grounds.LOW_SCORE}
    graph = aged.graph
    origin = int(graph.concepts["origin"][aged.row(faded)])
    graph.chain.records[origin] = graph.chain.records[origin]._replace(is_backdated=True)
    assert collected(graph) == {}
    graph.apply_all(DeleteEdge(edge.id) for edge in graph.in_edges(faded))
    assert collected(graph) == {faded: Grounds.UNCONNECTED}


def test_reading_neither_saves_nor_kills(aged: GraphWriter) -> None:
    faded = fade(aged, "faded")
    before = plan_sweep(aged.graph, aged.graph.logical_time)
    row = aged.row(faded)
    aged.graph.concepts.arrays["access_count"][row] = 50
    aged.graph.concepts.arrays["last_accessed"][row] = aged.graph.logical_time
    assert plan_sweep(aged.graph, aged.graph.logical_time) == before


def test_a_sweep_takes_a_quarter_of_the_unprotected_the_worst_first() -> None:
    writer = GraphWriter()
    writer.interact()
    for number in range(4):
        writer.concept(f"law {number}", status=Status.CANONICAL)
    lone = [cut_off(writer, f"lone {number}") for number in range(9)]
    worst = cut_off(writer, "remark", kind=ConceptType.OBSERVATION)
    sweep = plan_sweep(writer.graph, writer.graph.logical_time)
    assert [one.node_id for one in sweep.collected] == [worst, lone[0]]  # ten may be asked
    assert sweep.spared_by_cap == 8
    assert sweep.protected_count == 4
    assert len(sweep.survivors) == 12


def test_at_least_one_may_go() -> None:
    writer = GraphWriter()
    writer.interact()
    lone = cut_off(writer, "lone")
    assert collected(writer.graph) == {lone: Grounds.UNCONNECTED}


def test_a_restored_concept_is_safe_for_three_sweeps() -> None:
    writer = GraphWriter()
    writer.interact()
    lone = cut_off(writer, "lone")
    graph = writer.graph
    entry = AuditEntry(
        numbered_id(77), AuditKind.RESTORE, lone, None, Status.NONE, START, "human",
        detail={"gc_survived": 0},
    )  # fmt: skip
    graph.apply(PutAudit(entry))
    for _ in range(3):
        sweep = plan_sweep(graph, graph.logical_time)
        assert sweep.collected == ()
        graph.apply_all(PendingSurvivors(sweep.survivors).plan_round(graph))
    assert collected(graph) == {lone: Grounds.UNCONNECTED}


def test_an_empty_session_is_swept_without_effect() -> None:
    sweep = plan_sweep(Graph("s", START), START)
    assert (sweep.collected, sweep.survivors, sweep.weak_edges) == ((), (), ())


def test_too_many_canonical_concepts_only_warn() -> None:
    writer = GraphWriter()
    writer.interact()
    for number in range(3):
        writer.concept(f"law {number}", status=Status.CANONICAL)
    settings = GarbageSettings(canonical_max=2)
    sweep = plan_sweep(writer.graph, writer.graph.logical_time, settings=settings)
    assert sweep.warnings == ("3 canonical concepts, over the 2 meant",)
    assert sweep.collected == ()


# -- removals --------------------------------------------------------------------------------------


def test_removals_leave_an_audit_row_with_the_measurement(writer: GraphWriter) -> None:
    first, second = cut_off(writer, "first"), cut_off(writer, "second")
    writer.depend(first, second)
    writer.reserve(first, agent="agent-a", expires_at=START)
    graph = writer.graph
    sweep = plan_sweep(graph, graph.logical_time)
    removals = plan_removals(graph, sweep, ids=SequentialIds(), now=sweep.now)
    kinds = [type(one) for one in removals]
    assert kinds.count(DeleteConcept) == kinds.count(PutAudit) == 2
    assert kinds.count(DeleteReservation) == 1
    entries = {one.entry.node_id: one.entry for one in removals if isinstance(one, PutAudit)}
    for one in sweep.collected:
        entry = entries[one.node_id]
        assert (entry.kind, entry.actor, entry.reason) == (AuditKind.COLLECT, "collector", None)
        assert entry.detail == {"grounds": str(one.grounds), "score": one.score, "bar": one.bar}
        removed = read_removed(entry.removed)
        assert [edge.edge_type for edge in removed.edges] == [EdgeType.DEPENDENCY]
    graph.apply_all(removals)
    assert graph.row_of(first) is graph.row_of(second) is None
    assert graph.reservation(first) is None


def test_a_sweep_is_carried_out_in_parts() -> None:
    writer = GraphWriter()
    writer.interact()
    lone = [cut_off(writer, f"lone {number}") for number in range(12)]
    graph, ids = writer.graph, SequentialIds()
    sweep = plan_sweep(graph, graph.logical_time)
    assert len(sweep.collected) == 3
    for start in (0, 2):
        graph.apply_all(plan_removals(graph, sweep, ids=ids, now=START, start=start, count=2))
    assert [graph.row_of(name) for name in lone[:3]] == [None] * 3
    assert graph.concept_count == 9


def test_what_was_written_to_or_rose_since_the_sweep_stays() -> None:
    scribe = Scribe()
    names = [f"lone {number}" for number in range(12)]
    scribe.derive(*names, co_occurrence_max=1)
    graph = scribe.graph
    for edge in list(graph.all_edges()):
        graph.apply(DeleteEdge(edge.id))
    sweep = plan_sweep(graph, scribe.now)
    chosen = [one.node_id for one in sweep.collected]
    assert len(chosen) == 3
    scribe.now += SECOND
    first = graph.concept(chosen[0])
    assert first is not None
    scribe.derive(first.content)
    row = graph.row_of(chosen[1])
    assert row is not None
    scribe.set_goal(graph.content_at(row))
    graph.apply_all(plan_removals(graph, sweep, ids=scribe.ids, now=scribe.now))
    assert [graph.row_of(name) is None for name in chosen] == [False, False, True]
