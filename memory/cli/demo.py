"""`lambo demo`: two agents share a memory, on a private server that leaves nothing behind.

Owns the life of that server (a temporary folder, a spare port, the demo profile) and what is shown.
Drives it through the same client an agent's program would use, and reads the audit trail as plain
SQL. Invariant: the output depends on the scenario alone, so two runs print the same bytes.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
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
SWEEPS: Final = 3
"""What a concept has to outlive before it may rise."""
EVALUATIONS_MAX: Final = 20
DATABASE_FILE: Final = "lambo.sqlite3"
POLL_SECONDS: Final = 0.02


def add_arguments(_parser: ArgumentParser) -> None:
    """No arguments: the scenario is fixed."""


def run(_arguments: Namespace, _invocation: Invocation) -> Answer:
    from memory.client import LamboClient

    print("lambo demo: starting a private server in a temporary folder", file=sys.stderr)
    with private_server() as server:
        with LamboClient(server.url, operator_secret=server.operator_secret) as client:
            outcome = play(client)
        outcome |= read_trail(server.database)
    return {
        "text": transcript(outcome),
        "structured": outcome,
        "warnings": [],
        "idempotency_key": None,
        "replayed": False,
    }


# -- the private server ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrivateServer:
    """Where the demo's server answers, what opens the acts of people, and where it keeps rows."""

    url: str
    operator_secret: str
    database: Path


@contextmanager
def private_server() -> Iterator[PrivateServer]:
    """A server with the demo profile; afterwards it and its folder are gone."""
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
            url = find_or_start_server(data_dir, env=env, command=command).url
            published = DataFolder(data_dir).find_runtime()
            assert published is not None, "a server that answers has published itself"
            yield PrivateServer(url, published.operator_secret, data_dir / DATABASE_FILE)
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
    steps_of_status = let_importance_grow(client)
    client.close_session(SESSION)
    recalled = client.recall(SESSION, QUERY, agent_id=B)
    inspected = client.inspect(SESSION, SCHEMA, depth=0, agent_id=B)
    stats = client.stats(SESSION)["structured"]
    admission = inspected["structured"]["admission"]
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
        "distinct": admission["distinct"],
        "coverage": round(admission["coverage"], 3),
        "steps_of_status": steps_of_status,
        "query": QUERY,
        "context": recalled["structured"]["context"],
        "warnings": recalled["structured"]["warnings"],
    }


def let_importance_grow(client: LamboClient) -> int:
    """Sweep often enough, then evaluate until nothing moves; how many steps of a status it took.

    The server does both by itself as time passes; here the demo asks, so that no run depends on
    how fast a machine is.
    """
    for _ in range(SWEEPS):
        client.run_job("collect", session=SESSION, force=True)
    taken = 0
    for _ in range(EVALUATIONS_MAX):
        did = client.run_job("evaluate", session=SESSION, force=True)["structured"]["did"]
        moved = did.get("promoted", 0) + did.get("demoted", 0)
        taken += int(moved)
        if not moved:
            break
    return taken


def read_trail(database: Path) -> dict[str, Any]:
    """Who stands where, and how it came to that: from the views that plain SQL may read."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as rows:
        statuses = rows.execute(
            "SELECT status, content FROM lambo_v_concepts WHERE session_id = ? ORDER BY content",
            [SESSION],
        ).fetchall()
        transitions = rows.execute(
            "SELECT concept.content, audit.from_status, audit.to_status, audit.blast_radius"
            " FROM lambo_v_audit audit JOIN lambo_v_concepts concept"
            " ON concept.session_id = audit.session_id AND concept.id = audit.node_id"
            " WHERE audit.session_id = ? AND audit.kind = 'transition' ORDER BY audit.id",
            [SESSION],
        ).fetchall()
    by_status = {
        status.lower(): [content for held, content in statuses if held == status]
        for status in ("Canonical", "Venerable", "Candidate")
    }
    names = ("concept", "from", "to", "blast_radius")
    return by_status | {
        "audit_rows": len(transitions),
        "transitions": [dict(zip(names, row, strict=True)) for row in transitions],
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
        *_ladder_lines(outcome),
        "",
        f"{B} asks: {outcome['query']}",
        "",
        outcome["context"],
    ]
    return "\n".join(lines)


def _ladder_lines(outcome: Mapping[str, Any]) -> list[str]:
    """What became important, and by which evidence."""
    lines = [
        f"Nobody said what matters. After {SWEEPS} sweeps and {outcome['audit_rows']} steps, each "
        "with its audit row, the evidence says:"
    ]
    for status in ("canonical", "venerable", "candidate"):
        lines.append(f"  {status:<10} {', '.join(outcome[status]) or '-'}")
    lines.append(
        f"  '{outcome['focus']}' is cited from {outcome['distinct']} other interactions, over "
        f"{outcome['coverage']:.3f} of the session."
    )
    return lines


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
