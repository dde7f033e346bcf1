"""The edges of a graph: numeric columns, ids beside them, and the natural keys.

Ends are rows: of an interaction or of a concept, as the edge's type says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from memory.engine.columns import Array, Columns
from memory.engine.concept_table import cell_time, time_cell
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES
from memory.engine.types import Edge, EdgeType, NodeId

SCHEMA: Final = {
    "type": "int8",
    "source": "int32",
    "target": "int32",
    "weight": "float64",
    "reinforcements": "int64",
    "created_at": "int64",
    "last_reinforced": "int64",
    "event_time": "int64",
}


_KEY_COLUMNS: Final = ("type", "source", "target")
_FEW: Final = 24  # rows that a loop reads sooner than an array
_ROW_BITS: Final = 29  # two rows and a type code fit a signed 64-bit integer


def pack_key(type_code: int, source_row: int, target_row: int) -> int:
    """The natural key of an edge as one integer: cheap to hash, and millions of them fit in RAM."""
    return (((type_code << _ROW_BITS) | source_row) << _ROW_BITS) | target_row


def pack_keys(type_codes: Array, source_rows: Array, target_rows: Array) -> Array:
    """`pack_key` of whole int64 columns."""
    return (((type_codes << _ROW_BITS) | source_rows) << _ROW_BITS) | target_rows


class EdgeTable(Columns):
    """One row per edge."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.ids: list[NodeId] = []
        self.created_by: list[str] = []
        self.reinforced_by: list[str] = []
        self.row_by_id: dict[NodeId, int] = {}
        self.row_by_key: dict[int, int] = {}  # packed natural key

    def type_at(self, row: int) -> EdgeType:
        kind: EdgeType = EDGE_TYPES[self.arrays["type"][row]]
        return kind

    def ends_at(self, row: int) -> tuple[int, int]:
        """Source and target rows."""
        return int(self.arrays["source"][row]), int(self.arrays["target"][row])

    def ends_of(self, rows: Sequence[int], edge_type: EdgeType, end: str) -> list[int]:
        """The rows at one end (`source` or `target`) of those edges that are of a type."""
        wanted, types, ends = EDGE_TYPE_CODE[edge_type], self.arrays["type"], self.arrays[end]
        if len(rows) < _FEW:
            return [int(ends[row]) for row in rows if types[row] == wanted]
        held = np.array(rows, dtype=np.int64)
        found: list[int] = ends[held[types[held] == wanted]].tolist()
        return found

    def record(self, row: int, source: NodeId, target: NodeId) -> Edge:
        """The record of a live row, given the ids of its ends."""
        cells = self.arrays
        return Edge(
            id=self.ids[row],
            source=source,
            target=target,
            edge_type=self.type_at(row),
            weight=float(cells["weight"][row]),
            reinforcements=int(cells["reinforcements"][row]),
            created_at=int(cells["created_at"][row]),
            last_reinforced=int(cells["last_reinforced"][row]),
            created_by=self.created_by[row],
            reinforced_by=self.reinforced_by[row],
            event_time=cell_time(cells["event_time"][row]),
        )

    def records(
        self, rows: Sequence[int], sources: Sequence[NodeId], targets: Sequence[NodeId]
    ) -> list[Edge]:
        """`record` of many live rows, several times as fast."""
        held = {name: cells[rows].tolist() for name, cells in self.arrays.items()}
        columns = (
            map(self.ids.__getitem__, rows),
            sources,
            targets,
            map(EDGE_TYPES.__getitem__, held["type"]),
            held["weight"],
            held["reinforcements"],
            held["created_at"],
            held["last_reinforced"],
            map(self.created_by.__getitem__, rows),
            map(self.reinforced_by.__getitem__, rows),
            map(cell_time, held["event_time"]),
        )
        return list(map(Edge._make, zip(*columns, strict=True)))

    def insert(self, edge: Edge, source: int, target: int) -> int:
        """Add an edge whose id and natural key are free; returns its row."""
        row, was_used = self.take_row()
        code = EDGE_TYPE_CODE[edge.edge_type]
        cells = self.arrays
        cells["type"][row], cells["source"][row], cells["target"][row] = code, source, target
        if not was_used:
            self.ids.append("")
            self.created_by.append("")
            self.reinforced_by.append("")
        self.ids[row] = edge.id
        self.row_by_id[edge.id] = row
        self.row_by_key[pack_key(code, source, target)] = row
        self.update(row, edge)
        return row

    def update(self, row: int, edge: Edge) -> None:
        """Store what reinforcing changes."""
        cells = self.arrays
        # A weight that is no number would poison every sum it enters: stored as 0.
        cells["weight"][row] = edge.weight if math.isfinite(edge.weight) else 0.0
        cells["reinforcements"][row] = edge.reinforcements
        cells["created_at"][row] = edge.created_at
        cells["last_reinforced"][row] = edge.last_reinforced
        cells["event_time"][row] = time_cell(edge.event_time)
        self.created_by[row], self.reinforced_by[row] = edge.created_by, edge.reinforced_by

    def remove(self, row: int) -> None:
        """Take an edge out."""
        del self.row_by_key[pack_key(int(self.arrays["type"][row]), *self.ends_at(row))]
        del self.row_by_id[self.ids[row]]
        self.ids[row] = ""
        self.free_row(row)

    def remove_many(self, rows: Sequence[int]) -> None:
        """`remove` of many edges, several times as fast."""
        keys = pack_keys(*(self.arrays[name][rows].astype("int64") for name in _KEY_COLUMNS))
        for key, row in zip(keys.tolist(), rows, strict=True):
            del self.row_by_key[key]
            del self.row_by_id[self.ids[row]]
            self.ids[row] = ""
        self.free_rows(rows)

    def insert_many(
        self, records: Sequence[Edge], codes: Array, sources: Array, targets: Array
    ) -> list[int]:
        """`insert` of many edges, several times as fast; their rows. Freed rows are used first."""
        known = self.used
        rows = self.take_rows(len(records))
        new = [""] * (self.used - known)
        for texts in (self.ids, self.created_by, self.reinforced_by):
            texts += new
        cells = self.arrays
        for name, column in zip(_KEY_COLUMNS, (codes, sources, targets), strict=True):
            cells[name][rows] = column
        weights = [edge.weight if math.isfinite(edge.weight) else 0.0 for edge in records]
        cells["weight"][rows] = weights
        for name in ("reinforcements", "created_at", "last_reinforced"):
            cells[name][rows] = [*map(attrgetter(name), records)]
        cells["event_time"][rows] = [time_cell(edge.event_time) for edge in records]
        for row, edge in zip(rows, records, strict=True):
            self.ids[row], self.row_by_id[edge.id] = edge.id, row
            self.created_by[row], self.reinforced_by[row] = edge.created_by, edge.reinforced_by
        self.row_by_key.update(zip(pack_keys(codes, sources, targets).tolist(), rows, strict=True))
        return rows

    def extend_with(
        self, records: Sequence[Edge], codes: Array, sources: Array, targets: Array
    ) -> None:
        """Append many edges at once. Unique ids and natural keys are the caller's to check."""
        (ids, _, _, _, weights, reinforcements, created, reinforced, created_by, reinforced_by,
         event_times) = zip(*records, strict=True)  # fmt: skip
        rows = self.extend(
            len(ids),
            {
                "type": codes,
                "source": sources,
                "target": targets,
                "weight": weights,
                "reinforcements": reinforcements,
                "created_at": created,
                "last_reinforced": reinforced,
                "event_time": [time_cell(instant) for instant in event_times],
            },
        )
        self.ids += ids
        self.created_by += created_by
        self.reinforced_by += reinforced_by
        self.row_by_id.update(zip(ids, rows, strict=True))
        self.row_by_key.update(zip(pack_keys(codes, sources, targets).tolist(), rows, strict=True))


def take_off(edge_rows: list[int], row: int) -> None:
    """Take a row out of an adjacency list; the last one costs nothing, whatever the length."""
    if edge_rows[-1] == row:
        edge_rows.pop()
    else:
        edge_rows.remove(row)
