"""What one evaluation leaves to the next: where each ring stopped.

Small and JSON-able, so that a session that is put away goes on where it was. Anything unreadable is
a fresh start: a cursor decides only who is looked at first, never what is found.

Invariant: a state holds ids, not rows; a row may belong to another concept by the next cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from memory.engine.graph import Graph
from memory.engine.types import Json, NodeId

BEFORE_ALL: Final = ""
"""Sorts before every id: a ring that has not been looked at."""


_CURSORS: Final = ("candidates_after", "venerables_after", "targets_after")


class Resume(NamedTuple):
    """Where probing stopped: inside a target's contradictors, after one of them."""

    target: NodeId
    after: NodeId


@dataclass(frozen=True, slots=True)
class EvaluationState:
    """The last id each ring looked at, and what is left of a window the probes did not cover.

    `held` are the concepts of that window that were found held; `deferrals` counts the cycles in a
    row that left a part of it unprobed.
    """

    candidates_after: NodeId = BEFORE_ALL
    venerables_after: NodeId = BEFORE_ALL
    targets_after: NodeId = BEFORE_ALL
    target_resume: Resume | None = None
    hold_resume: Resume | None = None
    held: tuple[NodeId, ...] = ()
    deferrals: int = 0

    def as_json(self) -> dict[str, Json]:
        """For storing; `read_state` gives it back."""
        return {
            "candidates_after": self.candidates_after,
            "venerables_after": self.venerables_after,
            "targets_after": self.targets_after,
            "target_resume": _listed(self.target_resume),
            "hold_resume": _listed(self.hold_resume),
            "held": list(self.held),
            "deferrals": self.deferrals,
        }


def read_state(stored: Json) -> EvaluationState:
    """The state in its stored form; a fresh one where that is missing or not understood."""
    if not isinstance(stored, dict):
        return EvaluationState()
    cursors = _texts([stored.get(name) for name in _CURSORS])
    held, deferrals = _texts(stored.get("held")), stored.get("deferrals")
    resumes = [stored.get(name) for name in ("target_resume", "hold_resume")]
    if cursors is None or held is None or not isinstance(deferrals, int):
        return EvaluationState()
    if any(some is not None and len(_texts(some) or ()) != 2 for some in resumes):
        return EvaluationState()
    target_resume, hold_resume = (None if some is None else Resume(*some) for some in resumes)
    candidates_after, venerables_after, targets_after = cursors
    return EvaluationState(
        candidates_after=candidates_after,
        venerables_after=venerables_after,
        targets_after=targets_after,
        target_resume=target_resume,
        hold_resume=hold_resume,
        held=held,
        deferrals=deferrals,
    )


def take_window(graph: Graph, rows: Iterable[int], after: NodeId, size: int) -> list[int]:
    """The next rows of a ring sorted by id: from the first id above `after`, going around."""
    ids = list(map(graph.concepts.ids.__getitem__, rows))
    chosen = nsmallest(size, [name for name in ids if name > after])
    left = size - len(chosen)
    if left and len(ids) > len(chosen):
        chosen += nsmallest(left, [name for name in ids if name <= after])
    return [graph.concepts.row_by_id[name] for name in chosen]


def _listed(resume: Resume | None) -> list[NodeId] | None:
    return None if resume is None else list(resume)


def _texts(value: Any) -> tuple[str, ...] | None:
    """A list of texts, or None if it is something else."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None
