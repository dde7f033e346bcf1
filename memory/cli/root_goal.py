"""`lambo root-goal`: say what a session is for."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, UsageError, Verb, add_key_option, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("goals", metavar="GOAL", nargs="*", help="what the session is for")
    parser.add_argument("--clear", action="store_true", help="have no goal any more")
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    if bool(arguments.goals) == arguments.clear:
        raise UsageError("give at least one GOAL, or --clear")
    with invocation.operator_client() as client:
        return client.set_root_goal(
            invocation.session, arguments.goals, idempotency_key=arguments.key
        )


VERB: Final = Verb(
    name="root-goal",
    summary="Say what the session is for; its concepts become Venerable at once.",
    example='lambo root-goal "user schema" "auth middleware"',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
