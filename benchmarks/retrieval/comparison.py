"""The report: the product under each set of settings, beside the baselines, on the same questions.

Owns how a run is laid out. Every figure of a row is over the same questions, and differences carry
the interval of a paired bootstrap against the better baseline, BM25.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from benchmarks.load_client import percentile
from benchmarks.report import Budget, Report, Row
from benchmarks.retrieval.asking import Product
from benchmarks.retrieval.baselines import rank_by_bm25, rank_by_overlap
from benchmarks.retrieval.figures import (
    DEPTH,
    Judged,
    by_category,
    interval,
    judge,
    summary,
)
from benchmarks.retrieval.tasks import Task
from benchmarks.retrieval.variants import DEFAULT, VARIANTS, Variant
from memory.engine.embedding import Embedder

QUESTION: Final = "Does a recall find the texts that hold the answer?"
BASELINES: Final = {"word overlap": rank_by_overlap, "BM25": rank_by_bm25}


async def compare(
    tasks: Sequence[Task],
    embedder: Embedder | None,
    *,
    name: str,
    variants: Sequence[Variant] = VARIANTS,
    floors: Sequence[tuple[str, float]] = (),
) -> Report:
    """Write every task once, ask it under each variant, and judge.

    `floors` are budgets on columns of the default's row.
    """
    product = Product(embedder)
    for task in tasks:
        await product.write(task)
    judged = {kind: _judge_baseline(kind, tasks) for kind in BASELINES}
    rows: list[Row] = []
    notes: list[str] = []
    for variant in variants:
        if variant.needs_vectors and embedder is None:
            continue
        judged[variant.name], costs = await _judge_variant(product, variant, tasks)
        low, high = interval(judged[variant.name], judged["BM25"], lambda one: one.evidence_10)
        rows.append(
            {"what": variant.name}
            | summary(judged[variant.name])
            | {"over BM25 at 10": f"{low:+.3f} to {high:+.3f}"}
            | costs
        )
    if DEFAULT in variants:
        notes.append(_differences(judged, variants))
    return Report(
        name,
        QUESTION,
        [{"what": kind} | summary(judged[kind]) for kind in BASELINES],
        rows + _rows_of_categories(judged, rows),
        [Budget(column, rows[0][column], floor, at_most=False) for column, floor in floors],
        notes,
    )


def _judge_baseline(kind: str, tasks: Sequence[Task]) -> list[Judged]:
    judged = []
    for task in tasks:
        rank = BASELINES[kind]([write.text for write in task.writes])
        for question in task.questions:
            ranking = [(task.writes[place].id,) for place in rank(question.text)[:DEPTH]]
            judged.append(judge(question, ranking, task.group_of))
    return judged


async def _judge_variant(
    product: Product, variant: Variant, tasks: Sequence[Task]
) -> tuple[list[Judged], Row]:
    judged: list[Judged] = []
    tokens: list[int] = []
    times: list[float] = []
    for task in tasks:
        answers = await product.ask(
            task,
            settings=variant.settings,
            has_standing=variant.has_standing,
            traversal_depth=variant.traversal_depth,
        )
        for question, asked in zip(task.questions, answers, strict=True):
            judged.append(judge(question, asked.ranking, task.group_of))
            tokens.append(asked.tokens)
            times.append(asked.milliseconds)
    times.sort()
    costs: Row = {
        "tokens": round(median(tokens)),
        "p50 ms": round(percentile(times, 0.5), 2),
        "p95 ms": round(percentile(times, 0.95), 2),
    }
    return judged, costs


def _differences(judged: dict[str, list[Judged]], variants: Sequence[Variant]) -> str:
    """What each change costs or gains against the default, with its interval."""
    told = []
    for variant in variants:
        if variant is not DEFAULT and variant.name in judged:
            low, high = interval(
                judged[variant.name], judged[DEFAULT.name], lambda one: one.evidence_10
            )
            told.append(f"{variant.name} {low:+.3f} to {high:+.3f}")
    return "Against the default, evidence@10 (95 %, paired bootstrap): " + "; ".join(told) + "."


def _rows_of_categories(judged: dict[str, list[Judged]], rows: Sequence[Row]) -> list[Row]:
    """The default and BM25 by category of question."""
    found: list[Row] = []
    for kind in ("BM25", *(str(row["what"]) for row in rows[:1])):
        for category, some in by_category(judged[kind]).items():
            found.append({"what": f"{kind}: {category} ({len(some)})"} | summary(some))
    return found
