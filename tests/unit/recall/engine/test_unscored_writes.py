"""A burst of writes that no cycle has scored yet: the ranking of what was there before stays."""

from __future__ import annotations

import numpy as np

from memory.engine.requests import RecallRequest
from recall.engine.pipeline import recall
from recall.engine.settings import DEFAULT_SETTINGS
from recall_graphs import START, GraphWriter

OLD = 12


def test_an_unrelated_new_concept_moves_no_old_one() -> None:
    """One unscored hit once had all of them ranked without their standing."""
    writer = GraphWriter()
    for number in range(OLD):
        writer.interact()
        writer.concept("alpha " * (1 + number % 3) + f"of kind {number}")
    for _ in range(DEFAULT_SETTINGS.recent_interactions):
        writer.interact()
    scores = np.zeros(writer.graph.concepts.used)
    for row in writer.graph.concept_rows():
        scores[row] = 0.1 * ((7 * row) % 13)
    request = RecallRequest("alpha", top_k=100, max_tokens=100_000)

    def ranked() -> list[str]:
        result = recall(writer.graph, request, now=START, scores=scores)
        return [hit.content for hit in result.hits if hit.content.startswith("alpha")]

    before = ranked()
    assert len(before) == OLD
    for number in range(40):
        writer.interact()
        writer.concept(f"nothing to do with it {number}")
        assert ranked() == before
    fresh = recall(writer.graph, request, now=START, scores=scores)
    assert fresh.cold_start
