"""`lambo reembed` against a server that answers as written: waiting, giving up, many sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.cli import reembed
from memory.cli.main import main
from scripted_server import Script, error, ok, scripted_server

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def run(
    script: Script,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    monkeypatch.setattr(reembed, "POLL_SECONDS", 0.0)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["--url", script.url, "--data-dir", str(tmp_path), "reembed", *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def at(state: str, embedded: int = 0, failure: str | None = None) -> dict[str, object]:
    return {"state": state, "embedded": embedded, "total": 9, "without_vector": 0, "error": failure}


def paths(script: Script) -> list[str]:
    return [f"{asked.method} {asked.path.removeprefix('/api/v1')}" for asked in script.asked]


def test_it_shows_how_far_it_is_until_it_is_done(run: Run, script: Script) -> None:
    script.will_answer(
        ok(**at("running")),
        ok(**at("running", 4)),
        ok(**at("running", 4)),
        ok(**at("paused", 4, "the embedder does not answer")),
        ok(**at("done", 9)),
    )
    code, out, err = run("--json", "--session", "s")
    assert (code, json.loads(out)["state"]) == (0, "done")
    assert err.splitlines() == [
        "s: 0 of 9 concepts embedded",
        "s: 4 of 9 concepts embedded",
        "s: 4 of 9 concepts embedded; waiting: the embedder does not answer",
    ]
    # After the first question it only looks: asking begins again what has failed.
    assert [asked.body["start"] for asked in script.asked] == [True, False, False, False, False]
    assert set(paths(script)) == {"POST /sessions/s/reembed"}


def test_a_server_started_anew_before_anything_was_stored_is_asked_again(
    run: Run, script: Script
) -> None:
    script.will_answer(
        ok(**at("running")),
        ok(**at("not_started")),
        ok(**at("running", 2)),
        ok(**at("done", 9)),
    )
    assert run("--session", "s")[:2] == (0, "done\n")
    assert [asked.body["start"] for asked in script.asked] == [True, False, True, False]
    assert not script.replies


def test_it_only_starts_it_when_told_not_to_wait(run: Run, script: Script) -> None:
    script.will_answer(ok(**at("running")))
    code, out, err = run("--no-wait")
    assert (code, out, err) == (0, "done\n", "")
    assert paths(script) == ["POST /sessions/default/reembed"]


def test_it_fails_when_the_server_gives_up(run: Run, script: Script) -> None:
    script.will_answer(ok(**at("running")), ok(**at("failed", 4, "the store refused it")))
    code, out, err = run("--session", "s")
    assert (code, out) == (1, "")
    assert "session 's': the store refused it [reembed_failed]" in err


def test_all_sessions_are_done_one_after_the_other_also_when_one_fails(
    run: Run, script: Script
) -> None:
    script.will_answer(
        ok(sessions=[{"session": "a"}, {"session": "b"}], next="b"),
        ok(sessions=[{"session": "c"}], next=None),
        ok(**at("not_needed", 9)),
        error(409, "lease_held"),
        ok(**at("not_needed", 9)),
    )
    code, out, err = run("--all")
    assert (code, out) == (1, "")
    assert "not re-embedded: b [reembed_failed]" in err
    assert paths(script) == [
        "GET /sessions",
        "GET /sessions?after=b",
        *[f"POST /sessions/{name}/reembed" for name in "abc"],
    ]


def test_all_of_no_sessions_is_nothing_to_do(run: Run, script: Script) -> None:
    script.will_answer(ok(sessions=[], next=None))
    assert run("--all")[:2] == (0, "no sessions\n")


def test_the_answers_of_all_sessions_are_one_object(run: Run, script: Script) -> None:
    script.will_answer(
        ok(sessions=[{"session": "a"}, {"session": "b"}], next=None),
        *[ok(summary=f"session '{name}' has them", **at("not_needed", 9)) for name in "ab"],
    )
    code, out, _ = run("--all", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["summary"] == "session 'a' has them"
    assert [row["state"] for row in answer["sessions"]] == ["not_needed", "not_needed"]
