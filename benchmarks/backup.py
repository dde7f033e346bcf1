"""How long do a backup and its way back take, and how much memory?

A session of 100,000 concepts and 500,000 edges with vectors of the fixture embedder. Each command
is a process of its own, as people run it, its start and the migrations of a new folder included.
The baseline is SQLite's own online copy of the same file: bytes, neither checked nor portable.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.processes import ROOT, environment, fill
from benchmarks.report import Report

QUESTION: Final = "How long do a backup of 100,000 concepts and restoring it take?"
CONCEPTS: Final = 100_000
CONCEPTS_QUICK: Final = 200
SESSION: Final = "large"


def run(*, quick: bool) -> Report:
    """Back up, bring everything back elsewhere, then the session once more beside itself."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data_dir, new, file = folder / "data", folder / "new", folder / "large.lambo"
        fill(data_dir, SESSION, CONCEPTS_QUICK if quick else CONCEPTS, "fixture")
        copied = _copy(data_dir / "lambo.sqlite3", folder / "copy.sqlite3")
        rows = [
            {"what": "backup", **_measure(data_dir, "backup", str(file))},
            {"what": "restore-backup", **_measure(new, "restore-backup", str(file))},
            {
                "what": "restore-backup --into",
                **_measure(new, "restore-backup", str(file), "--into", "beside"),
            },
        ]
        for row in rows:
            row["file_mib"] = file.stat().st_size / 2**20
        size = (data_dir / "lambo.sqlite3").stat().st_size / 2**20
    baseline = {"what": "sqlite3 online copy", "seconds": copied, "file_mib": size}
    return Report(
        "backup",
        QUESTION,
        [baseline],
        rows,
        notes=["`peak_mib` is the most memory the command's process held."],
    )


def _copy(source: Path, target: Path) -> float:
    start = perf_counter()
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
    return perf_counter() - start


def _measure(data_dir: Path, *words: str) -> dict[str, Any]:
    """Run one command; its time and its peak memory."""
    start = perf_counter()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), *_spelled(words)],
        env=environment(LAMBO_DATA_DIR=str(data_dir), LAMBO_EMBEDDER="fixture"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words[0]} ended with {process.returncode}")
    return {"seconds": perf_counter() - start, "peak_mib": usage.ru_maxrss / 1024}


def _spelled(words: tuple[str, ...]) -> list[str]:
    """As Django knows the command, whose module has no hyphen."""
    return [words[0].replace("-", "_"), *words[1:]]
