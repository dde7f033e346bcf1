"""What an agent reads before its first call: texts, schemas, their size, and where a call goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from mcp_bridge import schemas
from mcp_bridge.tools import (
    TOKENS_MAX,
    VERB_BY_TOOL,
    instructions,
    route,
    without_agent,
)
from memory.engine.errors import InvalidArgument
from memory.verbs import VERBS
from surface.mcp.stand_in import specs

TOOLS = {
    "lambo_recall",
    "lambo_derive",
    "lambo_record_action",
    "lambo_reserve",
    "lambo_inspect",
    "lambo_saints",
    "lambo_stats",
}


def count_tokens(text: str) -> int:
    """A ceiling: two public byte-pair vocabularies see 4.1 characters a token in this list."""
    return round(len(text) / 4.0)


def object_schemas(node: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(node, dict):
        if "properties" in node:
            found.append(node)
        found += [hit for child in node.values() for hit in object_schemas(child)]
    elif isinstance(node, list):
        found += [hit for child in node for hit in object_schemas(child)]
    return found


def test_tools_are_exactly_seven_and_each_has_a_verb() -> None:
    assert {spec.name for spec in specs()} == TOOLS == set(VERB_BY_TOOL)
    by_table = {name: verb.tool for name, verb in VERBS.items() if verb.tool}
    assert by_table.pop("release") == "lambo_reserve"
    assert by_table == {verb: tool for tool, verb in VERB_BY_TOOL.items()}


def test_everything_an_agent_reads_costs_less_than_the_limit() -> None:
    listed = [
        {
            "name": spec.name,
            "description": spec.description,
            "inputSchema": spec.input_schema,
            "outputSchema": spec.output_schema,
        }
        for spec in specs()
    ]
    text = json.dumps(listed, separators=(",", ":")) + instructions("a session of usual length")
    assert count_tokens(text) < TOKENS_MAX


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.name)
def test_input_schemas_are_closed_at_every_level_flat_and_without_null(spec: Any) -> None:
    found = object_schemas(spec.input_schema)
    assert found
    assert all(node["additionalProperties"] is False for node in found)
    text = json.dumps(spec.input_schema)
    for word in ("$ref", "$defs", '"title"', "null"):
        assert word not in text
    assert spec.input_schema["required"][0] == "agent_id"
    assert next(iter(spec.input_schema["properties"])) == "agent_id"


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.name)
def test_output_schemas_admit_an_error(spec: Any) -> None:
    """A client may hold a failed call's data to the output schema and drop what does not fit."""
    assert spec.output_schema["type"] == "object"
    assert "error" not in spec.output_schema["properties"]
    for node in object_schemas(spec.output_schema):
        assert "required" not in node
        assert "additionalProperties" not in node


def test_agent_id_is_optional_where_the_transport_supplies_it() -> None:
    for spec in specs():
        optional = without_agent(spec)
        assert "agent_id" in optional.input_schema["properties"]
        assert "agent_id" not in optional.input_schema.get("required", [])
        assert "agent_id" in spec.input_schema["required"]


def test_read_only_tools_are_those_whose_verb_writes_nothing() -> None:
    reading = {spec.name for spec in specs() if spec.read_only}
    assert reading == {"lambo_recall", "lambo_inspect", "lambo_saints", "lambo_stats"}


def test_reserve_with_release_goes_to_release_without_ttl() -> None:
    given = {"agent_id": "a", "node_id": "n", "ttl_seconds": 30, "release": True}
    assert route("lambo_reserve", given) == ("release", {"agent_id": "a", "node_id": "n"})
    given["release"] = False
    kept = {"agent_id": "a", "node_id": "n", "ttl_seconds": 30}
    assert route("lambo_reserve", given) == ("reserve", kept)
    assert given["release"] is False


@pytest.mark.parametrize("value", ["true", 1, 0, [], {}])
def test_release_that_is_no_boolean_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="release must be true or false"):
        route("lambo_reserve", {"agent_id": "a", "node_id": "n", "release": value})


def test_null_agent_id_counts_as_absent_and_other_nulls_pass() -> None:
    assert route("lambo_recall", {"agent_id": None, "query": None}) == ("recall", {"query": None})


@pytest.mark.parametrize("name", ['a"b', "two\nlines", "x" * 5_000, "half \ud800", "café"])
def test_instructions_show_any_session_name_in_one_short_line(name: str) -> None:
    text = instructions(name)
    text.encode()
    first = text.splitlines()[0]
    assert first.startswith("Lambo is the shared memory")
    assert first.endswith('".')
    assert len(text) < 1_500


def test_instructions_ask_for_an_agent_id_only_where_it_is_needed() -> None:
    assert "Always pass agent_id" in instructions("s")
    assert "Always pass agent_id" not in instructions("s", names_agent=True)


class _Leaf(BaseModel):
    """Not for agents."""

    title: str | None = None
    size: int | str = 3


class _Tree(BaseModel):
    leaf: _Leaf
    more: list[_Leaf] = []
    free: dict[str, int] = {}


class _Loop(BaseModel):
    again: _Loop | None = None


def test_a_property_named_like_noise_survives() -> None:
    schema = schemas.input_schema(_Tree.model_json_schema())
    assert set(schema["properties"]["leaf"]["properties"]) == {"title", "size"}
    assert schema["properties"]["leaf"]["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["free"]["additionalProperties"] == {"type": "integer"}
    output = schemas.output_schema(_Tree.model_json_schema())
    assert output["properties"]["leaf"]["properties"]["title"] == {"type": ["string", "null"]}


def test_a_recursive_model_is_refused() -> None:
    with pytest.raises(ValueError, match="recursive"):
        schemas.input_schema(_Loop.model_json_schema())


def test_schema_functions_do_not_change_their_argument() -> None:
    raw = _Tree.model_json_schema()
    before = json.dumps(raw)
    schemas.input_schema(raw)
    schemas.output_schema(raw)
    assert json.dumps(raw) == before


@pytest.mark.parametrize("name", ["wait", "vector", "vector_model"])
def test_arguments_that_no_tool_has_are_neither_listed_nor_passed_on(name: str) -> None:
    for spec in specs():
        assert f'"{name}"' not in json.dumps(spec.input_schema)
    with pytest.raises(InvalidArgument, match=f"unknown argument '{name}'"):
        route("lambo_derive", {"concepts": [], name: None})
