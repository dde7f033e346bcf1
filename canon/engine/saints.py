"""The canonical memories of a session, the most load-bearing first.

Owns their order and their list. Measures nothing: the blast radius is the live count of the graph.

Invariant: one line of text per memory, whatever its content holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from memory.engine.graph import Graph
from memory.engine.limits import SAINTS_SHOWN
from memory.engine.rules import STATUS_CODE
from memory.engine.showing import cut, in_passing
from memory.engine.times import Micros, format_rfc3339, format_rfc3339_seconds
from memory.engine.types import ConceptType, NodeId, Status

_CANONICAL: Final = STATUS_CODE[Status.CANONICAL]


@dataclass(frozen=True, slots=True)
class Saint:
    """A canonical memory. `blast_radius` is live."""

    node_id: NodeId
    content: str
    concept_type: ConceptType
    blast_radius: int
    access_count: int
    created_at: Micros

    @property
    def line(self) -> str:
        return (
            f"  {in_passing(self.content)} [{self.concept_type}, canonical]  "
            f"blast_radius={self.blast_radius}  accesses={self.access_count}  "
            f"since {format_rfc3339_seconds(self.created_at)}"
        )

    def as_wire(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "content": cut(self.content),
            "concept_type": str(self.concept_type),
            "blast_radius": self.blast_radius,
            "access_count": self.access_count,
            "created_at": format_rfc3339(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class Saints:
    """Canonical memories of a session: live blast radius descending, then age, then id.

    `count` counts them all; at most `SAINTS_SHOWN` are listed.
    """

    session_id: str
    count: int
    saints: tuple[Saint, ...]

    @property
    def summary(self) -> str:
        noun = "memory" if self.count == 1 else "memories"
        return f"{self.count} canonical {noun} in session '{self.session_id}'"

    @property
    def view(self) -> str:
        """The summary, one line per memory listed, and how many were left out."""
        left_out = self.count - len(self.saints)
        more = [f"  … and {left_out} more"] if left_out else []
        return "\n".join([self.summary, *(saint.line for saint in self.saints), *more])

    def as_wire(self) -> dict[str, Any]:
        """The structured content of the saints tool's reply."""
        return {
            "summary": self.summary,
            "count": self.count,
            "saints": [saint.as_wire() for saint in self.saints],
            "warnings": [],
        }


def list_saints(graph: Graph) -> Saints:
    """The canonical memories of a graph, in their order."""
    rows = graph.concepts.live_rows()
    canonical = rows[graph.concepts["status"][rows] == _CANONICAL]
    saints = [_saint(graph, row) for row in np.asarray(canonical).tolist()]
    saints.sort(key=lambda saint: (-saint.blast_radius, saint.created_at, saint.node_id))
    return Saints(graph.session_id, len(saints), tuple(saints[:SAINTS_SHOWN]))


def _saint(graph: Graph, row: int) -> Saint:
    concept = graph.concept_at(row)
    return Saint(
        node_id=concept.id,
        content=concept.content,
        concept_type=concept.concept_type,
        blast_radius=graph.blast_radius(row),
        access_count=concept.access_count,
        created_at=concept.created_at,
    )
