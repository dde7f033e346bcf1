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

from memory.engine.columns import NO_TIME, Array
from memory.engine.errors import InvalidSnapshot
from memory.engine.graph import Graph, pack_key
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES, STATUS_CODE, TYPE_CODE
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
        transitions=tuple(graph.transitions),
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
        graph._reservations[reservation.node_id] = reservation
    graph.transitions.extend(snapshot.transitions)
    graph._transition_ids.update(transition.id for transition in snapshot.transitions)
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
    graph._interactions = chain
    graph._interaction_rows = {record.id: row for row, record in enumerate(chain)}
    if len(graph._interaction_rows) != len(chain):
        raise InvalidSnapshot("two interactions have the same id")
    graph._interaction_edges = [[] for _ in chain]
    graph._originating = [[] for _ in chain]


def _load_concepts(graph: Graph, records: Sequence[Concept]) -> None:
    if not records:
        return
    (ids, contents, keys, types, origins, agents, created, accesses, accessed, survived, statuses,
     radii, demotions, chunks) = zip(*records, strict=True)  # fmt: skip
    rows = graph._interaction_rows
    try:
        origin_rows = [rows[origin] for origin in origins]
    except KeyError as error:
        raise InvalidSnapshot(f"a concept's origin interaction {error} does not exist") from error
    graph._rows = {concept_id: row for row, concept_id in enumerate(ids)}
    if len(graph._rows) != len(ids):
        raise InvalidSnapshot("two concepts have the same id")
    graph.concepts.fill(
        len(ids),
        {
            "type": [TYPE_CODE[kind] for kind in types],
            "status": [STATUS_CODE[status] for status in statuses],
            "created_at": created,
            "last_accessed": [NO_TIME if time is None else time for time in accessed],
            "access_count": accesses,
            "gc_survived": survived,
            "blast_radius": [-1 if radius is None else radius for radius in radii],
            "last_demotion_time": [NO_TIME if time is None else time for time in demotions],
            "origin": origin_rows,
        },
    )
    graph._ids, graph._contents, graph._keys = list(ids), list(contents), list(keys)
    graph._origin_agents, graph._chunk_groups = list(agents), list(chunks)
    graph._out = [[] for _ in ids]
    graph._in = [[] for _ in ids]
    for row, origin in enumerate(origin_rows):
        graph._originating[origin].append(row)
    for row, (key, kind) in enumerate(zip(keys, types, strict=True)):
        if kind is ConceptType.OBSERVATION:
            graph._observations.setdefault(key, []).append(row)
        elif graph._row_by_key.setdefault(key, row) != row:
            raise InvalidSnapshot(f"two concepts have the key {key!r}")
    graph.index.bulk_load(range(len(ids)), _documents(graph))


def _documents(graph: Graph) -> list[list[str]]:
    """The index tokens of every concept.

    A key is the sorted tokens of its content unless a synonym stood in; the index does not look at
    order, so splitting the stored key saves stemming the whole session again.
    """
    aliased = graph.synonyms.keys()
    return [
        index_tokens(content) if content.strip() in aliased else key.split()
        for content, key in zip(graph._contents, graph._keys, strict=True)
    ]


def _load_edges(graph: Graph, records: Sequence[Edge]) -> None:
    if not records:
        return
    (ids, sources, targets, types, weights, reinforcements, created, reinforced, created_by,
     reinforced_by, event_times) = zip(*records, strict=True)  # fmt: skip
    codes = [EDGE_TYPE_CODE[kind] for kind in types]
    source_rows, target_rows = _edge_ends(graph, codes, sources, targets)
    for edge_id, weight in zip(ids, weights, strict=True):
        if not math.isfinite(weight) or weight < 0:
            raise InvalidSnapshot(f"edge {edge_id} has an impossible weight")
    graph._edge_rows = {edge_id: row for row, edge_id in enumerate(ids)}
    packed = [pack_key(*key) for key in zip(codes, source_rows, target_rows, strict=True)]
    graph._natural_keys = {key: row for row, key in enumerate(packed)}
    if len(graph._edge_rows) != len(ids) or len(graph._natural_keys) != len(ids):
        raise InvalidSnapshot("two edges have the same id or the same natural key")
    graph.edges.fill(
        len(ids),
        {
            "type": codes,
            "source": source_rows,
            "target": target_rows,
            "weight": weights,
            "reinforcements": reinforcements,
            "created_at": created,
            "last_reinforced": reinforced,
            "event_time": [NO_TIME if time is None else time for time in event_times],
        },
    )
    graph._edge_ids = list(ids)
    graph._created_by, graph._reinforced_by = list(created_by), list(reinforced_by)
    rules = [EDGES[kind] for kind in EDGE_TYPES]
    leaving = [graph._interaction_edges if rule.from_interaction else graph._out for rule in rules]
    arriving = [graph._interaction_edges if rule.to_interaction else graph._in for rule in rules]
    for row, (code, source, target) in enumerate(zip(codes, source_rows, target_rows, strict=True)):
        leaving[code][source].append(row)
        arriving[code][target].append(row)
    _count_edges(graph, np.array(codes), np.array(source_rows), np.array(target_rows))


def _edge_ends(
    graph: Graph, codes: Sequence[int], sources: Sequence[NodeId], targets: Sequence[NodeId]
) -> tuple[list[int], list[int]]:
    """Rows of both ends of each edge, looked up in the table its type points at."""
    rules = [EDGES[kind] for kind in EDGE_TYPES]
    interactions, concepts = graph._interaction_rows, graph._rows
    source_tables = [interactions if rule.from_interaction else concepts for rule in rules]
    target_tables = [interactions if rule.to_interaction else concepts for rule in rules]
    try:
        return (
            [source_tables[code][end] for code, end in zip(codes, sources, strict=True)],
            [target_tables[code][end] for code, end in zip(codes, targets, strict=True)],
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
    if int(is_temporal.sum()) != len(steps) or not steps <= graph._natural_keys.keys():
        raise InvalidSnapshot("the Temporal edges do not follow the chain of interactions")
    underived = np.flatnonzero(graph.concepts["derivations"][: graph.concepts.used] == 0)
    if underived.size:
        raise InvalidSnapshot(f"concept {graph.id_at(int(underived[0]))} has no Derives edge")
