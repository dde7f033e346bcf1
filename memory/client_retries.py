"""When a call is sent again, and what its caller is told when it never succeeds.

A conversation is a generator: it says what to do next (send, wait, look for the server again) and
is told what came of it. It performs nothing itself, so the blocking and the asynchronous client
share every decision, and a test can play any sequence of failures.

Invariant: all attempts of a call are the same bytes under the same key; no attempt starts after
`patience_seconds`; a write that may have been stored is never reported as if it had not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final, TypeAlias

from memory.client_calls import Answer, Call, Received, ServerUnreachable, read_answer
from memory.engine.errors import LamboError, OutcomeUnknown

REPEATED_CODES: Final = frozenset(
    {
        *("store_unavailable", "session_reloaded", "session_closed", "too_many_sessions"),
        *("too_many_listeners", "lease_lost", "rate_limited"),
    }
)
"""Refusals that kept nothing of the call and ask for it again."""


UNSETTLED_STATES: Final = frozenset({"accepted", "applied"})
"""What a receipt says of a write that the store has not confirmed."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How long to go on. The last wait repeats; a hint of the server that is longer wins."""

    patience_seconds: float = 30.0
    unreachable_seconds: float = 10.0
    """How long a server may be gone altogether; a restart takes a few seconds."""
    waits_seconds: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
    now: Callable[[], float] = time.monotonic

    def waits(self) -> Iterator[float]:
        yield from self.waits_seconds
        yield from repeat(self.waits_seconds[-1])


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request once; the reply is a `Received` or a `Lost`."""

    call: Call


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Relocate:
    """Look for the server again; the reply is the error of the search, or None."""


@dataclass(frozen=True, slots=True)
class Lost:
    """No complete response came. `was_sent` is False when no byte of the request can have arrived.

    `error` is the transport's own, `address` the server's, for messages.
    """

    error: Exception
    was_sent: bool
    address: str = ""


Step: TypeAlias = Send | Wait | Relocate
Outcome: TypeAlias = Received | Lost | LamboError | None
Conversation: TypeAlias = Generator[Step, Outcome, Answer]
_Exchange: TypeAlias = Generator[Step, Outcome, Answer | LamboError]


def ask_once(call: Call) -> Conversation:
    """One attempt. What the transport raised is raised as it is, for callers with retries of their
    own."""
    outcome = yield Send(call)
    if isinstance(outcome, Lost):
        raise outcome.error
    assert isinstance(outcome, Received)
    answer = read_answer(outcome)
    if isinstance(answer, LamboError):
        raise answer
    return answer


def ask(call: Call, receipt: Call | None, retries: Retries) -> Conversation:
    """Send a call until it is answered, refused for good, or patience runs out.

    `receipt` asks how a write ended; it is sent in place of the write while the server cannot tell.
    """
    doubts = _Doubts(call)
    since = retries.now()
    gone_since: float | None = None
    for wait in retries.waits():
        answer = yield from _attempt(call, receipt, doubts)
        if not isinstance(answer, LamboError):
            return answer
        doubts.weigh(answer)
        now = retries.now()
        deadline = since + retries.patience_seconds
        if isinstance(answer, ServerUnreachable):
            gone_since = now if gone_since is None else gone_since
            deadline = min(deadline, gone_since + retries.unreachable_seconds)
        else:
            gone_since = None
        pause = max(wait, answer.retry_after_seconds or 0.0)
        if now + pause > deadline:
            raise doubts.last_word(answer)
        yield Wait(pause)
    raise AssertionError("the waits have no end")


def _attempt(call: Call, receipt: Call | None, doubts: _Doubts) -> _Exchange:
    """One attempt at an answer: first the receipt if there is something to ask it."""
    if doubts.ask_receipt and receipt is not None:
        told = yield from _exchange(receipt, doubts)
        if isinstance(told, LamboError):
            return told
        if told["structured"].get("state") in UNSETTLED_STATES:
            return doubts.unknown()
        # Committed, refused or unknown: each way the call under its key has one outcome now, the
        # stored answer or a first execution.
        doubts.ask_receipt = False
    return (yield from _exchange(call, doubts))


def _exchange(call: Call, doubts: _Doubts) -> _Exchange:
    """Send and read; after a loss, look for the server before the next attempt."""
    outcome = yield Send(call)
    if isinstance(outcome, Received):
        return read_answer(outcome)
    assert isinstance(outcome, Lost)
    doubts.note_loss(call, outcome)
    trouble = yield Relocate()
    # No server yet: one may come back. Any other trouble will be the same a second later.
    if isinstance(trouble, LamboError) and not isinstance(trouble, ServerUnreachable):
        raise doubts.last_word(trouble)
    failure = ServerUnreachable(f"the memory server does not answer at {outcome.address}")
    failure.__cause__ = outcome.error
    return failure


class _Doubts:
    """What is not known about a call: whether some attempt was stored."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._may_be_stored = False
        self.ask_receipt = False

    def note_loss(self, sent: Call, lost: Lost) -> None:
        """A lost attempt; raises when the call must not be sent again."""
        if lost.was_sent and sent.is_write:
            self._may_be_stored = True
            if not sent.is_repeatable:
                raise self.unknown() from lost.error

    def weigh(self, error: LamboError) -> None:
        """Return when the error asks for another attempt; raise it when it is final."""
        if isinstance(error, OutcomeUnknown) and self._call.is_repeatable:
            self._may_be_stored = self.ask_receipt = self._call.is_write
        elif not isinstance(error, ServerUnreachable) and error.code not in REPEATED_CODES:
            # A refused question for the receipt says nothing about the write.
            raise self.last_word(error) if self.ask_receipt else error

    def unknown(self) -> OutcomeUnknown:
        """The error of a write of which nobody can tell."""
        key = self._call.key
        if key is None:
            return OutcomeUnknown(
                "the answer was lost: it may be done or not; look, then try again"
            )
        return OutcomeUnknown(
            "this write may be stored or not; ask for its receipt, or send it again under its key",
            idempotency_key=key,
        )

    def last_word(self, failure: LamboError) -> LamboError:
        """What the caller is told; a write that may be stored is never called undone."""
        if not self._may_be_stored or isinstance(failure, OutcomeUnknown):
            return failure
        unknown = self.unknown()
        unknown.__cause__ = failure
        return unknown
