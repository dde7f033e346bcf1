"""`lambo synonym`: read one spelling as another."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, add_key_option, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="the spelling that is met, case and all")
    parser.add_argument("target", metavar="TARGET", help="what it is read as")
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        return client.declare_synonym(
            invocation.session,
            arguments.source,
            arguments.target,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="synonym",
    summary="Read one spelling as another wherever a concept is named.",
    example='lambo synonym "users table" "user schema"',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
