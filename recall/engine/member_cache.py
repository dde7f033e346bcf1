"""Who was in the last answers: questions asked again before anything was written.

Owns which answer may be given from memory. Only the members are kept, as rows of a graph: scores,
hot list, reservations and lines are made afresh, and no text is held, neither a question's (its
digest stands for it) nor a concept's.

Invariant: what is found is what `gather` would give. An entry holds for one graph, to the object,
at one epoch; every change of who may be a member (a write, a sweep, a restore, a purge) moves the
epoch, and a reload makes another graph. Questions by meaning, by filter or to an index that is
still being filed are never kept.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias
from weakref import ReferenceType, ref

from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.requests import RecallRequest
from recall.engine.members import Members, gather
from recall.engine.settings import RecallSettings

ENTRIES_MAX: Final = 128

_Key: TypeAlias = tuple[int, bytes, int, int, RecallSettings]


class _Entry(NamedTuple):
    graph: ReferenceType[Graph]
    epoch: int
    members: Members


class MemberCache:
    """The members of the questions asked last, least recently asked dropped first."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def gather(
        self,
        graph: Graph,
        request: RecallRequest,
        *,
        settings: RecallSettings,
        meanings: Meanings | None,
    ) -> Members:
        """The members of the answer to a question, as `recall.engine.members.gather` gives them."""
        is_kept = meanings is None and request.wanted.accepts_all and graph.index.is_settled
        if not is_kept:
            return gather(graph, request, settings=settings, meanings=meanings)
        digest = blake2b(request.query.encode(), digest_size=16).digest()
        key = (id(graph), digest, request.top_k, request.traversal_depth, settings)
        entry = self._entries.get(key)
        # The id may be that of a graph that is gone, used again.
        if entry is None or entry.graph() is not graph or entry.epoch != graph.epoch:
            members = gather(graph, request, settings=settings, meanings=None)
            entry = _Entry(ref(graph), graph.epoch, members)
            self._entries[key] = entry
            if len(self._entries) > self._entries_max:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return entry.members
