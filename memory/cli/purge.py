"""`lambo purge`: erase a concept's text for good, after showing what that takes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import (
    Declined,
    Invocation,
    UsageError,
    Verb,
    add_key_option,
    add_reason_option,
    add_subject,
    ask_person,
    show_text,
    subject,
)

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    add_subject(parser, "concept", "the concept, live or gone: its text or its id")
    parser.add_argument("--dry-run", action="store_true", help="only show what would go")
    parser.add_argument(
        "--confirm", metavar="ID", help="its id (default: asked for at the terminal)"
    )
    add_reason_option(parser)
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    concept, confirm = subject(arguments, "concept"), arguments.confirm
    if arguments.dry_run and confirm is not None:
        raise UsageError("--dry-run and --confirm exclude each other")
    if not (arguments.dry_run or confirm is not None or sys.stdin.isatty()):
        raise UsageError("nobody to ask: repeat its id with --confirm, or look with --dry-run")
    with invocation.operator_client() as client:
        if confirm is None:
            impact = client.purge(invocation.session, concept)
            if arguments.dry_run:
                return impact
            print(impact["text"], file=sys.stderr)
            confirm = ask_person("Nothing brings it back. Type its id to purge it: ")
            # By id: what was shown is what goes, whatever was written meanwhile.
            concept = impact["structured"]["node_id"]
            if confirm != concept:
                raise Declined("nothing was purged")
        return client.purge(
            invocation.session,
            concept,
            confirm=confirm,
            reason=arguments.reason,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="purge",
    summary="Erase a concept's text for good, wherever it was written; asks for its id.",
    example='lambo purge "the password is hunter2" --dry-run',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
