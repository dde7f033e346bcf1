"""The tables behind the graph: what each type of node and edge means, in numbers.

Enumerations get small integer codes for the columns; the code is the place in the tuple, and the
order is stored nowhere, so it may change between versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memory.engine.types import ConceptType, EdgeType, Status

TYPES: Final = tuple(ConceptType)
TYPE_CODE: Final = {kind: code for code, kind in enumerate(TYPES)}
STATUSES: Final = tuple(Status)
STATUS_CODE: Final = {status: code for code, status in enumerate(STATUSES)}
EDGE_TYPES: Final = tuple(EdgeType)
EDGE_TYPE_CODE: Final = {kind: code for code, kind in enumerate(EDGE_TYPES)}


@dataclass(frozen=True, slots=True)
class EdgeRule:
    """What an edge type joins and what it is worth.

    `bonus_milli` is what one such edge adds to the score of each concept it touches, in
    thousandths. An edge that does not count for degree is invisible to scoring and reachability.
    """

    first_weight: float
    bonus_milli: int
    from_interaction: bool = False
    to_interaction: bool = False
    counts_for_degree: bool = True


EDGES: Final = {
    EdgeType.TEMPORAL: EdgeRule(1.0, 0, from_interaction=True, to_interaction=True),
    EdgeType.DERIVES: EdgeRule(0.9, 0, from_interaction=True),
    EdgeType.CO_OCCURRENCE: EdgeRule(0.5, 5),
    EdgeType.CAUSAL: EdgeRule(0.5, 20),
    EdgeType.DEPENDENCY: EdgeRule(0.5, 20),
    EdgeType.HIERARCHICAL: EdgeRule(0.5, 15),
    EdgeType.SEMANTIC: EdgeRule(0.0, 10),  # first weight: the cosine
    EdgeType.CONTRADICTS: EdgeRule(0.5, 0, counts_for_degree=False),
    EdgeType.SUSPECTED_SUPERSEDES: EdgeRule(0.0, 0, counts_for_degree=False),
}

LEGAL_TRANSITIONS: Final = frozenset(
    {
        (Status.NONE, Status.CANDIDATE),
        (Status.NONE, Status.VENERABLE),  # root goal only
        (Status.CANDIDATE, Status.VENERABLE),
        (Status.VENERABLE, Status.CANONICAL),
        (Status.CANONICAL, Status.NONE),
    }
)
