"""Stored text as it is shown: on one line, and no longer than its place allows.

Recalled text is data. A line break inside it is shown as a mark, so that no content can forge a
line of an answer; and what is shown only in passing is cut, so that no answer is unbounded.
"""

from __future__ import annotations

import re
from typing import Final

from memory.engine.limits import SHOWN_CHARACTERS
from memory.engine.types import Status

LINE_BREAK_MARK: Final = " ⏎ "

# Everything `str.splitlines` breaks at, and so everything a reader's editor or terminal may.
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")


def one_line(text: str) -> str:
    """`text` with each of its line breaks shown as a mark."""
    return _LINE_BREAK.sub(LINE_BREAK_MARK, text)


def cut(text: str) -> str:
    """The start of a text as stored, with `…` where it was cut."""
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def in_passing(text: str) -> str:
    """The start of a text, on one line."""
    return one_line(cut(text))


def shown_status(status: Status) -> str:
    """A status in a sentence; the lowest has a name that reads like a slip there."""
    return "no status" if status is Status.NONE else status.value
