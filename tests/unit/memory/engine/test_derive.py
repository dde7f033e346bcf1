"""What a derive writes: concepts, hierarchy, citations; and what it refuses whole."""

from __future__ import annotations

import pytest

from graph_writing import START, Scribe, concept, observation
from memory.engine.errors import (
    InvalidArgument,
    RepeatedObservation,
    SecondParent,
    UnresolvedReference,
)
from memory.engine.graph import Graph
from memory.engine.limits import COUNTER_MAX
from memory.engine.mutations import PutConcept, PutEdge, PutInteraction
from memory.engine.snapshot import load_snapshot
from memory.engine.times import SECOND
from memory.engine.types import ConceptType, EdgeType, Snapshot, Status

E, L, C, R, O = (  # noqa: E741  # the five types, as the tables of the manual name them
    ConceptType.ENTITY,
    ConceptType.LOGIC,
    ConceptType.CONSTRAINT,
    ConceptType.RESOURCE,
    ConceptType.OBSERVATION,
)


# -- the interaction ---------------------------------------------------------------------------


def test_interaction_when_derived_then_names_agent_texts_and_the_one_before() -> None:
    scribe = Scribe()
    first = scribe.derive("alpha", "beta")
    second = scribe.derive("gamma", event_time=5)
    one, two = scribe.graph.interactions()
    assert (one.id, one.agent_id, one.prompt_text) == (
        first.interaction_id,
        "agent-a",
        "alpha; beta",
    )
    assert (one.previous_id, one.created_at, one.event_time) == (None, START, None)
    assert (two.id, two.prompt_text) == (second.interaction_id, "gamma")
    assert (two.previous_id, two.created_at) == (one.id, START + SECOND)
    assert (two.event_time, two.about_time) == (5, 5)


def test_temporal_edge_when_not_the_first_then_leads_to_the_one_before() -> None:
    scribe = Scribe()
    first = scribe.derive("alpha")
    assert not [e for e in scribe.graph.all_edges() if e.edge_type is EdgeType.TEMPORAL]
    second = scribe.derive("beta")
    edge = scribe.graph.edge_between(second.interaction_id, first.interaction_id, EdgeType.TEMPORAL)
    assert edge is not None
    assert (edge.weight, edge.reinforcements) == (1.0, 1)


# -- creating and matching ---------------------------------------------------------------------


def test_concept_when_new_then_starts_without_status_and_with_zero_counters() -> None:
    scribe = Scribe()
    result = scribe.derive(concept("  The User Schema  ", C))
    held = scribe.graph.concept(result.created[0])
    assert held is not None
    assert held.content == "  The User Schema  "
    assert held.canonical_key == "schema user"
    assert held.concept_type is C
    assert (held.origin_interaction, held.origin_agent) == (result.interaction_id, "agent-a")
    assert held.created_at == scribe.graph.interactions()[0].created_at
    assert (held.status, held.blast_radius) == (Status.NONE, None)
    assert (held.access_count, held.gc_survived) == (0, 0)
    assert (held.last_accessed, held.last_demotion_time, held.chunk_group_id) == (None, None, None)


def test_derives_edge_when_created_then_weighs_nine_tenths_and_counts_one_write() -> None:
    scribe = Scribe()
    result = scribe.derive("alpha")
    edge = scribe.graph.edge_between(result.interaction_id, result.created[0], EdgeType.DERIVES)
    assert edge is not None
    assert (edge.weight, edge.reinforcements) == (0.9, 1)
    assert edge.created_at == edge.last_reinforced == START
    assert edge.created_by == edge.reinforced_by == "agent-a"


def test_match_when_the_key_is_known_then_adds_a_derives_edge_and_no_concept() -> None:
    scribe = Scribe()
    scribe.derive(concept("user schema", E))
    result = scribe.derive(concept("USER-Schemas", C))
    assert result.created == ()
    assert result.matched == (scribe.id("user schema"),)
    assert not [m for m in scribe.last if isinstance(m, PutConcept)]
    assert scribe.held("user schema").concept_type is E
    assert scribe.contents() == ["user schema"]
    assert scribe.derivations("user schema") == 2
    assert result.reinforced == 0


@pytest.mark.parametrize(
    "again", ["User Schema", "user schema ", "user_schema", "userSchema", "the schema of user"]
)
def test_match_when_only_the_spelling_differs_then_is_one_concept(again: str) -> None:
    scribe = Scribe()
    scribe.derive("user schema")
    assert scribe.derive(again).matched == (scribe.id("user schema"),)


def test_match_when_composed_and_decomposed_then_is_one_concept() -> None:
    scribe = Scribe()
    scribe.derive("caf\u00e9 menu")
    assert scribe.derive("cafe\u0301 menu").created == ()


def test_texts_when_equal_in_one_call_then_the_first_type_wins_and_they_count_once() -> None:
    scribe = Scribe()
    result = scribe.derive(concept("alpha", L), concept("alpha", C))
    assert (result.given, len(result.created), result.matched) == (2, 1, ())
    assert scribe.held("alpha").concept_type is L
    assert result.text == "derived 2 concept(s): 1 created, 0 matched existing"


def test_texts_when_different_with_one_key_then_the_second_matches_and_is_derived_once() -> None:
    scribe = Scribe()
    result = scribe.derive(concept("alpha services", E), concept("Alpha Service", C))
    assert result.matched == result.created
    assert scribe.held("alpha services").concept_type is E
    assert scribe.derivations("alpha services") == 1
    assert result.reinforced == 0


def test_mutations_when_derived_then_stand_in_order_of_writing() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "beta")
    kinds = [type(mutation) for mutation in scribe.last]
    assert kinds == [PutInteraction, PutConcept, PutEdge, PutConcept, PutEdge, PutEdge]
    assert scribe.graph.epoch == len(kinds)


def test_about_time_when_given_then_stands_on_every_new_edge() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.derive(concept("beta", depends_on=["alpha"]), event_time=-7)
    edges = [m.edge for m in scribe.last if isinstance(m, PutEdge)]
    assert {edge.edge_type for edge in edges} == {
        EdgeType.TEMPORAL,
        EdgeType.DERIVES,
        EdgeType.DEPENDENCY,
    }
    assert {edge.event_time for edge in edges} == {-7}


# -- co-occurrence -----------------------------------------------------------------------------


def test_co_occurrence_when_three_are_derived_then_joins_pairs_in_call_order() -> None:
    scribe = Scribe()
    scribe.derive("c one", "a two", "b three")
    assert scribe.pairs(EdgeType.CO_OCCURRENCE) == [
        ("c one", "a two"),
        ("c one", "b three"),
        ("a two", "b three"),
    ]
    assert scribe.edge("c one", "a two", EdgeType.CO_OCCURRENCE).weight == 0.5


def test_co_occurrence_when_six_are_derived_then_stops_after_ten() -> None:
    scribe = Scribe()
    scribe.derive(*(f"node {n}" for n in range(1, 7)))
    pairs = [(s[-1], t[-1]) for s, t in scribe.pairs(EdgeType.CO_OCCURRENCE)]
    assert pairs == [
        ("1", "2"), ("1", "3"), ("1", "4"), ("1", "5"), ("1", "6"),
        ("2", "3"), ("2", "4"), ("2", "5"), ("2", "6"),
        ("3", "4"),
    ]  # fmt: skip


def test_co_occurrence_when_reinforced_then_counts_towards_the_limit() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "beta", "gamma", co_occurrence_max=1)
    result = scribe.derive("alpha", "beta", "gamma", co_occurrence_max=1)
    assert result.reinforced == 1
    assert scribe.pairs(EdgeType.CO_OCCURRENCE) == [("alpha", "beta")]


def test_co_occurrence_when_the_limit_is_zero_then_joins_nothing() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "beta", co_occurrence_max=0)
    assert scribe.pairs(EdgeType.CO_OCCURRENCE) == []


def test_co_occurrence_when_named_the_other_way_round_then_reinforces_the_edge_that_stands() -> (
    None
):
    scribe = Scribe()
    scribe.derive("alpha", "beta")
    scribe.agent_id = "agent-b"
    result = scribe.derive("beta", "alpha")
    assert scribe.pairs(EdgeType.CO_OCCURRENCE) == [("alpha", "beta")]
    edge = scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE)
    assert (edge.weight, edge.reinforcements) == (1.5, 2)
    assert (edge.created_at, edge.last_reinforced) == (START, START + SECOND)
    assert (edge.created_by, edge.reinforced_by) == ("agent-a", "agent-b")
    assert result.reinforced == 1


def test_co_occurrence_when_two_texts_are_one_concept_then_joins_distinct_nodes_only() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "ALPHA", "beta")
    assert scribe.pairs(EdgeType.CO_OCCURRENCE) == [("alpha", "beta")]


def test_co_occurrence_when_named_only_as_parent_then_does_not_join() -> None:
    scribe = Scribe()
    scribe.derive("alpha", parent_of=[("gamma", "beta")])
    assert scribe.pairs(EdgeType.CO_OCCURRENCE) == []


def test_weight_when_written_twelve_times_then_stops_at_ten() -> None:
    scribe = Scribe()
    weights = []
    for _ in range(12):
        scribe.derive("alpha", "beta")
        weights.append(scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE).weight)
    assert weights == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.0, 10.0]
    assert scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE).reinforcements == 12


def test_reinforcements_when_at_the_limit_of_the_column_then_stay_there() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "beta")
    edge = scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE)
    scribe.graph.apply(PutEdge(edge._replace(reinforcements=COUNTER_MAX)))
    scribe.derive("alpha", "beta")
    assert scribe.edge("alpha", "beta", EdgeType.CO_OCCURRENCE).reinforcements == COUNTER_MAX


# -- hierarchy ---------------------------------------------------------------------------------


def test_parents_when_unknown_then_are_created_as_entities_and_counted() -> None:
    scribe = Scribe()
    result = scribe.derive(concept("alpha", L), parent_of=[("gamma", "beta")])
    assert len(result.created) == 3
    assert result.matched == ()
    assert scribe.held("gamma").concept_type is scribe.held("beta").concept_type is E
    assert scribe.edge("gamma", "beta", EdgeType.HIERARCHICAL).weight == 0.5
    assert scribe.derivations("gamma") == scribe.derivations("beta") == 1


def test_parents_when_known_then_each_end_of_each_pair_counts_as_matched() -> None:
    scribe = Scribe()
    scribe.derive("root thing")
    result = scribe.derive(
        "one leaf", "two leaf", "three leaf", "four leaf",
        parent_of=[("root thing", f"{n} leaf") for n in ("one", "two", "three")],
    )  # fmt: skip
    assert (len(result.created), len(result.matched)) == (4, 6)
    assert result.matched.count(scribe.id("root thing")) == 3
    assert scribe.derivations("root thing") == 2  # once by each call


def test_parents_when_the_pair_repeats_in_one_call_then_one_edge_is_written_once() -> None:
    scribe = Scribe()
    result = scribe.derive("alpha", parent_of=[("top", "leaf"), ("TOP", "Leaf")])
    assert scribe.edge("top", "leaf", EdgeType.HIERARCHICAL).weight == 0.5
    assert (len(result.created), len(result.matched), result.reinforced) == (3, 2, 0)


def test_parents_when_the_same_parent_is_given_again_then_the_edge_is_reinforced() -> None:
    scribe = Scribe()
    scribe.derive("alpha", parent_of=[("top", "leaf")])
    result = scribe.derive("alpha", parent_of=[("top", "leaf")])
    edge = scribe.edge("top", "leaf", EdgeType.HIERARCHICAL)
    assert (edge.weight, edge.reinforcements, result.reinforced) == (1.5, 2, 1)


def test_parents_when_the_child_has_another_in_the_graph_then_refused() -> None:
    scribe = Scribe()
    scribe.derive("alpha", parent_of=[("top", "leaf")])
    with scribe.refused(SecondParent, field="parent_of[1]"):
        scribe.derive("beta", parent_of=[("top", "bud"), ("other", "LEAF")])


def test_parents_when_two_in_one_call_then_refused() -> None:
    scribe = Scribe()
    with scribe.refused(SecondParent, field="parent_of[1]"):
        scribe.derive("alpha", parent_of=[("top", "leaf"), ("other", "leafs")])


def test_parents_when_both_texts_have_one_key_then_refused() -> None:
    scribe = Scribe()
    with scribe.refused(InvalidArgument, field="parent_of[0]"):
        scribe.derive("alpha", parent_of=[("leaf", "the LEAFS")])


def test_parents_when_a_synonym_makes_them_one_then_refused() -> None:
    scribe = Scribe()
    scribe.declare_synonym("sprout", "leaf")
    with scribe.refused(InvalidArgument, field="parent_of[0]"):
        scribe.derive("alpha", parent_of=[("leaf", "sprout")])


def test_parents_when_each_is_the_others_then_accepted_and_can_be_opened_again() -> None:
    scribe = Scribe()
    scribe.derive("alpha", parent_of=[("top", "leaf")])
    scribe.derive("alpha", parent_of=[("leaf", "top")])
    assert scribe.graph.blast_radius(scribe.row("top")) == 1
    assert scribe.graph.blast_radius(scribe.row("leaf")) == 1


def test_parent_when_an_observation_holds_the_text_then_an_entity_is_made_beside_it() -> None:
    scribe = Scribe()
    seen = scribe.derive(observation("top")).created[0]
    result = scribe.derive("alpha", parent_of=[("top", "leaf")])
    assert seen not in result.matched
    assert scribe.contents() == ["alpha", "leaf", "top", "top"]


# -- observations ------------------------------------------------------------------------------


def test_observation_when_repeated_in_the_graph_then_refused_by_place() -> None:
    scribe = Scribe()
    scribe.derive(observation("it rained"))
    with scribe.refused(RepeatedObservation, field="concepts[1].content"):
        scribe.derive("alpha", observation("It RAINED"))


def test_observation_when_its_key_repeats_in_the_call_then_refused() -> None:
    scribe = Scribe()
    with scribe.refused(RepeatedObservation, field="concepts[1].content"):
        scribe.derive(observation("it rained"), observation("it RAINED"))


def test_observation_when_its_text_repeats_in_the_call_then_is_one() -> None:
    scribe = Scribe()
    result = scribe.derive(observation("it rained"), observation("it rained"))
    assert (len(result.created), result.matched) == (1, ())


def test_observation_when_an_entity_has_its_key_then_matches_the_entity() -> None:
    scribe = Scribe()
    scribe.derive("user schema")
    result = scribe.derive(observation("User Schema"))
    assert (result.created, result.matched) == ((), (scribe.id("user schema"),))


def test_observation_when_an_entity_came_earlier_in_the_call_then_all_match_it() -> None:
    scribe = Scribe()
    result = scribe.derive("user schema", observation("User Schema"), observation("USER SCHEMA"))
    assert (len(result.created), result.matched) == (1, result.created * 2)


def test_observation_when_an_entity_comes_later_in_the_call_then_both_are_made() -> None:
    scribe = Scribe()
    result = scribe.derive(observation("User Schema"), "user schema")
    assert (len(result.created), result.matched) == (2, ())


def test_observation_when_an_entity_was_made_beside_it_then_matches_the_entity() -> None:
    scribe = Scribe()
    scribe.derive(observation("user schema"))
    entity = scribe.derive("User Schema").created[0]
    assert scribe.derive(observation("USER schema")).matched == (entity,)


# -- citations ---------------------------------------------------------------------------------


def test_citations_when_they_resolve_then_lead_from_the_new_to_the_cited() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "beta", co_occurrence_max=0)
    scribe.derive(concept("gamma", L, depends_on=["Alpha"], against=["beta"]))
    assert scribe.pairs(EdgeType.DEPENDENCY) == [("gamma", "alpha")]
    assert scribe.pairs(EdgeType.CONTRADICTS) == [("gamma", "beta")]
    assert scribe.edge("gamma", "alpha", EdgeType.DEPENDENCY).weight == 0.5
    assert scribe.edge("gamma", "beta", EdgeType.CONTRADICTS).weight == 0.5


@pytest.mark.parametrize("change", [str, str.upper, lambda text: f" {text}\n"])
def test_citation_when_it_is_an_id_then_names_that_concept(change: object) -> None:
    assert callable(change)
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.derive(concept("beta", depends_on=[change(scribe.id("alpha"))]))
    assert scribe.pairs(EdgeType.DEPENDENCY) == [("beta", "alpha")]


def test_citation_when_a_single_observation_has_the_key_then_names_it() -> None:
    scribe = Scribe()
    scribe.derive(observation("it rained"))
    scribe.derive(concept("beta", against=["IT rained"]))
    assert scribe.pairs(EdgeType.CONTRADICTS) == [("beta", "it rained")]


def test_citation_when_an_entity_and_observations_have_the_key_then_names_the_entity() -> None:
    scribe = Scribe()
    scribe.demote("Rain. Rain.")
    scribe.derive("rain.")
    entity = scribe.graph.find_by_key("rain.")
    assert entity is not None
    scribe.derive(concept("beta", depends_on=["rain."]))
    assert scribe.graph.dependents(entity) == [scribe.row("beta")]


@pytest.mark.parametrize("name", ["depends_on", "against"])
def test_citation_when_nothing_matches_then_the_call_is_refused(name: str) -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    given = concept("beta", **{name: ["alpha", "nowhere"]})  # type: ignore[arg-type]
    with scribe.refused(UnresolvedReference, field=f"concepts[1].{name}[1]") as caught:
        scribe.derive("gamma", given)
    assert "no concept" in str(caught.value)


def test_citation_when_several_observations_match_then_refused_unless_by_id() -> None:
    scribe = Scribe()
    first, _ = scribe.demote("It rained. It rained.").created
    with scribe.refused(UnresolvedReference, field="concepts[0].depends_on[0]") as caught:
        scribe.derive(concept("beta", depends_on=["it rained."]))
    assert "2 observations" in str(caught.value)
    scribe.derive(concept("beta", depends_on=[first]))
    assert scribe.graph.blast_radius(scribe.graph.row_of(first) or 0) == 1


def test_citation_when_made_of_stop_words_then_does_not_find_an_observation_without_key() -> None:
    """The key of both is empty, so any text of stop words used to cite that sentence."""
    scribe = Scribe()
    scribe.demote("and")
    with scribe.refused(UnresolvedReference):
        scribe.derive(concept("beta", depends_on=["the"]))


def test_citation_when_the_concept_comes_in_the_same_call_then_refused() -> None:
    scribe = Scribe()
    with scribe.refused(UnresolvedReference):
        scribe.derive("alpha", concept("beta", depends_on=["alpha"]))


@pytest.mark.parametrize("name", ["depends_on", "against"])
def test_citation_when_it_names_the_concept_itself_then_refused(name: str) -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    given = concept("ALPHA", **{name: ["alpha"]})  # type: ignore[arg-type]
    with scribe.refused(InvalidArgument, field=f"concepts[0].{name}[0]"):
        scribe.derive(given)


def test_citation_when_it_is_refused_late_then_nothing_before_it_is_written() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    with scribe.refused(UnresolvedReference):
        scribe.derive(
            concept("new one", depends_on=["alpha"]),
            concept("new two", against=["nowhere"]),
            parent_of=[("top", "leaf")],
        )


def test_citation_when_resolved_then_a_cited_concept_is_not_derived() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    result = scribe.derive(concept("beta", depends_on=["alpha"]))
    assert scribe.derivations("alpha") == 1
    assert (len(result.created), result.matched) == (1, ())


def test_citation_when_named_twice_in_one_call_then_written_once() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    result = scribe.derive(
        concept("beta", depends_on=["alpha", "ALPHA"]), concept("beta", depends_on=["alpha"])
    )
    assert scribe.edge("beta", "alpha", EdgeType.DEPENDENCY).weight == 0.5
    assert result.reinforced == 0


def test_citation_when_a_repeated_text_brings_others_then_all_are_written() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "beta", co_occurrence_max=0)
    scribe.derive(concept("gamma", depends_on=["alpha"]), concept("gamma", depends_on=["beta"]))
    assert scribe.pairs(EdgeType.DEPENDENCY) == [("gamma", "alpha"), ("gamma", "beta")]


def test_citations_when_two_concepts_cite_each_other_then_accepted() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.derive(concept("beta", depends_on=["alpha"]))
    scribe.derive(concept("alpha", depends_on=["beta"]))
    rows = scribe.row("alpha"), scribe.row("beta")
    assert [scribe.graph.blast_radius(row) for row in rows] == [1, 1]


def test_contradiction_when_repeated_then_reinforced_without_a_new_date() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.derive(concept("beta", against=["alpha"]), event_time=11)
    first = scribe.edge("beta", "alpha", EdgeType.CONTRADICTS)
    scribe.agent_id = "agent-b"
    result = scribe.derive(concept("beta", against=["alpha"]), event_time=99)
    again = scribe.edge("beta", "alpha", EdgeType.CONTRADICTS)
    assert again == first._replace(
        weight=1.5,
        reinforcements=2,
        last_reinforced=first.created_at + SECOND,
        reinforced_by="agent-b",
    )
    assert (again.event_time, again.created_by) == (11, "agent-a")
    assert result.reinforced == 1


def test_contradiction_when_written_then_changes_no_counter_of_the_contradicted() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    row = scribe.row("alpha")
    names = ("degree", "bonus_milli", "derivations", "dependents", "status")
    before = [int(scribe.graph.concepts[name][row]) for name in names]
    scribe.derive(concept("beta", against=["alpha"]))
    assert [int(scribe.graph.concepts[name][row]) for name in names] == before


# -- synonyms from elsewhere -------------------------------------------------------------------


@pytest.mark.parametrize("place", ["content", "parent", "child"])
def test_text_when_a_foreign_synonym_leaves_nothing_of_it_then_refused(place: str) -> None:
    """`declare_synonym` refuses such a target; a file of another program need not."""
    scribe = Scribe(load_snapshot(Snapshot("s", 0, None, synonyms=(("blah", "the"),))))
    fields = {
        "content": "concepts[0].content",
        "parent": "parent_of[0].parent",
        "child": "parent_of[0].child",
    }
    texts = dict.fromkeys(fields, "alpha") | {"parent": "beta"} | {place: "blah"}
    with scribe.refused(InvalidArgument, field=fields[place]):
        scribe.derive(texts["content"], parent_of=[(texts["parent"], texts["child"])])


def test_graph_when_empty_then_a_refused_derive_leaves_it_empty() -> None:
    scribe = Scribe(Graph("s", 0))
    with scribe.refused(UnresolvedReference):
        scribe.derive(concept("alpha", depends_on=["beta"]))
    assert scribe.graph.interaction_count == 0
