"""Background cycles in a running host: what is earned, by whom, and what lasts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from canon.cycles import CanonCycles
from canon.engine.garbage import GarbageSettings
from canon.engine.settings import CanonSettings, Policy
from cycling import (
    DAY,
    HOUR,
    SUBJECT,
    cycling,
    evaluate_until_settled,
    graph_of,
    rest_on_subject,
    status_in,
    survived,
    sweep,
    write,
)
from hosting import AGENT, OPERATOR, statement
from memory.engine.graph import Graph
from memory.engine.ports import Due
from memory.engine.requests import (
    Caller,
    ConceptInput,
    ConfirmRequest,
    DeriveRequest,
    InspectRequest,
    RecallRequest,
    RestoreRequest,
)
from memory.engine.times import SECOND
from memory.engine.types import AuditKind, ConceptType, Status
from memory.service import cycle_runs
from memory.service.cycle_runs import PACE, REST_SECONDS_MAX
from memory.service.host import SessionHost
from memory.testing import InMemoryStore, ManualClock
from sealed_stores import sealed_in_memory

# -- what is earned --------------------------------------------------------------------------------


async def test_evidence_over_hours_makes_a_concept_canonical_and_each_step_leaves_its_row() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 7)
        await sweep(host)
        assert await evaluate_until_settled(host) == 3
        graph = await graph_of(host)
        assert status_in(graph) is Status.CANONICAL
        steps = list(graph.transitions.values())
        assert [(step.from_status, step.to_status) for step in steps] == [
            (Status.NONE, Status.CANDIDATE),
            (Status.CANDIDATE, Status.VENERABLE),
            (Status.VENERABLE, Status.CANONICAL),
        ]
        assert [step.blast_radius for step in steps] == [None, None, 7]
        evidence = [store._sessions["s"].evidence[step.id] for step in steps]
        assert [told["blast_radius"] for told in evidence] == [7, 7, 7]
        checks = {check["gate"]: check["measured"] for check in evidence[2]["checks"]}
        assert checks["distinct_interactions"] == 7
        assert checks["blast_radius"] == 7
        assert evidence[2]["support_count"] == 7
        assert {support["agent_id"] for support in evidence[2]["supports"]} == {"agent-a"}
        saints = await (await host.view("s")).saints()
        assert saints.structured["count"] == 1


async def test_without_sweeps_nothing_rises() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 7)
        assert await evaluate_until_settled(host) == 0


async def test_a_thousand_repetitions_and_readings_move_nothing() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT)
        await sweep(host)
        for number in range(100):
            for _ in range(10):
                await write(host, SUBJECT, f"seen {number}", agent=f"agent-{number % 7}")
            clock.advance(HOUR)
            view = await host.view("s")
            await view.recall(RecallRequest(SUBJECT))
            await view.inspect(InspectRequest(SUBJECT, 1))
        assert await evaluate_until_settled(host) == 0
        assert status_in(await graph_of(host)) is Status.NONE


@pytest.mark.parametrize("is_spread", [False, True])
async def test_a_burst_fails_where_the_same_evidence_spread_over_hours_passes(
    is_spread: bool,
) -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT)
        clock.advance(10 * HOUR)
        await rest_on_subject(host, clock, 7, apart=HOUR if is_spread else 0.01)
        clock.advance(10 * HOUR)
        await sweep(host)
        await evaluate_until_settled(host)
        # Two interactions make a candidate in either case; the rest asks for coverage.
        wanted = Status.CANDIDATE if not is_spread else Status.VENERABLE
        found = status_in(await graph_of(host))
        assert found is (Status.CANONICAL if is_spread else wanted)


@pytest.mark.parametrize("may_backdate", [False, True])
async def test_told_times_spread_evidence_only_by_right(may_backdate: bool) -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT)
        clock.advance(10 * HOUR)
        caller = Caller("importer", may_backdate=may_backdate)
        for number in range(7):
            given = (ConceptInput(f"rests {number}", ConceptType.ENTITY, depends_on=(SUBJECT,)),)
            request = DeriveRequest(given, event_time=clock.now() - (9 - number) * HOUR * SECOND)
            memory = await host.memory("s", create=True)
            await memory.derive(request, caller)
        clock.advance(10 * HOUR)
        await sweep(host)
        await evaluate_until_settled(host)
        wanted = Status.CANONICAL if may_backdate else Status.CANDIDATE
        assert status_in(await graph_of(host)) is wanted


async def test_evidence_younger_than_a_minute_waits_for_its_age() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 7, apart=8.0)
        await sweep(host)
        clock.advance(3.9)  # the seventh is 11.9 s old, the first 59.9
        assert await evaluate_until_settled(host) == 0
        clock.advance(60)
        assert await evaluate_until_settled(host) == 3


# -- when an evaluation runs -----------------------------------------------------------------------


async def test_an_evaluation_that_can_find_nothing_new_is_spared() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 2)
        await sweep(host)
        memory = await host.memory("s", create=False)
        for _ in range(6):
            clock.advance(60)
            await host.calendar.run("evaluate")
        position = memory.position
        for _ in range(5):
            clock.advance(60)
            report = await host.calendar.run("evaluate")
            assert (report.ran, report.did) == (1, {})
        assert memory.position == position
        await write(host, "something new")
        clock.advance(61)
        assert (await host.calendar.run("evaluate")).did["evaluated"] == 1


async def test_a_session_put_away_is_opened_when_its_evidence_has_matured() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 6)
        await sweep(host)
        await evaluate_until_settled(host)
        await write(host, "the seventh", depends_on=(SUBJECT,))
        await host.close_session("s", OPERATOR)
        assert store.list_due(Due.EVALUATE, at=clock.now(), limit=10) == []
        clock.advance(61)
        assert store.list_due(Due.EVALUATE, at=clock.now(), limit=10) == ["s"]
        for _ in range(4):
            clock.advance(61)
            await host.calendar.run("evaluate")
        assert host.open_session_ids == []
        assert store.list_due(Due.EVALUATE, at=clock.now() + DAY * SECOND, limit=10) == []
        assert status_in(await graph_of(host)) is Status.CANONICAL


async def test_two_hundred_short_openings_promote_what_one_long_run_promotes() -> None:
    async def grow(host: SessionHost, clock: ManualClock, number: int) -> None:
        if number == 0:
            await write(host, *(f"pillar {pillar}" for pillar in range(4)))
        pillars = tuple(f"pillar {pillar}" for pillar in range(4) if number % (2 * pillar + 1) == 0)
        await write(host, f"finding {number}", agent=f"agent-{number % 3}", depends_on=pillars)
        clock.advance(HOUR)
        await host.calendar.run("collect")
        await host.calendar.run("evaluate")

    def statuses(graph: Graph) -> dict[str, Status]:
        return {graph.content_at(row): graph.status_at(row) for row in graph.concept_rows()}

    garbage = GarbageSettings(interval_mutations=10_000, idle_floor_mutations=100)
    cycles = CanonCycles(garbage=garbage)
    long_clock, short_clock = ManualClock(), ManualClock()
    async with cycling(InMemoryStore(), long_clock, cycles=cycles) as host:
        for number in range(200):
            await grow(host, long_clock, number)
        long_run = statuses(await graph_of(host))
    store = InMemoryStore(short_clock)
    for number in range(200):
        async with cycling(store, short_clock, cycles=cycles) as host:
            await grow(host, short_clock, number)
    async with cycling(store, short_clock, cycles=cycles) as host:
        short_runs = statuses(await graph_of(host))
    assert short_runs == long_run
    canonical = {name for name, status in long_run.items() if status is Status.CANONICAL}
    assert canonical == {f"pillar {pillar}" for pillar in range(4)}


async def test_another_policy_looks_at_everything_again() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 3, apart=DAY)
        for _ in range(4):
            clock.advance(61)
            await host.calendar.run("evaluate")
        assert status_in(await graph_of(host)) is Status.NONE
    solo = CanonCycles(canon=CanonSettings(promotion_policy=Policy.SOLO))
    async with cycling(store, clock, cycles=solo) as host:
        memory = await host.memory("s", create=False)
        assert memory.cycles is not None
        assert memory.cycles.needs_evaluation(clock.now())
        await host.calendar.run("evaluate")
        assert status_in(await graph_of(host)) is Status.CANDIDATE


# -- what people say -------------------------------------------------------------------------------


async def confirm(host: SessionHost, times: int) -> None:
    for _ in range(times):
        reply = await host.write(
            "s", lambda memory: memory.confirm(ConfirmRequest(SUBJECT), OPERATOR), create=False
        )
    assert reply.structured["confirmations"] == times


@pytest.mark.parametrize("policy", list(Policy))
async def test_a_confirmation_counts_for_a_single_writer_alone(policy: Policy) -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock, promotion_policy=policy) as host:
        await write(host, SUBJECT)
        clock.advance(61)
        await sweep(host)
        await evaluate_until_settled(host)
        await confirm(host, 2)
        memory = await host.memory("s", create=False)
        assert memory.cycles is not None
        assert memory.cycles.needs_evaluation(clock.now())
        await evaluate_until_settled(host)
        rises = policy is Policy.SOLO
        assert status_in(memory.graph) is (Status.CANDIDATE if rises else Status.NONE)
        rows = [one for one in store._sessions["s"].entries.values()]
        assert [row.kind for row in rows] == [AuditKind.CONFIRM, AuditKind.CONFIRM]
        assert [row.actor for row in rows] == ["operator", "operator"]
        assert [row.detail for row in rows] == [{"confirmations": 1}, {"confirmations": 2}]
        shown = await memory.inspect(InspectRequest(SUBJECT, 0))
        assert shown.structured["admission"]["confirmations"] == 2


async def test_confirmations_outlive_the_process() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock, promotion_policy=Policy.SOLO) as host:
        await write(host, SUBJECT)
        await confirm(host, 1)
    clock.advance(61)
    async with cycling(store, clock, promotion_policy=Policy.SOLO) as host:
        await host.calendar.run("evaluate")
        assert status_in(await graph_of(host)) is Status.CANDIDATE


# -- garbage collection ----------------------------------------------------------------------------


async def test_a_restart_in_the_middle_counts_each_survivor_once() -> None:
    clock = ManualClock()
    store = InMemoryStore()
    async with cycling(store, clock) as host:
        for start in range(0, 1_200, 60):
            await write(host, *(f"concept {number}" for number in range(start, start + 60)))
        memory = await host.memory("s", create=False)
        assert memory.cycles is not None
        ids = memory._ids
        steps = memory.cycles.collect(memory.graph, clock.now(), ids=ids, is_forced=True)
        groups = (group for group in steps if group)
        for _ in range(2):  # the sweep itself, and the first five hundred
            await memory.append(next(groups))
        assert memory.cycles.stats().pending_survivors
    async with cycling(store, clock) as host:
        memory = await host.memory("s", create=False)
        assert memory.cycles is not None
        assert memory.cycles.needs_collection(clock.now())
        assert (await host.calendar.run("collect")).did["survivors_counted"] == 700
        graph = memory.graph
        assert set(graph.concepts["gc_survived"][graph.concept_rows()].tolist()) == {1}
        assert not memory.cycles.needs_collection(clock.now())


async def test_a_paced_sweep_rests_in_proportion_to_its_groups_and_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sweep of a large session went on without a pause, and each write waited for a group."""

    class Passing(ManualClock):
        """Whatever is done takes time."""

        def monotonic(self) -> float:
            self.advance(0.02)
            return super().monotonic()

    clock = Passing()
    rests: list[float] = []
    resting, go_on = asyncio.Event(), asyncio.Event()

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        resting.set()
        await go_on.wait()

    async with cycling(InMemoryStore(), clock) as host:
        for start in range(0, 600, 60):
            await write(host, *(f"concept {number}" for number in range(start, start + 60)))
        memory = await host.memory("s", create=False)
        clock.advance(DAY)  # so that a sweep is due
        with monkeypatch.context() as patch:
            patch.setattr(cycle_runs, "sleep", rest)
            sweep = asyncio.create_task(memory.collect(is_paced=True))
            await resting.wait()
            await memory.settle_cycles()  # nobody who puts the session away waits for it
            go_on.set()
            assert (await sweep)["survivors_counted"] == 600
    assert len(rests) >= 3  # the sweep, and twice five hundred survivors at most
    assert min(rests) >= 0.02 * (PACE - 1)
    assert max(rests) <= REST_SECONDS_MAX


async def test_a_sweep_comes_after_so_many_mutations_and_not_for_its_own() -> None:
    clock = ManualClock()
    settings: dict[str, Any] = {"gc_interval_mutations": 40, "gc_idle_floor_mutations": 1}
    async with cycling(InMemoryStore(), clock, **settings) as host:
        await write(host, SUBJECT)
        memory = await host.memory("s", create=False)
        assert memory.cycles is not None
        swept = 0
        for number in range(30):
            await write(host, f"other {number}")
            if memory.cycles.needs_collection(clock.now()):
                assert memory.cycles.stats().mutations_since_sweep >= 40
                await memory.collect()
                swept += 1
                assert memory.cycles.stats().mutations_since_sweep == 0
        assert swept >= 2
        assert survived(memory.graph) == swept


async def test_what_a_sweep_takes_out_brings_no_further_sweep_where_its_rows_are_sealed(
    tmp_path: Path,
) -> None:
    """Linking the audit rows made the group look like somebody's write."""
    sealed, clock = sealed_in_memory(tmp_path), ManualClock()
    async with cycling(sealed.store, clock, audit=sealed.keeper()) as host:
        rain = statement(*(f"it rained {n}" for n in range(8)), kind=ConceptType.OBSERVATION)
        await host.write("s", lambda memory: memory.derive(rain, AGENT), create=True)
        clock.advance(400 * DAY)
        for number in range(40):
            await write(host, SUBJECT, f"later {number}")
        memory = await host.memory("s", create=False)
        assert (await memory.collect(is_forced=True))["concepts_collected"] > 0
        assert memory.cycles is not None
        assert memory.cycles.stats().mutations_since_sweep == 0
        assert sealed.check().is_sound


async def test_what_is_collected_leaves_a_row_and_comes_back() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 8)
        kind = ConceptType.OBSERVATION
        await host.write(
            "s", lambda memory: memory.derive(statement("it rained", kind=kind), AGENT), create=True
        )
        memory = await host.memory("s", create=False)
        clock.advance(400 * DAY)
        for number in range(40):
            await write(host, SUBJECT, f"later {number}")
        report = await host.calendar.run("collect", session="s", force=True)
        assert report.did["concepts_collected"] >= 1
        assert memory.graph.find_by_content("it rained") is None
        listed = await host.disappearances.list_page("s", after="", limit=100)
        (row,) = [
            row for row in listed.structured["disappearances"] if row["content"] == "it rained"
        ]
        assert row["kind"] == "collect"
        (entry,) = [
            one for one in store._sessions["s"].entries.values() if one.id == row["audit_id"]
        ]
        assert entry.kind is AuditKind.COLLECT
        assert entry.detail["score"] < entry.detail["bar"]
        await host.disappearances.restore("s", RestoreRequest(row["audit_id"], None), OPERATOR)
        for wanted in (True, True, True):
            await sweep(host, 1)
            assert (memory.graph.find_by_content("it rained") is not None) is wanted
        await sweep(host, 1)
        assert memory.graph.find_by_content("it rained") is None
