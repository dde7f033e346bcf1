"""Every benchmark runs and reports in the agreed shape. No figure is looked at: none is a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import BENCHMARKS
from children import child_environment
from source_tree import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_when_quick_then_reports_rows_beside_baselines(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))[name]
    assert report["benchmark"] == name
    assert report["quick"] is True
    assert {"cores", "python", "sqlite"} <= report["machine"].keys()
    assert report["question"].endswith("?")
    assert report["baselines"]
    assert report["rows"]
    assert all(row.get("refused", 0) == 0 for row in report["rows"])
    assert report["budgets"] == []  # tiny sizes say nothing about them
    for row in report["baselines"] + report["rows"]:
        assert all(isinstance(value, str | int | float) for value in row.values())


def test_benchmarks_when_the_name_is_unknown_then_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nonsense"],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "write_rate" in done.stderr
