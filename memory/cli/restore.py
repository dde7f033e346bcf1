"""`lambo restore`: bring a removed concept back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, add_key_option, add_reason_option, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        help="the audit id of lambo disappearances, or the concept's for its newest removal",
    )
    add_reason_option(parser)
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        return client.restore(
            invocation.session,
            arguments.id,
            reason=arguments.reason,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="restore",
    summary="Bring a removed concept back with its id, and its edges whose ends still exist.",
    example="lambo restore 01890a5d-ac96-774b-bcce-b302099a8057",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
