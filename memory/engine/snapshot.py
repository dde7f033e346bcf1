"""Graph to snapshot and back, with the invariants checked on the way in.

Opening a session of 100,000 concepts must take a second or two, so loading fills whole columns at
once instead of replaying mutations; a test holds both ways equal. The checks are those of
`Graph.apply` plus what only a whole graph can break: one chain, one Temporal edge for each step of
it, a Derives edge for each concept.

Cycles are no reason to refuse: whatever the public calls accept can be closed and opened again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from memory.engine.columns import Array
from memory.engine.edge_table import pack_key
from memory.engine.errors import InvalidSnapshot
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES
from memory.engine.text import index_tokens
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    NodeId,
    Snapshot,
)


def take_snapshot(graph: Graph) -> Snapshot:
    """Everything of the graph, frozen: interactions in chain order, the rest by id."""
    return Snapshot(
        session_id=graph.session_id,
        created_at=graph.created_at,
        root_goal=graph.root_goal,
        interactions=graph.interactions(),
        concepts=tuple(sorted(graph.concept_at(row) for row in graph.concept_rows())),
        edges=tuple(sorted(graph.all_edges())),
        synonyms=tuple(sorted(graph.synonyms.items())),
        reservations=tuple(graph.reservations()),
        transitions=tuple(graph.transitions.values()),
    )


def load_snapshot(snapshot: Snapshot) -> Graph:
    """Build the graph. Raises `InvalidSnapshot` naming the first record that breaks a rule."""
    graph = Graph(snapshot.session_id, snapshot.created_at)
    graph.root_goal = snapshot.root_goal
    graph.synonyms.update(snapshot.synonyms)
    _load_interactions(graph, snapshot.interactions)
    _load_concepts(graph, snapshot.concepts)
    _load_edges(graph, snapshot.edges)
    _check_whole(graph)
    for reservation in snapshot.reservations:
        if not graph.has_node(reservation.node_id):
            raise InvalidSnapshot(f"reservation of unknown node {reservation.node_id}")
        graph.reservation_by_node[reservation.node_id] = reservation
    graph.transitions.update({transition.id: transition for transition in snapshot.transitions})
    return graph


def _load_interactions(graph: Graph, records: Sequence[Interaction]) -> None:
    """Put the records in chain order, whatever order they come in."""
    successors: dict[NodeId | None, Interaction] = {}
    for record in records:
        if record.previous_id in successors:
            raise InvalidSnapshot(f"interaction {record.id} forks the chain")
        successors[record.previous_id] = record
    chain: list[Interaction] = []
    follower = successors.get(None)
    while follower is not None:
        chain.append(follower)
        follower = successors.get(follower.id)
        if len(chain) > len(records):
            break
    if len(chain) != len(records):
        raise InvalidSnapshot("the interactions are not one chain")
    for record in chain:
        graph.chain.append(record)
    if len(graph.chain.row_by_id) != len(chain):
        raise InvalidSnapshot("two interactions have the same id")


def _load_concepts(graph: Graph, records: Sequence[Concept]) -> None:
    if not records:
        return
    try:
        origins = [graph.chain.row_by_id[record.origin_interaction] for record in records]
    except KeyError as error:
        raise InvalidSnapshot(f"a concept's origin interaction {error} does not exist") from error
    if len({record.id for record in records}) != len(records):
        raise InvalidSnapshot("two concepts have the same id")
    _check_keys(records)
    graph.concepts.fill_from(records, origins)
    for row, origin in enumerate(origins):
        graph.chain.originated[origin].append(row)
    graph.index.bulk_load(range(len(records)), _documents(graph))


def _check_keys(records: Sequence[Concept]) -> None:
    seen: set[str] = set()
    for record in records:
        if record.concept_type is not ConceptType.OBSERVATION:
            if record.canonical_key in seen:
                raise InvalidSnapshot(f"two concepts have the key {record.canonical_key!r}")
            seen.add(record.canonical_key)


def _documents(graph: Graph) -> list[list[str]]:
    """The index tokens of every concept.

    A key is the sorted tokens of its content unless a synonym stood in; the index does not look at
    order, so splitting the stored key saves stemming the whole session again.
    """
    aliased = graph.synonyms.keys()
    return [
        index_tokens(content) if content.strip() in aliased else key.split()
        for content, key in zip(graph.concepts.contents, graph.concepts.keys, strict=True)
    ]


def _load_edges(graph: Graph, records: Sequence[Edge]) -> None:
    if not records:
        return
    codes = [EDGE_TYPE_CODE[record.edge_type] for record in records]
    sources, targets = _edge_ends(graph, records, codes)
    for record in records:
        if not math.isfinite(record.weight) or record.weight < 0:
            raise InvalidSnapshot(f"edge {record.id} has an impossible weight")
    edges = graph.edges
    edges.fill_from(records, sources, targets)
    if len(edges.row_by_id) != len(records) or len(edges.row_by_key) != len(records):
        raise InvalidSnapshot("two edges have the same id or the same natural key")
    adjacency = [graph.adjacency(kind) for kind in EDGE_TYPES]
    for row, (code, source, target) in enumerate(zip(codes, sources, targets, strict=True)):
        leaving, arriving = adjacency[code]
        leaving[source].append(row)
        arriving[target].append(row)
    _count_edges(graph, np.array(codes), np.array(sources), np.array(targets))


def _edge_ends(
    graph: Graph, records: Sequence[Edge], codes: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Rows of both ends of each edge, looked up in the table its type points at."""
    rules = [EDGES[kind] for kind in EDGE_TYPES]
    interactions, concepts = graph.chain.row_by_id, graph.concepts.row_by_id
    source_tables = [interactions if rule.from_interaction else concepts for rule in rules]
    target_tables = [interactions if rule.to_interaction else concepts for rule in rules]
    try:
        pairs = list(zip(codes, records, strict=True))
        return (
            [source_tables[code][record.source] for code, record in pairs],
            [target_tables[code][record.target] for code, record in pairs],
        )
    except KeyError as error:
        raise InvalidSnapshot(f"an edge's end {error} is absent or of another kind") from error


def _count_edges(graph: Graph, codes: Array, sources: Array, targets: Array) -> None:
    """The counters `Graph._count_edge` keeps, computed for all edges at once."""
    cells, size = graph.concepts.arrays, graph.concepts.used
    derives = codes == EDGE_TYPE_CODE[EdgeType.DERIVES]
    dependency = codes == EDGE_TYPE_CODE[EdgeType.DEPENDENCY]
    hierarchical = codes == EDGE_TYPE_CODE[EdgeType.HIERARCHICAL]
    counted = np.array([EDGES[kind].counts_for_degree for kind in EDGE_TYPES])[codes]
    counted &= codes != EDGE_TYPE_CODE[EdgeType.TEMPORAL]
    bonus = np.array([EDGES[kind].bonus_milli for kind in EDGE_TYPES])[codes]
    arriving = counted
    leaving = counted & ~derives & (sources != targets)
    degree = np.bincount(targets[arriving], minlength=size)
    degree += np.bincount(sources[leaving], minlength=size)
    cells["degree"][:size] = degree
    total = np.bincount(targets[arriving], weights=bonus[arriving], minlength=size)
    total += np.bincount(sources[leaving], weights=bonus[leaving], minlength=size)
    cells["bonus_milli"][:size] = np.rint(total)
    cells["derivations"][:size] = np.bincount(targets[derives], minlength=size)
    pillar = np.concatenate([targets[dependency], sources[hierarchical]]).astype(np.int64)
    dependent = np.concatenate([sources[dependency], targets[hierarchical]]).astype(np.int64)
    other = pillar != dependent
    pairs = np.unique(pillar[other] * size + dependent[other])
    cells["dependents"][:size] = np.bincount(pairs // size, minlength=size) if size else 0


def _check_whole(graph: Graph) -> None:
    """What single records cannot show: each step of the chain and each concept is joined up."""
    temporal = EDGE_TYPE_CODE[EdgeType.TEMPORAL]
    steps = {pack_key(temporal, row, row - 1) for row in range(1, graph.interaction_count)}
    used = graph.edges.used
    is_temporal = graph.edges["type"][:used] == temporal
    if int(is_temporal.sum()) != len(steps) or not steps <= graph.edges.row_by_key.keys():
        raise InvalidSnapshot("the Temporal edges do not follow the chain of interactions")
    underived = np.flatnonzero(graph.concepts["derivations"][: graph.concepts.used] == 0)
    if underived.size:
        raise InvalidSnapshot(f"concept {graph.id_at(int(underived[0]))} has no Derives edge")
