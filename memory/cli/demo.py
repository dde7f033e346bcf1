"""`lambo demo`: two agents share a memory, on a private server that leaves nothing behind.

Owns the choice of the scenario, and the time a person may look around before the server ends. What
is played stands in a module for each scenario. Invariant: the output depends on the scenario alone,
so two runs print the same bytes.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from memory.cli import demo_cloud_ops, demo_rest_api
from memory.cli.demo_server import (
    IDLE_MINUTES,
    IDLE_MINUTES_STAYING,
    PrivateServer,
    private_server,
)
from memory.cli.verb import Invocation, UsageError, Verb, ask_person, show_text

if TYPE_CHECKING:
    from memory.client import Answer, LamboClient

REST_API: Final = "rest-api"
CLOUD_OPS: Final = "cloud-ops"
GONE: Final = "The demo's server and its folder are gone."


def _play_rest_api(client: LamboClient, server: PrivateServer) -> dict[str, Any]:
    return demo_rest_api.play(client) | demo_rest_api.read_trail(server.database)


def _play_cloud_ops(client: LamboClient, _server: PrivateServer) -> dict[str, Any]:
    return demo_cloud_ops.play(client)


Play = Callable[["LamboClient", PrivateServer], dict[str, Any]]
Tell = Callable[[Mapping[str, Any]], str]

SCENARIOS: Final[Mapping[str, tuple[Play, Tell]]] = {
    REST_API: (_play_rest_api, demo_rest_api.transcript),
    CLOUD_OPS: (_play_cloud_ops, demo_cloud_ops.transcript),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        nargs="?",
        choices=list(SCENARIOS),
        help=f"{' or '.join(SCENARIOS)} (default: {REST_API})",
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="keep the server until you press Enter, so that you can look around in it",
    )


def run(arguments: Namespace, _invocation: Invocation) -> Answer:
    from memory.client import LamboClient

    stays: bool = arguments.stay
    if stays and getattr(arguments, "json", False):
        raise UsageError("--stay waits for a person; say either that or --json")
    play, tell = SCENARIOS[arguments.scenario or REST_API]
    print("lambo demo: starting a private server in a temporary folder", file=sys.stderr)
    with private_server(idle_minutes=IDLE_MINUTES_STAYING if stays else IDLE_MINUTES) as server:
        with LamboClient(server.url, operator_secret=server.operator_secret) as client:
            outcome = play(client, server)
        text = tell(outcome)
        if stays:
            print(text, flush=True)
            _wait_at(server.url)
            text = f"\n{GONE}"
    return {
        "text": text,
        "structured": outcome,
        "warnings": [],
        "idempotency_key": None,
        "replayed": False,
    }


def _wait_at(url: str) -> None:
    """Until a person has looked around; not at all where nobody sits at a terminal."""
    print(f"\nlambo demo: look around at {url}/", file=sys.stderr)
    if ask_person("lambo demo: press Enter to end it ") is None:
        print("lambo demo: nobody is at a terminal, so it ends now", file=sys.stderr)


VERB: Final = Verb(
    name="demo",
    summary="Watch two agents build up a shared memory.",
    example="lambo demo cloud-ops",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
    note="Starts a server of its own in a temporary folder and removes both afterwards.",
    uses_server=False,
)
