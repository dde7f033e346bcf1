"""The edges of a graph: numeric columns, ids beside them, and the natural keys.

Ends are rows: of an interaction or of a concept, as the edge's type says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from memory.engine.columns import Columns
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


def pack_key(type_code: int, source_row: int, target_row: int) -> int:
    """The natural key of an edge as one integer: cheap to hash, and millions of them fit in RAM."""
    return (type_code << 60) | (source_row << 30) | target_row


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

    def fill_from(
        self, records: Sequence[Edge], sources: Sequence[int], targets: Sequence[int]
    ) -> None:
        """Load an empty table at once; ids and natural keys must be unique (the caller checks)."""
        (ids, _, _, types, weights, reinforcements, created, reinforced, created_by,
         reinforced_by, event_times) = zip(*records, strict=True)  # fmt: skip
        codes = [EDGE_TYPE_CODE[kind] for kind in types]
        self.fill(
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
        self.ids = list(ids)
        self.created_by, self.reinforced_by = list(created_by), list(reinforced_by)
        self.row_by_id = {edge_id: row for row, edge_id in enumerate(ids)}
        packed = map(pack_key, codes, sources, targets)
        self.row_by_key = {key: row for row, key in enumerate(packed)}
