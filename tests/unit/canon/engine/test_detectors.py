from __future__ import annotations

import pytest

from canon.engine.cycle import CycleState, run_cycle
from canon.engine.detectors import find_conflicts
from canon.engine.hot_list import Condition, Hit
from canon.engine.recent_writes import RecentWrites, Writers
from graph_writing import START, Scribe, concept
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteEdge, PutConcept, PutEdge
from memory.engine.times import SECOND, Micros
from memory.engine.types import ConceptType, Edge, EdgeType, NodeId, Status
from recall_graphs import START as BORN
from recall_graphs import GraphWriter, numbered_id


def found(graph: Graph, condition: Condition, now: Micros) -> dict[NodeId, Hit]:
    result = run_cycle(CycleState(graph), graph, now)
    return {hit.node_id: hit for hit in result.hot_list.findings[condition]}


def put_edge(
    graph: Graph,
    source: NodeId,
    target: NodeId,
    kind: EdgeType,
    *,
    number: int,
    at: Micros,
    by: str = "agent-a",
    again_at: Micros | None = None,
    again_by: str | None = None,
) -> None:
    last = at if again_at is None else again_at
    graph.apply(
        PutEdge(
            Edge(
                numbered_id(number), source, target, kind, 0.5, 1 if again_at is None else 2,
                at, last, by, by if again_by is None else again_by,
            )
        )
    )  # fmt: skip


@pytest.fixture
def shared() -> Scribe:
    """`schema` was derived by agent-a, and agent-b has just built on it."""
    scribe = Scribe()
    scribe.derive("schema")
    scribe.agent_id = "agent-b"
    scribe.now += 100 * SECOND
    scribe.act("build", depends_on=["schema"])
    return scribe


# -- conflict --------------------------------------------------------------------------------------


def test_a_conflict_names_the_agents_the_last_writer_and_when(shared: Scribe) -> None:
    wrote_at = shared.now - SECOND
    now = wrote_at + 11 * SECOND + SECOND // 2
    hit = found(shared.graph, Condition.CONFLICT, now)[shared.id("schema")]
    assert (hit.agents, hit.writer, hit.at) == (("agent-a", "agent-b"), "agent-b", wrote_at)
    assert hit.age_seconds(now) == 11
    assert hit.severity == 3


@pytest.mark.parametrize(
    ("micros_later", "is_found"),
    [(-1, False), (0, True), (30 * SECOND, True), (30 * SECOND + 1, False)],
)
def test_a_conflict_lasts_thirty_seconds_inclusive_and_is_not_seen_before_its_time(
    shared: Scribe, micros_later: int, is_found: bool
) -> None:
    wrote_at = shared.now - SECOND
    conflicts = found(shared.graph, Condition.CONFLICT, wrote_at + micros_later)
    assert (shared.id("schema") in conflicts) is is_found


def test_work_of_one_agent_alone_is_no_conflict(shared: Scribe) -> None:
    assert shared.id("build") not in found(shared.graph, Condition.CONFLICT, shared.now)


def test_two_agents_who_only_mention_it_are_no_conflict() -> None:
    scribe = Scribe()
    scribe.derive("schema")
    scribe.agent_id = "agent-b"
    scribe.derive("schema")
    assert found(scribe.graph, Condition.CONFLICT, scribe.now) == {}


def test_who_contradicts_has_not_worked_on_it() -> None:
    scribe = Scribe()
    scribe.derive("claim")
    scribe.act("use", depends_on=["claim"])
    scribe.agent_id = "agent-b"
    scribe.derive(concept("no claim", against=["claim"]))
    assert scribe.id("claim") not in found(scribe.graph, Condition.CONFLICT, scribe.now)


def test_a_reinforced_edge_counts_from_its_last_write_and_for_both_writers() -> None:
    scribe = Scribe()
    scribe.derive("schema")
    scribe.act("build", depends_on=["schema"])
    scribe.agent_id = "agent-b"
    scribe.now += 1_000 * SECOND
    scribe.act("build", depends_on=["schema"])
    hit = found(scribe.graph, Condition.CONFLICT, scribe.now)[scribe.id("build")]
    assert (hit.agents, hit.writer) == (("agent-a", "agent-b"), "agent-b")


def test_an_edge_speaks_for_its_first_and_last_writers_whoever_came_between() -> None:
    """A state kept over the writes once knew of more writers than one made afterwards."""
    scribe = Scribe()
    scribe.derive("schema")
    state = CycleState(scribe.graph)
    for agent in ("agent-a", "agent-b", "agent-a"):
        scribe.agent_id = agent
        scribe.act("build", depends_on=["schema"])
        kept = run_cycle(state, scribe.graph, scribe.now).hot_list.findings
    assert [hit.node_id for hit in kept[Condition.CONFLICT]] == []
    assert found(scribe.graph, Condition.CONFLICT, scribe.now) == {}


def test_of_two_edges_of_one_instant_the_smaller_id_names_the_writer() -> None:
    writer = GraphWriter()
    writer.interact("agent-a")
    schema, first, second = (writer.concept(name) for name in ("schema", "first", "second"))
    put_edge(writer.graph, first, schema, EdgeType.CAUSAL, number=72, at=BORN, by="agent-c")
    put_edge(writer.graph, second, schema, EdgeType.CAUSAL, number=71, at=BORN, by="agent-b")
    hit = found(writer.graph, Condition.CONFLICT, BORN)[schema]
    assert hit.writer == "agent-b"
    assert hit.agents == ("agent-a", "agent-b", "agent-c")


def test_an_import_that_names_no_writer_is_read_by_its_source() -> None:
    writer = GraphWriter()
    writer.interact("agent-a")
    schema = writer.concept("schema")
    writer.interact("agent-b")
    later = writer.concept("later")
    put_edge(writer.graph, later, schema, EdgeType.DEPENDENCY, number=71, at=BORN, by="")
    hit = found(writer.graph, Condition.CONFLICT, BORN)[schema]
    assert (hit.agents, hit.writer) == (("agent-a", "agent-b"), "agent-b")


def test_a_removed_edge_takes_its_agent_along(shared: Scribe) -> None:
    state = CycleState(shared.graph)
    run_cycle(state, shared.graph, shared.now)
    edge = shared.edge("build", "schema", EdgeType.DEPENDENCY)
    shared.graph.apply(DeleteEdge(edge.id))
    shared.act("other", depends_on=["schema"])  # by agent-b again
    result = run_cycle(state, shared.graph, shared.now)
    assert shared.id("schema") in result.hot_list.by_node
    shared.graph.apply(DeleteEdge(shared.edge("other", "schema", EdgeType.DEPENDENCY).id))
    shared.agent_id = "agent-a"
    shared.act("third", depends_on=["schema"])
    result = run_cycle(state, shared.graph, shared.now)
    assert shared.id("schema") not in result.hot_list.by_node


def test_only_the_newest_conflicts_are_looked_for() -> None:
    scribe = Scribe()
    names = [f"part {number}" for number in range(9)]
    scribe.derive(*names)
    scribe.agent_id = "agent-b"
    for name in names:
        scribe.act(f"use {name}", depends_on=[name])
    recent = RecentWrites()
    recent.advance(scribe.graph, scribe.now)
    hits = find_conflicts(scribe.graph, recent, Writers(), scribe.now, limit=3)
    assert [hit.node_id for hit in hits] == [scribe.id(name) for name in reversed(names[-3:])]


# -- high risk -------------------------------------------------------------------------------------


@pytest.fixture
def pillar() -> GraphWriter:
    """Concept 1 with five dependents, all of long ago."""
    writer = GraphWriter()
    writer.interact()
    first = writer.concept("pillar")
    for number in range(5):
        writer.depend(writer.concept(f"dependent {number}"), first)
    return writer


def test_the_edge_that_brings_the_sixth_dependent_raises_the_flag_itself(
    pillar: GraphWriter,
) -> None:
    graph, first, now = pillar.graph, numbered_id(1), BORN + 1_000 * SECOND
    sixth = pillar.concept("sixth")
    assert first not in found(graph, Condition.HIGH_RISK, now)
    put_edge(graph, sixth, first, EdgeType.DEPENDENCY, number=71, at=now)
    hit = found(graph, Condition.HIGH_RISK, now)[first]
    assert hit.reason == (f"high-value node {first} (None, blast radius 6) modified within 30s")
    assert hit.severity == 2


def test_five_dependents_are_not_many(pillar: GraphWriter) -> None:
    assert found(pillar.graph, Condition.HIGH_RISK, BORN) == {}


@pytest.mark.parametrize(
    ("micros_later", "is_found"),
    [(-1, False), (0, True), (30 * SECOND, True), (30 * SECOND + 1, False)],
)
def test_a_canonical_concept_is_at_risk_for_thirty_seconds_after_any_edge(
    micros_later: int, is_found: bool
) -> None:
    writer = GraphWriter()
    writer.interact()
    node, other = writer.concept("law", status=Status.CANONICAL), writer.concept("other")
    at = BORN + 1_000 * SECOND
    put_edge(writer.graph, other, node, EdgeType.CONTRADICTS, number=71, at=at)
    risks = found(writer.graph, Condition.HIGH_RISK, at + micros_later)
    assert (node in risks) is is_found


def test_a_canonical_concept_is_at_risk_when_it_was_just_created() -> None:
    writer = GraphWriter()
    writer.interact()
    node = writer.concept("law", status=Status.CANONICAL)
    hit = found(writer.graph, Condition.HIGH_RISK, BORN + 30 * SECOND)[node]
    assert hit.reason == f"high-value node {node} (Canonical, blast radius 0) modified within 30s"


def test_a_venerable_concept_alone_is_not_of_high_value() -> None:
    writer = GraphWriter()
    writer.interact()
    writer.concept("elder", status=Status.VENERABLE)
    assert found(writer.graph, Condition.HIGH_RISK, BORN) == {}


# -- stale -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("micros_later", "is_found"),
    [(3_600 * SECOND, False), (3_600 * SECOND + 1, True), (7_250 * SECOND, True)],
)
def test_a_session_is_stale_after_more_than_an_hour(micros_later: int, is_found: bool) -> None:
    scribe = Scribe()
    scribe.derive("only")
    stale = found(scribe.graph, Condition.STALE, START + micros_later)
    assert (scribe.id("only") in stale) is is_found
    if is_found:
        hit = stale[scribe.id("only")]
        assert hit.age_seconds(START + micros_later) == micros_later // SECOND


def test_staleness_is_anchored_at_the_newest_node_smallest_id_first() -> None:
    scribe = Scribe()
    scribe.derive("old", "older")
    scribe.derive("new", "newer")
    stale = found(scribe.graph, Condition.STALE, scribe.now + 4_000 * SECOND)
    assert list(stale) == [min(scribe.id("new"), scribe.id("newer"))]


def test_an_edge_between_old_concepts_is_activity_of_both() -> None:
    scribe = Scribe()
    scribe.derive("first", "second", "third")
    at = scribe.now + 100 * SECOND
    ends = scribe.id("third"), scribe.id("second")
    put_edge(scribe.graph, *ends, EdgeType.DEPENDENCY, number=1, at=at)
    stale = found(scribe.graph, Condition.STALE, at + 4_000 * SECOND)
    assert {name: hit.at for name, hit in stale.items()} == {min(ends): at}


def test_an_access_is_activity() -> None:
    scribe = Scribe()
    scribe.derive("only")
    later = scribe.now + 4_000 * SECOND
    state = CycleState(scribe.graph)
    assert run_cycle(state, scribe.graph, later).hot_list.findings[Condition.STALE]
    seen = scribe.held("only")._replace(access_count=1, last_accessed=later)
    scribe.graph.apply(PutConcept(seen))
    assert not run_cycle(state, scribe.graph, later).hot_list.findings[Condition.STALE]


def test_what_is_dated_in_the_future_is_no_activity_until_its_time() -> None:
    scribe = Scribe()
    scribe.derive("first", "second")
    ends = scribe.id("first"), scribe.id("second")
    future = scribe.now + 9_000 * SECOND
    put_edge(scribe.graph, *ends, EdgeType.CAUSAL, number=1, at=future)
    state = CycleState(scribe.graph)
    stale = run_cycle(state, scribe.graph, future - SECOND).hot_list.findings[Condition.STALE]
    assert [hit.at for hit in stale] == [START]
    assert not run_cycle(state, scribe.graph, future).hot_list.findings[Condition.STALE]
    # Also when nobody looked while it was recent.
    state = CycleState(scribe.graph)
    run_cycle(state, scribe.graph, future - SECOND)
    later = run_cycle(state, scribe.graph, future + 100 * SECOND)
    assert not later.hot_list.findings[Condition.STALE]


def test_an_empty_session_is_not_stale() -> None:
    graph = Graph("s", START)
    assert found(graph, Condition.STALE, START + 90_000 * SECOND) == {}


def test_a_clock_that_is_set_back_finds_again_what_was_recent_then(shared: Scribe) -> None:
    state = CycleState(shared.graph)
    run_cycle(state, shared.graph, shared.now + 100 * SECOND)
    result = run_cycle(state, shared.graph, shared.now)
    assert shared.id("schema") in result.hot_list.by_node


def test_observations_are_watched_like_any_concept() -> None:
    scribe = Scribe()
    scribe.derive(concept("it is so", ConceptType.OBSERVATION))
    scribe.agent_id = "agent-b"
    scribe.derive(concept("then that", depends_on=["it is so"]))
    assert scribe.id("it is so") in found(scribe.graph, Condition.CONFLICT, scribe.now)
