"""One round of the daemon over a session: score, detect, order what needs attention, announce.

Owns the order of the round and the state kept between rounds. Changes nothing in the graph and
plans no mutations: collecting is asked for separately (`canon.engine.garbage`).

The state watches the graph it was made for and follows its changes, so that a round costs what was
written since the last one, beside a handful of operations on whole columns. It is a cache: thrown
away and made anew it finds the same, though it announces again what was announced before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from canon.engine.announcements import Announcement, Announcer
from canon.engine.contradictions import (
    EVIDENCE_MIN_AGE,
    Contradiction,
    contradictions_of,
    find_contradictions,
)
from canon.engine.detectors import (
    Quiet,
    find_conflicts,
    find_high_risks,
    recheck_conflict,
    recheck_high_risk,
)
from canon.engine.drift import SLICE_ENDS, THRESHOLD_HOPS, DriftField, DriftFinder
from canon.engine.hot_list import (
    HOT_LIST_MAX,
    Condition,
    Findings,
    Hit,
    HotList,
    HotView,
    build_hot_list,
    in_standing_order,
)
from canon.engine.recent_writes import WINDOW, RecentWrites, Writers
from canon.engine.scoring import DEFAULT_WEIGHTS, ScoreTable, ScoringWeights, rescore
from memory.engine.changes import ChangeLog
from memory.engine.graph import Graph
from memory.engine.mutations import Mutation, PutConcept, PutEdge
from memory.engine.times import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSettings:
    """Weights, windows and bounds of a round."""

    weights: ScoringWeights = DEFAULT_WEIGHTS
    recency_window: Micros = WINDOW
    drift_threshold_hops: int = THRESHOLD_HOPS
    hot_list_max: int = HOT_LIST_MAX
    hot_list_contradiction_max: int | None = None
    """None means half of the hot list."""
    contradiction_evidence_min_age: Micros = EVIDENCE_MIN_AGE


DEFAULT_CYCLE: Final = CycleSettings()


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a round found. `scores` is the table now in force, new if `is_rescored`."""

    scores: ScoreTable
    is_rescored: bool
    hot_list: HotList
    announcements: tuple[Announcement, ...]


class CycleState:
    """What is kept between the rounds of one open session. One for each graph, and it alone."""

    def __init__(self, graph: Graph, settings: CycleSettings = DEFAULT_CYCLE) -> None:
        self.settings = settings
        self.table = rescore(graph, settings.weights)
        self.hot_list = HotList()
        self.field = DriftField(graph)
        self._min_age = settings.contradiction_evidence_min_age
        self._changes = graph.change_log = ChangeLog()
        self._recent = RecentWrites(settings.recency_window)
        self._writers = Writers()
        self._quiet = Quiet()
        self._announcer = Announcer()
        self._drift = DriftFinder(self.field, settings.drift_threshold_hops)

    def score_written(self, graph: Graph, mutations: Iterable[Mutation]) -> None:
        """Score what a write just applied touched, so that no concept is without a score."""
        touched: set[int | None] = set()
        for mutation in mutations:
            match mutation:
                case PutConcept(concept):
                    touched.add(graph.row_of(concept.id))
                case PutEdge(edge):
                    touched.update((graph.row_of(edge.source), graph.row_of(edge.target)))
        rows = [row for row in touched if row is not None]
        if rows:
            self.table = self.table.with_rows(graph, np.array(rows))

    def catch_up(self, graph: Graph, now: Micros, *, ends_max: int | None = SLICE_ENDS) -> None:
        """Take in what was written since the last look; `ends_max` bounds the work on drift.

        Called by every round and before entries are looked at again. With None it is done in full:
        for whoever opens a large session, off the event loop.
        """
        assert graph.change_log is self._changes, "a state follows the graph it was made for"
        changes = self._changes.take()
        self.field.follow(graph, changes)
        self._recent.follow(changes)
        self._writers.follow(graph, changes)
        self.field.settle(graph, ends_max=ends_max)
        self._recent.advance(graph, now)

    def view(self, graph: Graph, now: Micros) -> HotView:
        """The hot list for a reader at `now`; what no longer holds is left out."""
        self.catch_up(graph, now)
        return HotView(self.hot_list, lambda hit: self._recheck(graph, hit, now), now)

    def find(self, graph: Graph, now: Micros) -> Findings:
        """The findings of all detectors, in the order in which they fill a hot list."""
        limit = self.settings.hot_list_max
        declared = find_contradictions(graph, now, edge_min_age=self._min_age)
        found: dict[Condition, list[Hit]] = {
            Condition.CONFLICT: find_conflicts(
                graph, self._recent, self._writers, now, limit=limit
            ),
            Condition.CONTRADICTION: in_standing_order(map(_contradiction, declared)),
            Condition.HIGH_RISK: find_high_risks(graph, self._recent, now, limit=limit),
        }
        room = max(0, limit - sum(map(len, found.values())))
        stale = self._quiet.find(graph, self._recent, now)
        found[Condition.DRIFT] = self._drift.find(graph, room)
        found[Condition.STALE] = [] if stale is None else [stale]
        return found

    def announce(self, findings: Findings, now: Micros) -> tuple[Announcement, ...]:
        """What has to be said about the findings that hold now."""
        return self._announcer.announce(
            findings, now, drift_threshold=self.settings.drift_threshold_hops
        )

    def _recheck(self, graph: Graph, hit: Hit, now: Micros) -> Hit | None:
        """The same finding at the same node as of now."""
        row = graph.row_of(hit.node_id)
        if row is None:
            return None
        match hit.condition:
            case Condition.CONFLICT:
                return recheck_conflict(graph, self._recent, self._writers, row, now)
            case Condition.CONTRADICTION:
                found = contradictions_of(graph, [row], now, edge_min_age=self._min_age)
                return _contradiction(found[0]) if found else None
            case Condition.HIGH_RISK:
                return recheck_high_risk(graph, self._recent, row, now)
            case Condition.DRIFT:
                return self._drift.recheck(graph, hit, row)
            case Condition.STALE:
                stale = self._quiet.find(graph, self._recent, now)
                return stale if stale is not None and stale.node_id == hit.node_id else None


def _contradiction(found: Contradiction) -> Hit:
    return Hit(found.node_id, Condition.CONTRADICTION, found.at, writer=found.writer, by=found.by)


def run_cycle(state: CycleState, graph: Graph, now: Micros) -> CycleResult:
    """One round: rescore if anything changed, detect, order, announce."""
    is_rescored = state.table.epoch != graph.epoch
    if is_rescored:
        state.table = rescore(graph, state.settings.weights)
    state.catch_up(graph, now)
    hot_list = build_hot_list(
        state.find(graph, now),
        capacity=state.settings.hot_list_max,
        contradiction_max=state.settings.hot_list_contradiction_max,
    )
    if hot_list.findings != state.hot_list.findings:
        state.hot_list = hot_list  # else the old one keeps what it has worked out
    announcements = state.announce(hot_list.findings, now)
    return CycleResult(state.table, is_rescored, state.hot_list, announcements)
