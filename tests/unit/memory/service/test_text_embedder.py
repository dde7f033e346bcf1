"""Every text gets a result in time, whatever the embedder does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hosting import until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.embedding import Embedded, EmbeddingFailure
from memory.service.text_embedder import BATCH_TEXTS, WORKERS, TextEmbedder
from memory.testing import EmbedderFault, ScriptedEmbedder


@asynccontextmanager
async def embedding(
    scripted: ScriptedEmbedder, *, deadline_seconds: float = 30.0
) -> AsyncIterator[TextEmbedder]:
    desk = TextEmbedder(scripted, deadline_seconds=deadline_seconds)
    try:
        yield desk
    finally:
        scripted.release()
        desk.close()


@pytest.fixture
def scripted() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder(16))


def failures(results: dict[str, Embedded]) -> list[str]:
    return [str(one) for one in results.values() if isinstance(one, EmbeddingFailure)]


async def test_each_text_has_its_own_vector_and_repeats_are_asked_once(
    scripted: ScriptedEmbedder,
) -> None:
    async with embedding(scripted) as desk:
        results = await desk.embed(["alpha", "beta", "alpha"])
    assert list(results) == ["alpha", "beta"]
    assert failures(results) == []
    assert scripted.calls == [["alpha", "beta"]]
    (alone,) = FixtureEmbedder(16).embed(["beta"], deadline_seconds=1)
    assert not isinstance(alone, EmbeddingFailure)
    assert results["beta"].tobytes() == alone.tobytes()  # type: ignore[union-attr]


async def test_no_texts_ask_nothing(scripted: ScriptedEmbedder) -> None:
    async with embedding(scripted) as desk:
        assert await desk.embed([]) == {}
    assert scripted.calls == []


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (EmbedderFault.DOWN, "injected"),
        (EmbedderFault.RAISES, "the embedder failed"),
        (EmbedderFault.TOO_FEW, "another number of results"),
        (EmbedderFault.WRONG_WIDTH, "17 dimensions, not 16"),
        (EmbedderFault.NOT_A_NUMBER, "not finite"),
    ],
)
async def test_a_fault_is_a_failure_of_each_text_and_passes(
    scripted: ScriptedEmbedder, fault: EmbedderFault, why: str
) -> None:
    scripted.fault = fault
    async with embedding(scripted) as desk:
        results = await desk.embed(["alpha", "beta"])
        assert len(failures(results)) == 2
        assert all(why in failure for failure in failures(results))
        scripted.fault = None
        assert failures(await desk.embed(["alpha"])) == []


async def test_one_texts_failure_fails_no_other(scripted: ScriptedEmbedder) -> None:
    async with embedding(scripted) as desk:
        results = await desk.embed(["alpha", "\u200b", "beta"])
    assert len(failures(results)) == 1


async def test_a_slow_embedder_costs_one_deadline_and_then_nothing(
    scripted: ScriptedEmbedder,
) -> None:
    scripted.hold()
    async with embedding(scripted, deadline_seconds=0.05) as desk:
        for number in range(WORKERS):
            results = await desk.embed([f"text {number}"])
            assert failures(results) == ["not embedded within 0.05 s"]
        await asyncio.sleep(0.05)  # until the calls under way are all past their time
        assert failures(await desk.embed(["one more"])) == ["the embedder does not answer"]

        scripted.release()
        calls_under_way = desk._started_at
        await until(lambda: not calls_under_way)
        assert failures(await desk.embed(["again"])) == []


async def test_texts_that_come_while_all_workers_are_busy_go_together(
    scripted: ScriptedEmbedder,
) -> None:
    scripted.hold()
    async with embedding(scripted) as desk:
        first = [asyncio.create_task(desk.embed([f"first {n}"])) for n in range(WORKERS)]
        await until(lambda: len(scripted.calls) == WORKERS)
        later = [asyncio.create_task(desk.embed([f"later {n}"])) for n in range(BATCH_TEXTS + 1)]
        await asyncio.sleep(0)
        scripted.release()
        results = await asyncio.gather(*first, *later)
    assert [failures(one) for one in results] == [[]] * len(results)
    sizes = [len(call) for call in scripted.calls]
    assert sizes == [1] * WORKERS + [BATCH_TEXTS, 1]


async def test_closing_fails_what_waits_and_what_comes_after(scripted: ScriptedEmbedder) -> None:
    scripted.hold()
    async with embedding(scripted) as desk:
        waiting = [asyncio.create_task(desk.embed([f"text {n}"])) for n in range(WORKERS + 1)]
        await until(lambda: len(scripted.calls) == WORKERS)
        desk.close()
        assert failures(await waiting[-1]) == ["the embedder is closed"]
        assert failures(await desk.embed(["late"])) == ["the embedder is closed"]
        assert scripted.is_closed
        await asyncio.gather(*waiting)
