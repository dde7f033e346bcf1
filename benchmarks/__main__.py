"""`python -m benchmarks [NAME ...] [--out FILE] [--quick]`: measure and print."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import (
    backup,
    canon_cycle,
    canon_evaluation,
    event_latency,
    guard_latency,
    open_session,
    portal,
    recall_latency,
    write_rate,
)
from benchmarks.report import Report

BENCHMARKS: Final[dict[str, Callable[..., Report]]] = {
    "write_rate": write_rate.run,
    "open_session": open_session.run,
    "recall_latency": recall_latency.run,
    "event_latency": event_latency.run,
    "canon_cycle": canon_cycle.run,
    "canon_evaluation": canon_evaluation.run,
    "backup": backup.run,
    "guard_latency": guard_latency.run,
    "portal": portal.run,
}
RESULTS: Final = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; default all"
    )
    parser.add_argument("--out", type=Path, help="one JSON file for all reports")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: figures mean nothing")
    options = parser.parse_args()
    unknown = set(options.names) - BENCHMARKS.keys()
    if unknown:
        known = ", ".join(BENCHMARKS)
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {known}")
    reports = {}
    for name in options.names or BENCHMARKS:
        report = BENCHMARKS[name](quick=options.quick)
        reports[name] = report.as_json(quick=options.quick)
        print(report.as_markdown(), end="\n\n", flush=True)
        if options.out is None:
            RESULTS.mkdir(exist_ok=True)
            _write(RESULTS / f"{name}.json", reports[name])
    if options.out is not None:
        _write(options.out, reports)


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
