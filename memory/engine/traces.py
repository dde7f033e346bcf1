"""Where else a text may stand, and how it is blanked there.

A statement leaves traces beside its concept: in prompts, answers, labels of neighbours, words of
people; often cut. Owns how a trace is recognised and what is put in its place. Searches nothing
itself: stores and the graph bring their texts here, so that all of them blank alike.

Invariant: a text is blanked whole, never in part, and blanking twice changes nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

from memory.engine.showing import one_line
from memory.engine.types import AuditEntry, Json

BLANK: Final = "[purged]"
"""What stands in place of a blanked text where there has to be one."""

_CUT_CHARACTERS: Final = 79
"""Every cut of a longer text that is shown or stored keeps at least so much of its start."""
_STRETCH: Final = 256


def needles_of(content: str) -> tuple[str, ...]:
    """The strings of which one stands wherever a content is written, however it was cut.

    Its start as it is, with its spaces collapsed, and with its line breaks shown as marks.
    """
    forms = (content, " ".join(content.split()), one_line(content))
    return tuple(dict.fromkeys(form[:_CUT_CHARACTERS] for form in forms))


def holds(text: str | None, needles: tuple[str, ...]) -> TypeGuard[str]:
    """Whether a text holds one of the needles."""
    return text is not None and any(needle in text for needle in needles)


def places(texts: Sequence[str], needles: tuple[str, ...]) -> list[int]:
    """Where in a sequence the texts stand that hold a needle, in order.

    Whole stretches are searched before their texts are: one by one, a hundred thousand short texts
    take five times as long, and a purge has every caller wait for it.
    """
    found: list[int] = []
    for low in range(0, len(texts), _STRETCH):
        stretch = texts[low : low + _STRETCH]
        joined = "\0".join(stretch)  # which stands in no text: no needle is found across two
        if any(needle in joined for needle in needles):
            found += [low + at for at, text in enumerate(stretch) if holds(text, needles)]
    return found


def blanked(value: Json, needles: tuple[str, ...]) -> Json:
    """A JSON value with `BLANK` for each string that holds a needle; the names of objects stay."""
    if isinstance(value, str):
        return BLANK if holds(value, needles) else value
    if isinstance(value, list | tuple):
        return [blanked(item, needles) for item in value]
    if isinstance(value, dict):
        return {name: blanked(item, needles) for name, item in value.items()}
    return value


def blanked_entry(
    entry: AuditEntry, content: str, concept_ids: frozenset[str] | tuple[str, ...]
) -> AuditEntry:
    """An audit entry as a purge leaves it.

    What was written of the concepts themselves goes, and with them every earlier concept of the
    very same content. In the removed state of another concept only the labels of its neighbours are
    looked at: its own content is not what was purged.
    """
    needles = needles_of(content)
    is_own = entry.node_id in concept_ids
    return entry._replace(
        reason=None if holds(entry.reason, needles) else entry.reason,
        texts=None if is_own else blanked(entry.texts, needles),
        removed=None if is_own else _blanked_removed(entry.removed, content, needles),
    )


def _blanked_removed(removed: Json, content: str, needles: tuple[str, ...]) -> Json:
    if not isinstance(removed, dict):
        return removed
    concept = removed.get("concept")
    if isinstance(concept, dict) and concept.get("content") == content:
        return None
    return {**removed, "names": blanked(removed.get("names"), needles)}
