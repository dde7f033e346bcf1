"""What people read, what programs read, and what is said beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.cli import recall, stats
from memory.cli.identity import default_agent, machine_id
from memory.cli.main import print_answer, report
from memory.client import Answer
from memory.engine.errors import AmbiguousFocus, LeaseHeld, OutcomeUnknown

LINE = "reserved by 'b'"


def answer_of(text: str, *, key: str | None = None, replayed: bool = False, **data: Any) -> Answer:
    structured = {"warnings": [], **data}
    return Answer(
        text=text,
        structured=structured,
        warnings=structured["warnings"],
        idempotency_key=key,
        replayed=replayed,
    )


def hit(*annotations: str, included: bool) -> dict[str, Any]:
    notes = [{"kind": "reservation", "text": text} for text in annotations]
    return {"content": "x", "included_in_context": included, "annotations": notes}


def test_context_with_all_its_warnings_is_shown_as_it_is() -> None:
    answer = answer_of(f"x [Entity]\n{LINE}", hits=[hit(LINE, included=True)], warnings=[LINE])
    assert recall.render(answer) == f"x [Entity]\n{LINE}"


def test_warnings_cut_off_with_their_hit_come_first() -> None:
    answer = answer_of(
        "x [Entity]",
        hits=[hit(included=True), hit("⚑ flagged already", LINE, included=False)],
        warnings=["⚑ flagged already", LINE, "lease unconfirmed"],
    )
    assert recall.render(answer).splitlines() == [
        "⚑ flagged already",
        f"⚑ {LINE}",
        "⚑ lease unconfirmed",
        "",
        "x [Entity]",
    ]


def test_warnings_of_a_layer_stand_once_and_say_whose_they_are() -> None:
    """One shown under its hit, and the same one cut off with a hit of another layer."""
    shown, cut = hit(LINE, included=True), hit(LINE, included=False)
    shown["session"], cut["session"] = "near", "far"
    answer = answer_of(
        f"x [Entity] from near\n{LINE}",
        hits=[shown, cut],
        warnings=[f"[near] {LINE}", f"[far] {LINE}"],
    )
    assert recall.render(answer).splitlines() == [
        f"⚑ [far] {LINE}",
        "",
        "x [Entity] from near",
        LINE,
    ]


def test_warnings_without_any_context_stand_alone() -> None:
    assert recall.render(answer_of("", hits=[], warnings=["store away"])) == "⚑ store away"
    assert recall.render(answer_of("", hits=[])) == ""


def test_json_is_the_structured_reply_and_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of("text", key="k", summary="☕")
    print_answer(stats.VERB, answer, as_json=True)
    told = capsys.readouterr()
    assert json.loads(told.out) == {"warnings": [], "summary": "☕", "idempotency_key": "k"}
    assert "☕" in told.out
    assert told.err == ""


def test_warnings_are_talk(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of("shown here", warnings=["shown here", "and this"], replayed=True)
    print_answer(stats.VERB, answer, as_json=False)
    told = capsys.readouterr()
    assert told.out == "shown here\n"
    assert told.err.splitlines() == [
        "lambo stats: warning: and this",
        "lambo stats: done before under this key; not done again",
    ]


def test_nothing_found_is_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(recall.VERB, answer_of("", hits=[]), as_json=False)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "lambo recall: nothing found\n")


def test_failure_says_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("lambo derive", LeaseHeld("held by node-2")) == 1
    assert capsys.readouterr().err == "lambo derive: held by node-2 [lease_held]\n"


def test_question_that_cannot_be_understood_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("lambo inspect", AmbiguousFocus("'x' matches 2 concepts:\n  a\n  b")) == 2
    assert capsys.readouterr().err.endswith("  b [ambiguous_focus]\n")


def test_unknown_outcome_says_how_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("lambo derive", OutcomeUnknown("who knows", idempotency_key="k")) == 1
    assert "lambo receipts k" in capsys.readouterr().err


def test_agent_by_default_is_the_user_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "DOMAIN\\zoë b")
    assert default_agent() == f"DOMAIN-zoë-b-{machine_id()}"

    def nobody() -> str:
        raise KeyError("no such uid")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert default_agent() == f"user-{machine_id()}"
