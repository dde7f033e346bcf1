"""Growing columns: rows are handed out, given back and filled in bulk."""

from __future__ import annotations

import numpy as np
import pytest

from memory.engine.columns import NO_TIME, Columns
from memory.engine.times import EARLIEST


def made() -> Columns:
    return Columns({"count": "int32", "weight": "float64"})


def test_row_when_taken_then_is_live_zeroed_and_new() -> None:
    columns = made()
    assert columns.take_row() == (0, False)
    assert columns.take_row() == (1, False)
    assert columns.live_rows().tolist() == [0, 1]
    assert columns["count"][0] == 0


def test_rows_when_more_than_the_capacity_then_grow_and_keep_their_cells() -> None:
    columns = made()
    for number in range(1_000):
        row, _ = columns.take_row()
        columns["count"][row] = number
    assert columns["count"][:1_000].tolist() == list(range(1_000))
    assert columns.live_rows().tolist() == list(range(1_000))
    assert columns["count"].dtype == np.int32
    assert columns["weight"].dtype == np.float64


def test_array_when_held_over_a_growth_then_keeps_what_it_showed() -> None:
    columns = made()
    for _ in range(64):
        row, _ = columns.take_row()
        columns["count"][row] = 7
    view = columns["count"]
    columns.take_row()
    columns["count"][0] = 8
    assert view[0] == 7


def test_row_when_given_back_then_is_taken_next_and_zeroed() -> None:
    columns = made()
    for _ in range(3):
        columns.take_row()
    columns["count"][:3] = [1, 2, 3]
    columns["weight"][1] = 0.5
    columns.free_row(0)
    columns.free_row(1)
    assert columns.live_rows().tolist() == [2]
    assert columns.take_row() == (1, True)
    assert (columns["count"][1], columns["weight"][1]) == (0, 0.0)
    assert columns.take_row() == (0, True)
    assert columns.take_row() == (3, False)


def test_row_when_given_back_twice_then_is_a_mistake() -> None:
    columns = made()
    columns.take_row()
    columns.free_row(0)
    with pytest.raises(AssertionError):
        columns.free_row(0)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 129, 5_000])
def test_extend_when_given_columns_then_appends_live_rows(count: int) -> None:
    columns = made()
    assert columns.extend(count, {"count": range(count)}) == range(count)
    assert columns["count"][:count].tolist() == list(range(count))
    assert columns.live_rows().size == columns.used == count
    assert columns["weight"][:count].tolist() == [0.0] * count
    assert columns.take_row() == (count, False)


def test_extend_when_rows_exist_or_are_free_then_appends_behind_them() -> None:
    columns = made()
    for _ in range(3):
        columns.take_row()
    columns["count"][:3] = 9
    columns.free_row(1)
    assert columns.extend(2, {"count": [1, 2], "weight": np.array([0.25, 0.5])}) == range(3, 5)
    assert columns["count"][:5].tolist() == [9, 9, 9, 1, 2]
    assert columns["weight"][3:5].tolist() == [0.25, 0.5]
    assert columns.live_rows().tolist() == [0, 2, 3, 4]
    assert columns.take_row() == (1, True)


def test_codes_when_counted_then_freed_rows_are_left_out() -> None:
    columns = made()
    columns.extend(5, {"count": [0, 2, 2, 1, 2]})
    columns.free_row(1)
    assert columns.count_codes("count", 4) == [1, 1, 2, 0]
    assert made().count_codes("count", 2) == [0, 0]


def test_no_time_when_compared_then_is_before_every_possible_instant() -> None:
    assert NO_TIME < EARLIEST
