"""`lambo release`: give a reservation back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.reserve import add_target, check_target
from memory.cli.verb import Invocation, Verb, add_key_option, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    check_target(arguments)
    with invocation.client() as client:
        return client.release(
            invocation.session,
            node_id=arguments.node_id,
            concept=arguments.concept,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="release",
    summary="Give a reservation back before it ends by itself.",
    example='lambo release --concept "user schema"',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
