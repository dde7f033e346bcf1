"""The numbers a recall is made with.

Owns the weights and sizes an operator may tune. What a caller may send is bounded elsewhere, in
`memory.engine.limits`; the constants of BM25 belong to the inverted index.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """How evidence is weighed.

    `w_daemon` and `w_query` weigh the structural score and the relevance to the question; a weight
    that is negative or no finite number counts as 0. `recent_score` is the relevance of a concept
    of the `recent_interactions` newest interactions, on the scale of a cosine; `literal_score` that
    of one that holds a query without words as it stands. `show_authors` adds
    to each label who wrote the concept.
    """

    w_daemon: float = 0.5
    w_query: float = 0.5
    recent_score: float = 0.35
    recent_interactions: int = 3
    literal_score: float = 1.0
    show_authors: bool = False


DEFAULT_SETTINGS = RecallSettings()
