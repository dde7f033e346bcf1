"""Instants as integers: RFC 3339 in and out, and time in a session, which only goes forward."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from graph_writing import START, Scribe
from memory.engine.errors import InvalidArgument
from memory.engine.requests import ActionRequest, ConceptInput, DeriveRequest
from memory.engine.times import (
    EARLIEST,
    LATEST,
    SECOND,
    format_rfc3339,
    format_rfc3339_seconds,
    parse_rfc3339,
    to_datetime,
    to_micros,
)
from memory.engine.types import ConceptType

# 2024-02-29 is day 19,782 since 1970-01-01: 54 years of 365 days, 13 leap days, 31 + 28 days.
LEAP_DAY = 19_782 * 86_400 * SECOND


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2024-02-29T00:00:00Z", LEAP_DAY),
        ("2024-02-29T05:30:00+05:30", LEAP_DAY),
        ("2024-02-28T20:00:00-04:00", LEAP_DAY),
        ("2024-02-29t00:00:00z", LEAP_DAY),
        ("2024-02-29 00:00:00Z", LEAP_DAY),
        ("2024-02-29T00:00:00-00:00", LEAP_DAY),
        ("2024-02-29T00:00:00.5Z", LEAP_DAY + 500_000),
        ("2024-02-29T00:00:00.123456789Z", LEAP_DAY + 123_456),
        ("0001-01-01T00:00:00Z", EARLIEST),
        ("9999-12-31T23:59:59.999999Z", LATEST),
    ],
)
def test_parse_when_possible_then_gives_the_instant_in_utc(text: str, instant: int) -> None:
    assert parse_rfc3339("event_time", text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29T00:00:00",  # no zone
        "2024-02-29",
        "2024-02-29T00:00Z",
        "2024-02-29T00:00:00.Z",
        "2024-02-29T00:00:00+0530",
        "2024-02-29T24:00:00Z",
        "20240229T000000Z",
        "+2024-02-29T00:00:00Z",
        "-2024-02-29T00:00:00Z",
        "12024-02-29T00:00:00Z",
        "2024-02-29T00:00:00Z\n",
        " 2024-02-29T00:00:00Z",
        "２０２４-02-29T00:00:00Z",
        "now",
        "1709164800",
        "",
    ],
)
def test_parse_when_naive_or_of_another_form_then_refused_by_field(text: str) -> None:
    with pytest.raises(InvalidArgument, match="must be an RFC 3339 time with a zone") as caught:
        parse_rfc3339("event_time", text)
    assert caught.value.field == "event_time"


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2024-04-31T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-00-01T00:00:00Z",
        "2024-02-29T00:60:00Z",
        "2024-02-29T23:59:60Z",
        "2024-02-29T00:00:00+24:00",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",  # in year 0
        "9999-12-31T23:59:59-00:01",  # in year 10000
    ],
)
def test_parse_when_impossible_then_refused_by_field(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a possible time") as caught:
        parse_rfc3339("event_time", text)
    assert caught.value.field == "event_time"


@pytest.mark.parametrize(
    ("instant", "text", "seconds"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00Z"),
        (LEAP_DAY + 500_000, "2024-02-29T00:00:00.500000Z", "2024-02-29T00:00:00Z"),
        (EARLIEST, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        (LATEST, "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_format_when_given_an_instant_then_is_utc_and_reads_back(
    instant: int, text: str, seconds: str
) -> None:
    assert format_rfc3339(instant) == text
    assert format_rfc3339_seconds(instant) == seconds
    assert parse_rfc3339("event_time", text) == instant


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_parse_when_the_server_is_in_another_zone_then_gives_the_same(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse_rfc3339("event_time", "2024-02-29T05:30:00+05:30") == LEAP_DAY
        assert format_rfc3339(LEAP_DAY) == "2024-02-29T00:00:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_datetime_when_converted_then_keeps_the_microsecond() -> None:
    ours = datetime(2024, 2, 29, 5, 30, 0, 7, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert to_micros(ours) == LEAP_DAY + 7
    assert to_datetime(LEAP_DAY + 7) == datetime(2024, 2, 29, 0, 0, 0, 7, tzinfo=UTC)


# -- about-times in requests -------------------------------------------------------------------


@pytest.mark.parametrize("instant", [EARLIEST, LATEST, 0, None])
def test_event_time_when_within_the_calendar_then_accepted(instant: int | None) -> None:
    concepts = (ConceptInput("alpha", ConceptType.ENTITY),)
    assert DeriveRequest(concepts, event_time=instant).event_time == instant
    assert ActionRequest("alpha", event_time=instant).event_time == instant


@pytest.mark.parametrize("instant", [EARLIEST - 1, LATEST + 1, 2**80, 1.5, True, "2024"])
def test_event_time_when_outside_or_no_integer_then_refused_by_name(instant: int) -> None:
    """An integer that no column holds used to break off a write in the middle of applying it."""
    concepts = (ConceptInput("alpha", ConceptType.ENTITY),)
    with pytest.raises(InvalidArgument) as caught:
        DeriveRequest(concepts, event_time=instant)
    assert caught.value.field == "event_time"
    with pytest.raises(InvalidArgument):
        ActionRequest("alpha", event_time=instant)


def test_about_time_when_at_either_end_of_the_calendar_then_is_kept() -> None:
    scribe = Scribe()
    scribe.derive("alpha", event_time=EARLIEST)
    scribe.act("write", event_time=LATEST)
    assert [one.about_time for one in scribe.graph.interactions()] == [EARLIEST, LATEST]


# -- time in a session -------------------------------------------------------------------------


def test_created_at_when_the_clock_stands_still_then_grows_by_one_microsecond() -> None:
    scribe = Scribe()
    for text in ("alpha", "beta", "gamma"):
        scribe.now = START
        scribe.derive(text)
    times = [one.created_at for one in scribe.graph.interactions()]
    assert times == [START, START + 1, START + 2]
    assert scribe.held("gamma").created_at == START + 2


def test_created_at_when_the_clock_goes_back_then_still_grows() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.now = START - 1_000 * SECOND
    scribe.demote("It rained.")
    scribe.now = START - 2_000 * SECOND
    scribe.act("write", depends_on=["alpha"])
    assert [one.created_at for one in scribe.graph.interactions()] == [START, START + 1, START + 2]
    assert {edge.created_at for edge in scribe.graph.out_edges(scribe.id("write"))} == {START + 2}


def test_created_at_when_the_clock_moves_on_then_is_the_clock() -> None:
    scribe = Scribe()
    scribe.derive("alpha")
    scribe.now = START + 1
    scribe.derive("beta")
    assert scribe.held("beta").created_at == START + 1
