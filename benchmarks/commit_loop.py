"""What the disk does: how often plain sqlite3 can commit a few rows with full sync.

The baseline of `write_rate`: nobody who acknowledges after the commit can answer one client faster.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from time import perf_counter

from benchmarks.load_client import percentile, statement
from benchmarks.report import Row

ROWS_PER_COMMIT = 5
"""As many as a derive of one new statement writes, its receipt included."""


def measure_commits(folder: Path, *, seconds: float) -> Row:
    """Commit in a loop on one connection with the settings of the product."""
    connection = sqlite3.connect(folder / "plain.sqlite3", isolation_level=None)
    times: list[float] = []
    try:
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE memory (id INTEGER PRIMARY KEY, content TEXT)")
        start = perf_counter()
        while perf_counter() < start + seconds:
            before = perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            rows = [(statement(at),) for at in range(ROWS_PER_COMMIT)]
            connection.executemany("INSERT INTO memory (content) VALUES (?)", rows)
            connection.execute("COMMIT")
            times.append(perf_counter() - before)
        elapsed = perf_counter() - start
    finally:
        connection.close()
    times.sort()
    return {
        "what": f"plain sqlite3, {ROWS_PER_COMMIT} rows and a full sync per commit",
        "clients": 1,
        "per_second": len(times) / elapsed,
        **{f"p{share}_ms": 1_000 * percentile(times, share / 100) for share in (50, 95, 99)},
    }
