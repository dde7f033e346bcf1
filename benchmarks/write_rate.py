"""How many derives does a server acknowledge a second, and how long does each caller wait?

Over HTTP and over MCP, with 1 and with 12 clients, on sessions of several sizes. Each derive is one
new statement, answered after its commit with full sync. The load client is a process of its own but
shares the machine's cores; its own share is what the bare server's figures show.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Final

from benchmarks.commit_loop import measure_commits
from benchmarks.embedding import measure_embedder
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
class Case:
    """One figure: what is written to, how, and by how many."""

    embedder: str
    surface: str
    clients: int
    concepts: int


def _cases(
    embedder: str, sizes: Sequence[int], surfaces: Sequence[str] = ("http",)
) -> tuple[Case, ...]:
    return tuple(
        Case(embedder, surface, clients, concepts)
        for concepts, surface, clients in product(sizes, surfaces, CLIENTS)
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and for how many seconds each."""

    cases: tuple[Case, ...] = (
        *_cases("none", (0, FIRST_SIZE, 10_000, 50_000), SURFACES),
        # By meaning without a model's work: what is left is ours.
        *_cases("fixture", (FIRST_SIZE, 10_000, 50_000, 100_000)),
        *_cases("minilm", (FIRST_SIZE,)),
    )
    seconds: float = 6.0
    warm_up_seconds: float = 1.0


FULL: Final = Plan()
QUICK: Final = Plan(
    (
        Case("none", "http", 1, 50),
        Case("none", "mcp", 12, 50),
        Case("fixture", "http", 12, 50),
    ),
    seconds=0.2,
    warm_up_seconds=0.1,
)


def run(*, quick: bool) -> Report:
    """Measure the baselines, then every case."""
    plan = QUICK if quick else FULL
    bare = _bare(plan)
    kinds = dict.fromkeys(case.embedder for case in plan.cases)
    embedders = [measure_embedder(kind) for kind in kinds if kind != "none"]
    commits, rows = [], []
    for (embedder, concepts), cases in groupby(plan.cases, lambda c: (c.embedder, c.concepts)):
        # A disk that others use is not the same from minute to minute: ask it again for each size.
        commits.append({**_commits(plan), "embedder": embedder, "concepts": concepts})
        rows += _measure_session(plan, list(cases), commits[-1], bare, embedders)
    return Report(
        "write_rate",
        QUESTION,
        commits + bare + embedders,
        rows,
        [] if quick else _budgets(rows),
        [
            "`of_commits` is the rate as a share of the plain commit loop's just before, `of_bare` "
            "of the bare server's with as many clients. `cpu_ms` is processor time of the server "
            "per derive, `embedder_share` the part of it that the embedder takes by itself for one "
            "text. Lag is how late a 10 ms timer of the server's loop fired: the longest step, and "
            "whatever waited its turn before the timer."
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


def _measure_session(
    plan: Plan, cases: Sequence[Case], commits: Row, bare: list[Row], embedders: list[Row]
) -> list[Row]:
    """The cases that write to sessions of one size and one embedder."""
    bare_rate = {row["clients"]: row["per_second"] for row in bare}
    embed_ms = {row["embedder"]: row["cpu_ms"] for row in embedders}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / "filled"
        if cases[0].concepts:
            fill(filled, SESSION, cases[0].concepts, cases[0].embedder)
        for case in cases:
            # A copy for each figure: one must not grow the session of the next.
            data_dir = Path(folder) / f"{case.surface}-{case.clients}"
            if case.concepts:
                shutil.copytree(filled, data_dir)
            with lambo_server(data_dir, case.embedder) as server:
                server.get(f"/api/v1/sessions/{SESSION}/stats")  # opens the session
                # What opening cost is not of interest here.
                time.sleep(0 if plan is QUICK else WINDOW_SECONDS)
                before = server.cpu_seconds
                measured = _load(plan, server, case.surface, case.clients)
                cpu_ms = 1_000 * (server.cpu_seconds - before) / max(1, measured.sent)
                lag = server.get("/readyz")["loop_lag"]
                resident_mib = server.resident_mib
            rows.append(
                {
                    "embedder": case.embedder,
                    "surface": case.surface,
                    "clients": case.clients,
                    "concepts": case.concepts,
                    **_times(measured),
                    "refused": measured.refused,
                    "cpu_ms": cpu_ms,
                    "embedder_share": embed_ms.get(case.embedder, 0.0) / max(cpu_ms, 0.001),
                    "lag_p99_ms": lag["p99_ms"],
                    "lag_max_ms": lag["max_ms"],
                    "server_mib": resident_mib,
                    "of_commits": measured.per_second / commits["per_second"],
                    "of_bare": measured.per_second / bare_rate[case.clients],
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
    found = {(r["embedder"], r["surface"], r["clients"], r["concepts"]): r for r in rows}
    small, large = found["none", "http", 12, FIRST_SIZE], found["none", "http", 12, 50_000]
    alone = found["none", "http", 1, FIRST_SIZE]
    by_words = max(row["lag_max_ms"] for row in rows if row["embedder"] == "none")
    by_meaning = max(row["lag_max_ms"] for row in rows if row["embedder"] != "none")
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
        Budget(
            "by meaning (fixture), 12 clients at 10,000 concepts: derives/s",
            found["fixture", "http", 12, 10_000]["per_second"],
            150,
            at_most=False,
        ),
        Budget("longest hold of the loop by words in ms, any row", by_words, 20),
        Budget("longest hold of the loop by meaning in ms, any row", by_meaning, 20),
    ]
