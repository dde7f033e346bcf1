"""`canon suspected`: pairs in which a newer statement seems to replace an older one, undeclared."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any, Final

from canon.engine.suspicions import find_suspicions
from canon.management.sessions_read import read_stored
from canon.management.subcommand import Subcommand, add_session_option, print_json, say, table
from memory.cli.verb import SESSION_DEFAULT
from memory.engine.showing import in_passing
from memory.engine.snapshot import load_snapshot


def add_arguments(parser: ArgumentParser) -> None:
    add_session_option(parser)


def run(options: Mapping[str, Any]) -> int:
    found = read_stored(options["session"] or SESSION_DEFAULT)
    told = find_suspicions(load_snapshot(found.snapshot._replace(vectors=())))
    say("suspected", found.state.text)
    if options["json"]:
        state, warnings = found.state.as_wire(), list(found.warnings)
        print_json({"state": state, **told.as_wire(), "warnings": warnings})
        return 0
    print(f"suspected: {told.count}")
    rows = [
        [f"{pair.cosine:.2f}", in_passing(pair.newer_content), in_passing(pair.older_content)]
        for pair in told.pairs
    ]
    if rows:
        print(table(["cosine", "newer", "may replace"], rows))
    if told.count > len(rows):
        print(f"  ... and {told.count - len(rows)} more")
    for warning in found.warnings:
        say("suspected", f"warning: {warning}")
    return 0


SUBCOMMAND: Final = Subcommand(
    name="suspected",
    summary="Pairs in which a newer statement seems to replace an older one, undeclared.",
    example="lambo canon suspected --session shop",
    add_arguments=add_arguments,
    run=run,
)
