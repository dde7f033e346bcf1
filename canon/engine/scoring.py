"""The composite score: how much a concept stands out by the structure around it.

Owns the formula and its terms. A score orders what is shown and what is looked at first; it opens
no gate. Nothing is counted here: degree, bonus and derivations are kept by every write, so a pass
over a whole session is a few operations on columns.

    S = 0.25 R + 0.20 F + 0.20 A + 0.35 D + min(0.25, edge bonus) + type modifier

R recency, F frequency of access, A activity (derivations), D density (degree), each in [0, 1];
S in [0, 1.40]. R, A and D are relative to the session: their terms are measured by a pass and stand
until the next. What a write touches meanwhile is scored against the terms of the last pass, so
that every concept has a score and all scores are on one scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from memory.engine.columns import NO_TIME, Array
from memory.engine.graph import Graph
from memory.engine.rules import TYPES
from memory.engine.times import SECOND
from memory.engine.types import ConceptType

Scores: TypeAlias = npt.NDArray[np.float64]
Where: TypeAlias = "slice | Array"
"""Which concept rows: a slice (no copy is made) or an array of row numbers."""

MICROS_PER_MS: Final = SECOND // 1_000
SPAN_MIN_MS: Final = 600_000
"""Recency falls over at least ten minutes, however young the session is."""
ACCESSES_FULL: Final = 10
BONUS_MAX: Final = 0.25
SCORE_MAX: Final = 1.40
TYPE_MODIFIER: Final = {
    ConceptType.CONSTRAINT: 0.15,
    ConceptType.ENTITY: 0.05,
    ConceptType.LOGIC: 0.05,
    ConceptType.RESOURCE: 0.0,
    ConceptType.OBSERVATION: -0.10,
}
_MODIFIER_BY_CODE: Final = np.array([TYPE_MODIFIER[kind] for kind in TYPES])


@dataclass(frozen=True, slots=True)
class ScoringWeights:
    """The share of each dimension. One that is negative or no number counts as 0."""

    recency: float = 0.25
    frequency: float = 0.20
    activity: float = 0.20
    density: float = 0.35

    def __post_init__(self) -> None:
        for name in ("recency", "frequency", "activity", "density"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                object.__setattr__(self, name, 0.0)


DEFAULT_WEIGHTS: Final = ScoringWeights()


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """What a concept is measured against: the session's extent and its maxima."""

    start_ms: int
    end_ms: int
    derivations_max: int
    degree_max: int

    @property
    def span_ms(self) -> int:
        """Over how long recency falls from 1 to 0."""
        return max(self.end_ms - self.start_ms, SPAN_MIN_MS)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The scores as of an epoch, by concept row; rows without a concept hold nothing of meaning.

    `scores` may be longer than the concept table. It changes only by `with_rows`.
    """

    epoch: int
    terms: SessionTerms
    weights: ScoringWeights
    scores: Scores

    def with_rows(self, graph: Graph, rows: Array) -> ScoreTable:
        """The table with `rows` scored as they are now, against its own terms.

        The array is shared with the table it came from, unless it had to grow: a reader sees
        either the old or the new score of a row. The epoch stays that of the last pass.
        """
        table = self
        if table.terms.degree_max == 0:
            # Made when there was nothing to measure against: all there is was written since.
            return rescore(graph, self.weights)
        if rows.size and int(rows.max()) >= table.scores.size:
            grown = np.zeros(graph.concepts.live.size, dtype=np.float64)
            grown[: table.scores.size] = table.scores
            table = replace(table, scores=grown)
        table.scores[rows] = score_rows(graph, table, rows)
        return table


def measure_terms(graph: Graph, degree: Array | None = None) -> SessionTerms:
    """The terms of a session now; `degree` (by concept row) stands in for the kept counter."""
    used, chain = graph.concepts.used, graph.chain.records
    held = graph.concepts["degree"][:used] if degree is None else degree
    return SessionTerms(
        start_ms=chain[0].created_at // MICROS_PER_MS if chain else 0,
        end_ms=chain[-1].created_at // MICROS_PER_MS if chain else 0,
        # Counters of a row without a concept are 0: taking it out took its edges.
        derivations_max=int(graph.concepts["derivations"][:used].max(initial=0)),
        degree_max=int(held.max(initial=0)),
    )


def rescore(graph: Graph, weights: ScoringWeights = DEFAULT_WEIGHTS) -> ScoreTable:
    """Score every concept; O(concepts), no loop over them."""
    terms = measure_terms(graph)
    scores = np.zeros(graph.concepts.live.size, dtype=np.float64)
    rows = slice(0, graph.concepts.used)
    scores[rows] = _composite(graph, rows, terms, weights)
    return ScoreTable(graph.epoch, terms, weights, scores)


def score_rows(graph: Graph, table: ScoreTable, rows: Array) -> Scores:
    """Scores of live rows as they are now, against the terms of `table`; aligned with `rows`."""
    return _composite(graph, rows, table.terms, table.weights)


def ranked(graph: Graph, table: ScoreTable) -> list[int]:
    """Rows of all concepts, score descending, ties by id."""
    rows = graph.concepts.live_rows()
    scores = table.scores[rows]
    order = np.argsort(-scores, kind="stable")
    in_order = scores[order]
    rows = rows[order]
    # Ids are text: only where scores are equal are they looked at.
    starts = np.flatnonzero(np.diff(in_order, prepend=np.inf))
    ends = np.append(starts[1:], rows.size)
    result: list[int] = rows.tolist()
    for place in np.flatnonzero(ends - starts > 1).tolist():
        start, end = int(starts[place]), int(ends[place])
        result[start:end] = sorted(result[start:end], key=graph.id_at)
    return result


def _composite(graph: Graph, where: Where, terms: SessionTerms, weights: ScoringWeights) -> Scores:
    cells = graph.concepts
    score = weights.recency * recency(last_touched(graph, where), terms)
    score += weights.frequency * share(cells["access_count"][where], ACCESSES_FULL)
    score += weights.activity * share(cells["derivations"][where], terms.derivations_max)
    score += weights.density * share(cells["degree"][where], terms.degree_max)
    return with_extras(score, cells["bonus_milli"][where], cells["type"][where])


def last_touched(graph: Graph, where: Where) -> Array:
    """When each concept was last accessed, or else created; (n,) int64."""
    accessed = graph.concepts["last_accessed"][where]
    return np.where(accessed == NO_TIME, graph.concepts["created_at"][where], accessed)


def recency(instants: Array, terms: SessionTerms) -> Scores:
    """1 at the session's end, falling to 0 over its span; whole milliseconds, (n,) float64."""
    age_ms = terms.end_ms - instants // MICROS_PER_MS
    return _clamped(1.0 - age_ms / terms.span_ms)


def share(counts: Array, whole: int) -> Scores:
    """counts / whole in [0, 1], (n,) float64; 0 when there is nothing to be a share of."""
    if whole <= 0:
        return np.zeros(counts.size, dtype=np.float64)
    return _clamped(counts / whole)


def with_extras(score: Scores, bonus_milli: Array, type_codes: Array) -> Scores:
    """`score` plus edge bonus and type modifier, clamped to what a score may be."""
    score = score + np.minimum(bonus_milli / 1_000, BONUS_MAX) + _MODIFIER_BY_CODE[type_codes]
    return np.minimum(np.maximum(score, 0.0), SCORE_MAX)


def _clamped(values: Scores) -> Scores:
    # Not np.clip: it costs several times as much on a small array.
    return np.minimum(np.maximum(values, 0.0), 1.0)
