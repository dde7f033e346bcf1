"""What an embedder takes by itself for the texts the load client sends: the baseline of its share.

Measured in this process on one thread, one text a call: the processor time a derive or a recall
cannot do without, whatever the server adds.
"""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import Final

from benchmarks.load_client import percentile, statement
from benchmarks.report import Row
from memory.embed.registry import build_embedder
from memory.engine.embedding import Embedder, EmbeddingFailure

TEXTS: Final = 400
DEADLINE_SECONDS: Final = 60.0


def measure_embedder(kind: str, *, texts: int = TEXTS) -> Row:
    """Time of one text, waiting included, and its processor time."""
    embedder = build_embedder(kind)
    assert embedder is not None
    try:
        # The first call waits for the model to be loaded, and the next ones warm its memory.
        for number in range(10):
            _embed_one(embedder, number)
        cpu_before, times = thread_time(), []
        for number in range(texts):
            start = perf_counter()
            _embed_one(embedder, number)
            times.append(1_000 * (perf_counter() - start))
        cpu_ms = 1_000 * (thread_time() - cpu_before) / texts
    finally:
        embedder.close()
    times.sort()
    return {
        "what": f"the embedder {kind} by itself, one text a call",
        "embedder": kind,
        "per_second": 1_000 * texts / sum(times),
        **{f"p{share}_ms": percentile(times, share / 100) for share in (50, 95, 99)},
        "cpu_ms": cpu_ms,
    }


def _embed_one(embedder: Embedder, number: int) -> None:
    (result,) = embedder.embed([statement(number)], deadline_seconds=DEADLINE_SECONDS)
    assert not isinstance(result, EmbeddingFailure)
