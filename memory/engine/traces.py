"""Where else a text may stand, and how it is blanked there.

A statement leaves traces beside its concept: in prompts, answers, labels of neighbours, words of
people; often cut, and often spelt otherwise. Owns what counts as the text (`Needles`) and what is
put in its place. Searches nothing itself: stores and the graph bring their texts here, so that all
of them blank alike.

A string is a trace if it holds the text (its start, where that is longer than what is shown of it)
when both are compared without case, Unicode form, invisible characters, the width of white space,
line breaks and backslashes; or if the string as a whole has the text's canonical key.

Invariant: a text is blanked whole, never in part, and blanking twice changes nothing more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeGuard

from memory.engine.content_order import fold
from memory.engine.showing import LINE_BREAK_MARK, one_line
from memory.engine.text import index_tokens, strip_invisible
from memory.engine.types import AuditEntry, Json

BLANK: Final = "[purged]"
"""What stands in place of a blanked text where there has to be one."""

_CUT_CHARACTERS: Final = 79
"""Every cut of a longer text that is shown or stored keeps at least so much of its start."""
_STRETCH: Final = 256
_RUN: Final = re.compile(r"[^\W_]+")
_STEM_ENDING: Final = 2
"""Characters at the end of a stem that the word itself may not have."""


class Needles(NamedTuple):
    """How a text is recognised. `content` is the text itself.

    `starts` are folded strings of which a trace holds one; `key` is the sorted stems of the whole
    text. `probes` are runs of letters of which every trace, folded, holds at least one; empty where
    the text has none.
    """

    content: str
    starts: tuple[str, ...]
    key: tuple[str, ...]
    probes: tuple[str, ...]


def needles_of(content: str, *, is_cut: bool = True) -> Needles:
    """How a content is recognised wherever it is written; without `is_cut` only as a whole."""
    if is_cut:
        collapsed = _head(" ".join(content.split()))
        # What is quoted for people is written as Python does it: what cannot be seen is escaped.
        forms = [_head(content), collapsed, _head(one_line(content)), repr(collapsed)[1:-1]]
    else:
        forms = [content]
    spelt = dict.fromkeys(map(spelling, forms))
    # Of nothing but marks there is no spelling: told only to the letter.
    starts = tuple(start for start in spelt if start) or (content,)
    key = tuple(sorted(index_tokens(content)))
    probes = {_longest_run(start) for start in starts}
    if key:
        stem = max(key, key=len)
        probes.add(_longest_run(fold(stem[: max(1, len(stem) - _STEM_ENDING)])))
    return Needles(content, starts, key, () if "" in probes else tuple(sorted(probes)))


def spelling(text: str) -> str:
    """`text` as spellings of it are compared: see the module."""
    if not text.isascii():
        text = strip_invisible(text).replace(LINE_BREAK_MARK.strip(), " ")
    return " ".join(fold(text.replace("\\", "")).split())


def is_same(text: str, needles: Needles) -> bool:
    """Whether a text is but another spelling of the content."""
    return may_hold(text, needles) and (
        text == needles.content
        or "" != spelling(text) == spelling(needles.content)
        or _has_key(text, needles.key)
    )


def may_hold(text: str, needles: Needles) -> bool:
    """Whether any string within a text may be a trace; false is certain, and cheap to tell.

    The text may be JSON, or several joined by a sign of no word.
    """
    if not needles.probes:
        return True
    shown = text if text.isascii() else strip_invisible(text)
    folded = fold(shown.replace("\\", ""))
    return any(probe in folded for probe in needles.probes)


def holds(text: str | None, needles: Needles) -> TypeGuard[str]:
    """Whether a text is a trace."""
    if text is None or not may_hold(text, needles):
        return False
    spelt = spelling(text)
    # A text of nothing but marks has only itself to be told by.
    return any(start in spelt or start in text for start in needles.starts) or _has_key(
        text, needles.key
    )


def places(texts: Sequence[str], needles: Needles) -> list[int]:
    """Where in a sequence the traces stand, in order.

    Whole stretches are searched before their texts are: one by one, a hundred thousand short texts
    take several times as long.
    """
    found: list[int] = []
    for low in range(0, len(texts), _STRETCH):
        stretch = texts[low : low + _STRETCH]
        if may_hold("\0".join(stretch), needles):  # which stands in no text
            found += [low + at for at, text in enumerate(stretch) if holds(text, needles)]
    return found


def blanked(value: Json, needles: Needles) -> Json:
    """A JSON value with `BLANK` for each string that is a trace; the names of objects stay."""
    if isinstance(value, str):
        return BLANK if holds(value, needles) else value
    if isinstance(value, list | tuple):
        return [blanked(item, needles) for item in value]
    if isinstance(value, dict):
        return {name: blanked(item, needles) for name, item in value.items()}
    return value


def blanked_entry(
    entry: AuditEntry, needles: Needles, concept_ids: frozenset[str] | tuple[str, ...]
) -> AuditEntry:
    """An audit entry as a purge leaves it.

    What was written of the concepts themselves goes, and with them every earlier concept of the
    same text, however spelt. Of the removal of another concept only the labels of its neighbours
    are looked at: its own content is not what was purged.
    """
    reason = None if holds(entry.reason, needles) else entry.reason
    content = removed_content(entry)
    if entry.node_id in concept_ids or (content is not None and is_same(content, needles)):
        return entry._replace(reason=reason, texts=None, removed=None)
    if content is None:
        return entry._replace(reason=reason, texts=blanked(entry.texts, needles))
    removed = entry.removed
    if isinstance(removed, dict):
        removed = {**removed, "names": blanked(removed.get("names"), needles)}
    return entry._replace(reason=reason, removed=removed)


def removed_content(entry: AuditEntry) -> str | None:
    """What a removed concept said, as its audit row keeps it; None where that was purged."""
    content = entry.texts.get("content") if isinstance(entry.texts, dict) else None
    return content if isinstance(content, str) else None


def _head(text: str) -> str:
    """What every cut of a text begins with."""
    if len(text) <= _CUT_CHARACTERS:
        return text
    # The last sign may be a part of what it is with the next: an accent, or what one stands on.
    head = unicodedata.normalize("NFC", text[:_CUT_CHARACTERS])
    while head and unicodedata.combining(head[-1]):
        head = head[:-1]
    return head[:-1]


def _longest_run(text: str) -> str:
    """The longest run of letters and digits."""
    return max(_RUN.findall(text), key=len, default="")


def _has_key(text: str, key: tuple[str, ...]) -> bool:
    """Whether a text as a whole has a canonical key."""
    if not key:
        return False
    # Most texts show in their first words that they have another one.
    head = text[:_CUT_CHARACTERS].rpartition(" ")[0]
    known = frozenset(key)
    if any(stem not in known for stem in index_tokens(head)):
        return False
    return tuple(sorted(index_tokens(text))) == key
