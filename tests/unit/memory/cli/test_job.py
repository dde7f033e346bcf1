"""`lambo job` against a server that answers as written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.cli.main import main
from scripted_server import Reply, Script, error, ok, scripted_server

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def run(script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["--url", script.url, "--data-dir", str(tmp_path), "job", *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def report(**numbers: Any) -> Reply:
    return ok(**{"ran": 1, "failed": 0, "failures": [], **numbers})


def test_run_asks_for_the_job_and_says_nothing_of_a_session_unless_told(
    run: Run, script: Script
) -> None:
    script.will_answer(report(), report())
    assert run("run", "retention") == (0, "done\n", "")
    code, out, _ = run("run", "retention", "--session", "shop", "--force", "--json")
    assert (code, json.loads(out)["ran"]) == (0, 1)
    assert [(asked.method, asked.path, asked.body) for asked in script.asked] == [
        ("POST", "/api/v1/jobs", {"job": "retention"}),
        ("POST", "/api/v1/jobs", {"job": "retention", "session": "shop", "force": True}),
    ]


def test_run_that_failed_somewhere_is_a_failure_of_the_command(run: Run, script: Script) -> None:
    script.will_answer(report(failed=1, failures=[{"session": "shop"}]))
    assert run("run", "retention") == (1, "", "lambo job run: done [job_failed]\n")


def test_job_that_is_not_there_is_a_mistake_of_the_command_line(run: Run, script: Script) -> None:
    script.will_answer(error(422, "invalid_argument", field="job"))
    assert run("run", "nothing")[0] == 2


def test_list_shows_what_the_server_says(run: Run, script: Script) -> None:
    script.will_answer(ok(jobs=[]))
    assert run("list") == (0, "done\n", "")
    assert (script.asked[0].method, script.asked[0].path) == ("GET", "/api/v1/jobs")
