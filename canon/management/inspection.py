"""`canon inspect`: why one concept stands where it stands, and what holds it up."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any, Final

from canon.engine.admission import Admission, explain
from canon.management.sessions_read import (
    circumstances_of,
    configured_rules,
    find_token_ages,
    read_stored,
)
from canon.management.subcommand import Subcommand, add_session_option, print_json, say, table
from memory.cli.verb import SESSION_DEFAULT
from memory.engine.graph import Graph
from memory.engine.retract import find_concept
from memory.engine.showing import in_passing
from memory.engine.snapshot import load_snapshot
from memory.engine.types import NodeId


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("concept", metavar="CONCEPT", help="the concept by its text or its id")
    add_session_option(parser)


def run(options: Mapping[str, Any]) -> int:
    found = read_stored(options["session"] or SESSION_DEFAULT)
    graph = load_snapshot(found.snapshot)
    row = find_concept(graph, options["concept"])
    rules = configured_rules()
    tokens, untold = find_token_ages([rules.promotion_policy])
    warnings = [*found.warnings, *untold]
    admission = explain(graph, row, circumstances_of(graph, rules, tokens=tokens))
    say("inspect", found.state.text)
    if options["json"]:
        wire = admission.as_wire()
        for support in wire["supports"]:
            support["content"] = _content(graph, support["dependent"])
        print_json(
            {
                "state": found.state.as_wire(),
                "node_id": graph.id_at(row),
                "content": graph.content_at(row),
                "admission": wire,
                "warnings": warnings,
            }
        )
        return 0
    print("\n".join(_lines(graph, row, admission)))
    for warning in warnings:
        say("inspect", f"warning: {warning}")
    return 0


def _content(graph: Graph, node_id: NodeId) -> str:
    row = graph.row_of(node_id)
    assert row is not None
    return in_passing(graph.content_at(row))


def _lines(graph: Graph, row: int, admission: Admission) -> Iterator[str]:
    yield f"{in_passing(graph.content_at(row))}  {graph.id_at(row)}"
    yield admission.text
    if admission.checks:
        yield "gates:"
        yield table(
            ["gate", "measured", "bar", "passed"],
            [
                [
                    check.gate,
                    _shown(check.measured),
                    _bar(check.bar, is_strict=check.is_strict),
                    "yes" if check.is_met else "no",
                ]
                for check in admission.checks
            ],
        )
    count = len(admission.measured.support_edges)
    yield f"rests on it, old enough to count: {count}"
    if admission.supports:
        yield table(
            ["concept", "by", "spread"],
            [
                [
                    _content(graph, support.dependent),
                    in_passing(support.agent_id),
                    "yes" if support.is_distinct else "no",
                ]
                for support in admission.supports
            ],
        )
    if count > len(admission.supports):
        yield f"  ... and {count - len(admission.supports)} more"


def _shown(measured: float | None) -> str:
    return "-" if measured is None else f"{measured:.6g}"


def _bar(bar: float | None, *, is_strict: bool) -> str:
    if bar is None:
        return "-"
    return f"over {bar:g}" if is_strict else f"{bar:g}"


SUBCOMMAND: Final = Subcommand(
    name="inspect",
    summary="Why one concept stands where it stands: every gate, measured, and what holds it up.",
    example='lambo canon inspect "user schema" --session shop',
    add_arguments=add_arguments,
    run=run,
)
