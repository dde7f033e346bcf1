"""`lambo events`: what happened in a session, as a page or as it happens."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final, NoReturn

from memory.cli.verb import Invocation, UsageError, Verb, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--follow", action="store_true", help="go on until interrupted, over restarts of the server"
    )
    parser.add_argument("--since", metavar="ID", type=int, help="only those after this id")
    parser.add_argument(
        "--kind", metavar="KIND", action="append", default=[], help="only of this kind; repeatable"
    )
    parser.add_argument("--limit", metavar="N", type=int, help="how many in a page (1-200)")


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    if arguments.follow:
        if arguments.limit is not None:
            raise UsageError("--limit is for a page, not for --follow")
        _follow(arguments, invocation)
    with invocation.client() as client:
        return client.list_events(
            invocation.session, since=arguments.since, kinds=arguments.kind, limit=arguments.limit
        )


def _follow(arguments: Namespace, invocation: Invocation) -> NoReturn:
    """Print a line for each thing, as JSON on demand, until somebody interrupts it."""
    from memory.client_events import SessionEvent
    from memory.engine.event_lines import event_line, gap_line

    with invocation.client() as client:
        told = client.follow_events(invocation.session, since=arguments.since, kinds=arguments.kind)
        for one in told:
            wire = one.as_wire()
            is_event = isinstance(one, SessionEvent)
            if getattr(arguments, "json", False):
                line = json.dumps(wire if is_event else {"gap": wire})
            else:
                line = event_line(wire) if is_event else gap_line(wire)
            print(line, flush=True)
    raise AssertionError("a stream is followed until it fails")


VERB: Final = Verb(
    name="events",
    summary="Tell what happened in a session: its newest events, or every one as it happens.",
    example="lambo events --follow --kind promotion --kind conflict",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
