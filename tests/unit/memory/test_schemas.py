"""Arguments: their types, their bounds, and the one mistake a caller is told."""

from __future__ import annotations

import time
from typing import Any

import pytest

from memory import operator_schemas, schemas
from memory.argument_reading import parse_arguments
from memory.argument_types import Arguments
from memory.engine import limits
from memory.engine.errors import InvalidArgument
from memory.engine.requests import ConceptInput, DeriveRequest, RecallRequest
from memory.engine.types import ConceptType
from memory.verbs import VERBS

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
REQUIRED: dict[type[Arguments], dict[str, Any]] = {
    schemas.DeriveArguments: {"concepts": [{"content": "a token", "concept_type": "entity"}]},
    schemas.ActionArguments: {"action": "rotated a token"},
    schemas.RecallArguments: {"query": "a token"},
    schemas.ConceptsArguments: {},
    schemas.EventsArguments: {},
    schemas.InspectArguments: {"focus": "a token"},
    schemas.GuardArguments: {"action": "rotate a token"},
    schemas.ReserveArguments: {"concept": "a token"},
    schemas.ReleaseArguments: {"concept": "a token"},
    schemas.DemoteArguments: {"chunk": "a token", "chunk_group_id": "chunk"},
    operator_schemas.RetractArguments: {"concept": "a token"},
    operator_schemas.RestoreArguments: {"id": UUID},
    operator_schemas.PurgeArguments: {"concept": "a token"},
    operator_schemas.ConfirmArguments: {"concept": "a token"},
    operator_schemas.RootGoalArguments: {"goals": ["a token"]},
    operator_schemas.SynonymArguments: {"source": "jwt", "target": "token"},
    operator_schemas.TokenCreateArguments: {
        "name": "ci",
        "agent": "ci",
        "scopes": ["read"],
        "sessions": ["shop-*"],
    },
}


def refusal(model: type[Arguments], payload: Any) -> InvalidArgument:
    """What a caller is told, by the model or by the engine's record."""
    with pytest.raises(InvalidArgument) as caught:
        read(model, payload)
    return caught.value


def read(model: type[Arguments], payload: Any) -> Any:
    arguments: Any = parse_arguments(model, payload)
    return arguments.to_request()


def concept(**fields: Any) -> dict[str, Any]:
    return {"content": "a token", "concept_type": "entity", **fields}


def test_models_of_this_file_are_those_that_make_requests() -> None:
    made = {verb.request_model for verb in VERBS.values()}
    assert {model for model in made if hasattr(model, "to_request")} == set(REQUIRED)


@pytest.mark.parametrize("model", REQUIRED)
def test_what_is_required_is_enough(model: type[Arguments]) -> None:
    assert read(model, REQUIRED[model]) is not None


def test_derive_becomes_the_engines_record() -> None:
    payload = {
        "agent_id": "ann",
        "concepts": [concept(concept_type="logic", depends_on=["x"], against=["y", "z"])],
        "parent_of": [{"parent": "p", "child": "c"}],
        "event_time": "2026-01-31T12:00:00+05:30",
    }
    assert read(schemas.DeriveArguments, payload) == DeriveRequest(
        concepts=(ConceptInput("a token", ConceptType.LOGIC, ("x",), ("y", "z")),),
        parent_of=(("p", "c"),),
        event_time=1_769_841_000_000_000,
    )


def test_defaults_are_the_engines() -> None:
    assert read(schemas.RecallArguments, {"query": "x"}) == RecallRequest("x")


@pytest.mark.parametrize("kind", ConceptType)
def test_concept_types_are_lower_case_on_the_wire(kind: ConceptType) -> None:
    lower = {"concepts": [concept(concept_type=str(kind).lower())]}
    assert read(schemas.DeriveArguments, lower).concepts[0].concept_type is kind
    for other in (str(kind), str(kind).upper(), f" {str(kind).lower()}", ""):
        error = refusal(schemas.DeriveArguments, {"concepts": [concept(concept_type=other)]})
        assert error.field == "concepts[0].concept_type"
        assert "must be one of 'entity', 'logic'" in error.message


# -- the words -----------------------------------------------------------------------------------

MISTAKES = [
    (schemas.RecallArguments, {}, "query", "query is required"),
    (schemas.RecallArguments, {"query": ""}, "query", "query must be a non-empty string"),
    (schemas.RecallArguments, {"query": " \n\t"}, "query", "query must be a non-empty string"),
    (schemas.RecallArguments, {"query": "\u200d"}, "query", "query must be a non-empty string"),
    (schemas.RecallArguments, {"query": None}, "query", "query must be a non-empty string"),
    (schemas.RecallArguments, {"query": 7}, "query", "query must be a non-empty string"),
    (schemas.RecallArguments, {"query": ["x"]}, "query", "query must be a non-empty string"),
    (schemas.RecallArguments, {"query": {}}, "query", "query must be a non-empty string"),
    (
        schemas.RecallArguments,
        {"query": "a\x00b"},
        "query",
        "query contains the control character U+0000",
    ),
    (
        schemas.RecallArguments,
        {"query": "a\ud800b"},
        "query",
        "query contains the unpaired surrogate U+D800",
    ),
    (
        schemas.RecallArguments,
        {"query": "a\u202eb"},
        "query",
        "query contains the invisible character U+202E",
    ),
    (schemas.RecallArguments, {"query": "x", "top_k": 0}, "top_k", "top_k must be in 1..=100"),
    (
        schemas.RecallArguments,
        {"query": "x", "top_k": "5"},
        "top_k",
        "top_k must be an integer in 1..=100",
    ),
    (
        schemas.RecallArguments,
        {"query": "x", "top_k": 5.0},
        "top_k",
        "top_k must be an integer in 1..=100",
    ),
    (
        schemas.RecallArguments,
        {"query": "x", "top_k": True},
        "top_k",
        "top_k must be an integer in 1..=100",
    ),
    (
        schemas.RecallArguments,
        {"query": "x", "top_k": None},
        "top_k",
        "top_k must be an integer in 1..=100",
    ),
    (
        schemas.RecallArguments,
        {"query": "x", "top_k": float("inf")},
        "top_k",
        "top_k must be an integer in 1..=100",
    ),
    (
        schemas.RecallArguments,
        {"query": "x", "top_k": 10**5_000},
        "top_k",
        "top_k must be in 1..=100",
    ),
    (schemas.RecallArguments, {"query": "x", "k": 1}, "k", "unknown argument 'k'"),
    (
        schemas.RecallArguments,
        {"query": "x", "agent_id": 7},
        "agent_id",
        "agent_id must be a non-empty string",
    ),
    (schemas.DeriveArguments, {"concepts": None}, "concepts", "concepts must be a list"),
    (schemas.DeriveArguments, {"concepts": {}}, "concepts", "concepts must be a list"),
    (schemas.DeriveArguments, {"concepts": "x"}, "concepts", "concepts must be a list"),
    (
        schemas.DeriveArguments,
        {"concepts": []},
        "concepts",
        "concepts must contain at least 1 entry",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": ["x"]},
        "concepts[0]",
        "concepts[0] must be an object",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept(), concept(content=5)]},
        "concepts[1].content",
        "concepts[1].content must be a non-empty string",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept(content="the of a")]},
        "concepts[0].content",
        "concepts[0].content must contain a word that is not a stop word",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept(depends_on=[None])]},
        "concepts[0].depends_on[0]",
        "concepts[0].depends_on[0] must be a non-empty string",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept(depends_on=None)]},
        "concepts[0].depends_on",
        "concepts[0].depends_on must be a list",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept(at="now")]},
        "concepts[0].at",
        "unknown argument 'concepts[0].at'",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept()], "parent_of": [{"parent": "p", "child": "c", "x": 1}]},
        "parent_of[0].x",
        "unknown argument 'parent_of[0].x'",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept()], "event_time": "2026-01-31T12:00:00"},
        "event_time",
        "event_time must be an RFC 3339 time with a zone, like 2026-01-31T12:00:00Z",
    ),
    (
        schemas.DeriveArguments,
        {"concepts": [concept()], "event_time": 1_769_838_600},
        "event_time",
        "event_time must be a non-empty string",
    ),
    (
        operator_schemas.RetractArguments,
        {"concept": "x", "dry_run": 1},
        "dry_run",
        "dry_run must be true or false",
    ),
    (
        operator_schemas.RetractArguments,
        {"concept": "x", "dry_run": "true"},
        "dry_run",
        "dry_run must be true or false",
    ),
    (schemas.ReserveArguments, {}, "node_id", "give exactly one of node_id and concept"),
    (
        schemas.ReserveArguments,
        {"node_id": UUID, "concept": "x"},
        "node_id",
        "give exactly one of node_id and concept",
    ),
    (schemas.ReserveArguments, {"node_id": "x"}, "node_id", "node_id must be a UUID"),
    (
        schemas.DemoteArguments,
        {"chunk": 5, "chunk_group_id": "c"},
        "chunk",
        "chunk must be a string",
    ),
]


@pytest.mark.parametrize(("model", "payload", "field", "message"), MISTAKES)
def test_mistake_is_told_by_field_and_in_one_wording(
    model: type[Arguments], payload: Any, field: str, message: str
) -> None:
    error = refusal(model, payload)
    assert error.field == field
    assert error.message == message


@pytest.mark.parametrize("payload", [None, [], "x", 7, True])
@pytest.mark.parametrize("model", REQUIRED)
def test_payload_that_is_no_object_is_refused_as_body(model: type[Arguments], payload: Any) -> None:
    assert refusal(model, payload).field == "body"


@pytest.mark.parametrize("model", REQUIRED)
def test_null_is_taken_only_where_an_argument_may_be_left_out_as_null(
    model: type[Arguments],
) -> None:
    optional = {"agent_id", "event_time", "node_id", "concept", "expires_seconds"}
    optional |= {"vector", "vector_model", "reason", "confirm", "since", "until"}
    for name, info in model.model_fields.items():
        payload = {**REQUIRED[model], name: None}
        if name in optional and not info.is_required() and name not in REQUIRED[model]:
            assert read(model, payload) is not None
        else:
            assert refusal(model, payload).field in (name, "node_id")


def test_first_mistake_in_the_document_is_told() -> None:
    later = {"zzz": 1, "concepts": [concept(), concept(content=7), concept(concept_type="x")]}
    assert refusal(schemas.DeriveArguments, later).field == "zzz"
    nested = {"concepts": [concept(b=1, a=2), 7], "zzz": 1, "event_time": 5}
    assert refusal(schemas.DeriveArguments, nested).field == "concepts[0].b"
    missing = {"event_time": 5}
    assert refusal(schemas.DeriveArguments, missing).field == "event_time"
    both = {"concepts": [{"concept_type": "x"}]}
    assert refusal(schemas.DeriveArguments, both).field == "concepts[0].concept_type"


def test_name_of_an_unknown_argument_is_shown_escaped_and_cut() -> None:
    error = refusal(schemas.RecallArguments, {"query": "x", "a\n\x1b\u202e\ud800" + "x" * 500: 1})
    assert error.message.isprintable()
    assert len(error.message) < 120
    assert error.message.encode()


def test_document_full_of_mistakes_is_refused_fast() -> None:
    """A megabyte of unknown names must not hold the server up."""
    payload = {"query": "x", **{f"k{number}": 1 for number in range(200_000)}}
    began = time.process_time()
    error = refusal(schemas.RecallArguments, payload)
    assert time.process_time() - began < 1.0  # it took 1.2 s when each mistake was described
    assert error.field == "body"


def test_list_far_over_its_limit_is_not_read_to_the_end() -> None:
    error = refusal(schemas.DeriveArguments, {"concepts": [{}] * 1_000_000})
    assert error.message == "concepts must contain at most 64 entries (1000000 given)"


# -- limits: one below, at, one above --------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "name", "low", "high"),
    [
        (schemas.RecallArguments, "top_k", limits.TOP_K_MIN, limits.TOP_K_MAX),
        (schemas.RecallArguments, "max_tokens", limits.MAX_TOKENS_MIN, limits.MAX_TOKENS_MAX),
        (schemas.RecallArguments, "traversal_depth", limits.DEPTH_MIN, limits.DEPTH_MAX),
        (schemas.InspectArguments, "depth", limits.DEPTH_MIN, limits.DEPTH_MAX),
        (schemas.ReserveArguments, "ttl_seconds", limits.TTL_SECONDS_MIN, limits.TTL_SECONDS_MAX),
    ],
)
def test_number_is_taken_up_to_its_published_bounds(
    model: type[Arguments], name: str, low: int, high: int
) -> None:
    published = model.model_json_schema()["properties"][name]
    assert (published["minimum"], published["maximum"]) == (low, high)
    for value in (low, low + 1, high - 1, high):
        assert getattr(read(model, {**REQUIRED[model], name: value}), name) == value
    for value in (low - 1, high + 1):
        error = refusal(model, {**REQUIRED[model], name: value})
        assert error.message == f"{name} must be in {low}..={high}"


TEXT_FIELDS = [
    (schemas.RecallArguments, "query"),
    (schemas.InspectArguments, "focus"),
    (schemas.ActionArguments, "action"),
    (schemas.GuardArguments, "action"),
    (schemas.ReserveArguments, "concept"),
    (schemas.ReleaseArguments, "concept"),
    (schemas.DemoteArguments, "chunk"),
    (operator_schemas.RetractArguments, "concept"),
    (operator_schemas.SynonymArguments, "source"),
    (operator_schemas.SynonymArguments, "target"),
]


def of_size(letter: str, size: int) -> str:
    """A text of that many bytes, made of one letter and filled up with another."""
    count, rest = divmod(size, len(letter.encode()))
    return letter * count + "x" * rest


@pytest.mark.parametrize("letter", ["x", "é", "好", "🚗"])
@pytest.mark.parametrize(("model", "name"), TEXT_FIELDS)
def test_text_is_bounded_in_bytes_whatever_its_script(
    model: type[Arguments], name: str, letter: str
) -> None:
    most = limits.LIMIT_TEXT_BYTES
    for size in (most - 1, most):
        text = of_size(letter, size)
        assert getattr(read(model, {**REQUIRED[model], name: text}), name) == text
    error = refusal(model, {**REQUIRED[model], name: of_size(letter, most + 1)})
    assert error.field == name
    assert error.message == f"{name} exceeds {most} bytes ({most + 1} given)"


def with_concepts(count: int) -> dict[str, Any]:
    return {"concepts": [concept(content=f"token {n}") for n in range(count)]}


def with_pairs(count: int) -> dict[str, Any]:
    pairs = [{"parent": f"p{n}", "child": f"c{n}"} for n in range(count)]
    return {"concepts": [concept()], "parent_of": pairs}


def with_citations(count: int) -> dict[str, Any]:
    half = count // 2
    return {
        "concepts": [
            concept(depends_on=["x"] * half),
            concept(content="another", against=["y"] * (count - half)),
        ]
    }


def with_targets(count: int) -> dict[str, Any]:
    third = count // 3
    names = [f"t{n}" for n in range(count)]
    return {
        "action": "did it",
        "produces": names[:third],
        "modifies": names[third : 2 * third],
        "depends_on": names[2 * third :],
    }


@pytest.mark.parametrize(
    ("model", "make", "most"),
    [
        (schemas.DeriveArguments, with_concepts, limits.LIMIT_CONCEPTS),
        (schemas.DeriveArguments, with_pairs, limits.LIMIT_PARENT_PAIRS),
        (schemas.DeriveArguments, with_citations, limits.LIMIT_CITATIONS),
        (schemas.ActionArguments, with_targets, limits.LIMIT_ACTION_TARGETS),
        (
            schemas.ActionArguments,
            lambda count: {"action": "did it", "against": ["x"] * count},
            limits.LIMIT_ACTION_TARGETS,
        ),
        (
            operator_schemas.RootGoalArguments,
            lambda count: {"goals": ["x"] * count},
            limits.LIMIT_GOAL_TEXTS,
        ),
    ],
)
def test_list_is_taken_up_to_its_limit(model: type[Arguments], make: Any, most: int) -> None:
    for count in (most - 1, most):
        assert read(model, make(count)) is not None
    error = refusal(model, make(most + 1))
    assert f"at most {most} entries" in error.message
    assert f"({most + 1} given)" in error.message


@pytest.mark.parametrize("size", [254, 255, 256])
def test_group_of_a_chunk_is_bounded(size: int) -> None:
    payload = {"chunk": "x", "chunk_group_id": "g" * size}
    if size <= limits.AGENT_ID_BYTES:
        assert read(schemas.DemoteArguments, payload).chunk_group_id == "g" * size
    else:
        assert refusal(schemas.DemoteArguments, payload).field == "chunk_group_id"


# -- what is published -----------------------------------------------------------------------------


def leaves(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every schema that is no object, with the way to it; references followed by hand."""
    found = []
    if isinstance(node, dict):
        if node.get("type") in ("string", "integer", "array"):
            found.append((path, node))
        for key, child in node.items():
            found += leaves(child, f"{path}/{key}")
    elif isinstance(node, list):
        for place, child in enumerate(node):
            found += leaves(child, f"{path}/{place}")
    return found


@pytest.mark.parametrize("name", VERBS)
def test_published_schema_bounds_every_text_number_and_list(name: str) -> None:
    schema = VERBS[name].request_model.model_json_schema()
    for path, leaf in leaves(schema):
        if leaf["type"] == "string":
            assert "maxLength" in leaf or "enum" in leaf, path
        elif leaf["type"] == "integer":
            assert {"minimum", "maximum"} <= set(leaf), path
        else:
            assert "maxItems" in leaf, path


@pytest.mark.parametrize("name", VERBS)
def test_published_schema_closes_every_object(name: str) -> None:
    schema = VERBS[name].request_model.model_json_schema()
    for node in (schema, *schema.get("$defs", {}).values()):
        assert node["additionalProperties"] is False
