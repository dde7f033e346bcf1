"""docs/http-api.md, docs/mcp-tools.md and README.md list what the code has: no more, no less."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import memory.engine.limits as limits
from lambo_site.api import api
from lambo_site.errors import STATUS_BY_CODE
from mcp_bridge.http_app import STATUS_BY_CODE as MCP_STATUS_BY_CODE
from mcp_bridge.tools import TOKENS_MAX, ToolSpec, instructions, tool_specs
from memory.admission import Verb
from memory.client_retries import REPEATED_CODES, Retries
from memory.engine.errors import LamboError, OutcomeUnknown
from memory.engine.rights import Scope
from memory.engine.text import STOP_WORDS
from memory.verbs import VERBS
from source_tree import ROOT, shown

HTTP_PAGE: Final = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
MCP_PAGE: Final = (ROOT / "docs" / "mcp-tools.md").read_text(encoding="utf-8")
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")

FAMILY: Final = ("memory.engine", "lambo_site", "memory.service")
"""Where the errors that HTTP can answer with are defined; clients and commands have their own."""


def sections_of(page: str, level: str = "###") -> dict[str, str]:
    """The sections of a page by their title, each up to the next heading of any level."""
    parts = re.split(r"^(#+ .*)\n", page, flags=re.MULTILINE)
    return {
        head.removeprefix(f"{level} "): text
        for head, text in zip(parts[1::2], parts[2::2], strict=True)
        if head.startswith(f"{level} ")
    }


def rows_of(section: str) -> list[list[str]]:
    """The cells of every table row, head and rule left out."""
    tables = re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words_in_quotes(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


# -- arguments ---------------------------------------------------------------------------------

Row = tuple[str, str, str, str, str]
"""An argument as tables show it: name, type, required, default, bound."""


def rows_of_schema(schema: Mapping[str, Any], *, prefix: str = "") -> Iterator[Row]:
    """The rows that a schema of arguments stands for, inner objects after their list."""
    defs = schema.get("$defs", {})
    for name, given in schema.get("properties", {}).items():
        field = single(given, defs)
        required = name in schema.get("required", ())
        kind, bound = kind_and_bound(field, defs)
        default = "" if required else default_of(given)
        yield f"`{prefix}{name}`", kind, "yes" if required else "no", default, bound
        if kind == "list of objects":
            inner = {**single(field["items"], defs), "$defs": defs}
            yield from rows_of_schema(inner, prefix=f"{prefix}{name}[].")


def single(field: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    """A field without references and without the choice of null."""
    if "$ref" in field:
        field = defs[field["$ref"].rpartition("/")[2]]
    choices = [choice for choice in field.get("anyOf", ()) if choice != {"type": "null"}]
    return single(choices[0], defs) if choices else dict(field)


def kind_and_bound(field: Mapping[str, Any], defs: Mapping[str, Any]) -> tuple[str, str]:
    if "enum" in field:
        return "word", ", ".join(f"`{word}`" for word in field["enum"])
    match field["type"], field.get("format"):
        case "string", "uuid":
            return "id", "a UUID"
        case "string", "date-time":
            return "time", "RFC 3339 with a zone"
        case "string", _:
            return "text", bytes_of(field)
        case "integer", _:
            return "integer", f"{field['minimum']} to {field['maximum']:,}"
        case "number", _:
            over = "exclusiveMinimum" in field
            return "number", "over 0" if over else f"{field['minimum']} to {field['maximum']}"
        case "boolean", _:
            return "boolean", ""
        case "array", _:
            item = single(field["items"], defs)
            count = f"{field.get('minItems', 0)} to {field['maxItems']}"
            if item["type"] == "object":
                return "list of objects", count
            if item["type"] == "number":
                return "list of numbers", f"{field.get('minItems', 0)} to {field['maxItems']:,}"
            return "list of texts", f"{count}, each {bytes_of(item)}".removesuffix(", each ")
    raise AssertionError(f"no word for {field}")


def bytes_of(field: Mapping[str, Any]) -> str:
    """Empty where a tool's list leaves the length out, as it does for all texts."""
    return (
        f"{field.get('minLength', 0)} to {field['maxLength']:,} bytes"
        if "maxLength" in field
        else ""
    )


def default_of(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    if default in ([], "") or (default is None and field.get("type") == "array"):
        return "empty"
    if default is None:
        return "false" if field.get("type") == "boolean" else "none"
    return str(default).lower()


def arguments_of(verb: Verb) -> list[Row]:
    rows = rows_of_schema(verb.request_model.model_json_schema())
    return [row for row in rows if row[0] != "`agent_id`"]


def documented_arguments(section: str) -> list[Row]:
    rows = [row for row in rows_of(section) if len(row) == 6]
    assert all(row[5] for row in rows), "an argument has no meaning"
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


@pytest.mark.parametrize("name", VERBS)
def test_http_page_lists_the_arguments_of_each_verb(name: str) -> None:
    assert documented_arguments(sections_of(HTTP_PAGE)[name]) == arguments_of(VERBS[name])


SPECS: Final = {spec.name: spec for spec in tool_specs(VERBS)}


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_mcp_page_lists_the_arguments_of_each_tool(spec: ToolSpec) -> None:
    """As the tool list publishes them; the bounds of texts as the verb does."""
    documented = documented_arguments(sections_of(MCP_PAGE)[spec.name])
    published = [row for row in rows_of_schema(spec.input_schema) if row[0] != "`agent_id`"]
    of_verb = {row[0]: row for row in arguments_of(VERBS[verb_of(spec)])}
    assert [row[:4] for row in documented] == [row[:4] for row in published]
    for row, listed in zip(documented, published, strict=True):
        assert row == of_verb.get(row[0], row)
        assert row[4].startswith(listed[4])


def verb_of(spec: ToolSpec) -> str:
    return next(name for name, verb in VERBS.items() if verb.tool == spec.name)


def test_agent_is_documented_with_its_bound() -> None:
    row = next(
        row
        for row in rows_of_schema(VERBS["derive"].request_model.model_json_schema())
        if row[0] == "`agent_id`"
    )
    assert [row[0], row[1], row[4]] in [cells[:3] for cells in rows_of(MCP_PAGE)]
    assert any(cells[0] == row[0] and row[4] in cells[2] for cells in rows_of(HTTP_PAGE))


# -- replies -----------------------------------------------------------------------------------


def fields_of(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> set[str]:
    """The names of all fields of a reply, inner records included."""
    found = set()
    for name, given in schema.get("properties", {}).items():
        field = single(given, defs)
        found |= {name} | fields_of(field, defs)
        if isinstance(field.get("items"), Mapping):
            found |= fields_of(single(field["items"], defs), defs)
    return found


def fields_of_reply(verb: Verb) -> set[str]:
    schema = verb.reply_model.model_json_schema(mode="serialization")
    return fields_of(schema, schema.get("$defs", {}))


@pytest.mark.parametrize("name", VERBS)
def test_http_page_names_every_field_of_a_reply(name: str) -> None:
    told = words_in_quotes(sections_of(HTTP_PAGE)[name]) | {"warnings"}
    assert fields_of_reply(VERBS[name]) - told == set()


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_mcp_page_names_every_field_of_a_result(spec: ToolSpec) -> None:
    told = words_in_quotes(sections_of(MCP_PAGE)[spec.name])
    assert fields_of_reply(VERBS[verb_of(spec)]) - told == set()


# -- routes and rights -------------------------------------------------------------------------


def test_table_of_verbs_is_the_table_of_the_code() -> None:
    section = sections_of(HTTP_PAGE, "##")["Verbs and rights"]
    expected = [
        [
            f"[{name}](#{name})",
            str(verb.scope),
            verb.method,
            f"`{verb.path}`",
            f"`{verb.tool}`" if verb.tool else "none",
        ]
        for name, verb in VERBS.items()
    ]
    assert rows_of(section) == expected


def test_table_of_scopes_is_the_table_of_the_code() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    told = {row[0].strip("`"): row[1] for row in rows_of(sections_of(page, "##")["Scopes"])}
    assert set(told) == set(Scope)
    for scope in set(Scope) - {Scope.BACKDATE}:
        verbs = [name for name, verb in VERBS.items() if verb.scope is scope]
        assert sorted(told[scope].split(", ")) == sorted(verbs)


def test_every_route_of_the_api_is_documented() -> None:
    routes = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method in methods
    }
    table = rows_of(sections_of(HTTP_PAGE, "##")["Verbs and rights"])
    assert {(row[2], row[3].strip("`")) for row in table} == routes


# -- errors ------------------------------------------------------------------------------------


def codes_of_errors() -> set[str]:
    """The codes of all error classes that a call over HTTP may meet."""
    found, waiting = set(), [LamboError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith(FAMILY):
            found.add(kind.code)
    return found


def test_every_error_is_documented_with_its_status() -> None:
    rows = rows_of(sections_of(HTTP_PAGE, "##")["Errors"])
    documented = {row[0].strip("`"): int(row[1]) for row in rows}
    assert len(rows) == len(documented)
    assert documented == {code: STATUS_BY_CODE[code] for code in codes_of_errors()}
    assert documented.keys() == STATUS_BY_CODE.keys()


def test_errors_that_the_client_repeats_are_documented_as_such() -> None:
    rows = rows_of(sections_of(HTTP_PAGE, "##")["Errors"])
    yes = {row[0].strip("`") for row in rows if row[3].startswith("yes")}
    # Its repetition is no matter of the code alone: it needs a key, and asks the receipt first.
    assert yes - {OutcomeUnknown.code} == REPEATED_CODES
    assert OutcomeUnknown.code in yes
    told = re.sub(r"\s+", " ", HTTP_PAGE)
    seconds = f"{Retries().patience_seconds:g}"
    assert f"repeats the ones with *yes* by itself for up to {seconds} seconds" in told


def test_refusals_before_the_protocol_are_documented_with_their_status() -> None:
    rows = [row for row in rows_of(sections_of(MCP_PAGE, "##")["Results"]) if len(row) == 3]
    assert len(rows) >= 7
    for status, code, _ in rows:
        assert MCP_STATUS_BY_CODE.get(code.strip("`"), 400) == int(status)


# -- limits and cost ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit",
    [
        limits.BODY_BYTES,
        limits.LIMIT_TEXT_BYTES,
        limits.AGENT_ID_BYTES,
        limits.LIMIT_CONCEPTS,
        limits.LIMIT_DEMOTE_SENTENCES,
        limits.EXPANSION_NODES,
        limits.INSPECT_NEIGHBOURS,
    ],
)
def test_limits_are_documented(limit: int) -> None:
    cells = " ".join(row[1] for row in rows_of(sections_of(HTTP_PAGE, "##")["Limits"]))
    assert re.search(rf"(?<![\d,]){limit:,}(?![\d,])", cells)


def test_limits_that_the_page_merges_are_equal() -> None:
    assert limits.SESSION_NAME_BYTES == limits.IDEMPOTENCY_KEY_BYTES == limits.AGENT_ID_BYTES
    assert limits.LIMIT_CONCEPTS == limits.LIMIT_PARENT_PAIRS == limits.LIMIT_CITATIONS
    assert limits.LIMIT_CONCEPTS == limits.LIMIT_ACTION_TARGETS == limits.LIMIT_GOAL_TEXTS
    assert limits.INSPECT_NEIGHBOURS == limits.SAINTS_SHOWN == limits.SHOWN_CHARACTERS


def test_stop_words_and_time_of_receipts_are_documented() -> None:
    listed = re.search(r"stop\s+words\s+\(([^)]*)\)", HTTP_PAGE)
    assert listed is not None
    assert set(re.split(r",\s+", listed[1])) == STOP_WORDS
    assert f"{limits.RECEIPT_DAYS} days, at most {limits.RECEIPTS_PER_SESSION:,} a" in HTTP_PAGE


def test_cost_of_the_tool_list_is_documented() -> None:
    """Four characters a token is a ceiling for this list; see the tests of the tools."""
    listed = [
        {"name": s.name, "description": s.description, "inputSchema": s.input_schema}
        for s in SPECS.values()
    ]
    whole = [{**entry, "outputSchema": SPECS[str(entry["name"])].output_schema} for entry in listed]

    def cost(entries: list[dict[str, Any]]) -> str:
        text = json.dumps(entries, separators=(",", ":")) + instructions("demo")
        return f"{round(len(text) / 4, -2):,.0f}"

    told = re.search(r"about ([\d,]+) tokens, ([\d,]+) of\s+them", MCP_PAGE)
    assert told is not None
    assert [told[1], told[2]] == [cost(whole), cost(listed)]
    assert f"under {TOKENS_MAX:,}" in re.sub(r"\s+", " ", MCP_PAGE)


# -- README ------------------------------------------------------------------------------------


def test_every_command_of_the_readme_exists() -> None:
    # Imported here, so that a broken verb fails this test and not the whole module.
    from memory.cli.main import SERVER_COMMANDS, all_verbs

    known = {verb.name.split()[0] for verb in all_verbs()} | set(SERVER_COMMANDS)
    blocks = re.findall(r"^```.*?^```", README, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    code = "\n".join([*blocks, *re.findall(r"`([^`]+)`", prose)])
    named = set(re.findall(r"(?:^|/)lambo ([a-z][a-z-]*)", code, flags=re.MULTILINE))
    assert {"mcp", "derive", "recall"} <= named <= known
    assert all(f'"{word}"' in README for word in ("command", "args", "mcp"))


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z-]+)", "\n".join(words_in_quotes(README))))
    named |= set(re.findall(r"^make ([a-z-]+)", README, flags=re.MULTILINE))
    assert {"serve", "test", "demo"} <= named
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_every_tool_of_the_readme_is_a_tool() -> None:
    assert set(re.findall(r"`(lambo_[a-z_]+)`", README)) == set(SPECS)


# -- links -------------------------------------------------------------------------------------


def anchors_of(page: Path) -> set[str]:
    """The anchors that its headings get, as the usual renderers make them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_to_headings_lead_somewhere() -> None:
    broken = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
            file = page.parent / target if target else page
            if not file.exists() or anchor not in anchors_of(file):
                broken.append(f"{shown(page)}: {target}#{anchor}")
    assert broken == []
