"""`lambo demo`: two agents share a memory, on a private server that leaves nothing behind.

Owns the life of that server (a temporary folder, a spare port, the demo profile) and what is shown.
Drives it through the same client an agent's program would use. Invariant: the output depends on the
scenario alone, so two runs print the same bytes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from memory.cli.demo_script import QUERY, SCHEMA, SESSION, STEPS, B, Step
from memory.cli.verb import Invocation, Verb, show_text
from memory.demo_profile import DEMO_VARIABLE

if TYPE_CHECKING:
    from memory.client import Answer, LamboClient

IDLE_MINUTES: Final = 1
"""Should this process be killed, its server ends by itself."""
STOP_SECONDS_MAX: Final = 20.0
POLL_SECONDS: Final = 0.02


def add_arguments(_parser: ArgumentParser) -> None:
    """No arguments: the scenario is fixed."""


def run(_arguments: Namespace, _invocation: Invocation) -> Answer:
    from memory.client import LamboClient

    print("lambo demo: starting a private server in a temporary folder", file=sys.stderr)
    with private_server() as url, LamboClient(url) as client:
        outcome = play(client)
    return {
        "text": transcript(outcome),
        "structured": outcome,
        "warnings": [],
        "idempotency_key": None,
        "replayed": False,
    }


# -- the private server ----------------------------------------------------------------------------


@contextmanager
def private_server() -> Iterator[str]:
    """The address of a server with the demo profile; afterwards it and its folder are gone."""
    from memory.cli.launcher import SERVE_COMMAND, find_or_start_server
    from memory.data_folder import DataFolder

    with TemporaryDirectory(prefix="lambo-demo-") as name:
        folder = Path(name).resolve()
        data_dir = folder / "data"
        config = folder / "lambo.toml"
        config.touch()
        command = [*SERVE_COMMAND[:-1], str(IDLE_MINUTES)]
        try:
            env = demo_environment(os.environ, data_dir, config)
            yield find_or_start_server(data_dir, env=env, command=command).url
        finally:
            if (pid := DataFolder(data_dir).find_holder()) is not None:
                _stop(pid)


def demo_environment(environ: Mapping[str, str], data_dir: Path, config: Path) -> dict[str, str]:
    """The variables of the private server: none of the user's settings, no configuration file."""
    kept = {name: text for name, text in environ.items() if not name.startswith("LAMBO_")}
    return kept | {
        "LAMBO_DATA_DIR": str(data_dir),
        "LAMBO_CONFIG": str(config),
        "LAMBO_PORT": str(_spare_port()),
        DEMO_VARIABLE: "1",
    }


def _spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop(pid: int) -> None:
    """End our child in order, and by force if it will not."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGTERM)
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(POLL_SECONDS)


# -- the scenario ----------------------------------------------------------------------------------


def play(client: LamboClient) -> dict[str, Any]:
    """Carry the scenario out and collect what it came to."""
    steps = []
    previous = STEPS[0].agent
    for number, step in enumerate(STEPS, start=1):
        if step.agent != previous:
            # Put away and opened again: the next agent reads what the store holds.
            client.close_session(SESSION)
            previous = step.agent
        answer = client.call(SESSION, step.verb, step.arguments, agent_id=step.agent)
        steps.append(_outcome_of(number, step, answer["structured"]))
    client.close_session(SESSION)
    recalled = client.recall(SESSION, QUERY, agent_id=B)
    inspected = client.inspect(SESSION, SCHEMA, depth=0, agent_id=B)
    stats = client.stats(SESSION)["structured"]
    return {
        "session": SESSION,
        "interactions": stats["interaction_count"],
        "concepts": stats["concept_count"],
        "edges": stats["edge_count"],
        "edges_by_type": stats["edges_by_type"],
        "concepts_by_type": stats["concepts_by_type"],
        "steps": steps,
        "focus": SCHEMA,
        "blast_radius": inspected["structured"]["focus"]["blast_radius"],
        "query": QUERY,
        "context": recalled["structured"]["context"],
    }


def _outcome_of(number: int, step: Step, structured: Mapping[str, Any]) -> dict[str, Any]:
    head = {"step": number, "agent": step.agent, "verb": step.verb}
    created = {"created": len(structured["created"])}
    if step.verb == "derive":
        return head | created | {"matched": len(structured["matched"])}
    return head | created | {"edges": structured["edges"]}


# -- the transcript --------------------------------------------------------------------------------


def transcript(outcome: Mapping[str, Any]) -> str:
    """The whole story as text."""
    lines = [f"Two agents build one REST API in the session '{outcome['session']}'.", ""]
    agent = ""
    for step, told in zip(STEPS, outcome["steps"], strict=True):
        if step.agent != agent:
            agent = step.agent
            lines.append(f"{agent}")
        lines += _step_lines(step, told)
    edges = sorted(outcome["edges_by_type"].items(), key=lambda entry: (-entry[1], entry[0]))
    shown = ", ".join(f"{name} {count}" for name, count in edges)
    lines += [
        "",
        f"The memory now holds {outcome['interactions']} interactions, {outcome['concepts']} "
        f"concepts and {outcome['edges']} edges:",
        f"  {shown}",
        "",
        f"{outcome['blast_radius']} concepts rest on '{outcome['focus']}': what a change to it "
        "would touch.",
        "",
        f"{B} asks: {outcome['query']}",
        "",
        outcome["context"],
    ]
    return "\n".join(lines)


def _step_lines(step: Step, told: Mapping[str, Any]) -> list[str]:
    arguments = step.arguments
    if step.verb == "derive":
        what = ", ".join(concept["content"] for concept in arguments["concepts"])
        came_to = f"{told['created']} created, {told['matched']} matched"
        under = [f"       all under {pair['parent']}" for pair in arguments.get("parent_of", [])]
        return [f"  {told['step']:>2}. learns {what}", *under[:1], f"       -> {came_to}"]
    touched = [*arguments.get("produces", ()), *arguments.get("modifies", ())]
    return [
        f"  {told['step']:>2}. {arguments['action']} ({', '.join(touched)})",
        f"       resting on {', '.join(arguments['depends_on'])}",
        f"       -> {told['created']} created, {told['edges']} new edges",
    ]


VERB: Final = Verb(
    name="demo",
    summary="Watch two agents build up a shared memory.",
    example="lambo demo",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
    note="Starts a server of its own in a temporary folder and removes both afterwards.",
    uses_server=False,
)
