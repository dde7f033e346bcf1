"""Made-up projects whose dependency graph is known: who rests on what, by construction.

Owns a seeded generator of derives. A part cites parts of earlier batches, with a preference for a
few old ones, and now and then one part holds another. What rests on a part is kept beside, as plain
sets of texts, and never computed from a graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from memory.engine.requests import ConceptInput, DeriveRequest
from memory.engine.types import ConceptType

BATCH: Final = 32
CITATIONS_MAX: Final = 2
_KINDS: Final = (ConceptType.ENTITY, ConceptType.RESOURCE, ConceptType.LOGIC)
_LAYERS: Final = ("store", "queue", "view", "job", "route", "model", "filter", "cache")


@dataclass(slots=True)
class DependencyProject:
    """What was written so far, and the truth about it: texts by the text they rest on."""

    size: int
    seed: int
    dependents: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def derives(self) -> Iterator[DeriveRequest]:
        """The whole project, in order; `dependents` is complete when the last one was taken."""
        random = Random(self.seed)
        written: list[str] = []
        for start in range(0, self.size, BATCH):
            numbers = range(start, min(start + BATCH, self.size))
            batch = [self._part(random, number, written) for number in numbers]
            pairs = self._parents(random, written, [one.content for one in batch])
            yield DeriveRequest(tuple(batch), parent_of=pairs)
            written += [one.content for one in batch]

    def _part(self, random: Random, number: int, written: list[str]) -> ConceptInput:
        text = f"{random.choice(_LAYERS)} of part n{number:05d}"
        cited: set[str] = set()
        if written:
            # Cubing prefers the oldest: those become the pillars that much rests on.
            places = (int(len(written) * random.random() ** 3) for _ in range(CITATIONS_MAX))
            cited = {written[place] for place in places}
        for one in cited:
            self.dependents[one].add(text)
        return ConceptInput(text, random.choice(_KINDS), depends_on=tuple(sorted(cited)))

    def _parents(
        self, random: Random, written: list[str], batch: list[str]
    ) -> tuple[tuple[str, str], ...]:
        """A child rests on what holds it; each child is new, so it has one parent."""
        if not written:
            return ()
        pairs = tuple((random.choice(written), child) for child in random.sample(batch, k=2))
        for parent, child in pairs:
            self.dependents[parent].add(child)
        return pairs
