"""Taking concepts out: how the target is found, what is reported, what goes."""

from __future__ import annotations

import pytest

from graph_writing import Scribe, concept, observation, reopened
from memory.engine.errors import ConceptNotFound
from memory.engine.mutations import (
    DeleteConcept,
    DeleteReservation,
    PutAudit,
    PutEdge,
)
from memory.engine.retract import DEPENDENTS_SHOWN
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import EdgeType, Status


def written() -> Scribe:
    scribe = Scribe()
    scribe.derive("user schema", "auth", co_occurrence_max=0)
    scribe.derive(concept("login", depends_on=["user schema", "auth"]))
    scribe.act("add column", modifies=["user schema"])
    return scribe


@pytest.mark.parametrize("text", ["user schema", "the Schema-of USERS"])
def test_target_when_named_by_key_then_goes_with_all_its_edges(text: str) -> None:
    scribe = written()
    node = scribe.id("user schema")
    result = scribe.retract(text)
    assert (result.target, result.content, result.status) == (node, "user schema", Status.NONE)
    # One Derives, one Dependency of login, one Causal of the action; login rests on it.
    assert (result.incident_edges, result.blast_radius, result.dry_run) == (3, 1, False)
    assert result.dependents == ("login",)
    assert not scribe.graph.has_node(node)
    assert node not in {e.source for e in scribe.graph.all_edges()} | {
        e.target for e in scribe.graph.all_edges()
    }
    assert scribe.contents() == ["add column", "auth", "login"]
    assert scribe.pairs(EdgeType.DEPENDENCY) == [("login", "auth")]
    assert take_snapshot(reopened(scribe.graph)) == take_snapshot(scribe.graph)


def test_mutations_when_retracted_then_the_edges_go_with_the_concept() -> None:
    """Each edge of a hub was a mutation of its own, twenty thousand of them."""
    scribe = written()
    scribe.reserve("user schema")
    scribe.retract("user schema")
    kinds = [type(mutation) for mutation in scribe.last]
    assert kinds == [DeleteReservation, DeleteConcept, PutAudit]


def test_target_when_reserved_then_the_reservation_goes_too() -> None:
    scribe = written()
    scribe.reserve("user schema")
    scribe.retract("user schema")
    assert scribe.graph.reservations() == []


def test_target_when_gone_then_words_no_longer_find_it() -> None:
    scribe = written()
    row = scribe.row("user schema")
    scribe.retract("user schema")
    hits = scribe.graph.index.search(["schema", "user"], 10, tie_key=str)
    assert row not in dict(hits)


def test_dry_run_when_asked_then_reports_the_same_and_changes_nothing() -> None:
    scribe = written()
    before = scribe.graph.epoch, take_snapshot(scribe.graph)
    dry = scribe.retract("user schema", dry_run=True)
    assert scribe.last == ()
    assert (scribe.graph.epoch, take_snapshot(scribe.graph)) == before
    wet = scribe.retract("user schema")
    assert dry.as_wire() | {"dry_run": False, "removed": True, "summary": wet.text} == (
        wet.as_wire() | {"summary": wet.text}
    )
    assert dry.text.startswith("would remove 'user schema' [no status] with 3 edge(s); 1 concept")


@pytest.mark.parametrize("change", [str, str.upper])
def test_target_when_named_by_id_then_found(change: object) -> None:
    assert callable(change)
    scribe = written()
    node = scribe.id("auth")
    assert scribe.retract(change(node)).target == node


def test_target_when_an_observation_then_is_found_by_its_exact_content() -> None:
    scribe = Scribe()
    scribe.derive(observation("It rained"))
    node = scribe.id("It rained")
    assert scribe.retract("It rained").target == node
    assert scribe.contents() == []


def test_target_when_the_case_of_an_observation_differs_then_not_found() -> None:
    scribe = Scribe()
    scribe.derive(observation("It rained"))
    with scribe.refused(ConceptNotFound):
        scribe.retract("it rained")


def test_target_when_several_observations_say_it_then_the_smallest_id_goes() -> None:
    scribe = Scribe()
    nodes = scribe.demote("It rained. It rained. It rained.").created
    assert scribe.retract("It rained.").target == min(nodes)
    assert scribe.retract("It rained.").target == sorted(nodes)[1]


def test_target_when_an_entity_and_an_observation_share_the_key_then_the_entity_goes() -> None:
    scribe = Scribe()
    scribe.derive(observation("user schema"))
    entity = scribe.derive("User Schema").created[0]
    assert scribe.retract("user schema").target == entity


def test_target_when_a_sentence_without_key_then_only_its_own_text_finds_it() -> None:
    scribe = Scribe()
    scribe.demote("and")
    with scribe.refused(ConceptNotFound):
        scribe.retract("the")
    assert scribe.retract("and").content == "and"


def test_target_when_a_foreign_entity_has_an_empty_key_then_stop_words_do_not_find_it() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    snapshot = take_snapshot(scribe.graph)
    (held,) = snapshot.concepts
    keyless = (held._replace(canonical_key=""),)
    scribe = Scribe(load_snapshot(snapshot._replace(concepts=keyless)))
    with scribe.refused(ConceptNotFound):
        scribe.retract("the")
    assert scribe.retract("alpha").target == held.id


def test_target_when_a_synonym_stands_then_follows_it() -> None:
    scribe = written()
    scribe.declare_synonym("people table", "user schema")
    assert scribe.retract("people table").content == "user schema"


@pytest.mark.parametrize("text", ["nowhere", "00000000-0000-4000-8000-ffffffffffff"])
def test_target_when_unknown_then_not_found(text: str) -> None:
    scribe = written()
    with scribe.refused(ConceptNotFound):
        scribe.retract(text)


def test_interaction_when_named_by_id_then_is_not_removable() -> None:
    scribe = written()
    interaction = scribe.graph.interactions()[0].id
    with scribe.refused(ConceptNotFound):
        scribe.retract(interaction)


def test_text_when_derived_again_after_removal_then_is_a_new_concept() -> None:
    scribe = written()
    old = scribe.id("user schema")
    scribe.retract("user schema")
    (new,) = scribe.derive("user schema").created
    assert new != old
    row = scribe.row("user schema")
    assert scribe.graph.blast_radius(row) == 0
    assert scribe.derivations("user schema") == 1


def test_dependents_when_many_then_the_first_by_id_are_shown_and_all_are_counted() -> None:
    scribe = Scribe()
    scribe.derive("base")
    scribe.derive(
        *(concept(f"leaf {n}", depends_on=["base"]) for n in range(DEPENDENTS_SHOWN + 3)),
        co_occurrence_max=0,
    )
    result = scribe.retract("base", dry_run=True)
    assert result.blast_radius == DEPENDENTS_SHOWN + 3
    ids = sorted(scribe.id(f"leaf {n}") for n in range(DEPENDENTS_SHOWN + 3))
    first = [scribe.graph.content_at(scribe.graph.row_of(node) or 0) for node in ids]
    assert list(result.dependents) == first[:DEPENDENTS_SHOWN]


def test_edge_when_a_concept_points_at_itself_then_is_counted_and_removed_once() -> None:
    """No public call writes such an edge; a session from elsewhere may hold one."""
    scribe = Scribe()
    scribe.derive("alpha", "beta")
    edge = scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE)
    loop = edge._replace(id=scribe.ids.next_id(), target=edge.source, edge_type=EdgeType.DEPENDENCY)
    scribe.graph.apply(PutEdge(loop))
    assert scribe.retract("alpha").incident_edges == 3
    assert scribe.graph.edge_count == 1
