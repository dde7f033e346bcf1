"""Writes to a graph as agents make them, in one line each, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from memory.engine.actions import ActionResult, plan_action
from memory.engine.demote import DemoteResult, plan_demote
from memory.engine.derive import DeriveResult, plan_derive
from memory.engine.draft import Plan, R, Stamp
from memory.engine.embedding import Vector
from memory.engine.errors import LamboError
from memory.engine.goals import RootGoalResult, SynonymResult, plan_root_goal, plan_synonym
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings, Search, search_for_texts
from memory.engine.mutations import Mutation
from memory.engine.requests import (
    ActionRequest,
    ConceptInput,
    DemoteRequest,
    DeriveRequest,
    ReleaseRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.reservations import ReleaseResult, ReserveResult, plan_release, plan_reserve
from memory.engine.retract import RetractResult, plan_retract
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.times import SECOND, Micros
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    NodeId,
    Snapshot,
)
from memory.engine.vector_table import VectorTable, nearest
from memory.testing import SequentialIds

START: Micros = 1_000 * SECOND


def concept(
    content: str,
    concept_type: ConceptType = ConceptType.ENTITY,
    *,
    depends_on: Sequence[str] = (),
    against: Sequence[str] = (),
) -> ConceptInput:
    return ConceptInput(content, concept_type, tuple(depends_on), tuple(against))


def look_up(search: Search, table: VectorTable) -> Meanings:
    """What a search finds in a table as it is now."""
    view = table.view()
    return search.result(table, view.version, nearest(view, [*search.queries.values()]))


def observation(content: str) -> ConceptInput:
    return concept(content, ConceptType.OBSERVATION)


class Scribe:
    """A graph, and the agent who writes to it. Each write is one second after the last."""

    def __init__(self, graph: Graph | None = None, *, agent_id: str = "agent-a") -> None:
        self.graph = Graph("session", START) if graph is None else graph
        self.ids = SequentialIds()
        self.agent_id = agent_id
        self.now: Micros = START
        self.last: tuple[Mutation, ...] = ()
        """The mutations of the last write."""
        self.vectors: dict[str, Vector] = {}
        """What an embedder would give, by text; in a session with a contract."""

    def _carry_out(self, plan: Plan[R]) -> R:
        self.graph.apply_all(plan.mutations)
        self.last = plan.mutations
        self.now += SECOND
        return plan.result

    def stamp(self, event_time: Micros | None = None) -> Stamp:
        return Stamp(self.agent_id, self.now, self.ids, event_time, event_time is not None)

    def derive(
        self,
        *concepts: str | ConceptInput,
        parent_of: Sequence[tuple[str, str]] = (),
        event_time: Micros | None = None,
        co_occurrence_max: int = 10,
    ) -> DeriveResult:
        request = DeriveRequest(
            tuple(concept(given) if isinstance(given, str) else given for given in concepts),
            tuple(parent_of),
            event_time,
        )
        stamp = self.stamp(request.event_time)
        return self._carry_out(
            plan_derive(
                self.graph,
                request,
                stamp,
                co_occurrence_max=co_occurrence_max,
                meanings=self.meanings([given.content for given in request.concepts]),
            )
        )

    def meanings(self, texts: Sequence[str]) -> Meanings | None:
        """What was looked up before the write; None in a session without a contract."""
        contract, table = self.graph.contract, self.graph.vectors
        if contract is None or table is None:
            return None
        search = search_for_texts(contract, self.vectors, matched_by_meaning=texts)
        return look_up(search, table)

    def act(
        self,
        action: str,
        *,
        produces: Sequence[str] = (),
        modifies: Sequence[str] = (),
        depends_on: Sequence[str] = (),
        against: Sequence[str] = (),
        event_time: Micros | None = None,
    ) -> ActionResult:
        request = ActionRequest(
            action, tuple(produces), tuple(modifies), tuple(depends_on), tuple(against), event_time
        )
        stamp = self.stamp(event_time)
        return self._carry_out(plan_action(self.graph, request, stamp, vectors=self.vectors))

    def demote(self, chunk: str, group: str = "group") -> DemoteResult:
        request = DemoteRequest(chunk, group)
        stamp = self.stamp()
        return self._carry_out(plan_demote(self.graph, request, stamp, vectors=self.vectors))

    def retract(self, text: str, *, dry_run: bool = False) -> RetractResult:
        request = RetractRequest(text, dry_run)
        return self._carry_out(
            plan_retract(self.graph, request, actor="human", now=self.now, ids=self.ids)
        )

    def reserve(
        self, concept: str | None = None, *, node_id: str | None = None, ttl_seconds: int = 30
    ) -> ReserveResult:
        request = ReserveRequest(node_id, concept, ttl_seconds)
        return self._carry_out(
            plan_reserve(self.graph, request, agent_id=self.agent_id, now=self.now)
        )

    def release(self, concept: str | None = None, *, node_id: str | None = None) -> ReleaseResult:
        request = ReleaseRequest(node_id, concept)
        return self._carry_out(
            plan_release(self.graph, request, agent_id=self.agent_id, now=self.now)
        )

    def set_goal(self, *goals: str) -> RootGoalResult:
        request = RootGoalRequest(goals)
        return self._carry_out(
            plan_root_goal(self.graph, request, actor="human", now=self.now, ids=self.ids)
        )

    def declare_synonym(self, source: str, target: str) -> SynonymResult:
        request = SynonymRequest(source, target)
        return self._carry_out(
            plan_synonym(self.graph, request, actor="human", now=self.now, ids=self.ids)
        )

    # -- looking ----------------------------------------------------------------------------------

    def row(self, content: str) -> int:
        found = self.graph.find_by_content(content)
        assert found is not None, content
        return found

    def id(self, content: str) -> NodeId:
        return self.graph.id_at(self.row(content))

    def held(self, content: str) -> Concept:
        return self.graph.concept_at(self.row(content))

    def contents(self) -> list[str]:
        return sorted(self.graph.content_at(row) for row in self.graph.concept_rows())

    def edge(self, source: str, target: str, edge_type: EdgeType) -> Edge:
        """The edge between two concepts named by content."""
        edge = self.graph.edge_between(self.id(source), self.id(target), edge_type)
        assert edge is not None, (source, target, edge_type)
        return edge

    def pairs(self, edge_type: EdgeType) -> list[tuple[str, str]]:
        """Contents of the ends of all edges of a type between concepts, in order of writing."""
        name = {self.graph.id_at(row): self.graph.content_at(row) for row in self.all_rows()}
        edges = [edge for edge in self.graph.all_edges() if edge.edge_type is edge_type]
        return [(name[edge.source], name[edge.target]) for edge in edges]

    def all_rows(self) -> list[int]:
        return self.graph.concept_rows()

    def derivations(self, content: str) -> int:
        """How many Derives edges arrive at a concept."""
        arriving = self.graph.in_edges(self.id(content))
        return sum(edge.edge_type is EdgeType.DERIVES for edge in arriving)

    @contextmanager
    def refused(
        self, error: type[LamboError], *, field: str | None = None
    ) -> Iterator[pytest.ExceptionInfo[LamboError]]:
        """The block is refused, and leaves the graph as it was: epoch and content."""
        before = self.graph.epoch, take_snapshot(self.graph)
        with pytest.raises(error) as caught:
            yield caught
        assert (self.graph.epoch, take_snapshot(self.graph)) == before
        if field is not None:
            assert caught.value.fields["field"] == field


def reopened(graph: Graph) -> Graph:
    """The graph after closing and opening its session."""
    return load_snapshot(take_snapshot(graph))


def dependency_snapshot(concepts: int, pairs: Sequence[tuple[int, int]]) -> Snapshot:
    """Entities `node 0`, `node 1` ... of one interaction; `pairs` holds (dependent, dependency)."""
    ids = SequentialIds(seed=1)  # apart from those of a `Scribe` that goes on writing
    moment = Interaction(ids.next_id(), "agent-a", None, None, START)
    nodes = [
        Concept(
            ids.next_id(), f"node {n}", f"{n} node", ConceptType.ENTITY, moment.id, "agent-a", START
        )
        for n in range(concepts)
    ]

    def edge(source: NodeId, target: NodeId, edge_type: EdgeType) -> Edge:
        agent_id = "agent-a"
        return Edge(
            ids.next_id(), source, target, edge_type, 0.5, 1, START, START, agent_id, agent_id
        )

    derives = [edge(moment.id, node.id, EdgeType.DERIVES) for node in nodes]
    rests = [edge(nodes[a].id, nodes[b].id, EdgeType.DEPENDENCY) for a, b in pairs]
    return Snapshot("session", START, None, (moment,), tuple(nodes), (*derives, *rests))
