"""A session's graph as a picture needs it: concepts and their edges, compact, and what came since.

Owns which concepts are shown where there are too many (the newest, and those that most rests on),
which edges are drawn, and the reach of a change. Edges that only say "written together" are left
out: they would join everything. Works on the columns, so that thousands of rows take milliseconds.

Invariant: every edge of a picture joins two of its own nodes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from memory.engine.graph import Graph
from memory.engine.limits import DEPTH_MAX, PORTAL_EDGES, PORTAL_NODES, PORTAL_REACH
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, STATUSES, TYPES
from memory.engine.showing import one_line
from memory.engine.times import SECOND, Micros
from memory.engine.types import EdgeType, NodeId

LABEL_CHARACTERS: Final = 90
PIECE_ROWS: Final = 300
NEWEST_SHARE: Final = 10
"""One concept in so many of a picture that cannot hold all is among the newest."""
DRAWN: Final = (
    EdgeType.DEPENDENCY,
    EdgeType.HIERARCHICAL,
    EdgeType.CAUSAL,
    EdgeType.SEMANTIC,
    EdgeType.CONTRADICTS,
    EdgeType.SUSPECTED_SUPERSEDES,
)
_DRAWN_CODES: Final = np.array([EDGE_TYPE_CODE[kind] for kind in DRAWN])


@dataclass(frozen=True, slots=True)
class Picture:
    """Concepts and edges as they were in one step.

    `edges` is one row of numbers, three for each: from which place, to which, code of its type.
    """

    as_of: Micros
    total: int
    ids: list[NodeId]
    contents: list[str]
    agents: list[str]
    columns: tuple[list[int], ...]
    edges: list[int]

    def as_json(self) -> bytes:
        """`nodes` are `[id, label, type, status, dependents, agent, created at in ms]`, with codes
        for the type and the status, as the lists of names beside them say.

        For any thread: the graph may have changed meanwhile. Written piece by piece, for one call
        of the encoder keeps all other threads waiting until it is done.
        """
        head = {
            "as_of": self.as_of,
            "total": self.total,
            "types": [str(kind) for kind in TYPES],
            "statuses": [str(status) for status in STATUSES],
            "edge_types": [str(kind) for kind in EDGE_TYPES],
        }
        nodes = zip(self.ids, map(_label, self.contents), *self.columns, self.agents, strict=True)
        rows = [
            [node_id, label, kind, status, dependents, agent, created * 1_000 // SECOND]
            for node_id, label, kind, status, dependents, created, agent in nodes
        ]
        text = f'{_dumps(head)[:-1]},"nodes":{_pieces(rows)},"edges":{_pieces(self.edges)}}}'
        # A text may hold half a surrogate pair; the escape Python writes is the one JSON has.
        return text.encode("utf-8", "backslashreplace")


_dumps: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def _pieces(rows: Sequence[Any]) -> str:
    parts = (_dumps(rows[at : at + PIECE_ROWS])[1:-1] for at in range(0, len(rows), PIECE_ROWS))
    return f"[{','.join(parts)}]"


def export_graph(graph: Graph, *, most: int = PORTAL_NODES) -> Picture:
    """The whole picture, of at most `most` concepts."""
    rows = graph.concepts.live_rows()
    if rows.size > most:
        # What was just written is looked for first; nothing rests on it yet.
        newest = rows[np.argsort(-graph.concepts["created_at"][rows], kind="stable")]
        newest, others = np.split(newest, [most // NEWEST_SHARE])
        weightiest = np.argsort(-graph.concepts["dependents"][others], kind="stable")
        rows = np.sort(np.concatenate((newest, others[weightiest[: most - newest.size]])))
    edges = _drawn_edges(graph)
    return _picture(graph, rows, edges[-PORTAL_EDGES:])


def export_since(graph: Graph, since: Micros, *, most: int = PORTAL_NODES) -> Picture:
    """What was written after an instant: new concepts, new edges with both ends, changed statuses.

    `since` is an `as_of` of an earlier picture.
    """
    concepts = graph.concepts
    live = concepts.live_rows()
    new = live[concepts["created_at"][live] > since]
    edges = _drawn_edges(graph)
    edges = edges[graph.edges["created_at"][edges] > since][-PORTAL_EDGES:]
    changed = _rows_changed(graph, since)
    ends = np.concatenate((graph.edges["source"][edges], graph.edges["target"][edges]))
    rows = np.unique(np.concatenate((new, ends.astype(np.int64), changed)))[-most:]
    return _picture(graph, rows, edges)


def find_reach(graph: Graph, row: int) -> list[list[str]]:
    """Ids of the concepts that rest on one, by steps: the first list is its blast radius.

    At most `PORTAL_REACH` of them and `DEPTH_MAX` steps, each once.
    """
    seen, steps = {row}, list[list[str]]()
    frontier: list[int] = [row]
    while frontier and len(steps) < DEPTH_MAX and len(seen) <= PORTAL_REACH:
        found = dict.fromkeys(one for at in frontier for one in graph.dependents(at))
        frontier = [one for one in found if one not in seen][: PORTAL_REACH + 1 - len(seen)]
        seen.update(frontier)
        if frontier:
            steps.append([graph.id_at(one) for one in frontier])
    return steps


def _drawn_edges(graph: Graph) -> Any:
    rows = graph.edges.live_rows()
    return rows[np.isin(graph.edges["type"][rows], _DRAWN_CODES)]


def _rows_changed(graph: Graph, since: Micros) -> Any:
    """Rows of live concepts whose status changed after an instant."""
    rows = set[int]()
    for transition in reversed(graph.transitions.values()):
        if transition.occurred_at <= since:
            break
        row = graph.row_of(transition.node_id)
        if row is not None:
            rows.add(row)
    return np.array(sorted(rows), dtype=np.int64)


def _picture(graph: Graph, rows: Any, edges: Any) -> Picture:
    place = np.full(graph.concepts.used + 1, -1, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    sources, targets = (place[graph.edges[end][edges]] for end in ("source", "target"))
    inside = (sources >= 0) & (targets >= 0)
    codes = graph.edges["type"][edges][inside]
    held, at = graph.concepts, rows.tolist()
    return Picture(
        as_of=_as_of(graph),
        total=graph.concept_count,
        ids=[held.ids[row] for row in at],
        contents=[held.contents[row] for row in at],
        agents=[held.origin_agents[row] for row in at],
        columns=tuple(
            held[name][rows].tolist() for name in ("type", "status", "dependents", "created_at")
        ),
        edges=np.stack((sources[inside], targets[inside], codes), axis=1).ravel().tolist(),
    )


def _as_of(graph: Graph) -> Micros:
    """The newest instant that the graph holds; later pictures ask for what came after it."""
    instants = [graph.created_at]
    for table in (graph.concepts, graph.edges):
        written = table["created_at"][: table.used][table.live[: table.used]]
        instants.append(int(written.max(initial=graph.created_at)))
    if graph.transitions:
        instants.append(next(reversed(graph.transitions.values())).occurred_at)
    return max(instants)


def label_of(graph: Graph, row: int) -> str:
    """The start of what a concept says, on one line."""
    return _label(graph.content_at(row))


def _label(content: str) -> str:
    text = one_line(content[: LABEL_CHARACTERS + 1])
    return text if len(text) <= LABEL_CHARACTERS else text[: LABEL_CHARACTERS - 1] + "…"
