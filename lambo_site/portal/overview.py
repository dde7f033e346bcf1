"""What goes on in a session, as lists: what most rests on, what needs attention, who wrote what.

Owns the choice and the order of the rows; every number is the graph's, every warning the cycles'.
The wording of a finding is the one a recall shows.

Invariant: each list is bounded by `PORTAL_ROWS`, and none of the steps over a large session holds
the event loop for long: `count_agents` and `find_near` pause between slices.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import numpy as np

from canon.cycles import CanonSessionCycles
from canon.engine.hot_list import Condition, Hit
from lambo_site.hot_entries import shown_line
from lambo_site.portal.graph_export import label_of
from memory.engine.errors import ConceptNotFound
from memory.engine.graph import Graph
from memory.engine.limits import PORTAL_JUDGED, PORTAL_ROWS
from memory.engine.requests import InspectRequest
from memory.engine.reservations import is_active
from memory.engine.rules import STATUS_CODE
from memory.engine.showing import in_passing
from memory.engine.times import Micros, format_rfc3339
from memory.engine.types import NodeId, Status
from memory.service.view import MemoryView

AGENTS_SLICE: Final = 20_000
"""Interactions counted between two pauses."""


def most_depended_on(graph: Graph, *, most: int = PORTAL_ROWS) -> list[dict[str, Any]]:
    """The concepts that most others rest on, those with none left out."""
    rows = graph.concepts.live_rows()
    held = graph.concepts["dependents"][rows]
    rows, held = rows[held > 0], held[held > 0]
    order = np.lexsort((rows, -held))[:most]
    return [_concept(graph, row) for row in rows[order].tolist()]


def list_reservations(graph: Graph, now: Micros) -> list[dict[str, Any]]:
    """Locks that hold now, the next to expire first."""
    held = [one for one in graph.reservations() if is_active(one, now)]
    held.sort(key=lambda one: one.expires_at)
    return [
        {
            "node_id": one.node_id,
            "content": _name(graph, one.node_id),
            "agent_id": one.agent_id,
            "expires_at": format_rfc3339(one.expires_at),
        }
        for one in held[:PORTAL_ROWS]
    ]


def list_findings(view: MemoryView, now: Micros) -> list[dict[str, Any]]:
    """What the background cycles found and still holds, the most severe first."""
    cycles, graph = view.cycles, view.graph
    if not isinstance(cycles, CanonSessionCycles):
        return []
    hot, found = cycles.hot(graph, now), list[Hit]()
    for node_id in hot.node_ids():
        found += hot.entries(node_id)
        if len(found) >= PORTAL_ROWS:
            break
    found.sort(key=lambda hit: (-hit.severity, -hit.at, hit.node_id))
    return [
        {
            "node_id": hit.node_id,
            "content": _name(graph, hit.node_id),
            "condition": str(hit.condition),
            "severity": hit.severity,
            "line": _line(graph, hit, now),
            "agents": list(hit.agents),
            "at": format_rfc3339(hit.at),
        }
        for hit in found[:PORTAL_ROWS]
    ]


async def count_agents(graph: Graph) -> list[dict[str, Any]]:
    """Who wrote how much, the last to write first."""
    calls, last = Counter[str](), dict[str, Micros]()
    records = graph.chain.records
    for start in range(0, len(records), AGENTS_SLICE):
        for one in records[start : start + AGENTS_SLICE]:
            calls[one.agent_id] += 1
            last[one.agent_id] = one.created_at
        await asyncio.sleep(0)
    made = Counter(graph.concepts.origin_agents[row] for row in graph.concept_rows())
    order = sorted(calls, key=lambda agent: -last[agent])[:PORTAL_ROWS]
    return [
        {
            "agent_id": agent,
            "writes": calls[agent],
            "concepts": made[agent],
            "last_at": format_rfc3339(last[agent]),
        }
        for agent in order
    ]


async def find_near(view: MemoryView) -> dict[str, Any]:
    """Which of the most depended on concepts lack one gate to their next status, and which."""
    graph = view.graph
    rows = graph.concepts.live_rows()
    may_rise = graph.concepts["status"][rows] != STATUS_CODE[Status.CANONICAL]
    rows = rows[may_rise & (graph.concepts["dependents"][rows] > 0)]
    order = np.lexsort((rows, -graph.concepts["dependents"][rows]))[:PORTAL_JUDGED]
    near: list[dict[str, Any]] = []
    judged = [graph.id_at(row) for row in rows[order].tolist()]
    for node_id in judged:
        try:
            reply = await view.inspect(InspectRequest(node_id, 0))
        except ConceptNotFound:
            continue  # collected since
        finally:
            await asyncio.sleep(0)
        admission, row = reply.structured["admission"], graph.row_of(node_id)
        if admission is None or row is None:
            continue
        missing = [check for check in admission["checks"] if not check["met"]]
        if len(missing) <= 1:
            gate = missing[0] if missing else None
            near.append(
                {
                    **_concept(graph, row),
                    "next_status": admission["next_status"],
                    "gate": None if gate is None else gate["gate"],
                    "sentence": None if gate is None else gate["sentence"],
                }
            )
    return {"near": near, "judged": len(judged)}


def _concept(graph: Graph, row: int) -> dict[str, Any]:
    return {
        "node_id": graph.id_at(row),
        "content": label_of(graph, row),
        "concept_type": str(graph.type_at(row)),
        "status": str(graph.status_at(row)),
        "agent_id": graph.concepts.origin_agents[row],
        "dependents": graph.blast_radius(row),
    }


def _line(graph: Graph, hit: Hit, now: Micros) -> str:
    if hit.condition is Condition.CONTRADICTION:
        assert hit.by is not None
        return f"{hit.writer} wrote against it: {_name(graph, hit.by)}"
    line = shown_line(hit, now)
    assert line is not None
    return line


def _name(graph: Graph, node_id: NodeId) -> str:
    """What a node says, or its id where it is no concept."""
    row = graph.row_of(node_id)
    return in_passing(node_id) if row is None else label_of(graph, row)
