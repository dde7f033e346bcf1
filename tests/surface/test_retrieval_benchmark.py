"""The generated set through the whole product: what a recall finds may not get worse unnoticed."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.report import Report
from benchmarks.retrieval.comparison import compare
from benchmarks.retrieval.generated import generate_tasks
from benchmarks.retrieval.variants import DEFAULT, VARIANTS
from benchmarks.retrieval.vectors import RememberingEmbedder
from memory.embed.registry import build_embedder

COMPARED = tuple(one for one in VARIANTS if one.name in {"default", "context off", "max"})


async def report_of(kind: str) -> Report:
    inner = build_embedder(kind)
    embedder = None if inner is None else RememberingEmbedder(inner)
    try:
        return await compare(
            generate_tasks(projects=2), embedder, name=f"retrieval: {kind}", variants=COMPARED
        )
    finally:
        if embedder is not None:
            embedder.end()


def row_of(rows: list[dict[str, Any]], what: str) -> dict[str, Any]:
    return next(row for row in rows if row["what"].startswith(what))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "at_5", "at_10"),
    [("none", 0.75, 0.82), ("fixture", 0.75, 0.84), ("minilm", 0.80, 0.90)],
)
async def test_recall_keeps_its_quality_on_the_generated_set(
    kind: str, at_5: float, at_10: float
) -> None:
    report = await report_of(kind)

    default = row_of(report.rows, DEFAULT.name)
    print(report.as_markdown())
    assert default["evidence@5"] >= at_5
    assert default["evidence@10"] >= at_10
    for baseline in report.baselines:
        assert default["evidence@10"] > baseline["evidence@10"]
    for other in ("context off", "max"):
        assert default["evidence@10"] > row_of(report.rows, other)["evidence@10"]
    # By construction nothing else holds the answer, and the dependency graph is known.
    for category in ("dependents", "identifier", "stale plan", "conflict"):
        assert row_of(report.rows, f"default: {category}")["evidence@10"] == 1.0


async def test_report_has_the_baselines_beside_every_variant() -> None:
    report = await report_of("none")

    assert [row["what"] for row in report.baselines] == ["word overlap", "BM25"]
    names = [row["what"] for row in report.rows if ":" not in row["what"]]
    assert names == [variant.name for variant in COMPARED]
    for row in report.rows[: len(names)]:
        assert row["p50 ms"] <= row["p95 ms"]
        assert 0 < row["tokens"] <= 500
