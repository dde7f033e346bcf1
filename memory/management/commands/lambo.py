"""`manage.py lambo <verb> ...`: the same command line as the console script `lambo`."""

from __future__ import annotations

import sys
from argparse import REMAINDER, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.cli.main import main


class Command(BaseCommand):
    help = "Run a verb of the lambo command line. Example: lambo stats --session shop"
    # Verbs talk to the server, which checks itself.
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Past Django's own parser, which would take `--help` and `--version` for itself."""
        sys.exit(main(argv[2:]))

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs=REMAINDER, help="the verb and its arguments")

    def handle(self, *args: Any, **options: Any) -> None:
        """For `call_command`; a failure has been told on stderr already."""
        code = main(options["words"])
        if code:
            raise CommandError("the verb failed", returncode=code)
