"""`make` from a fresh clone: what it does, that it says so, and that it does it once.

Interpreter and pip are stand-ins that write down how they were called; what they would install is
the business of continuous integration, which does it for real on each run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from source_tree import ROOT

FAKE_PYTHON = """#!/bin/sh
echo "python $*" >> "$CALLS"
case "$1 $2" in
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/lambo" ;;
    "--version ") echo "Python 3.11.0" ;;
esac
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of a clone as make looks at, and an interpreter that only takes notes."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    fake = tmp_path / "fake-python"
    fake.write_text(FAKE_PYTHON)
    fake.chmod(0o755)
    return tmp_path


def make(clone: Path, *words: str, python: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *words, f"PYTHON={clone / 'fake-python' if python is None else python}"],
        cwd=clone,
        env={**os.environ, "CALLS": str(clone / "calls"), "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def calls_of(clone: Path) -> list[str]:
    """What was run since the last time this was asked, `--version` aside."""
    path = clone / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line.removeprefix("python ") for line in lines if "--version" not in line]


def test_serve_creates_installs_and_serves_and_does_so_once(clone: Path) -> None:
    first = make(clone, "serve")
    assert first.returncode == 0, first.stderr
    created, installed, served = calls_of(clone)
    assert created == "-m venv .venv"
    assert installed.startswith("-m pip install ")
    assert installed.endswith(" -e .")
    assert served == "serve"
    for word in ("creating .venv", "installing lambo", "serving"):
        assert word in first.stdout
    second = make(clone, "serve")
    assert calls_of(clone) == ["serve"]
    assert "installing" not in second.stdout


def test_test_installs_what_tests_need_and_runs_the_whole_suite(clone: Path) -> None:
    make(clone, "serve")
    calls_of(clone)
    assert make(clone, "test").returncode == 0
    installed, tested = calls_of(clone)
    assert installed.endswith(" -e .[dev]")
    assert tested == "-m pytest"
    make(clone, "test")
    assert calls_of(clone) == ["-m pytest"]
    make(clone, "serve")
    assert calls_of(clone) == ["serve"]


def test_other_dependencies_are_installed_anew(clone: Path) -> None:
    make(clone, "serve")
    calls_of(clone)
    with (clone / "pyproject.toml").open("a") as file:
        file.write("# another\n")
    make(clone, "serve")
    assert [line.partition(" -e")[0] for line in calls_of(clone)] == [
        "-m pip install --quiet --disable-pip-version-check",
        "serve",
    ]


def test_failed_install_is_tried_again(clone: Path) -> None:
    fake = clone / "fake-python"
    fake.write_text(FAKE_PYTHON + 'case "$2" in pip) exit 1 ;; esac\n')
    assert make(clone, "serve").returncode != 0
    shutil.rmtree(clone / ".venv" / "bin")
    fake.write_text(FAKE_PYTHON)
    (clone / ".venv" / ".created").unlink()
    calls_of(clone)
    assert make(clone, "serve").returncode == 0
    assert len(calls_of(clone)) == 3


def test_missing_python_is_said_clearly(clone: Path) -> None:
    run = make(clone, "serve", python="")
    assert run.returncode != 0
    assert "Python 3.11 or later is needed and none was found" in run.stderr


def test_kill_test_passes_the_rounds_on(clone: Path) -> None:
    fake = clone / "fake-python"
    fake.write_text(FAKE_PYTHON + 'echo "rounds $KILL_ROUNDS" >> "$CALLS"\n')
    assert make(clone, "kill-test", "ROUNDS=7").returncode == 0
    assert calls_of(clone)[-1] == "rounds 7"


def test_llama_test_has_an_environment_of_its_own(clone: Path) -> None:
    assert make(clone, "llama-test").returncode == 0
    created, asked, installed, imported, tested = calls_of(clone)
    assert created == "-m venv .llama-venv"
    assert asked == "-m pip cache list --format=abspath llama_cpp_python"
    assert installed.endswith(" -e .[dev,llama] llama-cpp-python[server]")
    assert imported == "-c import llama_cpp.server.app"
    assert "tests/process/test_llama_server.py" in tested
    assert not (clone / ".venv").exists()


def test_llama_test_installs_the_newest_wheel_that_was_built_here(clone: Path) -> None:
    fake = clone / "fake-python"
    cached = "printf '%s\\n' /cache/llama-0.3.9.whl /cache/llama-0.3.36.whl"
    fake.write_text(FAKE_PYTHON + f'case "$2 $3" in "pip cache") {cached} ;; esac\n')
    run = make(clone, "llama-test")
    assert run.returncode == 0, run.stderr
    assert calls_of(clone)[2].endswith(" /cache/llama-0.3.36.whl[server]")
    assert "installing lambo and /cache/llama-0.3.36.whl into .llama-venv" in run.stdout


def test_help_names_every_target(clone: Path) -> None:
    shown = make(clone).stdout
    phony = next(line for line in (clone / "Makefile").read_text().splitlines() if ".PHONY" in line)
    for target in phony.split()[1:]:
        assert f"\n{target} " in f"\n{shown}"
