"""What is compared: the sets of settings a question is asked under.

Owns their names. The first is what the product does when nobody sets anything; each of the others
changes one thing, so that the table says what that thing is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_ALONE: Final = {
    "fusion_recent_weight": 0.0,
    "fusion_context_weight": 0.0,
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One set of settings. `needs_vectors`: without an embedder it is another one by that name."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    traversal_depth: int = 2
    has_standing: bool = True
    needs_vectors: bool = False


DEFAULT: Final = Variant("default")

VARIANTS: Final = (
    DEFAULT,
    Variant("importance off", has_standing=False),
    Variant("expansion off", traversal_depth=0),
    Variant("context off", {"fusion_context_weight": 0.0}),
    Variant("words alone", {**_ALONE, "fusion_vector_weight": 0.0}, has_standing=False),
    Variant(
        "meaning alone",
        {**_ALONE, "fusion_keyword_weight": 0.0},
        has_standing=False,
        needs_vectors=True,
    ),
    Variant(
        "rrf, equal weights, no context",
        {**_ALONE, "fusion_vector_weight": 1.0},
        has_standing=False,
        needs_vectors=True,
    ),
    Variant("max", {"fusion_kind": "max"}),
    Variant("max, importance off", {"fusion_kind": "max"}, has_standing=False),
)
