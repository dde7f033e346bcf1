"""The scenario `rest-api` as it is played and told: twelve writes, and what they made important.

Drives a server through the same client an agent's program would use, and reads the audit trail as
plain SQL. What is written is `demo_script`'s. Invariant: what is told depends on the scenario
alone, so two runs tell the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory.cli.demo_script import QUERY, SCHEMA, SESSION, STEPS, B, Step

if TYPE_CHECKING:
    from memory.client import LamboClient

SWEEPS: Final = 3
"""What a concept has to outlive before it may rise."""
EVALUATIONS_MAX: Final = 20


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
        "",
        *_why_lines(outcome),
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


def _why_lines(outcome: Mapping[str, Any]) -> list[str]:
    """Why the last agent is told what it is told."""
    return [
        f"Why {B} is told this:",
        f"  '{outcome['focus']}' comes first: it holds the words of the question, and it is "
        "canonical.",
        f"  {outcome['blast_radius']} concepts rest on it, so the first line is a warning: what "
        "changes it changes them.",
        "  Of the others, some share words with the question, and some came along an edge. Those "
        "that another agent has just written say so.",
    ]


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
