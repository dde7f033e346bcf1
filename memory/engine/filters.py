"""Which concepts a filter accepts, and the pages of those.

Knows nothing of questions: what answers best is recall's. Pure.

Invariant: pages follow the instant a concept was first written, then its id. Neither ever changes,
so whatever is written between two pages, no concept comes twice and none that stays is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.engine.graph import Graph
from memory.engine.requests import ConceptFilter, ConceptsRequest, Match
from memory.engine.rules import STATUS_CODE, TYPE_CODE
from memory.engine.showing import cut, one_line
from memory.engine.times import Micros, format_rfc3339
from memory.engine.types import Concept, Status


def accepted_rows(graph: Graph, wanted: ConceptFilter) -> NDArray[np.bool_]:
    """Whether each concept row is accepted, (capacity,) bool; rows not in use never are."""
    table = graph.concepts
    conditions: list[NDArray[np.bool_]] = []
    if wanted.types:
        conditions.append(np.isin(table["type"], [TYPE_CODE[kind] for kind in wanted.types]))
    if wanted.statuses:
        codes = [STATUS_CODE[status] for status in wanted.statuses]
        conditions.append(np.isin(table["status"], codes))
    if wanted.agents:
        agents = frozenset(wanted.agents)
        by_agent = np.zeros(table.live.size, dtype=np.bool_)
        by_agent[: table.used] = [agent in agents for agent in table.origin_agents[: table.used]]
        conditions.append(by_agent)
    if wanted.since is not None or wanted.until is not None:
        conditions.append(_is_within(table["created_at"], wanted.since, wanted.until))
    if not conditions:
        return table.live.copy()
    join = np.logical_and if wanted.match is Match.ALL else np.logical_or
    joined: NDArray[np.bool_] = join.reduce(conditions)
    return table.live & joined


def _is_within(
    times: NDArray[np.int64], since: Micros | None, until: Micros | None
) -> NDArray[np.bool_]:
    within = np.ones(times.size, dtype=np.bool_)
    if since is not None:
        within &= times >= since
    if until is not None:
        within &= times < until
    return within


@dataclass(frozen=True, slots=True)
class ConceptPage:
    """Some concepts in the order of pages. `following` asks for the next page; None at the end."""

    concepts: tuple[Concept, ...]
    following: str | None

    @property
    def text(self) -> str:
        lines = [
            f"{concept.id}  {one_line(cut(concept.content))} [{_traits(concept)}]"
            for concept in self.concepts
        ]
        return "\n".join(lines) or "no concepts"

    def as_wire(self) -> dict[str, Any]:
        count = len(self.concepts)
        return {
            "summary": f"{count} concept{'' if count == 1 else 's'}",
            "concepts": [_as_wire(concept) for concept in self.concepts],
            "next": self.following,
            "warnings": [],
        }


def list_concepts(graph: Graph, request: ConceptsRequest) -> ConceptPage:
    """The first `limit` accepted concepts behind the page before."""
    rows = np.flatnonzero(accepted_rows(graph, request.wanted))
    written = graph.concepts["created_at"][rows]
    place = request.place()
    if place is not None:
        instant, last_id = place
        is_behind = written > instant
        tied = np.flatnonzero(written == instant)
        is_behind[tied] = [graph.id_at(row) > last_id for row in rows[tied].tolist()]
        rows, written = rows[is_behind], written[is_behind]
    if rows.size > request.limit:
        # All that tie for the last place: ids decide among them.
        near = written <= np.partition(written, request.limit)[request.limit]
        rows = rows[near]
    times = graph.concepts["created_at"]
    ordered = sorted(rows.tolist(), key=lambda row: (int(times[row]), graph.id_at(row)))
    shown = tuple(graph.concept_at(row) for row in ordered[: request.limit])
    has_more = len(ordered) > request.limit
    return ConceptPage(shown, f"{shown[-1].created_at}.{shown[-1].id}" if has_more else None)


def _traits(concept: Concept) -> str:
    standing = "" if concept.status is Status.NONE else f", {concept.status.lower()}"
    return f"{concept.concept_type}{standing}, by {one_line(concept.origin_agent)}"


def _as_wire(concept: Concept) -> dict[str, Any]:
    return {
        "node_id": concept.id,
        "content": cut(concept.content),
        "concept_type": str(concept.concept_type),
        "status": str(concept.status),
        "agent_id": concept.origin_agent,
        "created_at": format_rfc3339(concept.created_at),
    }
