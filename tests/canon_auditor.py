"""A second, plain evaluator: the rules of promotion and demotion over a snapshot's records.

Written from the rules, with loops and dictionaries; nothing here is shared with the engine but the
records. It knows no windows and no caps: a cycle looks at everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from memory.engine.types import (
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Snapshot,
    Status,
)

SECOND = 1_000_000
DAY = 86_400 * SECOND
RESISTANCE = {
    ConceptType.CONSTRAINT: 1.5,
    ConceptType.ENTITY: 1.2,
    ConceptType.LOGIC: 1.1,
    ConceptType.RESOURCE: 1.0,
    ConceptType.OBSERVATION: 0.7,
}
UP = {
    Status.NONE: Status.CANDIDATE,
    Status.CANDIDATE: Status.VENERABLE,
    Status.VENERABLE: Status.CANONICAL,
}


class Step(NamedTuple):
    """What a cycle does to a concept."""

    node_id: str
    to_status: Status
    blast_radius: int | None = None
    reason: str | None = None
    superseded_by: str | None = None


class Piece(NamedTuple):
    edge: Edge
    dependent: Concept
    origin: Interaction


@dataclass
class Rules:
    """The choices and the instant of a cycle."""

    now: int
    policy: str = "swarm"
    min_age: int = 60 * SECOND
    window: int = 14 * DAY
    cooldown: int = 300 * SECOND
    budget: int = 1_000
    supersede: bool = False
    confirmations: Mapping[str, int] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)


def dated(interaction: Interaction) -> int:
    if interaction.is_backdated and interaction.event_time is not None:
        return interaction.event_time
    return interaction.created_at


def edge_dated(edge: Edge) -> int:
    return edge.created_at if edge.event_time is None else edge.event_time


def claimed(edge: Edge) -> int:
    return min(edge_dated(edge), edge.created_at)


class Auditor:
    """One cycle over one snapshot. `statuses` and `demoted` may come from a log of one's own."""

    def __init__(
        self,
        snapshot: Snapshot,
        rules: Rules,
        *,
        statuses: Mapping[str, Status] | None = None,
        demoted: Mapping[str, list[int]] | None = None,
    ) -> None:
        self.rules = rules
        self.concepts = {concept.id: concept for concept in snapshot.concepts}
        self.moments = {moment.id: moment for moment in snapshot.interactions}
        self.edges = snapshot.edges
        self.statuses = {one.id: one.status for one in snapshot.concepts}
        if statuses is not None:
            self.statuses = {one: statuses.get(one, Status.NONE) for one in self.concepts}
        if demoted is None:
            found: dict[str, list[int]] = {}
            for step in snapshot.transitions:
                if step.from_status is Status.CANONICAL:
                    found.setdefault(step.node_id, []).append(step.occurred_at)
            demoted = found
        self.demoted = demoted
        times = [dated(moment) for moment in snapshot.interactions]
        self.extent = max(times) - min(times) if times else 0
        self.held_up: dict[str, list[Piece]] = {one: [] for one in self.concepts}
        self.against: dict[str, list[Edge]] = {}
        self.derived: dict[str, list[Edge]] = {}
        self.produced: dict[str, list[Edge]] = {}
        self._supports: dict[str, list[Piece]] = {}
        for edge in snapshot.edges:
            if edge.edge_type is EdgeType.DEPENDENCY:
                self._hold_up(edge.target, edge.source, edge)
            elif edge.edge_type is EdgeType.HIERARCHICAL:
                self._hold_up(edge.source, edge.target, edge)
            elif edge.edge_type is EdgeType.DERIVES:
                self.derived.setdefault(edge.target, []).append(edge)
            elif edge.edge_type is EdgeType.CAUSAL:
                self.produced.setdefault(edge.target, []).append(edge)
            elif edge.edge_type is EdgeType.CONTRADICTS and edge.source != edge.target:
                self.against.setdefault(edge.target, []).append(edge)

    def _hold_up(self, held: str, dependent: str, edge: Edge) -> None:
        if held != dependent:
            concept = self.concepts[dependent]
            origin = self.moments[concept.origin_interaction]
            self.held_up[held].append(Piece(edge, concept, origin))

    # -- measurements ---------------------------------------------------------------------------

    def aged(self, instant: int) -> bool:
        return instant <= self.rules.now - self.rules.min_age

    def let_in(self, agent: str, written: int) -> bool:
        """Whether what an agent wrote then was written by one that is let in, for a day by now."""
        if agent not in self.rules.tokens:
            return False
        first = self.rules.tokens[agent]
        return self.rules.now > first + DAY and first <= written

    def counts(self, concept: Concept, piece: Piece) -> bool:
        if self.rules.policy != "quorum":
            return True
        tied_by, said_by = piece.edge.created_by, piece.dependent.origin_agent
        if concept.origin_agent in (tied_by, said_by):
            return False
        return self.let_in(tied_by, piece.edge.created_at) and self.let_in(
            said_by, piece.origin.created_at
        )

    def reach(self, concept: Concept) -> list[Piece]:
        return [
            piece
            for piece in self.held_up[concept.id]
            if self.aged(piece.edge.created_at)
            and self.aged(edge_dated(piece.edge))
            and self.counts(concept, piece)
        ]

    def supports(self, concept: Concept) -> list[Piece]:
        if concept.id not in self._supports:
            self._supports[concept.id] = self._find_supports(concept)
        return self._supports[concept.id]

    def _find_supports(self, concept: Concept) -> list[Piece]:
        return [
            piece
            for piece in self.reach(concept)
            if self.aged(piece.origin.created_at)
            and self.aged(dated(piece.origin))
            and piece.origin.id != concept.origin_interaction
        ]

    def distinct(self, concept: Concept) -> int:
        return len({piece.origin.id for piece in self.supports(concept)})

    def coverage(self, concept: Concept) -> float:
        instants = []
        for piece in self.supports(concept):
            # Old texts that one late write tied to the concept hold it up since that write.
            born, tied = dated(piece.origin), edge_dated(piece.edge)
            instants.append(tied if tied > born else born)
        return self.share(instants)

    def share(self, times: list[int]) -> float:
        if not times:
            return 0.0
        whole = min(self.extent, self.rules.window)
        return 1.0 if whole == 0 else min(1.0, (max(times) - min(times)) / whole)

    def radius(self, concept: Concept) -> int:
        return len({piece.dependent.id for piece in self.reach(concept)})

    def agents(self, concept: Concept) -> set[str]:
        return {piece.edge.created_by for piece in self.supports(concept)}

    def is_exchange(self, author: str, agent: str) -> bool:
        """Whether `author` holds up something of `agent`."""
        for edge in self.edges:
            if edge.created_by != author:
                continue
            if edge.edge_type is EdgeType.DEPENDENCY:
                held = edge.target
            elif edge.edge_type is EdgeType.HIERARCHICAL:
                held = edge.source
            else:
                continue
            if self.concepts[held].origin_agent == agent:
                return True
        return False

    def solo(self, concept: Concept) -> float:
        produced = [edge.created_at for edge in self.produced.get(concept.id, ())]
        stated = [
            edge_dated(edge)
            for edge in self.derived.get(concept.id, ())
            if edge.created_at not in produced and self.is_aged_edge(edge)
        ]
        stated += [
            edge_dated(piece.edge)
            for piece in self.held_up[concept.id]
            if self.is_aged_edge(piece.edge)
        ]
        sessions, last = 0, None
        for instant in sorted(stated):
            if last is None or instant - last >= DAY:
                sessions, last = sessions + 1, instant
        terms = (
            sessions * 1.0
            + self.rules.confirmations.get(concept.id, 0) * 4.0
            + self.distinct(concept) * 2.0
            - len(self.demoted.get(concept.id, ())) * 3.0
        )
        return terms * RESISTANCE[concept.concept_type]

    def is_aged_edge(self, edge: Edge) -> bool:
        return self.aged(edge.created_at) and self.aged(edge_dated(edge))

    def is_cooling(self, concept: Concept) -> bool:
        times = [*self.demoted.get(concept.id, ())]
        if concept.last_demotion_time is not None:
            times.append(concept.last_demotion_time)
        return bool(times) and self.rules.now - max(times) < self.rules.cooldown

    # -- gates ----------------------------------------------------------------------------------

    def passes(self, concept: Concept) -> bool:
        """The gates of the next hop, but for the budget and the hold."""
        status, policy = self.statuses[concept.id], self.rules.policy
        bands = {Status.NONE: 3.0, Status.CANDIDATE: 6.0, Status.VENERABLE: 10.0}
        if policy == "solo" and self.solo(concept) < bands[status]:
            return False
        if status is Status.NONE:
            return policy == "solo" or self.is_candidate(concept)
        if self.distinct(concept) < 3 or self.coverage(concept) < 0.3:
            return False
        if policy == "quorum" and len(self.agents(concept)) < 2:
            return False
        if status is Status.CANDIDATE:
            return True
        return self.radius(concept) > 5 and not self.is_cooling(concept)

    def is_candidate(self, concept: Concept) -> bool:
        if concept.gc_survived < 3 or self.distinct(concept) < 2:
            return False
        if self.rules.policy != "quorum":
            return True
        agents = self.agents(concept)
        if len(agents) == 1:
            return not self.is_exchange(concept.origin_agent, next(iter(agents)))
        return len(agents) > 1

    # -- supersession ---------------------------------------------------------------------------

    def eligible(self, concept: Concept) -> list[Piece]:
        return [
            piece
            for piece in self.held_up[concept.id]
            if self.aged(piece.edge.created_at)
            and self.aged(piece.origin.created_at)
            and piece.origin.id != concept.origin_interaction
        ]

    def newest_claim(self, declared: Edge) -> int | None:
        """The newest counted evidence of a contradictor that would win, the pair rule aside."""
        by, target = self.concepts[declared.source], self.concepts[declared.target]
        declarer = declared.created_by
        if not declarer or self.is_cooling(by) or self.is_cooling(target):
            return None
        origin = self.moments[target.origin_interaction]
        watermark = min(dated(origin), origin.created_at)
        for piece in self.eligible(target):
            if piece.dependent.id == by.id:
                continue
            if not piece.edge.created_by:
                return None
            if piece.edge.created_by != declarer:
                watermark = max(watermark, claimed(piece.edge))
        counted = []
        for piece in self.eligible(by):
            said = min(dated(piece.origin), piece.origin.created_at)
            if claimed(piece.edge) <= watermark or said <= watermark:
                continue
            if not self.counts(by, piece):
                continue
            if not piece.edge.created_by or not piece.dependent.origin_agent:
                return None
            if declarer not in (piece.edge.created_by, piece.dependent.origin_agent):
                counted.append(piece)
        times = []
        for piece in counted:
            said, tied = min(dated(piece.origin), piece.origin.created_at), claimed(piece.edge)
            times.append(tied if tied > said else said)
        agents = {piece.edge.created_by for piece in counted}
        if len({piece.origin.id for piece in counted}) < 3 or self.share(times) < 0.3:
            return None
        if self.rules.policy == "quorum" and len(agents) < 2:
            return None
        return max(claimed(piece.edge) for piece in counted)

    def winner(self, target: Concept) -> str | None:
        """Who supersedes a concept at once."""
        claims = []
        for declared in self.against.get(target.id, ()):
            newest = self.newest_claim(declared)
            if newest is None:
                continue
            by = self.concepts[declared.source]
            mine = (-newest, by.canonical_key, by.id)
            back = [one for one in self.against.get(by.id, ()) if one.source == target.id]
            counter = self.newest_claim(back[0]) if back else None
            theirs = (-(counter or 0), target.canonical_key, target.id)
            if counter is None or mine < theirs:
                claims.append(mine)
        return min(claims)[2] if claims else None

    # -- a cycle --------------------------------------------------------------------------------

    def cycle(self, scores: Mapping[str, float]) -> list[Step]:
        """Everything that moves, in the order of the trail up to ties inside a stage."""
        canonical = [one for one in self.concepts.values() if self.is_at(one, Status.CANONICAL)]
        steps = []
        if self.rules.supersede:
            for concept in canonical:
                by = self.winner(concept)
                if by is not None:
                    steps.append(Step(concept.id, Status.NONE, None, "Superseded", by))
        gone = {step.node_id for step in steps}
        for status in (Status.NONE, Status.CANDIDATE):
            for concept in self.concepts.values():
                if self.is_at(concept, status) and self.passes(concept):
                    steps.append(Step(concept.id, UP[status], concept.blast_radius))
        room = self.rules.budget - (len(canonical) - len(gone))
        rising = [
            concept
            for concept in self.concepts.values()
            if self.is_at(concept, Status.VENERABLE) and self.passes(concept)
            if not self.rules.supersede or self.winner(concept) is None
        ]
        rising.sort(key=lambda concept: (-scores[concept.id], concept.id))
        rising = rising[: max(room, 0)]
        steps += [Step(one.id, Status.CANONICAL, self.radius(one)) for one in rising]
        if len(canonical) > self.rules.budget:
            left = [concept for concept in canonical if concept.id not in gone]
            left.sort(key=lambda concept: (self.radius(concept), concept.id))
            overflow = len(left) + len(rising) - self.rules.budget
            steps += [Step(one.id, Status.NONE, None, "Budget") for one in left[: max(overflow, 0)]]
        return steps

    def is_at(self, concept: Concept, status: Status) -> bool:
        return self.statuses[concept.id] is status
