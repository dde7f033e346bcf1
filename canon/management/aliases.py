"""`canon alias-preview`: what would change if citations of a short name stood at its ruling."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from canon.engine.alias_preview import AliasMove, alias_preview
from canon.management.sessions_read import (
    circumstances_of,
    configured_rules,
    find_token_ages,
    read_stored,
)
from canon.management.subcommand import Subcommand, add_session_option, print_json, say, table
from memory.cli.verb import SESSION_DEFAULT
from memory.engine.embedding import calibration_of
from memory.engine.graph import Graph
from memory.engine.showing import in_passing
from memory.engine.snapshot import load_snapshot

LISTED_MAX: Final = 100
"""Moves shown in the table; `--json` has all."""


def add_arguments(parser: ArgumentParser) -> None:
    add_session_option(parser)
    parser.add_argument(
        "--similar",
        action="store_true",
        help="also suggest names that are near a longer statement in meaning",
    )


def run(options: Mapping[str, Any]) -> int:
    found = read_stored(options["session"] or SESSION_DEFAULT)
    graph = load_snapshot(found.snapshot)
    rules = configured_rules()
    tokens, untold = find_token_ages([rules.promotion_policy])
    warnings = [*found.warnings, *untold]
    floor = None
    if options["similar"]:
        floor = _floor(graph)
        if floor is None:
            warnings.append("the session has no vectors; nothing is suggested by meaning")
    moves = alias_preview(graph, circumstances_of(graph, rules, tokens=tokens), similar=floor)
    say("alias-preview", found.state.text)
    if options["json"]:
        told = [move.as_wire() for move in moves]
        print_json(
            {
                "state": found.state.as_wire(),
                "policy": str(rules.promotion_policy),
                "similar_from": floor,
                "moves": told,
                "warnings": warnings,
            }
        )
        return 0
    print("\n".join(_lines(moves)))
    for warning in warnings:
        say("alias-preview", f"warning: {warning}")
    return 0


def _floor(graph: Graph) -> float | None:
    """From which cosine on two texts may say the same, by the measured line of the model."""
    if graph.contract is None:
        return None
    return calibration_of(graph.contract).merge_threshold


def _lines(moves: Sequence[AliasMove]) -> Iterator[str]:
    yield f"names whose citations may stand at a ruling: {len(moves)}"
    if moves:
        yield table(
            ["name", "ruling", "by", "citations", "distinct", "coverage", "radius", "would rise"],
            [_row(move) for move in moves[:LISTED_MAX]],
        )
    if len(moves) > LISTED_MAX:
        yield f"  ... and {len(moves) - LISTED_MAX} more"


def _row(move: AliasMove) -> list[object]:
    before, after = move.before, move.after
    return [
        in_passing(move.name_content),
        in_passing(move.ruling_content),
        "synonym" if move.cosine is None else f"cosine {move.cosine:.2f}",
        move.citations,
        f"{before.distinct} -> {after.distinct}",
        f"{before.coverage:.3f} -> {after.coverage:.3f}",
        f"{before.blast_radius} -> {after.blast_radius}",
        str(move.next_status) if move.would_pass else "no",
    ]


SUBCOMMAND: Final = Subcommand(
    name="alias-preview",
    summary="What a ruling would measure with the citations of the short name that stands for it.",
    example="lambo canon alias-preview --session shop --similar",
    add_arguments=add_arguments,
    run=run,
)
