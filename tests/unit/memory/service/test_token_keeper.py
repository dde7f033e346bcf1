"""Tokens recognised, paced and revoked, on a clock that stands still."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from memory.engine.errors import (
    InvalidArgument,
    RateLimited,
    StoreUnavailable,
    TokenNotFound,
    Unauthenticated,
)
from memory.engine.ports import StoreTransient
from memory.engine.requests import Caller
from memory.engine.rights import Scope
from memory.engine.tokens import DrawnToken, TokenRequest
from memory.service.tokens import FRESH_SECONDS, TOKENS_MAX, USE_SECONDS, TokenKeeper
from memory.store.tokens import InMemoryTokenStore
from memory.testing import ManualClock, SequentialIds

OLGA = Caller("olga", is_operator=True)
REQUEST = TokenRequest("ci", "ann", frozenset({Scope.READ}), ("shop-*",))


class FlakyTokens(InMemoryTokenStore):
    """A store that can be away."""

    is_away = False
    reads = 0

    def load_tokens(self) -> Any:
        self.reads += 1
        if self.is_away:
            raise StoreTransient("away")
        return super().load_tokens()

    def note_token_use(self, used_at: Any) -> None:
        if self.is_away:
            raise StoreTransient("away")
        super().note_token_use(used_at)


class World:
    """Keepers of several processes on one store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = FlakyTokens()
        self._drawn = 0
        self.keeper = self.another()

    def another(self, calls_per_second: float = 500) -> TokenKeeper:
        async def on_writer(job: Callable[[], Any]) -> Any:
            return await asyncio.to_thread(job)

        return TokenKeeper(
            self.store,
            clock=self.clock,
            ids=SequentialIds(),
            draw=self._draw,
            on_writer=on_writer,
            calls_per_second=calls_per_second,
        )

    def _draw(self) -> DrawnToken:
        self._drawn += 1
        return DrawnToken(f"{self._drawn:016x}", f"{self._drawn:0>43}")

    async def make(self, **fields: Any) -> tuple[str, str]:
        """A new token: its text and its id."""
        reply = await self.keeper.create(replace(REQUEST, **fields), OLGA)
        return reply.structured["token"], reply.structured["id"]


@pytest.fixture
def world() -> World:
    return World()


async def test_token_opens_what_it_was_made_for(world: World) -> None:
    text, token_id = await world.make()
    rights = await world.keeper.authenticate(text)
    assert (rights.agent_id, rights.scopes, rights.patterns) == (
        "ann",
        frozenset({Scope.READ}),
        ("shop-*",),
    )
    assert rights.token_id == token_id
    assert not rights.may_act_for_others


async def test_every_refusal_reads_the_same(world: World) -> None:
    text, _ = await world.make()
    short, _ = await world.make(expires_seconds=60)
    gone, gone_id = await world.make()
    await world.keeper.revoke(gone_id, OLGA)
    world.clock.advance(60)
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    unknown = f"lambo_{'f' * 16}_{'x' * 43}"
    said = set()
    for given in (short, gone, wrong, unknown, "", "lambo", "\ud800"):
        with pytest.raises(Unauthenticated) as caught:
            await world.keeper.authenticate(given)
        said.add(str(caught.value.as_wire()))
    assert len(said) == 1


async def test_guessing_asks_the_store_nothing(world: World) -> None:
    await world.make()
    reads = world.store.reads
    for number in range(100):
        with pytest.raises(Unauthenticated):
            await world.keeper.authenticate(f"lambo_{number:016x}_{'x' * 43}")
    assert world.store.reads == reads


async def test_revocation_counts_at_once_here_and_soon_elsewhere(world: World) -> None:
    text, token_id = await world.make()
    elsewhere = world.another()
    await elsewhere.authenticate(text)
    await world.keeper.revoke(token_id, OLGA)
    with pytest.raises(Unauthenticated):
        await world.keeper.authenticate(text)
    await elsewhere.authenticate(text)
    world.clock.advance(FRESH_SECONDS + 0.1)
    assert FRESH_SECONDS < 5
    with pytest.raises(Unauthenticated):
        await elsewhere.authenticate(text)


async def test_nobody_comes_in_on_an_old_copy(world: World) -> None:
    text, _ = await world.make()
    world.store.is_away = True
    await world.keeper.authenticate(text)
    world.clock.advance(FRESH_SECONDS + 0.1)
    with pytest.raises(StoreUnavailable) as caught:
        await world.keeper.authenticate(text)
    assert caught.value.retry_after_seconds
    world.store.is_away = False
    await world.keeper.authenticate(text)


async def test_many_calls_at_once_read_the_store_once(world: World) -> None:
    text, _ = await world.make()
    world.clock.advance(FRESH_SECONDS + 1)
    reads = world.store.reads
    await asyncio.gather(*(world.keeper.authenticate(text) for _ in range(50)))
    assert world.store.reads == reads + 1


async def test_pace_is_kept_for_each_token_alone(world: World) -> None:
    first, _ = await world.make()
    second, _ = await world.make()
    slow = world.another(calls_per_second=2)
    await slow.authenticate(first)
    await slow.authenticate(first)
    with pytest.raises(RateLimited) as caught:
        await slow.authenticate(first)
    assert caught.value.retry_after_seconds == pytest.approx(0.5)
    await slow.authenticate(second)
    world.clock.advance(0.5)
    await slow.authenticate(first)
    with pytest.raises(RateLimited):
        await slow.authenticate(first)
    world.clock.advance(3_600)
    for _ in range(2):
        await slow.authenticate(first)
    with pytest.raises(RateLimited):
        await slow.authenticate(first)


async def test_list_shows_no_secret_and_says_what_became_of_each(world: World) -> None:
    text, token_id = await world.make(expires_seconds=60)
    _, gone_id = await world.make(name="old")
    await world.keeper.revoke(gone_id, OLGA)
    await world.keeper.authenticate(text)
    rows = (await world.keeper.list_all()).structured["tokens"]
    assert [(row["id"], row["state"]) for row in rows] == [(token_id, "live"), (gone_id, "revoked")]
    assert rows[0]["last_used_at"]
    assert rows[1]["last_used_at"] is None
    reply = await world.keeper.list_all()
    assert text not in f"{reply}"
    assert text[-43:] not in f"{reply}"
    world.clock.advance(61)
    assert (await world.keeper.list_all()).structured["tokens"][0]["state"] == "expired"
    assert await world.keeper.count_live() == 0


async def test_revoking_twice_is_told_and_an_unknown_id_is_not_found(world: World) -> None:
    _, token_id = await world.make()
    assert (await world.keeper.revoke(token_id, OLGA)).structured["revoked"] is True
    assert (await world.keeper.revoke(token_id, OLGA)).structured["revoked"] is False
    with pytest.raises(TokenNotFound):
        await world.keeper.revoke("f" * 16, OLGA)


async def test_times_of_use_are_written_together_and_seldom(world: World) -> None:
    text, _ = await world.make()
    for _ in range(3):
        await world.keeper.authenticate(text)
    assert world.store.load_tokens()[0].last_used_at is None
    world.clock.advance(USE_SECONDS)
    await world.keeper.authenticate(text)
    await world.keeper.close()
    assert world.store.load_tokens()[0].last_used_at == world.clock.now()


async def test_store_that_is_away_at_the_end_loses_times_of_use_alone(world: World) -> None:
    text, _ = await world.make()
    await world.keeper.authenticate(text)
    world.store.is_away = True
    await world.keeper.close()


async def test_number_of_tokens_is_bounded_and_the_dead_make_room(world: World) -> None:
    dead = [(await world.make())[1] for _ in range(2)]
    for _ in range(TOKENS_MAX - 2):
        await world.make()
    with pytest.raises(InvalidArgument):
        await world.make()
    for token_id in dead:  # one of them may be the oldest of its agent, which stays
        await world.keeper.revoke(token_id, OLGA)
    with pytest.raises(InvalidArgument):
        await world.make()
    world.clock.advance(31 * 86_400)
    await world.make()


async def test_secrets_are_in_no_log_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    text, token_id = await world.make()
    await world.keeper.authenticate(text)
    await world.keeper.revoke(token_id, OLGA)
    assert token_id in caplog.text
    assert text[-43:] not in caplog.text
