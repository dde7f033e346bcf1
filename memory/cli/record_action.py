"""`lambo record-action`: remember something done."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import (
    Invocation,
    Verb,
    add_key_option,
    add_no_wait_option,
    add_subject,
    show_text,
    subject,
)

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    add_subject(parser, "action", "what was done, in one sentence")
    for option, text in (
        ("--produces", "something it made"),
        ("--modifies", "something it changed"),
        ("--depends-on", "something it rests on"),
        ("--against", "an existing concept it contradicts"),
    ):
        parser.add_argument(
            option, metavar="TEXT", action="append", default=[], help=f"{text}; may be repeated"
        )
    parser.add_argument(
        "--event-time", metavar="TIME", help="the time it is about (RFC 3339 with a zone)"
    )
    add_no_wait_option(parser)
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    action = subject(arguments, "action")
    with invocation.client() as client:
        return client.record_action(
            invocation.session,
            action,
            produces=arguments.produces,
            modifies=arguments.modifies,
            depends_on=arguments.depends_on,
            against=arguments.against,
            event_time=arguments.event_time,
            wait=not arguments.no_wait,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="record-action",
    summary="Remember something done: what it made, what it changed, what it rests on.",
    example='lambo record-action "add login endpoint" --produces handlers/login.rs '
    '--depends-on "user schema"',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
