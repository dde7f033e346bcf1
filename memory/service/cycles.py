"""The background cycles of a session, as the service sees them: a port, and what passes through it.

Owns the words between the service, which knows when a cycle may run and how its outcome is stored,
and whoever knows what a cycle does. Knows no score, no gate and no finding.

Invariant: whatever a cycle changes is a tuple of mutations, handed out in the synchronous step in
which it was decided; so a verdict always holds for the graph it is applied to.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from memory.engine.graph import Graph
from memory.engine.mutations import Mutation, PutCycleState
from memory.engine.ports import IdSource
from memory.engine.times import Micros
from memory.engine.types import Json, NodeId

Steps: TypeAlias = Iterator[tuple[Mutation, ...]]
"""Groups of a sweep, one after the other. Each is to be queued in the step that asked for it, and
before the next is asked for; an empty one is only a pause for others."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a round has to say to listeners. `kind` is the event's name, `data` its JSON."""

    kind: str
    node_id: NodeId
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CycleStats:
    """How the cycles of a session stand, for its statistics."""

    promotion_policy: str
    hot_count: int
    """Entries of the hot list."""
    mutations_since_sweep: int
    pending_survivors: bool
    """Whether survivors of the last sweep are still to be counted."""
    swept_at: Micros | None
    evaluated_at: Micros | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Since when each agent has a token: its oldest that opens something."""

    created_at: Mapping[str, Micros] = field(default_factory=dict)


class SessionCycles(Protocol):
    """The cycles of one open session, bound to its graph as it was loaded."""

    @property
    def needs_tokens(self) -> bool:
        """Whether the ages of tokens decide anything under these rules."""

    def on_applied(self, graph: Graph, mutations: Sequence[Mutation], now: Micros) -> None:
        """Take note of a group just applied, and score what it touched; never raises."""

    def run_round(self, graph: Graph, now: Micros) -> Sequence[Finding]:
        """One round in RAM: score, detect, and say what is new. Changes nothing of the graph."""

    def needs_evaluation(self, now: Micros) -> bool:
        """Whether an evaluation now could find something that the last one did not."""

    def evaluate(
        self, graph: Graph, now: Micros, *, ids: IdSource, tokens: Tokens
    ) -> Generator[None, None, tuple[Mutation, ...]]:
        """One evaluation in short steps, writes allowed in between; what it decided at the end.

        To be queued in the step in which the generator returns.
        """

    def needs_collection(self, now: Micros) -> bool:
        """Whether a sweep is due, or survivors of the last one are still to be counted."""

    def collect(
        self, graph: Graph, now: Micros, *, ids: IdSource, is_forced: bool = False
    ) -> Steps:
        """A sweep if one is due or forced, and the counting of its survivors, in groups."""

    def due_note(self) -> PutCycleState | None:
        """What to store so that a session left alone is opened in time; None if that is stored."""

    def state_note(self) -> PutCycleState | None:
        """What the next process goes on from; None if that is stored."""

    def stats(self) -> CycleStats:
        """How they stand."""


class Cycles(Protocol):
    """Makes the cycles of sessions."""

    def attach(self, graph: Graph, state: Json, now: Micros) -> SessionCycles:
        """The cycles of a session just loaded, going on from a stored `state`; one round is run.

        Called on a worker thread, before anybody else sees the graph.
        """
