"""Asking who supersedes a row of concepts, under caps that keep one cycle short.

Owns the caps and the resuming; the verdict on a pair is `supersession`'s. Used twice a cycle: for
the canonical memories that may give way, and for the venerable ones that may not rise.

Invariant: a concept without a verdict was not wholly asked about; callers leave it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from canon.engine.contradictions import Declaration, declarations
from canon.engine.evaluation_state import BEFORE_ALL, Resume
from canon.engine.supersession import Claim, Rivals
from memory.engine.graph import Graph
from memory.engine.types import NodeId

TARGETS_MAX: Final = 50
"""Contradicted concepts asked about in one cycle, for supersession and again for the hold."""
PROBES_MAX: Final = 256
"""Pairs asked about in one cycle, for supersession and again for the hold."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The winning claim against each concept, or None: nobody supersedes it.

    `stopped` is where a cap was reached, with what was asked by then. A concept of which only a
    part was asked has a verdict if somebody of that part wins.
    """

    verdicts: dict[int, Claim | None]
    stopped: Resume | None


def probe(graph: Graph, rivals: Rivals, targets: Sequence[int], *, resume: Resume | None) -> Probed:
    """Ask about `targets` in order; `resume` applies if it names one of them."""
    verdicts: dict[int, Claim | None] = {}
    asked, stopped = _plan(graph, targets, resume)
    rivals.read(row for row, declared, _ in asked if declared for row in (row, *_makers(declared)))
    for row, declared, is_whole in asked:
        claims = [rivals.find_superseding(one, row) for one in declared]
        winning = [claim for claim in claims if claim is not None]
        if winning or is_whole:
            verdicts[row] = min(winning, key=rivals.rank, default=None)
    return Probed(verdicts, stopped)


def _makers(declared: Sequence[Declaration]) -> list[int]:
    return [one.by for one in declared]


def _plan(
    graph: Graph, targets: Sequence[int], resume: Resume | None
) -> tuple[list[tuple[int, list[Declaration], bool]], Resume | None]:
    """Which declarations to ask about for each target, whether that is all, and where it stops."""
    asked: list[tuple[int, list[Declaration], bool]] = []
    targets_left, probes_left = TARGETS_MAX, PROBES_MAX
    for row in targets:
        target = graph.id_at(row)
        after: NodeId = resume.after if resume and resume.target == target else BEFORE_ALL
        declared = [one for one in declarations(graph, row) if graph.id_at(one.by) > after]
        if not declared:
            asked.append((row, [], True))
            continue
        if not targets_left or not probes_left:
            return asked, Resume(target, after)
        part = declared[:probes_left]
        targets_left -= 1
        probes_left -= len(part)
        asked.append((row, part, len(part) == len(declared)))
        if len(part) < len(declared):
            return asked, Resume(target, graph.id_at(part[-1].by))
    return asked, None
