"""The gates between the statuses: each one predicate, with its measurement, bar and sentence.

The same predicate admits, explains and is written into the audit row. Bars are constants: no
setting, file or caller moves them. Which gates stand before which status is `policies`' business.

Invariant: a gate that is not passed says why in one plain sentence; a passed one says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from memory.engine.columns import Array
from memory.engine.showing import in_passing
from memory.engine.times import SECOND, Micros, format_rfc3339
from memory.engine.types import NodeId


class Gate(StrEnum):
    """What a concept has to pass; the values are stored in audit rows."""

    GC_SURVIVED = "gc_survived"
    DISTINCT = "distinct_interactions"
    COVERAGE = "coverage"
    BLAST_RADIUS = "blast_radius"
    COOLDOWN = "cooldown"
    INDEPENDENT_AGENTS = "independent_agents"
    SOLO_SCORE = "solo_score"
    CANONICAL_BUDGET = "canonical_budget"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Bar:
    """What a measurement must reach, or exceed if the bar is strict."""

    value: float
    is_strict: bool = False

    def is_met(self, measured: float) -> bool:
        return measured > self.value if self.is_strict else measured >= self.value

    def is_met_by(self, measured: Array) -> Array:
        """The same of a column, bool."""
        mask: Array = measured > self.value if self.is_strict else measured >= self.value
        return mask


GC_SURVIVED: Final = Bar(3)
CANDIDATE_DISTINCT: Final = Bar(2)
VENERABLE_DISTINCT: Final = Bar(3)
VENERABLE_COVERAGE: Final = Bar(0.3)
CANONICAL_RADIUS: Final = Bar(5, is_strict=True)
CANDIDATE_AGENTS: Final = Bar(1)
VENERABLE_AGENTS: Final = Bar(2)


@dataclass(frozen=True, slots=True)
class Check:
    """One gate, measured. `sentence` is None when it is passed.

    `measured` and `bar` are in the gate's own unit: counts, a share of the session, seconds since
    the last demotion, canonical memories, a score. `subject` is the contradictor that holds.
    """

    gate: Gate
    measured: float | None
    bar: float | None
    is_met: bool
    is_strict: bool = False
    sentence: str | None = None
    subject: NodeId | None = None

    def as_wire(self) -> dict[str, Any]:
        wire = {
            "gate": str(self.gate),
            "measured": self.measured,
            "bar": self.bar,
            "is_strict": self.is_strict,
            "met": self.is_met,
        }
        if self.sentence is not None:
            wire["sentence"] = self.sentence
        if self.subject is not None:
            wire["subject"] = self.subject
        return wire


def _checked(gate: Gate, measured: float, bar: Bar, sentence: Callable[[], str]) -> Check:
    is_met = bar.is_met(measured)
    told = None if is_met else sentence()
    return Check(gate, measured, bar.value, is_met, bar.is_strict, told)


def check_gc_survived(survived: int) -> Check:
    return _checked(
        Gate.GC_SURVIVED,
        survived,
        GC_SURVIVED,
        lambda: (
            f"It has outlived {_count(survived, 'sweep')} of garbage collection; "
            f"{GC_SURVIVED.value:g} are needed."
        ),
    )


def check_distinct(distinct: int, bar: Bar) -> Check:
    return _checked(
        Gate.DISTINCT,
        distinct,
        bar,
        lambda: (
            f"What rests on it comes from {_count(distinct, 'other interaction')} that "
            f"{'is' if distinct == 1 else 'are'} old enough; {bar.value:g} are needed."
        ),
    )


def check_coverage(covered: float) -> Check:
    return _checked(
        Gate.COVERAGE,
        covered,
        VENERABLE_COVERAGE,
        lambda: (
            f"Its support spans {covered:.3f} of the session; "
            f"{VENERABLE_COVERAGE.value:g} is needed."
        ),
    )


def check_radius(radius: int) -> Check:
    return _checked(
        Gate.BLAST_RADIUS,
        radius,
        CANONICAL_RADIUS,
        lambda: (
            f"{_count(radius, 'concept')} {'rests' if radius == 1 else 'rest'} on it; "
            f"more than {CANONICAL_RADIUS.value:g} are needed."
        ),
    )


def check_agents(agents: int, bar: Bar, *, reciprocal: str | None) -> Check:
    """`agents` that count; `reciprocal` names the only one, if it does not count for that reason.

    The measurement is then 0.
    """
    if reciprocal is not None:
        assert agents == 1
        name = in_passing(reciprocal)
        sentence = (
            f"Only {name} holds it up, and its author holds up concepts of {name}; "
            "an agent outside that exchange is needed."
        )
        return _checked(Gate.INDEPENDENT_AGENTS, 0, bar, lambda: sentence)
    return _checked(
        Gate.INDEPENDENT_AGENTS,
        agents,
        bar,
        lambda: (
            f"{_count(agents, 'agent')} with a token old enough, other than its author, "
            f"{'holds' if agents == 1 else 'hold'} it up; {bar.value:g} "
            f"{'is' if bar.value == 1 else 'are'} needed."
        ),
    )


def check_solo_score(score: float, bar: float) -> Check:
    return _checked(
        Gate.SOLO_SCORE,
        score,
        Bar(bar),
        lambda: f"Its score for a single writer is {score:.2f}; {bar:g} is needed.",
    )


def is_cooling(last_demotion_time: Micros | None, cooldown: Micros, now: Micros) -> bool:
    """Whether a demotion is too recent; at exactly the cooldown it no longer is.

    A demotion in the future, as a clock set back leaves it, is recent.
    """
    return last_demotion_time is not None and now - last_demotion_time < cooldown


def check_cooldown(last_demotion_time: Micros | None, cooldown: Micros, now: Micros) -> Check:
    cooling = is_cooling(last_demotion_time, cooldown, now)
    if last_demotion_time is None:
        return Check(Gate.COOLDOWN, None, cooldown / SECOND, is_met=True)
    until = format_rfc3339(last_demotion_time + cooldown)
    sentence = f"It was demoted a short while ago and may rise again from {until}."
    return Check(
        Gate.COOLDOWN,
        (now - last_demotion_time) / SECOND,
        cooldown / SECOND,
        is_met=not cooling,
        sentence=sentence if cooling else None,
    )


def check_budget(canonical_count: int, canonical_max: int) -> Check:
    """Room for one canonical memory more."""
    has_room = canonical_count < canonical_max
    sentence = f"The session has {canonical_count} canonical memories; {canonical_max} are allowed."
    return Check(
        Gate.CANONICAL_BUDGET,
        canonical_count,
        canonical_max,
        is_met=has_room,
        sentence=None if has_room else sentence,
    )


def check_held(by: NodeId | None) -> Check:
    """`by` is a contradictor that would take the status away at once."""
    sentence = f"The concept {by} contradicts it with newer evidence and would supersede it."
    return Check(
        Gate.HELD,
        None,
        None,
        is_met=by is None,
        sentence=None if by is None else sentence,
        subject=by,
    )


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
