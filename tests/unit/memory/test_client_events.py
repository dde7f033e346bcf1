from __future__ import annotations

import json
from typing import Any

import pytest

from memory.client_calls import Received, ServerUnreachable
from memory.client_events import EventGap, Following, SessionEvent, Told, events_call
from memory.client_retries import Lost, Retries
from memory.engine.errors import LamboError, Unauthenticated

EVENT = {
    "id": 7,
    "kind": "write",
    "agent_id": "ann",
    "occurred_at": "2026-01-01T00:00:00Z",
    "position": 3,
    "data": {"verb": "derive"},
}


class Hours:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def following(since: int | None = None, **retries: Any) -> Following:
    return Following("s", since, ["write"], Retries(**retries))


def frame(name: str, data: dict[str, Any], place: int) -> list[str]:
    return [f"event: {name}", f"id: {place}", f"data: {json.dumps(data)}", ""]


def read(stream: Following, *lines: str) -> list[Told]:
    return [told for line in lines if (told := stream.take(line)) is not None]


def test_address_names_what_is_asked_for() -> None:
    assert events_call("a b", since=None, kinds=()).path == "/sessions/a%20b/events"
    path = events_call("s", since=0, kinds=["write", "drift"], limit=5).path
    assert path == "/sessions/s/events?since=0&limit=5&kinds=write&kinds=drift"


def test_events_and_gaps_are_read_and_the_place_moves_with_them() -> None:
    stream = following()
    assert stream.call.path.endswith("events?kinds=write")
    stream.begin()
    assert read(stream, "retry: 1000", ": heartbeat", "id: 5", "") == []
    assert "since=5&" in stream.call.path
    gap = {"after": 5, "resume": 7, "lost": 1}
    assert read(stream, *frame("gap", gap, 6)) == [EventGap(**gap)]
    assert read(stream, *frame("write", EVENT, 7)) == [SessionEvent(**EVENT)]  # type: ignore[arg-type]
    assert "since=7&" in stream.call.path


def test_what_was_half_said_when_the_connection_broke_is_asked_for_again() -> None:
    stream = following(3)
    stream.begin()
    assert read(stream, *frame("write", EVENT, 7)[:3]) == []
    assert "since=3&" in stream.call.path
    stream.begin()
    assert read(stream, "") == []
    assert read(stream, *frame("write", EVENT, 7)) == [SessionEvent(**EVENT)]  # type: ignore[arg-type]


def test_end_of_the_server_is_waited_out_and_a_lost_right_is_raised() -> None:
    stream = following()
    assert read(stream, *frame("end", {"code": "shutdown", "message": "m", "resume": 7}, 7)) == []
    assert stream.over() > 0
    with pytest.raises(Unauthenticated):
        read(stream, *frame("end", {"code": "unauthenticated", "message": "m", "resume": 7}, 7))


def test_refusals_that_ask_for_it_are_waited_out_and_others_raised() -> None:
    def refusal(code: str, status: int) -> Received:
        error = {"code": code, "message": "m", "retry_after_seconds": 2.5}
        return Received(status, {}, json.dumps({"error": error}).encode())

    assert following().refused(refusal("too_many_listeners", 503)) == 2.5
    with pytest.raises(LamboError, match="m") as raised:
        following().refused(refusal("forbidden", 403))
    assert raised.value.code == "forbidden"
    with pytest.raises(ServerUnreachable):
        following().refused(Received(200, {}, b'{"text": "a page"}'))


def test_a_server_that_stays_away_is_given_up_and_one_that_comes_back_is_not() -> None:
    clock = Hours()
    lost = Lost(ConnectionError("refused"), was_sent=False, address="http://x")
    stream = following(unreachable_seconds=10.0, now=clock)
    assert stream.lost(lost) > 0
    clock.seconds = 9.0
    assert stream.lost(lost) > 0
    stream.begin()
    clock.seconds = 100.0
    assert stream.lost(lost) > 0
    clock.seconds = 111.0
    with pytest.raises(ServerUnreachable):
        stream.lost(lost)


def test_without_retries_the_transports_own_error_comes_through() -> None:
    stream = Following("s", None, (), None)
    with pytest.raises(ConnectionError):
        stream.lost(Lost(ConnectionError("refused"), was_sent=False))
    with pytest.raises(ServerUnreachable):
        stream.over()
