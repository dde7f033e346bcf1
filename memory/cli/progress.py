"""How far a long command is, on stderr: one line written over at a terminal, else one a step."""

from __future__ import annotations

import sys


class ProgressLine:
    """Tells how far a command is. Give it the command's name; `end` before anything else is said.

    Invariant: stdout is never touched.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = ""

    def show(self, what: str, count: int) -> None:
        """`what` is under way, and `count` of it is done."""
        text = f"{self._name}: {what}: {count:,}"
        if not count or text == self._shown:
            return
        is_terminal = sys.stderr.isatty()
        blank = " " * max(0, len(self._shown) - len(text)) if is_terminal else ""
        start, end = ("\r", "") if is_terminal else ("", "\n")
        print(f"{start}{text}{blank}", end=end, file=sys.stderr, flush=True)
        self._shown = text

    def end(self) -> None:
        if self._shown and sys.stderr.isatty():
            print(file=sys.stderr)
        self._shown = ""
