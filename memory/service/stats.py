"""Counts and health of a session, as every surface shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import memory.engine.rules as rules
from memory.engine.columns import Columns
from memory.engine.embedding import EmbeddingContract
from memory.engine.graph import Graph
from memory.engine.times import format_rfc3339
from memory.service.cycles import CycleStats
from memory.service.reembedding import Progress


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """How much a graph holds. Types with a count of 0 are left out."""

    interactions: int = 0
    concepts: int = 0
    edges: int = 0
    epoch: int = 0
    concepts_by_type: dict[str, int] = field(default_factory=dict)
    concepts_by_status: dict[str, int] = field(default_factory=dict)
    edges_by_type: dict[str, int] = field(default_factory=dict)


def count_graph(graph: Graph) -> GraphCounts:
    """Count by type and status; a few vector operations, whatever the size."""
    return GraphCounts(
        interactions=graph.interaction_count,
        concepts=graph.concept_count,
        edges=graph.edge_count,
        epoch=graph.epoch,
        concepts_by_type=_count(graph.concepts, "type", [str(kind) for kind in rules.TYPES]),
        concepts_by_status=_count(graph.concepts, "status", [str(s) for s in rules.STATUSES]),
        edges_by_type=_count(graph.edges, "type", [str(kind) for kind in rules.EDGE_TYPES]),
    )


def _count(columns: Columns, name: str, labels: list[str]) -> dict[str, int]:
    counts = columns.count_codes(name, len(labels))
    return {label: count for label, count in zip(labels, counts, strict=True) if count}


def _wire(contract: EmbeddingContract | None) -> dict[str, Any] | None:
    return None if contract is None else contract.as_wire()


@dataclass(frozen=True, slots=True)
class SessionStats:
    """What `stats` answers.

    `flush_lag_ms` is the age of the oldest uncommitted write, `flush_depth` the number of
    uncommitted mutations; `degraded` says that the store does not answer. `position` is the newest
    place in the session's log. `missing_vectors` counts concepts that recall by meaning cannot find
    yet. `resident_bytes` is about what the session takes up in RAM. `dead_lettered` counts calls
    that the store refused for good, `set_aside` stored rows that could not be used; both are kept
    in tables of their own. `contract` is what the session's vectors are of, `configured` the
    server's embedder, `reembedding` the way to that. `cycles` tells how the background cycles
    stand, and `round_seconds` how long their last round took.
    """

    session_id: str
    counts: GraphCounts
    durability: str | None = None
    flush_lag_ms: int = 0
    flush_depth: int = 0
    degraded: bool = False
    position: int = 0
    missing_vectors: int = 0
    resident_bytes: int = 0
    dead_lettered: int = 0
    set_aside: int = 0
    contract: EmbeddingContract | None = None
    configured: EmbeddingContract | None = None
    reembedding: Progress | None = None
    cycles: CycleStats | None = None
    round_seconds: float = 0.0

    @property
    def text(self) -> str:
        counts = self.counts
        health = "store away" if self.degraded else "healthy"
        lines = [
            f"session '{self.session_id}': {counts.concepts} concepts, {counts.edges} edges, "
            f"{counts.interactions} interactions",
            f"durability {self.durability or 'n/a'}, {health}, flush lag {self.flush_lag_ms} ms, "
            f"{self.flush_depth} mutations uncommitted",
        ]
        if self.missing_vectors:
            lines.append(f"{self.missing_vectors} concept(s) wait for the embedder")
        if self.reembedding is not None and self.reembedding.is_live:
            lines.append(self.reembedding.text)
        if self.dead_lettered:
            lines.append(f"{self.dead_lettered} call(s) refused by the store, kept as dead letters")
        if self.set_aside:
            lines.append(f"{self.set_aside} unusable row(s) set aside")
        for title, table in (
            ("concepts", counts.concepts_by_type),
            ("status", counts.concepts_by_status),
            ("edges", counts.edges_by_type),
        ):
            if table:
                shown = ", ".join(f"{name} {count}" for name, count in table.items())
                lines.append(f"{title}: {shown}")
        return "\n".join(lines)

    def as_wire(self) -> dict[str, Any]:
        counts = self.counts
        return {
            "summary": self.text.partition("\n")[0],
            "session": self.session_id,
            "interaction_count": counts.interactions,
            "concept_count": counts.concepts,
            "edge_count": counts.edges,
            "node_count": counts.interactions + counts.concepts,
            "canonical_count": counts.concepts_by_status.get("Canonical", 0),
            "concepts_by_type": counts.concepts_by_type,
            "concepts_by_status": counts.concepts_by_status,
            "edges_by_type": counts.edges_by_type,
            "epoch": counts.epoch,
            "position": self.position,
            "durability": self.durability,
            "flush_lag_ms": self.flush_lag_ms,
            "flush_depth": self.flush_depth,
            "degraded": self.degraded,
            "missing_vectors": self.missing_vectors,
            "resident_bytes": self.resident_bytes,
            "dead_lettered": self.dead_lettered,
            "set_aside": self.set_aside,
            "embedding": {
                "contract": _wire(self.contract),
                "configured": _wire(self.configured),
                "reembedding": None if self.reembedding is None else self.reembedding.counts(),
            },
            "cycles": None if self.cycles is None else self._cycles_wire(self.cycles),
            "warnings": [],
        }

    def _cycles_wire(self, cycles: CycleStats) -> dict[str, Any]:
        return {
            "promotion_policy": cycles.promotion_policy,
            "hot_list_size": cycles.hot_count,
            "mutations_since_sweep": cycles.mutations_since_sweep,
            "pending_survivors": cycles.pending_survivors,
            "swept_at": None if cycles.swept_at is None else format_rfc3339(cycles.swept_at),
            "evaluated_at": (
                None if cycles.evaluated_at is None else format_rfc3339(cycles.evaluated_at)
            ),
            "round_ms": round(self.round_seconds * 1_000, 3),
        }
