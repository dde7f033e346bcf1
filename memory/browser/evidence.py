"""What an audit row's `detail` says, in plain sentences.

Owns the wording for people, the same for a row and for how a concept stands now. Nothing is
measured here, and a gate this version does not know is shown with its numbers all the same. A row
a foreign hand was at, or one of an earlier version, is shown as far as it can be read.

Invariant: every entry of `checks` in the row is one sentence here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Detail = Mapping[str, Any]
Sentence = Callable[[Any, Any], str]


def _whole(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _count(value: Any, noun: str) -> str:
    return f"{_whole(value)} {noun}{'' if value == 1 else 's'}"


def _since_demotion(measured: Any, bar: Any) -> str:
    if measured is None:
        return "It was never demoted."
    return (
        f"Its last demotion is {_count(round(measured), 'second')} ago; "
        f"it may rise again after {_whole(bar)}."
    )


_SENTENCES: Final[Mapping[str, Sentence]] = {
    "gc_survived": lambda measured, bar: (
        f"It has outlived {_count(measured, 'sweep')} of garbage collection; "
        f"{_whole(bar)} are needed."
    ),
    "distinct_interactions": lambda measured, bar: (
        f"What rests on it comes from {_count(measured, 'other interaction')}; "
        f"{_whole(bar)} are needed."
    ),
    "coverage": lambda measured, bar: (
        f"Its support spans {measured:.3f} of the session; {_whole(bar)} is needed."
    ),
    "blast_radius": lambda measured, bar: (
        f"{_count(measured, 'concept')} {'rests' if measured == 1 else 'rest'} on it; "
        f"more than {_whole(bar)} are needed."
    ),
    "cooldown": _since_demotion,
    "independent_agents": lambda measured, bar: (
        f"{_count(measured, 'agent')} other than its author "
        f"{'holds' if measured == 1 else 'hold'} it up; at least {_whole(bar)} must."
    ),
    "solo_score": lambda measured, bar: (
        f"Its score for a single writer is {measured:.2f}; {_whole(bar)} is needed."
    ),
    "canonical_budget": lambda measured, bar: (
        f"The session has {_count(measured, 'canonical concept')}; {_whole(bar)} are allowed."
    ),
    "held": lambda _measured, _bar: "No concept that contradicts it would take its place at once.",
}


@dataclass(frozen=True, slots=True)
class ReadCheck:
    """One gate as the row keeps it. `subject` is a concept it names."""

    gate: str
    is_met: bool
    sentence: str
    measured: Any
    bar: Any
    subject: str | None


@dataclass(frozen=True, slots=True)
class ReadSupport:
    """One dependent that counted."""

    dependent: str
    agent_id: str
    interaction: str
    is_distinct: bool


@dataclass(frozen=True, slots=True)
class ReadEvidence:
    """The evidence of a row. `others` are (name, value) of everything that has no place above."""

    policy: str | None
    checks: tuple[ReadCheck, ...]
    supports: tuple[ReadSupport, ...]
    support_count: int
    others: tuple[tuple[str, str], ...]

    @property
    def left_out(self) -> int:
        """Dependents that counted and are not listed in the row."""
        return max(self.support_count - len(self.supports), 0)


def read_detail(text: str | None) -> ReadEvidence | None:
    """The evidence in a row's `detail`; None where there is none that can be read."""
    if text is None:
        return None
    try:
        detail = json.loads(text)
    except ValueError:
        return None
    if not isinstance(detail, dict):
        return None
    checks = read_checks(detail.pop("checks", ()))
    supports = tuple(_support(one) for one in _records(detail.pop("supports", ())))
    policy, count = detail.pop("policy", None), detail.pop("support_count", len(supports))
    return ReadEvidence(
        policy=None if policy is None else str(policy),
        checks=checks,
        supports=supports,
        support_count=count if isinstance(count, int) else len(supports),
        others=tuple((name.replace("_", " "), _shown(value)) for name, value in detail.items()),
    )


def read_checks(wire: Any) -> tuple[ReadCheck, ...]:
    """Gates as they go over the wire, each with its sentence; none for what is no list."""
    return tuple(_check(one) for one in _records(wire))


def _records(value: Any) -> list[Detail]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _check(wire: Detail) -> ReadCheck:
    gate, measured, bar = str(wire.get("gate")), wire.get("measured"), wire.get("bar")
    subject = wire.get("subject")
    return ReadCheck(
        gate=gate,
        is_met=wire.get("met") is True,
        sentence=str(wire.get("sentence") or _sentence(gate, measured, bar)),
        measured=measured,
        bar=bar,
        subject=None if subject is None else str(subject),
    )


def _sentence(gate: str, measured: Any, bar: Any) -> str:
    write = _SENTENCES.get(gate)
    numbers = f"{gate.replace('_', ' ')}: measured {measured}, bar {bar}."
    if write is None:
        return numbers
    try:
        return write(measured, bar)
    except (TypeError, ValueError):  # a foreign hand: no number where one belongs
        return numbers


def _support(wire: Detail) -> ReadSupport:
    return ReadSupport(
        dependent=str(wire.get("dependent")),
        agent_id=str(wire.get("agent_id")),
        interaction=str(wire.get("interaction")),
        is_distinct=wire.get("is_distinct") is True,
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_shown(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(_shown(part) for part in value) or "none"
    return "none" if value is None else str(value)
