"""The order of an answer, and who is in it.

Owns the blend of structure and relevance, the sort, and the slots. Canonical concepts precede all
others; equal scores order by id, never by row.

Invariant: what is chosen, and its order, do not depend on the order in which members are given.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from heapq import nsmallest
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from memory.engine.config import FusionKind
from memory.engine.graph import Graph
from memory.engine.rules import STATUS_CODE
from memory.engine.types import Status
from recall.engine.expansion import Rows
from recall.engine.settings import RecallSettings

Scores: TypeAlias = npt.NDArray[np.float64]

STANDING_MAX: Final = 1.40
"""The top of the scale of S."""
STANDING_SHARE: Final = 0.25
"""How much of relevance the highest standing adds, at equal weights. With all of it, concepts that
everything is tied to pushed answers out of the first five."""

_CANONICAL: Final = STATUS_CODE[Status.CANONICAL]


def blend(
    rows: Rows, relevance: Scores, *, daemon_scores: Scores | None, settings: RecallSettings
) -> Scores:
    """The final score of each row, from its relevance Q and its standing S.

    With fusion by `max` it is w_daemon * S + w_query * Q. Places make a Q that is small and evenly
    spread, and a sum would let standing alone decide; so with `rrf` standing scales relevance:
    Q * (w_query + w_daemon * S / 5.6), which is at most a quarter more at equal weights. Of two
    concepts that answer alike the more important one comes first, and an important one that does
    not answer stays behind.

    `relevance` is Q, aligned with `rows`. `daemon_scores` is S indexed by concept row; a row beyond
    its end, or without a finite score, counts as 0, and None means that nothing is scored yet.
    """
    structure = np.zeros(rows.size, dtype=np.float64)
    if daemon_scores is not None:
        known = np.flatnonzero(rows < daemon_scores.size)
        structure[known] = daemon_scores[rows[known]]
        structure[~np.isfinite(structure)] = 0.0
    w_daemon, w_query = _weight(settings.w_daemon), _weight(settings.w_query)
    if settings.fusion.kind is FusionKind.MAX:
        return w_daemon * structure + w_query * relevance
    return relevance * (w_query + w_daemon * STANDING_SHARE * structure / STANDING_MAX)


def has_standing(daemon_scores: Scores | None, row: int) -> bool:
    """Whether the daemon scored a row; 0 is a score."""
    if daemon_scores is None or row >= daemon_scores.size:
        return False
    return math.isfinite(daemon_scores[row])


def _weight(value: float) -> float:
    return value if math.isfinite(value) and value > 0.0 else 0.0


def select(
    graph: Graph,
    rows: Rows,
    scores: Scores,
    *,
    top_k: int,
    forced: Collection[int] = (),
) -> list[int]:
    """Positions in `rows` of the members to show, in the order in which to show them.

    The order is Canonical first, score descending, id. Every member whose row is in `forced` is
    shown and holds no slot; of the others the first `top_k` are.
    """
    canonical = graph.concepts["status"][rows] == _CANONICAL
    is_forced = np.isin(rows, list(forced)) if forced else np.zeros(rows.size, dtype=np.bool_)
    ordered = np.lexsort((-scores, ~canonical))
    holders = ordered[~is_forced[ordered]]
    if holders.size > top_k:
        holders = _cut(graph, rows, holders, canonical=canonical, scores=scores, top_k=top_k)

    def rank(position: int) -> tuple[bool, float, str]:
        return not canonical[position], -float(scores[position]), graph.id_at(int(rows[position]))

    shown: list[int] = [*holders.tolist(), *np.flatnonzero(is_forced).tolist()]
    shown.sort(key=rank)
    return shown


def _cut(
    graph: Graph,
    rows: Rows,
    ordered: Rows,
    *,
    canonical: npt.NDArray[np.bool_],
    scores: Scores,
    top_k: int,
) -> Rows:
    """The first `top_k` of positions `ordered` by standing; ids decide among equals at the cut."""
    last = ordered[top_k - 1]
    ties = (canonical[ordered] == canonical[last]) & (scores[ordered] == scores[last])
    tied = ordered[ties]
    before = ordered[: int(np.argmax(ties))]
    by_id = zip(map(graph.id_at, rows[tied].tolist()), tied.tolist(), strict=True)
    chosen = [position for _, position in nsmallest(top_k - before.size, by_id)]
    return np.concatenate([before, np.asarray(chosen, dtype=np.int64)])
