"""How long does opening a large session take, and is the loop free meanwhile?

A session of 100,000 concepts and 500,000 edges is loaded from SQLite in a process of its own, step
by step, and then opened by a running server whose loop is watched. The baseline is plain sqlite3
fetching the same rows as tuples: nobody who starts from rows can be faster.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.processes import fill, lambo_server, run_module, store_settings
from benchmarks.report import Budget, Report

QUESTION: Final = (
    "How long does opening a session of 100,000 concepts and 500,000 edges take, and how long does "
    "the server's loop stand still meanwhile?"
)
CONCEPTS: Final = 100_000
CONCEPTS_QUICK: Final = 200
SESSION: Final = "large"
ROUNDS: Final = 3


def run(*, quick: bool) -> Report:
    """Load the session several times; the fastest round counts, the others were disturbed."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        fill(data_dir, SESSION, CONCEPTS_QUICK if quick else CONCEPTS)
        rounds = [
            run_module(
                "benchmarks.session_load", {"session_id": SESSION}, **store_settings(data_dir)
            )
            for _ in range(1 if quick else ROUNDS)
        ]
        best = min(rounds, key=lambda found: found["total_s"])
        with lambo_server(data_dir) as server:
            start = perf_counter()
            server.get(f"/api/v1/sessions/{SESSION}/stats")
            first_answer_seconds = perf_counter() - start
            lag = server.get("/readyz")["loop_lag"]
            resident_mib = server.resident_mib
    plain_seconds, rows = min(found["plain_s"] for found in rounds), best["rows"]
    row = {
        "concepts": best["concepts"],
        "edges": best["edges"],
        **{name: best[name] for name in ("read_s", "graph_s", "index_s", "total_s")},
        "of_plain": best["total_s"] / plain_seconds,
        "first_answer_s": first_answer_seconds,
        "lag_p99_ms": lag["p99_ms"],
        "lag_max_ms": lag["max_ms"],
        "server_mib": resident_mib,
    }
    budgets = [
        Budget("load of 100,000 concepts and 500,000 edges in s", best["total_s"], 4),
        Budget("longest hold of the loop while it loads in ms", lag["max_ms"], 20),
    ]
    return Report(
        "open_session",
        QUESTION,
        [{"what": "plain sqlite3, fetchall", "rows": rows, "seconds": plain_seconds}],
        [row],
        [] if quick else budgets,
        ["`of_plain` is the whole load as a multiple of fetching the same rows as tuples."],
    )
