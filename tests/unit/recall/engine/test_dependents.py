from __future__ import annotations

import pytest

from dependency_questions import ASKING, MARKERS, NOT_ASKING
from memory.engine.mutations import DeleteConcept
from memory.engine.types import ConceptType, EdgeType
from recall.engine.dependents import (
    ANCHOR_REACH_CHARS,
    answer_dependency_question,
)
from recall_graphs import GraphWriter


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def pillar(
    writer: GraphWriter,
    content: str,
    *,
    number: int | None = None,
    kind: ConceptType = ConceptType.ENTITY,
) -> None:
    """A concept on which another one rests."""
    concept_id = writer.concept(content, number=number, kind=kind)
    count = writer.graph.concept_count
    writer.depend(writer.concept(f"§{count}", number=800 + count), concept_id)


def anchor(writer: GraphWriter, query: str) -> str | None:
    answer = answer_dependency_question(writer.graph, query)
    return None if answer is None else writer.graph.content_at(answer.anchor)


@pytest.mark.parametrize("marker", MARKERS)
def test_each_marker_makes_a_dependency_question(writer: GraphWriter, marker: str) -> None:
    pillar(writer, "App Router")

    assert anchor(writer, f"{marker.upper()}: the app router?") == "App Router"


@pytest.mark.parametrize("form", ASKING)
@pytest.mark.parametrize("name", ["app router", "handlers/users.rs", "UserSchema"])
def test_each_natural_form_asks_what_rests_on_a_thing(
    writer: GraphWriter, form: str, name: str
) -> None:
    pillar(writer, name)
    pillar(writer, "x of another kind")

    assert anchor(writer, form.format(x=name)) == name
    assert anchor(writer, form.format(x=name).upper()) == name
    assert anchor(writer, form.format(x=name).replace(" ", "  ")) in {name, None}


@pytest.mark.parametrize("form", NOT_ASKING)
@pytest.mark.parametrize("name", ["app router", "handlers/users.rs"])
def test_what_only_looks_like_such_a_question_is_none(
    writer: GraphWriter, form: str, name: str
) -> None:
    pillar(writer, name)

    assert anchor(writer, form.format(x=name)) is None


def test_a_long_text_asks_at_its_beginning_or_at_its_end(writer: GraphWriter) -> None:
    pillar(writer, "router")
    filling = "one more line of a log. " * 500

    assert anchor(writer, f"what depends on router? {filling}") == "router"
    assert anchor(writer, f"{filling} what depends on router?") == "router"
    assert anchor(writer, f"{filling} what depends on router? {filling}") is None


def test_of_two_things_the_one_that_is_asked_about_is_the_anchor(writer: GraphWriter) -> None:
    pillar(writer, "the long name of a gateway")
    pillar(writer, "router")

    query = "after the long name of a gateway broke: what depends on router?"
    assert anchor(writer, query) == "router"


def test_without_an_anchor_or_a_dependent_there_is_no_answer(writer: GraphWriter) -> None:
    writer.concept("app router")

    assert anchor(writer, "what depends on the database") is None
    assert anchor(writer, "what depends on the app router") is None


def test_the_longest_content_is_the_anchor(writer: GraphWriter) -> None:
    pillar(writer, "app")
    pillar(writer, "app router", kind=ConceptType.OBSERVATION)

    assert anchor(writer, "what depends on app router") == "app router"


def test_when_the_longest_has_no_dependents_no_shorter_one_stands_in(writer: GraphWriter) -> None:
    pillar(writer, "app")
    writer.concept("app router")

    assert anchor(writer, "what depends on app router") is None


@pytest.mark.parametrize("kind", [ConceptType.ENTITY, ConceptType.RESOURCE])
def test_of_equal_length_a_named_thing_is_preferred(writer: GraphWriter, kind: ConceptType) -> None:
    pillar(writer, "route a", number=1, kind=ConceptType.LOGIC)
    pillar(writer, "route b", number=2, kind=kind)

    assert anchor(writer, "what uses route a and route b") == "route b"


def test_of_equal_length_and_kind_the_smaller_id_is_preferred(writer: GraphWriter) -> None:
    first, second = (
        writer.concept("route b", number=7),
        writer.concept("route a", number=3),
    )
    user = writer.concept("user", number=9)
    writer.depend(user, first)
    writer.depend(user, second)

    assert anchor(writer, "what uses route a and route b") == "route a"


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("app", "what depends on apple"),
        ("app", "what depends on snapp"),
        ("app", "what depends on my_app"),
        ("app", "what depends on app2"),
        ("v1", "what depends on v10"),
    ],
)
def test_content_inside_a_longer_word_is_no_anchor(
    writer: GraphWriter, content: str, query: str
) -> None:
    pillar(writer, content)

    assert anchor(writer, query) is None


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("app", "what depends on app?"),
        ("app", "apple or snapp: what depends on (app)"),
        ("handlers/users.rs", "what depends on handlers/users.rs."),
        (".env", "what uses the .env file"),
        ("UserSchema", "what depends on userschema"),
        ("user schema", "WHAT DEPENDS ON USER SCHEMA"),
        ("Straße", "what depends on STRASSE"),
        ("caf\u00e9", "what depends on cafe\u0301"),
        ("cafe\u0301", "what depends on CAF\u00c9"),
        ("\u00e9", "what depends on e\u0301"),
    ],
)
def test_content_between_word_edges_is_an_anchor(
    writer: GraphWriter, content: str, query: str
) -> None:
    pillar(writer, content)

    assert anchor(writer, query) == content


def test_a_letter_with_an_accent_is_not_the_letter(writer: GraphWriter) -> None:
    """U+0304 over x has no composed form, so the accent stands behind the word."""
    pillar(writer, "x")

    assert anchor(writer, "what depends on x\u0304") is None


def test_the_anchor_is_looked_for_near_the_marker(writer: GraphWriter) -> None:
    pillar(writer, "router")
    near, far = " x" * 200, " x" * ANCHOR_REACH_CHARS

    assert anchor(writer, f"router{near} what depends on it{near}") == "router"
    assert anchor(writer, f"router{far} what depends on it{far} router") is None


def test_a_removed_concept_is_no_anchor(writer: GraphWriter) -> None:
    writer.depend(writer.concept("user"), gone := writer.concept("router"))
    writer.graph.apply(DeleteConcept(gone))

    assert anchor(writer, "what depends on router") is None


def test_dependents_are_those_of_the_graph_with_the_strongest_tie(writer: GraphWriter) -> None:
    base = writer.concept("base", number=1)
    user = writer.concept("user", number=2)
    child = writer.concept("child", number=3)
    made = writer.concept("made", number=4)
    writer.depend(user, base, weight=3.0)
    writer.edge(base, user, EdgeType.CAUSAL, weight=5.0)
    writer.edge(base, user, EdgeType.SEMANTIC, weight=9.0)
    writer.edge(base, child, EdgeType.HIERARCHICAL, weight=0.5)
    writer.edge(base, made, EdgeType.CAUSAL, weight=7.0)

    answer = answer_dependency_question(writer.graph, "what depends on base")

    assert answer is not None
    ties = zip(answer.rows.tolist(), answer.weights.tolist(), strict=True)
    assert dict(ties) == {writer.row(user): 5.0, writer.row(child): 0.5}
