"""The pairs of a session in which a newer statement seems to replace an older one, undeclared.

They were found while writing and are informational: no gate, no score and no recall depends on
them. Owns their listing alone.

Invariant: each pair once, the nearest in meaning first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE
from memory.engine.showing import in_passing
from memory.engine.times import Micros, format_rfc3339
from memory.engine.types import EdgeType, NodeId, Status

LISTED_MAX: Final = 200
"""Pairs listed; the count tells of all."""

_SUSPECTED: Final = EDGE_TYPE_CODE[EdgeType.SUSPECTED_SUPERSEDES]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """`newer` seems to replace `older`; `cosine` is how near they are."""

    newer: NodeId
    newer_content: str
    newer_status: Status
    older: NodeId
    older_content: str
    older_status: Status
    cosine: float
    noticed_at: Micros

    @property
    def line(self) -> str:
        return (
            f"  {in_passing(self.newer_content)}  may replace  {in_passing(self.older_content)}"
            f"  (cosine {self.cosine:.2f})"
        )

    def as_wire(self) -> dict[str, Any]:
        return {
            "newer": self.newer,
            "newer_content": in_passing(self.newer_content),
            "newer_status": str(self.newer_status),
            "older": self.older,
            "older_content": in_passing(self.older_content),
            "older_status": str(self.older_status),
            "cosine": self.cosine,
            "noticed_at": format_rfc3339(self.noticed_at),
        }


@dataclass(frozen=True, slots=True)
class Suspicions:
    """The first `LISTED_MAX` of `count` pairs: by cosine descending, then the ids."""

    count: int
    pairs: tuple[Suspicion, ...]

    def as_wire(self) -> dict[str, Any]:
        return {"count": self.count, "pairs": [pair.as_wire() for pair in self.pairs]}


def find_suspicions(graph: Graph) -> Suspicions:
    """The suspected supersessions a session holds."""
    edges = graph.edges
    is_suspected = (edges["type"][: edges.used] == _SUSPECTED) & edges.live[: edges.used]
    pairs = [_suspicion(graph, edge) for edge in np.flatnonzero(is_suspected).tolist()]
    pairs.sort(key=lambda pair: (-pair.cosine, pair.newer, pair.older))
    return Suspicions(len(pairs), tuple(pairs[:LISTED_MAX]))


def _suspicion(graph: Graph, edge: int) -> Suspicion:
    newer, older = graph.edges.ends_at(edge)
    return Suspicion(
        newer=graph.id_at(newer),
        newer_content=graph.content_at(newer),
        newer_status=graph.status_at(newer),
        older=graph.id_at(older),
        older_content=graph.content_at(older),
        older_status=graph.status_at(older),
        cosine=float(graph.edges["weight"][edge]),
        noticed_at=int(graph.edges["created_at"][edge]),
    )
