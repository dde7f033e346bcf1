"""How much time a call has left, and what is said when it has none.

Invariant: measured on the monotonic clock, so a corrected wall clock neither ends a call nor
prolongs it.
"""

from __future__ import annotations

from time import monotonic

from memory.engine.embedding import EmbeddingFailure


class Deadline:
    """The end of one call, fixed when it begins."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = monotonic() + seconds

    def remaining_seconds(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._end - monotonic())

    @property
    def is_over(self) -> bool:
        return monotonic() >= self._end

    def failure(self) -> EmbeddingFailure:
        """The result of a text that was not reached in time."""
        return EmbeddingFailure(f"not embedded within {self.seconds:g} s")


CLOSED = EmbeddingFailure("the embedder is closed")
BLANK = EmbeddingFailure("a blank text has no meaning to embed", is_final=True)
