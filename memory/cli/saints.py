"""`lambo saints`: list the proven concepts."""

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
        return client.saints(invocation.session)


VERB: Final = Verb(
    name="saints",
    summary="List the canonical concepts, those that most rests on first.",
    example="lambo saints --session shop",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
