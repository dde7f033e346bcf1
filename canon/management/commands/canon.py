"""`lambo canon ...`: look into promotions, try policies out, check the audit trail.

Owns the registry of subcommands and their exit codes: 0 done, 1 it failed while running, 2 the
command line makes no sense. What each does is its own module's business.
"""

from __future__ import annotations

import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandParser

from canon.management import aliases, dry_run, inspection, suspected, verification
from canon.management.subcommand import Subcommand, prepare
from memory.cli.main import DONE, INTERRUPTED, report
from memory.engine.errors import LamboError

SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {
    subcommand.name: subcommand
    for subcommand in (
        dry_run.SUBCOMMAND,
        inspection.SUBCOMMAND,
        suspected.SUBCOMMAND,
        aliases.SUBCOMMAND,
        verification.SUBCOMMAND,
    )
}
"""Every word that may stand after `canon`."""


class Command(BaseCommand):
    help = "Look into promotions, and try policies out. Example: lambo canon dry-run --policy all"
    # Checks would open databases for writing, which belong to the server.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
        for subcommand in SUBCOMMANDS.values():
            prepare(
                acts.add_parser(
                    subcommand.name,
                    help=subcommand.summary,
                    description=subcommand.summary,
                    epilog=f"example:\n  {subcommand.example}",
                    formatter_class=RawDescriptionHelpFormatter,
                    # A new option must never change what an old script's short form means.
                    allow_abbrev=False,
                ),
                subcommand,
            )

    def handle(self, *_args: Any, **options: Any) -> None:
        subcommand = SUBCOMMANDS[options["subcommand"]]
        try:
            code = subcommand.run(options)
        except LamboError as error:
            code = report(f"lambo canon {subcommand.name}", error)
        except KeyboardInterrupt:
            print(f"lambo canon {subcommand.name}: interrupted", file=sys.stderr)
            code = INTERRUPTED
        if code != DONE:
            sys.exit(code)
