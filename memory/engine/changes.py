"""What changed in a graph since somebody last looked: for those who keep a derived view of it.

A graph notes its structural changes only while it is watched. The notes are sets of rows without
order: whoever takes them looks at the graph as it is now and repairs what those rows touch.

Invariant: bounded. When more has changed than is worth noting, the notes are dropped and the next
`take` says so; the view is then made anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

NOTED_MAX: Final = 200_000
"""Rows noted between two looks; past it a whole pass over the graph is cheaper."""


@dataclass(slots=True)
class Changes:
    """Rows that changed. Each may have changed several times, or be free again by now."""

    concepts: set[int] = field(default_factory=set)
    """Concept rows that were created or removed."""
    edges: set[int] = field(default_factory=set)
    """Edge rows that were written: created or reinforced."""
    bereft: set[int] = field(default_factory=set)
    """Concept rows that lost an edge."""

    @property
    def size(self) -> int:
        return len(self.concepts) + len(self.edges) + len(self.bereft)


class ChangeLog:
    """Collects the changes of one graph for one reader."""

    def __init__(self) -> None:
        self._noted = Changes()
        self._is_lost = False

    def note_concept(self, row: int) -> None:
        self._noted.concepts.add(row)
        self._bound()

    def note_edge(self, row: int) -> None:
        self._noted.edges.add(row)
        self._bound()

    def note_loss(self, *rows: int | None) -> None:
        """An edge is gone; `rows` are its ends, None for an interaction."""
        self._noted.bereft.update(row for row in rows if row is not None)
        self._bound()

    def take(self) -> Changes | None:
        """What changed since the last look; None when that was too much to note."""
        taken = None if self._is_lost else self._noted
        self._noted, self._is_lost = Changes(), False
        return taken

    def _bound(self) -> None:
        if self._noted.size > NOTED_MAX:
            self._noted, self._is_lost = Changes(), True
