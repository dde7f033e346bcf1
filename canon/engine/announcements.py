"""Events from findings: one when a finding appears, none while it persists.

Owns which findings are announced, in which order, and when one is announced again. Numbers and
sends nothing: the service does, when the group that holds them is committed.

A finding that goes away is armed again. One that persists while many other events pass is announced
again, at most one in each cycle, so that a listener who came late hears of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from canon.engine.hot_list import NO_PATH_HOPS, Condition, Findings, Hit
from memory.engine.times import Micros
from memory.engine.types import NodeId

REANNOUNCED_AFTER: Final = 256
"""Announcements after which one that still holds is repeated."""

ORDER: Final = (
    Condition.CONFLICT,
    Condition.CONTRADICTION,
    Condition.HIGH_RISK,
    Condition.DRIFT,
    Condition.STALE,
)
"""Conditions that are announced, in the order within a cycle."""


class Announcement(NamedTuple):
    """One event of a detector. `agents` belongs to conflicts, `by` to contradictions, `hops` to
    drift.
    """

    condition: Condition
    node_id: NodeId
    detail: str
    agents: tuple[str, ...] = ()
    hops: int | None = None
    by: NodeId | None = None


class Announcer:
    """Remembers what was announced and still holds; one for each open session."""

    def __init__(self) -> None:
        self._count = 0
        # By node, when it was announced as a count of announcements; the longest ago comes first.
        self._announced: dict[Condition, dict[NodeId, int]] = {kind: {} for kind in ORDER}

    def announce(
        self, findings: Findings, now: Micros, *, drift_threshold: int
    ) -> tuple[Announcement, ...]:
        """What has to be said at `now`, when `findings` are all that holds."""
        new: list[Hit] = []
        for condition in ORDER:
            new += self._find_new(condition, findings.get(condition, ()))
        overdue = self._find_overdue()
        if overdue is not None:
            condition, node_id = overdue
            new += [hit for hit in findings[condition] if hit.node_id == node_id]
            del self._announced[condition][node_id]
            self._note(condition, node_id)
        return tuple(_announcement(hit, now, drift_threshold) for hit in new)

    def _find_new(self, condition: Condition, hits: Sequence[Hit]) -> list[Hit]:
        announced = self._announced[condition]
        new = [hit for hit in hits if hit.node_id not in announced]
        if len(announced) + len(new) != len(hits):
            for gone in announced.keys() - {hit.node_id for hit in hits}:
                del announced[gone]
        for hit in new:
            self._note(condition, hit.node_id)
        return new

    def _note(self, condition: Condition, node_id: NodeId) -> None:
        self._announced[condition][node_id] = self._count
        self._count += 1

    def _find_overdue(self) -> tuple[Condition, NodeId] | None:
        """The one announced longest ago, if enough was announced after it."""
        oldest = [
            (announced[node_id], condition, node_id)
            for condition, announced in self._announced.items()
            for node_id in islice(announced, 1)
        ]
        if not oldest:
            return None
        count, condition, node_id = min(oldest)
        return (condition, node_id) if self._count - count > REANNOUNCED_AFTER else None


def _announcement(hit: Hit, now: Micros, drift_threshold: int) -> Announcement:
    return Announcement(
        hit.condition,
        hit.node_id,
        _detail(hit, now, drift_threshold),
        agents=hit.agents,
        hops=hit.hops if hit.condition is Condition.DRIFT else None,
        by=hit.by,
    )


def _detail(hit: Hit, now: Micros, drift_threshold: int) -> str:
    """One sentence for people."""
    match hit.condition:
        case Condition.CONFLICT:
            agents = ", ".join(hit.agents)
            return f"agents {agents} write to it; {hit.writer} did {hit.age_seconds(now)}s ago"
        case Condition.CONTRADICTION:
            return f"{hit.writer} contradicts it with {hit.by}, {hit.age_seconds(now)}s ago"
        case Condition.HIGH_RISK:
            return hit.reason
        case Condition.DRIFT if hit.hops == NO_PATH_HOPS:
            return (
                f"concept {hit.node_id} has no path to the root goal (threshold {drift_threshold})"
            )
        case Condition.DRIFT:
            return (
                f"concept {hit.node_id} drifted {hit.hops} hops from root goal {hit.goal} "
                f"(threshold {drift_threshold})"
            )
        case _:
            return f"no activity for {hit.age_seconds(now)}s; the last was at {hit.node_id}"
