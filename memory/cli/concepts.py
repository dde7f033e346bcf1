"""`lambo concepts`: what is remembered, page by page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, add_filter_options, read_filter

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--after", metavar="PLACE", help="where the page before ended")
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most (1-100)")
    add_filter_options(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.client() as client:
        return client.list_concepts(
            invocation.session,
            after=arguments.after,
            limit=arguments.limit,
            wanted=read_filter(arguments),
        )


def render(answer: Answer) -> str:
    """The lines, and how to ask for the next page."""
    following = answer["structured"].get("next")
    hint = "" if following is None else f"\nmore: --after {following}"
    return answer["text"] + hint


VERB: Final = Verb(
    name="concepts",
    summary="List concepts, oldest first, page by page.",
    example="lambo concepts --type constraint --since 2026-01-01T00:00:00Z",
    add_arguments=add_arguments,
    run=run,
    render=render,
)
