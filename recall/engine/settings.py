"""The numbers a recall is made with.

Owns the weights and sizes an operator may tune. What a caller may send is bounded elsewhere, in
`memory.engine.limits`; the constants of BM25 belong to the inverted index.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from memory.engine.config import FusionKind, SkipRedundant, SuspectedLine


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """How the legs of a recall become one list; see `recall.engine.fusion`.

    Of the numbers, `max` uses none. `k` says how fast a place in a leg loses its worth; a weight
    of 0 leaves a leg out. `context_weight` is what of its relevance an answer lends to what was
    written next; 0 lends nothing.
    """

    kind: FusionKind = FusionKind.RRF
    k: float = 3.0
    keyword_weight: float = 1.0
    vector_weight: float = 0.7
    recent_weight: float = 0.1
    context_weight: float = 0.5


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """How evidence is weighed.

    `w_daemon` and `w_query` weigh the structural score and the relevance to the question; a weight
    that is negative or no finite number counts as 0. `recent_score` is the relevance of a concept
    of the `recent_interactions` newest interactions, on the scale of a cosine; `literal_score` that
    of one that holds a query without words as it stands. `suspected_supersession_line` says when a
    guess that one hit replaces another is told, `skip_redundant` which hits give up their slot
    because another says the same. `show_authors` adds to each label who wrote the
    concept.
    """

    w_daemon: float = 0.5
    w_query: float = 0.5
    recent_score: float = 0.35
    recent_interactions: int = 3
    literal_score: float = 1.0
    fusion: FusionSettings = field(default_factory=FusionSettings)
    suspected_supersession_line: SuspectedLine = SuspectedLine.VALIDATED
    skip_redundant: SkipRedundant = SkipRedundant.OFF
    show_authors: bool = False


DEFAULT_SETTINGS = RecallSettings()
