"""`lambo stats`: size and health of a session."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(_parser: ArgumentParser) -> None:
    """No arguments of its own."""


def run(_arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.client() as client:
        return client.stats(invocation.session)


VERB: Final = Verb(
    name="stats",
    summary="Show how much a session holds, and whether its writes reach the store.",
    example="lambo stats --json",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
