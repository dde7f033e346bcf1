"""The form of tokens, and what may be asked for when one is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory.engine.errors import InvalidArgument
from memory.engine.rights import Scope
from memory.engine.times import SECOND
from memory.engine.tokens import (
    PATTERNS_MAX,
    SECONDS_MAX,
    STARS_MAX,
    DrawnToken,
    TokenRecord,
    TokenRequest,
    check_token_id,
    digest_of,
    droppable_tokens,
    id_of,
    opens,
    token_ages,
)
from memory.system import draw_token

DRAWN = DrawnToken("0123456789abcdef", "A_-" * 14 + "z")
RECORD = TokenRecord(
    DRAWN.token_id,
    "ci",
    "ann",
    frozenset({Scope.READ}),
    ("shop-*",),
    may_act_for_others=False,
    digest=digest_of(DRAWN.text),
    created_at=1,
    expires_at=10 * SECOND,
)


def test_secret_may_hold_the_sign_that_separates() -> None:
    assert "_" in DRAWN.secret
    assert id_of(DRAWN.text) == DRAWN.token_id


def test_drawn_tokens_have_the_form_and_differ() -> None:
    drawn = {draw_token() for _ in range(100)}
    assert len({token.token_id for token in drawn}) == len({token.secret for token in drawn}) == 100
    assert all(id_of(token.text) == token.token_id for token in drawn)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lambo",
        "lambo__",
        DRAWN.token_id,
        DRAWN.text[:-1],
        DRAWN.text + "A",
        DRAWN.text + "\n",
        " " + DRAWN.text,
        DRAWN.text.upper(),
        DRAWN.text.replace("lambo", "lambada"),
        DRAWN.text.replace("a", "а"),  # a Cyrillic letter
        DRAWN.text.replace("0", "٠"),
        "x" * 100_000,
    ],
)
def test_text_of_another_form_has_no_id(text: str) -> None:
    assert id_of(text) is None


def test_only_the_whole_live_token_opens() -> None:
    assert opens(RECORD, DRAWN.text, 9 * SECOND)
    assert not opens(RECORD, DRAWN.text[:-1] + "y", 9 * SECOND)
    assert not opens(None, DRAWN.text, 9 * SECOND)
    assert not opens(RECORD, DRAWN.text, 10 * SECOND)
    assert not opens(replace(RECORD, revoked_at=2), DRAWN.text, 9 * SECOND)
    assert not opens(RECORD, "\ud800", 9 * SECOND)


def test_record_holds_no_secret() -> None:
    assert DRAWN.secret not in repr(RECORD)
    assert RECORD.rights.agent_id == "ann"
    assert not RECORD.rights.may_act_for_others


def request(**fields: Any) -> TokenRequest:
    given: dict[str, Any] = {
        "name": "ci",
        "agent_id": "ann",
        "scopes": frozenset({Scope.READ}),
        "patterns": ("*",),
    }
    return TokenRequest(**{**given, **fields})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"agent_id": " ann"}, "agent"),
        ({"scopes": frozenset()}, "scopes"),
        ({"patterns": ()}, "sessions"),
        ({"patterns": ("a",) * (PATTERNS_MAX + 1)}, "sessions"),
        ({"patterns": ("*", "a/b")}, "sessions[1]"),
        ({"patterns": ("a?",)}, "sessions[0]"),
        ({"patterns": ("[ab]",)}, "sessions[0]"),
        ({"patterns": ("",)}, "sessions[0]"),
        ({"patterns": ("*a" * (STARS_MAX + 1),)}, "sessions[0]"),
        ({"expires_seconds": 0}, "expires_seconds"),
        ({"expires_seconds": SECONDS_MAX + 1}, "expires_seconds"),
        ({"expires_seconds": True}, "expires_seconds"),
    ],
)
def test_request_that_makes_no_sense_is_refused_by_field(
    fields: dict[str, Any], field: str
) -> None:
    assert request() is not None
    with pytest.raises(InvalidArgument) as caught:
        request(**fields)
    assert caught.value.field == field


def test_whole_token_given_as_an_id_is_refused_without_being_shown() -> None:
    assert check_token_id(DRAWN.token_id) == DRAWN.token_id
    with pytest.raises(InvalidArgument) as caught:
        check_token_id(DRAWN.text)
    assert DRAWN.secret not in f"{caught.value.as_wire()}"


def test_changing_its_token_makes_no_agent_younger() -> None:
    rotated = [
        replace(RECORD, token_id="a" * 16, created_at=5, revoked_at=50),
        replace(RECORD, token_id="b" * 16, created_at=20, expires_at=60),
        replace(RECORD, token_id="c" * 16, created_at=40),
        replace(RECORD, token_id="d" * 16, agent_id="gone", created_at=1, revoked_at=50),
    ]
    assert token_ages(rotated, 100) == {"ann": 5}
    assert token_ages(rotated[:2], 55) == {"ann": 5}
    assert token_ages(rotated[:2], 60) == {}


def test_the_oldest_token_of_an_agent_that_has_another_is_not_dropped() -> None:
    rotated = [
        replace(RECORD, token_id="a" * 16, created_at=5, revoked_at=10),
        replace(RECORD, token_id="b" * 16, created_at=10, revoked_at=15),
        replace(RECORD, token_id="c" * 16, created_at=15),
        replace(RECORD, token_id="d" * 16, agent_id="gone", created_at=1, expires_at=3),
    ]
    assert sorted(droppable_tokens(rotated, before=50)) == ["b" * 16, "d" * 16]
    assert droppable_tokens(rotated, before=12) == ["d" * 16]
