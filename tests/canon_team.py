"""A team of agents that writes one session, and its evaluations; for tests of canonization.

Writes go through the engine's own planners. Between two writes a second passes; `wait` lets more
time pass. Concepts are named by content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from canon.engine.admission import Admission, explain
from canon.engine.evaluation import Evaluation, evaluate
from canon.engine.evaluation_state import EvaluationState
from canon.engine.gate_times import Timeline
from canon.engine.measurements import Circumstances, Measurements, measure
from canon.engine.scoring import rescore
from canon.engine.settings import CanonSettings, Policy
from memory.engine.actions import plan_action
from memory.engine.derive import plan_derive
from memory.engine.draft import Plan, R, Stamp
from memory.engine.graph import Graph
from memory.engine.mutations import ApplyTransition, PutConcept
from memory.engine.requests import ActionRequest, ConceptInput, DeriveRequest
from memory.engine.times import SECOND, Micros
from memory.engine.types import ConceptType, NodeId, Status, Transition
from memory.testing import SequentialIds

START: Micros = 1_700_000_000 * SECOND
HOUR, DAY = 3_600, 86_400
LADDER = (Status.CANDIDATE, Status.VENERABLE, Status.CANONICAL)


@dataclass
class Team:
    """`settings` and the mappings are what the evaluations are given."""

    graph: Graph = field(default_factory=lambda: Graph("session", START))
    settings: CanonSettings = field(default_factory=CanonSettings)
    confirmations: dict[NodeId, int] = field(default_factory=dict)
    token_created_at: dict[str, Micros] = field(default_factory=dict)
    ids: SequentialIds = field(default_factory=SequentialIds)
    now: Micros = START
    state: EvaluationState = field(default_factory=EvaluationState)
    timeline: Timeline = field(default_factory=Timeline)

    # -- writing -------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def _carry_out(self, plan: Plan[R]) -> R:
        self.graph.apply_all(plan.mutations)
        self.now += SECOND
        return plan.result

    def _stamp(self, agent: str, event_time: Micros | None, is_backdated: bool) -> Stamp:
        return Stamp(agent, self.now, self.ids, event_time, is_backdated)

    def derive(
        self,
        agent: str,
        *contents: str,
        on: Sequence[str] = (),
        against: Sequence[str] = (),
        parent: str | None = None,
        kind: ConceptType = ConceptType.ENTITY,
        event_time: Micros | None = None,
        is_backdated: bool = False,
    ) -> None:
        """One interaction; `on` and `against` are cited by each content, `parent` has them all."""
        inputs = tuple(ConceptInput(text, kind, tuple(on), tuple(against)) for text in contents)
        children = () if parent is None else tuple((parent, text) for text in contents)
        request = DeriveRequest(inputs, children, event_time)
        stamp = self._stamp(agent, event_time, is_backdated)
        self._carry_out(plan_derive(self.graph, request, stamp, co_occurrence_max=10))

    def act(self, agent: str, action: str, **touched: Sequence[str]) -> None:
        given: dict[str, Any] = {name: tuple(texts) for name, texts in touched.items()}
        request = ActionRequest(
            action, **{"produces": (), "modifies": (), "depends_on": ()} | given
        )
        self._carry_out(plan_action(self.graph, request, self._stamp(agent, None, False)))

    def rest_on(
        self, concept: str, agents: Sequence[str], *, apart: float = HOUR, tag: str = ""
    ) -> None:
        """One new dependent for each agent named, each in an interaction of its own."""
        for agent in agents:
            self.derive(agent, f"{tag}rests{self.graph.concept_count}", on=[concept])
            self.wait(apart)

    def survive(self, sweeps: int = 3) -> None:
        """Let all concepts have outlived some sweeps."""
        for row in self.graph.concept_rows():
            concept = self.graph.concept_at(row)
            self.graph.apply(PutConcept(concept._replace(gc_survived=sweeps)))

    def promote(self, content: str, status: Status) -> None:
        """Put a concept on a step of the ladder, as an earlier evaluation did."""
        for step in LADDER[: LADDER.index(status) + 1]:
            before = self.status(content)
            if before is step:
                continue
            self.graph.apply(ApplyTransition(self._transition(content, before, step)))

    def demote(self, content: str) -> None:
        step = self._transition(content, Status.CANONICAL, Status.NONE)
        step = step._replace(last_demotion_time=self.now, reason="Budget")
        self.graph.apply(ApplyTransition(step))

    def _transition(self, content: str, before: Status, after: Status) -> Transition:
        event = self.ids.next_ordered_id(self.now)
        return Transition(event, self.id(content), before, after, None, None, self.now, "test")

    # -- looking -------------------------------------------------------------------------------

    def row(self, content: str) -> int:
        row = self.graph.find_by_content(content)
        assert row is not None, content
        return row

    def id(self, content: str) -> NodeId:
        return self.graph.id_at(self.row(content))

    def content(self, node_id: NodeId) -> str:
        row = self.graph.row_of(node_id)
        assert row is not None
        return self.graph.content_at(row)

    def status(self, content: str) -> Status:
        return self.graph.status_at(self.row(content))

    def statuses(self) -> dict[str, Status]:
        """Of the concepts that have one."""
        held = {
            self.graph.content_at(row): self.graph.status_at(row)
            for row in self.graph.concept_rows()
        }
        return {content: status for content, status in held.items() if status is not Status.NONE}

    # -- evaluating ----------------------------------------------------------------------------

    @property
    def circumstances(self) -> Circumstances:
        return Circumstances(
            now=self.now,
            settings=self.settings,
            confirmations=self.confirmations,
            token_created_at=self.token_created_at,
        )

    def measure(self, content: str) -> Measurements:
        (found,) = measure(self.graph, [self.row(content)], self.circumstances, self.timeline)
        return found

    def explain(self, content: str) -> Admission:
        return explain(self.graph, self.row(content), self.circumstances, timeline=self.timeline)

    def plan(self, scores: Mapping[str, float] | None = None) -> Evaluation:
        """What a cycle would do; `scores` by content, else those of the daemon."""
        table = rescore(self.graph).scores
        if scores is not None:
            table = np.zeros(self.graph.concepts.used)
            for row in self.graph.concept_rows():
                table[row] = scores.get(self.graph.content_at(row), 0.0)
        return evaluate(
            self.graph,
            self.state,
            self.circumstances,
            ids=self.ids,
            scores=table,
            timeline=self.timeline,
        )

    def cycle(self, scores: Mapping[str, float] | None = None) -> list[tuple[str, Status]]:
        """Run a cycle; what moved, in order."""
        planned = self.plan(scores)
        self.graph.apply_all(planned.mutations)
        self.state = planned.state
        steps = [decision.transition for decision in planned.decisions]
        return [(self.content(step.node_id), step.to_status) for step in steps]

    def settle(self, cycles: int = 50) -> None:
        """Run cycles until a few in a row move nothing; the clock stands still."""
        quiet = 0
        for _ in range(cycles):
            quiet = 0 if self.cycle() else quiet + 1
            if quiet == 4:
                return
        raise AssertionError("the session does not come to rest")


def quorum_team(*agents: str) -> Team:
    """A team under Quorum whose agents have had tokens for long."""
    team = Team(settings=CanonSettings(promotion_policy=Policy.QUORUM))
    team.token_created_at.update(dict.fromkeys(agents, START - 30 * DAY * SECOND))
    return team
