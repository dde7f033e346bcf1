"""Full collections look only at what came since the last one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from memory.service.collector import keep_collections_short


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def test_survivors_of_a_full_collection_are_set_aside() -> None:
    keep_collections_short()
    held = [[number] for number in range(10_000)]
    gc.collect()
    assert len(gc.get_objects()) < len(held)


def test_objects_set_aside_are_freed_with_their_last_reference() -> None:
    keep_collections_short()
    held = [[number] for number in range(10_000)]
    gc.collect()
    before = gc.get_freeze_count()
    held.clear()
    assert gc.get_freeze_count() <= before - 10_000


def test_asking_again_changes_nothing() -> None:
    keep_collections_short()
    count = len(gc.callbacks)
    keep_collections_short()
    assert len(gc.callbacks) == count
