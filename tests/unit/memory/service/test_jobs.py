"""The jobs of a host: when they run, how often, and what a fault in one of them does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting import AGENT, hosting, statement, until
from memory.engine.errors import InvalidArgument, SessionNotFound, StoreUnavailable
from memory.engine.limits import JOB_INTERVAL_SECONDS_MAX, RECEIPT_DAYS
from memory.service.host import SessionHost
from memory.service.jobs import RETENTION, Counts, JobReport, ServerJob, SessionJob
from memory.service.memory import Memory
from memory.service.store_access import StoreAccess
from memory.service.ticker import FIRST_SECONDS, Ticker
from memory.testing import FaultKind, FaultyStore, InMemoryStore, ManualClock

DAY = 86_400.0


class Visits:
    """A job that notes where it was, and fails or waits where it is told to."""

    def __init__(self, *, interval_seconds: float = 60.0, due: Sequence[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self.order: list[str] = []
        self.failing: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.due = due
        self.job = SessionJob(
            name="visit",
            summary="Visit a session",
            interval_seconds=interval_seconds,
            run=self._visit,
            due_sessions=self._find_due,
        )

    async def _visit(self, memory: Memory) -> Counts:
        name = memory.graph.session_id
        self.counts[name] += 1
        self.order.append(name)
        await self.gate.wait()
        if name in self.failing:
            raise RuntimeError("no luck")
        return {"visited": 1, "concepts": memory.graph.concept_count}

    async def _find_due(self, _access: StoreAccess) -> Sequence[str]:
        return self.due


class Rounds:
    """A job of the whole server that counts."""

    def __init__(self, *, interval_seconds: float = 60.0) -> None:
        self.count = 0
        self.is_failing = False
        self.job = ServerJob(
            name="round", summary="Count", interval_seconds=interval_seconds, run=self._run
        )

    async def _run(self, _access: StoreAccess) -> Counts:
        self.count += 1
        if self.is_failing:
            raise RuntimeError("no luck")
        return {"rounds": 1}


async def open_sessions(host: SessionHost, *names: str) -> None:
    for name in names:
        await host.write(name, lambda m: m.derive(statement("a fact of mine"), AGENT), create=True)


def numbers(report: JobReport) -> tuple[int, int, int, int, int]:
    return report.ran, report.not_due, report.running, report.left, report.failed


# -- being due ---------------------------------------------------------------------------------


async def test_job_runs_once_in_each_held_session_and_then_when_due() -> None:
    clock, visits = ManualClock(), Visits()
    async with hosting(InMemoryStore(), clock=clock, jobs=[visits.job]) as host:
        await open_sessions(host, "a", "b")
        report = await host.calendar.run("visit")
        assert numbers(report) == (2, 0, 0, 0, 0)
        assert report.did == {"visited": 2, "concepts": 2}
        assert numbers(await host.calendar.run("visit")) == (0, 2, 0, 0, 0)
        clock.advance(29.9)
        assert numbers(await host.calendar.run("visit")) == (0, 2, 0, 0, 0)
        clock.advance(0.2)
        assert numbers(await host.calendar.run("visit")) == (2, 0, 0, 0, 0)
    assert visits.counts == {"a": 2, "b": 2}


async def test_forced_run_asks_not_whether_it_is_due_and_one_session_is_opened_for_it() -> None:
    visits = Visits()
    async with hosting(InMemoryStore(), jobs=[visits.job]) as host:
        await open_sessions(host, "a", "b")
        await host.close_session("a", AGENT)
        await host.calendar.run("visit", session="a")
        await host.calendar.run("visit", session="a")
        await host.calendar.run("visit", session="a", force=True)
        assert host.open_session_ids == ["b"]
    assert visits.counts == {"a": 2}


async def test_who_asks_more_often_than_the_job_says_is_served_so() -> None:
    """A schedule that an operator has changed counts, not the interval the job was made with."""
    clock, rounds = ManualClock(), Rounds(interval_seconds=3_600.0)
    async with hosting(InMemoryStore(), clock=clock, jobs=[rounds.job]) as host:
        for _ in range(10):
            await host.calendar.run("round", interval_seconds=60)
            clock.advance(60.0)
        assert rounds.count == 10
        for _ in range(59):
            await host.calendar.run("round")
            clock.advance(60.0)
        assert rounds.count == 11


async def test_two_who_ask_at_once_have_it_run_once() -> None:
    visits = Visits()
    visits.gate.clear()
    async with hosting(InMemoryStore(), jobs=[visits.job]) as host:
        await open_sessions(host, "a")
        first = asyncio.create_task(host.calendar.run("visit"))
        await until(lambda: bool(visits.counts))
        second = await host.calendar.run("visit", force=True)
        assert numbers(second) == (0, 0, 1, 0, 0)
        visits.gate.set()
        assert numbers(await first) == (1, 0, 0, 0, 0)
    assert visits.counts == {"a": 1}


@given(st.lists(st.floats(0.0, 200.0), max_size=40))
def test_starts_are_never_closer_than_half_the_interval(pauses: list[float]) -> None:
    async def play() -> None:
        clock, rounds, starts = ManualClock(), Rounds(), []
        async with hosting(InMemoryStore(), clock=clock, jobs=[rounds.job]) as host:
            for pause in pauses:
                clock.advance(pause)
                before = rounds.count
                await asyncio.gather(*(host.calendar.run("round") for _ in range(3)))
                starts += [clock.monotonic()] * (rounds.count - before)
        assert all(later - earlier >= 30.0 for earlier, later in pairwise(starts))
        assert bool(starts) == bool(pauses)

    asyncio.run(play())


# -- sessions put away -------------------------------------------------------------------------


async def test_session_put_away_is_opened_when_due_and_put_away_again() -> None:
    visits = Visits(due=["away"])
    async with hosting(InMemoryStore(), jobs=[visits.job]) as host:
        await open_sessions(host, "away", "here")
        await host.close_session("away", AGENT)
        assert numbers(await host.calendar.run("visit")) == (2, 0, 0, 0, 0)
        assert host.open_session_ids == ["here"]
    assert visits.counts == {"away": 1, "here": 1}


async def test_session_somebody_came_for_meanwhile_stays_open() -> None:
    clock, visits = ManualClock(), Visits(due=["away"])
    async with hosting(InMemoryStore(), clock=clock, jobs=[visits.job]) as host:
        await open_sessions(host, "away")
        await host.close_session("away", AGENT)
        visits.gate.clear()
        run = asyncio.create_task(host.calendar.run("visit"))
        await until(lambda: bool(visits.counts))
        clock.advance(1.0)
        await host.view("away")
        visits.gate.set()
        await run
        assert host.open_session_ids == ["away"]


async def test_job_does_not_make_a_session_look_used() -> None:
    clock, visits = ManualClock(), Visits()
    async with hosting(InMemoryStore(), clock=clock, jobs=[visits.job]) as host:
        await open_sessions(host, "a")
        used = (await host.memory("a", create=False)).last_used
        clock.advance(100.0)
        await host.calendar.run("visit")
        memory = host._find_open("a")
        assert memory is not None
        assert memory.last_used == used


async def test_sessions_of_others_and_of_nobody_are_passed_by() -> None:
    store = InMemoryStore()
    visits = Visits(due=["deleted", "theirs"])
    async with hosting(store, node_id="other") as other:
        await open_sessions(other, "theirs")
        async with hosting(store, jobs=[visits.job]) as host:
            await open_sessions(host, "mine")
            assert numbers(await host.calendar.run("visit")) == (1, 0, 0, 0, 0)
            with pytest.raises(SessionNotFound):
                await host.calendar.run("visit", session="deleted")
    assert visits.counts == {"mine": 1}


# -- faults ------------------------------------------------------------------------------------


async def test_fault_in_one_session_is_counted_and_stops_no_other() -> None:
    clock, visits = ManualClock(), Visits()
    visits.failing = {"b"}
    async with hosting(InMemoryStore(), clock=clock, jobs=[visits.job]) as host:
        await open_sessions(host, "a", "b", "c")
        report = await host.calendar.run("visit")
        assert numbers(report) == (2, 0, 0, 0, 1)
        assert [failure["session"] for failure in report.failures] == ["b"]
        assert "no luck" not in report.text  # the log's, not a caller's
        listed = host.calendar.list_jobs().structured["jobs"][0]
        assert "1 failed" in listed["last_outcome"]
        clock.advance(30.0)
        visits.failing = set()
        assert (await host.calendar.run("visit")).ran == 3


async def test_failed_session_is_due_again_soon_but_not_at_once() -> None:
    clock, rounds = ManualClock(), Rounds(interval_seconds=3_600.0)
    rounds.is_failing = True
    async with hosting(InMemoryStore(), clock=clock, jobs=[rounds.job]) as host:
        assert (await host.calendar.run("round")).failed == 1
        assert numbers(await host.calendar.run("round")) == (0, 1, 0, 0, 0)
        clock.advance(31.0)
        rounds.is_failing = False
        assert (await host.calendar.run("round")).ran == 1


async def test_cancelled_run_leaves_its_session_due() -> None:
    clock, visits = ManualClock(), Visits()
    visits.gate.clear()
    async with hosting(InMemoryStore(), clock=clock, jobs=[visits.job]) as host:
        await open_sessions(host, "a")
        run = asyncio.create_task(host.calendar.run("visit"))
        await until(lambda: bool(visits.counts))
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        visits.gate.set()
        clock.advance(30.0)
        assert numbers(await host.calendar.run("visit")) == (1, 0, 0, 0, 0)


async def test_run_whose_time_is_up_leaves_the_rest_to_the_next_and_gets_round() -> None:
    clock = ManualClock()
    visited: list[str] = []

    async def slow(memory: Memory) -> Counts:
        visited.append(memory.graph.session_id)
        clock.advance(6.0)
        return {}

    job = SessionJob(name="slow", summary="Slow", interval_seconds=10.0, run=slow)
    async with hosting(InMemoryStore(), clock=clock, jobs=[job]) as host:
        await open_sessions(host, *"abcde")
        reports = [await host.calendar.answer("slow", **ASKED) for _ in range(3)]
        assert [reply.structured["left"] for reply in reports] == [3, 3, 3]
    # Its first sessions are due again long before the last were reached once.
    assert visited == ["a", "b", "c", "d", "e", "a"]


ASKED: dict[str, Any] = {"session": None, "force": False, "interval_seconds": None}


async def test_jobs_stand_still_while_the_store_is_away() -> None:
    store, rounds = FaultyStore(InMemoryStore()), Rounds()
    async with hosting(store, away_after_seconds=0.05, jobs=[rounds.job]) as host:
        await open_sessions(host, "a")
        hang = store.fail_next("commit", FaultKind.HANG)
        writing = asyncio.create_task(open_sessions(host, "a"))
        await until(lambda: not host.is_healthy)
        with pytest.raises(StoreUnavailable):
            await host.calendar.run("round")
        hang.release.set()
        await writing
        await until(lambda: host.is_healthy)
        assert (await host.calendar.run("round")).ran == 1
    assert rounds.count == 1


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"name": "nothing"}, "job"),
        ({"name": "round", "session": "a"}, "session"),
        ({"name": "round", "session": ""}, "session"),
        ({"name": "round", "interval_seconds": 0}, "interval_seconds"),
        ({"name": "round", "interval_seconds": JOB_INTERVAL_SECONDS_MAX + 1}, "interval_seconds"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_field(asked: dict[str, Any], field: str) -> None:
    async with hosting(InMemoryStore(), jobs=[Rounds().job]) as host:
        with pytest.raises(InvalidArgument) as caught:
            await host.calendar.answer(**{**ASKED, **asked})
        assert caught.value.fields["field"] == field


# -- the ticker --------------------------------------------------------------------------------


async def test_day_without_a_server_or_a_tick_is_one_run() -> None:
    """Schedules missed while nothing ran once all ran at the next start, one after the other."""
    clock, rounds = ManualClock(), Rounds()
    async with hosting(InMemoryStore(), clock=clock, jobs=[rounds.job]) as host:
        ticker = Ticker(host.calendar, clock=clock)
        await ticker.tick()
        assert rounds.count == 0
        clock.advance(FIRST_SECONDS)
        await ticker.tick()
        assert rounds.count == 1
        clock.advance(DAY)
        for _ in range(5):
            await ticker.tick()
        assert rounds.count == 2
        clock.advance(60.0)
        await ticker.tick()
        assert rounds.count == 3


async def test_tick_keeps_time_through_failures() -> None:
    clock, rounds = ManualClock(), Rounds()
    rounds.is_failing = True
    async with hosting(InMemoryStore(), clock=clock, jobs=[rounds.job]) as host:
        ticker = Ticker(host.calendar, clock=clock)
        for _ in range(601):
            clock.advance(1.0)
            await ticker.tick()
        assert rounds.count == 10
        assert 0.0 < ticker.seconds_to_next() <= 60.0


async def test_with_a_cluster_the_ticker_asks_for_short_jobs_alone() -> None:
    short, long = Visits(interval_seconds=5.0), Rounds()
    async with hosting(InMemoryStore(), jobs=[short.job, long.job], has_cluster=True) as host:
        assert [job.name for job in host.calendar.ticked] == ["visit"]
        rows = host.calendar.list_jobs().structured["jobs"]
        assert [row["run_by"] for row in rows] == ["ticker", "cluster"]
    async with hosting(InMemoryStore(), jobs=[short.job, long.job]) as host:
        assert [job.name for job in host.calendar.ticked] == ["visit", "round"]


async def test_list_says_the_interval_the_calendar_asks_with_not_the_jobs_own() -> None:
    short, long = Visits(interval_seconds=5.0), Rounds(interval_seconds=60.0)
    async with hosting(InMemoryStore(), jobs=[short.job, long.job], has_cluster=True) as host:

        def listed() -> tuple[list[tuple[float, float | None]], str]:
            reply = host.calendar.list_jobs()
            rows = reply.structured["jobs"]
            pairs = [(row["interval_seconds"], row["asked_interval_seconds"]) for row in rows]
            return pairs, reply.text.splitlines()[1]

        assert listed()[0] == [(5.0, None), (60.0, None)]
        assert listed()[1].startswith("round  every 60 s by the cluster")
        await host.calendar.run("round", interval_seconds=120)
        await host.calendar.run("visit", interval_seconds=120)  # the ticker keeps to its own
        assert listed()[0] == [(5.0, None), (60.0, 120)]
        assert listed()[1].startswith("round  every 120 s by the cluster")
        # A person who has it run now says nothing of the calendar.
        await host.calendar.run("round", force=True, interval_seconds=7)
        await host.calendar.run("round")
        assert listed()[0][1] == (60.0, 120)


async def test_host_ticks_by_itself() -> None:
    rounds = Rounds()
    quick = replace(rounds.job, interval_seconds=0.01)
    async with hosting(InMemoryStore(), jobs=[quick]) as host:
        await until(lambda: rounds.count >= 3)
        assert host.calendar.list_jobs().structured["jobs"][0]["last_outcome"] == (
            "round: ran 1; rounds 1"
        )


# -- retention ---------------------------------------------------------------------------------


async def test_retention_drops_receipts_past_their_time() -> None:
    clock, store = ManualClock(), InMemoryStore()
    async with hosting(store, clock=clock, jobs=[RETENTION]) as host:
        await open_sessions(host, "old")
        assert (await host.calendar.run("retention")).did == {"receipts_dropped": 0}
        clock.advance(RECEIPT_DAYS * DAY + 1)
        await open_sessions(host, "new")
        report = await host.calendar.run("retention")
        assert (report.ran, report.did) == (1, {"receipts_dropped": 1})


async def test_retention_that_the_store_refuses_is_a_failure_of_the_run() -> None:
    """It was once swallowed with a warning, so that nobody could tell a run from no run."""
    store = FaultyStore(InMemoryStore())
    async with hosting(store, jobs=[RETENTION]) as host:
        await open_sessions(host, "a")
        store.fail_next("prune_receipts", FaultKind.TRANSIENT_BEFORE)
        report = await host.calendar.run("retention")
        assert [failure["code"] for failure in report.failures] == ["store_unavailable"]
