"""The vectors of one session in RAM, searched exactly.

Owns the matrix: one unit vector per concept row, dense, in blocks. Knows no text, no ids and no
contract; whoever fills it has checked the vectors (`check_vector`). Nothing is approximate: a
search looks at every row.

Rows stand in blocks of `BLOCK_ROWS`, so that growing never copies the whole matrix (a hundred
thousand vectors would hold the event loop for a tenth of a second); only the first block grows, by
doubling, for most sessions are small. A removal moves the last row into the gap.

Invariant: a `VectorView` never changes, whatever happens to the table after, so a worker thread
reads it without a lock. Rows past a view's count may be written in place; a row that some view can
see is written in a copy of its block. `changed_since` names the rows whose result from an old view
no longer counts. Scores do not depend on where a vector lies: the product that scans the matrix
only chooses, and what it chose is scored again in one fixed way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]
"""(n, d) float32, each row of length one."""

BLOCK_ROWS: Final = 1_024
_ROWS_MIN: Final = 64
CHANGES_KEPT: Final = 4_096
"""Changes a view may lie behind and still be brought up to date row by row."""

# The scanning product and the exact score differ by less; what is this near the line is re-scored.
_MARGIN: Final = 1e-5


class Block(NamedTuple):
    """A stretch of the matrix: vectors, and the concept row each belongs to."""

    vectors: Matrix
    owners: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VectorView:
    """The table as it was at a version; safe to read from any thread."""

    blocks: tuple[Block, ...]
    count: int
    version: int


@dataclass(frozen=True, slots=True)
class Found:
    """Concept rows near one query, with their exact cosines, in no order.

    Holds the best `k` and everything tied with the last of them. `is_cut` tells that rows at or
    above the floor were left out.
    """

    rows: NDArray[np.int64]
    cosines: NDArray[np.float64]
    is_cut: bool = False


class Query(NamedTuple):
    """The best `k` rows at or above a cosine `floor` with a unit vector (d,) are looked for."""

    vector: NDArray[np.float32]
    k: int
    floor: float


class _Changed(NamedTuple):
    """What changed between two versions: all rows, and those still there with their vectors."""

    between: tuple[int, int]
    numbers: set[int]
    present: NDArray[np.int64]
    vectors: Matrix


class VectorTable:
    """Vectors by concept row."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.version = 0
        self._blocks = [_new_block(_ROWS_MIN, dim)]
        self._seen = [0]  # by block: leading rows that some view can see
        self._slots: dict[int, int] = {}  # by concept row
        self._changes: list[int] = []  # the concept row of each of the newest versions
        self._view: VectorView | None = None
        self._newest: _Changed | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, row: int) -> bool:
        return row in self._slots

    def get(self, row: int) -> NDArray[np.float32] | None:
        """The vector of a concept row, or None; a copy."""
        slot = self._slots.get(row)
        if slot is None:
            return None
        block, place = divmod(slot, BLOCK_ROWS)
        vector: NDArray[np.float32] = self._blocks[block].vectors[place].copy()
        return vector

    def put(self, row: int, vector: NDArray[np.float32]) -> None:
        """Set the vector of a concept row, new or known."""
        slot = self._slots.get(row)
        if slot is None:
            slot = len(self._slots)
            self._make_room(slot)
            self._slots[row] = slot
        self._write(slot, row, vector)
        self._note(row)

    def remove(self, row: int) -> None:
        """Forget the vector of a concept row; a row without one is left alone."""
        slot = self._slots.pop(row, None)
        if slot is None:
            return
        last = len(self._slots)
        if slot != last:
            block, place = divmod(last, BLOCK_ROWS)
            vectors, owners = self._blocks[block]
            moved = int(owners[place])
            self._write(slot, moved, vectors[place])
            self._slots[moved] = slot
        self._note(row)

    def fill(self, rows: Sequence[int], vectors: Matrix) -> None:
        """Append the vectors of rows that have none; for a load, without a history of changes."""
        for low in range(0, len(rows), BLOCK_ROWS):
            self._append(rows[low : low + BLOCK_ROWS], vectors[low : low + BLOCK_ROWS])
        self.version += 1
        self._changes.clear()
        self._view = None

    def view(self) -> VectorView:
        """What a reader on another thread may use."""
        if self._view is None or self._view.version != self.version:
            count = len(self._slots)
            used = -(-count // BLOCK_ROWS)
            for block in range(used):
                rows = min(BLOCK_ROWS, count - block * BLOCK_ROWS)
                self._seen[block] = max(self._seen[block], rows)
            self._view = VectorView(tuple(self._blocks[:used]), count, self.version)
        return self._view

    def changed_since(self, version: int) -> set[int] | None:
        """Concept rows put or removed after a version; None when that is no longer known."""
        behind = self.version - version
        if behind > len(self._changes):
            return None
        return set(self._changes[len(self._changes) - behind :])

    def rows(self) -> NDArray[np.int64]:
        """The concept rows that have a vector, in no order."""
        return np.fromiter(self._slots, dtype=np.int64, count=len(self._slots))

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        *,
        floor: float,
        tie_key: Callable[[int], Any],
    ) -> list[tuple[int, float]]:
        """The `k` concept rows nearest to a query, at or above a cosine; best first, then by key.

        Scans on the caller's thread.
        """
        (found,) = nearest(self.view(), [Query(query, k, floor)])
        return ranked(found, k, tie_key=tie_key)

    def up_to_date(
        self, found: Found, version: int, query: NDArray[np.float32], k: int, *, floor: float
    ) -> Found:
        """What `nearest` found in the view of a version, as a search of the table now would.

        `k` may be less than was looked for: then some of what was found may change or go, and the
        rest still holds the best `k` without another search.
        """
        changed = self._changed(version)
        if changed is not None and not changed.numbers:
            return found
        if changed is None or _is_short(found, changed.numbers, k):
            (fresh,) = nearest(self.view(), [Query(query, k, floor)])
            return fresh
        kept = np.fromiter((row not in changed.numbers for row in found.rows.tolist()), np.bool_)
        some = np.flatnonzero(changed.vectors @ query >= floor - _MARGIN)
        cosines = exact_cosines(changed.vectors[some], query)
        near = cosines >= floor
        return Found(
            np.concatenate([found.rows[kept], changed.present[some][near]]),
            np.concatenate([found.cosines[kept], cosines[near]]),
            found.is_cut,
        )

    def needs_search(self, found: Found, version: int, k: int) -> bool:
        """Whether `up_to_date` would have to look at every row again."""
        changed = self._changed(version)
        return changed is None or _is_short(found, changed.numbers, k)

    def _changed(self, version: int) -> _Changed | None:
        """What changed after a version, with its vectors; remembered while nothing else changes."""
        if self._newest is None or self._newest.between != (version, self.version):
            numbers = self.changed_since(version)
            if numbers is None:
                return None
            present = sorted(row for row in numbers if row in self._slots)
            self._newest = _Changed(
                (version, self.version),
                numbers,
                np.asarray(present, dtype=np.int64),
                self._gather(present),
            )
        return self._newest

    # -- writing ----------------------------------------------------------------------------------

    def _gather(self, rows: Sequence[int]) -> Matrix:
        gathered = np.empty((len(rows), self.dim), dtype=np.float32)
        for place, row in enumerate(rows):
            block, at = divmod(self._slots[row], BLOCK_ROWS)
            gathered[place] = self._blocks[block].vectors[at]
        return gathered

    def _make_room(self, slot: int) -> None:
        block, place = divmod(slot, BLOCK_ROWS)
        if block == len(self._blocks):
            self._blocks.append(_new_block(BLOCK_ROWS, self.dim))
            self._seen.append(0)
        elif place >= len(self._blocks[block].owners):
            size = min(BLOCK_ROWS, max(2 * len(self._blocks[block].owners), place + 1))
            self._replace_block(block, size)

    def _replace_block(self, block: int, size: int) -> None:
        """A copy that no view knows, of at least the size it had."""
        old = self._blocks[block]
        new = _new_block(size, self.dim)
        new.vectors[: len(old.owners)] = old.vectors
        new.owners[: len(old.owners)] = old.owners
        self._blocks[block], self._seen[block] = new, 0

    def _write(self, slot: int, row: int, vector: NDArray[np.float32]) -> None:
        block, place = divmod(slot, BLOCK_ROWS)
        if place < self._seen[block]:
            self._replace_block(block, len(self._blocks[block].owners))
        self._blocks[block].vectors[place] = vector
        self._blocks[block].owners[place] = row

    def _append(self, rows: Sequence[int], vectors: Matrix) -> None:
        for row, vector in zip(rows, vectors, strict=True):
            slot = len(self._slots)
            self._make_room(slot)
            self._slots[row] = slot
            self._write(slot, row, vector)

    def _note(self, row: int) -> None:
        self.version += 1
        self._changes.append(row)
        if len(self._changes) > 2 * CHANGES_KEPT:
            del self._changes[:-CHANGES_KEPT]


def _new_block(rows: int, dim: int) -> Block:
    return Block(np.zeros((rows, dim), dtype=np.float32), np.zeros(rows, dtype=np.int64))


# -- searching: pure functions of a view -----------------------------------------------------------


def exact_cosines(vectors: Matrix, query: NDArray[np.float32]) -> NDArray[np.float64]:
    """The cosines of unit vectors with a query: the same bytes wherever the vectors lie."""
    products = vectors.astype(np.float64) * query.astype(np.float64)
    cosines: NDArray[np.float64] = np.clip(np.sum(products, axis=1), -1.0, 1.0)
    return cosines


def nearest(view: VectorView, queries: Sequence[Query]) -> list[Found]:
    """What each query finds in the view, in their order.

    One pass over the matrix serves all queries: reading it takes longer than multiplying it. Takes
    four bytes a row and query.
    """
    if not view.count or not queries:
        nothing = Found(np.zeros(0, dtype=np.int64), np.zeros(0))
        return [nothing] * len(queries)
    columns = np.ascontiguousarray(np.stack([query.vector for query in queries]).T)
    rough = np.empty((view.count, len(queries)), dtype=np.float32)
    for low, block in zip(range(0, view.count, BLOCK_ROWS), view.blocks, strict=True):
        high = min(view.count, low + BLOCK_ROWS)
        np.matmul(block.vectors[: high - low], columns, out=rough[low:high])
    by_query = np.ascontiguousarray(rough.T)
    return [_best(view, row, query) for row, query in zip(by_query, queries, strict=True)]


def _is_short(found: Found, changed: set[int], k: int) -> bool:
    """Whether rows that were left out may now be among the best `k`."""
    if not found.is_cut:
        return False
    gone = sum(row in changed for row in found.rows.tolist())
    return bool(gone) and len(found.rows) - gone < k


def _best(view: VectorView, rough: NDArray[np.float32], query: Query) -> Found:
    vector, k, floor = query
    slots = np.flatnonzero(rough >= floor - _MARGIN)
    is_cut = False
    if slots.size > k:
        scores = rough[slots]
        last = np.partition(scores, slots.size - k)[slots.size - k]
        in_reach = scores >= last - _MARGIN
        is_cut = not in_reach.all()
        slots = slots[in_reach]
    vectors, owners = _at(view, slots)
    cosines = exact_cosines(vectors, vector)
    near = cosines >= floor
    if np.count_nonzero(near) > k:
        kth = np.partition(cosines, cosines.size - k)[cosines.size - k]
        is_cut = is_cut or bool((cosines[near] < kth).any())
        near &= cosines >= kth
    return Found(owners[near], cosines[near], is_cut)


def _at(view: VectorView, slots: NDArray[Any]) -> tuple[Matrix, NDArray[np.int64]]:
    """Vectors and owners at ascending slots of a view."""
    dim = view.blocks[0].vectors.shape[1]
    vectors = np.empty((slots.size, dim), dtype=np.float32)
    owners = np.empty(slots.size, dtype=np.int64)
    numbers = slots // BLOCK_ROWS
    for number in np.unique(numbers).tolist():
        here = np.flatnonzero(numbers == number)
        places = slots[here] - number * BLOCK_ROWS
        vectors[here] = view.blocks[number].vectors[places]
        owners[here] = view.blocks[number].owners[places]
    return vectors, owners


def ranked(found: Found, k: int, *, tie_key: Callable[[int], Any]) -> list[tuple[int, float]]:
    """The first `k` of what was found: by cosine descending, equal ones by key."""
    pairs: Iterable[tuple[int, float]] = zip(
        found.rows.tolist(), found.cosines.tolist(), strict=True
    )
    return sorted(pairs, key=lambda pair: (-pair[1], tie_key(pair[0])))[:k]
