"""What a call gives back, whatever the surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from memory.engine.mutations import Receipt


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


def replay(stored: Receipt) -> Reply:
    """The answer that a receipt keeps."""
    reply = stored.reply
    return Reply(reply["text"], reply["structured"], stored.key, replayed=True)


def replayed(reply: Reply) -> Reply:
    """The answer of an earlier request, given again."""
    return Reply(reply.text, reply.structured, reply.key, replayed=True)


def receipt_reply(key: str, state: str, reply: Reply) -> Reply:
    """How a write under a key ended, and what it answered."""
    structured = {"key": key, "state": state, "reply": reply.structured, "warnings": []}
    return Reply(f"{state}: {reply.text}", structured, key)
