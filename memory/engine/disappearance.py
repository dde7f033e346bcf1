"""Taking a concept out of the graph so that it can be brought back.

Owns the removed state: what an audit row keeps of a concept, its edges and its soft lock, and how
that is read again. Whoever removes a concept, a person or the system, plans it here; so no concept
goes without its audit row. The vector is not kept: it is computed again.

Invariant: `read_removed(removed_state(graph, row))` gives the very records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from memory.engine.concept_table import cell_time
from memory.engine.errors import InvalidSnapshot
from memory.engine.graph import Graph
from memory.engine.mutations import (
    DeleteConcept,
    DeleteReservation,
    Mutation,
    PutAudit,
)
from memory.engine.ports import IdSource
from memory.engine.rules import EDGE_TYPES, EDGES
from memory.engine.showing import cut
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Json,
    NodeId,
    Status,
)
from memory.engine.written_json import WrittenJson

_NUMBERS: Final = (
    *("type", "source", "target", "weight", "reinforcements"),
    *("created_at", "last_reinforced", "event_time"),
)
_FROM_INTERACTION: Final = np.array([EDGES[kind].from_interaction for kind in EDGE_TYPES])
_EDGE_COLUMNS: Final = (
    *("id", "end", "leaves", "type", "weight", "reinforcements", "created_at", "last_reinforced"),
    *("created_by", "reinforced_by", "event_time"),
)


@dataclass(frozen=True, slots=True)
class RemovedState:
    """A concept as it was when it was taken out. `names` holds contents of neighbours, cut."""

    concept: Concept
    edges: tuple[Edge, ...]
    names: Mapping[NodeId, str]


def removed_state(graph: Graph, row: int) -> WrittenJson:
    """What an audit row keeps of a concept, as JSON; linear in its edges, oldest first.

    The concept and its lock stand as objects of their fields, instants in microseconds. Of the
    edges each field is a list: `end` counts in `ends`, the ids of the nodes at the other ends,
    beside which `names` holds what they said, cut; `leaves` is 1 where the concept is the source;
    `type` counts in `types`, the writers in `agents`, and `last_reinforced` from `created_at`.
    """
    concept, edges = graph.concept_at(row), graph.edges
    rows = graph.incident_edge_rows(row)[::-1]
    columns = {name: edges[name][np.array(rows, dtype=np.int64)] for name in _NUMBERS}
    held = {name: cells.tolist() for name, cells in columns.items()}
    from_chain = _FROM_INTERACTION[columns["type"]]
    leaves = (columns["source"] == row) & ~from_chain
    # A row of the chain as its complement, so that both kinds of ends are told apart.
    others = np.where(leaves, columns["target"], columns["source"])
    others = np.where(from_chain, ~others, others).tolist()
    ends = {other: place for place, other in enumerate(dict.fromkeys(others))}
    ids, contents, chain = graph.concepts.ids, graph.concepts.contents, graph.chain.records
    types = {code: place for place, code in enumerate(dict.fromkeys(held["type"]))}
    makers = [edges.created_by[at] for at in rows]
    writers = [edges.reinforced_by[at] for at in rows]
    agents = {name: place for place, name in enumerate(dict.fromkeys(makers + writers))}
    times = zip(held["created_at"], held["last_reinforced"], strict=True)
    lock = graph.reservation(concept.id)
    state = {
        "concept": concept._asdict(),
        "edges": {
            "id": [edges.ids[at] for at in rows],
            "end": [ends[other] for other in others],
            "leaves": leaves.astype(np.int8).tolist(),
            "type": [types[code] for code in held["type"]],
            "weight": held["weight"],
            "reinforcements": held["reinforcements"],
            "created_at": held["created_at"],
            "last_reinforced": [written - created for created, written in times],
            "created_by": [agents[name] for name in makers],
            "reinforced_by": [agents[name] for name in writers],
            "event_time": [cell_time(cell) for cell in held["event_time"]],
        },
        "ends": [chain[~other].id if other < 0 else ids[other] for other in ends],
        "names": [None if other < 0 or other == row else cut(contents[other]) for other in ends],
        "types": [str(EDGE_TYPES[code]) for code in types],
        "agents": list(agents),
        "reservation": None if lock is None else lock._asdict(),
    }
    return WrittenJson(state)


def read_removed(removed: Json) -> RemovedState:
    """The records of a removed state. Raises `InvalidSnapshot` for what is none."""
    try:
        concept, columns, ends = removed["concept"], removed["edges"], removed["ends"]
        kinds, agents = [*map(EdgeType, removed["types"])], removed["agents"]
        me = concept["id"]
        edges = [
            Edge(
                *(edge_id, me, ends[end]) if leaves else (edge_id, ends[end], me),
                kinds[kind],
                weight,
                count,
                created,
                created + later,
                agents[maker],
                agents[writer],
                told,
            )
            for edge_id, end, leaves, kind, weight, count, created, later, maker, writer, told in (
                zip(*(columns[name] for name in _EDGE_COLUMNS), strict=True)
            )
        ]
        names = zip(ends, removed["names"], strict=True)
        return RemovedState(
            Concept(
                **{
                    **concept,
                    "concept_type": ConceptType(concept["concept_type"]),
                    "status": Status(concept["status"]),
                }
            ),
            tuple(edges),
            {end: name for end, name in names if name is not None},
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidSnapshot("the removed state of this audit row cannot be read") from error


def removed_writers(removed: Json) -> list[NodeId]:
    """The interactions that wrote a removed concept. Raises `InvalidSnapshot` as `read_removed`."""
    try:
        derives = removed["types"].index(str(EdgeType.DERIVES))
        columns, ends = removed["edges"], removed["ends"]
        return [
            ends[end]
            for end, kind in zip(columns["end"], columns["type"], strict=True)
            if kind == derives
        ]
    except ValueError:
        return []
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise InvalidSnapshot("the removed state of this audit row cannot be read") from error


def removed_edge_ids(removed: Json) -> list[NodeId]:
    """The edges that went with a concept."""
    edge_ids: list[NodeId] = [] if removed is None else removed["edges"]["id"]
    return edge_ids


def plan_removal(
    graph: Graph,
    row: int,
    *,
    kind: AuditKind,
    actor: str,
    reason: str | None,
    now: Micros,
    ids: IdSource,
    detail: Json = None,
    keeps_state: bool = True,
) -> list[Mutation]:
    """Remove a concept with its edges and its soft lock, and keep an audit row of it.

    Several concepts may be planned on one graph before any is removed: each row then keeps the
    edges between them. The content stands in the texts of the row too: the state is large, and a
    list of removals does without it. Without `keeps_state` nothing of the concept's text is kept.
    """
    concept = graph.concept_at(row)
    mutations: list[Mutation] = []  # the edges go with the concept
    if graph.reservation(concept.id) is not None:
        mutations.append(DeleteReservation(concept.id))
    mutations.append(DeleteConcept(concept.id))
    entry = AuditEntry(
        id=ids.next_ordered_id(now),
        kind=kind,
        node_id=concept.id,
        from_status=concept.status,
        to_status=None,
        occurred_at=now,
        actor=actor,
        reason=reason,
        detail=detail,
        texts={"content": concept.content} if keeps_state else None,
        removed=removed_state(graph, row) if keeps_state else None,
    )
    return [*mutations, PutAudit(entry)]
