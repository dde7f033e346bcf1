"""The keyword index of a session, with long documents taken in a little later.

Owns the line of documents that are held and not yet indexed. A legal write may bring a megabyte of
text, whose words take a tenth of a second to file, and the step that applies it must not. Whoever
has time calls `settle_some`; whoever searches finds everything all the same, for `search` settles
the rest first. Knows no clock and no loop.

Invariant: every call answers as an index without a line would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.engine.inverted_index import InvertedIndex

LONG_TOKENS: Final = 200
"""A document of more tokens waits; a shorter one is filed in a fraction of a millisecond."""
WAITING_TOKENS: Final = 1_000_000
"""With more in line than a few of the largest writes bring, documents are filed at once."""
SETTLED_TOKENS: Final = 4_000
"""Filed by one call of `settle_some`, the document that passes it included: some milliseconds."""


class DeferredIndex:
    """An `InvertedIndex`, and what is on its way there."""

    def __init__(self, index: InvertedIndex) -> None:
        self._index = index
        self._waiting: dict[int, Sequence[str]] = {}  # tokens by row, oldest first
        self._waiting_tokens = 0

    def __len__(self) -> int:
        """How many documents are held."""
        return len(self._index) + len(self._waiting)

    def __contains__(self, row: object) -> bool:
        return row in self._waiting or row in self._index

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    @property
    def token_count(self) -> int:
        """Tokens of all documents together, repeats included."""
        return self._index.token_count + self._waiting_tokens

    def add(self, row: int, tokens: Sequence[str]) -> None:
        """As `InvertedIndex.add`."""
        if len(tokens) <= LONG_TOKENS or self._waiting_tokens > WAITING_TOKENS:
            self._index.add(row, tokens)
            return
        if row in self:
            raise ValueError(f"row {row} is indexed already")
        self._waiting[row] = tokens
        self._waiting_tokens += len(tokens)

    def remove(self, row: int) -> None:
        """As `InvertedIndex.remove`."""
        waiting = self._waiting.pop(row, None)
        if waiting is None:
            self._index.remove(row)
        else:
            self._waiting_tokens -= len(waiting)

    def bulk_load(self, rows: Sequence[int], documents: Sequence[Sequence[str]]) -> None:
        """As `InvertedIndex.bulk_load`."""
        self._settle()
        self._index.bulk_load(rows, documents)

    def search(
        self,
        tokens: Sequence[str],
        limit: int,
        *,
        tie_key: Callable[[int], str],
        with_parts: bool = False,
        accepted: NDArray[np.bool_] | None = None,
    ) -> list[tuple[int, float]]:
        """As `InvertedIndex.search`, after everything in line was filed."""
        self._settle()
        return self._index.search(
            tokens, limit, tie_key=tie_key, with_parts=with_parts, accepted=accepted
        )

    def settle_some(self) -> None:
        """File the next documents, `SETTLED_TOKENS` or a little more."""
        most = self._waiting_tokens - SETTLED_TOKENS
        while self._waiting and self._waiting_tokens > most:
            row = next(iter(self._waiting))
            tokens = self._waiting.pop(row)
            self._waiting_tokens -= len(tokens)
            self._index.add(row, tokens)

    def _settle(self) -> None:
        while self._waiting:
            self.settle_some()
