"""The settings of canonization, frozen and checked when they are made.

Owns what an operator or an embedding program may choose: cadence, windows, budget and policy. Holds
no bar of a gate; those are constants of `canon.engine.gates` and no setting reaches them.

Invariant: whoever holds a `CanonSettings` holds values inside their limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memory.engine.config import BOUNDS as CONFIG_BOUNDS
from memory.engine.config import Bound, Policy, check_choice, check_number
from memory.engine.errors import InvalidConfiguration
from memory.engine.times import SECOND, Micros

__all__ = ["BOUNDS", "DAY_SECONDS", "CanonSettings", "Policy"]

DAY_SECONDS: Final = 86_400


BOUNDS: Final[Mapping[str, Bound]] = {
    name: CONFIG_BOUNDS[name]
    for name in (
        "canonization_edge_min_age_seconds",
        "canonization_coverage_window_seconds",
        "canonization_eval_batch_size",
        "canonization_repromotion_cooldown_seconds",
        "max_canonical_nodes",
    )
}
"""The range of every numeric setting: those of the program's `Config`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonSettings:
    """How often, how much and by which policy; each name ends in its unit."""

    promotion_policy: Policy = Policy.SWARM
    canonization_edge_min_age_seconds: float = 60.0
    """Evidence younger than this counts for nothing, so that a burst cannot promote."""
    canonization_coverage_window_seconds: float = 14.0 * DAY_SECONDS
    """Evidence need not be spread over more than a share of this, however old the session."""
    canonization_eval_batch_size: int = 50
    """The most concepts a stage looks at, and admits, in one cycle."""
    canonization_repromotion_cooldown_seconds: float = 300.0
    max_canonical_nodes: int = 1_000
    canonization_supersede: bool = False
    """Whether a contradicted canonical memory gives way to a contradictor with fresh evidence."""

    def __post_init__(self) -> None:
        policy = check_choice("promotion_policy", self.promotion_policy, Policy)
        object.__setattr__(self, "promotion_policy", policy)
        for setting, bound in BOUNDS.items():
            check_number(setting, getattr(self, setting), bound)
        if not isinstance(self.canonization_supersede, bool):
            raise InvalidConfiguration(
                "canonization_supersede must be true or false",
                setting="canonization_supersede",
            )
        window_ms = self.canonization_coverage_window_seconds * 1_000
        if window_ms != round(window_ms):
            raise InvalidConfiguration(
                "canonization_coverage_window_seconds must be whole milliseconds, not "
                f"{self.canonization_coverage_window_seconds!r}",
                setting="canonization_coverage_window_seconds",
            )

    @property
    def edge_min_age(self) -> Micros:
        return round(self.canonization_edge_min_age_seconds * SECOND)

    @property
    def coverage_window(self) -> Micros:
        return round(self.canonization_coverage_window_seconds * SECOND)

    @property
    def repromotion_cooldown(self) -> Micros:
        return round(self.canonization_repromotion_cooldown_seconds * SECOND)
