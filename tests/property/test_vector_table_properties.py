"""The vector table against a plain dictionary searched by brute force.

Rules drive puts, replacements, removals and views in any order; after each step the table must hold
what the dictionary holds, every view taken so far must still be what it was, and a result from an
old view, brought up to date, must be what a fresh search gives.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from memory.engine import vector_table
from memory.engine.embedding import Vector
from memory.engine.vector_table import (
    Found,
    Query,
    VectorTable,
    VectorView,
    exact_cosines,
    nearest,
    ranked,
)

DIM = 4
K = 3
FLOOR = 0.2


def direction(number: int) -> Vector:
    """One of a few unit vectors, so that ties are common."""
    vector = np.random.default_rng(number).normal(size=DIM)
    unit: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def brute_force(held: dict[int, Vector], query: Vector) -> list[tuple[int, float]]:
    if not held:
        return []
    rows = list(held)
    cosines = exact_cosines(np.stack([held[row] for row in rows]), query).tolist()
    near = [pair for pair in zip(rows, cosines, strict=True) if pair[1] >= FLOOR]
    return sorted(near, key=lambda pair: (-pair[1], -pair[0]))[:K]


def by_row_backwards(row: int) -> int:
    """Ties go by a key of the caller's, which need not be the row."""
    return -row


def shown(view: VectorView) -> dict[int, bytes]:
    held: dict[int, bytes] = {}
    for number, block in enumerate(view.blocks):
        rows = min(vector_table.BLOCK_ROWS, view.count - number * vector_table.BLOCK_ROWS)
        for place in range(rows):
            held[int(block.owners[place])] = block.vectors[place].tobytes()
    assert len(held) == view.count
    return held


class TableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = VectorTable(DIM)
        self.held: dict[int, Vector] = {}
        self.views: list[tuple[VectorView, dict[int, bytes], Found]] = []
        self.query = direction(99)

    @rule(row=st.integers(0, 12), number=st.integers(0, 5))
    def put(self, row: int, number: int) -> None:
        self.table.put(row, direction(number))
        self.held[row] = direction(number)

    @rule(row=st.integers(0, 12))
    def remove(self, row: int) -> None:
        self.table.remove(row)
        self.held.pop(row, None)

    @rule()
    def publish(self) -> None:
        view = self.table.view()
        (found,) = nearest(view, [Query(self.query, K, FLOOR)])
        self.views.append((view, shown(view), found))

    @invariant()
    def holds_what_was_put(self) -> None:
        assert len(self.table) == len(self.held)
        for row in range(13):
            kept = self.table.get(row)
            assert (kept is not None) == (row in self.held) == (row in self.table)
            assert kept is None or kept.tobytes() == self.held[row].tobytes()

    @invariant()
    def finds_what_brute_force_finds(self) -> None:
        found = self.table.search(self.query, K, floor=FLOOR, tie_key=by_row_backwards)
        assert found == brute_force(self.held, self.query)

    @invariant()
    def views_stand_still_and_can_be_brought_up_to_date(self) -> None:
        for view, content, found in self.views:
            assert shown(view) == content
            now = self.table.up_to_date(found, view.version, self.query, K, floor=FLOOR)
            assert ranked(now, K, tie_key=by_row_backwards) == brute_force(self.held, self.query)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four rows and a short memory, so that a dozen rows cross every boundary."""
    monkeypatch.setattr(vector_table, "BLOCK_ROWS", 4)
    monkeypatch.setattr(vector_table, "_ROWS_MIN", 1)
    monkeypatch.setattr(vector_table, "CHANGES_KEPT", 5)


def test_the_table_is_the_dictionary() -> None:
    run_state_machine_as_test(
        TableMachine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
