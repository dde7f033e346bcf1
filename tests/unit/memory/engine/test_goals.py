"""The root goal, the one status it grants, and synonyms."""

from __future__ import annotations

from typing import Any

import pytest

from graph_writing import Scribe, concept, observation
from memory.engine.errors import InvalidArgument
from memory.engine.goals import goal_rows, goal_texts
from memory.engine.mutations import ApplyTransition, PutAudit, SetRootGoal
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import AuditKind, NodeId, Status, Transition


def climb(scribe: Scribe, content: str, *steps: Status) -> NodeId:
    """Move a concept along; the audit rows carry a radius of 7 on the last step."""
    node = scribe.id(content)
    held = scribe.held(content).status
    for step in steps:
        scribe.graph.apply(
            ApplyTransition(
                Transition(scribe.ids.next_id(), node, held, step, 7, None, scribe.now, "test")
            )
        )
        held = step
    return node


# -- the texts of a goal -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "texts"),
    [
        (None, ()),
        ("launch it", ("launch it",)),
        (["b", "a", "b", 3, None, ["c"]], ("a", "b")),
        ({"content": "launch it", "key": "it launch", "other": "no"}, ("it launch", "launch it")),
        ({"content": "same", "key": "same"}, ("same",)),
        ({"content": 3}, ()),
        (17, ()),
        (True, ()),
    ],
)
def test_goal_texts_when_string_array_or_object_then_sorted_and_distinct(
    goal: Any, texts: tuple[str, ...]
) -> None:
    assert goal_texts(goal) == texts


def test_goal_rows_when_content_or_key_is_a_text_exactly_then_match() -> None:
    scribe = Scribe()
    scribe.derive("Launch the Product", "user schema", "other", observation("product"))
    by_content = goal_rows(scribe.graph, "Launch the Product")
    assert by_content == [scribe.row("Launch the Product")]
    assert goal_rows(scribe.graph, ["launch product"]) == by_content
    assert goal_rows(scribe.graph, {"content": "x", "key": "launch product"}) == by_content
    assert goal_rows(scribe.graph, "launch the product") == []
    assert goal_rows(scribe.graph, "product") == [scribe.row("product")]
    assert goal_rows(scribe.graph, None) == []


# -- setting it --------------------------------------------------------------------------------


def test_goal_when_set_then_is_stored_as_an_array() -> None:
    scribe = Scribe()
    result = scribe.set_goal("launch it", "sell it")
    assert scribe.graph.root_goal == ["launch it", "sell it"]
    assert (result.changed, result.promoted) == (True, ())
    assert scribe.last[0] == SetRootGoal(["launch it", "sell it"])
    (entry,) = (mutation.entry for mutation in scribe.last if isinstance(mutation, PutAudit))
    assert (entry.kind, entry.actor) == (AuditKind.ROOT_GOAL, "human")
    assert entry.texts == {"before": None, "after": ["launch it", "sell it"]}


def test_goal_when_set_then_its_concepts_become_venerable_in_id_order() -> None:
    scribe = Scribe()
    scribe.derive("launch it", "sell it", "other")
    climb(scribe, "sell it", Status.CANDIDATE)
    newest = scribe.graph.interactions()[-1].created_at
    scribe.now += 500
    result = scribe.set_goal("sell it", "launch it")
    assert result.promoted == tuple(sorted([scribe.id("launch it"), scribe.id("sell it")]))
    assert scribe.held("launch it").status is Status.VENERABLE
    assert scribe.held("sell it").status is Status.VENERABLE
    assert scribe.held("other").status is Status.NONE
    first, second = (m.transition for m in scribe.last if isinstance(m, ApplyTransition))
    assert (first.node_id, second.node_id) == result.promoted
    assert {first.actor, second.actor} == {"human"}
    assert first.occurred_at == second.occurred_at == newest
    rows = {row.node_id: row for row in (first, second)}
    launch, sell = rows[scribe.id("launch it")], rows[scribe.id("sell it")]
    assert (launch.from_status, launch.blast_radius) == (Status.NONE, None)
    assert (sell.from_status, sell.blast_radius) == (Status.CANDIDATE, 7)
    assert first.id < second.id


def test_audit_time_when_a_concept_is_younger_than_the_tail_then_is_the_concepts() -> None:
    """Imported sessions date concepts and interactions apart."""
    scribe = Scribe()
    scribe.derive("launch it")
    snapshot = take_snapshot(scribe.graph)
    (held,) = snapshot.concepts
    younger = held._replace(created_at=held.created_at + 9)
    imported = Scribe(load_snapshot(snapshot._replace(concepts=(younger,))))
    imported.set_goal("launch it")
    (transition,) = imported.graph.transitions.values()
    assert transition.occurred_at == younger.created_at


@pytest.mark.parametrize(
    "steps",
    [
        (Status.CANDIDATE, Status.VENERABLE),
        (Status.CANDIDATE, Status.VENERABLE, Status.CANONICAL),
    ],
)
def test_goal_when_a_concept_is_venerable_or_canonical_then_it_is_left_alone(
    steps: tuple[Status, ...],
) -> None:
    scribe = Scribe()
    scribe.derive("launch it")
    climb(scribe, "launch it", *steps)
    assert scribe.set_goal("launch it").promoted == ()
    assert scribe.held("launch it").status is steps[-1]


def test_goal_when_set_again_then_logs_nothing_even_with_a_new_concept() -> None:
    scribe = Scribe()
    scribe.set_goal("launch it")
    scribe.derive("launch it")
    epoch = scribe.graph.epoch
    result = scribe.set_goal("launch it")
    assert (scribe.last, result.changed, scribe.graph.epoch) == ((), False, epoch)
    assert scribe.held("launch it").status is Status.NONE
    assert result.text == "root goal unchanged; 0 concept(s) became Venerable"


def test_goal_when_cleared_then_is_none_and_statuses_stay() -> None:
    scribe = Scribe()
    scribe.derive("launch it")
    scribe.set_goal("launch it")
    assert scribe.set_goal().text == "root goal cleared"
    assert scribe.graph.root_goal is None
    assert scribe.held("launch it").status is Status.VENERABLE
    assert scribe.set_goal().text == "there was no root goal"


# -- synonyms ----------------------------------------------------------------------------------


def test_synonym_when_declared_then_the_spelling_reads_as_the_other() -> None:
    scribe = Scribe()
    scribe.derive("create user")
    epoch = scribe.graph.epoch
    result = scribe.declare_synonym("  register_user ", " create user ")
    assert (result.source, result.target, result.changed) == ("register_user", "create user", True)
    assert scribe.graph.synonyms == {"register_user": "create user"}
    assert scribe.graph.epoch == epoch + 1
    assert scribe.derive(" register_user\n").matched == (scribe.id("create user"),)


@pytest.mark.parametrize("text", ["Register_user", "register user", "registerUser"])
def test_synonym_when_the_spelling_differs_at_all_then_does_not_apply(text: str) -> None:
    scribe = Scribe()
    scribe.derive("create user")
    scribe.declare_synonym("register_user", "create user")
    assert len(scribe.derive(text).created) == 1


def test_synonym_when_its_target_is_one_too_then_is_not_followed_further() -> None:
    scribe = Scribe()
    scribe.derive("alpha", "gamma")
    scribe.declare_synonym("alias", "beta")
    scribe.declare_synonym("beta", "gamma")
    (made,) = scribe.derive("alias").created
    held = scribe.graph.concept(made)
    assert held is not None
    assert (held.content, held.canonical_key) == ("alias", "beta")
    assert scribe.derive("beta").matched == (scribe.id("gamma"),)


def test_synonym_when_declared_again_then_logs_nothing_and_another_target_replaces() -> None:
    scribe = Scribe()
    scribe.declare_synonym("alias", "alpha")
    epoch = scribe.graph.epoch
    assert scribe.declare_synonym("alias", "alpha").changed is False
    assert (scribe.last, scribe.graph.epoch) == ((), epoch)
    assert scribe.declare_synonym("alias", "beta").changed is True
    assert scribe.graph.synonyms == {"alias": "beta"}


def test_synonym_when_declared_then_citations_and_actions_follow_it() -> None:
    scribe = Scribe()
    scribe.derive("create user")
    scribe.declare_synonym("sign up", "create user")
    scribe.derive(concept("welcome mail", depends_on=["sign up"]))
    scribe.act("test it", depends_on=["sign up"])
    assert scribe.graph.blast_radius(scribe.row("create user")) == 2


@pytest.mark.parametrize(
    ("source", "target", "field"),
    [
        ("", "alpha", "source"),
        ("alpha", "the", "target"),
        ("alpha", "", "target"),
        ("alpha", " alpha ", "target"),
        ("al\u200bpha", "alpha", "source"),
    ],
)
def test_synonym_when_blank_or_without_key_or_itself_then_refused(
    source: str, target: str, field: str
) -> None:
    scribe = Scribe()
    with scribe.refused(InvalidArgument, field=field):
        scribe.declare_synonym(source, target)
