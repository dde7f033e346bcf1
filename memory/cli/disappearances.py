"""`lambo disappearances`: what was taken out of a session, newest first."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--after", metavar="AUDIT_ID", help="only what was taken out before that")
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most")


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        return client.list_disappearances(
            invocation.session, after=arguments.after, limit=arguments.limit
        )


VERB: Final = Verb(
    name="disappearances",
    summary="List what was taken out of a session, newest first: by whom, when, why.",
    example="lambo disappearances --limit 20",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
