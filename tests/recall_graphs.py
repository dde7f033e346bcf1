"""Small graphs written record by record, for tests of reading: ids and times are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memory.engine.config import FusionKind
from memory.engine.graph import Graph
from memory.engine.mutations import PutConcept, PutEdge, PutInteraction, PutReservation
from memory.engine.rules import EDGES
from memory.engine.text import canonical_key
from memory.engine.times import SECOND, Micros
from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    NodeId,
    Reservation,
    Status,
)
from recall.engine.hot_list import HotEntry
from recall.engine.settings import FusionSettings, RecallSettings

MAX = FusionSettings(kind=FusionKind.MAX)
BY_MAX = RecallSettings(fusion=MAX)
"""The highest raw score decides: what published scores were made with."""

START: Micros = 1_752_000_000 * SECOND  # 2025-07-08T18:40:00Z


def numbered_id(number: int) -> NodeId:
    """A UUID whose text sorts as the number does."""
    return f"00000000-0000-4000-8000-{number:012d}"


@dataclass
class GraphWriter:
    """Writes into `graph`; every concept is derived by the newest interaction."""

    graph: Graph = field(default_factory=lambda: Graph("s", START))
    _edges: int = 0

    def interact(self, agent: str = "agent-a") -> NodeId:
        count = self.graph.interaction_count
        tail = self.graph.tail
        interaction = Interaction(
            id=numbered_id(900_000 + count),
            agent_id=agent,
            prompt_text=None,
            previous_id=None if tail is None else tail.id,
            created_at=START + count * SECOND,
        )
        self.graph.apply(PutInteraction(interaction))
        if tail is not None:
            self.edge(interaction.id, tail.id, EdgeType.TEMPORAL)
        return interaction.id

    def concept(
        self,
        content: str,
        *,
        number: int | None = None,
        kind: ConceptType = ConceptType.ENTITY,
        status: Status = Status.NONE,
        chunk: str | None = None,
        access_count: int = 0,
    ) -> NodeId:
        """Adds a concept; `number` chooses its id, by default the next one."""
        origin = self.graph.tail
        assert origin is not None
        concept_id = numbered_id(self.graph.concept_count + 1 if number is None else number)
        self.graph.apply(
            PutConcept(
                Concept(
                    id=concept_id,
                    content=content,
                    canonical_key=canonical_key(content) or f"key of {content}",
                    concept_type=kind,
                    origin_interaction=origin.id,
                    origin_agent=origin.agent_id,
                    created_at=origin.created_at,
                    status=status,
                    chunk_group_id=chunk,
                    access_count=access_count,
                )
            )
        )
        self.edge(origin.id, concept_id, EdgeType.DERIVES)
        return concept_id

    def edge(
        self, source: NodeId, target: NodeId, kind: EdgeType, *, weight: float | None = None
    ) -> None:
        self._edges += 1
        first = EDGES[kind].first_weight if weight is None else weight
        self.graph.apply(
            PutEdge(
                Edge(
                    id=numbered_id(500_000 + self._edges),
                    source=source,
                    target=target,
                    edge_type=kind,
                    weight=first,
                    reinforcements=1,
                    created_at=START,
                    last_reinforced=START,
                    created_by="agent-a",
                    reinforced_by="agent-a",
                )
            )
        )

    def depend(self, dependent: NodeId, dependency: NodeId, *, weight: float = 0.5) -> None:
        self.edge(dependent, dependency, EdgeType.DEPENDENCY, weight=weight)

    def reserve(self, node_id: NodeId, *, agent: str, expires_at: Micros) -> None:
        self.graph.apply(PutReservation(Reservation(node_id, agent, expires_at)))

    def row(self, node_id: NodeId) -> int:
        row = self.graph.row_of(node_id)
        assert row is not None
        return row


@dataclass(frozen=True)
class PlantedHotList:
    """A hot list that holds what a test says."""

    planted: Mapping[NodeId, Sequence[HotEntry]]

    def node_ids(self) -> Iterable[NodeId]:
        return self.planted

    def entries(self, node_id: NodeId) -> Sequence[HotEntry]:
        return self.planted.get(node_id, ())
