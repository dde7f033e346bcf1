"""`python -m benchmarks.retrieval [FILE] [--embedder KIND ...]`: where does the evidence stand?

FILE is in the LoCoMo format and is read where it lies. Without one, the generated set is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from benchmarks.report import Report
from benchmarks.retrieval.comparison import compare
from benchmarks.retrieval.generated import generate_tasks
from benchmarks.retrieval.locomo import read_locomo
from benchmarks.retrieval.tasks import Task
from benchmarks.retrieval.vectors import RememberingEmbedder
from memory.embed.registry import CHOICES, build_embedder

DEFAULT_KINDS = ("minilm", "fixture", "none")
FLOORS = (("evidence@5", 0.616), ("evidence@10", 0.715))
"""What plain reciprocal rank fusion of BM25 and MiniLM reaches on the dialogues measured first."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE")
    parser.add_argument("--embedder", action="append", choices=CHOICES, metavar="KIND")
    parser.add_argument("--only", action="append", metavar="NAME", help="dialogues to ask")
    parser.add_argument("--vectors", type=Path, metavar="FOLDER", help="keep vectors there")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the reports as JSON")
    options = parser.parse_args()
    tasks = generate_tasks() if options.file is None else read_locomo(options.file)
    tasks = [task for task in tasks if options.only is None or task.name in options.only]
    if not tasks:
        parser.error("no such dialogue")
    reports = {}
    for kind in options.embedder or DEFAULT_KINDS:
        report = _measure(tasks, kind, folder=options.vectors, is_file=options.file is not None)
        print(report.as_markdown(), end="\n\n", flush=True)
        reports[kind] = report.as_json(quick=False)
    if options.out is not None:
        options.out.write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")


def _measure(tasks: list[Task], kind: str, *, folder: Path | None, is_file: bool) -> Report:
    inner = build_embedder(kind)
    embedder = None if inner is None else RememberingEmbedder(inner, folder)
    floors = FLOORS if is_file and kind == "minilm" else ()
    try:
        return asyncio.run(compare(tasks, embedder, name=f"retrieval: {kind}", floors=floors))
    finally:
        if embedder is not None:
            embedder.end()


if __name__ == "__main__":
    main()
