"""What an answer says about belief: who contradicts whom, and what that leaves in doubt.

Owns which lines are said, which hits a contradiction forces in, and who comes beside them. Whether
a contradiction stands, and whether a status was lost to a successor, is handed in. Reads the edges
of the graph, never a list that may be cut.

Invariant: of a graph in which nothing contradicts or seems to replace anything, and nothing was
superseded, nothing is said and nobody is forced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from memory.engine.config import SuspectedLine
from memory.engine.embedding import calibration_of
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE, STATUS_CODE
from memory.engine.times import Micros
from memory.engine.types import EdgeType, Status
from recall.engine.candidates import Accepted
from recall.engine.expansion import Rows
from recall.engine.rendering import (
    contradicted_line,
    contradicts_line,
    more_contradicted_line,
    more_contradicts_line,
    possibly_superseded_line,
    rests_on_contradicted_line,
    superseded_line,
)
from recall.engine.results import Annotation, AnnotationKind
from recall.engine.settings import RecallSettings

LINES_MAX: Final = 3
"""Concepts named under a hit for one reason; one more line counts the rest."""

_IMPORTANT: Final = [STATUS_CODE[Status.VENERABLE], STATUS_CODE[Status.CANONICAL]]
_CONTRADICTS: Final = EDGE_TYPE_CODE[EdgeType.CONTRADICTS]
_SUSPECTED: Final = EDGE_TYPE_CODE[EdgeType.SUSPECTED_SUPERSEDES]


class Beliefs(Protocol):
    """What the rules of importance say of contradictions, of one graph at one instant."""

    def contradictors(self, rows: Sequence[int]) -> Mapping[int, int]:
        """Of the rows that are contradicted, the row of the concept that contradicts each."""

    def superseded_at(self, row: int) -> Micros | None:
        """When the concept lost its status to one that contradicts it, if that was how it last
        lost it and it has not won it back."""


class _NoBeliefs:
    """Nobody judges contradictions."""

    def contradictors(self, rows: Sequence[int]) -> Mapping[int, int]:
        return {}

    def superseded_at(self, row: int) -> Micros | None:
        return None


NO_BELIEFS: Beliefs = _NoBeliefs()


class Doubts:
    """The contradictions and suspicions of one graph, as one answer needs them."""

    def __init__(self, graph: Graph, beliefs: Beliefs, *, settings: RecallSettings) -> None:
        edges = graph.edges
        kinds, live = edges["type"][: edges.used], edges.live[: edges.used]
        declared = np.flatnonzero((kinds == _CONTRADICTS) & live)
        self._graph = graph
        self._beliefs = beliefs
        self._targets = np.unique(edges["target"][declared]).astype(np.int64)
        self._target_rows = frozenset(self._targets.tolist())
        self._by_row: dict[int, int | None] = {}
        self._has_suspicions = bool(((kinds == _SUSPECTED) & live).any())
        self._says_suspicions = _says_suspicions(graph, settings)

    def find_forced(self, rows: Rows) -> frozenset[int]:
        """The Canonical and Venerable ones of `rows` that are contradicted."""
        if not self._targets.size:
            return frozenset()
        kept = np.isin(rows, self._targets) & np.isin(
            self._graph.concepts["status"][rows], _IMPORTANT
        )
        important = rows[kept].tolist()
        return frozenset(row for row, by in self._judge(important).items() if by is not None)

    def find_companions(self, shown: Sequence[int], *, accepted: Accepted | None) -> dict[int, int]:
        """By the row of a contradicted hit, who is to be shown beside it and is not shown yet.

        A companion brings in nobody, and none that a filter turns down comes.
        """
        present = set(shown)
        companions: dict[int, int] = {}
        for row, by in self._judge(shown).items():
            if by is None or by in present or (accepted is not None and not accepted[by]):
                continue
            companions[row] = by
            present.add(by)
        return companions

    def lines_of(self, row: int, *, replacement: int | None) -> tuple[Annotation, ...]:
        """What is said under a hit, in a fixed order. `replacement` is what may replace it."""
        lines = [*self._of_contradiction(row), *self._of_ground(row)]
        if replacement is not None and self._says_suspicions:
            line = possibly_superseded_line(self._graph, replacement)
            lines.append(Annotation(AnnotationKind.POSSIBLY_SUPERSEDED, line))
        since = self._beliefs.superseded_at(row)
        if since is not None:
            lines.append(Annotation(AnnotationKind.SUPERSEDED, superseded_line(since)))
        return tuple(lines)

    def find_replacement(self, row: int, shown: Collection[int]) -> int | None:
        """The newest hit that seems to say the same as this one with another value."""
        if not self._has_suspicions:
            return None
        graph = self._graph
        arriving = graph.concepts.arriving[row]
        newer = graph.edges.ends_of(arriving, EdgeType.SUSPECTED_SUPERSEDES, "source")
        times = graph.concepts["created_at"]
        both = [other for other in newer if other in shown]
        return min(both, key=lambda other: (-int(times[other]), graph.id_at(other)), default=None)

    # -- contradictions ------------------------------------------------------------------------

    def _judge(self, rows: Iterable[int]) -> dict[int, int | None]:
        """Who contradicts each of `rows` that somebody spoke against; each is judged once."""
        wanted = [row for row in dict.fromkeys(rows) if row in self._target_rows]
        unknown = [row for row in wanted if row not in self._by_row]
        if unknown:
            found = self._beliefs.contradictors(unknown)
            self._by_row.update((row, found.get(row)) for row in unknown)
        return {row: self._by_row[row] for row in wanted}

    def _of_contradiction(self, row: int) -> list[Annotation]:
        """Both ends of what stands: who contradicts it, and whom it contradicts."""
        graph = self._graph
        by = self._judge([row]).get(row)
        lines = []
        if by is not None:
            line = contradicted_line(graph, by)
            lines.append(Annotation(AnnotationKind.CONTRADICTION, line))
        spoken_against = self._targets_of(row, EdgeType.CONTRADICTS)
        standing = [target for target, one in self._judge(spoken_against).items() if one == row]
        standing.sort(key=graph.id_at)
        told = [contradicts_line(graph, target) for target in standing[:LINES_MAX]]
        if len(standing) > LINES_MAX:
            told.append(more_contradicts_line(len(standing) - LINES_MAX))
        return lines + [Annotation(AnnotationKind.CONTRADICTS, line) for line in told]

    def _of_ground(self, row: int) -> list[Annotation]:
        """What it says it rests on and is contradicted, unless it contradicts that itself."""
        graph = self._graph
        cited = self._targets_of(row, EdgeType.DEPENDENCY)
        against = set(self._targets_of(row, EdgeType.CONTRADICTS)) if cited else set()
        shaky = [
            target
            for target, by in self._judge(cited).items()
            if by is not None and target not in against
        ]
        shaky.sort(key=graph.id_at)
        told = [rests_on_contradicted_line(graph, target) for target in shaky[:LINES_MAX]]
        if len(shaky) > LINES_MAX:
            told.append(more_contradicted_line(len(shaky) - LINES_MAX))
        return [Annotation(AnnotationKind.RESTS_ON_CONTRADICTED, line) for line in told]

    def _targets_of(self, row: int, edge_type: EdgeType) -> list[int]:
        if not self._target_rows:
            return []
        leaving = self._graph.concepts.leaving[row]
        return self._graph.edges.ends_of(leaving, edge_type, "target")


def _says_suspicions(graph: Graph, settings: RecallSettings) -> bool:
    match settings.suspected_supersession_line:
        case SuspectedLine.ON:
            return True
        case SuspectedLine.OFF:
            return False
        case SuspectedLine.VALIDATED:
            contract = graph.contract
            return contract is not None and calibration_of(contract).has_validated_suspicions
