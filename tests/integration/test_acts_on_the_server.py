"""Acts that change whom a server trusts, or a session as a whole, leave one sealed row each."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pytest_django import DjangoDbBlocker

from engine_database import SQLITE
from hosting import hosting
from memory.embed.fixture import FixtureEmbedder
from memory.engine.audit_verification import FaultKind
from memory.engine.errors import InvalidArgument, SessionExists
from memory.engine.requests import Caller, check_session_name
from memory.engine.rights import Scope
from memory.engine.server_acts import SERVER_CHAIN
from memory.engine.tokens import TokenRequest
from memory.service.tokens import TokenKeeper
from memory.store.tokens import DjangoTokenStore
from memory.system import RandomIds, SystemClock, draw_token
from reembedding_sessions import TurnedEmbedder, until_state
from sealed_stores import SealedStore, derive, sealed_on

OLGA = Caller("olga", is_operator=True)
REQUEST = TokenRequest("ci", "ann", frozenset({Scope.WRITE}), ("shop-*",), True)

T = TypeVar("T")


@pytest.fixture
def sealed(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[SealedStore]:
    with django_db_blocker.unblock(), sealed_on(SQLITE, tmp_path) as made:
        yield made


def keeper_of(sealed: SealedStore) -> TokenKeeper:
    assert sealed.database is not None

    async def on_writer(job: Callable[[], T]) -> T:
        return await asyncio.to_thread(job)

    return TokenKeeper(
        DjangoTokenStore(sealed.database.writer, sealed.database.reader),
        clock=SystemClock(),
        ids=RandomIds(),
        draw=draw_token,
        on_writer=on_writer,
        audit=sealed.keeper(),
    )


def trail_of(sealed: SealedStore, session: str) -> list[tuple[Any, ...]]:
    """Kind, actor and detail of each row, in their order."""
    assert sealed.database is not None
    with closing(sqlite3.connect(sealed.database.path)) as connection:
        return connection.execute(
            "SELECT kind, actor, detail FROM lambo_audit_event WHERE session_id = ?"
            " ORDER BY sequence",
            [session],
        ).fetchall()


def test_no_session_can_bear_the_name_of_the_server_s_chain() -> None:
    with pytest.raises(InvalidArgument, match="may not contain /"):
        check_session_name(SERVER_CHAIN)


async def test_making_and_revoking_a_token_left_no_trace_but_a_log_line(
    sealed: SealedStore,
) -> None:
    keeper = keeper_of(sealed)
    made = (await keeper.create(REQUEST, OLGA)).structured
    await keeper.revoke(made["id"], Caller("otto", is_operator=True))
    await keeper.revoke(made["id"], OLGA)  # nothing changes: no row
    rows = await asyncio.to_thread(trail_of, sealed, SERVER_CHAIN)
    assert [row[:2] for row in rows] == [("token-create", "olga"), ("token-revoke", "otto")]
    for *_, detail in rows:
        told = json.loads(detail)
        assert told["token"] == made["id"]
        assert (told["agent"], told["sessions"]) == ("ann", ["shop-*"])
        assert (told["scopes"], told["may_act_for_others"]) == (["write"], True)
        assert made["token"].split("_", 2)[2] not in detail

    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
    assert (report.verified_count, report.anchored_count) == (2, 2)


async def test_a_row_of_a_token_that_is_taken_away_is_missed(sealed: SealedStore) -> None:
    keeper = keeper_of(sealed)
    for _ in range(3):
        await keeper.create(REQUEST, OLGA)
    assert sealed.database is not None
    with closing(sqlite3.connect(sealed.database.path)) as connection, connection:
        connection.execute(
            "DELETE FROM lambo_audit_event WHERE session_id = ? AND sequence = 3", [SERVER_CHAIN]
        )
    report = await asyncio.to_thread(sealed.check)
    (fault,) = report.faults
    assert (fault.session_id, fault.sequence, fault.kind) == (SERVER_CHAIN, 3, FaultKind.MISSING)


async def test_another_process_goes_on_with_the_server_s_chain(sealed: SealedStore) -> None:
    for _ in range(2):
        await keeper_of(sealed).create(REQUEST, OLGA)
    report = await asyncio.to_thread(sealed.check)
    assert (report.is_sound, report.verified_count) == (True, 2), report.lines()


async def test_making_a_session_is_an_act_and_a_first_write_is_a_write(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await host.create_session("asked", OLGA)
        with pytest.raises(SessionExists):
            await host.create_session("asked", OLGA)
        await derive(host, "a statement", session="asked")
        await derive(host, "a statement", session="written")
    assert await asyncio.to_thread(trail_of, sealed, "asked") == [("session-create", "olga", None)]
    assert await asyncio.to_thread(trail_of, sealed, "written") == []

    # Deleted and made again: the chain of the name goes on.
    async with hosting(sealed.store, audit=sealed.keeper()) as host:
        await host.delete_session("asked", "asked", OLGA)
        await host.create_session("asked", OLGA)
    kinds = [row[0] for row in await asyncio.to_thread(trail_of, sealed, "asked")]
    assert kinds == ["session-create", "session-delete", "session-create"]
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()


async def test_a_session_that_was_embedded_again_says_who_asked_and_from_what(
    sealed: SealedStore,
) -> None:
    async with hosting(sealed.store, audit=sealed.keeper(), embedder=FixtureEmbedder()) as host:
        await derive(host, "a statement", "another")
    async with hosting(sealed.store, audit=sealed.keeper(), embedder=TurnedEmbedder()) as host:
        await host.reembedder.ask("s", actor="olga")
        await until_state(host, "done")
        await host.reembedder.ask("s", actor="otto")  # needs none: no row
    ((kind, actor, detail),) = await asyncio.to_thread(trail_of, sealed, "s")
    assert (kind, actor) == ("reembed", "olga")
    told = json.loads(detail)
    assert told["from_contract"] == FixtureEmbedder().contract.as_wire()
    assert told["to_contract"] == TurnedEmbedder().contract.as_wire()
    report = await asyncio.to_thread(sealed.check)
    assert report.is_sound, report.lines()
