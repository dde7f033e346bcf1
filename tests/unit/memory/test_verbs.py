"""The table of verbs: complete, consistent, and reachable on every surface or excused."""

from __future__ import annotations

from typing import Any

import pytest

from hosting import hosting
from lambo_site.api import api
from mcp_bridge.tools import VERB_BY_TOOL, route, tool_specs
from memory import client_calls
from memory.admission import Origin, Verb, carry_out
from memory.cli.main import MODULES
from memory.embed.fixture import FixtureEmbedder
from memory.engine.config import MatchStrategy
from memory.engine.errors import Forbidden, InvalidArgument
from memory.engine.rights import Rights, Scope
from memory.testing import InMemoryStore
from memory.verbs import VERBS

SURFACES = ("mcp", "http", "cli")


def is_reachable(verb: Verb, surface: str) -> bool:
    """Looked up where the surface keeps it, not where the table says it should."""
    match surface:
        case "http":
            paths = api.get_openapi_schema(path_prefix="")["paths"]
            operation = paths.get(verb.path, {}).get(verb.method.lower())
            return operation is not None
        case "mcp":
            tools = set(VERB_BY_TOOL.values())
            return verb.name in tools or (verb.name == "release" and "reserve" in tools)
        case _:
            return bool(verb.command) and verb.command[0] in MODULES


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", VERBS)
def test_verb_is_reachable_or_the_reason_is_listed(name: str, surface: str) -> None:
    verb = VERBS[name]
    assert is_reachable(verb, surface) != (surface in verb.missing)
    assert all(len(reason) > 10 for reason in verb.missing.values())
    assert set(verb.missing) <= set(SURFACES)


def test_http_has_no_operation_outside_the_table() -> None:
    operations = {
        (path, method.upper())
        for path, methods in api.get_openapi_schema(path_prefix="")["paths"].items()
        for method in methods
    }
    assert operations == {(verb.path, verb.method) for verb in VERBS.values()}


def test_command_line_has_no_verb_outside_the_table() -> None:
    told = {verb.command[0] for verb in VERBS.values() if verb.command}
    assert set(MODULES) - {"connect", "demo", "import"} == told


def test_tools_are_those_of_the_table() -> None:
    assert {verb.tool for verb in VERBS.values() if verb.tool} == set(VERB_BY_TOOL)
    for tool, verb in VERB_BY_TOOL.items():
        assert VERBS[verb].tool == tool
        assert route(tool, {})[0] == verb
    assert route("lambo_reserve", {"release": True})[0] == "release"


def test_write_verbs_are_the_same_everywhere() -> None:
    writes = {verb.name for verb in VERBS.values() if verb.writes}
    assert set(client_calls.WRITE_VERBS) == writes
    read_only = {spec.name for spec in tool_specs(VERBS) if spec.read_only}
    assert read_only == {v.tool for v in VERBS.values() if v.tool and not v.writes}
    assert all(VERBS[name].method == "POST" for name in writes)


def test_human_acts_are_those_of_the_design() -> None:
    acts = {verb.name for verb in VERBS.values() if verb.operator_only}
    of_sessions = {"retract", "root-goal", "synonym", "session-delete", "reembed"}
    of_sessions |= {"disappearances", "restore", "purge", "confirm"}
    of_server = {"job-run", "job-list", "token-create", "token-list", "token-revoke"}
    assert acts == of_sessions | of_server
    assert not any(VERBS[name].tool for name in acts)


def test_only_first_writes_create_sessions() -> None:
    creating = {verb.name for verb in VERBS.values() if verb.creates_session}
    assert creating == {"derive", "record-action", "demote", "session-create"}


@pytest.mark.parametrize("name", [n for n, v in VERBS.items() if v.operator_only])
async def test_human_act_is_refused_before_its_arguments_are_read(name: str) -> None:
    nobody: Any = None
    with pytest.raises(Forbidden):
        await carry_out(VERBS[name], nobody, "s", "no arguments at all", Origin("ann"))


@pytest.mark.parametrize("agent", ["", " ", "a\nb", " ann", "x" * 256, "a\ud800"])
async def test_agent_that_is_no_name_is_refused_by_field(agent: str) -> None:
    nobody: Any = None
    for payload, origin in (
        ({"query": "x", "agent_id": agent}, Origin("ann")),
        ({"query": "x"}, Origin(agent)),
    ):
        with pytest.raises(InvalidArgument) as caught:
            await carry_out(VERBS["recall"], nobody, "s", payload, origin)
        assert caught.value.field == "agent_id"


@pytest.mark.parametrize("scopes", [{Scope.WRITE}, {Scope.WRITE, Scope.READ}])
async def test_a_derive_told_a_writer_that_may_not_read_what_others_wrote(
    scopes: set[Scope],
) -> None:
    secret = "the vault opens at five in the morning"
    asked = "the vault opens at six in the morning"
    embedder = FixtureEmbedder()
    async with hosting(
        InMemoryStore(), embedder=embedder, match_strategy=MatchStrategy.HYBRID
    ) as host:
        for agent, text, rights in (
            ("ann", secret, Rights(frozenset(Scope))),
            ("eve", asked, Rights(frozenset(scopes))),
            ("eve", asked, Rights(frozenset(scopes))),  # the answer that its receipt keeps
        ):
            payload = {"concepts": [{"content": text, "concept_type": "logic"}]}
            origin = Origin(agent, "first", rights)
            reply = await carry_out(VERBS["derive"], host, "s", payload, origin)
    (candidate,) = reply.structured["replacement_candidates"]
    may_read = Scope.READ in scopes
    assert reply.replayed
    assert candidate["excerpt"] == (secret if may_read else None)
    assert (secret in f"{reply.text}{reply.structured}") is may_read
    assert candidate["id"] in reply.text
