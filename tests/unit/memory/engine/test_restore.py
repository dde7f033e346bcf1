"""What is kept of a removed concept, and how it comes back."""

from __future__ import annotations

import pytest

from graph_writing import Scribe, concept, observation, reopened
from memory.engine.disappearance import plan_removal, read_removed, removed_state
from memory.engine.errors import (
    ConceptNotFound,
    InvalidArgument,
    InvalidSnapshot,
    KeyTaken,
    LamboError,
    NotRemoved,
    TextPurged,
)
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteConcept, DeleteEdge, PutAudit, PutConcept, PutEdge
from memory.engine.requests import RestoreRequest
from memory.engine.restore import LOST_EDGES_SHOWN, RestoreResult, plan_restore
from memory.engine.snapshot import take_snapshot
from memory.engine.types import AuditEntry, AuditKind, EdgeType, Snapshot, Status


def written() -> Scribe:
    scribe = Scribe()
    scribe.derive("user schema", concept("login", depends_on=()), parent_of=[("auth", "login")])
    scribe.derive(concept("login", depends_on=["user schema"]), observation("seen twice"))
    scribe.act("add column", modifies=["user schema"])
    return scribe


def retracted(scribe: Scribe, content: str) -> AuditEntry:
    scribe.retract(content)
    (entry,) = (item.entry for item in scribe.last if isinstance(item, PutAudit))
    return entry


def restored(scribe: Scribe, entry: AuditEntry | None, named: str | None = None) -> RestoreResult:
    name = named if named is not None else (entry.id if entry is not None else "")
    plan = plan_restore(
        scribe.graph, RestoreRequest(name), entry, actor="human", now=scribe.now, ids=scribe.ids
    )
    scribe.graph.apply_all(plan.mutations)
    scribe.last = plan.mutations
    return plan.result


def comparable(graph: Graph) -> Snapshot:
    return take_snapshot(graph)._replace(standing=())


def test_removal_keeps_who_when_why_and_the_very_records() -> None:
    scribe = written()
    scribe.reserve("user schema")
    held = scribe.held("user schema")
    edges = {edge for edge in scribe.graph.all_edges() if held.id in (edge.source, edge.target)}
    now = scribe.now
    entry = retracted(scribe, "user schema")
    assert (entry.kind, entry.node_id, entry.actor) == (AuditKind.RETRACT, held.id, "human")
    assert (entry.occurred_at, entry.from_status, entry.to_status) == (now, Status.NONE, None)
    removed = read_removed(entry.removed)
    assert removed.concept == held
    assert set(removed.edges) == edges
    assert set(removed.names.values()) == {"login", "add column"}
    assert entry.removed["reservation"]["node_id"] == held.id
    assert entry.texts == {"content": "user schema"}
    assert "user schema" not in str(entry._replace(removed=None, texts=None))


@pytest.mark.parametrize("content", ["user schema", "login", "auth", "seen twice", "add column"])
def test_restoring_what_was_retracted_gives_the_graph_of_before(content: str) -> None:
    scribe = written()
    before = comparable(scribe.graph)
    entry = retracted(scribe, content)
    assert entry.node_id is not None
    result = restored(scribe, entry)
    assert comparable(scribe.graph) == before
    assert comparable(reopened(scribe.graph)) == before
    assert take_snapshot(reopened(scribe.graph)) == take_snapshot(scribe.graph)
    assert (result.node_id, result.audit_id, result.lost) == (entry.node_id, entry.id, ())
    row = scribe.row(content)
    hits = scribe.graph.index.search(scribe.graph.key_at(row).split(), 9, tie_key=str)
    assert row in [hit for hit, _ in hits]


def test_a_status_is_not_brought_back_and_the_audit_row_tells_it() -> None:
    scribe = written()
    scribe.set_goal("user schema")
    entry = retracted(scribe, "user schema")
    result = restored(scribe, entry)
    assert scribe.held("user schema").status is Status.NONE
    assert result.earlier_status is Status.VENERABLE
    assert "it was Venerable" in result.text
    (row,) = (item.entry for item in scribe.last if isinstance(item, PutAudit))
    assert (row.kind, row.from_status, row.to_status) == (
        AuditKind.RESTORE,
        Status.VENERABLE,
        Status.NONE,
    )
    assert row.detail["removal"] == entry.id
    assert take_snapshot(reopened(scribe.graph)) == take_snapshot(scribe.graph)


def test_edges_whose_other_end_is_gone_are_listed_and_nothing_dangles() -> None:
    scribe = written()
    schema, login = scribe.id("user schema"), scribe.id("login")
    first = retracted(scribe, "user schema")
    retracted(scribe, "login")
    result = restored(scribe, first)
    assert {(lost.other_end, lost.name) for lost in result.lost} == {(login, "login")}
    kinds = {lost.edge_type for lost in result.lost}
    assert kinds == {EdgeType.DEPENDENCY, EdgeType.CO_OCCURRENCE}
    assert "'login': its other end is gone" in result.text
    assert result.as_wire()["lost_edges"][0]["other_end"] == login
    ends = {end for edge in scribe.graph.all_edges() for end in (edge.source, edge.target)}
    assert login not in ends
    assert schema in ends


def test_concepts_removed_in_one_sweep_come_back_with_the_edge_between_them() -> None:
    scribe = written()
    before = comparable(scribe.graph)
    plans = [
        plan_removal(
            scribe.graph,
            scribe.row(content),
            kind=AuditKind.COLLECT,
            actor="system",
            reason="low score",
            now=scribe.now,
            ids=scribe.ids,
            detail={"score": 0.01},
        )
        for content in ("user schema", "login")
    ]
    entries = []
    for plan in plans:
        scribe.graph.apply_all(plan)
        entries += [item.entry for item in plan if isinstance(item, PutAudit)]
        assert isinstance(plan[-2], DeleteConcept)
    assert scribe.contents() == ["add column", "auth", "seen twice"]
    for entry in entries:
        assert (entry.kind, entry.detail) == (AuditKind.COLLECT, {"score": 0.01})
        restored(scribe, entry)
    assert comparable(scribe.graph) == before


def test_key_that_another_concept_took_is_refused_naming_the_holder() -> None:
    scribe = written()
    entry = retracted(scribe, "user schema")
    scribe.derive("User  Schema")
    holder = scribe.id("User  Schema")
    with scribe.refused(KeyTaken) as caught:
        restored(scribe, entry)
    assert caught.value.fields["holder"] == holder
    assert caught.value.fields["content"] == "User Schema"


def test_observations_may_share_a_key_so_they_come_back_beside_another() -> None:
    scribe = written()
    entry = retracted(scribe, scribe.id("seen twice"))
    scribe.derive(observation("seen twice"))
    restored(scribe, entry)
    assert scribe.contents().count("seen twice") == 2


def test_what_is_not_gone_is_refused_also_by_the_row_of_an_earlier_removal() -> None:
    scribe = written()
    with scribe.refused(NotRemoved):
        restored(scribe, None, scribe.id("login"))
    entry = retracted(scribe, "login")
    restored(scribe, entry)
    with scribe.refused(NotRemoved):
        restored(scribe, entry)


def test_unknown_and_purged_are_refused() -> None:
    scribe = written()
    with scribe.refused(ConceptNotFound):
        restored(scribe, None, "00000000-0000-4000-8000-00000000ffff")
    entry = retracted(scribe, "login")
    with scribe.refused(TextPurged):
        restored(scribe, entry._replace(removed=None))
    with scribe.refused(InvalidSnapshot):
        restored(scribe, entry._replace(removed={"concept": {"id": 1}, "edges": [], "names": {}}))


@pytest.mark.parametrize("name", ["", " ", "*", "%", "login", "0" * 36, "null"])
def test_only_an_id_names_what_to_restore(name: str) -> None:
    with pytest.raises(InvalidArgument):
        RestoreRequest(name)


def test_a_child_that_found_another_parent_keeps_it_under_the_canonical_strategy() -> None:
    scribe = written()
    entry = retracted(scribe, "auth")
    scribe.derive("gate", parent_of=[("gate", "login")])
    result = restored(scribe, entry)
    assert [lost.why for lost in result.lost] == ["the child has another parent by now"]
    assert scribe.pairs(EdgeType.HIERARCHICAL) == [("gate", "login")]


def test_a_restored_concept_is_shielded_from_three_sweeps_also_after_opening_again() -> None:
    scribe = written()
    for _ in range(4):
        survive(scribe, "login")
    entry = retracted(scribe, "login")
    restored(scribe, entry)
    assert not scribe.graph.is_shielded(scribe.row("auth"))
    for sweeps in range(3):
        assert scribe.graph.is_shielded(scribe.row("login")), sweeps
        again = reopened(scribe.graph)
        found = again.find_by_key("login")
        assert found is not None
        assert again.is_shielded(found)
        survive(scribe, "login")
    assert not scribe.graph.is_shielded(scribe.row("login"))


def test_removing_it_again_ends_the_shield_and_what_people_confirmed() -> None:
    scribe = written()
    login = scribe.id("login")
    restored(scribe, retracted(scribe, "login"))
    confirm = AuditEntry(
        *(scribe.ids.next_ordered_id(0), AuditKind.CONFIRM, login, None, None, scribe.now, "human"),
    )
    for _ in range(2):
        scribe.graph.apply(PutAudit(confirm))
    assert scribe.graph.standing.confirmation_count(login) == 1
    assert take_snapshot(reopened(scribe.graph)) == take_snapshot(scribe.graph)
    restored(scribe, retracted(scribe, "login"))
    assert scribe.graph.standing.confirmation_count(login) == 0
    assert scribe.graph.is_shielded(scribe.row("login"))
    retracted(scribe, "login")
    assert scribe.graph.standing.all() == ()


def test_confirming_what_is_not_there_is_refused() -> None:
    scribe = written()
    entry = AuditEntry(scribe.ids.next_id(), AuditKind.CONFIRM, None, None, None, 0, "human")
    with scribe.refused(InvalidSnapshot):
        scribe.graph.apply(PutAudit(entry))


def test_a_refused_restoration_names_a_stable_code() -> None:
    codes = {error.code for error in (NotRemoved, KeyTaken, TextPurged)}
    assert codes == {"not_removed", "key_taken", "text_purged"}
    assert all(issubclass(error, LamboError) for error in (NotRemoved, KeyTaken, TextPurged))


def test_removed_state_of_a_hub_names_each_neighbour_once() -> None:
    scribe = Scribe()
    scribe.derive("hub", *(f"spoke {number}" for number in range(5)))
    state = removed_state(scribe.graph, scribe.row("hub"))
    names = [name for name in state["names"] if name is not None]
    assert sorted(names) == [f"spoke {number}" for number in range(5)]


COUNTERS = ("degree", "bonus_milli", "derivations", "dependents")


def counters(graph: Graph) -> dict[str, list[int]]:
    return {
        graph.id_at(row): [int(graph.concepts[name][row]) for name in COUNTERS]
        for row in graph.concept_rows()
    }


@pytest.mark.parametrize("size", [3, 200])
def test_a_hub_that_goes_and_comes_back_counts_as_if_its_edges_went_one_by_one(size: int) -> None:
    """Removing a hub held every caller up for a second; many edges are now written as one."""
    scribe = Scribe()
    scribe.derive("hub")
    for number in range(size):
        scribe.derive(
            concept(f"spoke {number}", depends_on=["hub"] if number % 3 else []),
            parent_of=[("hub", f"spoke {number}")] if number % 2 else [],
        )
    # Opening counts everything anew, from the records alone.
    before = counters(scribe.graph)
    assert before == counters(reopened(scribe.graph))
    snapshot = comparable(scribe.graph)
    entry = retracted(scribe, "hub")
    assert counters(scribe.graph) == counters(reopened(scribe.graph))
    used, concepts = scribe.graph.edges.used, scribe.graph.concepts
    # The row it had is free and counts nothing: the maxima of a session are taken over all rows.
    gone = ~concepts.live[: concepts.used]
    assert gone.any()
    assert not any(concepts[name][: concepts.used][gone].any() for name in COUNTERS)
    restored(scribe, entry)
    assert comparable(scribe.graph) == snapshot
    assert counters(scribe.graph) == before
    assert scribe.graph.edges.used == used  # freed rows are used again


def test_a_bundle_of_edges_in_which_one_is_wrong_is_refused_at_that_one() -> None:
    scribe = Scribe()
    for number in range(5):
        scribe.derive(*(f"spoke {number} {place}" for place in range(20)), co_occurrence_max=10)
    held = list(scribe.graph.all_edges())
    again = [PutEdge(edge._replace(reinforcements=2)) for edge in held]
    scribe.graph.apply_all(again)
    assert [edge.reinforcements for edge in scribe.graph.all_edges()] == [2] * len(held)
    scribe.graph.apply_all([DeleteEdge(edge.id) for edge in held])
    wrong = held[-1]._replace(source=held[-1].id)
    with pytest.raises(InvalidSnapshot):
        scribe.graph.apply_all([*map(PutEdge, held[:-1]), PutEdge(wrong)])
    assert sorted(scribe.graph.all_edges()) == sorted(held[:-1])


def test_edges_that_did_not_come_back_are_counted_and_the_first_are_named() -> None:
    """The reply of restoring a hub named each of thousands of edges, the audit row as well."""
    scribe = Scribe()
    spokes = [f"spoke {number}" for number in range(3 * LOST_EDGES_SHOWN)]
    scribe.derive("hub")
    for spoke in spokes:
        scribe.derive(concept(spoke, depends_on=["hub"]))
    edges = retracted(scribe, "hub")
    for spoke in spokes:
        scribe.retract(spoke)
    result = restored(scribe, edges)
    assert (len(result.lost), result.lost_count) == (LOST_EDGES_SHOWN, len(spokes))
    assert result.text.endswith(f"  - and {len(spokes) - LOST_EDGES_SHOWN} more")
    wire = result.as_wire()
    assert (len(wire["lost_edges"]), wire["lost_edge_count"]) == (LOST_EDGES_SHOWN, len(spokes))
    (row,) = (item.entry for item in scribe.last if isinstance(item, PutAudit))
    assert row.detail["lost_edges"] == [lost.edge_id for lost in result.lost]
    assert row.detail["lost_edge_count"] == len(spokes)


def survive(scribe: Scribe, content: str) -> None:
    held = scribe.held(content)
    scribe.graph.apply(PutConcept(held._replace(gc_survived=held.gc_survived + 1)))
