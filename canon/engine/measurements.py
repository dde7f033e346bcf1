"""What is known of a concept when its next step is judged, measured once.

Gates, explanations and audit rows all read these records, so none of them can disagree about a
number. Owns putting the counts of `evidence`, `quorum` and `solo` together under one set of
circumstances; knows no bar and gives no verdict.

Invariant: a measurement looks at the graph as it stands; nothing in it is remembered from before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from canon.engine.evidence import Pieces, count_distinct, coverage, gather, spans
from canon.engine.gate_times import Timeline
from canon.engine.quorum import AgentCodes, Backing, count_by_quorum
from canon.engine.settings import CanonSettings, Policy
from canon.engine.solo import count_supports_by_session, solo_score
from memory.engine.columns import Array
from memory.engine.concept_table import cell_time
from memory.engine.graph import Graph
from memory.engine.rules import STATUSES, TYPES
from memory.engine.times import Micros
from memory.engine.types import ConceptType, NodeId, Status

DEPENDENTS_SHOWN: Final = 20
"""Dependents named in an audit row or an explanation; the total stands beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """When and by which rules concepts are judged.

    `confirmations` holds how often humans confirmed a concept, `token_created_at` when the
    oldest token of an agent was made, for agents with a live one. Mappings are read, never kept.
    """

    now: Micros
    settings: CanonSettings = field(default_factory=CanonSettings)
    confirmations: Mapping[NodeId, int] = field(default_factory=dict)
    token_created_at: Mapping[str, Micros] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        return self.settings.promotion_policy

    @property
    def cutoff(self) -> Micros:
        """The latest instant at which evidence is old enough."""
        return self.now - self.settings.edge_min_age


class Support(NamedTuple):
    """One dependent that counts: its edge, the interaction that first wrote it, and its agent.

    `agent_id` is the first writer of the edge. `is_distinct` tells that it counts for distinct and
    coverage too, not for the blast radius alone.
    """

    dependent: NodeId
    edge: NodeId
    interaction: NodeId
    agent_id: str
    is_distinct: bool

    def as_wire(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Measurements:
    """A concept, measured. `blast_radius` counts aged dependents, `live_radius` all of them.

    `agent_count` and `lone_agent` are of Quorum: how many agents' evidence counts, and the name if
    it is one; `is_reciprocal` tells that the concept's author holds up that agent's concepts.
    `sessions`, `reverts` and `solo_score` are of Solo. Both are empty under another policy.
    """

    row: int
    node_id: NodeId
    concept_type: ConceptType
    status: Status
    gc_survived: int
    live_radius: int
    last_demotion_time: Micros | None
    confirmations: int
    distinct: int
    coverage: float
    blast_radius: int
    agent_count: int
    support_edges: tuple[int, ...]
    """Rows of the edges that count for the blast radius, in order of writing."""
    distinct_edges: frozenset[int]
    """Of those, the ones that count for distinct and coverage."""
    lone_agent: str | None = None
    is_reciprocal: bool = False
    sessions: int = 0
    reverts: int = 0
    solo_score: float = 0.0


def measure(
    graph: Graph,
    rows: Sequence[int],
    circumstances: Circumstances,
    timeline: Timeline,
    *,
    backing: Backing | None = None,
) -> list[Measurements]:
    """Measure live concepts, in the order of `rows`. Linear in their incident edges.

    `backing` keeps what Quorum asked of the graph, for the measurements of one evaluation.
    """
    timeline.follow(graph)
    pieces = gather(graph, timeline, rows)
    return measure_pieces(graph, rows, pieces, circumstances, timeline, backing=backing)


def measure_pieces(
    graph: Graph,
    rows: Sequence[int],
    pieces: Pieces,
    circumstances: Circumstances,
    timeline: Timeline,
    *,
    backing: Backing | None = None,
) -> list[Measurements]:
    """`measure`, were `pieces`, by owner, all the evidence that `rows` have."""
    cutoff = circumstances.cutoff
    counts, credited, codes = _counting(graph, pieces, rows, circumstances)
    radius = pieces.where(pieces.is_aged(cutoff) & counts)
    is_support = pieces.is_support(cutoff) & counts
    support = pieces.where(is_support)
    count = len(rows)
    span = spans(support.owner, support.stood_from, count)
    window = circumstances.settings.coverage_window
    agents = count_distinct(support.owner, credited[is_support], count)
    columns = (
        count_distinct(support.owner, support.origin, count),
        coverage(span, timeline.extent, window),
        count_distinct(radius.owner, radius.dependent, count),
        agents if codes is not None else np.zeros(count, dtype=np.int64),
    )
    measured = [
        Measurements(*cells)
        for cells in zip(
            *_cells(graph, rows, circumstances),
            *(column.tolist() for column in columns),
            *_edges_by_owner(radius, support, count),
            strict=True,
        )
    ]
    if circumstances.policy is Policy.SOLO:
        return _with_solo_terms(graph, measured, pieces, cutoff)
    if codes is not None:
        lone = _lone_agents(support.owner, credited[is_support], agents, codes)
        return _with_reciprocity(graph, measured, lone, backing or Backing())
    return measured


def _cells(
    graph: Graph, rows: Sequence[int], circumstances: Circumstances
) -> tuple[Sequence[Any], ...]:
    """What the graph holds of each concept, in the order of the fields of `Measurements`."""
    concepts = graph.concepts
    kinds, statuses, survived, dependents, demoted = (
        concepts[name][list(rows)].tolist()
        for name in ("type", "status", "gc_survived", "dependents", "last_demotion_time")
    )
    ids = [concepts.ids[row] for row in rows]
    return (
        rows,
        ids,
        [TYPES[kind] for kind in kinds],
        [STATUSES[status] for status in statuses],
        survived,
        dependents,
        [cell_time(instant) for instant in demoted],
        [circumstances.confirmations.get(name, 0) for name in ids],
    )


def _edges_by_owner(
    radius: Pieces, support: Pieces, count: int
) -> tuple[list[tuple[int, ...]], list[frozenset[int]]]:
    """Edge rows that count for each concept: for the radius, and of these for distinct."""
    return (
        [tuple(edges) for edges in _grouped(radius, count)],
        [frozenset(edges) for edges in _grouped(support, count)],
    )


def _grouped(pieces: Pieces, count: int) -> list[list[int]]:
    ends = np.searchsorted(pieces.owner, np.arange(count), side="right").tolist()
    edges = pieces.edge.tolist()
    return [edges[start:end] for start, end in zip((0, *ends), ends, strict=False)]


def _counting(
    graph: Graph, pieces: Pieces, rows: Sequence[int], circumstances: Circumstances
) -> tuple[Array, Array, AgentCodes | None]:
    """Which pieces the policy counts, to whom they are credited, and the codes of those names."""
    if circumstances.policy is not Policy.QUORUM:
        return np.ones(len(pieces), dtype=np.bool_), np.zeros(len(pieces), dtype=np.int64), None
    codes = AgentCodes()
    counts, credited = count_by_quorum(
        graph,
        pieces,
        rows,
        token_created_at=circumstances.token_created_at,
        now=circumstances.now,
        codes=codes,
    )
    return counts, credited, codes


def _with_solo_terms(
    graph: Graph, measured: Sequence[Measurements], pieces: Pieces, cutoff: Micros
) -> list[Measurements]:
    rows = [concept.row for concept in measured]
    sessions = count_supports_by_session(graph, rows, pieces, cutoff).tolist()
    reverts = count_reverts(graph, measured)
    return [
        _with_score(concept, sessions=found, reverts=reverts[concept.node_id])
        for concept, found in zip(measured, sessions, strict=True)
    ]


def _with_score(concept: Measurements, *, sessions: int, reverts: int) -> Measurements:
    """The same concept with the terms of Solo and their score."""
    score = solo_score(
        sessions=sessions,
        confirmations=concept.confirmations,
        distinct=concept.distinct,
        reverts=reverts,
        concept_type=concept.concept_type,
    )
    return replace(concept, sessions=sessions, reverts=reverts, solo_score=score)


def count_reverts(graph: Graph, measured: Sequence[Measurements]) -> Counter[NodeId]:
    """How often each concept lost its status, whatever the reason."""
    # Most sessions never demote: the trail is read only if one of these was.
    demoted = {concept.node_id for concept in measured if concept.last_demotion_time is not None}
    if not demoted:
        return Counter()
    return Counter(
        transition.node_id
        for transition in graph.transitions.values()
        if transition.from_status is Status.CANONICAL and transition.node_id in demoted
    )


def _lone_agents(owner: Array, credited: Array, counts: Array, codes: AgentCodes) -> dict[int, str]:
    """By place, the one agent behind a concept, for those that have one only."""
    alone = counts[owner] == 1
    pairs = zip(owner[alone].tolist(), credited[alone].tolist(), strict=True)
    return {place: codes.names[code] for place, code in pairs}


def _with_reciprocity(
    graph: Graph, measured: Sequence[Measurements], lone: Mapping[int, str], backing: Backing
) -> list[Measurements]:
    backing.look_at(graph, set(lone.values()))
    found = list(measured)
    for place, agent in lone.items():
        author = graph.concepts.origin_agents[measured[place].row]
        found[place] = replace(
            measured[place], lone_agent=agent, is_reciprocal=backing.is_backed_by(agent, author)
        )
    return found


def supports_at(
    graph: Graph, node_id: NodeId, edges: Sequence[int], distinct_edges: frozenset[int]
) -> tuple[Support, ...]:
    """The dependents behind the first `DEPENDENTS_SHOWN` edges (rows), in their order."""
    cells, concepts = graph.edges.arrays, graph.concepts
    shown = list(edges[:DEPENDENTS_SHOWN])  # a tuple would be read as coordinates
    row = concepts.row_by_id[node_id]
    sources, targets = cells["source"][shown].tolist(), cells["target"][shown].tolist()
    dependents = [
        target if source == row else source for source, target in zip(sources, targets, strict=True)
    ]
    chain = graph.chain.records
    moments = [chain[origin].id for origin in concepts["origin"][dependents].tolist()]
    return tuple(
        map(
            Support,
            [concepts.ids[dependent] for dependent in dependents],
            [graph.edges.ids[edge] for edge in shown],
            moments,
            [graph.edges.created_by[edge] for edge in shown],
            [edge in distinct_edges for edge in shown],
        )
    )
