"""The demo's clock and ids: interactions 10 ms apart, however often the clock is looked at."""

from __future__ import annotations

import time
import uuid

import pytest

from hosting import hosting
from memory.demo_profile import (
    BASE,
    STEP,
    DemoClock,
    SequentialIds,
    check_demo_session,
)
from memory.engine.errors import Forbidden
from memory.engine.requests import ActionRequest, Caller, DeriveRequest, RecallRequest
from memory.testing import InMemoryStore
from rest_api_scenario import SCENARIO


async def test_interactions_are_stamped_ten_milliseconds_apart() -> None:
    ids = SequentialIds()
    clock = DemoClock(ids)
    async with hosting(InMemoryStore(), clock=clock, ids=ids) as host:
        for number, (agent, request) in enumerate(SCENARIO):
            memory = await host.memory("demo-x", create=True)
            caller = Caller(agent, f"key-{number}")
            if isinstance(request, DeriveRequest):
                await memory.derive(request, caller)
            else:
                assert isinstance(request, ActionRequest)
                await memory.record_action(request, caller)
            # Questions, a session put away and opened again: none of them moves time.
            await memory.recall(RecallRequest("user schema"))
            await memory.stats()
            if number % 3 == 0:
                await host.close_session("demo-x", caller)
        graph = (await host.memory("demo-x", create=False)).graph
        stamps = sorted(interaction.created_at - BASE for interaction in graph.interactions())
    assert stamps == [number * STEP for number in range(12)]


def test_ids_count_and_sort_in_the_order_they_were_taken() -> None:
    ids = SequentialIds()
    taken = [ids.next_id() for _ in range(300)]
    ordered = [ids.next_ordered_id(BASE) for _ in range(300)]
    assert taken == sorted(taken)
    assert ordered == sorted(ordered)
    assert len({*taken, *ordered}) == 600
    assert {uuid.UUID(text).version for text in taken} == {4}
    assert {uuid.UUID(text).version for text in ordered} == {7}
    assert SequentialIds().next_id() == taken[0]


def test_waits_use_real_seconds() -> None:
    clock = DemoClock(SequentialIds())
    before = time.monotonic()
    assert before <= clock.monotonic() <= time.monotonic()


@pytest.mark.parametrize("name", ["default", "demo", "Demo-x", " demo-x", ""])
def test_sessions_of_real_work_are_refused(name: str) -> None:
    check_demo_session("demo-rest-api")
    with pytest.raises(Forbidden):
        check_demo_session(name)
