"""The programs of docs/library.md run as they stand and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "library.md").read_text()
EXAMPLES = re.findall(
    r"```python\n(.*?)```\n\nIt prints:\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL
)


def test_every_program_of_the_page_says_what_it_prints() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 3


@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_the_program_prints_what_the_page_says(place: int, tmp_path: Path) -> None:
    program, printed = EXAMPLES[place]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LAMBO_")}
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "" or "Traceback" not in done.stderr, done.stderr
    assert done.stdout == printed
