"""What a call gives back, whatever the surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class Answer(Protocol):
    """A result that can show itself to people and to programs."""

    @property
    def text(self) -> str: ...

    def as_wire(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Reply:
    """`text` for people, `structured` for programs (JSON-ready, `warnings` always in it).

    `key` is the idempotency key of a write; `replayed` says that the stored receipt answered and
    nothing was done again.
    """

    text: str
    structured: dict[str, Any]
    key: str | None = None
    replayed: bool = False

    @classmethod
    def of(cls, answer: Answer, *, key: str | None = None) -> Reply:
        return cls(answer.text, answer.as_wire(), key)
