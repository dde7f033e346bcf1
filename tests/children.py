"""Child processes of the process tests: started with the project on their path, always ended.

What a child has reached is read from its standard output, line by line; nothing here waits for a
length of time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_EMBEDDER = {"LAMBO_EMBEDDER": ""}
"""For `child_environment`: an empty variable counts as unset."""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The run's environment with no LAMBO_* variable but `extra`, the project importable.

    A server goes by words alone, as most tests want it: what they find must not hang on a model.
    `DEFAULT_EMBEDDER` gives it the one that users have. No worker processes stand beside it.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith("LAMBO_")}
    plain = {"LAMBO_EMBEDDER": "none", "LAMBO_CLUSTER": "false"}
    return {**kept, "PYTHONPATH": str(ROOT), **plain, **(extra or {})}


@contextmanager
def python_child(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process running `code`, with pipes; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(process: subprocess.Popen[str]) -> str:
    """The next line the child says; fails with its stderr when it says nothing more."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        _, errors = process.communicate()
        raise AssertionError(f"the child ended silently: {errors}")
    return line
