"""What the server tells a Prometheus scraper: counts of its work, and how it stands.

Owns the names of the series, their help and their buckets. Every server has a registry of its own,
so nothing is shared between two of them in one process. What is a sum over sessions is read when
somebody asks, on the event loop; what happens is counted when it happens, for about a microsecond.

Invariant: labels take values that the code lists (verbs, codes, surfaces, cycles), never a name or
a text that a caller chose.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from memory.service.measures import Measures
from memory.service.vital_signs import VitalSigns
from memory.version import VERSION

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

CALL_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
CYCLE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30)
LAG_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1)
BATCH_ROWS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_000, 10_000)


class Metrics(Measures):
    """The series of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._children: dict[tuple[str, ...], tuple[Counter, Histogram]] = {}
        self._count_calls()
        self._count_work()
        self._show_state()
        ProcessCollector(registry=self.registry)

    def _count_calls(self) -> None:
        registry = self.registry
        self._calls = Counter(
            "lambo_calls",
            "Calls of verbs, by how they ended",
            ["verb", "outcome"],
            registry=registry,
        )
        self._call_seconds = Histogram(
            "lambo_call_seconds",
            "Time of a call, from its arguments to its reply",
            ["verb"],
            buckets=CALL_SECONDS,
            registry=registry,
        )
        self._refusals = Counter(
            "lambo_refusals",
            "Calls refused, by code; also those refused before their verb was known",
            ["code"],
            registry=registry,
        )
        self._responses = Counter(
            "lambo_http_responses",
            "Responses by surface (api, mcp, pages) and HTTP status",
            ["surface", "status"],
            registry=registry,
        )

    def _count_work(self) -> None:
        registry = self.registry
        self._batch_rows = Histogram(
            "lambo_batch_rows", "Rows of a committed batch", buckets=BATCH_ROWS, registry=registry
        )
        self._commit_seconds = Histogram(
            "lambo_commit_seconds",
            "Time of a committed batch in the store",
            buckets=COMMIT_SECONDS,
            registry=registry,
        )
        self._commit_retries = Counter(
            "lambo_commit_retries",
            "Attempts to commit that failed and are made again",
            registry=registry,
        )
        self._dead_letters = Counter(
            "lambo_dead_letters", "Groups that the store refused for good", registry=registry
        )
        self._fences = Counter(
            "lambo_fences",
            "Open sessions whose writes were stopped for good, by reason",
            ["code"],
            registry=registry,
        )
        self._cycle_seconds = Histogram(
            "lambo_cycle_seconds",
            "Time of a cycle of one session, waits included",
            ["cycle"],
            buckets=CYCLE_SECONDS,
            registry=registry,
        )
        self._embedder_failures = Counter(
            "lambo_embedder_failures",
            "Texts that got no vector when they were to be embedded",
            registry=registry,
        )
        self._loop_lag = Histogram(
            "lambo_loop_lag_seconds",
            "How late the event loop came to a timer",
            buckets=LAG_SECONDS,
            registry=registry,
        )

    def _show_state(self) -> None:
        registry = self.registry
        Gauge("lambo_build_info", "The version that runs", ["version"], registry=registry).labels(
            VERSION
        ).set(1)
        self._up = Gauge(
            "lambo_store_up", "1 while writes can be acknowledged, else 0", registry=registry
        )
        self._open_sessions = Gauge(
            "lambo_open_sessions", "Sessions held in memory", registry=registry
        )
        self._fenced_sessions = Gauge(
            "lambo_fenced_sessions", "Open sessions whose writes are stopped", registry=registry
        )
        self._flush_lag = Gauge(
            "lambo_flush_lag_seconds", "Age of the oldest uncommitted write", registry=registry
        )
        self._uncommitted = Gauge(
            "lambo_uncommitted_mutations", "Mutations applied and not committed", registry=registry
        )
        self._missing_vectors = Gauge(
            "lambo_missing_vectors", "Concepts of open sessions without a vector", registry=registry
        )
        self._resident = Gauge(
            "lambo_resident_bytes", "What open sessions take up, about", registry=registry
        )

    # -- what happens ------------------------------------------------------------------------------

    def called(self, verb: str, outcome: str, seconds: float) -> None:
        found = self._children.get((verb, outcome))
        if found is None:
            found = self._calls.labels(verb, outcome), self._call_seconds.labels(verb)
            self._children[(verb, outcome)] = found
        found[0].inc()
        found[1].observe(seconds)

    def refused(self, code: str) -> None:
        self._refusals.labels(code).inc()

    def responded(self, surface: str, status: int) -> None:
        """An HTTP response began."""
        self._responses.labels(surface, str(status)).inc()

    def committed(self, rows: int, seconds: float) -> None:
        self._batch_rows.observe(rows)
        self._commit_seconds.observe(seconds)

    def commit_failed(self) -> None:
        self._commit_retries.inc()

    def rejected(self) -> None:
        self._dead_letters.inc()

    def fenced(self, code: str) -> None:
        self._fences.labels(code).inc()

    def cycle_ran(self, cycle: str, seconds: float) -> None:
        self._cycle_seconds.labels(cycle).observe(seconds)

    def not_embedded(self, texts: int) -> None:
        self._embedder_failures.inc(texts)

    def loop_was_late(self, seconds: float) -> None:
        """The event loop came so late to a timer."""
        self._loop_lag.observe(seconds)

    # -- what is shown -----------------------------------------------------------------------------

    def render(self, signs: VitalSigns | None) -> bytes:
        """Everything in Prometheus' text format; `signs` is None while there is no host."""
        if signs is None:
            signs = VitalSigns(0, 0, 0.0, 0, 0, 0, is_store_away=True)
        self._up.set(not signs.is_store_away)
        self._open_sessions.set(signs.open_sessions)
        self._fenced_sessions.set(signs.fenced_sessions)
        self._flush_lag.set(signs.flush_lag_seconds)
        self._uncommitted.set(signs.uncommitted_mutations)
        self._missing_vectors.set(signs.missing_vectors)
        self._resident.set(signs.resident_bytes)
        return generate_latest(self.registry)
