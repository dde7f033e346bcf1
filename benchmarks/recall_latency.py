"""How long does a recall take as a session grows?

In one process, without a server: what the event loop is held for. The baseline is the plainest
BM25, a loop over dicts of postings, on the same questions and the same statements; it only ranks,
while a recall also follows edges and writes the answer. Then over HTTP, by words and by meaning:
what one client waits for, and how much of that is the embedder's.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from heapq import nlargest
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, Final

from benchmarks.embedding import measure_embedder
from benchmarks.load_client import Job, percentile
from benchmarks.processes import fill, lambo_server, run_load
from benchmarks.report import Budget, Report, Row
from benchmarks.sessions import BORN, make_snapshot, word
from memory.engine.graph import Graph
from memory.engine.inverted_index import K1, B
from memory.engine.requests import RecallRequest
from memory.engine.snapshot import load_snapshot
from memory.engine.text import index_tokens
from recall.engine.pipeline import recall

QUESTION: Final = (
    "How long does a recall hold the loop in sessions of several sizes, and how long does a caller "
    "wait?"
)
SESSION: Final = "recall"
SERVED: Final = (("none", 10_000), ("fixture", 10_000), ("fixture", 100_000), ("minilm", 1_000))
SERVED_QUICK: Final = (("none", 50), ("fixture", 50))
SIZES: Final = (1_000, 10_000, 100_000)
SIZES_QUICK: Final = (100, 300)
QUESTIONS: Final = 300
WORDS_PER_QUESTION: Final = 6
LIMIT: Final = 20


class PlainBm25:
    """BM25 by the book: for each word of the question, add to each document that holds it."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self.lengths = [len(document) for document in documents]
        self.average = sum(self.lengths) / len(self.lengths)
        self.postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, document in enumerate(documents):
            for term, count in Counter(document).items():
                self.postings[term].append((number, count))

    def search(self, tokens: Sequence[str], limit: int) -> list[tuple[int, float]]:
        scores: dict[int, float] = defaultdict(float)
        for term in set(tokens):
            holders = self.postings.get(term, ())
            idf = math.log(1 + (len(self.lengths) - len(holders) + 0.5) / (len(holders) + 0.5))
            for number, count in holders:
                damping = K1 * (1 - B + B * self.lengths[number] / self.average)
                scores[number] += idf * (K1 + 1) * count / (count + damping)
        return nlargest(limit, scores.items(), key=lambda hit: hit[1])


def run(*, quick: bool) -> Report:
    """Ask the same questions of both, at every size."""
    baselines, rows = [], []
    asked = 10 if quick else QUESTIONS
    for concepts in SIZES_QUICK if quick else SIZES:
        random = Random(concepts)
        questions = [
            " ".join(word(random) for _ in range(WORDS_PER_QUESTION)) for _ in range(asked)
        ]
        graph = load_snapshot(make_snapshot("recall", concepts))
        plain = _measure_plain(graph, questions)
        found = _time(partial(_ask, graph), questions)
        baselines.append({"what": "BM25 over dicts", "concepts": concepts, **plain})
        rows.append(
            {
                "where": "the engine",
                "embedder": "none",
                "concepts": concepts,
                **found,
                "of_plain_p50": found["p50_ms"] / plain["p50_ms"],
            }
        )
    budgets = [Budget("recall at 100,000 concepts: p95 in ms", rows[-1]["p95_ms"], 20)]
    for embedder, concepts in SERVED_QUICK if quick else SERVED:
        alone = None
        if embedder != "none":
            alone = measure_embedder(embedder)
            baselines.append(alone)
        rows.append(_measure_served(embedder, concepts, alone, seconds=0.2 if quick else 5.0))
    return Report(
        "recall_latency",
        QUESTION,
        baselines,
        rows,
        [] if quick else budgets,
        [
            "Over HTTP one client asks. `embedder_share` is what the embedder takes by itself for "
            "one question, of the time the caller waits at the median."
        ],
    )


def _measure_served(embedder: str, concepts: int, alone: Row | None, *, seconds: float) -> Row:
    """What one client waits for over HTTP; `alone` is the embedder without a server."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        fill(data_dir, SESSION, concepts, embedder)
        with lambo_server(data_dir, embedder) as server:
            server.get(f"/api/v1/sessions/{SESSION}/stats")  # opens the session
            measured = run_load(Job(server.port, "recall", 1, seconds, session=SESSION))
    return {
        "where": "HTTP",
        "embedder": embedder,
        "concepts": concepts,
        "p50_ms": measured.p50_ms,
        "p95_ms": measured.p95_ms,
        "max_ms": measured.max_ms,
        "refused": measured.refused,
        "embedder_share": 0.0 if alone is None else alone["p50_ms"] / measured.p50_ms,
    }


def _ask(graph: Graph, question: str) -> Any:
    return recall(graph, RecallRequest(question), now=BORN)


def _measure_plain(graph: Graph, questions: Sequence[str]) -> Row:
    plain = PlainBm25([key.split() for key in graph.concepts.keys])
    return _time(lambda question: plain.search(index_tokens(question), LIMIT), questions)


def _time(ask: Callable[[str], Any], questions: Sequence[str]) -> Row:
    for question in questions[: len(questions) // 10]:
        ask(question)
    times = []
    for question in questions:
        start = perf_counter()
        ask(question)
        times.append(1_000 * (perf_counter() - start))
    times.sort()
    return {f"p{share}_ms": percentile(times, share / 100) for share in (50, 95)} | {
        "max_ms": times[-1]
    }
