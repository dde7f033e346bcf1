#!/usr/bin/env python
"""Django's entry point; `lambo` reaches the same commands."""

import os
import sys


def main() -> None:
    """Run a management command."""
    if sys.argv[1:2] == ["mcp"]:
        # Stdout carries the protocol: taken before anything that Django loads may print to it.
        from mcp_bridge.protocol_pipes import claim_stdio

        claim_stdio()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lambo_site.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
