"""A start with an absurd setting ends at once, says which one, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from children import child_environment
from lambo_site.configuration import SETTINGS, Setting

USAGE = 2
pytestmark = pytest.mark.slow


def serve(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "memory.cli.main", "serve"],
        cwd=folder,
        env=child_environment(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


NUMBERS = [setting for setting in SETTINGS if setting.bound is not None]
ABSURD = ("0", "-1", "1e300", "nan", "text", "true", "0x10", "inf")


def absurd_for(setting: Setting, number: int) -> str:
    """One of the absurd texts; where 0 is a good value, another."""
    text = ABSURD[number % len(ABSURD)]
    is_good = text == "0" and setting.bound is not None and setting.bound.low <= 0
    return "-1" if is_good else text


@pytest.mark.parametrize(
    ("setting", "text"),
    # Each setting with one of them here; every pair is tried on the function that reads them.
    [(setting, absurd_for(setting, n)) for n, setting in enumerate(NUMBERS)],
    ids=lambda value: value if isinstance(value, str) else value.key,
)
def test_absurd_variable_stops_the_server_by_name(
    setting: Setting, text: str, tmp_path: Path
) -> None:
    run = serve(tmp_path, **{setting.variable: text})
    assert run.returncode == USAGE
    assert f"{setting.key} must be {setting.bound}" in run.stderr
    assert setting.variable in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_absurd_file_stops_the_server_by_name(tmp_path: Path) -> None:
    (tmp_path / "lambo.toml").write_text("[server]\nport = nan\n")
    run = serve(tmp_path)
    assert run.returncode == USAGE
    assert "server.port must be a whole number" in run.stderr
    assert str(tmp_path / "lambo.toml") in run.stderr


def test_data_folder_that_is_a_file_stops_the_server_by_name(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    run = serve(tmp_path)
    assert run.returncode != 0
    assert f"{tmp_path / 'data'} is a file" in run.stderr
    assert "Traceback" not in run.stderr
