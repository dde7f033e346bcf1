"""The jobs of a server: what is done again and again, and who may do it when.

Owns the stamps that say when a job may run next, and the order of a run: one session after the
other, longest waiting first, each fault contained and counted. Knows no job's content, and not who
asks: the cluster of worker processes, the ticker and people all come through `Calendar.run`.

Invariant: a job never runs twice at once for the same session, and not again within half its
interval unless it is forced or failed; so runs that were missed become one, however often they are
asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from memory.engine.errors import (
    InvalidArgument,
    LamboError,
    LeaseHeld,
    SessionNotFound,
    StoreUnavailable,
)
from memory.engine.limits import JOB_INTERVAL_SECONDS_MAX, JOB_NAME_BYTES
from memory.engine.ports import Clock
from memory.engine.requests import check_session_name
from memory.engine.times import Micros, format_rfc3339
from memory.service.memory import Memory
from memory.service.replies import Reply
from memory.service.store_access import StoreAccess

log = logging.getLogger("lambo.jobs")

SECONDS_PER_RUN: Final = 10.0
"""When a run begins no further session; whoever asked asks again for those that are left."""
FAILURES_SHOWN: Final = 10
TICKER_SECONDS_MAX: Final = 60.0
"""Jobs with a shorter interval are never the cluster's: it looks at its schedules too seldom."""
RETRY_SECONDS: Final = 1.0
FAILED_SECONDS: Final = 30.0
"""How long a session in which a job failed is left alone, so that it does not take every turn."""

Counts: TypeAlias = Mapping[str, int]
"""What a run did, by name; the names of one job always mean the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something a server does every `interval_seconds`. Made as one of the two kinds below."""

    name: str
    summary: str
    interval_seconds: float

    def __post_init__(self) -> None:
        assert self.interval_seconds > 0
        assert 0 < len(self.name.encode()) <= JOB_NAME_BYTES

    @property
    def is_server_wide(self) -> bool:
        """Whether one run is for the whole database rather than for a session."""
        return isinstance(self, ServerJob)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionJob(Job):
    """A job for each session this server holds.

    `due_sessions` names further ones, which are opened for it: sessions put away with work left.
    """

    run: Callable[[Memory], Awaitable[Counts]]
    run_forced: Callable[[Memory], Awaitable[Counts]] | None = None
    """What a forced run does, where the job itself has a say in whether it is due."""
    due_sessions: Callable[[StoreAccess], Awaitable[Sequence[str]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerJob(Job):
    """A job for the whole database. Of several servers on one, each runs it: it must bear that."""

    run: Callable[[StoreAccess], Awaitable[Counts]]


async def _prune_receipts(access: StoreAccess) -> Counts:
    return {"receipts_dropped": await access.prune_receipts()}


RETENTION: Final = ServerJob(
    name="retention",
    summary="Drop receipts past their time or over their number",
    interval_seconds=3_600.0,
    run=_prune_receipts,
)


@dataclass(frozen=True, slots=True)
class JobSessions:
    """What a calendar asks of its host. `find` and `held` leave no trace of use."""

    held: Callable[[], Sequence[str]]
    find: Callable[[str], Memory | None]
    open: Callable[[str], Awaitable[Memory]]
    put_away: Callable[[str], Awaitable[bool]]
    access: Callable[[], StoreAccess]
    is_healthy: Callable[[], bool]


@dataclass(slots=True)
class JobReport:
    """What one run came to. Numbers are of sessions; a server-wide job counts as one."""

    job: str
    at: Micros
    ran: int = 0
    not_due: int = 0
    running: int = 0
    """Left to another run that was at work on them."""
    left: int = 0
    """Not reached: time was up, or the store went away."""
    failed: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)

    @property
    def text(self) -> str:
        """One line for people."""
        parts = [f"ran {self.ran}"]
        told = {
            "not due": self.not_due,
            "running": self.running,
            "left": self.left,
            "failed": self.failed,
        }
        parts += [f"{count} {word}" for word, count in told.items() if count]
        did = ", ".join(f"{name} {count}" for name, count in sorted(self.did.items()) if count)
        first = f"; {self.failures[0]['message']}" if self.failures else ""
        return f"{self.job}: {', '.join(parts)}{f'; {did}' if did else ''}{first}"

    def as_reply(self) -> Reply:
        """The report as an answer."""
        return Reply(
            self.text,
            {
                "summary": self.text,
                "job": self.job,
                "ran": self.ran,
                "not_due": self.not_due,
                "running": self.running,
                "left": self.left,
                "failed": self.failed,
                "failures": self.failures,
                "did": dict(self.did),
                "warnings": [],
            },
        )


class Calendar:
    """All jobs of a host. Use it on one event loop."""

    def __init__(
        self,
        jobs: Sequence[Job],
        sessions: JobSessions,
        *,
        clock: Clock,
        has_cluster: bool,
    ) -> None:
        """`has_cluster` says that worker processes ask for the jobs that are not short."""
        self._jobs = {job.name: job for job in jobs}
        assert len(self._jobs) == len(jobs), "two jobs of one name"
        self._sessions = sessions
        self._clock = clock
        self._has_cluster = has_cluster
        self._stamps: dict[tuple[str, str], float] = {}  # last start, monotonic; job and session
        self._running: set[tuple[str, str]] = set()
        self._last: dict[str, JobReport] = {}
        self._asked_seconds: dict[str, float] = {}  # by job: the interval it was last asked with

    @property
    def ticked(self) -> Sequence[Job]:
        """The jobs that nobody but the ticker asks for."""
        return [job for job in self._jobs.values() if not self._is_for_cluster(job)]

    def _is_for_cluster(self, job: Job) -> bool:
        return self._has_cluster and job.interval_seconds >= TICKER_SECONDS_MAX

    async def run(
        self,
        name: str,
        *,
        session: str | None = None,
        force: bool = False,
        interval_seconds: float | None = None,
        seconds_max: float | None = None,
    ) -> JobReport:
        """Run a job where it is due, or in one session alone, which is opened for it.

        `force` runs it though it is not due. `interval_seconds` is how often the caller asks, where
        that is not the job's own interval. After `seconds_max` no further session is begun.

        Raises `InvalidArgument`, `SessionNotFound`, and `StoreUnavailable` while nothing can be
        committed; faults of the job are in the report.
        """
        job = self._jobs.get(name)
        if job is None:
            known = ", ".join(self._jobs)
            raise InvalidArgument("job", f"there is no job '{name:.60}'; there are: {known}")
        if session is not None:
            check_session_name(session)
            if job.is_server_wide:
                raise InvalidArgument("session", f"{name} is for the whole server, not a session")
        if not self._sessions.is_healthy():
            raise StoreUnavailable(
                f"the store is away: {name} waits for it", retry_after_seconds=RETRY_SECONDS
            )
        run = _Run(
            job=job,
            report=JobReport(name, self._clock.now()),
            gap_seconds=(interval_seconds or job.interval_seconds) / 2,
            force=force,
            is_asked_for=session is not None,
        )
        if interval_seconds is not None and session is None and not force:
            self._asked_seconds[name] = interval_seconds
        began = self._clock.monotonic()
        for target in [session] if session is not None else await self._targets(run):
            is_late = seconds_max is not None and self._clock.monotonic() - began >= seconds_max
            if is_late or not self._sessions.is_healthy():
                run.report.left += 1
                continue
            await self._run_one(run, target)
            await asyncio.sleep(0)
        if run.report.ran or run.report.failed:
            self._last[name] = run.report
        return run.report

    async def answer(
        self, name: str, *, session: str | None, force: bool, interval_seconds: int | None
    ) -> Reply:
        """`run` for a caller who waits: after a while the rest is left for the next call."""
        if interval_seconds is not None and not 1 <= interval_seconds <= JOB_INTERVAL_SECONDS_MAX:
            raise InvalidArgument(
                "interval_seconds",
                f"interval_seconds must be in 1..={JOB_INTERVAL_SECONDS_MAX}",
                minimum=1,
                maximum=JOB_INTERVAL_SECONDS_MAX,
            )
        report = await self.run(
            name,
            session=session,
            force=force,
            interval_seconds=interval_seconds,
            seconds_max=SECONDS_PER_RUN,
        )
        return report.as_reply()

    def list_jobs(self) -> Reply:
        """Every job, who asks for it, and how it last ended since the server started."""
        rows = [self._as_wire(job) for job in self._jobs.values()]
        never = "not since this server started"
        lines = [
            f"{row['job']}  every {row['asked_interval_seconds'] or row['interval_seconds']:g} s "
            f"by the {row['run_by']}  "
            f"{row['last_run_at'] or never}  {row['last_outcome'] or ''}".rstrip()
            for row in rows
        ]
        text = "\n".join(lines) or "no jobs"
        return Reply(text, {"summary": f"{len(rows)} job(s)", "jobs": rows, "warnings": []})

    def _as_wire(self, job: Job) -> dict[str, Any]:
        last = self._last.get(job.name)
        is_for_cluster = self._is_for_cluster(job)
        # The ticker keeps to the job's own interval, whatever somebody else asked with.
        asked = self._asked_seconds.get(job.name) if is_for_cluster else None
        return {
            "job": job.name,
            "about": job.summary,
            "interval_seconds": job.interval_seconds,
            "asked_interval_seconds": asked,
            "is_server_wide": job.is_server_wide,
            "run_by": "cluster" if is_for_cluster else "ticker",
            "last_run_at": None if last is None else format_rfc3339(last.at),
            "last_outcome": None if last is None else last.text,
        }

    async def _targets(self, run: _Run) -> Sequence[str]:
        """The sessions a job may be due in; a server-wide job has the one without a name."""
        job = run.job
        if not isinstance(job, SessionJob):
            return [""]
        found = set(self._sessions.held())
        if job.due_sessions is not None:
            found |= set(await job.due_sessions(self._sessions.access()))
        now = self._clock.monotonic()
        for key, at in list(self._stamps.items()):
            # Of a session that is not here and could be due again, a stamp says nothing.
            if key[0] == job.name and key[1] not in found and now - at >= run.gap_seconds:
                del self._stamps[key]
        return sorted(found, key=lambda name: (self._stamps.get((job.name, name), -1.0), name))

    async def _run_one(self, run: _Run, target: str) -> None:
        key = (run.job.name, target)
        now = self._clock.monotonic()
        stamp = self._stamps.get(key)
        if key in self._running:
            run.report.running += 1
            return
        if not run.force and stamp is not None and now - stamp < run.gap_seconds:
            run.report.not_due += 1
            return
        # Before anything is awaited: whoever asks from now on finds the session taken.
        self._running.add(key)
        self._stamps[key] = now
        has_ended = False
        try:
            has_ended = await self._carry_out(run, target)
        finally:
            self._running.discard(key)
            if not has_ended:  # it is still due, but not at once
                wait = min(FAILED_SECONDS, run.gap_seconds)
                self._stamps[key] = self._clock.monotonic() + wait - run.gap_seconds

    async def _carry_out(self, run: _Run, target: str) -> bool:
        """Run a job on one target; whether it is done for now. A fault is the report's."""
        try:
            did = await self._act(run, target)
        except (LeaseHeld, SessionNotFound) as error:
            if run.is_asked_for:
                raise
            log.info("%s passes session %r by: %s", run.job.name, target, error)
            self._stamps.pop((run.job.name, target), None)
            return True
        except LamboError as error:
            log.warning("%s failed on %r: %s", run.job.name, target, error)
            run.fail(target, error.code, error.message)
            return False
        except Exception:  # the edge of a job: a bug in one session must not stop the others
            log.exception("%s failed on %r unexpectedly", run.job.name, target)
            run.fail(target, "internal_error", "an internal error, see the server's log")
            return False
        run.report.ran += 1
        run.report.did.update(did)
        return True

    async def _act(self, run: _Run, target: str) -> Counts:
        job = run.job
        if isinstance(job, ServerJob):
            return await job.run(self._sessions.access())
        assert isinstance(job, SessionJob)
        act = job.run_forced if run.force and job.run_forced is not None else job.run
        memory = self._sessions.find(target)
        if memory is not None:
            return await act(memory)
        memory = await self._sessions.open(target)
        opened_at = memory.last_used
        try:
            return await act(memory)
        finally:
            # Nobody else came for it: the place is for those that are used.
            if self._sessions.find(target) is memory and memory.last_used == opened_at:
                await self._sessions.put_away(target)


@dataclass(slots=True)
class _Run:
    """One call of `Calendar.run` while it lasts."""

    job: Job
    report: JobReport
    gap_seconds: float
    force: bool
    is_asked_for: bool

    def fail(self, target: str, code: str, message: str) -> None:
        self.report.failed += 1
        if len(self.report.failures) < FAILURES_SHOWN:
            named = {"session": target or None, "code": code, "message": message}
            self.report.failures.append(named)
