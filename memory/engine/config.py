"""The settings of the engine and the service, frozen and checked when they are made.

Whoever holds a `Config` holds values inside their limits: every refusal is an
`InvalidConfiguration` that names the setting and the limit, and no value is ever clamped or
replaced. This module reads no file and no variable (`lambo_site.configuration` does), and holds no
threshold of promotion: cadence may be set, bars may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from memory.engine import limits
from memory.engine.errors import InvalidConfiguration


class Durability(StrEnum):
    """When a write is answered."""

    COMMIT = "commit"  # after its batch is committed with full sync
    BEHIND = "behind"  # from RAM; committed a moment later
    MEMORY = "memory"  # from RAM; never committed


class MatchStrategy(StrEnum):
    """How new content finds the concept it repeats; fixed when a session is created."""

    CANONICAL = "canonical"  # by canonical key alone
    HYBRID = "hybrid"  # by canonical key, then by meaning


class FusionKind(StrEnum):
    """How a recall makes one list of what words, meaning and time found."""

    MAX = "max"  # by the highest raw score
    RRF = "rrf"  # by reciprocal rank, with context


class SuspectedLine(StrEnum):
    """When a recall says that one hit may have replaced another."""

    VALIDATED = "validated"  # with embedders whose guesses were measured to be right
    ON = "on"
    OFF = "off"


class SkipRedundant(StrEnum):
    """Which hits of a recall give up their slot because another says the same."""

    OFF = "off"
    SAME = "same"  # the same text
    SIMILAR = "similar"  # or one that is linked to it by meaning or as near as that


class Policy(StrEnum):
    """Whose evidence promotes a concept."""

    SWARM = "swarm"  # interactions, whoever wrote them
    SOLO = "solo"  # one writer: repetition over days, and what a human confirmed
    QUORUM = "quorum"  # agents with tokens, other than the concept's author


class Bound(NamedTuple):
    """The closed range of a numeric setting. `is_whole` refuses fractions."""

    low: float
    high: float
    is_whole: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.is_whole else "a number"
        return f"{kind} in {self.low:g}..={self.high:.15g}"


_DAY_SECONDS = 86_400

BOUNDS: Mapping[str, Bound] = {
    "default_top_k": Bound(limits.TOP_K_MIN, limits.TOP_K_MAX, is_whole=True),
    "default_max_tokens": Bound(limits.MAX_TOKENS_MIN, limits.MAX_TOKENS_MAX, is_whole=True),
    # Depth 0 is a working answer: what was found by words, nothing around it.
    "default_traversal_depth": Bound(limits.DEPTH_MIN, limits.DEPTH_MAX, is_whole=True),
    "recall_query_weight": Bound(0.0, 1.0),
    "recall_score_weight": Bound(0.0, 1.0),
    "fusion_k": Bound(0.0, 1_000.0),
    "fusion_keyword_weight": Bound(0.0, 10.0),
    "fusion_vector_weight": Bound(0.0, 10.0),
    "fusion_recent_weight": Bound(0.0, 10.0),
    "fusion_context_weight": Bound(0.0, 1.0),
    "max_cooccurrence_per_derive": Bound(1, 2_016, is_whole=True),  # all pairs of 64 concepts
    "flush_interval_seconds": Bound(0.01, 60.0),
    "flush_mutations": Bound(1, limits.BACKLOG_MUTATIONS, is_whole=True),
    "lease_ttl_seconds": Bound(3.0, 3_600.0),
    "heartbeat_seconds": Bound(0.5, 1_200.0),
    "away_after_seconds": Bound(0.05, 60.0),
    "outcome_unknown_after_seconds": Bound(0.1, 120.0),
    # An ordered close ends within 15 s, the rest of the shutdown included.
    "embed_deadline_seconds": Bound(0.01, 60.0),
    "close_deadline_seconds": Bound(0.1, 14.0),
    "retry_initial_seconds": Bound(0.001, 10.0),
    "retry_max_seconds": Bound(0.001, 60.0),
    "open_sessions_max": Bound(1, 10_000, is_whole=True),
    "resident_bytes_max": Bound(1_000_000, 2**40, is_whole=True),
    "idle_exit_minutes": Bound(1, 10_080, is_whole=True),  # one week
    "gc_interval_mutations": Bound(1, limits.COUNTER_MAX, is_whole=True),
    "gc_max_interval_seconds": Bound(1, 3_650 * _DAY_SECONDS, is_whole=True),
    "gc_idle_floor_mutations": Bound(1, limits.COUNTER_MAX, is_whole=True),
    "canonization_eval_interval_seconds": Bound(1.0, _DAY_SECONDS),
    "canonization_edge_min_age_seconds": Bound(0.0, _DAY_SECONDS),
    "canonization_coverage_window_seconds": Bound(_DAY_SECONDS, 3_650 * _DAY_SECONDS),
    "canonization_eval_batch_size": Bound(1, 1_000, is_whole=True),
    "canonization_repromotion_cooldown_seconds": Bound(0.0, 365 * _DAY_SECONDS),
    "max_canonical_nodes": Bound(1, 100_000, is_whole=True),
    "hot_list_max": Bound(1, 100_000, is_whole=True),
    "hot_list_contradiction_max": Bound(0, 100_000, is_whole=True),
    "conflict_recency_window_seconds": Bound(1.0, 3_600.0),
    "drift_threshold_hops": Bound(1, 1_000, is_whole=True),
    "canonization_min_peer_count": Bound(1, limits.COUNTER_MAX, is_whole=True),
}
"""The range of every numeric setting."""

_OF_RRF = (
    "fusion_k",
    "fusion_keyword_weight",
    "fusion_vector_weight",
    "fusion_recent_weight",
    "fusion_context_weight",
)
_OPTIONAL = frozenset({"idle_exit_minutes", "hot_list_contradiction_max"})
_INERT = {
    "canonization_min_peer_count": "gates count distinct interactions, not peers",
}


def check_number(setting: str, value: object, bound: Bound, *, source: str | None = None) -> None:
    """Refuse what is no number inside `bound`; `source` says where the value was written."""
    # bool is an int to Python; `true` for a number of seconds is a mistake all the same.
    is_number = isinstance(value, int if bound.is_whole else int | float)
    if not is_number or isinstance(value, bool) or not _is_within(value, bound):
        raise InvalidConfiguration(
            f"{setting} must be {bound}, not {_shown(value)}{_origin(source)}",
            setting=setting,
            source=source,
            minimum=bound.low,
            maximum=bound.high,
        )


def check_choice(
    setting: str, value: object, kind: type[StrEnum], *, source: str | None = None
) -> Any:
    """The member of `kind` that `value` names; refuses anything else, case included."""
    choices = [str(member) for member in kind]
    if not isinstance(value, str) or value not in choices:
        raise InvalidConfiguration(
            f"{setting} must be one of {', '.join(choices)}, not {_shown(value)}{_origin(source)}",
            setting=setting,
            source=source,
            choices=choices,
        )
    return kind(value)


def _is_within(value: Any, bound: Bound) -> bool:
    """False for NaN and the infinities too: no comparison with them holds on both sides."""
    return bool(bound.low <= value <= bound.high)


def _origin(source: str | None) -> str:
    return f" (from {source})" if source else ""


def _shown(value: object) -> str:
    """The offending value, cut so that a pasted file cannot flood an error line."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python agrees to print
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything `Memory` and its committer may be told. Each name ends in its unit."""

    durability: Durability = Durability.COMMIT
    match_strategy: MatchStrategy = MatchStrategy.CANONICAL
    """For sessions created from now on; an existing session keeps its own."""

    default_top_k: int = 5
    default_max_tokens: int = 500
    default_traversal_depth: int = 2
    recall_query_weight: float = 0.5
    """Share of relevance to the question in the final score of a recall."""
    recall_score_weight: float = 0.5
    """Share of the concept's own standing in the final score of a recall."""
    fusion_kind: FusionKind = FusionKind.RRF
    fusion_k: float = 3.0
    """Added to a place before it divides a weight: the larger, the less the first places count."""
    fusion_keyword_weight: float = 1.0
    fusion_vector_weight: float = 0.7
    fusion_recent_weight: float = 0.1
    fusion_context_weight: float = 0.5
    """What of its relevance an answer lends to what was written just after it."""
    suspected_supersession_line: SuspectedLine = SuspectedLine.VALIDATED
    skip_redundant: SkipRedundant = SkipRedundant.OFF
    max_cooccurrence_per_derive: int = 10

    flush_interval_seconds: float = 1.0
    """Mode `behind`: a commit starts at the latest this long after the first uncommitted write."""
    flush_mutations: int = 500
    """Mode `behind`: a commit starts when this many mutations wait."""

    lease_ttl_seconds: float = 45.0
    heartbeat_seconds: float = 15.0
    away_after_seconds: float = 2.0
    """A batch unsettled for this long means that the store is away: new writes are refused."""
    outcome_unknown_after_seconds: float = 10.0
    """The longest a caller waits for an unsettled commit before it is told so."""
    embed_deadline_seconds: float = 5.0
    """The longest a write or a recall waits for the embedder before it goes on without."""
    close_deadline_seconds: float = 8.0
    """The longest a close waits for the committer."""
    retry_initial_seconds: float = 0.05
    retry_max_seconds: float = 2.0

    open_sessions_max: int = limits.OPEN_SESSIONS
    """Sessions held in RAM at once; the least recently used is put away first."""
    resident_bytes_max: int = limits.RESIDENT_BYTES
    """What these may take up together, as estimated; over it, idle ones are put away the same way.
    One session always stays."""
    accept_client_vectors: bool = False
    """Whether callers may send vectors of their own, made by the session's model."""
    idle_exit_minutes: int | None = None
    """Stop the server after this long without a call; None means never."""

    gc_interval_mutations: int = 10_000
    """A sweep of garbage collection comes after so many mutations,"""
    gc_max_interval_seconds: int = 86_400
    """or after this long, if there were at least so many:"""
    gc_idle_floor_mutations: int = 100

    promotion_policy: Policy = Policy.SWARM
    canonization_supersede: bool = False
    """Whether a contradicted canonical memory gives way to a contradictor with fresh evidence."""
    canonization_eval_interval_seconds: float = 60.0
    canonization_edge_min_age_seconds: float = 60.0
    """Evidence younger than this counts for nothing, so that a burst cannot promote."""
    canonization_coverage_window_seconds: float = 14.0 * _DAY_SECONDS
    """Evidence need not be spread over more than a share of this, however old the session."""
    canonization_eval_batch_size: int = 50
    """The most concepts a stage looks at, and admits, in one evaluation."""
    canonization_repromotion_cooldown_seconds: float = 300.0
    max_canonical_nodes: int = 1_000
    hot_list_max: int = 1_000
    hot_list_contradiction_max: int | None = None
    """Contradictions in the hot list; None means half of it."""
    conflict_recency_window_seconds: float = 30.0
    drift_threshold_hops: int = 5

    canonization_min_peer_count: int = 20
    """Inert; accepted so that older programs start, and warned about when changed."""

    def __post_init__(self) -> None:
        for setting, kind in (
            ("durability", Durability),
            ("match_strategy", MatchStrategy),
            ("fusion_kind", FusionKind),
            ("suspected_supersession_line", SuspectedLine),
            ("skip_redundant", SkipRedundant),
            ("promotion_policy", Policy),
        ):
            object.__setattr__(self, setting, check_choice(setting, getattr(self, setting), kind))
        for setting, bound in BOUNDS.items():
            value = getattr(self, setting)
            if value is None and setting in _OPTIONAL:
                continue
            check_number(setting, value, bound)
        self._check_canonization()
        self._check_relations()

    def _check_canonization(self) -> None:
        if not isinstance(self.canonization_supersede, bool):
            raise InvalidConfiguration(
                "canonization_supersede must be true or false", setting="canonization_supersede"
            )
        window_ms = self.canonization_coverage_window_seconds * 1_000
        if window_ms != round(window_ms):
            raise InvalidConfiguration(
                "canonization_coverage_window_seconds must be whole milliseconds, not "
                f"{self.canonization_coverage_window_seconds!r}",
                setting="canonization_coverage_window_seconds",
            )

    def _check_relations(self) -> None:
        """Limits that depend on another setting; each would fail only under load otherwise."""
        if self.recall_query_weight + self.recall_score_weight <= 0:
            raise InvalidConfiguration(
                "recall_query_weight and recall_score_weight must not both be 0",
                setting="recall_query_weight",
            )
        if self.fusion_keyword_weight + self.fusion_vector_weight <= 0:
            raise InvalidConfiguration(
                "fusion_keyword_weight and fusion_vector_weight must not both be 0",
                setting="fusion_keyword_weight",
            )
        # Two heartbeats may be missed before a healthy server could lose a session.
        if self.heartbeat_seconds * 3 > self.lease_ttl_seconds:
            raise InvalidConfiguration(
                f"heartbeat_seconds must be at most a third of lease_ttl_seconds "
                f"({self.lease_ttl_seconds:g} / 3), not {self.heartbeat_seconds:g}",
                setting="heartbeat_seconds",
                maximum=self.lease_ttl_seconds / 3,
            )
        # Otherwise callers are told "unknown" before new writes are held off.
        if self.outcome_unknown_after_seconds < self.away_after_seconds:
            raise InvalidConfiguration(
                f"outcome_unknown_after_seconds must be at least away_after_seconds "
                f"({self.away_after_seconds:g}), not {self.outcome_unknown_after_seconds:g}",
                setting="outcome_unknown_after_seconds",
                minimum=self.away_after_seconds,
            )
        if self.retry_max_seconds < self.retry_initial_seconds:
            raise InvalidConfiguration(
                f"retry_max_seconds must be at least retry_initial_seconds "
                f"({self.retry_initial_seconds:g}), not {self.retry_max_seconds:g}",
                setting="retry_max_seconds",
                minimum=self.retry_initial_seconds,
            )

    def find_warnings(self) -> tuple[str, ...]:
        """One sentence for each setting that was changed and changes nothing."""
        inert = dict(_INERT)
        if self.durability is not Durability.BEHIND:
            reason = f"durability is {self.durability}"
            inert |= {"flush_interval_seconds": reason, "flush_mutations": reason}
        if self.fusion_kind is FusionKind.MAX:
            inert |= dict.fromkeys(_OF_RRF, "fusion_kind is max")
        defaults = {field.name: field.default for field in fields(self)}
        return tuple(
            f"{setting} is set and has no effect: {reason}"
            for setting, reason in inert.items()
            if getattr(self, setting) != defaults[setting]
        )
