"""Whether one text looks like a later version of another.

Owns that question about two texts, and nothing else: no vectors, no times, no graph. "The service
uses Postgres 14" and "the service uses Postgres 15" do; "Anna owns the service" and "Ben owns the
service" do not, for what comes before the predicate says what the sentence is about.

Invariant: pure, symmetric, linear in the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.engine.lexical_veto import VetoReason

PREDICATE_CUES: Final = frozenset(
    [
        *("is", "are", "was", "were", "be", "has", "have", "had", "=", "equals", "must"),
        *("should", "shall", "will", "can", "may", "needs", "need", "requires", "require"),
        *("uses", "use", "used", "runs", "run", "takes", "take", "keeps", "keep", "stores"),
        *("store", "holds", "hold", "lasts", "last", "allows", "allow", "supports", "support"),
        *("returns", "return", "sends", "send", "reads", "read", "writes", "write", "retries"),
        *("retry", "waits", "wait", "expires", "expire", "listens", "listen", "serves", "serve"),
        *("starts", "start", "stops", "stop", "ends", "end", "costs", "cost", "contains"),
        *("contain", "accepts", "accept", "depends", "depend", "relies", "rely", "defaults"),
        *("belongs", "lives", "live", "deploys", "deploy", "targets", "target", "points"),
        *("point", "limits", "limited", "set", "owned", "based", "hosted", "pinned", "called"),
        *("named", "scheduled", "happens", "happen"),
    ]
)
"""Words behind which a sentence says what it claims of its subject."""

REPLACING_VETOES: Final = frozenset(
    [VetoReason.IDENTIFIERS, VetoReason.VERSIONS, VetoReason.NUMBERS, VetoReason.NAMES]
)
"""Differences in a value; the other vetoes tell of a contrary, or of another thing."""

_OUTER: Final = "\"'`()[]{}<>,;:!?."


def is_new_version(left: str, right: str) -> bool:
    """Whether the texts differ in one span of words alone, and it stands behind a shared cue."""
    ours, theirs = _words(left), _words(right)
    start = _shared(ours, theirs)
    ours, theirs, head = ours[start:], theirs[start:], ours[:start]
    end = _shared(ours[::-1], theirs[::-1])
    span, other = ours[: len(ours) - end], theirs[: len(theirs) - end]
    # A word in both spans would be a stretch in which the texts agree: then there are two spans.
    if not span or not other or not set(span).isdisjoint(other):
        return False
    return not PREDICATE_CUES.isdisjoint(head)


def _words(text: str) -> list[str]:
    words = (word.strip(_OUTER) for word in text.casefold().split())
    return [word for word in words if word]


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    """How many words two sequences begin with in common."""
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return place
    return min(len(left), len(right))
