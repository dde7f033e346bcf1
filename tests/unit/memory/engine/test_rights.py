"""What a right is: patterns, scopes, and whose name an act carries."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.engine.errors import Forbidden, LamboError, SessionNotFound
from memory.engine.rights import (
    LOCAL,
    OPERATOR,
    Act,
    Rights,
    Scope,
    decide,
    matches,
    without_admin,
)

READ_ONLY = Rights(frozenset({Scope.READ}), ("shop-*",), "ann", may_act_for_others=False)
ADMIN = Rights(frozenset(Scope), ("*",), "olga", may_act_for_others=False)


def act(scope: Scope = Scope.READ, **fields: object) -> Act:
    return Act(verb="verb", scope=scope, **fields)  # type: ignore[arg-type]


def refusal(rights: Rights, asked: Act) -> LamboError:
    with pytest.raises(LamboError) as caught:
        decide(rights, asked)
    return caught.value


@pytest.mark.parametrize(
    ("pattern", "takes", "leaves"),
    [
        ("*", ["", "shop", "a b", "läden"], []),
        ("shop", ["shop"], ["Shop", "shop ", "shops", "", "sho", "a shop"]),
        ("shop-*", ["shop-", "shop-1", "shop-a-b"], ["shop", "ashop-1", "shop_1"]),
        ("*-prod", ["-prod", "eu-prod"], ["prod", "eu-prod-2"]),
        ("a*b*c", ["abc", "axxbxxc", "abcbc"], ["ab", "acb", "abcd"]),
        ("a.c", ["a.c"], ["abc"]),
        ("(x)+", ["(x)+"], ["x", "xx"]),
        ("**", ["", "x"], []),
    ],
)
def test_star_is_the_only_sign_in_a_pattern(
    pattern: str, takes: list[str], leaves: list[str]
) -> None:
    assert all(matches(pattern, name) for name in takes)
    assert not any(matches(pattern, name) for name in leaves)


@given(st.text(alphabet="ab.*", max_size=8), st.text(alphabet="ab.", max_size=8))
def test_pattern_matches_as_a_plain_reading_of_it_does(pattern: str, name: str) -> None:
    plain = "".join(".*" if char == "*" else re.escape(char) for char in pattern)
    assert matches(pattern, name) == (re.fullmatch(plain, name) is not None)


@pytest.mark.parametrize("scope", Scope)
def test_session_outside_the_patterns_is_not_found_whatever_is_missing_beside(scope: Scope) -> None:
    for name in ("other", "shop", "ashop-1"):
        error = refusal(READ_ONLY, act(scope, session=name, agent_id="bob"))
        assert isinstance(error, SessionNotFound)
        assert error.message == f"no session '{name}'"


@pytest.mark.parametrize("scope", set(Scope) - {Scope.READ})
def test_scope_that_is_not_held_is_forbidden(scope: Scope) -> None:
    error = refusal(READ_ONLY, act(scope, session="shop-1"))
    assert isinstance(error, Forbidden)
    assert error.fields["scope"] in (scope, "admin")


def test_no_scope_includes_another() -> None:
    for held in Scope:
        rights = Rights(frozenset({held}))
        for asked in Scope:
            if asked is held:
                decide(rights, act(asked))
            else:
                assert isinstance(refusal(rights, act(asked)), Forbidden)


def test_caller_on_this_machine_reads_and_writes_and_no_more() -> None:
    assert decide(LOCAL, act(Scope.WRITE, agent_id="x")) == "x"
    for scope in (Scope.BACKDATE, Scope.ADMIN):
        assert isinstance(refusal(LOCAL, act(scope)), Forbidden)


def test_token_speaks_for_its_own_agent() -> None:
    asked = act(session="shop-1")
    assert decide(READ_ONLY, asked) == "ann"
    assert decide(READ_ONLY, act(session="shop-1", agent_id="ann")) == "ann"
    assert isinstance(refusal(READ_ONLY, act(session="shop-1", agent_id="bob")), Forbidden)
    free = Rights(frozenset(Scope), ("*",), "ann", may_act_for_others=True)
    assert decide(free, act(agent_id="bob")) == "bob"
    assert decide(free, act()) == "ann"


def test_acts_on_the_whole_server_are_for_callers_of_every_session() -> None:
    asked = act(Scope.ADMIN, is_server_wide=True)
    assert decide(ADMIN, asked) == "olga"
    assert decide(OPERATOR, asked) is None
    narrow = Rights(frozenset(Scope), ("a*", "b*"), "olga")
    assert isinstance(refusal(narrow, asked), Forbidden)
    assert isinstance(refusal(LOCAL, asked), Forbidden)


def test_admin_can_be_left_at_the_door_of_a_surface() -> None:
    assert without_admin(ADMIN).scopes == frozenset(Scope) - {Scope.ADMIN}
    assert without_admin(ADMIN).patterns == ADMIN.patterns
