"""`lambo recall` where no server runs: the store answers, says so, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import stop_server
from memory.cli.launcher import find_server
from serving import count, server_environment, serving

pytestmark = pytest.mark.slow

LAMBO = [sys.executable, "-P", "-m", "memory.cli.main"]
NOTE = (
    "read from the store, as last committed and without what its writer knows: no server runs on "
    "this data folder"
)


def lambo(
    folder: Path, *words: str, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAMBO, *words],
        cwd=folder,
        env=server_environment(folder, **(variables or {})),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_store_answers_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path):
        assert lambo(tmp_path, "derive", "--concept", "tokens live an hour:logic").returncode == 0
        behind = ("--session", "behind", "derive", "--concept", "tokens rest on alpha:logic")
        assert lambo(tmp_path, *behind).returncode == 0
        served = lambo(tmp_path, "recall", "tokens").stdout
    data = tmp_path / "data"
    assert find_server(data) is None
    before = count(data, "interaction", "default")

    ran = lambo(tmp_path, "recall", "tokens")

    assert (ran.returncode, ran.stderr) == (0, "")
    note, _, context = ran.stdout.partition("\n\n")
    assert note == NOTE
    assert context.startswith("tokens live an hour [Logic, by ")
    assert context.splitlines()[0].partition(" (score")[0] in served
    reply = json.loads(lambo(tmp_path, "recall", "tokens", "--json").stdout)
    assert (reply["source"], reply["warnings"]) == ("store", [NOTE])
    layered = lambo(tmp_path, "recall", "tokens", "--layer", "behind", "--layer", "none", "--json")
    lines = json.loads(layered.stdout)["warnings"]
    assert "recall: layer none is unavailable; results are from default, behind" in lines
    assert f"[behind] {NOTE}" in lines
    unknown = json.loads(lambo(tmp_path, "--session", "x", "recall", "tokens", "--json").stdout)
    assert unknown["hits"] == []
    assert find_server(data) is None
    assert count(data, "interaction", "default") == before


def test_what_is_wrong_with_a_question_is_said_as_by_a_server(tmp_path: Path) -> None:
    with serving(tmp_path):
        lambo(tmp_path, "derive", "--concept", "tokens live an hour:logic")
    ran = lambo(tmp_path, "recall", "tokens", "--top-k", "0")
    assert ran.returncode == 2
    assert "top_k must be in 1..=100 [invalid_argument]" in ran.stderr
    assert find_server(tmp_path / "data") is None


def test_where_the_store_cannot_be_read_so_a_server_is_started(tmp_path: Path) -> None:
    """A folder without a database: there is nothing to read yet."""
    ran = lambo(tmp_path, "recall", "tokens")
    try:
        assert ran.returncode == 0
        assert "started a server" in ran.stderr
    finally:
        stop_server(tmp_path / "data")
