"""Background cycles in a running host: when they stand still, and what readers see of them."""

from __future__ import annotations

import asyncio
from typing import Any

from canon.cycles import CanonCycles, CanonSessionCycles
from cycling import (
    SUBJECT,
    cycling,
    evaluate_until_settled,
    rest_on_subject,
    status_in,
    sweep,
    write,
)
from hosting import AGENT, OPERATOR, act, statement, until
from memory.engine.graph import Graph
from memory.engine.mutations import ApplyTransition, PutCycleState
from memory.engine.requests import (
    Caller,
    RecallRequest,
)
from memory.engine.times import SECOND
from memory.engine.types import Status
from memory.service.events import Event
from memory.testing import FaultKind, FaultyStore, InMemoryStore, ManualClock

# -- what stands still -----------------------------------------------------------------------------


async def test_while_the_store_is_away_nothing_is_evaluated_or_swept() -> None:
    store, clock = FaultyStore(InMemoryStore()), ManualClock()
    async with cycling(store, clock, away_after_seconds=0.05) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 7)
        await sweep(host)
        memory = await host.memory("s", create=False)
        hang = store.fail_next("commit", FaultKind.HANG)
        writing = host.write(
            "s", lambda memory: memory.derive(statement("late"), AGENT), create=True
        )
        task = asyncio.create_task(writing)
        await until(hang.entered.is_set)
        clock.advance(1)
        await until(lambda: not host.is_healthy)
        position = memory.position
        assert await memory.evaluate(is_forced=True) == {}
        assert await memory.collect(is_forced=True) == {}
        await host.cycles.ticker.tick()
        assert memory.position == position
        hang.release.set()
        await task
        await until(lambda: host.is_healthy)
        assert await evaluate_until_settled(host) == 3


async def test_a_lost_lease_lets_no_verdict_through() -> None:
    inner, clock = InMemoryStore(), ManualClock()
    store = FaultyStore(inner)
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 7)
        await sweep(host)
        store.fail_next("commit", FaultKind.LEASE_LOST)
        memory = await host.memory("s", create=False)
        await memory.evaluate(is_forced=True)
        assert memory.is_fenced
        assert inner._sessions["s"].transitions == {}
        assert await memory.evaluate(is_forced=True) == {}


async def test_a_refused_group_is_evaluated_again_on_what_the_store_holds() -> None:
    store, clock = FaultyStore(InMemoryStore()), ManualClock()
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
        await rest_on_subject(host, clock, 7)
        await sweep(host)
        memory = await host.memory("s", create=False)
        store.rejects = lambda group: any(
            isinstance(one, ApplyTransition) for one in group.mutations
        )
        assert await memory.evaluate(is_forced=True) == {}  # no run tells of what was not kept
        await until(lambda: status_in(memory.graph) is Status.NONE)
        store.rejects = lambda group: False
        await until(memory.takes_cycles)
        assert await evaluate_until_settled(host) == 3
        assert status_in(memory.graph) is Status.CANONICAL


async def test_a_fault_in_one_session_is_contained_and_counted() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        for name in ("broken", "sound"):
            await host.write(name, lambda memory: memory.derive(statement("x"), AGENT), create=True)
        broken = await host.memory("broken", create=False)
        sound = await host.memory("sound", create=False)
        assert isinstance(broken.cycles, CanonSessionCycles)
        broken.graph.change_log = None  # as a bug would
        before = (sound.cycles, sound.position)
        await host.cycles.ticker.tick()
        assert host.cycles.ticker.failures == {"broken": 1}
        assert sound.cycles is before[0]
        assert sound.position == before[1] + 1  # it noted when it is due
        await host.cycles.ticker.tick()
        assert host.cycles.ticker.failures == {"broken": 2}
        broken.cycles = None  # or putting it away would stumble over it as well


async def test_a_session_nobody_writes_is_looked_at_now_and_then() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT)
        memory = await host.memory("s", create=False)
        rounds: list[int] = []
        assert isinstance(memory.cycles, CanonSessionCycles)
        inner = memory.cycles.run_round

        def counted(graph: Graph, now: int) -> Any:
            rounds.append(now)
            return inner(graph, now)

        memory.cycles.run_round = counted  # type: ignore[method-assign]
        for _ in range(60):
            await host.cycles.ticker.tick()
            clock.advance(1)
        assert len(rounds) == 60
        for _ in range(60):
            clock.advance(1)
            await host.cycles.ticker.tick()
        assert len(rounds) == 64
        await write(host, "another")
        await host.cycles.ticker.tick()
        assert len(rounds) == 65


# -- what readers see ------------------------------------------------------------------------------


async def test_recall_shows_standing_and_what_needs_attention() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT, agent="agent-a")
        await host.write(
            "s",
            lambda memory: memory.record_action(act("change it", SUBJECT), Caller("agent-b")),
            create=True,
        )
        clock.advance(2.5)
        view = await host.view("s")
        before = (await view.recall(RecallRequest(SUBJECT))).structured["hits"]
        assert all(not hit["annotations"] for hit in before)  # no round has looked yet
        await host.cycles.ticker.tick()
        after = (await view.recall(RecallRequest(SUBJECT))).structured["hits"]
        lines = [note["text"] for hit in after for note in hit["annotations"]]
        assert "Agent B wrote to it 2 seconds ago" in lines
        clock.advance(31)  # nobody ticks: the entry is looked at again when it is read
        again = (await view.recall(RecallRequest(SUBJECT))).structured["hits"]
        assert all(not hit["annotations"] for hit in again)


async def test_a_new_concept_has_its_score_before_any_round() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, "first")
        memory = await host.memory("s", create=False)
        assert isinstance(memory.cycles, CanonSessionCycles)
        clock.advance(1)
        await write(host, "second", depends_on=("first",))
        row = memory.graph.find_by_content("second")
        assert row is not None
        assert memory.cycles.scores[row] > 0


async def test_listeners_hear_of_findings_once_and_of_each_step() -> None:
    clock = ManualClock()
    async with cycling(InMemoryStore(), clock) as host:
        await write(host, SUBJECT, agent="agent-a")
        feed = host.events.listen("s")
        heard: list[Event] = []

        async def listen() -> None:
            async for event in feed:
                assert isinstance(event, Event)
                heard.append(event)

        task = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await host.write(
            "s",
            lambda memory: memory.record_action(act("change it", SUBJECT), Caller("agent-b")),
            create=True,
        )
        for _ in range(3):
            clock.advance(1)
            await host.cycles.ticker.tick()
        await rest_on_subject(host, clock, 7)
        await sweep(host)
        await evaluate_until_settled(host)
        await until(lambda: len([e for e in heard if e.kind == "promotion"]) == 3)
        conflicts = [event for event in heard if event.kind == "conflict"]
        assert [data_of(event)["agents"] for event in conflicts] == [["agent-a", "agent-b"]]
        steps = [data_of(event) for event in heard if event.kind == "promotion"]
        assert [step["to_status"] for step in steps] == ["Candidate", "Venerable", "Canonical"]
        assert {step["content"] for step in steps} == {SUBJECT}
        assert all(step["evidence"] for step in steps)
        first = heard[0].id
        assert [event.id for event in heard] == list(range(first, first + len(heard)))
        works = [data_of(event)["work"] for event in heard if event.kind == "cycle"]
        assert "evaluation" in works
        task.cancel()


def data_of(event: Event) -> dict[str, Any]:
    assert isinstance(event.data, dict)
    return event.data


async def test_a_session_only_read_is_not_written() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
    clock.advance(61)
    async with cycling(store, clock) as host:
        await host.calendar.run("evaluate")
    async with cycling(store, clock) as host:
        memory = await host.memory("s", create=False)
        position = memory.position
        await memory.recall(RecallRequest(SUBJECT))
        await host.cycles.ticker.tick()
        await host.close_session("s", OPERATOR)
        again = await host.memory("s", create=False)
        assert again.position == position


async def test_a_kill_after_a_write_leaves_word_of_when_it_is_due() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with cycling(store, clock) as host:
        await write(host, SUBJECT)
        await host.cycles.ticker.tick()
        await until(lambda: store._sessions["s"].cycles.evaluate_at is not None)
        assert store._sessions["s"].cycles.evaluate_at == clock.now() + 60 * SECOND
        memory = await host.memory("s", create=False)
        position = memory.position
        await host.cycles.ticker.tick()
        assert memory.position == position  # once is enough


def test_a_state_that_a_foreign_hand_broke_is_a_fresh_start() -> None:
    graph = Graph("s", 0)
    for broken in ("text", 5, [1], {"swept_at": "x", "evaluation": 7, "has_pending": "yes"}):
        cycles = CanonCycles().attach(graph, broken, 0)
        assert cycles.stats().swept_at is None
        assert not cycles.needs_collection(0)


def test_stored_state_goes_on_where_it_was() -> None:
    graph = Graph("s", 0)
    first = CanonCycles().attach(graph, None, 0)
    assert first.state_note() is None
    given = [
        group for group in first.collect(graph, 5 * SECOND, ids=_NoIds(), is_forced=True) if group
    ]
    (note,) = (one for one in given[-1] if isinstance(one, PutCycleState))
    assert note.collect_at is None
    again = CanonCycles().attach(graph, note.state, 0)
    assert again.state_note() is None
    assert again.stats() == first.stats()


class _NoIds:
    def next_id(self) -> str:
        raise AssertionError("an empty session needs no ids")

    def next_ordered_id(self, now: int) -> str:
        raise AssertionError("an empty session needs no ids")
