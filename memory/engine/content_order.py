"""The contents of a session in alphabetical order: which of them a text begins with.

Owns each content as it is compared (`fold`), sorted, and the rows that hold it. Knows no ids and no
types. It is what lets a question name a concept without looking at all of them.

Invariant: what is found depends on the contents held, not on the order of their arrival.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Final

_SORTED_AT_ONCE: Final = 4_096


def fold(text: str) -> str:
    """`text` without its case; composed, so that both forms of an accent are equal."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


class ContentOrder:
    """Folded contents, sorted, with their rows."""

    def __init__(self) -> None:
        self._sorted: list[str] = []
        self._rows: dict[str, list[int]] = {}

    def __len__(self) -> int:
        """How many different contents there are."""
        return len(self._sorted)

    def add(self, row: int, content: str) -> None:
        """Note the content of a row. Moves references, 8 bytes for each content behind it."""
        folded = fold(content)
        rows = self._rows.get(folded)
        if rows is None:
            insort(self._sorted, folded)
            rows = self._rows[folded] = []
        rows.append(row)

    def remove(self, row: int, content: str) -> None:
        """Forget the content of a row that was noted."""
        folded = fold(content)
        rows = self._rows[folded]
        rows.remove(row)
        if not rows:
            del self._rows[folded]
            del self._sorted[bisect_left(self._sorted, folded)]

    def extend(self, rows: Sequence[int], contents: Sequence[str]) -> None:
        """Note many at once, in steps that let other threads run."""
        fresh: list[str] = []
        for row, content in zip(rows, contents, strict=True):
            folded = fold(content)
            held = self._rows.get(folded)
            if held is None:
                fresh.append(folded)
                held = self._rows[folded] = []
            held.append(row)
        runs = [self._sorted] if self._sorted else []
        runs += [
            sorted(fresh[low : low + _SORTED_AT_ONCE])
            for low in range(0, len(fresh), _SORTED_AT_ONCE)
        ]
        while len(runs) > 1:
            # Two sorted runs, one after the other, are what `sorted` is fastest at.
            runs = [sorted(chain) for chain in map(_joined, runs[::2], [*runs[1::2], []])]
        self._sorted = runs[0] if runs else []

    def beginnings(self, folded_text: str) -> Iterator[str]:
        """The contents that a folded text begins with, longest first."""
        wanted, high = folded_text, len(self._sorted)
        while wanted and high:
            high = bisect_right(self._sorted, wanted, 0, high)
            if not high:
                return
            nearest = self._sorted[high - 1]
            shared = _shared_prefix(nearest, wanted)
            if shared == len(nearest):
                yield nearest
                high -= 1
            else:
                # Whatever sorts before it and is a beginning is no longer than what they share.
                wanted = wanted[:shared]

    def rows_of(self, folded_content: str) -> Sequence[int]:
        """The rows that hold a content."""
        return self._rows.get(folded_content, ())


def _joined(left: list[str], right: list[str]) -> list[str]:
    return left + right


def _shared_prefix(left: str, right: str) -> int:
    """How many characters two texts begin with in common."""
    if right.startswith(left):
        return len(left)
    low, high = 0, min(len(left), len(right))
    while low < high:  # the first `low` agree, the first `high + 1` do not
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
