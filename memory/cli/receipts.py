"""`lambo receipts`: how the write under a key ended."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="the idempotency key of the write")


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.client() as client:
        return client.receipt(invocation.session, arguments.key)


VERB: Final = Verb(
    name="receipts",
    summary="Show how a write ended: accepted, applied, committed, refused or unknown.",
    example="lambo receipts deploy-42",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
