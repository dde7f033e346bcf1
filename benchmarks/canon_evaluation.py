"""How long does an evaluation of promotions take, and its longest step?

In one process, without a server: what the event loop is held for. Every concept has outlived its
sweeps, so the survey has the most to ask. The baseline is the same question asked plainly: for each
concept, a loop over its dependents and a set of their interactions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, Final

import numpy as np

from benchmarks.report import Budget, Report, Row
from benchmarks.sessions import BORN, make_snapshot
from canon.engine.admission import explain
from canon.engine.evaluation import Evaluation, evaluate_in_steps
from canon.engine.evaluation_state import EvaluationState
from canon.engine.gate_times import Timeline
from canon.engine.measurements import Circumstances
from canon.engine.scoring import rescore
from canon.engine.settings import CanonSettings, Policy
from memory.engine.graph import Graph
from memory.engine.rules import STATUS_CODE
from memory.engine.snapshot import load_snapshot
from memory.engine.times import SECOND
from memory.engine.types import Status
from memory.testing import SequentialIds

QUESTION: Final = "How long does an evaluation cycle take, in sessions of several sizes?"
SIZES: Final = (2_320, 6_466, 100_000)
"""Concepts; a session has five times as many edges. The first has about 11,600 of them."""
SIZES_QUICK: Final = (100, 300)
ROUNDS: Final = 15
VENERABLE_EACH: Final = 40
CANDIDATE_EACH: Final = 10
"""One concept in so many stands on a step of the ladder already."""


def run(*, quick: bool) -> Report:
    """Plan a cycle under each policy, at every size."""
    baselines, rows = [], []
    for concepts in SIZES_QUICK if quick else SIZES:
        graph = make_session(concepts)
        baselines.append(
            {"what": "loops over dependents", "concepts": concepts, **_time_plain(graph, quick)}
        )
        for policy in Policy:
            for supersede in (False, True):
                settings = CanonSettings(promotion_policy=policy, canonization_supersede=supersede)
                measured = _time_policy(graph, settings, quick=quick)
                rows.append({"concepts": concepts, "edges": graph.edge_count, **measured})
    swarm = [row for row in rows if row["policy"] == "swarm" and row["supersede"] == "no"]
    budgets = [
        Budget(f"evaluation, {row['edges']:,} edges: p50 in ms", row["p50_ms"], limit)
        for row, limit in zip(swarm, (5, 20, 20), strict=False)
    ] + [
        Budget(f"{row['policy']}, {row['edges']:,} edges: longest step in ms", row["step_ms"], 20)
        for row in rows
        if row["concepts"] == SIZES[-1]
    ]
    return Report("canon_evaluation", QUESTION, baselines, rows, [] if quick else budgets)


def make_session(concepts: int) -> Graph:
    """A session in which much waits for promotion."""
    graph = load_snapshot(make_snapshot("canon", concepts))
    rows = graph.concepts.live_rows()
    graph.concepts["gc_survived"][rows] = 9
    graph.concepts["status"][rows[::CANDIDATE_EACH]] = STATUS_CODE[Status.CANDIDATE]
    graph.concepts["status"][rows[::VENERABLE_EACH]] = STATUS_CODE[Status.VENERABLE]
    return graph


def _time_policy(graph: Graph, settings: CanonSettings, *, quick: bool) -> Row:
    agents = {interaction.agent_id for interaction in graph.interactions()}
    tail = graph.tail
    assert tail is not None
    circumstances = Circumstances(
        now=tail.created_at + 600 * SECOND,
        settings=settings,
        token_created_at=dict.fromkeys(agents, BORN - 10 * 86_400 * SECOND),
    )
    timeline, scores = Timeline(), rescore(graph).scores
    totals, longest, moved = [], [], 0
    for _ in range(2 if quick else ROUNDS):
        steps = evaluate_in_steps(
            graph,
            EvaluationState(),
            circumstances,
            ids=SequentialIds(),
            scores=scores,
            timeline=timeline,
        )
        times, evaluation = _time_steps(steps)
        totals.append(1_000 * sum(times))
        longest.append(1_000 * max(times))
        moved = len(evaluation.decisions)
    start = perf_counter()
    explain(graph, 0, circumstances, timeline=timeline)
    return {
        "policy": str(settings.promotion_policy),
        "supersede": "yes" if settings.canonization_supersede else "no",
        "moved": moved,
        "p50_ms": float(np.median(totals)),
        "max_ms": max(totals),  # the first also reads every interaction
        "step_ms": float(np.median(longest)),
        "explain_ms": 1_000 * (perf_counter() - start),
    }


def _time_steps(steps: Generator[None, None, Evaluation]) -> tuple[list[float], Evaluation]:
    times: list[float] = []
    while True:
        start = perf_counter()
        try:
            next(steps)
        except StopIteration as done:
            evaluation: Evaluation = done.value
            return [*times, perf_counter() - start], evaluation
        times.append(perf_counter() - start)


def _time_plain(graph: Graph, quick: bool) -> Row:
    def ask() -> int:
        origins = graph.concepts["origin"]
        return sum(
            len({origins[dependent] for dependent in graph.dependents(row)} - {origins[row]}) >= 2
            for row in graph.concept_rows()
        )

    return {"p50_ms": float(np.median([_seconds(ask) for _ in range(1 if quick else 3)])) * 1_000}


def _seconds(ask: Callable[[], Any]) -> float:
    start = perf_counter()
    ask()
    return perf_counter() - start
