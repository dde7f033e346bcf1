"""What every import shares: the one way to the server, what is told meanwhile, and clean text.

Everything goes through the public write path, one call after the other, each under a key that
follows from what it says: a run that is killed and begun again has the server answer from its
receipts what it did before. Knows no format.

Invariant: the text of a call depends on what is imported alone, never on when or how often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from memory.client import Answer, LamboClient
from memory.engine.errors import InvalidArgument, LamboError
from memory.engine.requests import canonical_json
from memory.engine.text import check_text, is_blank

Progress = Callable[[str, int], None]
"""Told what is under way, and how many of it are done."""

KEY_DIGITS: Final = 40
NAME_BYTES: Final = 255


class ImportRefused(LamboError):
    """What is to be imported cannot be read, or not as a whole; what was written is named."""

    code: ClassVar[str] = "import_refused"


@dataclass(slots=True)
class Importer:
    """A client, the session it writes to, and what came of it. `source` begins every key."""

    client: LamboClient
    session: str
    source: str
    progress: Progress
    written_count: int = 0
    replayed_count: int = 0
    warnings: dict[str, int] = field(default_factory=dict)

    def derive(self, body: Mapping[str, Any], *, agent: str | None = None) -> Answer:
        return self._write("derive", body, agent)

    def record_action(self, body: Mapping[str, Any], *, agent: str | None = None) -> Answer:
        return self._write("record-action", body, agent)

    def _write(self, verb: str, body: Mapping[str, Any], agent: str | None) -> Answer:
        said = canonical_json({"verb": verb, "agent": agent, "body": dict(body)})
        key = f"{self.source}:{hashlib.sha256(said.encode()).hexdigest()[:KEY_DIGITS]}"
        answer = self.client.call(self.session, verb, body, agent_id=agent, idempotency_key=key)
        if answer["replayed"]:
            self.replayed_count += 1
        else:
            self.written_count += 1
        return answer

    def warn(self, what: str) -> None:
        """Count something that was passed by."""
        self.warnings[what] = self.warnings.get(what, 0) + 1

    def warning_lines(self) -> list[str]:
        return [f"{what} ({count})" for what, count in self.warnings.items()]


def cleaned(text: str, *, characters_max: int) -> str:
    """One line that is legal text: what is not stands as its code, white space is single spaces.

    The empty text where nothing visible is left.
    """
    line = " ".join(text.split())
    try:
        check_text("text", line[:characters_max], allow_blank=True)
    except InvalidArgument:
        line = "".join(one if _is_legal(one) else _code_of(one) for one in line)
    line = line if len(line) <= characters_max else f"{line[: characters_max - 3].rstrip()}..."
    return "" if is_blank(line) else line


def _is_legal(character: str) -> bool:
    try:
        check_text("text", character, allow_blank=True)
    except InvalidArgument:
        return False
    return True


def _code_of(character: str) -> str:
    return f"\\u{ord(character):04x}"


def cut_bytes(text: str, size: int) -> str:
    """As much of a text as fits into so many bytes of UTF-8, no character cut."""
    return text.encode()[:size].decode(errors="ignore").strip()
