"""What a subcommand of `canon` is, and the options and words they share.

Each only looks, unless its own module says otherwise: a table for people on stdout or, with
`--json`, exactly one JSON object; talk on stderr. Holds no subcommand.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.cli.verb import SESSION_DEFAULT, StoreOnce


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One word after `canon`. `run` takes the parsed options and may raise any `LamboError`.

    It returns the exit code.
    """

    name: str
    summary: str
    example: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Mapping[str, Any]], int]


def prepare(parser: ArgumentParser, subcommand: Subcommand) -> None:
    """Give a subcommand's parser the options of the subcommand; none that holds one value twice."""
    for name in (None, "store"):
        parser.register("action", name, StoreOnce)
    subcommand.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_session_option(parser: Any) -> None:
    """The session that is looked at; `parser` may be a group."""
    parser.add_argument(
        "--session", metavar="NAME", help=f"the session to look at (default: {SESSION_DEFAULT})"
    )


def print_json(document: Mapping[str, Any]) -> None:
    """One object on stdout; escapes where the stream cannot carry the letters."""
    is_narrow = not sys.stdout.encoding.lower().replace("-", "").startswith("utf")
    print(json.dumps(document, ensure_ascii=is_narrow, indent=2))


def say(name: str, line: str) -> None:
    """A line of talk."""
    print(f"lambo canon {name}: {line}", file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, indent: str = "  ") -> str:
    """Columns as wide as they need, the last one open; numbers stand to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(head), *cells]) for at in range(len(head))]
    is_number = [
        bool(rows) and all(isinstance(row[at], int | float) for row in rows)
        for at in range(len(head))
    ]
    lines = []
    for line in [list(head), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ]
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)
