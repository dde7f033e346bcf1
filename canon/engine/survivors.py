"""Counting, after a sweep, that each concept left has survived it: a few in each round.

Owns the order (by id), the pace and the place to go on from. A concept that is gone meanwhile is
passed over; one written since the sweep was not there to survive it.

Invariant: each survivor is counted once for each sweep, also when the process ends in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop
from typing import Final

from memory.engine.graph import Graph
from memory.engine.limits import COUNTER_MAX
from memory.engine.mutations import PutConcept
from memory.engine.times import Micros
from memory.engine.types import NodeId

SURVIVORS_PER_ROUND: Final = 500


class PendingSurvivors:
    """The survivors of the last sweep that are still to be counted."""

    def __init__(self, survivors: Iterable[NodeId] = (), *, cursor: NodeId | None = None) -> None:
        self._waiting = list(survivors)
        heapify(self._waiting)  # sorting a large session at once would hold the loop
        self.cursor = cursor
        """The last id counted; None when none was."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @classmethod
    def resume(cls, graph: Graph, *, swept_at: Micros, cursor: NodeId | None) -> PendingSurvivors:
        """What a process that ended left to do: concepts after the cursor that were there then."""
        rows = graph.concepts.live_rows()
        there = rows[graph.concepts["created_at"][rows] <= swept_at].tolist()
        ids = map(graph.concepts.ids.__getitem__, there)
        return cls((name for name in ids if cursor is None or name > cursor), cursor=cursor)

    def plan_round(
        self, graph: Graph, *, limit: int = SURVIVORS_PER_ROUND
    ) -> tuple[PutConcept, ...]:
        """The next `limit` survivors with their count raised; they are no longer pending."""
        rows: list[int] = []
        while self._waiting and len(rows) < limit:
            self.cursor = heappop(self._waiting)
            row = graph.row_of(self.cursor)
            if row is not None:
                rows.append(row)
        return tuple(
            PutConcept(one._replace(gc_survived=min(one.gc_survived + 1, COUNTER_MAX)))
            for one in (graph.concepts.records(rows, graph.chain.records) if rows else ())
        )
