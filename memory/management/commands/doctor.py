"""`lambo doctor`: looks at a server, its store and its surroundings, and says what to do.

Owns the command's one option and its exit code: 0 where nothing is a problem, else 1. What is
looked at is `memory.management.doctor`.
"""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from memory.management.doctor import check_up, print_report


class Command(BaseCommand):
    help = "Say what is wrong and what to do; writes nothing. Example: lambo doctor --json"
    # Checks would open databases for writing, which belong to the server.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        report = check_up(settings.PROCESS)
        print_report(report, as_json=options["json"])
        if report.exit_code:
            sys.exit(report.exit_code)
