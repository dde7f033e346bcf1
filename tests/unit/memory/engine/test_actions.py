"""What a recorded action writes, and the cycles it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from graph_writing import START, Scribe, concept, observation
from memory.engine.errors import DependencyCycle, InvalidArgument, UnresolvedReference
from memory.engine.mutations import PutConcept, PutEdge
from memory.engine.snapshot import load_snapshot
from memory.engine.types import ConceptType, EdgeType, Snapshot

CAUSAL, DEPENDENCY = EdgeType.CAUSAL, EdgeType.DEPENDENCY


def touching(role: str, *texts: str) -> dict[str, Any]:
    """The argument of `Scribe.act` that gives the texts that role."""
    return {role: texts}


def test_action_when_all_is_new_then_creates_in_order_of_naming_with_its_types() -> None:
    scribe = Scribe()
    result = scribe.act(
        "write handler", produces=["handler.rs"], modifies=["routes.rs"], depends_on=["schema"]
    )
    made = [scribe.graph.concept(node) for node in result.created]
    assert [(one.content, one.concept_type) for one in made if one] == [
        ("write handler", ConceptType.RESOURCE),
        ("handler.rs", ConceptType.RESOURCE),
        ("routes.rs", ConceptType.RESOURCE),
        ("schema", ConceptType.ENTITY),
    ]
    assert result.action_node == result.created[0]
    assert scribe.pairs(CAUSAL) == [
        ("write handler", "handler.rs"),
        ("write handler", "routes.rs"),
    ]
    assert scribe.pairs(DEPENDENCY) == [("write handler", "schema")]
    assert scribe.edge("write handler", "schema", DEPENDENCY).weight == 0.5
    assert result.edges == 3
    assert all(scribe.derivations(text) == 1 for text in scribe.contents())
    assert scribe.pairs(EdgeType.CO_OCCURRENCE) == []
    assert result.text == "recorded action 'write handler': 4 concept(s) created, 3 edge(s) added"


def test_interaction_when_an_action_is_recorded_then_its_text_is_the_prompt() -> None:
    scribe = Scribe()
    result = scribe.act("write handler", depends_on=["schema"], event_time=3)
    tail = scribe.graph.tail
    assert tail is not None
    assert (tail.id, tail.prompt_text, tail.event_time) == (
        result.interaction_id,
        "write handler",
        3,
    )
    assert scribe.edge("write handler", "schema", DEPENDENCY).event_time == 3


def test_targets_when_known_then_keep_their_type_and_are_not_derived_again() -> None:
    scribe = Scribe()
    scribe.derive(concept("schema", ConceptType.CONSTRAINT), concept("db", ConceptType.LOGIC))
    result = scribe.act("write handler", modifies=["SCHEMA"], depends_on=["DB"])
    assert [scribe.graph.content_at(scribe.graph.row_of(n) or 0) for n in result.created] == [
        "write handler"
    ]
    assert scribe.held("schema").concept_type is ConceptType.CONSTRAINT
    assert scribe.held("db").concept_type is ConceptType.LOGIC
    assert scribe.derivations("schema") == scribe.derivations("db") == 1
    assert sum(isinstance(mutation, PutConcept) for mutation in scribe.last) == 1


def test_action_when_its_text_is_known_then_that_concept_acts_and_is_not_derived() -> None:
    scribe = Scribe()
    scribe.derive("write handler")
    result = scribe.act("Write Handlers", depends_on=["schema"])
    assert result.action_node == scribe.id("write handler")
    assert scribe.held("write handler").concept_type is ConceptType.ENTITY
    assert scribe.derivations("write handler") == 1
    assert (len(result.created), result.edges) == (1, 1)


def test_action_when_it_touches_nothing_then_is_one_concept() -> None:
    scribe = Scribe()
    result = scribe.act("look around")
    assert (result.created, result.edges) == ((result.action_node,), 0)


def test_targets_when_repeated_then_are_one_concept_and_one_edge() -> None:
    scribe = Scribe()
    result = scribe.act(
        "write", produces=["file.rs", "FILE.rs"], modifies=["file.rs"], depends_on=["x", "X"]
    )
    assert (len(result.created), result.edges) == (3, 2)
    assert scribe.edge("write", "file.rs", CAUSAL).weight == 0.5
    assert scribe.edge("write", "x", DEPENDENCY).weight == 0.5


def test_target_when_produced_and_depended_on_then_the_first_type_wins_and_both_edges_stand() -> (
    None
):
    scribe = Scribe()
    result = scribe.act("write", produces=["file.rs"], depends_on=["FILE.rs"])
    assert scribe.held("file.rs").concept_type is ConceptType.RESOURCE
    assert scribe.pairs(CAUSAL) == scribe.pairs(DEPENDENCY) == [("write", "file.rs")]
    assert result.edges == 2


def test_action_when_recorded_again_then_reinforces_and_reports_no_new_edge() -> None:
    scribe = Scribe()
    scribe.act("write", produces=["file.rs"], depends_on=["schema"])
    scribe.agent_id = "agent-b"
    result = scribe.act("write", produces=["file.rs"], depends_on=["schema"])
    assert (result.created, result.edges) == ((), 0)
    edge = scribe.edge("write", "schema", DEPENDENCY)
    assert (edge.weight, edge.reinforcements) == (1.5, 2)
    assert (edge.created_by, edge.reinforced_by, edge.created_at) == ("agent-a", "agent-b", START)


def test_target_when_only_an_observation_has_its_key_then_a_concept_is_made() -> None:
    scribe = Scribe()
    scribe.derive(observation("schema"))
    result = scribe.act("write", depends_on=["schema"])
    assert len(result.created) == 2
    assert scribe.contents() == ["schema", "schema", "write"]


# -- cycles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["produces", "modifies", "depends_on"])
def test_action_when_it_names_itself_then_refused(role: str) -> None:
    scribe = Scribe()
    with scribe.refused(DependencyCycle, field="action"):
        scribe.act("write handler", **touching(role, "WRITE Handlers"))


def test_action_when_its_dependency_depends_on_it_then_refused() -> None:
    scribe = Scribe()
    scribe.act("first", depends_on=["second"])
    with scribe.refused(DependencyCycle):
        scribe.act("second", depends_on=["first"])


@pytest.mark.parametrize("role", ["produces", "modifies", "depends_on"])
def test_action_when_a_long_way_leads_back_over_both_types_then_refused(role: str) -> None:
    scribe = Scribe()
    scribe.act("one", produces=["two"])
    scribe.act("two", depends_on=["three"])
    scribe.act("three", modifies=["four"])
    with scribe.refused(DependencyCycle):
        scribe.act("four", **touching(role, "new thing", "one"))


def test_action_when_two_ways_meet_without_leading_back_then_accepted() -> None:
    scribe = Scribe()
    scribe.act("left", depends_on=["base"])
    scribe.act("right", depends_on=["base"])
    assert scribe.act("top", depends_on=["left", "right", "base"]).edges == 3


def test_action_when_only_hierarchy_or_contradiction_leads_back_then_accepted() -> None:
    scribe = Scribe()
    scribe.derive("alpha", parent_of=[("top", "leaf")])
    scribe.derive("denied")
    scribe.derive(concept("denier", against=["denied"]))
    assert scribe.act("leaf", depends_on=["top"]).edges == 1
    assert scribe.act("denied", depends_on=["denier"]).edges == 1


def test_action_when_a_cycle_of_citations_lies_ahead_then_the_walk_ends() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.derive(concept("beta", depends_on=["alpha"]))
    scribe.derive(concept("alpha", depends_on=["beta"]))
    scribe.derive("gamma")
    assert scribe.act("gamma", depends_on=["alpha"]).edges == 1


# -- against -----------------------------------------------------------------------------------


def test_against_when_it_resolves_then_a_contradiction_is_written_and_counted() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    result = scribe.act("write", against=["ALPHA"])
    assert scribe.pairs(EdgeType.CONTRADICTS) == [("write", "alpha")]
    assert result.edges == 1
    assert scribe.derivations("alpha") == 1
    again = scribe.act("write", against=["alpha"])
    assert again.edges == 0
    assert scribe.edge("write", "alpha", EdgeType.CONTRADICTS).weight == 1.5


def test_against_when_unknown_then_the_call_is_refused_by_place() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    with scribe.refused(UnresolvedReference, field="against[1]"):
        scribe.act("write", produces=["file.rs"], against=["alpha", "file.rs"])


def test_against_when_it_names_the_action_then_refused() -> None:
    scribe = Scribe()
    scribe.act("write")
    with scribe.refused(InvalidArgument, field="against[0]"):
        scribe.act("write", against=["write"])


def test_against_when_the_target_depends_on_the_action_then_accepted() -> None:
    scribe = Scribe()
    scribe.act("first", depends_on=["second"])
    assert scribe.act("second", against=["first"]).edges == 1


# -- refusals and foreign data -----------------------------------------------------------------


@pytest.mark.parametrize("role", ["produces", "modifies", "depends_on"])
def test_target_when_a_foreign_synonym_leaves_nothing_of_it_then_refused(role: str) -> None:
    scribe = Scribe(load_snapshot(Snapshot("s", 0, None, synonyms=(("blah", "the"),))))
    with scribe.refused(InvalidArgument, field=f"{role}[1]"):
        scribe.act("write", **touching(role, "fine", "blah"))


def test_mutations_when_an_action_is_refused_then_none_is_applied() -> None:
    scribe = Scribe()
    scribe.act("first", depends_on=["second"])
    with scribe.refused(DependencyCycle):
        scribe.act("second", produces=["brand new"], depends_on=["first"])
    assert "brand new" not in scribe.contents()


def test_edges_when_counted_then_derives_and_temporal_are_left_out() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    result = scribe.act("write", depends_on=["alpha", "new"])
    assert result.edges == 2
    assert sum(isinstance(mutation, PutEdge) for mutation in scribe.last) == 5
