"""`lambo reserve`: tell the others that you are about to change something."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, UsageError, Verb, add_key_option, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_target(parser: ArgumentParser) -> None:
    """The options that name what is reserved."""
    parser.add_argument("--node-id", "--node", metavar="ID", help="the node, by its id")
    parser.add_argument("--concept", metavar="TEXT", help="the concept, by its text")


def check_target(arguments: Namespace) -> None:
    """Refuse no target and two."""
    if (arguments.node_id is None) == (arguments.concept is None):
        raise UsageError("give exactly one of --node-id and --concept")


def add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--ttl-seconds", metavar="N", type=int, help="how long it holds (1-3600, default 30)"
    )
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    check_target(arguments)
    with invocation.client() as client:
        return client.reserve(
            invocation.session,
            node_id=arguments.node_id,
            concept=arguments.concept,
            ttl_seconds=arguments.ttl_seconds,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="reserve",
    summary="Tell the others what you are about to change; it warns, it does not lock.",
    example='lambo reserve --concept "user schema" --ttl-seconds 600',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
