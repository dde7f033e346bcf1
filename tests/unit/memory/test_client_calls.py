"""Requests as they go over the wire, and what answers stand for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

import memory.client_calls as calls
import memory.engine.errors as errors
from memory.client_calls import Received, UnexpectedAnswer, error_from_wire, read_answer, verb_call
from memory.engine.errors import InvalidArgument, LamboError, ReservationConflict
from memory.verbs import VERBS


def received(status: int, body: Any, **headers: str) -> Received:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Received(status, headers, content, "POST http://127.0.0.1:7700/x")


def test_verbs_of_the_client_are_those_of_the_table() -> None:
    """The client repeats three facts of the table, which it must not import: it is slow."""
    with_own_call = {"session-close", "receipt", "disappearances", "reembed", "concepts", "events"}
    named = {
        name: verb
        for name, verb in VERBS.items()
        if "{session}/" in verb.path and name not in with_own_call
    }
    assert {name for name, verb in named.items() if verb.writes} == calls.WRITE_VERBS
    assert {name for name, verb in named.items() if verb.operator_only} == calls.OPERATOR_VERBS
    reads = {name for name, verb in named.items() if verb.method == "POST" and not verb.writes}
    assert reads == calls.READ_VERBS
    gets = {name for name, verb in named.items() if verb.method == "GET"}
    assert gets == calls.GET_VERBS


def test_session_in_the_path_is_escaped_whatever_it_holds() -> None:
    call = verb_call("a b?ü&#", "stats", {}, agent_id=None, key=None)
    assert call.path == "/sessions/a%20b%3F%C3%BC%26%23/stats"


@pytest.mark.parametrize("name", ["", " ", ".", "..", "\t", "a/b", "/"])
def test_session_that_would_lead_to_another_address_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        verb_call(name, "stats", {}, agent_id=None, key=None)
    assert refused.value.field == "session"
    with pytest.raises(InvalidArgument):
        calls.delete_session_call(name, confirm=name, agent_id=None)


def test_agent_in_the_arguments_wins_over_the_clients_own() -> None:
    call = verb_call("s", "recall", {"query": "q", "agent_id": "b"}, agent_id="a", key=None)
    assert json.loads(call.body or b"") == {"query": "q", "agent_id": "b"}


def test_key_goes_with_writes_alone() -> None:
    write = verb_call("s", "derive", {"concepts": []}, agent_id="a", key="k")
    read = verb_call("s", "recall", {"query": "q"}, agent_id="a", key="k")
    assert write.headers["Idempotency-Key"] == b"k"
    assert write.is_write
    assert write.is_repeatable
    assert "Idempotency-Key" not in read.headers
    assert not read.is_write


def test_secret_is_asked_for_by_human_acts_alone() -> None:
    for verb in sorted(calls.WRITE_VERBS | calls.READ_VERBS):
        call = verb_call("s", verb, {}, agent_id="a", key="k")
        assert call.needs_operator == VERBS[verb].operator_only
    assert calls.delete_session_call("s", confirm="s", agent_id=None).needs_operator


def test_text_that_is_no_unicode_is_refused_by_code_point() -> None:
    with pytest.raises(InvalidArgument, match=r"U\+DC80"):
        verb_call("s", "recall", {"query": "\udc80"}, agent_id="a", key=None)
    with pytest.raises(InvalidArgument, match=r"U\+DC80"):
        verb_call("\udc80", "stats", {}, agent_id="a", key=None)


def test_numbers_json_does_not_have_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="not JSON"):
        verb_call("s", "recall", {"query": "q", "top_k": float("nan")}, agent_id="a", key=None)


@pytest.mark.parametrize("key", ["two\nlines", " padded", "nul\0"])
def test_key_that_is_no_header_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        verb_call("s", "derive", {}, agent_id="a", key=key)
    assert refused.value.field == "idempotency_key"


def test_unknown_verbs_and_arguments_of_verbs_without_any_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="no verb 'derives'"):
        verb_call("s", "derives", {}, agent_id="a", key=None)
    with pytest.raises(InvalidArgument, match="depth"):
        verb_call("s", "stats", {"depth": 1}, agent_id="a", key=None)


def test_about_time_needs_a_zone() -> None:
    assert calls.rfc3339("event_time", datetime(2026, 1, 31, tzinfo=UTC)) == (
        "2026-01-31T00:00:00+00:00"
    )
    assert calls.rfc3339("event_time", "as written") == "as written"
    with pytest.raises(InvalidArgument):
        calls.rfc3339("event_time", datetime(2026, 1, 31))  # noqa: DTZ001  # the point


def test_one_text_where_a_list_is_needed_is_a_mistake_of_the_program() -> None:
    with pytest.raises(TypeError):
        calls.texts("abc")


def test_answer_is_split_into_text_data_and_key() -> None:
    body = {"text": "t", "summary": "t", "warnings": ["w"], "idempotency_key": "k"}
    answer = read_answer(received(200, body, **{"idempotency-replayed": "true"}))
    assert answer == {
        "text": "t",
        "structured": {"summary": "t", "warnings": ["w"]},
        "warnings": ["w"],
        "idempotency_key": "k",
        "replayed": True,
    }


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, LamboError)
    ],
)
def test_every_error_comes_back_as_its_own_class(kind: type[LamboError]) -> None:
    sent = (
        kind("top_k", "out of range", maximum=100)
        if issubclass(kind, InvalidArgument)
        else kind("it failed", retry_after_seconds=1.5, holder="b")
    )
    back = error_from_wire(sent.as_wire())
    assert type(back) is kind
    assert back.as_wire() == sent.as_wire()


def test_error_of_a_newer_server_keeps_its_code() -> None:
    back = error_from_wire({"code": "brand_new", "message": "m", "why": 1})
    assert isinstance(back, LamboError)
    assert back.as_wire() == {"code": "brand_new", "message": "m", "why": 1}


def test_error_fields_cannot_collide_with_our_own_names() -> None:
    wire = {"code": "reservation_conflict", "message": "m", "self": 1, "kind": 2, "args": 3}
    back = error_from_wire(wire)
    assert type(back) is ReservationConflict
    assert back.as_wire() == wire


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>hello</html>"),
        (200, b"\xff\xfe"),
        (200, []),
        (200, {"no": "text"}),
        (302, {"text": "elsewhere"}),
        (404, {"detail": "Not Found"}),
        (502, b"bad gateway"),
        (500, {"error": "a string"}),
    ],
)
def test_answer_of_a_stranger_names_the_address(status: int, body: Any) -> None:
    answer = read_answer(received(status, body, **{"content-type": "text/html; charset=x"}))
    assert isinstance(answer, UnexpectedAnswer)
    assert f"http://127.0.0.1:7700/x answered {status} (text/html)" in answer.message
