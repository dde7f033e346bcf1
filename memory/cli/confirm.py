"""`lambo confirm`: a person's word that a concept is right."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, add_key_option, add_reason_option, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("concept", metavar="CONCEPT", help="its text or its id")
    add_reason_option(parser)
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        return client.confirm(
            invocation.session,
            arguments.concept,
            reason=arguments.reason,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="confirm",
    summary="Say as a person that a concept is right; kept in an audit row.",
    example='lambo confirm "invoices are immutable"',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
