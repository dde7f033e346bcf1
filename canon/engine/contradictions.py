"""Which concepts are contradicted: somebody declared so, after everything that holds them up.

A concept is contradicted while another one's Contradicts edge to it is dated strictly later than
the concept's own origin and than its latest eligible dependent evidence. Evidence is one piece per
dependence edge, dated by that edge; it counts once it was written a while ago, never from the
concept's own origin, never written by the agent that declared the contradiction, never declared by
the contradicting concept. Dates are claimed times: a gate time, pulled back to its write.

A contradiction changes no status by itself. What it may lead to is `supersession`'s business.

Invariant: one answer per contradicted concept, the newest declaration that stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from canon.engine.evidence import dependence
from canon.engine.gate_times import claimed_time, edge_claimed_times
from canon.engine.settings import CanonSettings
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE
from memory.engine.times import Micros
from memory.engine.types import EdgeType, NodeId

CONTRADICTS: Final = EDGE_TYPE_CODE[EdgeType.CONTRADICTS]
EVIDENCE_MIN_AGE: Final[Micros] = CanonSettings().edge_min_age


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Concept `node_id` is contradicted by concept `by`, declared by `writer` at an instant.

    `writer` is the first writer of the edge or, where that is not known, the origin agent of `by`.
    """

    node_id: NodeId
    by: NodeId
    writer: str
    at: Micros


class Declaration(NamedTuple):
    """A Contradicts edge into a concept: rows of the contradictor and of the edge, and its date."""

    by: int
    edge: int
    at: Micros


class _Evidence(NamedTuple):
    at: Micros
    writer: str
    dependent: int


def declarations(graph: Graph, row: int) -> list[Declaration]:
    """What others declared against a concept, by id of the contradictor."""
    kinds, sources = graph.edges["type"], graph.edges["source"]
    edges = [
        edge
        for edge in graph.concepts.arriving[row]
        if kinds[edge] == CONTRADICTS and sources[edge] != row
    ]
    dates = edge_claimed_times(graph, np.array(edges, dtype=np.int64)).tolist()
    found = [
        Declaration(int(sources[edge]), edge, at) for edge, at in zip(edges, dates, strict=True)
    ]
    return sorted(found, key=lambda one: graph.id_at(one.by))


def rows_declared_against(graph: Graph) -> Array:
    """Rows of the concepts that some other concept contradicts, ascending, (n,) int64."""
    edges = graph.edges
    is_declaration = (edges["type"][: edges.used] == CONTRADICTS) & edges.live[: edges.used]
    rows = np.flatnonzero(is_declaration)
    targets = edges["target"][rows]
    found: Array = np.unique(targets[targets != edges["source"][rows]]).astype(np.int64)
    return found


def find_contradictions(
    graph: Graph, now: Micros, *, edge_min_age: Micros = EVIDENCE_MIN_AGE
) -> list[Contradiction]:
    """The contradictions that stand, one for each contradicted concept, by id of that concept."""
    rows = sorted(rows_declared_against(graph).tolist(), key=graph.id_at)
    return contradictions_of(graph, rows, now, edge_min_age=edge_min_age)


def contradictions_of(
    graph: Graph, rows: Sequence[int], now: Micros, *, edge_min_age: Micros = EVIDENCE_MIN_AGE
) -> list[Contradiction]:
    """The contradictions that stand against some of `rows`, in their order."""
    evidence = _eligible_evidence(graph, rows, now - edge_min_age)
    found = [_newest_standing(graph, row, held) for row, held in zip(rows, evidence, strict=True)]
    return [contradiction for contradiction in found if contradiction is not None]


def _eligible_evidence(graph: Graph, rows: Sequence[int], cutoff: Micros) -> list[list[_Evidence]]:
    """What was written by the cutoff to hold each concept up, newest first."""
    owner, edge, dependent = dependence(graph, rows)
    origins = graph.concepts["origin"]
    own_origin = origins[np.asarray(rows, dtype=np.int64)[owner]]
    kept = (graph.edges["created_at"][edge] <= cutoff) & (origins[dependent] != own_origin)
    owner, edge, dependent = owner[kept], edge[kept], dependent[kept]
    found: list[list[_Evidence]] = [[] for _ in rows]
    dates = edge_claimed_times(graph, edge)
    for place in np.argsort(-dates, kind="stable").tolist():
        writer = graph.edges.created_by[edge[place]]
        piece = _Evidence(int(dates[place]), writer, int(dependent[place]))
        found[owner[place]].append(piece)
    return found


def _newest_standing(graph: Graph, row: int, evidence: Sequence[_Evidence]) -> Contradiction | None:
    """The newest declaration that is later than all evidence, which is given newest first."""
    origin = claimed_time(graph.chain.records[graph.concepts["origin"][row]])
    declared = declarations(graph, row)
    declared.sort(key=lambda one: (-one.at, graph.key_at(one.by), graph.id_at(one.by)))
    for one in declared:
        writer = graph.edges.created_by[one.edge] or graph.concepts.origin_agents[one.by]
        if one.at > origin and not _is_answered(one, writer, evidence):
            return Contradiction(graph.id_at(row), graph.id_at(one.by), writer, one.at)
    return None


def _is_answered(declaration: Declaration, writer: str, evidence: Sequence[_Evidence]) -> bool:
    """Whether others held the concept up at the instant of the declaration, or later."""
    for piece in evidence:
        if piece.at < declaration.at:
            return False
        if piece.writer != writer and piece.dependent != declaration.by:
            return True
    return False
