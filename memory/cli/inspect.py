"""`lambo inspect`: show one concept and what is linked to it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, add_subject, show_text, subject

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    add_subject(parser, "focus", "the concept: its text, part of it, or its id")
    parser.add_argument("--depth", metavar="N", type=int, help="how many links to follow (0-5)")


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    focus = subject(arguments, "focus")
    with invocation.client() as client:
        return client.inspect(invocation.session, focus, depth=arguments.depth)


VERB: Final = Verb(
    name="inspect",
    summary="Show one concept: what it rests on, what rests on it, who reserved it.",
    example='lambo inspect "user schema" --depth 1',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
