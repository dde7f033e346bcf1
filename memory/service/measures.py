"""What a server counts of its work, as the service tells it.

Owns the names of what can be counted. Keeps no number and knows no format: whoever serves gives the
service a `Measures` of its own kind; this one forgets everything, for programs that embed the
service and for tests.

Invariant: no text of a memory, no session's name and no agent's name is ever told, so that nothing
of them can be shown, and the number of series is bounded by the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memory.engine.embedding import Embedded, EmbeddingFailure


class Measures:
    """Told by the event loop and by the committer's thread: an implementation bears both."""

    def called(self, verb: str, outcome: str, seconds: float) -> None:
        """A call of a verb ended: `ok`, `accepted`, `cancelled` or the code of its error."""

    def refused(self, code: str) -> None:
        """A call was refused, by its verb or before a verb was known."""

    def committed(self, rows: int, seconds: float) -> None:
        """A batch of so many rows was committed by the store in so long."""

    def commit_failed(self) -> None:
        """An attempt to commit a batch failed and will be made again."""

    def rejected(self) -> None:
        """The store refused a group for good; it became a dead letter."""

    def fenced(self, code: str) -> None:
        """An open session's writes were stopped for good, for the reason of this error code."""

    def cycle_ran(self, cycle: str, seconds: float) -> None:
        """A cycle of an open session ran: `round`, `evaluate` or `collect`."""

    def not_embedded(self, texts: int) -> None:
        """The embedder gave no vector for so many texts."""


NO_MEASURES: Final = Measures()


def count_failures(results: Iterable[Embedded]) -> int:
    """How many results of an embedder are none."""
    return sum(isinstance(result, EmbeddingFailure) for result in results)
