"""The process under test in `test_stdio.py`: the management command, with no server to be found.

With `--claim-first` it does what `manage.py` does for this command before it imports Django.
"""

import os
import sys

if "--claim-first" in sys.argv:
    sys.argv.remove("--claim-first")
    from mcp_bridge.protocol_pipes import claim_stdio

    claim_stdio()

from collections.abc import Mapping
from pathlib import Path

from django.core.management import execute_from_command_line

import mcp_bridge.stdio
from mcp_bridge.forwarding import Forwarder, VerbClient


def find_server() -> str:
    raise OSError("no server here")


def connect(url: str) -> VerbClient:
    raise AssertionError("there is nothing to connect to")


def no_server(data_dir: Path, env: Mapping[str, str], token: str | None = None) -> Forwarder:
    print(f"the data folder is {data_dir}")
    return Forwarder(find_server, connect)


mcp_bridge.stdio.local_forwarder = no_server
os.environ["DJANGO_SETTINGS_MODULE"] = "surface.mcp.printing_settings"
execute_from_command_line(["manage.py", *sys.argv[1:]])
