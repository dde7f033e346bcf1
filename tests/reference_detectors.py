"""Plain reference rules for tests: what is in conflict, at risk, adrift, stale, or rubbish.

Written from the rules, over records, with loops and dictionaries; nothing here is shared with the
engine.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from memory.engine.graph import Graph
from memory.engine.times import SECOND, Micros
from memory.engine.types import Concept, ConceptType, Edge, EdgeType, NodeId, Status
from reference_scoring import BONUS, MODIFIER, WEIGHTLESS

JOINING = (EdgeType.CAUSAL, EdgeType.DEPENDENCY, EdgeType.HIERARCHICAL)
NO_PATH = 4_294_967_295
RESISTANCE = {
    ConceptType.CONSTRAINT: 1.5,
    ConceptType.ENTITY: 1.2,
    ConceptType.LOGIC: 1.1,
    ConceptType.RESOURCE: 1.0,
    ConceptType.OBSERVATION: 0.7,
}


def concepts_of(graph: Graph) -> dict[NodeId, Concept]:
    return {one.id: one for one in map(graph.concept_at, graph.concept_rows())}


def written(edge: Edge) -> Micros:
    return max(edge.created_at, edge.last_reinforced)


def is_recent(instant: Micros, now: Micros) -> bool:
    return now - 30 * SECOND <= instant <= now


def incident_edges(graph: Graph) -> dict[NodeId, list[Edge]]:
    """Each concept's edges, a self-edge once."""
    found: dict[NodeId, list[Edge]] = {name: [] for name in concepts_of(graph)}
    for edge in graph.all_edges():
        for end in {edge.source, edge.target} & found.keys():
            found[end].append(edge)
    return found


def plain_conflicts(graph: Graph, now: Micros) -> dict[NodeId, tuple[tuple[str, ...], str, Micros]]:
    """By concept: the agents, the writer of the newest work, and when that was."""
    conflicts = {}
    for name, edges in incident_edges(graph).items():
        counted = [edge for edge in edges if edge.edge_type not in WEIGHTLESS]
        agents = {edge.created_by for edge in counted} | {edge.reinforced_by for edge in counted}
        work = [
            edge
            for edge in edges
            if edge.edge_type in (EdgeType.CAUSAL, EdgeType.DEPENDENCY)
            and is_recent(written(edge), now)
        ]
        if len(agents) >= 2 and work:
            newest = min(work, key=lambda edge: (-written(edge), edge.id))
            conflicts[name] = tuple(sorted(agents)), newest.reinforced_by, written(newest)
    return conflicts


def plain_high_risks(graph: Graph, now: Micros) -> dict[NodeId, Micros]:
    """By concept: the newest write."""
    dependents = plain_dependents(graph)
    edges = incident_edges(graph)
    risks = {}
    for name, one in concepts_of(graph).items():
        instants = [one.created_at, *map(written, edges[name])]
        recent = [instant for instant in instants if is_recent(instant, now)]
        if recent and (one.status is Status.CANONICAL or len(dependents[name]) > 5):
            risks[name] = max(recent)
    return risks


def plain_dependents(graph: Graph) -> dict[NodeId, set[NodeId]]:
    """Who rests on each concept."""
    found: dict[NodeId, set[NodeId]] = defaultdict(set)
    for edge in graph.all_edges():
        if edge.source != edge.target:
            if edge.edge_type is EdgeType.DEPENDENCY:
                found[edge.target].add(edge.source)
            elif edge.edge_type is EdgeType.HIERARCHICAL:
                found[edge.source].add(edge.target)
    return found


def plain_stale(graph: Graph, now: Micros) -> tuple[NodeId, Micros] | None:
    """The node of the newest activity and when it was, if that is more than an hour ago."""
    concepts = concepts_of(graph)
    activity = [
        (one.created_at if one.last_accessed is None else one.last_accessed, name)
        for name, one in concepts.items()
    ]
    for edge in graph.all_edges():
        activity += [(written(edge), end) for end in {edge.source, edge.target} & concepts.keys()]
    past = [(-instant, name) for instant, name in activity if instant <= now]
    if not past or now + min(past)[0] <= 3_600 * SECOND:
        return None
    return min(past)[1], -min(past)[0]


def plain_hops(graph: Graph, goals: Iterable[NodeId]) -> dict[NodeId, int]:
    """Hops of every concept to the nearest goal, by breadth-first search."""
    near: dict[NodeId, list[NodeId]] = defaultdict(list)
    for edge in graph.all_edges():
        if edge.edge_type in JOINING:
            near[edge.source].append(edge.target)
            near[edge.target].append(edge.source)
    hops = dict.fromkeys(goals, 0)
    waiting = deque(hops)
    while waiting:
        node = waiting.popleft()
        for other in near[node]:
            if other not in hops:
                hops[other] = hops[node] + 1
                waiting.append(other)
    return {name: hops.get(name, NO_PATH) for name in concepts_of(graph)}


def plain_eviction_scores(graph: Graph) -> dict[NodeId, float]:
    """The composite score with three dimensions, recency by creation, activity by all calls."""
    edges = incident_edges(graph)
    counted = {
        name: [edge.edge_type for edge in held if edge.edge_type not in WEIGHTLESS]
        for name, held in edges.items()
    }
    densest = max(map(len, counted.values()), default=0) or 1
    times = [one.created_at // 1_000 for one in graph.interactions()]
    span = max(times[-1] - times[0], 600_000)
    scores = {}
    for name, one in concepts_of(graph).items():
        recency = min(max(1 - (times[-1] - one.created_at // 1_000) / span, 0.0), 1.0)
        activity = counted[name].count(EdgeType.DERIVES) / len(times)
        parts = 0.25 * recency + 0.20 * min(activity, 1.0) + 0.35 * len(counted[name]) / densest
        bonus = min(0.25, sum(BONUS.get(kind, 0.0) for kind in counted[name]))
        scores[name] = min(max(parts / 0.80 + bonus + MODIFIER[one.concept_type], 0.0), 1.40)
    return scores
