"""Which instant dates a piece of evidence.

Every write has a write time, stamped by the server, and may say what time it is about. The latter
dates evidence only where the writer was allowed to backdate; otherwise the write time does, so that
no agent can spread its evidence over weeks by saying so. Every gate and every detector of
contradictions takes its dates from here.

A *gate time* may lie in the future (an import about next year); a *claimed time* is a gate time no
later than its write, for questions of what came after what.

Invariant: the times of an interaction never change once it is in the chain.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from memory.engine.columns import NO_TIME, Array
from memory.engine.graph import Graph
from memory.engine.interaction_chain import InteractionChain
from memory.engine.times import Micros
from memory.engine.types import Interaction

_CAPACITY_MIN: Final = 64


def gate_time(interaction: Interaction) -> Micros:
    """The instant that dates an interaction as evidence."""
    if interaction.is_backdated and interaction.event_time is not None:
        return interaction.event_time
    return interaction.created_at


def claimed_time(interaction: Interaction) -> Micros:
    """When what an interaction says was so, no later than it was said."""
    return min(gate_time(interaction), interaction.created_at)


def edge_gate_times(graph: Graph, edge_rows: Array) -> Array:
    """The instants that date edges as evidence, by row, (n,) int64.

    An edge's event time is stored only where backdating was allowed.
    """
    told = graph.edges["event_time"][edge_rows]
    return np.where(told == NO_TIME, graph.edges["created_at"][edge_rows], told)


def edge_claimed_times(graph: Graph, edge_rows: Array) -> Array:
    """The gate times of edges, none later than its write, (n,) int64."""
    claimed: Array = np.minimum(
        edge_gate_times(graph, edge_rows), graph.edges["created_at"][edge_rows]
    )
    return claimed


class Timeline:
    """Write and gate times of a session's interactions by row, (n,) int64 each.

    It reads each interaction once: keep one beside the graph and let it `follow` the chain. A
    graph that was loaded anew is another chain, and is read from the start.
    """

    def __init__(self) -> None:
        self._chain: InteractionChain | None = None
        self._restart()

    def _restart(self) -> None:
        self._count = 0
        self._written = np.zeros(_CAPACITY_MIN, dtype=np.int64)
        self._gate = np.zeros(_CAPACITY_MIN, dtype=np.int64)
        self._first: Micros = 0
        self._last: Micros = 0

    def follow(self, graph: Graph, *, limit: int | None = None) -> bool:
        """Read the interactions that are new, at most `limit`; True when none is left."""
        chain = graph.chain
        if chain is not self._chain:
            self._restart()
            self._chain = chain
        start, stop = self._count, len(chain.records)
        if limit is not None:
            stop = min(stop, start + limit)
        if stop > start:
            self._read(chain.records[start:stop])
        return self._count == len(chain.records)

    def _read(self, records: list[Interaction]) -> None:
        start, stop = self._count, self._count + len(records)
        if stop > len(self._gate):
            capacity = 1 << (stop - 1).bit_length()
            self._written = np.resize(self._written, capacity)
            self._gate = np.resize(self._gate, capacity)
        self._written[start:stop] = [record.created_at for record in records]
        self._gate[start:stop] = [gate_time(record) for record in records]
        low, high = int(self._gate[start:stop].min()), int(self._gate[start:stop].max())
        self._first = min(self._first, low) if start else low
        self._last = max(self._last, high) if start else high
        self._count = stop

    @property
    def written(self) -> Array:
        """Write times by interaction row."""
        return self._written[: self._count]

    @property
    def gate(self) -> Array:
        """Gate times by interaction row."""
        return self._gate[: self._count]

    @property
    def extent(self) -> Micros:
        """From the earliest to the latest gate time of all interactions, young and future too."""
        return self._last - self._first
