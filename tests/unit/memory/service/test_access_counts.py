"""Access counts: once for each agent between two of its writes, and no change of the memory."""

from __future__ import annotations

from canon.cycles import CanonCycles
from hosting import hosting, statement
from memory.engine.graph import Graph
from memory.engine.limits import ACCESSES_PER_GROUP, ACCESSES_REMEMBERED
from memory.engine.requests import Caller, InspectRequest, RecallRequest
from memory.service.access_counts import AccessCounts
from memory.service.host import SessionHost
from memory.testing import InMemoryStore, ManualClock

ALICE, BOB = Caller("alice"), Caller("bob")


async def write(host: SessionHost, caller: Caller, *contents: str) -> None:
    await host.write("s", lambda memory: memory.derive(statement(*contents), caller), create=True)


def count_of(graph: Graph, content: str) -> int:
    row = graph.find_by_content(content)
    assert row is not None
    return int(graph.concepts["access_count"][row])


async def test_showing_counts_once_for_each_agent_until_it_writes() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with hosting(store, clock=clock, cycles=CanonCycles(), ticks=False) as host:
        await write(host, ALICE, "schema", "handler")
        memory = await host.memory("s", create=False)

        async def read_and_flush() -> int:
            for agent in ("alice", "bob"):
                for _ in range(3):
                    await memory.recall(RecallRequest("schema"), agent_id=agent)
                    await memory.inspect(InspectRequest("schema", 1), agent_id=agent)
            clock.advance(10)
            await host.cycles.ticker.tick()
            return count_of(memory.graph, "schema")

        await host.cycles.ticker.tick()
        before = memory.graph.epoch
        assert await read_and_flush() == 2
        assert await read_and_flush() == 2
        assert memory.graph.epoch == before
        assert memory.cycles is not None
        assert memory.cycles.stats().mutations_since_sweep == before
        await write(host, BOB, "another")
        assert await read_and_flush() == 3
    async with hosting(store, clock=clock, cycles=CanonCycles(), ticks=False) as host:
        graph = (await host.memory("s", create=False)).graph
        assert count_of(graph, "schema") == 3
        row = graph.find_by_content("schema")
        assert row is not None
        assert graph.concept_at(row).last_accessed is not None


async def test_counts_not_yet_written_are_written_when_the_session_is_put_away() -> None:
    store, clock = InMemoryStore(), ManualClock()
    async with hosting(store, clock=clock, cycles=CanonCycles(), ticks=False) as host:
        await write(host, ALICE, "schema")
        await (await host.view("s")).recall(RecallRequest("schema"), agent_id="bob")
    async with hosting(store, clock=clock, cycles=CanonCycles(), ticks=False) as host:
        assert count_of((await host.memory("s", create=False)).graph, "schema") == 1


async def test_reading_without_a_name_counts_nothing() -> None:
    clock = ManualClock()
    async with hosting(InMemoryStore(), clock=clock, cycles=CanonCycles(), ticks=False) as host:
        await write(host, ALICE, "schema")
        memory = await host.memory("s", create=False)
        await memory.recall(RecallRequest("schema"))
        position = memory.position
        memory.write_accesses()
        assert memory.position == position


def test_what_is_remembered_is_bounded_and_the_longest_unseen_agent_is_forgotten() -> None:
    counts, graph = AccessCounts(), Graph("s", 0)
    many = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(ACCESSES_REMEMBERED)]
    counts.note("early", many[:1], 1)
    counts.note("late", many, 2)
    counts.note("late", many, 3)
    assert set(counts._shown) == {"late"}
    assert counts._remembered == ACCESSES_REMEMBERED
    assert counts._raised[many[0]] == 2
    taken = 0
    while counts:
        assert counts.take(graph) == ()  # of concepts that are gone
        taken += 1
    assert taken == ACCESSES_REMEMBERED // ACCESSES_PER_GROUP
