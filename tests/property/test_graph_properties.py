"""Laws of the graph: replay, snapshots and kept counters agree after any sequence of writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.engine.actions import plan_action
from memory.engine.demote import plan_demote
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.errors import LamboError
from memory.engine.goals import plan_root_goal, plan_synonym
from memory.engine.graph import Graph
from memory.engine.mutations import Mutation
from memory.engine.requests import (
    ActionRequest,
    ConceptInput,
    DemoteRequest,
    DeriveRequest,
    ReleaseRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.reservations import plan_release, plan_reserve
from memory.engine.retract import plan_retract
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.times import EARLIEST, LATEST
from memory.engine.types import ConceptType, EdgeType
from memory.engine.wire import (
    mutation_from_json,
    mutation_to_json,
    snapshot_from_json,
    snapshot_to_json,
)


class CountingIds:
    """Ids whose order is unlike the order of creation, as random ones are."""

    def __init__(self) -> None:
        self._last = 0

    def next_id(self) -> str:
        self._last += 1
        return str(uuid.UUID(int=(self._last * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128))

    def next_ordered_id(self, now: int) -> str:
        self._last += 1
        return str(uuid.UUID(int=(now << 64) + self._last))


Write = Callable[[Graph, Stamp], tuple[Mutation, ...]]
NAMES = ("alpha", "beta service", "Gamma", "delta/path.rs", "the epsilon", "zeta ζ", "naïve été")
texts = st.sampled_from(NAMES)
some = st.lists(texts, max_size=3).map(tuple)


@st.composite
def derives(draw: st.DrawFn) -> DeriveRequest:
    concepts = draw(
        st.lists(
            st.builds(
                ConceptInput, texts, st.sampled_from(ConceptType), depends_on=some, against=some
            ),
            min_size=1,
            max_size=4,
        )
    )
    pairs = draw(st.lists(st.tuples(texts, texts).filter(lambda p: p[0] != p[1]), max_size=2))
    event_time = draw(st.none() | st.integers(EARLIEST, LATEST))
    return DeriveRequest(tuple(concepts), tuple(pairs), event_time)


actions = st.builds(
    ActionRequest, texts, produces=some, modifies=some, depends_on=some, against=some
)


def as_write(request: object) -> Write:
    def write(graph: Graph, stamp: Stamp) -> tuple[Mutation, ...]:
        match request:
            case DeriveRequest():
                return plan_derive(graph, request, stamp, co_occurrence_max=3).mutations
            case ActionRequest():
                return plan_action(graph, request, stamp).mutations
            case DemoteRequest():
                return plan_demote(graph, request, stamp).mutations
            case RetractRequest():
                return plan_retract(
                    graph, request, actor="a", now=stamp.now, ids=stamp.ids
                ).mutations
            case ReserveRequest():
                return plan_reserve(graph, request, agent_id="a", now=stamp.now).mutations
            case ReleaseRequest():
                return plan_release(graph, request, agent_id="a", now=stamp.now).mutations
            case RootGoalRequest():
                plan = plan_root_goal(graph, request, actor="a", now=stamp.now, ids=stamp.ids)
                return plan.mutations
            case SynonymRequest():
                return plan_synonym(
                    graph, request, actor="a", now=stamp.now, ids=stamp.ids
                ).mutations
        raise AssertionError(request)

    return write


requests = st.one_of(
    derives(),
    derives(),
    actions,
    actions,
    st.builds(DemoteRequest, st.sampled_from(["One. Two.", "alpha", "  ", "the of. X!"]),
              st.just("group")),
    st.builds(RetractRequest, texts),
    st.builds(ReserveRequest, concept=texts, ttl_seconds=st.integers(1, 60)),
    st.builds(ReleaseRequest, concept=texts),
    st.builds(RootGoalRequest, some),
    st.builds(SynonymRequest, st.just("alias"), texts),
)  # fmt: skip
histories = st.lists(requests, max_size=25)


def play(history: list[object]) -> tuple[Graph, list[Mutation]]:
    """Run a history through the public plans; a refused request must leave nothing."""
    graph, ids, log = Graph("session", 0), CountingIds(), list[Mutation]()
    for step, request in enumerate(history):
        epoch = graph.epoch
        try:
            mutations = as_write(request)(graph, Stamp("a", step * 7_000_000, ids))
        except LamboError:
            assert graph.epoch == epoch
            continue
        graph.apply_all(mutations)
        log.extend(mutations)
    return graph, log


def plain_counters(graph: Graph) -> dict[str, tuple[int, int, int, int]]:
    """Degree, bonus in thousandths, derivations and dependents, counted from the edges."""
    bonus = {"CoOccurrence": 5, "Causal": 20, "Dependency": 20, "Hierarchical": 15, "Semantic": 10}
    edges = list(graph.all_edges())
    counters = {}
    for row in graph.concept_rows():
        me = graph.id_at(row)
        weightless = (EdgeType.CONTRADICTS, EdgeType.SUSPECTED_SUPERSEDES)
        incident = [
            e for e in edges if me in (e.source, e.target) and e.edge_type not in weightless
        ]
        rests = {e.source for e in edges if e.edge_type == "Dependency" and e.target == me}
        rests |= {e.target for e in edges if e.edge_type == "Hierarchical" and e.source == me}
        counters[me] = (
            len(incident),
            sum(bonus.get(e.edge_type, 0) for e in incident),
            sum(e.edge_type == "Derives" for e in incident),
            len(rests - {me}),
        )
    return counters


def kept_counters(graph: Graph) -> dict[str, tuple[int, ...]]:
    names = ("degree", "bonus_milli", "derivations", "dependents")
    return {
        graph.id_at(row): tuple(int(graph.concepts[name][row]) for name in names)
        for row in graph.concept_rows()
    }


@given(histories)
@settings(max_examples=150, deadline=None)
def test_counters_equal_plain_recomputation(history: list[object]) -> None:
    graph, _ = play(history)
    assert kept_counters(graph) == plain_counters(graph)
    for row in graph.concept_rows():
        assert graph.blast_radius(row) == len(graph.dependents(row))


@given(histories)
@settings(max_examples=100, deadline=None)
def test_replay_of_the_log_equals_the_graph(history: list[object]) -> None:
    graph, log = play(history)
    again = Graph("session", 0)
    again.apply_all(mutation_from_json(mutation_to_json(m, "session")) for m in log)
    assert take_snapshot(again) == take_snapshot(graph)
    assert kept_counters(again) == kept_counters(graph)


@given(histories, st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_whatever_was_accepted_can_be_closed_and_opened_again(
    history: list[object], query: str
) -> None:
    from memory.engine.text import index_tokens

    graph, _ = play(history)
    snapshot = take_snapshot(graph)
    assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot
    opened = load_snapshot(snapshot)
    assert take_snapshot(opened) == snapshot
    assert kept_counters(opened) == kept_counters(graph)

    def found(one: Graph) -> list[tuple[str, float]]:
        hits = one.index.search(index_tokens(query), 50, tie_key=one.id_at)
        return [(one.id_at(row), round(score, 9)) for row, score in hits]

    assert found(opened) == found(graph)


@given(histories)
@settings(max_examples=50, deadline=None)
def test_interactions_form_one_chain_whose_time_strictly_increases(history: list[object]) -> None:
    graph, _ = play(history)
    chain = graph.interactions()
    for earlier, later in pairwise(chain):
        assert later.previous_id == earlier.id
        assert later.created_at > earlier.created_at
