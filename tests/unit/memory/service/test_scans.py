"""Searches that come while one is under way share the next pass, and each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from graph_writing import look_up
from hosting import until
from memory.engine.embedding import EmbeddingContract, Vector
from memory.engine.hybrid import Meanings, Search
from memory.engine.vector_table import Found, Query, VectorTable, VectorView, nearest
from memory.service import scans as module
from memory.service.scans import QUERIES_MAX, Scans

CONTRACT = EmbeddingContract("fixture", "hashed", 8, "content")


def vector(seed: int) -> Vector:
    drawn = np.random.default_rng(seed).normal(size=CONTRACT.dim)
    unit: Vector = (drawn / np.linalg.norm(drawn)).astype(np.float32)
    return unit


@pytest.fixture
def table() -> VectorTable:
    table = VectorTable(CONTRACT.dim)
    for row in range(50):
        table.put(row, vector(row))
    return table


def search(*seeds: int, k: int = 3, floor: float = 0.0) -> Search:
    vectors = {f"text {seed}": vector(seed) for seed in seeds}
    queries = {text: Query(found, k, floor) for text, found in vectors.items()}
    return Search(CONTRACT, vectors, queries)


class Passes:
    """How many queries each pass had; a pass waits until the gate is opened."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.gate = threading.Event()
        self.failure: Exception | None = None

    def nearest(self, view: VectorView, queries: list[Query]) -> list[Found]:
        self.sizes.append(len(queries))
        assert self.gate.wait(10)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return nearest(view, queries)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    passes = Passes()
    monkeypatch.setattr(module, "nearest", passes.nearest)
    yield passes
    passes.gate.set()


async def begin(
    scans: Scans, table: VectorTable, *searches: Search
) -> list[asyncio.Task[Meanings]]:
    tasks: list[asyncio.Task[Meanings]] = [
        asyncio.create_task(scans.look_up(wanted, table)) for wanted in searches
    ]
    await asyncio.sleep(0)
    return tasks


def assert_same(found: Meanings, wanted: Search, table: VectorTable) -> None:
    alone = look_up(wanted, table)
    shared = found.found
    assert list(shared) == list(alone.found)
    for text, expected in alone.found.items():
        assert shared[text].rows.tolist() == expected.rows.tolist()
        assert shared[text].cosines.tolist() == expected.cosines.tolist()


async def test_searches_that_come_meanwhile_share_one_pass_and_find_what_they_would_alone(
    passes: Passes, table: VectorTable
) -> None:
    scans = Scans()
    searches = [search(1), search(2, 3), search(4, k=50), search(5, floor=0.9)]
    first = await begin(scans, table, searches[0])
    await until(lambda: len(passes.sizes) == 1)
    others = await begin(scans, table, *searches[1:])
    passes.gate.set()
    results = await asyncio.gather(*first, *others)
    assert passes.sizes == [1, 4]
    for found, wanted in zip(results, searches, strict=True):
        assert_same(found, wanted, table)


async def test_a_pass_takes_only_so_many_queries_and_a_search_is_never_split(
    passes: Passes, table: VectorTable
) -> None:
    scans = Scans()
    first = await begin(scans, table, search(1))
    await until(lambda: len(passes.sizes) == 1)
    large = search(*range(100, 100 + QUERIES_MAX + 6))
    others = await begin(scans, table, search(2), large, search(3), search(4))
    passes.gate.set()
    results = await asyncio.gather(*first, *others)
    assert passes.sizes == [1, 1, QUERIES_MAX + 6, 2]
    assert_same(results[2], large, table)


async def test_who_waits_finds_what_was_put_after_the_pass_before_began(
    passes: Passes, table: VectorTable
) -> None:
    scans = Scans()
    first = await begin(scans, table, search(1))
    await until(lambda: len(passes.sizes) == 1)
    table.put(77, vector(700))
    late = await begin(scans, table, search(700, floor=0.99))
    passes.gate.set()
    await asyncio.gather(*first, *late)
    assert late[0].result().found["text 700"].rows.tolist() == [77]


async def test_who_is_cancelled_in_the_middle_takes_nobody_with_it(
    passes: Passes, table: VectorTable
) -> None:
    scans = Scans()
    (first,) = await begin(scans, table, search(1))
    await until(lambda: len(passes.sizes) == 1)
    second, third = await begin(scans, table, search(2), search(3))
    first.cancel()
    second.cancel()
    passes.gate.set()
    assert_same(await third, search(3), table)
    assert first.cancelled()
    assert second.cancelled()
    assert scans._waiting == []


async def test_a_pass_that_fails_is_told_to_one_and_made_again_for_the_others(
    passes: Passes, table: VectorTable
) -> None:
    scans = Scans()
    (first,) = await begin(scans, table, search(1))
    await until(lambda: len(passes.sizes) == 1)
    second, third = await begin(scans, table, search(2), search(3))
    passes.failure = MemoryError("no room for the scores")
    passes.gate.set()
    with pytest.raises(MemoryError):
        await first
    assert_same(await second, search(2), table)
    assert_same(await third, search(3), table)


async def test_an_empty_table_and_a_search_without_queries_start_no_thread(
    passes: Passes, table: VectorTable
) -> None:
    scans = Scans()
    passes.gate.set()
    empty = await scans.look_up(search(1), VectorTable(CONTRACT.dim))
    assert empty.found["text 1"].rows.tolist() == []
    assert (await scans.look_up(Search(CONTRACT, {}, {}), table)).found == {}
