"""Contradictions and successions as recall asks for them, judged by the rules of importance.

Recall owns what is said of them, the rules whether they stand; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from canon.engine.contradictions import contradictions_of
from canon.engine.evaluation import REASON_SUPERSEDED
from memory.engine.concept_table import cell_time
from memory.engine.graph import Graph
from memory.engine.times import Micros
from memory.engine.types import Status


@dataclass(frozen=True, slots=True)
class ShownBeliefs:
    """Bound to a graph and an instant. `evidence_min_age` is how old evidence has to be."""

    graph: Graph
    now: Micros
    evidence_min_age: Micros

    def contradictors(self, rows: Sequence[int]) -> Mapping[int, int]:
        """Of the rows that are contradicted, the row of the concept that contradicts each."""
        standing = contradictions_of(self.graph, rows, self.now, edge_min_age=self.evidence_min_age)
        by_id = {one.node_id: self.graph.row_of(one.by) for one in standing}
        pairs = ((row, by_id.get(self.graph.id_at(row))) for row in rows)
        return {row: by for row, by in pairs if by is not None}

    def superseded_at(self, row: int) -> Micros | None:
        """When the concept last lost its status, if to a successor and not won back."""
        graph = self.graph
        was_demoted = cell_time(graph.concepts["last_demotion_time"][row]) is not None
        if not was_demoted or graph.status_at(row) is Status.CANONICAL:
            return None
        node_id = graph.id_at(row)
        for transition in reversed(graph.transitions.values()):
            if transition.node_id == node_id and transition.to_status is Status.NONE:
                is_succession = transition.reason == REASON_SUPERSEDED
                return transition.occurred_at if is_succession else None
        return None
