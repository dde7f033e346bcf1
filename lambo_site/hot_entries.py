"""The daemon's hot list as recall reads it: each finding becomes the line a reader sees.

Recall owns the wording, the detectors what is said; neither knows the other. Contradictions are
left out: recall shows those from the graph, on both ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from canon.engine.hot_list import Condition, Hit, HotView
from memory.engine.times import Micros
from memory.engine.types import NodeId
from recall.engine.hot_list import HotCondition, HotEntry
from recall.engine.rendering import conflict_line, drift_line, high_risk_line, stale_line


@dataclass(frozen=True, slots=True)
class ShownHotList:
    """A hot list bound to a graph and an instant, in the form recall asks for."""

    view: HotView

    def node_ids(self) -> Iterable[NodeId]:
        return self.view.node_ids()

    def entries(self, node_id: NodeId) -> Sequence[HotEntry]:
        return [
            entry for hit in self.view.entries(node_id) if (entry := _entry(hit, self.view.now))
        ]


def _entry(hit: Hit, now: Micros) -> HotEntry | None:
    line = shown_line(hit, now)
    return None if line is None else HotEntry(HotCondition(hit.condition), line)


def shown_line(hit: Hit, now: Micros) -> str | None:
    """What a reader is told of a finding; None for a contradiction, which is told otherwise."""
    match hit.condition:
        case Condition.CONFLICT:
            assert hit.writer is not None
            return conflict_line(hit.writer, hit.age_seconds(now))
        case Condition.HIGH_RISK:
            return high_risk_line(hit.reason)
        case Condition.DRIFT:
            assert hit.named_goal is not None
            return drift_line(hit.hops, hit.named_goal)
        case Condition.STALE:
            return stale_line(hit.age_seconds(now))
        case Condition.CONTRADICTION:
            return None
