"""`lambo retract`: remove a concept, after showing what rests on it."""

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
    add_subject(parser, "concept", "the concept: its text or its id")
    parser.add_argument("--dry-run", action="store_true", help="only show what would go")
    parser.add_argument("--yes", action="store_true", help="do not ask before removing")
    add_reason_option(parser)
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    concept = subject(arguments, "concept")
    if not (arguments.dry_run or arguments.yes or sys.stdin.isatty()):
        raise UsageError("nobody to ask: add --yes to remove, or --dry-run to see what would go")
    with invocation.operator_client() as client:
        if arguments.dry_run or not arguments.yes:
            impact = client.retract(invocation.session, concept, dry_run=True)
            if arguments.dry_run:
                return impact
            print(impact["text"], file=sys.stderr)
            if ask_person("Remove it? [y/N] ") not in ("y", "yes"):
                raise Declined("nothing was removed")
            # By id: what was shown is what goes, whatever was written meanwhile.
            concept = impact["structured"]["target"]
        return client.retract(
            invocation.session,
            concept,
            reason=arguments.reason,
            idempotency_key=arguments.key,
        )


VERB: Final = Verb(
    name="retract",
    summary="Remove a concept with all its edges; shows first what rests on it, then asks.",
    example='lambo retract "old login flow" --dry-run',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
