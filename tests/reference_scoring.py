"""Plain reference formulas for tests: the composite score of rule sets 0.2 and 0.6.

Written from the formulas, over a snapshot's records, with loops and dictionaries; nothing here is
shared with the engine. 0.2 exists because the public golden files were made by it.
"""

from __future__ import annotations

from collections import Counter

from memory.engine.types import Concept, ConceptType, EdgeType, Snapshot

WEIGHTS = {"R": 0.25, "F": 0.20, "A": 0.20, "D": 0.35}
MODIFIER = {
    ConceptType.CONSTRAINT: 0.15,
    ConceptType.ENTITY: 0.05,
    ConceptType.LOGIC: 0.05,
    ConceptType.RESOURCE: 0.0,
    ConceptType.OBSERVATION: -0.10,
}
BONUS = {
    EdgeType.CO_OCCURRENCE: 0.005,
    EdgeType.CAUSAL: 0.02,
    EdgeType.DEPENDENCY: 0.02,
    EdgeType.HIERARCHICAL: 0.015,
    EdgeType.SEMANTIC: 0.01,
}
WEIGHTLESS = (EdgeType.CONTRADICTS, EdgeType.SUSPECTED_SUPERSEDES)
STRUCTURAL_02 = (EdgeType.DEPENDENCY, EdgeType.CAUSAL, EdgeType.HIERARCHICAL)
TEN_MINUTES_MS = 600_000


def scores_02(snapshot: Snapshot) -> dict[str, float]:
    """S by concept id under 0.2: recency by place in the session, activity by all interactions."""
    derived = _derivations(snapshot)
    start, end = _extent_ms(snapshot)

    def recency(concept: Concept) -> float:
        return (_touched_ms(concept) - start) / (end - start) if end > start else 1.0

    return {
        concept.id: _composite(
            snapshot,
            concept,
            recency=recency(concept),
            activity=derived[concept.id] / len(snapshot.interactions),
        )
        for concept in snapshot.concepts
    }


def scores_06(snapshot: Snapshot) -> dict[str, float]:
    """S by concept id under 0.6: recency by age over at least ten minutes, activity by the peak."""
    derived = _derivations(snapshot)
    start, end = _extent_ms(snapshot)
    span = max(end - start, TEN_MINUTES_MS)
    return {
        concept.id: _composite(
            snapshot,
            concept,
            recency=1 - (end - _touched_ms(concept)) / span,
            activity=derived[concept.id] / max(derived.values()),
        )
        for concept in snapshot.concepts
    }


def blast_radius_02(snapshot: Snapshot) -> dict[str, int]:
    """By concept id: how many concepts have it as their only inbound structural source."""
    sources: dict[str, set[str]] = {}
    for edge in snapshot.edges:
        if edge.edge_type in STRUCTURAL_02:
            sources.setdefault(edge.target, set()).add(edge.source)
    only = Counter(next(iter(found)) for found in sources.values() if len(found) == 1)
    return {concept.id: only[concept.id] for concept in snapshot.concepts}


def _composite(snapshot: Snapshot, concept: Concept, *, recency: float, activity: float) -> float:
    incident = _incident(snapshot)
    most = max(len(types) for types in incident.values())
    mine = incident[concept.id]
    score = (
        WEIGHTS["R"] * _clamp(recency)
        + WEIGHTS["F"] * _clamp(concept.access_count / 10)
        + WEIGHTS["A"] * _clamp(activity)
        + WEIGHTS["D"] * _clamp(len(mine) / most)
        + min(0.25, sum(BONUS.get(edge_type, 0.0) for edge_type in mine))
        + MODIFIER[concept.concept_type]
    )
    return min(max(score, 0.0), 1.40)


def _incident(snapshot: Snapshot) -> dict[str, list[EdgeType]]:
    """The types of the counted edges at each concept, both directions."""
    incident: dict[str, list[EdgeType]] = {concept.id: [] for concept in snapshot.concepts}
    for edge in snapshot.edges:
        if edge.edge_type not in WEIGHTLESS:
            for end in {edge.source, edge.target} & incident.keys():
                incident[end].append(edge.edge_type)
    return incident


def _derivations(snapshot: Snapshot) -> Counter[str]:
    return Counter(edge.target for edge in snapshot.edges if edge.edge_type is EdgeType.DERIVES)


def _extent_ms(snapshot: Snapshot) -> tuple[int, int]:
    times = [interaction.created_at // 1_000 for interaction in snapshot.interactions]
    return min(times), max(times)


def _touched_ms(concept: Concept) -> int:
    touched = concept.created_at if concept.last_accessed is None else concept.last_accessed
    return touched // 1_000


def _clamp(value: float) -> float:
    return min(max(value, 0.0), 1.0)
