"""What needs attention now: the findings of all detectors, bounded and in one order.

Owns conditions, their severities, the order, the capacity and the budget of contradictions. Detects
nothing: whoever has findings hands them in, and who reads them hands in how to check them again.

A list is made anew by every cycle from what that cycle found; so a finding that is no longer true
is gone with the next cycle, and `HotView` drops it even before that.

Order: severity, then newest evidence, then id. Of equal severity a conflict precedes a
contradiction, which it would otherwise be pushed out by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from memory.engine.times import SECOND, Micros
from memory.engine.types import NodeId

HOT_LIST_MAX: Final = 1_000
NO_PATH_HOPS: Final = 2**32 - 1
"""Stands for "no path at all" wherever hops are counted."""


class Condition(StrEnum):
    """What a detector found at a node; in the order of a hot list."""

    CONFLICT = "Conflict"
    CONTRADICTION = "Contradiction"
    HIGH_RISK = "HighRiskModification"
    DRIFT = "Drift"
    STALE = "StaleSession"


SEVERITY: Final = {
    Condition.CONFLICT: 3,
    Condition.CONTRADICTION: 3,
    Condition.HIGH_RISK: 2,
    Condition.DRIFT: 1,
    Condition.STALE: 0,
}


class Hit(NamedTuple):
    """A condition that holds at a node.

    `at` is the instant of the newest evidence: the write, the declaration, the birth of a drifting
    concept, the last activity. The fields after it belong to some conditions only.
    """

    node_id: NodeId
    condition: Condition
    at: Micros
    writer: str | None = None  # conflict, contradiction: who wrote the newest evidence
    agents: tuple[str, ...] = ()  # conflict: all who wrote here, sorted
    reason: str = ""  # high risk
    by: NodeId | None = None  # contradiction: the contradicting concept
    hops: int = 0  # drift; `NO_PATH_HOPS` for none
    goal: NodeId | None = None  # drift: the nearest goal, None without a path
    named_goal: NodeId | None = None  # drift: the goal a line names, with or without a path

    @property
    def severity(self) -> int:
        return SEVERITY[self.condition]

    def age_seconds(self, now: Micros) -> int:
        """Whole seconds since the newest evidence."""
        return (now - self.at) // SECOND


Findings: TypeAlias = Mapping[Condition, Sequence[Hit]]
"""What was found, by condition: at most one hit for each node, in standing order."""

Recheck: TypeAlias = Callable[[Hit], Hit | None]
"""The same finding as of now, or None when it no longer holds."""


def in_standing_order(hits: Iterable[Hit]) -> list[Hit]:
    """Hits of one condition: newest evidence first, then by id."""
    return sorted(hits, key=lambda hit: (-hit.at, hit.node_id))


class HotList:
    """The findings of one cycle, in order; at most one for each node and condition."""

    def __init__(self, findings: Findings | None = None) -> None:
        self.findings: Findings = {} if findings is None else findings

    @property
    def hits(self) -> tuple[Hit, ...]:
        """All of them, in order."""
        return tuple(hit for hits in self.findings.values() for hit in hits)

    @cached_property
    def by_node(self) -> dict[NodeId, tuple[Hit, ...]]:
        """Each node's hits, in order."""
        by_node: dict[NodeId, tuple[Hit, ...]] = {}
        for hit in self.hits:
            by_node[hit.node_id] = (*by_node.get(hit.node_id, ()), hit)
        return by_node


def build_hot_list(
    findings: Findings,
    *,
    capacity: int = HOT_LIST_MAX,
    contradiction_max: int | None = None,
) -> HotList:
    """Keep the first `capacity` of the findings.

    Of the contradictions the newest `contradiction_max` are kept, by default half the capacity.
    """
    budget = capacity // 2 if contradiction_max is None else contradiction_max
    kept: dict[Condition, Sequence[Hit]] = {}
    room = capacity
    for condition in Condition:
        hits = findings.get(condition, ())
        allowed = min(room, budget) if condition is Condition.CONTRADICTION else room
        kept[condition] = hits if len(hits) <= allowed else hits[:allowed]
        room -= len(kept[condition])
    return HotList(kept)


class HotView:
    """A hot list as a reader sees it: every entry is looked at again when it is asked for."""

    def __init__(self, hot_list: HotList, recheck: Recheck, now: Micros) -> None:
        self._by_node = hot_list.by_node
        self._recheck = recheck
        self.now = now

    def node_ids(self) -> Iterable[NodeId]:
        """The nodes that may have an entry, each once."""
        return self._by_node.keys()

    def entries(self, node_id: NodeId) -> tuple[Hit, ...]:
        """The entries of a node that still hold at `now`, in hot-list order."""
        held = self._by_node.get(node_id, ())
        return tuple(hit for old in held if (hit := self._recheck(old)) is not None)
