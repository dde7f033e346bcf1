"""May an agent do this? An action's words, held against what is known: allow, warn or block.

Owns which concepts an action names, and what speaks against touching them: others rest on one, an
agent has reserved one, one is contradicted. Whether a contradiction stands is handed in; what the
words do is `intent`'s. Enforces nothing: whoever asks acts on the answer.

Invariant: an action that names no concept is allowed, one that only reads is never blocked, and a
decision is the strictest of its findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from memory.engine.graph import Graph
from memory.engine.requests import GuardRequest
from memory.engine.reservations import is_active
from memory.engine.showing import in_passing, one_line
from memory.engine.text import word_stems
from memory.engine.times import Micros, format_rfc3339_seconds
from memory.engine.types import NodeId, Status
from recall.engine.beliefs import NO_BELIEFS, Beliefs
from recall.engine.intent import (
    Clause,
    Intent,
    begins_as_act,
    intent_of,
    split_clauses,
)

WORDS_MAX: Final = 2_048
"""Words of an action that are looked at, the first ones."""
NAME_CHARS_MAX: Final = 256
"""A longer content is a text, and names nothing."""
CANDIDATES_MAX: Final = 256
"""Concepts that share a word with the action and are compared word by word, the nearest ones."""
FINDINGS_MAX: Final = 20
DEPENDENTS_NAMED_MAX: Final = 10
"""Concepts named in one finding; their whole number is always told."""
LONE_WORD_CHARS_MIN: Final = 3
"""A shorter word alone names nothing: it would be met in every command line."""


class Decision(StrEnum):
    """What the asker is told; a later one is stricter."""

    ALLOW = "allow"
    WARN = "warn"
    BLOCK = "block"


_STRICTNESS: Final = {decision: place for place, decision in enumerate(Decision)}


class FindingKind(StrEnum):
    """What speaks against it."""

    DEPENDENTS = "dependents"
    RESERVATION = "reservation"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason. `line` is a sentence on one line; `dependents` are contents, cut."""

    decision: Decision
    kind: FindingKind
    node_id: NodeId
    content: str
    line: str
    dependents: tuple[str, ...] = ()
    dependent_count: int = 0

    def as_wire(self) -> dict[str, Any]:
        return {
            "decision": str(self.decision),
            "kind": str(self.kind),
            "node_id": self.node_id,
            "content": self.content,
            "line": self.line,
            "dependents": list(self.dependents),
            "dependent_count": self.dependent_count,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision and its findings, the strictest first; `named` counts the concepts named."""

    decision: Decision
    findings: tuple[Finding, ...]
    named: int

    @property
    def reason(self) -> str:
        """The strictest finding in one sentence."""
        if self.findings:
            return self.findings[0].line
        if self.named:
            return "nothing that is remembered speaks against it"
        return "it names nothing that is remembered"

    @property
    def text(self) -> str:
        """The decision on the first line, then every finding."""
        head = f"{self.decision}: {self.reason}"
        return "\n".join([head, *(f"{one.decision}: {one.line}" for one in self.findings[1:])])

    def as_wire(self) -> dict[str, Any]:
        return {
            "decision": str(self.decision),
            "reason": self.reason,
            "findings": [one.as_wire() for one in self.findings],
            "named": self.named,
            "warnings": [],
        }


def guard(
    graph: Graph,
    request: GuardRequest,
    *,
    agent_id: str,
    now: Micros,
    beliefs: Beliefs = NO_BELIEFS,
) -> Verdict:
    """What speaks against an action of `agent_id` at `now`."""
    intents = find_named(graph, request.action)
    contradicted = beliefs.contradictors(list(intents))
    findings: list[Finding] = []
    for row, intent in intents.items():
        found = [
            _of_dependents(graph, row, intent),
            _of_reservation(graph, row, intent, agent_id=agent_id, now=now),
            _of_contradiction(graph, row, intent, by=contradicted.get(row)),
        ]
        findings += [one for one in found if one is not None]
    findings.sort(
        key=lambda one: (-_STRICTNESS[one.decision], -one.dependent_count, one.content, one.kind)
    )
    decision = findings[0].decision if findings else Decision.ALLOW
    return Verdict(decision, tuple(findings[:FINDINGS_MAX]), len(intents))


# -- what an action names --------------------------------------------------------------------------


class _Mention(NamedTuple):
    """A name met in a clause: its row, and the places of its first word and behind its last."""

    row: int
    start: int
    stop: int
    is_act: bool


def find_named(graph: Graph, action: str) -> dict[int, Intent]:
    """The rows of the concepts that an action names, and the most it does to each.

    A concept is named where all its words stand side by side, in any order and any spelling that
    has the same stems: `aws_security_group.shared` names "shared security group".
    """
    clauses = list(_first_words(split_clauses(action)))
    names = _candidates(graph, clauses)
    intents: dict[int, Intent] = {}
    for clause in clauses:
        mentions = _without_parts(_mentions(clause, names))
        leads = begins_as_act(clause.words)
        # The word of an act inside a name is no act ("read the delete handler"), unless nothing
        # but the name says what is done ("drop the users table", recorded before).
        inside = [one for one in mentions if leads or not one.is_act]
        named = frozenset(place for one in inside for place in range(one.start, one.stop))
        intent = intent_of(clause, named=named)
        for one in mentions:
            intents[one.row] = max(intent, intents.get(one.row, Intent.READ))
    return intents


def _candidates(graph: Graph, clauses: Sequence[Clause]) -> dict[int, tuple[str, ...]]:
    """Concepts that may be named, by row, with the words of their contents."""
    words = list(dict.fromkeys(word for clause in clauses for word in clause.words))
    found = graph.index.search(words, CANDIDATES_MAX, tie_key=graph.id_at, with_parts=True)
    spoken = set(words)
    contents = ((row, graph.content_at(row)) for row, _score in found)
    names = {row: word_stems(text) for row, text in contents if len(text) <= NAME_CHARS_MAX}
    return {row: name for row, name in names.items() if _is_name(name) and spoken.issuperset(name)}


def _first_words(clauses: Iterable[Clause]) -> Iterator[Clause]:
    """The clauses up to `WORDS_MAX` words together; the last one is cut."""
    left = WORDS_MAX
    for clause in clauses:
        if left <= 0:
            return
        yield clause if len(clause.words) <= left else Clause(clause.text, clause.words[:left])
        left -= len(clause.words)


def _is_name(words: tuple[str, ...]) -> bool:
    return len(words) > 1 or (bool(words) and len(words[0]) >= LONE_WORD_CHARS_MIN)


def _mentions(clause: Clause, names: Mapping[int, tuple[str, ...]]) -> list[_Mention]:
    places: dict[str, list[int]] = {}
    for place, word in enumerate(clause.words):
        places.setdefault(word, []).append(place)
    found = []
    for row, name in names.items():
        wanted, size = Counter(name), len(name)
        # Around the word that is met least often.
        around = min((places.get(word, []) for word in wanted), key=len)
        starts = {at - back for at in around for back in range(size) if at >= back}
        for start in sorted(starts):
            if Counter(clause.words[start : start + size]) == wanted:
                found.append(_Mention(row, start, start + size, begins_as_act(name)))
    return found


def _without_parts(mentions: Sequence[_Mention]) -> list[_Mention]:
    """Without names that are only a part of a longer one: who removes a "user schema test" leaves
    the "user schema" alone. What an act is about counts beside the act."""

    def is_part(one: _Mention) -> bool:
        return any(
            not other.is_act
            and other.start <= one.start
            and one.stop <= other.stop
            and other.stop - other.start > one.stop - one.start
            for other in mentions
        )

    return [one for one in mentions if not is_part(one)]


# -- what speaks against it ------------------------------------------------------------------------


def _of_dependents(graph: Graph, row: int, intent: Intent) -> Finding | None:
    count = graph.blast_radius(row)
    if not count or intent is Intent.READ:
        return None
    contents = (graph.content_at(dependent) for dependent in graph.dependents(row))
    named = tuple(map(in_passing, nsmallest(DEPENDENTS_NAMED_MAX, contents)))
    rest = f" and {count - len(named)} more" if count > len(named) else ""
    them = f"{count} concept{'' if count == 1 else 's'}"
    standing = " canonical" if graph.status_at(row) is Status.CANONICAL else ""
    listed = _listed(named) + rest
    if intent is Intent.REMOVE:
        line = f"without the{standing} {_quoted(graph, row)}, {them} would be stranded: {listed}"
    else:
        rest_on = "rests" if count == 1 else "rest"
        line = f"{them} {rest_on} on the{standing} {_quoted(graph, row)}: {listed}"
    return Finding(
        Decision.BLOCK if intent is Intent.REMOVE else Decision.WARN,
        FindingKind.DEPENDENTS,
        graph.id_at(row),
        in_passing(graph.content_at(row)),
        line,
        named,
        count,
    )


def _of_reservation(
    graph: Graph, row: int, intent: Intent, *, agent_id: str, now: Micros
) -> Finding | None:
    held = graph.reservation(graph.id_at(row))
    if held is None or not is_active(held, now) or held.agent_id == agent_id:
        return None
    until = format_rfc3339_seconds(held.expires_at)
    return Finding(
        Decision.WARN if intent is Intent.READ else Decision.BLOCK,
        FindingKind.RESERVATION,
        graph.id_at(row),
        in_passing(graph.content_at(row)),
        f"{_quoted(graph, row)} is reserved by {one_line(held.agent_id)} until {until}",
    )


def _of_contradiction(graph: Graph, row: int, intent: Intent, *, by: int | None) -> Finding | None:
    if by is None or intent is Intent.READ:
        return None
    return Finding(
        Decision.WARN,
        FindingKind.CONTRADICTION,
        graph.id_at(row),
        in_passing(graph.content_at(row)),
        f"{_quoted(graph, row)} is contradicted by {_quoted(graph, by)}",
    )


def _quoted(graph: Graph, row: int) -> str:
    return f"'{in_passing(graph.content_at(row))}'"


def _listed(contents: Iterable[str]) -> str:
    return ", ".join(contents)
