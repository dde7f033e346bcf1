"""`manage.py mcp --session S [--agent NAME]`: the stdio bridge that an MCP client starts."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """One door to the bridge; `lambo mcp` need not load Django for it."""

    help = "Serve the tools of one session over stdin and stdout. Example: mcp --session shop"
    # Checks would open the database, which belongs to the server, and cost a second.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        from mcp_bridge.stdio import add_arguments

        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        # First: it also saves from the protocol what Django's start-up has printed and not yet
        # flushed. An unbuffered print in settings can only be caught by a claim in manage.py.
        from mcp_bridge.protocol_pipes import claim_stdio

        claim_stdio()

        from mcp_bridge.stdio import run_bridge
        from memory.cli.connection import find_data_dir, find_token, server_environment

        nothing = Namespace()
        run_bridge(
            options["session"],
            options["agent"],
            find_data_dir(nothing, os.environ),
            server_environment(nothing, os.environ),
            find_token(Namespace(token=options["token"]), os.environ),
        )
