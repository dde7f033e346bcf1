"""How long does an agent wait for `lambo guard`, from the start of the process to its end?

The command runs before every act of an agent, each time as a process of its own, against a server
that holds a large session. The baseline is the same interpreter doing nothing: what is over that is
ours. CPU time is shown beside, since a busy machine makes everybody wait.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.processes import ROOT, environment, fill, lambo_server
from benchmarks.report import Budget, Report, Row

QUESTION: Final = (
    "How long does `lambo guard` take, start-up included, beside a server of 50,000 concepts?"
)
CONCEPTS: Final = 50_000
CONCEPTS_QUICK: Final = 200
ROUNDS: Final = 40
ROUNDS_QUICK: Final = 2
SESSION: Final = "large"
EVENT: Final = '{"tool_name": "Bash", "cwd": "/w", "tool_input": {"command": "rm -rf build"}}'


def run(*, quick: bool) -> Report:
    """Both ways of asking, each several times."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        fill(data_dir, SESSION, CONCEPTS_QUICK if quick else CONCEPTS)
        with lambo_server(data_dir) as server:
            server.get(f"/api/v1/sessions/{SESSION}/stats")
            words = ["--data-dir", str(data_dir), "--session", SESSION]
            guard = [sys.executable, "-P", "-m", "memory.cli.main", *words, "guard"]
            nothing = _measured("python -c pass", [sys.executable, "-c", "pass"], rounds)
            rows = [
                _measured("one action", [*guard, "delete the old build folder"], rounds),
                _measured("hook", [*guard, "--hook", "claude-code"], rounds),
            ]
    slowest = max(float(row["p95_ms"]) for row in rows)
    budgets = [] if quick else [Budget("lambo guard, start-up included: p95 in ms", slowest, 150)]
    return Report("guard_latency", QUESTION, [nothing], rows, budgets)


def _measured(name: str, command: Sequence[str], rounds: int) -> Row:
    walls, cpus = [], []
    for _ in range(rounds + 1):
        before, start = os.times(), perf_counter()
        subprocess.run(
            command,
            env=environment(),
            cwd=ROOT,
            input=EVENT,
            text=True,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        walls.append(1_000 * (perf_counter() - start))
        after = os.times()
        cpus.append(
            1_000
            * (
                after.children_user
                - before.children_user
                + after.children_system
                - before.children_system
            )
        )
    # The first one fills the caches of files.
    walls, cpus = sorted(walls[1:]), cpus[1:]
    return {
        "what": name,
        "runs": rounds,
        "p50_ms": median(walls),
        "p95_ms": walls[max(0, -(-95 * rounds // 100) - 1)],
        "max_ms": walls[-1],
        "cpu_mean_ms": sum(cpus) / rounds,
    }
