"""Session-wide words: what the session is for, and which spellings mean the same.

Setting the root goal is the one act that grants a status without evidence; surfaces leave it to
humans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.engine.draft import Plan
from memory.engine.graph import Graph
from memory.engine.mutations import (
    ApplyTransition,
    Mutation,
    PutAudit,
    PutSynonym,
    SetRootGoal,
)
from memory.engine.ports import IdSource
from memory.engine.requests import RootGoalRequest, SynonymRequest
from memory.engine.times import Micros
from memory.engine.types import AuditEntry, AuditKind, Json, NodeId, Status, Transition


@dataclass(frozen=True, slots=True)
class RootGoalResult:
    """The goal now held, and the concepts it made Venerable."""

    goals: tuple[str, ...]
    promoted: tuple[NodeId, ...]
    changed: bool

    @property
    def text(self) -> str:
        if not self.goals:
            return "root goal cleared" if self.changed else "there was no root goal"
        state = "set" if self.changed else "unchanged"
        return f"root goal {state}; {len(self.promoted)} concept(s) became Venerable"

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "goals": list(self.goals),
            "promoted": list(self.promoted),
            "changed": self.changed,
            "warnings": [],
        }


@dataclass(frozen=True, slots=True)
class SynonymResult:
    """A spelling now read as another."""

    source: str
    target: str
    changed: bool

    @property
    def text(self) -> str:
        state = "is now" if self.changed else "was already"
        return f"'{self.source}' {state} read as '{self.target}'"

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "source": self.source,
            "target": self.target,
            "changed": self.changed,
            "warnings": [],
        }


def goal_texts(root_goal: Json) -> tuple[str, ...]:
    """The texts a root goal stands for, sorted, each once.

    The string itself; or every string of an array; or the `content` and `key` of an object.
    """
    if isinstance(root_goal, str):
        found = [root_goal]
    elif isinstance(root_goal, list):
        found = [item for item in root_goal if isinstance(item, str)]
    elif isinstance(root_goal, dict):
        members = (root_goal.get("content"), root_goal.get("key"))
        found = [item for item in members if isinstance(item, str)]
    else:
        found = []
    return tuple(sorted(set(found)))


def goal_rows(graph: Graph, root_goal: Json) -> list[int]:
    """Rows of the concepts whose content or key is a goal text exactly, by id."""
    found: set[int] = set()
    for text in goal_texts(root_goal):
        found.update(graph.rows_with_content(text))
        found.update(graph.observation_rows(text))
        keyed = graph.find_by_key(text)
        if keyed is not None:
            found.add(keyed)
    return sorted(found, key=graph.id_at)


def plan_root_goal(
    graph: Graph, request: RootGoalRequest, *, actor: str, now: Micros, ids: IdSource
) -> Plan[RootGoalResult]:
    """Set the goal and make its concepts Venerable; the goal already held plans nothing.

    The audit rows carry the session's logical time, so replaying a session gives the same rows.
    """
    goal: Json = list(request.goals) or None
    if goal == graph.root_goal:
        return Plan((), RootGoalResult(request.goals, (), changed=False))
    occurred_at = graph.logical_time
    mutations: list[Mutation] = [SetRootGoal(goal)]
    promoted: list[NodeId] = []
    for row in goal_rows(graph, goal):
        concept = graph.concept_at(row)
        if concept.status not in (Status.NONE, Status.CANDIDATE):
            continue
        promoted.append(concept.id)
        mutations.append(
            ApplyTransition(
                Transition(
                    id=ids.next_ordered_id(now),
                    node_id=concept.id,
                    from_status=concept.status,
                    to_status=Status.VENERABLE,
                    blast_radius=concept.blast_radius,
                    last_demotion_time=None,
                    occurred_at=occurred_at,
                    actor=actor,
                )
            )
        )
    mutations.append(
        PutAudit(
            AuditEntry(
                id=ids.next_ordered_id(now),
                kind=AuditKind.ROOT_GOAL,
                node_id=None,
                from_status=None,
                to_status=None,
                occurred_at=now,
                actor=actor,
                detail={"promoted": promoted},
                texts={"before": graph.root_goal, "after": goal},
            )
        )
    )
    return Plan(tuple(mutations), RootGoalResult(request.goals, tuple(promoted), changed=True))


def plan_synonym(
    graph: Graph, request: SynonymRequest, *, actor: str, now: Micros, ids: IdSource
) -> Plan[SynonymResult]:
    """Map one spelling to another; a map that stands plans nothing."""
    source, target = request.source.strip(), request.target.strip()
    before = graph.synonyms.get(source)
    if before == target:
        return Plan((), SynonymResult(source, target, changed=False))
    entry = AuditEntry(
        id=ids.next_ordered_id(now),
        kind=AuditKind.SYNONYM,
        node_id=None,
        from_status=None,
        to_status=None,
        occurred_at=now,
        actor=actor,
        texts={"source": source, "before": before, "after": target},
    )
    mutations = (PutSynonym(source, target), PutAudit(entry))
    return Plan(mutations, SynonymResult(source, target, changed=True))
