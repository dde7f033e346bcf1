"""How long does a recall take as a session grows?

In one process, without a server: what the event loop is held for. The baseline is the plainest
BM25, a loop over dicts of postings, on the same questions and the same statements; it only ranks,
while a recall also follows edges and writes the answer.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from heapq import nlargest
from random import Random
from time import perf_counter
from typing import Any, Final

from benchmarks.load_client import percentile
from benchmarks.report import Budget, Report, Row
from benchmarks.sessions import BORN, make_snapshot, word
from memory.engine.graph import Graph
from memory.engine.inverted_index import K1, B
from memory.engine.requests import RecallRequest
from memory.engine.snapshot import load_snapshot
from memory.engine.text import index_tokens
from recall.engine.pipeline import recall

QUESTION: Final = "How long does a recall hold the loop, in sessions of several sizes?"
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
            {"concepts": concepts, **found, "of_plain_p50": found["p50_ms"] / plain["p50_ms"]}
        )
    budgets = [Budget("recall at 100,000 concepts: p95 in ms", rows[-1]["p95_ms"], 20)]
    return Report("recall_latency", QUESTION, baselines, rows, [] if quick else budgets)


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
