"""Taking concepts out and bringing them back, in any order, over any graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graph_writing import Scribe, concept, reopened
from memory.engine.disappearance import read_removed
from memory.engine.mutations import PutAudit
from memory.engine.requests import RestoreRequest
from memory.engine.restore import plan_restore
from memory.engine.snapshot import take_snapshot
from memory.engine.traces import needles_of, places
from memory.engine.types import AuditEntry, Snapshot

NAMES = ["alpha", "beta", "gamma", "delta", "epsilon"]

names = st.sampled_from(NAMES)
cited = st.lists(names, max_size=2)
writes = st.lists(
    st.tuples(st.lists(names, min_size=1, max_size=3, unique=True), cited), max_size=6
)


def written(steps: list[tuple[list[str], list[str]]]) -> Scribe:
    scribe = Scribe()
    scribe.derive(*NAMES)
    for contents, citations in steps:
        scribe.derive(
            *(
                concept(content, depends_on=[name for name in citations if name != content])
                for content in contents
            )
        )
    return scribe


def without_standing(scribe: Scribe) -> Snapshot:
    return take_snapshot(scribe.graph)._replace(standing=())


def retract(scribe: Scribe, content: str) -> AuditEntry:
    scribe.retract(content)
    (entry,) = (item.entry for item in scribe.last if isinstance(item, PutAudit))
    return entry


def restore(scribe: Scribe, entry: AuditEntry) -> None:
    request = RestoreRequest(entry.id)
    plan = plan_restore(scribe.graph, request, entry, actor="human", now=scribe.now, ids=scribe.ids)
    scribe.graph.apply_all(plan.mutations)


@given(writes, st.lists(names, min_size=1, max_size=5, unique=True))
def test_restoring_in_reverse_order_gives_the_graph_of_before(
    steps: list[tuple[list[str], list[str]]], gone: list[str]
) -> None:
    scribe = written(steps)
    before = without_standing(scribe)
    entries = [retract(scribe, content) for content in gone]
    for entry in reversed(entries):
        restore(scribe, entry)
    assert without_standing(scribe) == before
    assert take_snapshot(reopened(scribe.graph)) == take_snapshot(scribe.graph)


@given(writes, st.permutations(NAMES), st.permutations(NAMES))
def test_in_any_order_no_edge_points_to_nothing_and_only_edges_between_the_gone_are_lost(
    steps: list[tuple[list[str], list[str]]], gone: list[str], back: list[str]
) -> None:
    scribe = written(steps)
    before = without_standing(scribe)
    entries = {content: retract(scribe, content) for content in gone}
    for content in back:
        restore(scribe, entries[content])
        again = reopened(scribe.graph)  # refuses what dangles
        assert take_snapshot(again) == take_snapshot(scribe.graph)
    after = without_standing(scribe)
    assert after.concepts == before.concepts
    lost = set(before.edges) - set(after.edges)
    assert set(after.edges) <= set(before.edges)
    # An edge stands in the row of the end that went first; it is lost if that end came back first.
    ids = {content: scribe.id(content) for content in NAMES}
    at = {ids[content]: place for place, content in enumerate(gone)}
    home = {ids[content]: place for place, content in enumerate(back)}
    expected = {
        edge
        for edge in before.edges
        if edge.source in at
        and edge.target in at
        and edge.source != edge.target
        and (at[edge.source] < at[edge.target]) == (home[edge.source] < home[edge.target])
    }
    assert lost == expected


@given(writes, names)
def test_the_removed_state_reads_back_as_the_very_records(
    steps: list[tuple[list[str], list[str]]], content: str
) -> None:
    scribe = written(steps)
    held = scribe.held(content)
    edges = {e for e in scribe.graph.all_edges() if held.id in (e.source, e.target)}
    removed = read_removed(retract(scribe, content).removed)
    assert removed.concept == held
    assert set(removed.edges) == edges


@given(
    st.lists(st.text("aB \n", max_size=4), max_size=8),
    st.integers(0, 600),
    st.text("ab", min_size=1, max_size=3),
)
def test_texts_searched_in_stretches_are_those_found_one_by_one(
    texts: list[str], gap: int, content: str
) -> None:
    spread = [*texts, *["c"] * gap, *texts]
    # The only other spelling with the same key is the plural-less one of the same letters.
    plain = [at for at, text in enumerate(spread) if content in " ".join(text.lower().split())]
    assert places(spread, needles_of(content)) == plain
