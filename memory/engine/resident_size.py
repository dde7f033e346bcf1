"""How much of the process's memory a session takes up: an estimate from counters, no walk.

The constants were fitted on CPython 3.11, 64 bits, to the growth of a process that built sessions
of 3,000 to 100,000 concepts with texts of 10 to 1,000 words: the estimate was within a fifth of it.
They are for choosing whom to put away, not for accounts. Pure; as fast for any size.
"""

from __future__ import annotations

from typing import Final

from memory.engine.graph import Graph

CONCEPT_BYTES: Final = 1_250
"""A concept without its text and vector: columns, id, key, lists of edges, ways to find it."""
EDGE_BYTES: Final = 560
INTERACTION_BYTES: Final = 900
TEXT_SHARE: Final = 4
"""Bytes held for each byte of content: the content, its key, its copy in the prompt, its stems."""
TOKEN_BYTES: Final = 36
"""A posting, and its entry in the list of what a document holds."""
_NUMBER_BYTES: Final = 4


def resident_bytes(graph: Graph) -> int:
    """About how many bytes a session takes up."""
    vectors = 0 if graph.vectors is None else len(graph.vectors) * graph.vectors.dim
    return (
        CONCEPT_BYTES * graph.concept_count
        + EDGE_BYTES * graph.edge_count
        + INTERACTION_BYTES * graph.interaction_count
        + TEXT_SHARE * graph.concepts.text_bytes
        + TOKEN_BYTES * graph.index.token_count
        + _NUMBER_BYTES * vectors
    )
