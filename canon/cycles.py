"""The background cycles of one open session: `canon.engine` behind the service's port.

Owns what a session's cycles remember: the state of the daemon's rounds, the cursors and counters
that outlive the process, and when the session wants its next evaluation or sweep. Decides nothing
of a gate, a score or a sweep. No clock, no store, no task: the service calls, and stores what it is
handed.

Invariant: what is handed out as stored state is what the next process needs to go on as if it were
this one; only that the same is announced again.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from canon.engine.admission import Admission, explain
from canon.engine.announcements import Announcement
from canon.engine.cycle import DEFAULT_CYCLE, CycleSettings, CycleState, run_cycle
from canon.engine.evaluation import Evaluation, evaluate_in_steps
from canon.engine.evaluation_state import EvaluationState, read_state
from canon.engine.garbage import (
    DEFAULT_GARBAGE,
    GarbageSettings,
    is_due,
    plan_removals,
    plan_sweep,
)
from canon.engine.gate_times import Timeline
from canon.engine.hot_list import Condition, HotView
from canon.engine.maturity import next_maturity, rounds_to_cover
from canon.engine.measurements import Circumstances
from canon.engine.scoring import Scores
from canon.engine.settings import CanonSettings, Policy
from canon.engine.survivors import PendingSurvivors
from memory.engine.graph import Graph
from memory.engine.mutations import (
    ApplyTransition,
    Mutation,
    PutAccess,
    PutAudit,
    PutCycleState,
    PutVector,
    SwitchContract,
)
from memory.engine.ports import IdSource
from memory.engine.times import SECOND, Micros
from memory.engine.types import AuditKind, Json, NodeId
from memory.service.cycles import CycleStats, Finding, Steps, Tokens

log = logging.getLogger("lambo.cycles")

REMOVALS_PER_GROUP: Final = 50
"""Collected concepts in one group: planning and applying them holds the loop together."""

_SAYS_NOTHING_NEW: Final = (PutVector, SwitchContract, PutAudit, PutAccess, PutCycleState)
"""Mutations that are no writes to the memory: no sweep is due for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonCycles:
    """Makes the cycles of sessions under one group of settings; the service's `Cycles`."""

    canon: CanonSettings = field(default_factory=CanonSettings)
    garbage: GarbageSettings = DEFAULT_GARBAGE
    rounds: CycleSettings = DEFAULT_CYCLE

    def attach(self, graph: Graph, state: Json, now: Micros) -> CanonSessionCycles:
        """The cycles of a session just loaded; see the port."""
        return CanonSessionCycles(self, graph, state, now)


@dataclass(slots=True)
class _Durable:
    """What outlives the process."""

    swept_at: Micros | None = None
    swept_through: Micros = 0
    """The newest write that the last sweep saw; a clock may be set back, write times never are."""
    mutations_since_sweep: int = 0
    counted_up_to: NodeId | None = None
    """The last survivor that was counted, while some are pending."""
    has_pending: bool = False
    evaluated_at: Micros | None = None
    evaluation: EvaluationState = field(default_factory=EvaluationState)
    quiet_rounds: int = 0
    """Evaluations in a row that decided nothing, since anything changed."""
    evaluate_at: Micros | None = None
    rules: str = ""
    """Under which policy the last evaluation was made."""

    def as_json(self) -> dict[str, Json]:
        return {
            "swept_at": self.swept_at,
            "swept_through": self.swept_through,
            "mutations_since_sweep": self.mutations_since_sweep,
            "counted_up_to": self.counted_up_to,
            "has_pending": self.has_pending,
            "evaluated_at": self.evaluated_at,
            "evaluation": self.evaluation.as_json(),
            "quiet_rounds": self.quiet_rounds,
            "evaluate_at": self.evaluate_at,
            "rules": self.rules,
        }

    @classmethod
    def read(cls, stored: Json) -> _Durable:
        """What a process left; a fresh start in whatever of it is not usable."""
        held = stored if isinstance(stored, Mapping) else {}
        return cls(
            swept_at=_whole(held.get("swept_at")),
            swept_through=_whole(held.get("swept_through")) or 0,
            mutations_since_sweep=_whole(held.get("mutations_since_sweep")) or 0,
            counted_up_to=_text(held.get("counted_up_to")),
            has_pending=held.get("has_pending") is True,
            evaluated_at=_whole(held.get("evaluated_at")),
            evaluation=read_state(held.get("evaluation")),
            quiet_rounds=_whole(held.get("quiet_rounds")) or 0,
            evaluate_at=_whole(held.get("evaluate_at")),
            rules=_text(held.get("rules")) or "",
        )


class CanonSessionCycles:
    """The cycles of one open session; the service's `SessionCycles`. Use it on one event loop."""

    def __init__(self, made_by: CanonCycles, graph: Graph, stored: Json, now: Micros) -> None:
        self._settings = made_by
        self._created_at = graph.created_at
        self._durable = durable = _Durable.read(stored)
        self._stored: PutCycleState | None = self._note() if stored is not None else None
        if durable.rules != _rules_of(made_by.canon) and graph.concept_count:
            # Judged by other rules before: everything is worth another look.
            durable.quiet_rounds, durable.evaluate_at = 0, graph.created_at
        durable.rules = _rules_of(made_by.canon)
        self._survivors = PendingSurvivors()
        if durable.has_pending:
            self._survivors = PendingSurvivors.resume(
                graph, swept_at=durable.swept_through, cursor=durable.counted_up_to
            )
        self._raised_at: Micros | None = None
        self._own: PutCycleState | None = None  # ends the group that was handed out last
        self._timeline = Timeline()
        self._timeline.follow(graph)
        self._state = CycleState(graph, made_by.rounds)
        self._state.catch_up(graph, now, ends_max=None)
        self._untold = run_cycle(self._state, graph, now).announcements

    # -- what readers ask -------------------------------------------------------------------------

    @property
    def scores(self) -> Scores:
        """Every concept's score, by row."""
        return self._state.table.scores

    def hot(self, graph: Graph, now: Micros) -> HotView:
        """The hot list for a reader at `now`."""
        return self._state.view(graph, now)

    @property
    def needs_tokens(self) -> bool:
        return self._settings.canon.promotion_policy is Policy.QUORUM

    def explain(self, graph: Graph, row: int, now: Micros, tokens: Tokens) -> Admission:
        """Why a live concept has its status, as the evaluations judge it."""
        circumstances = self._circumstances(graph, now, tokens)
        return explain(graph, row, circumstances, timeline=self._timeline)

    def _circumstances(self, graph: Graph, now: Micros, tokens: Tokens) -> Circumstances:
        return Circumstances(
            now=now,
            settings=self._settings.canon,
            confirmations=graph.standing.confirmations(),
            token_created_at=tokens.created_at,
        )

    def stats(self) -> CycleStats:
        durable = self._durable
        return CycleStats(
            promotion_policy=str(self._settings.canon.promotion_policy),
            hot_count=len(self._state.hot_list.hits),
            mutations_since_sweep=durable.mutations_since_sweep,
            pending_survivors=bool(self._survivors),
            swept_at=durable.swept_at,
            evaluated_at=durable.evaluated_at,
        )

    # -- the rounds -------------------------------------------------------------------------------

    def on_applied(self, graph: Graph, mutations: Sequence[Mutation], now: Micros) -> None:
        self._state.score_written(graph, mutations)
        self._stored = next(
            (one for one in reversed(mutations) if isinstance(one, PutCycleState)), self._stored
        )
        # By its last mutation: linking the audit rows of a group makes another tuple of it.
        if mutations and mutations[-1] is self._own:
            return
        written = sum(not isinstance(one, _SAYS_NOTHING_NEW) for one in mutations)
        self._durable.mutations_since_sweep += written
        if written:
            self._raise(now + self._settings.canon.edge_min_age)
        if any(isinstance(one, PutAudit) and one.entry.kind is _CONFIRM for one in mutations):
            self._raise(now)

    def run_round(self, graph: Graph, now: Micros) -> Sequence[Finding]:
        untold, self._untold = self._untold, ()
        found = run_cycle(self._state, graph, now).announcements
        return [_finding(one) for one in (*untold, *found)]

    # -- evaluation -------------------------------------------------------------------------------

    def needs_evaluation(self, now: Micros) -> bool:
        evaluate_at = self._durable.evaluate_at
        return evaluate_at is not None and evaluate_at <= now

    def evaluate(
        self, graph: Graph, now: Micros, *, ids: IdSource, tokens: Tokens
    ) -> Generator[None, None, tuple[Mutation, ...]]:
        settings, durable = self._settings.canon, self._durable
        circumstances = self._circumstances(graph, now, tokens)
        self._raised_at = None
        to_cover = rounds_to_cover(graph, settings)
        self._timeline.follow(graph)
        matures_at = next_maturity(
            graph, self._timeline, now, settings=settings, token_created_at=tokens.created_at
        )
        yield
        evaluation = yield from evaluate_in_steps(
            graph,
            durable.evaluation,
            circumstances,
            ids=ids,
            scores=self._state.table.scores,
            timeline=self._timeline,
        )
        for note in evaluation.notes:
            log.info("session %r: %s", graph.session_id, note)
        had_looked_around = durable.quiet_rounds >= to_cover
        quiet = 1 if had_looked_around else durable.quiet_rounds + 1
        durable.quiet_rounds = 0 if evaluation.decisions else quiet
        durable.evaluation, durable.evaluated_at = evaluation.state, now
        durable.evaluate_at = _sooner(self._raised_at, matures_at)
        if durable.quiet_rounds < to_cover:
            durable.evaluate_at = now
        return self._give(_steps_of(evaluation))

    def _raise(self, at: Micros) -> None:
        """Something changed that an evaluation at that instant has to see."""
        durable = self._durable
        durable.quiet_rounds = 0
        durable.evaluate_at = _sooner(durable.evaluate_at, at)
        self._raised_at = _sooner(self._raised_at, at)

    # -- garbage collection -----------------------------------------------------------------------

    def needs_collection(self, now: Micros) -> bool:
        return bool(self._survivors) or self._is_sweep_due(now)

    def _is_sweep_due(self, now: Micros) -> bool:
        durable = self._durable
        return is_due(
            durable.mutations_since_sweep,
            self._created_at if durable.swept_at is None else durable.swept_at,
            now,
            has_pending_survivors=bool(self._survivors),
            settings=self._settings.garbage,
        )

    def collect(
        self, graph: Graph, now: Micros, *, ids: IdSource, is_forced: bool = False
    ) -> Steps:
        yield from self._count_survivors(graph, now)
        if not is_forced and not self._is_sweep_due(now):
            return
        durable = self._durable
        counted = durable.mutations_since_sweep
        through = graph.created_at if graph.tail is None else graph.tail.created_at
        sweep = plan_sweep(graph, now, settings=self._settings.garbage)
        for warning in sweep.warnings:
            log.warning("session %r: %s", graph.session_id, warning)
        # Writes may come in between: what they touched is looked at again before it is taken out.
        yield ()
        survivors = PendingSurvivors(sweep.survivors)
        yield ()
        self._survivors = survivors
        durable.swept_at, durable.swept_through = now, through
        durable.mutations_since_sweep -= counted
        durable.counted_up_to, durable.has_pending = None, bool(survivors)
        for start in range(0, max(1, len(sweep.collected)), REMOVALS_PER_GROUP):
            yield self._give(
                plan_removals(graph, sweep, ids=ids, now=now, start=start, count=REMOVALS_PER_GROUP)
            )
        yield from self._count_survivors(graph, now)

    def _count_survivors(self, graph: Graph, now: Micros) -> Steps:
        while self._survivors:
            raised = self._survivors.plan_round(graph)
            self._durable.counted_up_to = self._survivors.cursor
            self._durable.has_pending = bool(self._survivors)
            self._raise(now)  # what has survived often enough may rise
            yield self._give(raised)

    # -- what is stored ---------------------------------------------------------------------------

    def due_note(self) -> PutCycleState | None:
        note, stored = self._note(), self._stored
        held = (None, None) if stored is None else (stored.evaluate_at, stored.collect_at)
        is_known = _is_no_later(held[0], note.evaluate_at) and _is_no_later(
            held[1], note.collect_at
        )
        return None if is_known else note

    def state_note(self) -> PutCycleState | None:
        note = self._note()
        if self._stored is None and self._durable == _Durable(rules=self._durable.rules):
            return None  # nothing has happened yet
        return None if note == self._stored else note

    def _note(self) -> PutCycleState:
        durable = self._durable
        return PutCycleState(durable.as_json(), durable.evaluate_at, self._collect_at())

    def _collect_at(self) -> Micros | None:
        """When a sweep is due if nobody writes; an instant in the past for at once."""
        durable, settings = self._durable, self._settings.garbage
        since = self._created_at if durable.swept_at is None else durable.swept_at
        if durable.has_pending or durable.mutations_since_sweep >= settings.interval_mutations:
            return since
        if durable.mutations_since_sweep >= settings.idle_floor_mutations:
            return since + settings.interval_max_seconds * SECOND
        return None

    def _give(self, mutations: Sequence[Mutation]) -> tuple[Mutation, ...]:
        """A group of a cycle's own, with what the next process goes on from if it is stored."""
        self._own = note = self._note()
        return (*mutations, note)


_CONFIRM: Final = AuditKind.CONFIRM


def _rules_of(settings: CanonSettings) -> str:
    """The settings that decide what an evaluation finds, as a short text."""
    ruled = ", superseding" if settings.canonization_supersede else ""
    return f"{settings.promotion_policy}{ruled}"


def _steps_of(evaluation: Evaluation) -> list[Mutation]:
    """The transitions, each with the evidence its audit row keeps."""
    return [
        ApplyTransition(decision.transition, decision.evidence.as_wire())
        for decision in evaluation.decisions
    ]


_KINDS: Final = {
    Condition.CONFLICT: "conflict",
    Condition.CONTRADICTION: "contradiction",
    Condition.HIGH_RISK: "high-risk",
    Condition.DRIFT: "drift",
    Condition.STALE: "stale",
}


def _finding(told: Announcement) -> Finding:
    data: dict[str, Json] = {"node_id": told.node_id, "detail": told.detail}
    if told.agents:
        data["agents"] = list(told.agents)
    if told.by is not None:
        data["by"] = told.by
    if told.hops is not None:
        data["hops"] = told.hops
    return Finding(_KINDS[told.condition], told.node_id, data)


def _sooner(one: Micros | None, other: Micros | None) -> Micros | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _is_no_later(stored: Micros | None, wanted: Micros | None) -> bool:
    """Whether a stored instant wakes a session in time for a wanted one."""
    return wanted is None or (stored is not None and stored <= wanted)


def _whole(value: Json) -> int | None:
    return value if type(value) is int else None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None
