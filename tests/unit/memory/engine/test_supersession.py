"""Which pairs of texts look like two versions of one claim."""

from __future__ import annotations

import pytest

from memory.engine.supersession import is_new_version


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("the service uses Postgres 14", "the service uses Postgres 15"),
        ("The service uses Postgres 14.", "the service uses postgres 15"),
        ("billing retries three times", "billing retries five times"),
        ("the limit is 30 seconds", "the limit is two minutes"),
        ("deploys are on Monday at noon", "deploys are on Friday at noon"),
    ],
)
def test_one_span_behind_a_predicate_is_a_new_version(older: str, newer: str) -> None:
    assert is_new_version(older, newer)
    assert is_new_version(newer, older)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Anna owns the service", "Ben owns the service"),  # the subject differs
        ("v1 is stable", "v2 is stable"),
        ("the limit of 30 is kept", "the limit of 40 is kept"),  # before the predicate
        ("it is 3 and costs 4", "it is 5 and costs 6"),  # two spans
        ("the limit is 30", "the limit is 30 seconds"),  # only one side says more
        ("timeout 30 seconds", "timeout 40 seconds"),  # no predicate
        ("the limit is 30", "the limit is 30"),
        ("", ""),
        ("...", "!!!"),
    ],
)
def test_anything_else_is_not(left: str, right: str) -> None:
    assert not is_new_version(left, right)
    assert not is_new_version(right, left)


def test_long_texts_are_read_in_one_pass() -> None:
    text = "the value is " + "word " * 3_000
    assert is_new_version(text + "one end", text + "two end")
