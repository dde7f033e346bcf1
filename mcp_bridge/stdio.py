"""The stdio bridge: what an MCP client starts, `lambo mcp --session S [--agent NAME]`.

Owns the run loop that joins three things: clean pipes, the SDK's server, and a forwarder to the
process that holds the memory. Holds no graph, opens no database and needs no Django, so it starts
fast and may be killed at any moment.

Invariant: stdout carries JSON-RPC lines and nothing else, in UTF-8, whatever the locale.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mcp_bridge.forwarding import Forwarder, machine_agent_name
from mcp_bridge.json_lines import json_line_streams
from mcp_bridge.protocol_pipes import ProtocolPipes, claim_stdio
from mcp_bridge.server import AgentNamer, build_server
from mcp_bridge.tools import SESSION_DEFAULT, ToolSpec, tool_specs
from memory.cli.connection import find_data_dir, find_token, server_environment
from memory.cli.launcher import find_or_start_server
from memory.client import Address, AsyncLamboClient, Retries
from memory.verbs import VERBS
from memory.version import VERSION

PATIENCE_SECONDS: Final = 20.0
"""How long a call is repeated before its caller is told. MCP clients give up after 30 to 60."""


async def serve_stdio(
    forwarder: Forwarder,
    tools: Sequence[ToolSpec],
    session: str,
    agent: str | AgentNamer | None,
    pipes: ProtocolPipes,
) -> None:
    """Serve one client until it closes its end; calls under way are answered first."""
    server = build_server(
        forwarder.dispatch, tools, session, agent or machine_agent_name, version=VERSION
    )
    finding = asyncio.create_task(forwarder.prefetch())
    try:
        async with json_line_streams(pipes) as (inbound, outbound):
            await server.run(inbound, outbound, server.create_initialization_options())
    finally:
        finding.cancel()
        await asyncio.gather(finding, return_exceptions=True)
        await forwarder.aclose()


def local_forwarder(data_dir: Path, env: Mapping[str, str], token: str | None = None) -> Forwarder:
    """A forwarder to the server of a data folder; `env` is for one that has to be started."""

    def find() -> str:
        return find_or_start_server(data_dir, env=env).url

    def connect(url: str) -> AsyncLamboClient:
        # An address without the operator secret: the bridge speaks for agents.
        return AsyncLamboClient(
            url,
            retries=Retries(patience_seconds=PATIENCE_SECONDS),
            locate=lambda: Address(find()),
            token=token,
        )

    return Forwarder(find, connect)


def run_bridge(
    session: str,
    agent: str | None,
    data_dir: Path,
    env: Mapping[str, str],
    token: str | None = None,
) -> None:
    """Serve the client at this process's stdin and stdout until it leaves."""
    pipes = claim_stdio()
    for name in ("httpx", "mcp"):
        # One line for every call at INFO, in a log that nobody keeps.
        logging.getLogger(name).setLevel(logging.WARNING)
    forwarder = local_forwarder(data_dir, env, token)
    # A token has an agent of its own, which the server knows and this process does not.
    speaker = agent if agent or token is None else _leave_to_server
    asyncio.run(serve_stdio(forwarder, tool_specs(VERBS), session, speaker, pipes))


def _leave_to_server(_client_name: str | None) -> None:
    return None


def add_arguments(parser: ArgumentParser) -> None:
    """The options of the command, whichever door it is started by."""
    parser.add_argument("--session", default=SESSION_DEFAULT, help="the session to work in")
    parser.add_argument(
        "--agent", help="the agent to speak for (default: the client's name and this machine)"
    )
    parser.add_argument(
        "--token", help="the token to show (default: LAMBO_TOKEN, which others cannot see)"
    )


def main(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """The door that does not load Django. Claim the pipes before importing this module."""
    parser = ArgumentParser(
        prog="lambo mcp",
        description="Serve the tools of one session over stdin and stdout.",
        epilog="example: lambo mcp --session shop --agent ann",
    )
    add_arguments(parser)
    options = parser.parse_args(argv)
    run_bridge(
        options.session,
        options.agent,
        find_data_dir(Namespace(), environ),
        server_environment(Namespace(), environ),
        find_token(options, environ),
    )
