"""A host seals every audit row, over any store, through restarts, refusals, purges, deletions."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from hosting import OPERATOR, hosting, until
from memory.anchors import AuditBroken, ChainKeyMismatch
from memory.engine.audit_verification import FaultKind
from memory.engine.errors import RejectedByStore
from memory.engine.mutations import Mutation, PutAudit
from memory.engine.requests import RootGoalRequest
from memory.engine.times import SECOND
from memory.engine.types import AuditEntry, AuditKind
from memory.service.audit_check import PAGE_ROWS, SESSIONS_PER_PAGE
from memory.system import RandomIds, SystemClock
from memory.testing import FaultKind as StoreFaultKind
from memory.testing import FaultyStore, ManualClock
from sealed_stores import (
    SealedStore,
    derive,
    purge,
    retract,
    rule,
    sealed_in_memory,
    sealed_on,
    write_trail,
)

START = 1_700_000_000_000_000


@pytest.fixture(params=["in memory", *ENGINES])
def sealed(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[SealedStore]:
    if request.param == "in memory":
        yield sealed_in_memory(tmp_path)
        return
    with django_db_blocker.unblock(), sealed_on(request.param, tmp_path) as made:
        yield made


async def test_every_act_is_a_link_and_the_chain_goes_on_after_a_restart(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await write_trail(host, 3)
        await rule(host, "redis backend", "session store")
        memory = await host.memory("s", create=False)
        assert memory.chain is not None
        assert memory.chain.head == memory.chain.committed
        head = memory.chain.head
        assert head.sequence == 4
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert (report.session_count, report.verified_count, report.anchored_count) == (1, 4, 4)
    assert report.unchained_count == 0

    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        memory = await host.memory("s", create=False)
        assert memory.chain is not None
        assert memory.chain.head == head
        await rule(host, "db", "database")
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert report.verified_count == 5


async def test_a_server_whose_clock_is_behind_the_last_one_s_gives_ids_that_sort_after(
    sealed: SealedStore,
) -> None:
    """Sorted by id its rows came first, and what was confirmed was told in another order."""
    clock = ManualClock()
    for seconds in (0, -500, -1_000):
        clock.set_wall_time(ManualClock().now() + seconds * SECOND)
        async with hosting(sealed.store, clock=clock, audit=sealed.keeper()) as host:
            await write_trail(host, 2)
    rows = await asyncio.to_thread(sealed.trail.read_rows, "s", after=None, limit=100)
    ids = [row.columns.id for row in rows]
    assert len(ids) == 6
    assert ids == sorted(ids)


async def test_an_id_ages_ahead_does_not_carry_the_others_with_it(tmp_path: Path) -> None:
    sealed, ids = sealed_in_memory(tmp_path), RandomIds()
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await write_trail(host, 1)
    loaded = sealed.store.load_session("s")
    assert loaded is not None
    far = loaded.chain._replace(latest_id="ffffffff-ffff-7fff-bfff-ffffffffffff")
    sealed.keeper().chain_of(replace(loaded, chain=far), ids)
    now = SystemClock().now()
    assert ids.next_ordered_id(now) < RandomIds().next_ordered_id(now + SECOND)


async def test_a_host_without_a_key_links_nothing(sealed: SealedStore) -> None:
    async with hosting(sealed.store) as host:
        await write_trail(host, 3)
        assert (await host.memory("s", create=False)).chain is None
    report = await asyncio.to_thread(sealed.check)
    assert (report.verified_count, report.unchained_count, report.is_sound) == (0, 3, True)
    assert not sealed.anchors.path.exists()


async def test_rows_from_before_the_chain_are_counted_and_not_proven(sealed: SealedStore) -> None:
    async with hosting(sealed.store) as host:
        await write_trail(host, 3)
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert (report.verified_count, report.unchained_count) == (1, 3)
    assert "3 rows are older than the chain: not verified" in report.lines()


async def test_a_purge_leaves_a_chain_that_still_proves_every_row(sealed: SealedStore) -> None:
    """Its own rows lose their texts, a neighbour's row a label, a ruling a word."""
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        secret, other = await derive(host, "the xylophonist keeps the keys", "the other statement")
        await rule(host, "the xylophonist keeps the keys", "keys")
        await retract(host, other)
        await retract(host, secret)
        told = await purge(host, secret)
        assert told["blanked"]["audit_event"] >= 2
        await rule(host, "db", "database")
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert report.verified_count == 5


async def test_rows_that_were_under_way_when_a_purge_looked_are_proven_too(
    sealed: SealedStore,
) -> None:
    """A purge blanks what was committed after it had counted what to blank."""
    store = FaultyStore(sealed.store)
    async with hosting(store, audit=sealed.keeper()) as host:
        (secret,) = await derive(host, "the xylophonist keeps the keys")
        fault = store.fail_next("commit", StoreFaultKind.HANG)
        ruling = asyncio.create_task(rule(host, "the xylophonist keeps the keys", "keys"))
        await until(fault.entered.is_set)
        purging = asyncio.create_task(purge(host, secret))
        await until(lambda: store.calls["find_blanked"] > 0)
        fault.release.set()
        await asyncio.gather(ruling, purging)
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert report.verified_count == 2


async def test_a_deleted_session_and_the_next_of_its_name_are_one_chain(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await write_trail(host, 3)
        await host.delete_session("s", "s", OPERATOR)
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert report.verified_count == 4

    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
        await host.delete_session("s", "s", OPERATOR)
        await rule(host, "db", "database")
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert report.verified_count == 7


async def test_a_refused_group_leaves_no_gap_in_the_chain(sealed: SealedStore) -> None:
    store = FaultyStore(sealed.store)
    async with hosting(store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
        store.fail_next("commit", StoreFaultKind.REJECTED)
        with pytest.raises(RejectedByStore):
            await rule(host, "srv", "server")
        await rule(host, "cfg", "configuration")
        memory = await host.memory("s", create=False)
        assert memory.chain is not None
        assert memory.chain.committed.sequence == 2
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert report.verified_count == 2


async def test_acts_of_many_at_once_are_one_chain_while_it_is_checked(sealed: SealedStore) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await derive(host, "first")

        async def acts(worker: int) -> None:
            for number in range(10):
                await rule(host, f"name {worker} {number}", "meant", session=f"s{worker % 2}")

        work = asyncio.gather(*(acts(worker) for worker in range(6)))
        checks = 0
        while not work.done():
            report = await asyncio.to_thread(sealed.check)
            assert report.is_sound, report.lines()
            checks += 1
        await work
        assert checks > 0
    report = await asyncio.to_thread(sealed.check)
    assert (report.is_sound, report.verified_count) == (True, 60), report.lines()


async def test_pages_of_rows_and_of_sessions_are_read_to_their_end(sealed: SealedStore) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        memory = await host.memory("big", create=True)
        for number in range(PAGE_ROWS // 2 + 3):
            memory.queue(_rulings(number))
        await until(lambda: memory.unsettled_count == 0)
        await rule(host, "db", "database", session="a")
        await rule(host, "db", "database", session="z")
    report = await asyncio.to_thread(sealed.check)
    assert (report.is_sound, report.session_count) == (True, 3), report.lines()
    assert report.verified_count == PAGE_ROWS + 6 + 2
    assert SESSIONS_PER_PAGE > 3
    only = await asyncio.to_thread(sealed.check, session_id="z")
    assert (only.session_count, only.verified_count) == (1, 1)


def _rulings(number: int) -> tuple[Mutation, ...]:
    """A group of two audit rows."""
    now = START + number
    return tuple(
        PutAudit(
            AuditEntry(
                id=str(uuid.UUID(int=2 * number + offset, version=4)),
                kind=AuditKind.SYNONYM,
                node_id=None,
                from_status=None,
                to_status=None,
                occurred_at=now,
                actor="olga",
                texts={"name": f"name {number}"},
            )
        )
        for offset in (0, 1)
    )


async def test_a_database_of_another_key_is_refused_at_the_start_and_by_a_check(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await rule(host, "db", "database")
    other = b"another key of thirty-two letters"
    with pytest.raises(ChainKeyMismatch, match="another chain key"):
        async with hosting(sealed.store, audit=sealed.keeper(other)):
            pass
    with pytest.raises(ChainKeyMismatch) as caught:
        await asyncio.to_thread(sealed.check, key=other)
    assert other.decode() not in str(caught.value.as_wire())
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound


async def test_heads_are_anchored_by_the_job_once_and_when_a_session_is_put_away(
    sealed: SealedStore,
) -> None:
    keeper = sealed.keeper()
    async with hosting(sealed.store, audit=keeper, jobs=keeper.jobs()) as host:
        await derive(host, "no audit row of this", session="quiet")
        await rule(host, "db", "database")
        for expected in (1, 0):
            report = await host.calendar.run("anchor", force=True)
            assert (report.failed, report.did["anchors"]) == (0, expected)
        await rule(host, "srv", "server")
        await host.close_session("s", OPERATOR)
    lines = [json.loads(line) for line in sealed.anchors.path.read_text().splitlines()]
    assert [(line["session"], line["sequence"]) for line in lines] == [("s", 1), ("s", 2)]
    assert sealed.anchors.path.stat().st_mode & 0o777 == 0o600
    found = await asyncio.to_thread(sealed.check)
    assert (found.anchored_count, found.anchor_count) == (2, 2)


async def test_an_anchor_that_cannot_be_written_fails_the_job_and_not_the_end(
    sealed: SealedStore, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = sealed.keeper()
    async with hosting(sealed.store, audit=keeper, jobs=keeper.jobs()) as host:
        await rule(host, "db", "database")
        sealed.anchors.path.mkdir()
        report = await host.calendar.run("anchor", force=True)
        assert [failure["code"] for failure in report.failures] == ["anchors_unusable"]
        sealed.anchors.path.rmdir()
        report = await host.calendar.run("anchor", force=True)
        assert report.did["anchors"] == 1
        await rule(host, "srv", "server")
        sealed.anchors.path.unlink()
        sealed.anchors.path.mkdir()
        await host.close_session("s", OPERATOR)
    assert "sessions are put away without an anchor" in caplog.text


async def test_no_anchor_tells_of_a_row_that_is_not_committed(sealed: SealedStore) -> None:
    store = FaultyStore(sealed.store)
    keeper = sealed.keeper()
    async with hosting(store, audit=keeper, jobs=keeper.jobs()) as host:
        await rule(host, "db", "database")
        fault = store.fail_next("commit", StoreFaultKind.HANG)
        ruling = asyncio.create_task(rule(host, "srv", "server"))
        await until(fault.entered.is_set)
        memory = await host.memory("s", create=False)
        assert await keeper.anchor([memory]) == 1
        fault.release.set()
        await ruling
    anchors = sealed.anchors.read()
    assert sorted(anchors.of("s")) == [1, 2]


async def test_the_daily_job_fails_when_rows_are_missing_that_an_anchor_tells_of(
    sealed: SealedStore,
) -> None:
    keeper = sealed.keeper()
    async with hosting(sealed.store, audit=keeper, jobs=keeper.jobs()) as host:
        await rule(host, "db", "database")
        report = await host.calendar.run("verify-audit", force=True)
        assert (report.ran, report.did["rows_verified"]) == (1, 1)
        with sealed.anchors.path.open("a") as file:
            file.write(json.dumps({"session": "gone", "sequence": 3, "hash": "00"}) + "\n")
        report = await host.calendar.run("verify-audit", force=True)
        assert report.failures[0]["code"] == AuditBroken.code
        assert "gone row 1: missing: rows 1 to 3 are missing" in report.failures[0]["message"]
    found = await asyncio.to_thread(sealed.check)
    assert [fault.kind for fault in found.faults] == [FaultKind.MISSING]


async def test_a_goal_that_was_purged_in_part_still_stands_in_a_sound_row(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        (secret,) = await derive(host, "the xylophonist keeps the keys")
        goal = RootGoalRequest(("ship it", "ask: the xylophonist keeps the keys"))
        await host.write("s", lambda memory: memory.set_root_goal(goal, OPERATOR), create=False)
        told = await purge(host, secret)
        assert told["blanked"]["audit_event"] == 1
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
