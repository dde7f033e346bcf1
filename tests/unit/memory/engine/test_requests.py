"""The edge of the engine: each limit at and over its border, each refusal naming its field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory.engine import limits
from memory.engine.errors import InvalidArgument
from memory.engine.requests import (
    ActionRequest,
    Caller,
    ConceptInput,
    DemoteRequest,
    DeriveRequest,
    InspectRequest,
    RecallRequest,
    ReleaseRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
    canonical_json,
    check_count,
    check_range,
    check_session_name,
    parse_node_id,
)
from memory.engine.types import ConceptType

E = ConceptType.ENTITY
NODE = "0123abcd-0000-4000-8000-00000000000f"
LONGEST = "é" * (limits.LIMIT_TEXT_BYTES // 2)
BOTH = ("depends_on", "against")


def one(content: Any = "alpha", **citations: tuple[Any, ...]) -> DeriveRequest:
    return DeriveRequest((ConceptInput(content, E, **citations),))


# Every text a caller can send: how to send it, and the name it is refused by.
TEXTS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "content": ("concepts[0].content", lambda text: one(text)),
    "depends_on": ("concepts[0].depends_on[1]", lambda text: one(depends_on=("x", text))),
    "against": ("concepts[0].against[0]", lambda text: one(against=(text,))),
    "parent": (
        "parent_of[0].parent",
        lambda text: DeriveRequest((ConceptInput("a b", E),), ((text, "leaf"),)),
    ),
    "child": (
        "parent_of[0].child",
        lambda text: DeriveRequest((ConceptInput("a b", E),), (("top", text),)),
    ),
    "action": ("action", lambda text: ActionRequest(text)),
    "produces": ("produces[0]", lambda text: ActionRequest("act", produces=(text,))),
    "modifies": ("modifies[0]", lambda text: ActionRequest("act", modifies=(text,))),
    "rests on": ("depends_on[1]", lambda text: ActionRequest("act", depends_on=("x", text))),
    "action against": ("against[0]", lambda text: ActionRequest("act", against=(text,))),
    "query": ("query", lambda text: RecallRequest(text)),
    "focus": ("focus", lambda text: InspectRequest(text)),
    "reserve": ("concept", lambda text: ReserveRequest(concept=text)),
    "release": ("concept", lambda text: ReleaseRequest(concept=text)),
    "reserve id": ("node_id", lambda text: ReserveRequest(node_id=text)),
    "release id": ("node_id", lambda text: ReleaseRequest(node_id=text)),
    "chunk": ("chunk", lambda text: DemoteRequest(text, "group")),
    "group": ("chunk_group_id", lambda text: DemoteRequest("x", text)),
    "retract": ("concept", lambda text: RetractRequest(text)),
    "goal": ("goals[0]", lambda text: RootGoalRequest((text,))),
    "source": ("source", lambda text: SynonymRequest(text, "alpha")),
    "target": ("target", lambda text: SynonymRequest("alpha", text)),
    "agent": ("agent_id", lambda text: Caller(text)),
    "key": ("idempotency_key", lambda text: Caller("a", text)),
    "session": ("session", check_session_name),
}
KEYED = ("content", "parent", "child", "action", "produces", "modifies", "rests on", "target")
NAMES = ("group", "agent", "key", "session")


def refused(send: Callable[[Any], object], value: Any) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        send(value)
    return caught.value


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "bad",
    [
        "a\x00b",
        "a\x1bb",
        "a\r\nb",
        "a\u0085b",
        "a\ud800b",
        "a\udc00",
        "a\u202eb",
        "a\u200bb",
        LONGEST + "é",
        17,
        ["alpha"],
        b"alpha",
    ],
    ids=ascii,
)
def test_text_when_not_legal_then_refused_by_the_name_of_its_field(name: str, bad: Any) -> None:
    field, send = TEXTS[name]
    error = refused(send, bad)
    assert error.fields["field"] == field
    assert field in error.message
    if isinstance(bad, str):
        assert not set(error.message) & {"\x00", "\x1b", "\r", "\u0085", "\ud800", "\u202e"}


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "chunk"])
@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u200d", "\u3000"], ids=ascii)
def test_text_when_blank_then_refused_by_the_name_of_its_field(name: str, blank: str) -> None:
    field, send = TEXTS[name]
    assert refused(send, blank).fields["field"] == field


@pytest.mark.parametrize("name", KEYED)
def test_text_when_only_stop_words_then_cannot_name_a_concept(name: str) -> None:
    field, send = TEXTS[name]
    assert refused(send, "The of-AND").fields["field"] == field


@pytest.mark.parametrize(
    "name", [n for n in TEXTS if n not in (*NAMES, "reserve id", "release id")]
)
def test_text_when_exactly_at_the_limit_in_bytes_then_accepted(name: str) -> None:
    assert len(LONGEST.encode()) == limits.LIMIT_TEXT_BYTES
    TEXTS[name][1](LONGEST)
    TEXTS[name][1]("👩‍👩‍👧 क्‍ष ﷺ\ttab\nline")


@pytest.mark.parametrize("name", NAMES)
def test_name_when_at_its_limit_then_accepted_and_one_byte_more_refused(name: str) -> None:
    field, send = TEXTS[name]
    send("é" * 127 + "x")
    error = refused(send, "é" * 128)
    assert error.fields == {"field": field, "maximum": 255}
    assert error.message == f"{field} exceeds 255 bytes (256 given)"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [" a", "a ", "a\nb", "a\tb", "a\u3000"], ids=ascii)
def test_name_when_not_one_trimmed_line_then_refused(name: str, bad: str) -> None:
    field, send = TEXTS[name]
    assert refused(send, bad).fields["field"] == field


@pytest.mark.parametrize("bad", [".", "..", "a/b", "a\\b", "*", "a?", "[x]", "{x}", "%", '"', "<>"])
def test_session_when_it_reads_as_path_or_pattern_then_refused(bad: str) -> None:
    assert refused(check_session_name, bad).fields["field"] == "session"


@pytest.mark.parametrize("good", ["default", "team a", "été", "a.b", "...", "x'; DROP TABLE y;--"])
def test_session_when_an_ordinary_name_then_accepted(good: str) -> None:
    check_session_name(good)


# -- counts ------------------------------------------------------------------------------------


def derive_of(concepts: int = 1, pairs: int = 0, **citations: int) -> DeriveRequest:
    cited: Any = {name: ("x",) * count for name, count in citations.items()}
    return DeriveRequest(
        (ConceptInput("cited", E, **cited), *(ConceptInput(f"c{n}", E) for n in range(1, concepts)))
        if concepts
        else (),
        tuple(("top", f"leaf {n}") for n in range(pairs)),
    )


def test_concepts_when_none_then_refused() -> None:
    error = refused(lambda count: derive_of(count), 0)
    assert error.message == "concepts must contain at least 1 entry"


@pytest.mark.parametrize(
    ("send", "most", "field"),
    [
        (lambda n: derive_of(n), limits.LIMIT_CONCEPTS, "concepts"),
        (lambda n: derive_of(pairs=n), limits.LIMIT_PARENT_PAIRS, "parent_of"),
        (lambda n: derive_of(depends_on=n), limits.LIMIT_CITATIONS, "concepts"),
        (lambda n: derive_of(depends_on=n - 30, against=30), limits.LIMIT_CITATIONS, "concepts"),
        (
            lambda n: ActionRequest("a b", ("x",) * 20, ("y",) * 20, ("z",) * (n - 40)),
            limits.LIMIT_ACTION_TARGETS,
            "depends_on",
        ),
        (
            lambda n: ActionRequest("a b", against=("x",) * n),
            limits.LIMIT_ACTION_TARGETS,
            "against",
        ),
        (lambda n: RootGoalRequest(("x",) * n), limits.LIMIT_GOAL_TEXTS, "goals"),
    ],
)
def test_list_when_at_its_limit_then_accepted_and_one_more_refused(
    send: Callable[[int], object], most: int, field: str
) -> None:
    send(most)
    error = refused(send, most + 1)
    assert (error.fields["field"], error.fields["maximum"]) == (field, most)
    assert f"at most {most} entries ({most + 1} given)" in error.message


def test_count_when_too_few_then_the_words_agree_in_number() -> None:
    assert refused(lambda n: check_count("x", n, 9, least=1), 0).message.endswith("least 1 entry")
    assert refused(lambda n: check_count("x", n, 9, least=2), 1).message.endswith("2 entries")


# -- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "send", "low", "high"),
    [
        ("top_k", lambda n: RecallRequest("x", top_k=n), 1, 100),
        ("max_tokens", lambda n: RecallRequest("x", max_tokens=n), 1, 100_000),
        ("traversal_depth", lambda n: RecallRequest("x", traversal_depth=n), 0, 5),
        ("depth", lambda n: InspectRequest("x", n), 0, 5),
        ("ttl_seconds", lambda n: ReserveRequest(NODE, ttl_seconds=n), 1, 3_600),
    ],
)
def test_number_when_at_its_limits_then_accepted_and_beyond_refused_by_name(
    field: str, send: Callable[[Any], object], low: int, high: int
) -> None:
    send(low)
    send(high)
    for bad in (low - 1, high + 1, 10**30, 1.5, True, "3", None, float("nan")):
        error = refused(send, bad)
        assert error.message == f"{field} must be in {low}..={high}"
        assert error.fields == {"field": field, "minimum": low, "maximum": high}


def test_range_when_inside_then_says_nothing() -> None:
    check_range("x", 3, 3, 3)


# -- kinds, ids, pairs -------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["Entity", "entity", "Bogus", None, 0])
def test_concept_type_when_not_one_of_the_five_then_refused_by_place(bad: Any) -> None:
    """Plain text equal to a type's name passed, and an observation of that kind was matchable."""
    error = refused(
        lambda kind: DeriveRequest((ConceptInput("a b", E), ConceptInput("c", kind))), bad
    )
    assert error.fields["field"] == "concepts[1].concept_type"
    assert "Entity, Logic, Constraint, Resource, Observation" in error.message


def test_pair_when_parent_and_child_are_the_same_text_then_refused() -> None:
    error = refused(
        lambda pairs: DeriveRequest((ConceptInput("a b", E),), pairs), (("x", "y"), ("z", "z"))
    )
    assert error.fields["field"] == "parent_of[1]"


def test_node_id_when_a_uuid_in_any_case_then_is_given_in_lower_case() -> None:
    assert parse_node_id("node_id", f" {NODE.upper()} ") == NODE


@pytest.mark.parametrize("bad", ["", "x", NODE[:-1], NODE + "0", NODE.replace("-", ""), "{%s}"])
def test_node_id_when_no_uuid_then_refused(bad: str) -> None:
    assert refused(lambda text: parse_node_id("node_id", text), bad).fields["field"] == "node_id"


@pytest.mark.parametrize("kind", [ReserveRequest, ReleaseRequest])
def test_target_when_named_in_both_ways_or_none_then_refused(kind: Any) -> None:
    kind(NODE)
    kind(concept="alpha")
    for arguments in ({}, {"node_id": NODE, "concept": "alpha"}):
        assert refused(lambda given: kind(**given), arguments).fields["field"] == "node_id"


def test_caller_when_without_key_then_accepted() -> None:
    assert Caller("agent-a").key is None


def test_json_when_values_are_equal_then_texts_are_equal() -> None:
    assert canonical_json({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'
    assert canonical_json({"a": None, "b": [1, "é"]}) == canonical_json({"b": [1, "é"], "a": None})
