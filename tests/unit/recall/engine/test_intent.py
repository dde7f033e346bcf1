"""What the words of an action say it does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.engine.text import word_stems
from recall.engine.intent import Intent, begins_as_act, intent_of, split_clauses


def intents(action: str) -> list[Intent]:
    return [intent_of(clause) for clause in split_clauses(action)]


@pytest.mark.parametrize(
    "action",
    [
        "delete the shared security group",
        "I am removing the user schema now",
        "terraform destroy -target=aws_security_group.shared",
        "psql -c 'DROP TABLE users'",
        "cat victims.txt | xargs rm",
        "find . -name '*.rs' -delete",
        "read the schema and delete it",
        "do not ask, delete it",
        "git rm handlers/users.rs",
    ],
)
def test_what_takes_something_away_removes(action: str) -> None:
    assert intents(action) == [Intent.REMOVE]


@pytest.mark.parametrize(
    "action",
    [
        "read the user schema",
        "grep -rn delete src",
        "cat handlers/users.rs",
        "git commit -m 'remove the users table'",
        "list what was reserved",
        "show the version's log",
    ],
)
def test_what_only_looks_reads(action: str) -> None:
    assert intents(action) == [Intent.READ]


@pytest.mark.parametrize(
    "action",
    [
        "edit handlers/users.rs",
        "do not delete the user schema",
        "don't drop the users table",
        "never remove it",
        "refactor without deleting anything",
        "frobnicate the widget",
        "cat template > handlers/users.rs",
        "review and update the schema",
    ],
)
def test_everything_else_changes(action: str) -> None:
    assert intents(action) == [Intent.CHANGE]


def test_each_command_of_a_line_has_its_own_intent() -> None:
    told = intents("rm old.txt && cat users.rs; edit users.rs\nread it. Then drop it.")
    assert told == [Intent.REMOVE, Intent.READ, Intent.CHANGE, Intent.READ, Intent.REMOVE]


def test_word_inside_a_name_is_no_act_but_the_first_word_is() -> None:
    (clause,) = split_clauses("open the delete handler")
    assert intent_of(clause, named=frozenset({1, 2})) is Intent.READ
    (clause,) = split_clauses("delete handler")
    assert intent_of(clause, named=frozenset({0, 1})) is Intent.REMOVE


def test_spellings_of_one_name_have_the_same_words() -> None:
    spellings = ["handlers/users.rs", "HandlersUsers.rs", "handler_user-rs", "handlers: users, rs"]
    assert {word_stems(text) for text in spellings} == {("handler", "user", "rs")}


def test_a_name_is_an_act_when_it_begins_with_one() -> None:
    assert begins_as_act(word_stems("drop the users table"))
    assert not begins_as_act(word_stems("users table"))
    assert not begins_as_act(())


@given(st.text(max_size=300))
def test_any_text_falls_into_clauses_with_words(action: str) -> None:
    clauses = list(split_clauses(action))
    assert all(clause.words for clause in clauses)
    assert {intent_of(clause) for clause in clauses} <= set(Intent)
    assert bool(clauses) <= bool(word_stems(action))
