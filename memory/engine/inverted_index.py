"""The keyword index of one session: which concepts hold which stems, ranked by BM25.

Owns the postings, the document lengths and the live document frequencies. Knows nothing of text:
tokens come ready-made, are compared byte for byte and have no syntax; which words stand inside a
token is told by a function. Refuses a row it holds already, or does not hold, as an error of the
caller.

Invariant: a change is visible to the next search, and scores depend only on the documents now held,
never on the order or history of their arrival, to the last bit. No locks: the session that owns the
index makes one call at a time.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

K1: Final = 1.2  # how slowly repeats of a term saturate
B: Final = 0.75  # how much a long document is held against itself

# A slot whose document was removed keeps its postings until the next compaction.
_DEAD: Final = -1
# Tokens numbered at once by `bulk_load`: few enough to let other threads run in between.
_TOKENS_PER_SLICE: Final = 20_000
# A posting is one number: its slot above these bits, the count in them.
_COUNT_BITS: Final = 32
_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1


_Postings: TypeAlias = tuple[int, NDArray[np.int64], NDArray[np.float64]]
"""(live document frequency, slots, each once, counts aligned with them)."""


class _Columns:
    """Parallel int columns that grow together, doubling, so that one more entry is cheap."""

    __slots__ = ("_data", "size")

    def __init__(self, data: NDArray[Any]) -> None:
        self._data = data
        self.size: int = data.shape[1]

    def append(self, *entry: int) -> None:
        self.extend([[cell] for cell in entry])

    def extend(self, columns: Sequence[Sequence[int]]) -> None:
        """Append many entries at once, given by column."""
        end = self.size + len(columns[0])
        if end > self._data.shape[1]:
            self._grow(end)
        for number, cells in enumerate(columns):
            self._data[number, self.size : end] = cells
        self.size = end

    def column(self, number: int) -> NDArray[Any]:
        """The filled part of a column: a view, valid until the next append."""
        filled: NDArray[Any] = self._data[number, : self.size]
        return filled

    def _grow(self, least: int) -> None:
        height = self._data.shape[0]
        grown = np.empty((height, max(4, least, 2 * self.size)), dtype=self._data.dtype)
        grown[:, : self.size] = self._data[:, : self.size]
        self._data = grown


class InvertedIndex:
    """Documents under the caller's row numbers, found by their tokens.

    A row is an int of at least 0; after `remove` it may name another document. Inside, every
    document gets a slot of its own and slots only grow, so a reused row can never meet the postings
    of its former document. A document without tokens counts, with length zero, but is never found.
    """

    def __init__(self, parts_of: Callable[[str], Sequence[str]] = lambda token: ()) -> None:
        """`parts_of` names the words inside a token; asked once for each distinct token."""
        self._parts_of = parts_of
        self._holders: dict[str, list[str]] = {}
        """The terms that hold a word as a part, for `search` with parts."""
        self._reset()

    def _reset(self) -> None:
        self._term_ids: dict[str, int] = {}
        # By term id: live document frequency, and postings, dead slots included.
        self._frequencies: list[int] = []
        self._postings: list[array[int]] = []
        # By slot: row or _DEAD, length in tokens, start in `_contents`; ends at the next start.
        self._slots = _Columns(np.empty((3, 0), dtype=np.int64))
        # (term id, count) of every slot, one after the other: what removal and compaction read.
        self._contents = _Columns(np.empty((2, 0), dtype=np.int32))
        self._slot_of: dict[int, int] = {}
        self._total_length = 0

    def __len__(self) -> int:
        """How many documents are held."""
        return len(self._slot_of)

    def __contains__(self, row: object) -> bool:
        return row in self._slot_of

    @property
    def average_length(self) -> float:
        """Mean number of tokens of a document; 0.0 when the index is empty."""
        return self._total_length / len(self._slot_of) if self._slot_of else 0.0

    @property
    def token_count(self) -> int:
        """Tokens of all documents together, repeats included."""
        return self._total_length

    # -- changes -------------------------------------------------------------------------------

    def add(self, row: int, tokens: Sequence[str]) -> None:
        """Index a document; repeats in `tokens` count. Raises ValueError for a row held already."""
        self._check_new_row(row)
        slot = self._slots.size
        self._slots.append(row, len(tokens), self._contents.size)
        self._slot_of[row] = slot
        self._total_length += len(tokens)
        counts = Counter(tokens)
        term_ids = [self._term_ids.get(term, -1) for term in counts]
        if -1 in term_ids:
            term_ids = [self._term_id(term) for term in counts]
        # Long texts have thousands of terms, and the event loop waits: no work in Python for each.
        base = slot << _COUNT_BITS
        entries = [base + count for count in counts.values()]
        _exhaust(map(array.append, map(self._postings.__getitem__, term_ids), entries))
        for term_id in term_ids:
            self._frequencies[term_id] += 1
        self._contents.extend([term_ids, list(counts.values())])

    def remove(self, row: int) -> None:
        """Forget a document. Raises KeyError for a row not held.

        One removal in many also compacts: when a quarter of the slots is dead, all are rebuilt.
        """
        slot = self._slot_of.pop(row)
        self._total_length -= int(self._slots.column(1)[slot])
        starts = self._slots.column(2)
        end = starts[slot + 1] if slot + 1 < self._slots.size else self._contents.size
        for term_id in self._contents.column(0)[starts[slot] : end].tolist():
            self._frequencies[term_id] -= 1
        self._slots.column(0)[slot] = _DEAD
        if 4 * self._dead_slots() >= self._slots.size:
            self._compact()

    def bulk_load(self, rows: Sequence[int], documents: Sequence[Sequence[str]]) -> None:
        """Index many documents beside those held: `rows[i]` names `documents[i]`.

        Equal in effect to `add` in a loop, about four times as fast. Raises ValueError, nothing
        changed, for a row held already or given twice, or when the two sequences differ in length.
        """
        if len(rows) != len(documents) or len(set(rows)) != len(rows):
            raise ValueError("bulk_load needs one document for each distinct row")
        for row in rows:
            self._check_new_row(row)
        # Every token as one number, document major, so that one sort counts all the repeats.
        lengths = np.fromiter(map(len, documents), dtype=np.int64, count=len(documents))
        flat = np.concatenate(
            [np.zeros(0, dtype=np.int64), *map(self._numbered, _slices(documents))]
        )
        width = max(1, len(self._term_ids))
        owners = np.repeat(np.arange(len(documents)), lengths)
        entries, counts = np.unique(owners * width + flat, return_counts=True)
        owners, terms = np.divmod(entries, width)

        old_rows, old_lengths, old_owners, old_terms, old_counts = self._live_documents()
        self._rebuild(
            np.concatenate([old_rows, np.asarray(rows, dtype=np.int64)]),
            np.concatenate([old_lengths, lengths]),
            owners=np.concatenate([old_owners, owners + len(old_rows)]),
            terms=np.concatenate([old_terms, terms]),
            counts=np.concatenate([old_counts, counts]),
        )

    def _numbered(self, documents: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """The term id of every token, one document after the other; new terms get the next ids."""
        tokens = list(chain.from_iterable(documents))
        for term in dict.fromkeys(tokens):
            if term not in self._term_ids:
                self._term_ids[term] = len(self._term_ids)
                self._note_parts(term)
        return np.fromiter(map(self._term_ids.__getitem__, tokens), np.int64, count=len(tokens))

    def _check_new_row(self, row: int) -> None:
        if row < 0 or row in self._slot_of:
            raise ValueError(f"row {row} is negative or indexed already")

    def _term_id(self, term: str) -> int:
        """The id of a term, which may be new."""
        term_id = self._term_ids.setdefault(term, len(self._frequencies))
        if term_id == len(self._frequencies):
            self._frequencies.append(0)
            self._postings.append(array("q"))
            self._note_parts(term)
        return term_id

    def _note_parts(self, term: str) -> None:
        for part in self._parts_of(term):
            if part != term:
                self._holders.setdefault(part, []).append(term)

    # -- compaction ----------------------------------------------------------------------------

    def _dead_slots(self) -> int:
        return self._slots.size - len(self._slot_of)

    def _compact(self) -> None:
        """Drop dead slots, their postings, and the terms no live document holds."""
        rows, lengths, owners, terms, counts = self._live_documents()
        self._rebuild(rows, lengths, owners=owners, terms=terms, counts=counts)

    def _live_documents(self) -> tuple[NDArray[Any], ...]:
        """Rows and lengths of the live documents, then (owner, term id, count) of their contents.

        An owner is a position in the returned rows, and owners ascend.
        """
        rows, lengths, starts = (self._slots.column(number) for number in range(3))
        live = rows != _DEAD
        sizes = np.diff(starts, append=self._contents.size)
        kept = np.repeat(live, sizes)
        owners = np.repeat(np.arange(len(self._slot_of)), sizes[live])
        terms, counts = (self._contents.column(number)[kept] for number in range(2))
        return rows[live], lengths[live], owners, terms, counts

    def _rebuild(
        self,
        rows: NDArray[Any],
        lengths: NDArray[Any],
        *,
        owners: NDArray[Any],
        terms: NDArray[Any],
        counts: NDArray[Any],
    ) -> None:
        """Replace everything by these documents; `terms` are ids of the present vocabulary."""
        names = list(self._term_ids)
        self._reset()
        frequencies = np.bincount(terms, minlength=len(names))
        used = np.flatnonzero(frequencies)
        terms = (np.cumsum(frequencies > 0) - 1)[terms]
        self._term_ids = {names[old]: new for new, old in enumerate(used.tolist())}
        if len(used) < len(names):
            self._forget_parts()
        self._frequencies = frequencies[used].tolist()

        # A stable sort keeps slots ascending inside each term.
        order = np.argsort(terms, kind="stable")
        postings = (owners[order].astype(np.int64) << _COUNT_BITS) + counts[order]
        packed = memoryview(postings.data).cast("B")
        ends = (8 * np.cumsum(frequencies[used])).tolist()
        self._postings = [
            array("q", packed[start:end].tobytes())
            for start, end in zip([0, *ends], ends, strict=False)
        ]

        sizes = np.bincount(owners, minlength=len(rows))
        self._slots = _Columns(np.stack([rows, lengths, np.cumsum(sizes) - sizes]))
        self._contents = _Columns(np.stack([terms, counts]).astype(np.int32))
        self._slot_of = {row: slot for slot, row in enumerate(rows.tolist())}
        self._total_length = int(lengths.sum())

    def _forget_parts(self) -> None:
        """Drop the terms that no document holds any more."""
        held = {
            part: [term for term in holders if term in self._term_ids]
            for part, holders in self._holders.items()
        }
        self._holders = {part: holders for part, holders in held.items() if holders}

    # -- search --------------------------------------------------------------------------------

    def search(
        self,
        tokens: Sequence[str],
        limit: int,
        *,
        tie_key: Callable[[int], str],
        with_parts: bool = False,
        accepted: NDArray[np.bool_] | None = None,
    ) -> list[tuple[int, float]]:
        """The best `limit` documents that hold any of `tokens`, as (row, score), best first.

        The score is BM25 (Robertson & Zaragoza 2009) with the idf that is never negative,
        ln(1 + (n - df + 0.5) / (df + 0.5)): above 0, without upper bound, comparable only within
        one query. Repeats in `tokens` count once. Equal scores order by `tie_key(row)`, ascending,
        also where the limit cuts through them. `with_parts` also counts a token where it stands
        inside a longer one; the length of a document stays its number of whole tokens. Of all rows
        only those `accepted`, a mask by row, are listed; none scores otherwise for it.
        """
        scores = self._scores(tokens, with_parts=with_parts)
        slots = np.flatnonzero(scores)
        if accepted is not None:
            slots = slots[accepted[self._slots.column(0)[slots]]]
        if limit < 1 or not slots.size:
            return []
        found = scores[slots]
        if slots.size <= limit:
            return self._ranked(slots, found, tie_key=tie_key)
        # Many documents may tie for the last places (one word, equal lengths): among those only the
        # keys decide, and a heap asks each key once.
        cut = np.partition(found, slots.size - limit)[slots.size - limit]
        above = found > cut
        hits = self._ranked(slots[above], found[above], tie_key=tie_key)
        tied = self._slots.column(0)[slots[found == cut]].tolist()
        last = heapq.nsmallest(limit - len(hits), tied, key=tie_key)
        return hits + [(row, float(cut)) for row in last]

    def _ranked(
        self, slots: NDArray[Any], scores: NDArray[Any], *, tie_key: Callable[[int], str]
    ) -> list[tuple[int, float]]:
        hits = zip(self._slots.column(0)[slots].tolist(), scores.tolist(), strict=True)
        return sorted(hits, key=lambda hit: (-hit[1], tie_key(hit[0])))

    def _scores(self, tokens: Sequence[str], *, with_parts: bool) -> NDArray[np.float64]:
        """BM25 by slot; zero where no token occurs and where the document is gone."""
        rows, lengths = self._slots.column(0), self._slots.column(1)
        scores = np.zeros(self._slots.size, dtype=np.float64)
        # Sorted: floating point addition depends on its order, and the same question must not.
        for term in sorted(set(tokens)):
            holders = self._holders.get(term) if with_parts else None
            found = self._of_holders(term, holders) if holders else self._of_term(term)
            if found is None:
                continue
            df, slots, counts = found
            idf = math.log(1.0 + (len(self) - df + 0.5) / (df + 0.5))
            relative = lengths[slots] / self.average_length
            damping = K1 * (1.0 - B + B * relative)
            scores[slots] += idf * ((K1 + 1.0) * counts / (counts + damping))
        if self._dead_slots():
            scores[rows == _DEAD] = 0.0
        return scores

    def _of_term(self, term: str) -> _Postings | None:
        """Where a term occurs as it stands; None when no live document holds it."""
        term_id = self._term_ids.get(term)
        if term_id is None or not self._frequencies[term_id]:
            return None
        # A view, gone before the next change: an array that is looked at cannot grow.
        postings = np.frombuffer(self._postings[term_id], dtype=np.int64)
        counts = (postings & _COUNT_MASK).astype(np.float64)
        return self._frequencies[term_id], postings >> _COUNT_BITS, counts

    def _of_holders(self, term: str, holders: Sequence[str]) -> _Postings | None:
        """Where a term occurs, alone or inside one of `holders`, as if it were the same word."""
        term_ids = [self._term_ids.get(one) for one in (term, *holders)]
        joined = b"".join(self._postings[term_id] for term_id in term_ids if term_id is not None)
        postings = np.frombuffer(joined, dtype=np.int64)
        slots, places = np.unique(postings >> _COUNT_BITS, return_inverse=True)
        counts = np.bincount(places, weights=(postings & _COUNT_MASK), minlength=slots.size).astype(
            np.float64
        )
        df = int(np.count_nonzero(self._slots.column(0)[slots] != _DEAD))
        return (df, slots, counts) if df else None


def _slices(documents: Sequence[Sequence[str]]) -> Iterator[Sequence[Sequence[str]]]:
    """The documents in order, as many at once as hold some `_TOKENS_PER_SLICE` tokens."""
    start = held = 0
    for end, document in enumerate(documents, 1):
        held += len(document)
        if held >= _TOKENS_PER_SLICE or end == len(documents):
            yield documents[start:end]
            start, held = end, 0


def _exhaust(iterator: Iterator[object]) -> None:
    deque(iterator, maxlen=0)
