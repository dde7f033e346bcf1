"""The audit entries that go on counting for a concept while it lives: restored, confirmed.

Of an audit trail a graph needs only these. They are kept without texts, so that RAM holds a few
words per human act. Knows no concepts: which one is alive is the graph's to say.

Invariant: the entries of a concept are those since it was made or last restored, oldest first; so a
restoration stands first, and replaying a trail or reading its rows gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memory.engine.traces import Needles, holds
from memory.engine.types import AuditEntry, AuditKind, NodeId

SHIELDED_SWEEPS: Final = 3
"""Sweeps of the garbage collector that a restored concept is safe from."""

STANDING_KINDS: Final = frozenset({AuditKind.RESTORE, AuditKind.CONFIRM})


class StandingEntries:
    """What still counts of the acts on the concepts of one graph."""

    def __init__(self) -> None:
        self._by_concept: dict[NodeId, list[AuditEntry]] = {}
        self._purged: set[NodeId] = set()

    def keep(self, entry: AuditEntry) -> None:
        """Take an entry of `STANDING_KINDS`; one that is held already changes nothing."""
        assert entry.node_id is not None
        entries = self._by_concept.setdefault(entry.node_id, [])
        if any(held.id == entry.id for held in entries):
            return
        if entry.kind is AuditKind.RESTORE:
            entries.clear()
        entries.append(entry._replace(texts=None, removed=None))

    def drop(self, concept_id: NodeId) -> None:
        """Forget a concept that is gone."""
        self._by_concept.pop(concept_id, None)

    def confirmation_count(self, concept_id: NodeId) -> int:
        """How often people confirmed a concept since it was made or last restored."""
        entries = self._by_concept.get(concept_id, ())
        return sum(entry.kind is AuditKind.CONFIRM for entry in entries)

    def confirmations(self) -> dict[NodeId, int]:
        """`confirmation_count` of every concept that was ever confirmed."""
        counts = {name: self.confirmation_count(name) for name in self._by_concept}
        return {name: count for name, count in counts.items() if count}

    def is_shielded(self, concept_id: NodeId, gc_survived: int) -> bool:
        """Whether a concept that survived so many sweeps was restored only a few of them ago."""
        entries = self._by_concept.get(concept_id)
        if not entries or entries[0].kind is not AuditKind.RESTORE:
            return False
        before: int = entries[0].detail["gc_survived"]
        return gc_survived - before < SHIELDED_SWEEPS

    def restored_ids(self) -> list[NodeId]:
        """The concepts that were restored at some time, and live."""
        return sorted(
            name
            for name, entries in self._by_concept.items()
            if entries[0].kind is AuditKind.RESTORE
        )

    def is_purged(self, concept_id: NodeId) -> bool:
        """Whether a concept was purged here, even if no store was told of it yet."""
        return concept_id in self._purged

    def purge(self, concept_ids: Iterable[NodeId], needles: Needles) -> None:
        """Forget what people said where it holds a purged text, and note what bore that."""
        self._purged.update(concept_ids)
        for entries in self._by_concept.values():
            entries[:] = [
                entry._replace(reason=None) if holds(entry.reason, needles) else entry
                for entry in entries
            ]

    def all(self) -> tuple[AuditEntry, ...]:
        """Every entry, by id."""
        return tuple(sorted(entry for entries in self._by_concept.values() for entry in entries))


def standing_of(entries: Iterable[AuditEntry], alive: Iterable[NodeId]) -> tuple[AuditEntry, ...]:
    """What stands after a trail, for the concepts that live; by id."""
    living = frozenset(alive)
    standing = StandingEntries()
    for entry in sorted(entries, key=lambda entry: entry.id):
        if entry.kind in STANDING_KINDS and entry.node_id in living:
            standing.keep(entry)
    return standing.all()
