"""The score of the policy Solo: what one writer alone can show for a concept.

Where there is one agent, different interactions prove little; coming back to a concept on another
day does, and a human's word does. Owns the score, its bands and the counting of sessions.

    score = (sessions x 1 + confirmations x 4 + distinct x 2 - reverts x 3) x r(type)

r(type) is the resistance that also keeps a kind of concept from being collected.

Invariant: confirmations come from the caller, who has them from humans; nothing an agent writes is
read as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from canon.engine.evidence import Pieces
from canon.engine.garbage import RESISTANCE
from canon.engine.gate_times import edge_gate_times
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.rules import EDGE_TYPE_CODE
from memory.engine.times import SECOND, Micros
from memory.engine.types import ConceptType, EdgeType, Status

SESSION_GAP_SECONDS: Final = 24 * 3_600
"""Supports at least this far apart are different sessions."""

SESSION_WEIGHT: Final = 1.0
CONFIRMATION_WEIGHT: Final = 4.0
DISTINCT_WEIGHT: Final = 2.0
REVERT_WEIGHT: Final = 3.0

BANDS: Final = {Status.CANDIDATE: 3.0, Status.VENERABLE: 6.0, Status.CANONICAL: 10.0}
"""The least score for each status."""

_DERIVES: Final = EDGE_TYPE_CODE[EdgeType.DERIVES]
_CAUSAL: Final = EDGE_TYPE_CODE[EdgeType.CAUSAL]


def solo_score(
    *, sessions: int, confirmations: int, distinct: int, reverts: int, concept_type: ConceptType
) -> float:
    """The score; may be negative after many reverts."""
    terms = (
        sessions * SESSION_WEIGHT
        + confirmations * CONFIRMATION_WEIGHT
        + distinct * DISTINCT_WEIGHT
        - reverts * REVERT_WEIGHT
    )
    return terms * RESISTANCE[concept_type]


def count_supports_by_session(
    graph: Graph, rows: Sequence[int], pieces: Pieces, cutoff: Micros
) -> Array:
    """Sessions of each of `rows`, (n,) int64: derivations and dependents, grouped by days.

    `pieces` are those of `rows`. A derivation by an action that merely produced the concept is left
    out: a Causal edge of the same instant arrives with it.
    """
    owner, instants = _derivations(graph, rows, cutoff)
    aged = pieces.is_aged(cutoff)
    return count_sessions(
        np.concatenate([owner, pieces.owner[aged]]),
        np.concatenate([instants, pieces.dated[aged]]),
        len(rows),
    )


def _derivations(graph: Graph, rows: Sequence[int], cutoff: Micros) -> tuple[Array, Array]:
    """Owner and gate time of each aged derivation that is not mere production."""
    lists = [graph.concepts.arriving[row] for row in rows]
    lengths = [len(some) for some in lists]
    edge = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=sum(lengths))
    owner = np.repeat(np.arange(len(rows)), lengths)
    kinds, written = graph.edges["type"][edge], graph.edges["created_at"][edge]
    derives, causal = kinds == _DERIVES, kinds == _CAUSAL
    produced = set(zip(owner[causal].tolist(), written[causal].tolist(), strict=True))
    moments = zip(owner[derives].tolist(), written[derives].tolist(), strict=True)
    is_stated = np.array([moment not in produced for moment in moments], dtype=np.bool_)
    owner, edge, written = (cells[derives][is_stated] for cells in (owner, edge, written))
    instants = edge_gate_times(graph, edge)
    aged = (written <= cutoff) & (instants <= cutoff)
    return owner[aged], instants[aged]


def count_sessions(owner: Array, instants: Array, owner_count: int) -> Array:
    """Greedily by owner: the first instant counts, then each that is a gap after the last counted.

    (owner_count,) int64. As many steps as the owner with the most sessions has.
    """
    counts = np.zeros(owner_count, dtype=np.int64)
    order = np.lexsort((instants, owner))
    owner, instants = owner[order], instants[order]
    known = np.unique(instants)
    base = len(known) + 1
    keys = owner * base + np.searchsorted(known, instants)  # ascending, and small enough
    ends = np.searchsorted(owner, np.arange(owner_count), side="right")
    place = np.searchsorted(owner, np.arange(owner_count), side="left")
    active = np.flatnonzero(place < ends)
    place = place[active]
    while len(active):
        counts[active] += 1
        due = np.searchsorted(known, instants[place] + SESSION_GAP_SECONDS * SECOND)
        place = np.searchsorted(keys, active * base + due)
        alive = place < ends[active]
        active, place = active[alive], place[alive]
    return counts
