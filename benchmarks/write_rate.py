"""How many derives does a server acknowledge a second, and how long does each caller wait?

Over HTTP and over MCP, with 1 and with 12 clients, on sessions of several sizes. Each derive is one
new statement, answered after its commit with full sync. The load client is a process of its own but
shares the machine's cores; its own share is what the bare server's figures show.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.commit_loop import measure_commits
from benchmarks.load_client import Job, Measured
from benchmarks.processes import Server, bare_server, fill, lambo_server, run_load
from benchmarks.report import Budget, Report, Row
from memory.service.loop_lag import WINDOW_SECONDS

QUESTION: Final = (
    "How many derives does the server acknowledge a second, and how long does a caller wait?"
)
SESSION: Final = "bench"
CLIENTS: Final = (1, 12)
SURFACES: Final = ("http", "mcp")
FIRST_SIZE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of the sessions that are written to, in concepts, and seconds for each figure."""

    sizes: tuple[int, ...] = (0, FIRST_SIZE, 10_000, 50_000)
    seconds: float = 6.0
    warm_up_seconds: float = 1.0


FULL: Final = Plan()
QUICK: Final = Plan(sizes=(50,), seconds=0.2, warm_up_seconds=0.1)


def run(*, quick: bool) -> Report:
    """Measure the baselines, then every size, surface and number of clients."""
    plan = QUICK if quick else FULL
    bare = _bare(plan)
    commits, rows = [], []
    for concepts in plan.sizes:
        # A disk that others use is not the same from minute to minute: ask it again for each size.
        commits.append({**_commits(plan), "concepts": concepts})
        rows += _measure_size(plan, concepts, commits[-1], bare)
    return Report(
        "write_rate",
        QUESTION,
        commits + bare,
        rows,
        [] if quick else _budgets(rows),
        [
            "`of_commits` is the rate as a share of the plain commit loop's just before, `of_bare` "
            "of the bare server's with as many clients. `cpu_ms` is processor time of the server "
            "per derive. Lag is how late a 10 ms timer of the server's loop fired: the longest "
            "step, and whatever waited its turn before the timer."
        ],
    )


def _bare(plan: Plan) -> list[Row]:
    with bare_server() as server:
        return [
            {
                "what": "the same web server, an empty application",
                "clients": clients,
                **_times(_load(plan, server, "bare", clients)),
            }
            for clients in CLIENTS
        ]


def _commits(plan: Plan) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        return measure_commits(Path(folder), seconds=plan.seconds)


def _measure_size(plan: Plan, concepts: int, commits: Row, bare: list[Row]) -> list[Row]:
    bare_rate = {row["clients"]: row["per_second"] for row in bare}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / "filled"
        if concepts:
            fill(filled, SESSION, concepts)
        for surface, clients in product(SURFACES, CLIENTS):
            # A copy for each figure: one must not grow the session of the next.
            data_dir = Path(folder) / f"{surface}-{clients}"
            if concepts:
                shutil.copytree(filled, data_dir)
            with lambo_server(data_dir) as server:
                server.get(f"/api/v1/sessions/{SESSION}/stats")  # opens the session
                # What opening cost is not of interest here.
                time.sleep(0 if plan is QUICK else WINDOW_SECONDS)
                before = server.cpu_seconds
                measured = _load(plan, server, surface, clients)
                cpu_seconds = server.cpu_seconds - before
                lag = server.get("/readyz")["loop_lag"]
            rows.append(
                {
                    "surface": surface,
                    "clients": clients,
                    "concepts": concepts,
                    **_times(measured),
                    "refused": measured.refused,
                    "cpu_ms": 1_000 * cpu_seconds / max(1, measured.sent),
                    "lag_p99_ms": lag["p99_ms"],
                    "lag_max_ms": lag["max_ms"],
                    "of_commits": measured.per_second / commits["per_second"],
                    "of_bare": measured.per_second / bare_rate[clients],
                }
            )
    return rows


def _load(plan: Plan, server: Server, kind: str, clients: int) -> Measured:
    return run_load(
        Job(
            server.port,
            kind,
            clients,
            plan.seconds,
            warm_up_seconds=plan.warm_up_seconds,
            session=SESSION,
        )
    )


def _times(measured: Measured) -> Row:
    return {
        "per_second": measured.per_second,
        "p50_ms": measured.p50_ms,
        "p95_ms": measured.p95_ms,
        "p99_ms": measured.p99_ms,
    }


def _budgets(rows: list[Row]) -> list[Budget]:
    found = {(row["surface"], row["clients"], row["concepts"]): row for row in rows}
    small, large = found["http", 12, FIRST_SIZE], found["http", 12, FULL.sizes[-1]]
    alone = found["http", 1, FIRST_SIZE]
    lag = max(row["lag_max_ms"] for row in rows)
    return [
        Budget("HTTP, 1 client: p50 in ms", alone["p50_ms"], 8),
        Budget("HTTP, 1 client: p99 in ms", alone["p99_ms"], 60),
        Budget("HTTP, 12 clients: derives/s", small["per_second"], 300, at_most=False),
        Budget(
            "HTTP, 12 clients: rate at 50,000 concepts over rate at 1,000",
            large["per_second"] / small["per_second"],
            0.8,
            at_most=False,
        ),
        Budget("longest hold of the loop in ms, any row", lag, 20),
    ]
