"""Graph to snapshot and back, with the invariants checked on the way in.

Opening a session of 100,000 concepts must take a second or two, so loading fills whole columns at
once instead of replaying mutations; a test holds both ways equal. The checks are those of
`Graph.apply` plus what only a whole graph can break: one chain, one Temporal edge for each step of
it, a Derives edge for each concept.

Cycles are no reason to refuse: whatever the public calls accept can be closed and opened again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import numpy as np

from memory.engine.collection import collection_paused
from memory.engine.columns import Array
from memory.engine.embedding import EmbeddingContract, vector_bytes, vector_from
from memory.engine.errors import InvalidSnapshot
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    NodeId,
    Snapshot,
)
from memory.engine.vector_table import VectorTable

T = TypeVar("T")

_CHUNK_ROWS: Final = 1_000
"""Records converted at once: few enough to stay in the processor's cache and to let other threads
run in between, as single calls into C would not."""

_LENGTH_TOLERANCE: Final = 1e-3
"""Float32 keeps the length of a unit vector to about one part in a million."""

_FROM_INTERACTION: Final = np.array([EDGES[kind].from_interaction for kind in EDGE_TYPES])
_TO_INTERACTION: Final = np.array([EDGES[kind].to_interaction for kind in EDGE_TYPES])


def take_snapshot(graph: Graph) -> Snapshot:
    """Everything of the graph, frozen: interactions in chain order, the rest by id."""
    with collection_paused():
        concepts, edges = _concepts_by_id(graph), _edges_by_id(graph)
    return Snapshot(
        session_id=graph.session_id,
        created_at=graph.created_at,
        closed_at=graph.closed_at,
        root_goal=graph.root_goal,
        interactions=graph.interactions(),
        concepts=concepts,
        edges=edges,
        synonyms=tuple(sorted(graph.synonyms.items())),
        reservations=tuple(graph.reservations()),
        transitions=tuple(graph.transitions.values()),
        match_strategy=graph.match_strategy,
        contract=graph.contract,
        vectors=_vectors_by_id(graph),
        standing=graph.standing.all(),
    )


def _concepts_by_id(graph: Graph) -> tuple[Concept, ...]:
    concepts, chain = graph.concepts, graph.chain.records
    rows = sorted(graph.concept_rows(), key=concepts.ids.__getitem__)
    return tuple(record for some in _chunks(rows) for record in concepts.records(some, chain))


def _edges_by_id(graph: Graph) -> tuple[Edge, ...]:
    edges = graph.edges
    rows = sorted(edges.live_rows().tolist(), key=edges.ids.__getitem__)
    return tuple(record for some in _chunks(rows) for record in graph.edges_at(some))


def _vectors_by_id(graph: Graph) -> tuple[tuple[NodeId, bytes], ...]:
    if graph.vectors is None:
        return ()
    held = ((graph.id_at(row), graph.vectors.get(row)) for row in graph.concept_rows())
    return tuple(sorted((name, vector_bytes(some)) for name, some in held if some is not None))


def load_snapshot(snapshot: Snapshot) -> Graph:
    """Build the graph. Raises `InvalidSnapshot` naming the first record that breaks a rule."""
    with collection_paused():
        return _load(snapshot)


def _load(snapshot: Snapshot) -> Graph:
    graph = Graph(
        snapshot.session_id,
        snapshot.created_at,
        contract=snapshot.contract,
        match_strategy=snapshot.match_strategy,
    )
    graph.root_goal, graph.closed_at = snapshot.root_goal, snapshot.closed_at
    graph.synonyms.update(snapshot.synonyms)
    if len(graph.synonyms) != len(snapshot.synonyms):
        raise InvalidSnapshot("a spelling has two synonyms")
    _load_interactions(graph, snapshot.interactions)
    _load_concepts(graph, snapshot.concepts)
    _load_edges(graph, snapshot.edges)
    _check_whole(graph)
    _load_vectors(graph, snapshot.vectors)
    for reservation in snapshot.reservations:
        if not graph.has_node(reservation.node_id):
            raise InvalidSnapshot(f"reservation of unknown node {reservation.node_id}")
        graph.reservation_by_node[reservation.node_id] = reservation
    if len(graph.reservation_by_node) != len(snapshot.reservations):
        raise InvalidSnapshot("a node is reserved twice")
    graph.transitions.update({transition.id: transition for transition in snapshot.transitions})
    if len(graph.transitions) != len(snapshot.transitions):
        raise InvalidSnapshot("two transitions have the same id")
    for entry in snapshot.standing:
        if entry.node_id not in graph.concepts.row_by_id:
            raise InvalidSnapshot(f"audit row {entry.id} names no concept")
        graph.standing.keep(entry)
    return graph


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _CHUNK_ROWS):
        yield items[start : start + _CHUNK_ROWS]


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
    interactions = graph.chain.row_by_id
    for some in _chunks(records):
        try:
            rows = [interactions[record.origin_interaction] for record in some]
        except KeyError as error:
            raise InvalidSnapshot(f"a concept's origin interaction {error} is absent") from error
        graph.concepts.extend_with(some, rows)
    concepts = graph.concepts
    if len(concepts.row_by_id) != len(records):
        raise InvalidSnapshot("two concepts have the same id")
    if not interactions.keys().isdisjoint(concepts.row_by_id):
        raise InvalidSnapshot("an interaction and a concept have the same id")
    observations = sum(map(len, concepts.observations.values()))
    if len(concepts.row_by_key) + observations != len(records):
        raise InvalidSnapshot(f"two concepts have the key {_first_repeated_key(records)!r}")
    origins = concepts["origin"][: concepts.used].astype(np.int64)
    graph.chain.originated = _grouped(origins, np.arange(concepts.used), graph.interaction_count)
    graph.index.bulk_load(range(concepts.used), _documents(graph))


def _load_vectors(graph: Graph, records: Sequence[tuple[NodeId, bytes]]) -> None:
    """Fill the vector table. What is no unit vector of a concept is left out, not refused.

    A vector can be computed again: its concept counts as without one until that is done, and the
    new one takes the place of what was stored.
    """
    if graph.vectors is not None:
        _fill(graph, graph.vectors, records)


def lay_beside(
    graph: Graph, contract: EmbeddingContract, records: Sequence[tuple[NodeId, bytes]]
) -> None:
    """Give a fresh graph what is stored under another contract; as `_load_vectors` does its own."""
    table = VectorTable(contract.dim)
    _fill(graph, table, records)
    graph.beside.lay(contract, table)


def _fill(graph: Graph, table: VectorTable, records: Sequence[tuple[NodeId, bytes]]) -> None:
    rows_by_id, size = graph.concepts.row_by_id, 4 * table.dim
    for some in _chunks(records):
        usable = {
            rows_by_id[name]: vector
            for name, vector in some
            if len(vector) == size and name in rows_by_id
        }
        rows = np.fromiter((row for row in usable if row not in table), dtype=np.int64)
        vectors = vector_from(b"".join([usable[row] for row in rows.tolist()]))
        matrix = vectors.reshape(len(rows), table.dim)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt(np.sum(np.square(matrix, dtype=np.float64), axis=1))
            is_unit = np.abs(lengths - 1.0) < _LENGTH_TOLERANCE
        table.fill(rows[is_unit].tolist(), matrix[is_unit])


def _first_repeated_key(records: Sequence[Concept]) -> str:
    seen: set[str] = set()
    for record in records:
        if record.concept_type is not ConceptType.OBSERVATION:
            if record.canonical_key in seen:
                return record.canonical_key
            seen.add(record.canonical_key)
    raise AssertionError("every key is unique")


def _documents(graph: Graph) -> list[list[str]]:
    """The index tokens of every concept."""
    concepts = graph.concepts
    return list(map(graph.tokens_of, concepts.contents, concepts.keys))


def _load_edges(graph: Graph, records: Sequence[Edge]) -> None:
    nodes = _coded_nodes(graph)
    edges = graph.edges
    for some in _chunks(records):
        codes = np.array([EDGE_TYPE_CODE[record.edge_type] for record in some])
        edges.extend_with(some, codes, *_edge_ends(nodes, some, codes))
    if len(edges.row_by_id) != len(records) or len(edges.row_by_key) != len(records):
        raise InvalidSnapshot("two edges have the same id or the same natural key")
    weights = edges["weight"][: edges.used]
    impossible = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if impossible.size:
        raise InvalidSnapshot(f"edge {edges.ids[impossible[0]]} has an impossible weight")
    names = ("type", "source", "target")
    codes, sources, targets = (edges[name][: edges.used].astype(np.int64) for name in names)
    _fill_adjacency(graph, codes, sources, targets)
    _count_edges(graph, codes, sources, targets)


def _coded_nodes(graph: Graph) -> dict[NodeId, int]:
    """Every node's row; that of an interaction as its complement, so that the sign is the kind."""
    nodes = {node_id: ~row for node_id, row in graph.chain.row_by_id.items()}
    nodes.update(graph.concepts.row_by_id)
    return nodes


def _edge_ends(
    nodes: dict[NodeId, int], records: Sequence[Edge], codes: Array
) -> tuple[Array, Array]:
    """Rows of both ends of each edge; refuses an end that is absent or of the wrong kind."""
    try:
        sources = np.array([nodes[record.source] for record in records])
        targets = np.array([nodes[record.target] for record in records])
    except KeyError as error:
        raise InvalidSnapshot(f"an edge's end {error} does not exist") from error
    misplaced = ((sources < 0) != _FROM_INTERACTION[codes]) | (
        (targets < 0) != _TO_INTERACTION[codes]
    )
    if misplaced.any():
        wrong = records[int(misplaced.argmax())]
        raise InvalidSnapshot(f"edge {wrong.id} may not be {wrong.edge_type} between its ends")
    return np.where(sources < 0, ~sources, sources), np.where(targets < 0, ~targets, targets)


def _fill_adjacency(graph: Graph, codes: Array, sources: Array, targets: Array) -> None:
    """What `Graph.adjacency` says, for all edges at once; each list in order of edge row."""
    rows = np.arange(len(codes))
    out_of_chain, into_chain = _FROM_INTERACTION[codes], _TO_INTERACTION[codes]
    concepts, chain = graph.concepts, graph.chain
    concepts.leaving = _grouped(sources[~out_of_chain], rows[~out_of_chain], concepts.used)
    concepts.arriving = _grouped(targets[~into_chain], rows[~into_chain], concepts.used)
    chain.edges = _grouped(
        np.concatenate([sources[out_of_chain], targets[into_chain]]),
        np.concatenate([rows[out_of_chain], rows[into_chain]]),
        graph.interaction_count,
    )


def _grouped(owners: Array, rows: Array, size: int) -> list[list[int]]:
    """For each owner 0..size-1 its rows, ascending."""
    # One sort of plain integers is several times as fast as a sort by two keys.
    step = int(rows.max(initial=0)) + 1
    in_order = (np.sort(owners * step + rows) % step).tolist()
    ends = np.cumsum(np.bincount(owners, minlength=size)).tolist()
    return [in_order[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _count_edges(graph: Graph, codes: Array, sources: Array, targets: Array) -> None:
    """The counters `Graph._count_edge` keeps, computed for all edges at once."""
    cells, size = graph.concepts.arrays, graph.concepts.used
    derives = codes == EDGE_TYPE_CODE[EdgeType.DERIVES]
    dependency = codes == EDGE_TYPE_CODE[EdgeType.DEPENDENCY]
    hierarchical = codes == EDGE_TYPE_CODE[EdgeType.HIERARCHICAL]
    counted = np.array([EDGES[kind].counts_for_degree for kind in EDGE_TYPES])[codes]
    counted &= ~_TO_INTERACTION[codes]
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
    pillar = np.concatenate([targets[dependency], sources[hierarchical]])
    dependent = np.concatenate([sources[dependency], targets[hierarchical]])
    other = pillar != dependent
    pairs = np.unique(pillar[other] * size + dependent[other])
    cells["dependents"][:size] = np.bincount(pairs // size, minlength=size) if size else 0


def _check_whole(graph: Graph) -> None:
    """What single records cannot show: each step of the chain and each concept is joined up."""
    used, steps = graph.edges.used, max(0, graph.interaction_count - 1)
    temporal = np.flatnonzero(graph.edges["type"][:used] == EDGE_TYPE_CODE[EdgeType.TEMPORAL])
    strides = graph.edges["source"][temporal] - graph.edges["target"][temporal]
    # No two have the same ends, so as many edges as steps, each one step long, are the chain.
    if temporal.size != steps or not (strides == 1).all():
        raise InvalidSnapshot("the Temporal edges do not follow the chain of interactions")
    underived = np.flatnonzero(graph.concepts["derivations"][: graph.concepts.used] == 0)
    if underived.size:
        raise InvalidSnapshot(f"concept {graph.id_at(int(underived[0]))} has no Derives edge")
