"""Growing numpy columns: one row per node or edge, capacity doubled when full.

Whole arrays are replaced when they grow, so a reader that took an array and a count before the
growth keeps a consistent view. Freed rows are handed out again, the last freed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from memory.engine.times import Micros

Array: TypeAlias = npt.NDArray[Any]

NO_TIME: Micros = -(2**63)
"""Stands for "no instant" in an int64 column; no real instant reaches it."""

_CAPACITY_MIN = 64


class Columns:
    """Named arrays of equal capacity with a live mask and a free list.

    `schema` maps a column's name to its dtype. Columns are read by attribute; writers go through
    `take_row` and `free_row` and set cells by name.
    """

    def __init__(self, schema: Mapping[str, str]) -> None:
        self._names = tuple(schema)
        self._capacity = _CAPACITY_MIN
        self._free: list[int] = []
        self.used = 0  # rows ever handed out; live rows are those with `live` set
        self.live = np.zeros(_CAPACITY_MIN, dtype=np.bool_)
        self.arrays: dict[str, Array] = {
            name: np.zeros(_CAPACITY_MIN, dtype=dtype) for name, dtype in schema.items()
        }

    def __getitem__(self, name: str) -> Array:
        """The whole array of a column, capacity included; index it with live rows only."""
        return self.arrays[name]

    def take_row(self) -> tuple[int, bool]:
        """A zeroed row, and whether it was used before (lists beside must be overwritten)."""
        if self._free:
            row = self._free.pop()
            for name in self._names:
                self.arrays[name][row] = 0
            self.live[row] = True
            return row, True
        if self.used == self._capacity:
            self._grow(self._capacity * 2)
        row = self.used
        self.used += 1
        self.live[row] = True
        return row, False

    def free_row(self, row: int) -> None:
        """Give a live row back."""
        assert self.live[row]
        self.live[row] = False
        self._free.append(row)

    def take_rows(self, count: int) -> list[int]:
        """As `take_row` for many at once: zeroed rows, those that were used before first."""
        freed = self._free[len(self._free) - min(count, len(self._free)) :]
        del self._free[len(self._free) - len(freed) :]
        for name in self._names:
            self.arrays[name][freed] = 0
        self.live[freed] = True
        return [*freed, *self.extend(count - len(freed), {})]

    def free_rows(self, rows: Sequence[int]) -> None:
        """Give live rows back, each once."""
        assert self.live[rows].all()
        self.live[rows] = False
        self._free += rows

    def extend(self, count: int, values: Mapping[str, Sequence[Any] | Array]) -> range:
        """Append live rows at once and return them; absent columns stay zero."""
        rows = range(self.used, self.used + count)
        if rows.stop > self._capacity:
            self._grow(1 << (rows.stop - 1).bit_length())
        for name, column in values.items():
            cells = self.arrays[name]
            cells[rows.start : rows.stop] = np.asarray(column, dtype=cells.dtype)
        self.live[rows.start : rows.stop] = True
        self.used = rows.stop
        return rows

    def live_rows(self) -> Array:
        """Row numbers in use, ascending, (n,) int64."""
        return np.flatnonzero(self.live[: self.used])

    def count_codes(self, name: str, codes: int) -> list[int]:
        """How often each code 0..codes-1 stands in the live rows of a small-integer column."""
        held = self.arrays[name][: self.used][self.live[: self.used]]
        counts: list[int] = np.bincount(held, minlength=codes).tolist()
        return counts

    def _grow(self, capacity: int) -> None:
        for name, old in self.arrays.items():
            new = np.zeros(capacity, dtype=old.dtype)
            new[: self.used] = old[: self.used]
            self.arrays[name] = new
        live = np.zeros(capacity, dtype=np.bool_)
        live[: self.used] = self.live[: self.used]
        self.live = live
        self._capacity = capacity
