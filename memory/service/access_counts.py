"""How often concepts were shown to agents: counted in RAM, written together and seldom.

Owns what was shown to whom since that agent's last write, so that asking again and again counts
once. No gate and no sweep looks at the counts.

Invariant: bounded. An agent that is forgotten for want of room may be counted again, and no more.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

from memory.engine.graph import Graph
from memory.engine.limits import ACCESSES_PER_GROUP, ACCESSES_REMEMBERED, COUNTER_MAX
from memory.engine.mutations import PutAccess
from memory.engine.times import Micros
from memory.engine.types import NodeId


class AccessCounts:
    """Of one open session."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, set[NodeId]] = OrderedDict()  # by agent
        self._remembered = 0
        self._raised: Counter[NodeId] = Counter()
        self._shown_at: dict[NodeId, Micros] = {}

    def __bool__(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._raised)

    def note(self, agent_id: str, concept_ids: Iterable[NodeId], now: Micros) -> None:
        """Concepts were shown to an agent; those it saw since its last write count no more."""
        seen = self._shown.setdefault(agent_id, set())
        self._shown.move_to_end(agent_id)
        fresh = set(concept_ids) - seen
        seen |= fresh
        self._remembered += len(fresh)
        self._raised.update(fresh)
        self._shown_at.update(dict.fromkeys(fresh, now))
        while self._remembered > ACCESSES_REMEMBERED:
            _, forgotten = self._shown.popitem(last=False)
            self._remembered -= len(forgotten)

    def note_write(self, agent_id: str) -> None:
        """An agent wrote: what is shown to it from now on counts again."""
        self._remembered -= len(self._shown.pop(agent_id, ()))

    def take(self, graph: Graph) -> tuple[PutAccess, ...]:
        """What is to be written, some at once; of concepts that are gone nothing is."""
        mutations = []
        for concept_id in list(self._raised)[:ACCESSES_PER_GROUP]:
            raised, at = self._raised.pop(concept_id), self._shown_at.pop(concept_id)
            row = graph.row_of(concept_id)
            if row is not None:
                count = int(graph.concepts["access_count"][row]) + raised
                mutations.append(PutAccess(concept_id, min(count, COUNTER_MAX), at))
        return tuple(mutations)
