"""The ways people ask what rests on a thing, before they change it or because they want to know.

Owns the phrases, in English, and where each one names the thing: most name it somewhere after their
words, the weaker ones right after them, since otherwise they are about something else. Knows no
concept; whether the text there names one, and whether anything rests on it, is not decided here.

Invariant: a phrase is found by its words alone, in folded text, whatever spaces lie between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_CHANGE: Final = (
    r"(?:delet|remov|dropp?|renam|chang|modif|edit|touch|replac|rewrit|refactor|retir|deprecat|migrat"
    r"|disabl|break|alter|mov|kill|purg|decommission|upgrad|updat|merg|archiv)"
    r"(?:e|ing|ed|y|ying|s)?"
    r"|get(?:ting)?\s+rid\s+of|tak(?:e|ing)\s+out|turn(?:ing)?\s+off|switch(?:ing)?\s+off"
    r"|shut(?:ting)?\s+down|throw(?:ing)?\s+away"
)
_WHO: Final = (
    r"(?:what|who|which(?:\s+[\w-]+){0,3}?|any(?:thing|one|body|\s+[\w-]+)"
    r"|every(?:thing|one|\s+[\w-]+)|all\s+that|things?\s+that|list\s+what)"
    r"(?:\s+(?:else|all|still|currently|now|directly|actually|is|are|would|will))*"
)
_NOT_ASKING_HOW: Final = (
    r"(?<!\bhow\s)(?<!\bwhy\s)(?<!\bwhen\s)(?<!\bwhere\s)(?<!\bwhat\s)(?<!\bwhich\s)(?<!\bwho\s)"
)

_AFTER: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<!\bit\s)\bdepend(?:s|ing|ent|ant)?(?:\s+|-)(?:up)?on\b",
        r"\bdepend[ea]nts\s+(?:of|on)\b",
        r"\bblast\s+radius\b(?:\s+of\b)?",
        r"\bwhat\s+uses\b",
        r"\bdownstream\s+(?:of|from)\b",
        rf"\b{_WHO}\s+(?:re(?:ly|lies|lying)\s+(?:up)?on|rests?\s+(?:up)?on"
        r"|(?:builds?|built)\s+(?:up)?on|hangs?\s+(?:on|off|from))\b",
        rf"\b(?:safe|ok|okay|fine|risky|dangerous|harmless|harmful)\s+(?:for\s+\w+\s+)?"
        rf"(?:to|if\s+(?:i|we))\s+(?:{_CHANGE})\b",
        r"\bwhat(?:\s+(?:all|else))?\s+(?:breaks|fails|(?:will|would|could|might|may|can|does)\s+"
        r"(?:i\s+|we\s+)?(?:break|fail|stop\s+working|go\s+wrong|suffer|be\s+affected))\b"
        r"(?=.{0,80}\b(?:if|when|without|once|after|by|should)\b)",
        rf"\bwhat\s+(?:happens|(?:will|would|could|might)\s+happen)\s+(?:to\s+.{{1,60}}?\s+)?"
        rf"(?:if|when|once|should)\b(?=.{{0,120}}\b(?:{_CHANGE}|goes\s+(?:away|down)|is\s+gone"
        r"|disappears?|fails|goes\s+missing)\b)",
        r"\b(?:what|who|which(?:\s+[\w-]+){0,3}?)\s+(?:else\s+)?(?:is|are|gets?|would\s+be"
        r"|will\s+be)\s+(?:affected|hit|impacted|broken)\s+(?:by|if|when)\b",
        rf"\b(?:impact|effects?|consequences?|implications?|fallout|risks?|danger)\s+(?:of|in)\s+"
        rf"(?:{_CHANGE})\b",
    )
)
"""These name the thing somewhere after their words, or before, when a pronoun stands for it."""

_RIGHT_AFTER: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_WHO}\s+(?:uses?|using|needs?|needing|requires?|requiring|calls?|calling|imports?"
        r"|importing|consumes?|references?|referencing)\b",
        r"\b(?:callers|consumers|importers|usages?|dependencies)\s+(?:of|on)\b",
        rf"{_NOT_ASKING_HOW}\b(?:can|could|may|should|shall|dare)\s+(?:i|we)\s+"
        rf"(?:(?:safely|just|simply|now|still|really|already)\s+)*(?:{_CHANGE})\b",
        rf"\b(?:before|if)\s+(?:i|we)\s+(?:(?:safely|just|simply|now|really)\s+)*(?:{_CHANGE})\b",
        r"\b(?:is|are)\b(?=.{1,80}\b(?:used|needed|referenced)\s+(?:by|anywhere|elsewhere)\b)",
        r"\bwhere\s+(?:is|are)\b(?=.{1,80}\b(?:used|needed|referenced)\b)",
    )
)
"""These name the thing right after their words, but for an article or a quotation mark."""

_FILLER: Final = re.compile(
    r"[^\w.]*(?:(?:the|a|an|our|my|your|their|its|this|that|these|those|old|new|existing|current"
    r"|whole|entire)\b[^\w.]*)*"
)
_PRONOUN: Final = re.compile(r"\W*(?:it|this|that|these|those|them|him|her)\b")
# "What does it depend on?" asks for the other direction. Whatever is looked for ahead or behind is
# bounded: a query may be 16 KB of anything.
_OTHER_WAY: Final = re.compile(r"\b(?:do|does|did)\b.{0,200}\bdepend\s+(?:up)?on\W*$")
_TAIL_CHARS: Final = 256
_END_CHARS: Final = 2_048
_WORD: Final = re.compile(r"\w")


class Phrase(NamedTuple):
    """Where a question stands in the text, and where it names what it is about.

    The name begins at `low` or later, and at `high` at the latest.
    """

    at: int
    low: int
    high: int


def find_phrases(folded: str) -> Iterator[Phrase]:
    """Each way in which a folded text asks what rests on something, the surer ones first."""
    if _OTHER_WAY.search(folded[-_TAIL_CHARS:]):
        return
    for pattern in _AFTER:
        for match in _matches(pattern, folded):
            yield _after(folded, match)
    for pattern in _RIGHT_AFTER:
        for match in _matches(pattern, folded):
            filler = _FILLER.match(folded, match.end())
            assert filler is not None  # it matches nothing as well
            yield Phrase(match.start(), match.end(), filler.end())


def _matches(pattern: re.Pattern[str], folded: str) -> Iterator[re.Match[str]]:
    """In a long text, only near its ends: that is where it asks."""
    if len(folded) <= 2 * _END_CHARS:
        yield from pattern.finditer(folded)
        return
    yield from pattern.finditer(folded, 0, _END_CHARS)
    yield from pattern.finditer(folded, len(folded) - _END_CHARS)


def _after(folded: str, match: re.Match[str]) -> Phrase:
    end = match.end()
    is_said_before = _PRONOUN.match(folded, end) or not _WORD.search(folded, end)
    return Phrase(match.start(), 0 if is_said_before else end, len(folded))
