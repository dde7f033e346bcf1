"""A node and what surrounds it: who points where, and how strongly.

Owns the resolution of a focus to one node, the walk, and the view people read. All edge types are
followed in both directions, for an inspection shows the record as it is; ranking is recall's. Why a
concept has its status is another's to say: that is handed in, and shown.

Invariant: every node is shown once and at most `limits.INSPECT_NEIGHBOURS` of them, and the view
has exactly the lines given here, whatever stored text holds.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop
from itertools import groupby
from typing import Any, Final, Protocol

from memory.engine import limits
from memory.engine.errors import AmbiguousFocus, ConceptNotFound
from memory.engine.graph import Graph
from memory.engine.showing import in_passing
from memory.engine.times import Micros
from memory.engine.types import EdgeType, NodeId, Reservation
from recall.engine.rendering import (
    interaction_label,
    load_bearing_line,
    node_label,
    reservation_line,
)

_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Direction(StrEnum):
    """How an edge lies to the node it was found from."""

    OUT = "out"
    IN = "in"


_ARROWS: Final = {Direction.OUT: "->", Direction.IN: "<-"}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A node met on the walk, and the edge by which it was met first."""

    node_id: NodeId
    label: str
    edge_type: EdgeType
    direction: Direction
    weight: float

    @property
    def line(self) -> str:
        return f"{_ARROWS[self.direction]} {self.label}"

    def as_wire(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "label": self.label,
            "edge_type": str(self.edge_type),
            "direction": str(self.direction),
            "weight": self.weight,
        }


@dataclass(frozen=True, slots=True)
class Level:
    """The nodes first met at one distance, by edge type name, then by line."""

    hop: int
    neighbours: tuple[Neighbour, ...]

    def as_wire(self) -> dict[str, Any]:
        return {"hop": self.hop, "neighbours": [node.as_wire() for node in self.neighbours]}


class Explanation(Protocol):
    """Why a concept has its status, and what its next one asks for."""

    @property
    def text(self) -> str: ...

    def as_wire(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Inspection:
    """A node, its standing and its surroundings.

    `blast_radius` is live, and None for an interaction. `resolution` tells how a partial focus was
    understood, and is None when it named the node exactly. `reservation` is a live one. `admission`
    is None for an interaction, and where nobody explains.
    """

    node_id: NodeId
    label: str
    blast_radius: int | None
    reservation: Reservation | None
    levels: tuple[Level, ...]
    is_truncated: bool
    resolution: str | None = None
    admission: Explanation | None = None

    @property
    def view(self) -> str:
        """The text people and models read."""
        return "\n".join(_view_lines(self))

    def as_wire(self) -> dict[str, Any]:
        """The structured content of the inspect tool's reply."""
        return {
            "view": self.view,
            "focus": {
                "node_id": self.node_id,
                "label": self.label,
                "blast_radius": self.blast_radius,
                "levels": [level.as_wire() for level in self.levels],
            },
            "admission": None if self.admission is None else self.admission.as_wire(),
            "resolution": self.resolution,
            "warnings": [] if self.resolution is None else [self.resolution],
        }


def inspect(
    graph: Graph,
    focus: str,
    depth: int,
    *,
    now: Micros,
    explain: Callable[[int], Explanation] | None = None,
) -> Inspection:
    """The node that `focus` names and everything within `depth` hops of it.

    `focus` is the id of a concept or an interaction, a whole content without regard to ASCII case,
    or part of exactly one content. `explain` takes the row of a concept. Raises `ConceptNotFound`
    and `AmbiguousFocus`.
    """
    node_id = focus.strip().lower()
    resolution = None
    if not graph.has_node(node_id):
        node_id, resolution = _resolve_content(graph, focus)
    row = graph.row_of(node_id)
    reservation = graph.reservation(node_id)
    levels, is_truncated = _walk(graph, node_id, depth)
    return Inspection(
        node_id=node_id,
        label=_label(graph, node_id),
        blast_radius=None if row is None else graph.blast_radius(row),
        reservation=None if reservation is None or reservation.expires_at <= now else reservation,
        levels=levels,
        is_truncated=is_truncated,
        resolution=resolution,
        admission=None if row is None or explain is None else explain(row),
    )


def _label(graph: Graph, node_id: NodeId) -> str:
    row = graph.row_of(node_id)
    return interaction_label(node_id) if row is None else node_label(graph, row)


# -- the focus -------------------------------------------------------------------------------------


def _resolve_content(graph: Graph, focus: str) -> tuple[NodeId, str | None]:
    """The id of the concept that `focus` names, and how it was understood if only in part."""
    rows = _rows_equal(graph, focus)
    if rows:
        best = min(rows, key=lambda row: (graph.content_at(row), graph.id_at(row)))
        return graph.id_at(best), None
    shown = in_passing(focus)
    if graph.concept_count > limits.INSPECT_SUBSTRING_CONCEPTS:
        raise ConceptNotFound(
            f"no concept with exactly the content '{shown}'; a part of one is only searched for in "
            f"sessions of at most {limits.INSPECT_SUBSTRING_CONCEPTS} concepts",
            maximum=limits.INSPECT_SUBSTRING_CONCEPTS,
        )
    rows = _rows_containing(graph, focus)
    if not rows:
        raise ConceptNotFound(f"no concept matching '{shown}'")
    if len(rows) > 1:
        raise _ambiguous(graph, shown, rows)
    content = in_passing(graph.content_at(rows[0]))
    resolution = f"resolved '{shown}' → '{content}' (substring match, single candidate)"
    return graph.id_at(rows[0]), resolution


def _rows_equal(graph: Graph, focus: str) -> list[int]:
    wanted = _without_ascii_case(focus)
    # Folding ASCII keeps the length: a cheap test first. A freed row has no content.
    return [
        row
        for row, content in enumerate(graph.concepts.contents)
        if len(content) == len(wanted) and _without_ascii_case(content) == wanted
    ]


def _without_ascii_case(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


def _rows_containing(graph: Graph, focus: str) -> list[int]:
    wanted = focus.casefold()
    return [row for row in graph.concept_rows() if wanted in graph.content_at(row).casefold()]


def _ambiguous(graph: Graph, shown: str, rows: list[int]) -> AmbiguousFocus:
    def rank(row: int) -> tuple[int, str, NodeId]:
        content = graph.content_at(row)
        return len(content), content, graph.id_at(row)

    listed = sorted(rows, key=rank)[: limits.INSPECT_CANDIDATES]
    lines = [f"  {node_label(graph, row)} {graph.id_at(row)}" for row in listed]
    if len(rows) > len(listed):
        lines.append(f"  … and {len(rows) - len(listed)} more")
    return AmbiguousFocus(
        "\n".join([f"'{shown}' matches {len(rows)} concepts:", *lines]),
        candidates=[
            {"node_id": graph.id_at(row), "content": graph.content_at(row)} for row in listed
        ],
        count=len(rows),
    )


# -- the walk --------------------------------------------------------------------------------------


def _walk(graph: Graph, start: NodeId, depth: int) -> tuple[tuple[Level, ...], bool]:
    """The levels around `start`, and whether the bound left something out.

    Nodes are taken in the order in which they were met, the edges of each by id. A hub fills the
    bound by itself, so the work is about the degree of one node however many hops are asked for.
    """
    seen = {start}
    frontier = [start]
    levels: list[Level] = []
    for hop in range(1, depth + 1):
        met: list[Neighbour] = []
        for node_id in frontier:
            for neighbour in _unseen_neighbours(graph, node_id, seen):
                if len(seen) > limits.INSPECT_NEIGHBOURS:
                    return (*levels, *_level(hop, met)), True
                seen.add(neighbour.node_id)
                met.append(neighbour)
        levels.extend(_level(hop, met))
        frontier = [neighbour.node_id for neighbour in met]
    return tuple(levels), False


def _unseen_neighbours(graph: Graph, node_id: NodeId, seen: set[NodeId]) -> Iterator[Neighbour]:
    """The other ends of a node's edges by edge id; a self-edge has none."""
    # A heap, for a hub may have tens of thousands of edges of which a few hundred are looked at.
    waiting = _incident_edge_ids(graph, node_id)
    heapify(waiting)
    while waiting:
        edge = graph.edge(heappop(waiting))
        assert edge is not None
        direction = Direction.OUT if edge.source == node_id else Direction.IN
        other = edge.target if direction is Direction.OUT else edge.source
        if other not in seen:
            yield Neighbour(
                node_id=other,
                label=_label(graph, other),
                edge_type=edge.edge_type,
                direction=direction,
                weight=edge.weight,
            )


def _incident_edge_ids(graph: Graph, node_id: NodeId) -> list[NodeId]:
    row = graph.row_of(node_id)
    if row is None:
        rows = graph.chain.edges[graph.chain.row_by_id[node_id]]
    else:
        rows = graph.concepts.leaving[row] + graph.concepts.arriving[row]
    return [graph.edges.ids[edge] for edge in rows]


def _level(hop: int, met: list[Neighbour]) -> list[Level]:
    """The level as shown, or none when nothing was met."""
    if not met:
        return []
    return [Level(hop, tuple(sorted(met, key=lambda node: (node.edge_type, node.line))))]


# -- the view --------------------------------------------------------------------------------------


def _view_lines(inspection: Inspection) -> Iterator[str]:
    if inspection.resolution is not None:
        yield inspection.resolution
    yield f"focus: {inspection.label}"
    if inspection.blast_radius:
        yield f"blast radius: {inspection.blast_radius}"
        yield load_bearing_line(inspection.blast_radius)
    if inspection.reservation is not None:
        yield reservation_line(inspection.reservation)
    if inspection.admission is not None:
        yield f"status: {inspection.admission.text}"
    if inspection.levels:
        yield ""
    for level in inspection.levels:
        yield f"hop {level.hop}:"
        for edge_type, group in groupby(level.neighbours, key=lambda node: node.edge_type):
            yield f"  {edge_type}"
            for neighbour in group:
                yield f"    {neighbour.line}"
    if inspection.is_truncated:
        yield f"(truncated at {limits.INSPECT_NEIGHBOURS} neighbours)"
