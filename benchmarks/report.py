"""What every benchmark hands back: rows of figures, read against baselines of the same run.

A figure without a baseline says more about the machine than about the code; so each report carries
what the same machine did, minutes before or after, with the plainest thing that could do the job.
A budget is compared and shown, and never asserted.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit a figure should keep; `at_most` says on which side."""

    name: str
    measured: float
    limit: float
    at_most: bool = True

    @property
    def is_kept(self) -> bool:
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one benchmark. Rows are flat: names to numbers and texts."""

    benchmark: str
    question: str
    baselines: list[Row]
    rows: list[Row]
    budgets: list[Budget] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self, *, quick: bool) -> dict[str, Any]:
        """The report with when, where and how it was made."""
        return {
            "benchmark": self.benchmark,
            "question": self.question,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe_machine(),
            "quick": quick,
            "baselines": self.baselines,
            "rows": self.rows,
            "budgets": [{**asdict(budget), "is_kept": budget.is_kept} for budget in self.budgets],
            "notes": self.notes,
        }

    def as_markdown(self) -> str:
        """The same for people."""
        parts = [f"## {self.benchmark}", "", self.question]
        for title, rows in (("Baselines", self.baselines), ("Measured", self.rows)):
            parts += ["", f"**{title}**", "", _table(rows)]
        if self.budgets:
            shown = [
                {
                    "budget": budget.name,
                    "limit": f"{'<=' if budget.at_most else '>='} {budget.limit:g}",
                    "measured": budget.measured,
                    "kept": "yes" if budget.is_kept else "no",
                }
                for budget in self.budgets
            ]
            parts += ["", _table(shown)]
        parts += [f"\n{note}" for note in self.notes]
        return "\n".join(parts)


def describe_machine() -> dict[str, Any]:
    """What the figures depend on. `load` is the number of runnable threads, ours included."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": round(os.getloadavg()[0], 1),
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _table(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names)]
    lines += [[_cell(row.get(name, "")) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"
