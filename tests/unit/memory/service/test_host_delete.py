"""Deleting a session while agents go on writing under its name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from engine_database import EngineDatabase, engine_database
from hosting import AGENT, OPERATOR, contents, hosting, statement, until
from memory.engine.errors import LamboError, StoreUnavailable
from memory.engine.ports import DeadLetter, StoreTransient
from memory.engine.types import AuditEntry
from memory.service.host import SessionHost
from memory.service.stats import GraphCounts, SessionStats
from memory.store.django_store import DjangoStore
from memory.testing import InMemoryStore
from session_log import START

WRITERS = 4


@pytest.fixture(params=ENGINES)
def database(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path, request.param) as made:
        yield made


class HinderedStore(DjangoStore):
    """Takes its time for each step of a deletion, and fails once at one of them."""

    halt_at: int | None = None
    steps_taken = 0

    def delete_session(
        self,
        session_id: str,
        *,
        node_id: str,
        token: int,
        entry: AuditEntry,
        chain_key: bytes | None = None,
    ) -> Iterator[Mapping[str, int]]:
        steps = super().delete_session(
            session_id, node_id=node_id, token=token, entry=entry, chain_key=chain_key
        )
        for number, removed in enumerate(steps):
            if number == self.halt_at:
                raise StoreTransient("halted")
            time.sleep(0.02)
            self.steps_taken += 1
            yield removed


def count_concepts(database: EngineDatabase) -> int:
    ((count,),) = database.look("SELECT count(*) FROM lambo_concept")
    return int(count)


async def derive(host: SessionHost, *texts: str) -> None:
    await host.write("s", lambda memory: memory.derive(statement(*texts), AGENT), create=True)


async def insist(host: SessionHost, text: str) -> None:
    """Write, asking again as often as we are told to."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await derive(host, text)
            except LamboError as error:
                if error.retry_after_seconds is None:
                    raise
                await asyncio.sleep(0.002)


@pytest.mark.parametrize("kind", ["in memory", "durable"])
async def test_writes_acknowledged_after_a_deletion_are_all_kept(
    database: EngineDatabase, kind: str
) -> None:
    store = InMemoryStore() if kind == "in memory" else database.store()
    finished: set[str] = set()
    begun_after: set[str] = set()
    is_deleted = False

    async def agent(host: SessionHost, number: int) -> None:
        turn = left = 0
        while left < 10:
            text = f"agent{number}turn{turn}"  # one word, so that no two are alike
            begun_after.update([text] if is_deleted else [])
            await insist(host, text)
            finished.add(text)
            turn += 1
            left += is_deleted

    async with hosting(store) as host:
        await derive(host, *(f"old {number}" for number in range(40)))
        agents = [asyncio.create_task(agent(host, number)) for number in range(WRITERS)]
        await asyncio.sleep(0.05)
        deleted = (await host.delete_session("s", "s", OPERATOR)).structured["deleted"]
        is_deleted = True
        await asyncio.gather(*agents)
        live = contents((await host.view("s")).graph)

    # Each write makes an interaction and a concept, each concept one Derives edge: all of a session
    # is either counted as deleted, or here.
    assert deleted["session"] == 1
    assert deleted["concept"] + len(live) == 40 + len(finished)
    assert deleted["interaction"] + len(live) == 1 + len(finished)
    async with hosting(store) as host:
        stored = contents((await host.view("s")).graph)
    assert stored == live
    assert len(begun_after) >= WRITERS * 9
    assert begun_after <= stored


async def test_a_name_that_is_being_deleted_asks_to_be_tried_again(
    database: EngineDatabase,
) -> None:
    store = HinderedStore(database.writer, database.reader)
    async with hosting(store) as host:
        await derive(host, "old")
        deletion = asyncio.create_task(host.delete_session("s", "s", OPERATOR))
        await until(lambda: store.steps_taken >= 2)

        # Past the host, which lets a write wait for its turn, as another server would ask.
        with pytest.raises(StoreUnavailable) as refused:
            await host._access().acquire("s", create=True)
        assert refused.value.message == "session 's' is being deleted; ask again"
        assert refused.value.retry_after_seconds == 1.0
        assert not deletion.done()  # it is not the asker who finished it

        assert (await deletion).structured["deleted"]["concept"] == 1
        await derive(host, "new")
        assert contents((await host.view("s")).graph) == {"new"}


async def test_a_deletion_that_a_fault_cut_short_is_finished_when_the_name_is_used(
    database: EngineDatabase,
) -> None:
    store = HinderedStore(database.writer, database.reader)
    store.halt_at = 1
    async with hosting(store) as host:
        await derive(host, "old")
        with pytest.raises(StoreUnavailable):
            await host.delete_session("s", "s", OPERATOR)
        assert count_concepts(database) == 1

        with pytest.raises(StoreUnavailable):
            await derive(host, "new")
        assert count_concepts(database) == 0
        await derive(host, "new")

        assert contents((await host.view("s")).graph) == {"new"}


@pytest.mark.parametrize("kind", ["in memory", "durable"])
async def test_dead_letters_and_rows_set_aside_are_counted(
    database: EngineDatabase, kind: str
) -> None:
    store = InMemoryStore() if kind == "in memory" else database.store()
    async with hosting(store) as host:
        await derive(host, "a fact")
        access = host._access()
        assert await access.trouble_counts("s") == (0, 0)
        letter = DeadLetter("s", 9, None, "error", START)
        await access._on_committer(lambda: store.put_dead_letter(letter), "a letter")
        assert await access.trouble_counts("s") == (1, 0)


def test_stats_tell_of_trouble_only_where_there_is_some() -> None:
    well = SessionStats("s", GraphCounts())
    assert "dead letters" not in well.text
    assert "set aside" not in well.text
    troubled = SessionStats("s", GraphCounts(), dead_lettered=2, set_aside=3)
    assert "2 call(s) refused by the store, kept as dead letters" in troubled.text
    assert "3 unusable row(s) set aside" in troubled.text
    assert (troubled.as_wire()["dead_lettered"], troubled.as_wire()["set_aside"]) == (2, 3)
