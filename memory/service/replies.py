"""What a call gives back, whatever the surface."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from memory.engine.errors import LamboError
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
    nothing was done again. `is_accepted`: a write that will be tried and is not applied yet.
    """

    text: str
    structured: dict[str, Any]
    key: str | None = None
    replayed: bool = False
    is_accepted: bool = False

    @classmethod
    def of(cls, answer: Answer, *, key: str | None = None) -> Reply:
        return cls(answer.text, answer.as_wire(), key)


def without_excerpts(reply: Reply) -> Reply:
    """The answer to a derive for a caller who may not read: of existing claims only their ids."""
    candidates = reply.structured.get("replacement_candidates")
    if not candidates:
        return reply
    lines = [f"  - may replace {candidate['id']}" for candidate in candidates]
    return replace(
        reply,
        text="\n".join([reply.structured["summary"], *lines]),
        structured={
            **reply.structured,
            "replacement_candidates": [{**each, "excerpt": None} for each in candidates],
        },
    )


def replay(stored: Receipt) -> Reply:
    """The answer that a receipt keeps."""
    reply = stored.reply
    return Reply(reply["text"], reply["structured"], stored.key, replayed=True)


def replayed(reply: Reply) -> Reply:
    """The answer of an earlier request, given again."""
    return replace(reply, replayed=True)


def accepted_reply(key: str) -> Reply:
    """The answer to a write that is to be applied later. It promises no more than an attempt."""
    text = f"accepted, not stored yet; ask how it ended by its key {key}"
    return Reply(text, {"summary": text, "accepted": True, "warnings": []}, key, is_accepted=True)


class ReceiptState(StrEnum):
    """What can be told of the write under a key."""

    ACCEPTED = "accepted"  # waits to be applied; gone if the server stops now
    APPLIED = "applied"  # in the graph, not yet committed
    COMMITTED = "committed"
    REFUSED = "refused"  # accepted, and then turned down; nothing of it is stored
    UNKNOWN = "unknown"  # nothing is known under this key


def receipt_reply(
    key: str,
    state: ReceiptState,
    reply: Reply | None = None,
    *,
    after_restart: bool = False,
    error: LamboError | None = None,
) -> Reply:
    """How a write under a key ended, and what it answered or why it was refused.

    `after_restart`: it is found in the store by a process that did not write it.
    """
    match state:
        case ReceiptState.ACCEPTED:
            told = "accepted: not applied yet"
        case ReceiptState.REFUSED:
            assert error is not None
            told = f"refused: {error.message} [{error.code}]"
        case ReceiptState.UNKNOWN:
            told = (
                "unknown: no write is known under this key; sending it again under the key does it "
                "once"
            )
        case _:
            assert reply is not None
            told = f"{'applied after a restart' if after_restart else state}: {reply.text}"
    structured = {
        "key": key,
        "state": str(state),
        "after_restart": after_restart,
        "reply": None if reply is None else reply.structured,
        "error": None if error is None else error.as_wire(),
        "warnings": [],
    }
    return Reply(told, structured, key)
