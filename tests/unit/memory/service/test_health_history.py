"""The hour of health that charts are drawn from: what is kept, how much, and of whom."""

from __future__ import annotations

from hosting import AGENT, hosting, statement
from memory.engine.limits import HEALTH_SAMPLES
from memory.service.health_history import HealthHistory
from memory.service.loop_lag import LoopLag
from memory.testing import FaultyStore, InMemoryStore, ManualClock


async def test_samples_tell_of_the_server_and_of_each_open_session() -> None:
    clock = ManualClock()
    store = FaultyStore(InMemoryStore(clock))
    history, lag = HealthHistory(), LoopLag(clock.monotonic)
    async with hosting(store, clock=clock) as host:
        memory = await host.memory("s", create=True)
        history.sample(host, lag, clock.now())
        await memory.derive(statement("one"), AGENT)
        await memory.derive(statement("two"), AGENT)
        lag.note(clock.monotonic(), 0.0305)
        clock.advance(10)
        history.sample(host, lag, clock.now())
        told = history.as_wire("s")
        assert told["session"]["writes"] == [0, 2]
        assert told["session"]["flush_lag_ms"] == [0.0, 0.0]
        assert told["session"]["vectors_missing"] == [0, 0]
        assert told["server"]["loop_lag_ms"] == [0.0, 30.5]
        assert told["server"]["store_answers"] == [True, True]
        assert told["server"]["at"][1] - told["server"]["at"][0] == 10_000_000
        assert history.newest("s")["session"]["writes"] == 2
        # Another session, or one that is put away, has none.
        assert history.as_wire("other")["session"] == {}
        await host.close_session("s", AGENT)
        history.sample(host, lag, clock.now())
        assert history.as_wire("s")["session"] == {}
        assert history.newest("s")["session"] is None


async def test_an_hour_is_kept_and_no_more() -> None:
    clock = ManualClock()
    history, lag = HealthHistory(), LoopLag(clock.monotonic)
    async with hosting(InMemoryStore(clock), clock=clock) as host:
        await host.memory("s", create=True)
        for number in range(HEALTH_SAMPLES + 5):
            history.sample(host, lag, number)
        told = history.as_wire("s")
        for series in (told["server"], told["session"]):
            assert series["at"] == list(range(5, HEALTH_SAMPLES + 5))


async def test_sampling_keeps_no_session_in_use() -> None:
    """A session that only the charts look at would never be put away."""
    clock = ManualClock()
    history, lag = HealthHistory(), LoopLag(clock.monotonic)
    async with hosting(InMemoryStore(clock), clock=clock) as host:
        memory = await host.memory("s", create=True)
        used_at = memory.last_used
        clock.advance(60)
        history.sample(host, lag, clock.now())
        assert memory.last_used == used_at
