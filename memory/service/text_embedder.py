"""The embedder of a host, as the event loop asks it: batched, on its own threads, with a deadline.

Owns the line of waiting texts and the worker threads. Texts that come while all workers are busy
are embedded together in the next call. Whatever the embedder does (raise, hang, answer too few, too
wide, not a number), every text gets its result by the deadline: a vector of the contract, or a
failure that says why. A hanging embedder costs one deadline, not one for every write: while all
workers hang, texts fail at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Final

from memory.engine.embedding import (
    Embedded,
    Embedder,
    EmbeddingContract,
    EmbeddingFailure,
    check_vector,
)
from memory.service.measures import NO_MEASURES, Measures, count_failures

log = logging.getLogger("lambo.embedder")

WORKERS: Final = 2
BATCH_TEXTS: Final = 64
WAITING_TEXTS: Final = 4_096
"""Texts in line over which new ones fail at once."""

_CLOSED: Final = EmbeddingFailure("the embedder is closed")
_HANGS: Final = EmbeddingFailure("the embedder does not answer")
_CROWDED: Final = EmbeddingFailure("too many texts wait for the embedder")

_Job = tuple[str, "asyncio.Future[Embedded]"]


class TextEmbedder:
    """Embeds texts off the event loop. Made and used on the loop's thread."""

    def __init__(
        self, embedder: Embedder, *, deadline_seconds: float, measures: Measures = NO_MEASURES
    ) -> None:
        self._embedder = embedder
        self._measures = measures
        self._deadline_seconds = deadline_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Job] = deque()
        self._batches: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._started_at: dict[int, float] = {}  # of the calls under way, in seconds of the loop
        self._closed = False
        for number in range(WORKERS):
            # Daemons: a model that never returns must not keep the process from ending.
            name = f"lambo-embedder-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    @property
    def contract(self) -> EmbeddingContract:
        return self._embedder.contract

    async def embed(self, texts: Sequence[str]) -> dict[str, Embedded]:
        """A result for each text, within the deadline. Raises nothing."""
        results = await self._embed(texts)
        if failures := count_failures(results.values()):
            self._measures.not_embedded(failures)
        return results

    async def _embed(self, texts: Sequence[str]) -> dict[str, Embedded]:
        failure = self._find_refusal()
        if failure is not None:
            return dict.fromkeys(texts, failure)
        jobs: list[_Job] = [(text, self._loop.create_future()) for text in dict.fromkeys(texts)]
        self._waiting.extend(jobs)
        self._send()
        if jobs:
            await asyncio.wait([job[1] for job in jobs], timeout=self._deadline_seconds)
        late = EmbeddingFailure(f"not embedded within {self._deadline_seconds:g} s")
        results: dict[str, Embedded] = {}
        for text, future in jobs:
            results[text] = future.result() if future.done() else late
            future.cancel()  # whoever still works on it finds nobody waiting
        return results

    def close(self) -> None:
        """Fail what waits and let the threads go; a call that hangs is left behind."""
        if self._closed:
            return
        self._closed = True
        for _, future in self._waiting:
            if not future.done():
                future.set_result(_CLOSED)
        self._waiting.clear()
        for _ in range(WORKERS):
            self._batches.put(None)
        self._embedder.close()

    def _find_refusal(self) -> EmbeddingFailure | None:
        if self._closed:
            return _CLOSED
        if len(self._waiting) > WAITING_TEXTS:
            return _CROWDED
        oldest_good = self._loop.time() - self._deadline_seconds
        hanging = [began for began in self._started_at.values() if began < oldest_good]
        return _HANGS if len(hanging) == WORKERS else None

    def _send(self) -> None:
        """Hand the next batches to idle workers."""
        while self._waiting and len(self._started_at) < WORKERS:
            batch: list[_Job] = []
            while self._waiting and len(batch) < BATCH_TEXTS:
                job = self._waiting.popleft()
                if not job[1].done():
                    batch.append(job)
            if batch:
                self._started_at[id(batch)] = self._loop.time()
                self._batches.put(batch)

    def _on_embedded(self, batch: list[_Job], results: Sequence[Embedded]) -> None:
        del self._started_at[id(batch)]
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
        self._send()

    # -- the worker threads -----------------------------------------------------------------------

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            results = self._call([text for text, _ in batch])
            try:
                self._loop.call_soon_threadsafe(self._on_embedded, batch, results)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _call(self, texts: list[str]) -> list[Embedded]:
        """Ask the embedder, and believe nothing it says unseen."""
        dim = self.contract.dim
        try:
            given = list(self._embedder.embed(texts, deadline_seconds=self._deadline_seconds))
        except Exception:  # an embedder is foreign code: no failure of it may fail a write
            log.exception("the embedder failed on %d text(s)", len(texts))
            return [EmbeddingFailure("the embedder failed")] * len(texts)
        if len(given) != len(texts):
            log.error("the embedder gave %d results for %d texts", len(given), len(texts))
            return [EmbeddingFailure("the embedder gave another number of results")] * len(texts)
        return [
            result if isinstance(result, EmbeddingFailure) else check_vector(result, dim)
            for result in given
        ]
