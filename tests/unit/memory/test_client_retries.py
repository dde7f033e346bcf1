"""When a call is sent again: every sequence of failures, played without a network or a clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.client_calls import Answer, Call, Received, ServerUnreachable, receipt_of, verb_call
from memory.client_retries import (
    Conversation,
    Lost,
    Outcome,
    Relocate,
    Retries,
    Send,
    Step,
    Wait,
    ask,
    ask_once,
)
from memory.engine.errors import (
    Forbidden,
    IdempotencyConflict,
    LamboError,
    OutcomeUnknown,
    StoreUnavailable,
)

WRITE = verb_call("s", "derive", {"concepts": []}, agent_id="a", key="k")
READ = verb_call("s", "recall", {"query": "q"}, agent_id="a", key=None)
RECEIPT = receipt_of(WRITE, "s", "a")
KEYLESS = Call("POST", "/sessions", is_write=True)

NOT_SENT = Lost(ConnectionRefusedError(), was_sent=False, address="http://127.0.0.1:1")
SENT = Lost(ConnectionResetError(), was_sent=True, address="http://127.0.0.1:1")


def done(**structured: Any) -> Received:
    return Received(200, {}, json.dumps({"text": "done", "warnings": [], **structured}).encode())


def failed(code: str, **fields: Any) -> Received:
    body = {"error": {"code": code, "message": f"it is {code}", **fields}}
    return Received(503, {}, json.dumps(body).encode())


class Played:
    """A conversation led by a script of outcomes; time passes only in its waits."""

    def __init__(self, call: Call, *outcomes: Outcome, receipt: Call | None = None) -> None:
        self.seconds = 0.0
        self.steps: list[Step] = []
        self.answer: Answer | None = None
        self.error: Exception | None = None
        retries = Retries(
            patience_seconds=10.0,
            unreachable_seconds=4.0,
            waits_seconds=(0.25, 0.5, 1.0),
            now=lambda: self.seconds,
        )
        self._lead(ask(call, receipt, retries), list(outcomes))

    def _lead(self, conversation: Conversation, outcomes: list[Outcome]) -> None:
        outcome: Outcome = None
        try:
            while True:
                step = conversation.send(outcome)
                self.steps.append(step)
                outcome = None
                if isinstance(step, Wait):
                    self.seconds += step.seconds
                elif isinstance(step, Send):
                    # The last outcome of the script repeats.
                    outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        except StopIteration as end:
            self.answer = end.value
        except LamboError as error:
            self.error = error

    @property
    def sent(self) -> list[Call]:
        return [step.call for step in self.steps if isinstance(step, Send)]

    @property
    def waits(self) -> list[float]:
        return [step.seconds for step in self.steps if isinstance(step, Wait)]


def test_success_is_one_request() -> None:
    played = Played(WRITE, done(summary="s"))
    assert played.steps == [Send(WRITE)]
    assert played.answer is not None
    assert played.answer["structured"] == {"summary": "s", "warnings": []}


@pytest.mark.parametrize(
    "code", ["store_unavailable", "session_reloaded", "session_closed", "too_many_sessions"]
)
def test_refusal_that_kept_nothing_is_repeated_as_it_was(code: str) -> None:
    played = Played(WRITE, failed(code), failed(code), done())
    assert played.sent == [WRITE, WRITE, WRITE]
    assert played.waits == [0.25, 0.5]
    assert played.answer is not None


def test_hint_of_the_server_lengthens_the_wait_and_never_shortens_it() -> None:
    hints = [failed("store_unavailable", retry_after_seconds=s) for s in (3.0, 0.0)]
    played = Played(WRITE, *hints, done())
    assert played.waits == [3.0, 0.5]


def test_last_wait_repeats_until_patience_ends() -> None:
    played = Played(WRITE, failed("store_unavailable"))
    assert played.waits == [0.25, 0.5] + [1.0] * 9
    assert isinstance(played.error, StoreUnavailable)


def test_hint_beyond_patience_ends_at_once() -> None:
    played = Played(WRITE, failed("store_unavailable", retry_after_seconds=60.0))
    assert played.waits == []
    assert isinstance(played.error, StoreUnavailable)
    assert played.error.retry_after_seconds == 60.0


@pytest.mark.parametrize("code", ["invalid_argument", "forbidden", "lease_held", "internal_error"])
def test_other_refusals_are_final(code: str) -> None:
    played = Played(WRITE, failed(code))
    assert played.sent == [WRITE]
    assert isinstance(played.error, LamboError)
    assert played.error.code == code


def test_lost_server_is_looked_for_before_each_attempt() -> None:
    played = Played(WRITE, NOT_SENT, SENT, done())
    assert played.steps == [
        Send(WRITE),
        Relocate(),
        Wait(0.25),
        Send(WRITE),
        Relocate(),
        Wait(0.5),
        Send(WRITE),
    ]


def test_server_that_stays_away_is_given_up_early() -> None:
    played = Played(READ, NOT_SENT)
    assert played.seconds < 4.0
    assert isinstance(played.error, ServerUnreachable)
    assert played.error.message == "the memory server does not answer at http://127.0.0.1:1"
    assert isinstance(played.error.__cause__, ConnectionRefusedError)


def test_write_that_was_never_sent_is_known_not_to_be_stored() -> None:
    assert isinstance(Played(WRITE, NOT_SENT).error, ServerUnreachable)


def test_write_lost_under_way_is_never_called_undone() -> None:
    played = Played(WRITE, SENT, NOT_SENT)
    assert isinstance(played.error, OutcomeUnknown)
    assert played.error.fields == {"idempotency_key": "k"}
    assert isinstance(played.error.__cause__, ServerUnreachable)


def test_read_lost_under_way_is_simply_repeated() -> None:
    assert Played(READ, SENT, done()).answer is not None
    assert isinstance(Played(READ, SENT).error, ServerUnreachable)


def test_write_without_a_key_is_not_sent_twice_after_a_lost_answer() -> None:
    assert Played(KEYLESS, NOT_SENT, done()).answer is not None
    played = Played(KEYLESS, SENT, done())
    assert played.sent == [KEYLESS]
    assert isinstance(played.error, OutcomeUnknown)


def test_unknown_outcome_is_asked_of_the_receipt() -> None:
    unknown = failed("outcome_unknown", idempotency_key="k")
    played = Played(
        WRITE,
        unknown,
        done(state="applied"),
        done(state="committed", reply={}),
        done(summary="the stored reply"),
        receipt=RECEIPT,
    )
    # Committed: the same call under its key gives the stored answer.
    assert played.sent == [WRITE, RECEIPT, RECEIPT, WRITE]
    assert played.answer is not None
    assert played.answer["structured"]["summary"] == "the stored reply"


def test_write_without_a_receipt_is_done_for_the_first_time() -> None:
    played = Played(
        WRITE, failed("outcome_unknown"), done(state="unknown"), done(), receipt=RECEIPT
    )
    assert played.sent == [WRITE, RECEIPT, WRITE]
    assert played.answer is not None


def test_unknown_outcome_that_stays_unknown_is_told_with_its_key() -> None:
    played = Played(WRITE, failed("outcome_unknown"), done(state="applied"), receipt=RECEIPT)
    assert all(call is RECEIPT for call in played.sent[1:])
    assert isinstance(played.error, OutcomeUnknown)
    assert played.error.fields["idempotency_key"] == "k"


def test_receipt_that_cannot_be_asked_leaves_the_outcome_unknown() -> None:
    played = Played(WRITE, failed("outcome_unknown"), failed("forbidden"), receipt=RECEIPT)
    assert isinstance(played.error, OutcomeUnknown)
    assert isinstance(played.error.__cause__, Forbidden)


def test_conflict_of_keys_is_final() -> None:
    played = Played(WRITE, failed("idempotency_conflict"))
    assert isinstance(played.error, IdempotencyConflict)


def test_trouble_in_finding_the_server_ends_the_call() -> None:
    conversation = ask(WRITE, None, Retries())
    assert conversation.send(None) == Send(WRITE)
    assert conversation.send(NOT_SENT) == Relocate()
    trouble = LamboError("the server does not start")
    with pytest.raises(LamboError) as told:
        conversation.send(trouble)
    assert told.value is trouble


def test_single_attempt_passes_on_what_the_transport_raised() -> None:
    conversation = ask_once(WRITE)
    assert conversation.send(None) == Send(WRITE)
    with pytest.raises(ConnectionResetError):
        conversation.send(SENT)
    conversation = ask_once(WRITE)
    conversation.send(None)
    with pytest.raises(StoreUnavailable):
        conversation.send(failed("store_unavailable"))
