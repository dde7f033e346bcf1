"""The keyword index, by example; numbers are worked out by hand beside each test."""

from __future__ import annotations

from math import log

import pytest

from memory.engine.inverted_index import InvertedIndex


def tie_key(row: int) -> str:
    return f"{row:06d}"


def rows_found(index: InvertedIndex, *tokens: str, limit: int = 100) -> list[int]:
    return [row for row, _ in index.search(tokens, limit, tie_key=tie_key)]


def index_of(*documents: str) -> InvertedIndex:
    index = InvertedIndex()
    for row, document in enumerate(documents):
        index.add(row, document.split())
    return index


def test_empty_index_and_empty_query_find_nothing() -> None:
    assert InvertedIndex().search(["user"], 10, tie_key=tie_key) == []
    assert index_of("user").search([], 10, tie_key=tie_key) == []
    assert index_of("user").search(["nobody"], 10, tie_key=tie_key) == []
    assert len(InvertedIndex()) == 0
    assert InvertedIndex().average_length == 0.0


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_finds_nothing(limit: int) -> None:
    assert index_of("user").search(["user"], limit, tie_key=tie_key) == []


def test_score_worked_out_by_hand() -> None:
    # n = 2, avgdl = (4 + 2) / 2 = 3. "user": df 2, idf ln(1 + 0.5/2.5) = ln 1.2.
    # Row 0: tf 2, dl 4: 2*2.2 / (2 + 1.2*(0.25 + 0.75*4/3)) = 4.4/3.5.
    # Row 1: tf 1, dl 2: 2.2 / (1 + 1.2*(0.25 + 0.75*2/3)) = 2.2/1.9.
    # "api": df 1, idf ln(1 + 1.5/1.5) = ln 2, in row 1 only.
    index = index_of("user schema user table", "api user")
    assert index.average_length == 3.0
    (first, high), (second, low) = index.search(["user", "api"], 10, tie_key=tie_key)
    assert (first, second) == (1, 0)
    assert high == pytest.approx((log(1.2) + log(2)) * 2.2 / 1.9, abs=1e-12)
    assert low == pytest.approx(log(1.2) * 4.4 / 3.5, abs=1e-12)


def test_term_in_every_document_still_scores() -> None:
    hits = index_of("user", "user", "user").search(["user"], 10, tie_key=tie_key)
    # df = n = 3 and dl = avgdl: the score is the idf, ln(1 + 0.5/3.5).
    assert [score for _, score in hits] == pytest.approx([log(1 + 0.5 / 3.5)] * 3, abs=1e-12)


def test_repeated_query_words_count_once() -> None:
    index = index_of("user api", "user")
    once = index.search(["user", "api"], 10, tie_key=tie_key)
    assert index.search(["api", "user", "user", "api", "api"], 10, tie_key=tie_key) == once


def test_ties_order_by_key_and_not_by_row() -> None:
    index = index_of(*["user api"] * 6)
    keys = ["f", "b", "d", "a", "e", "c"]
    hits = index.search(["user"], 4, tie_key=keys.__getitem__)
    assert [row for row, _ in hits] == [3, 1, 5, 2]
    assert len({score for _, score in hits}) == 1


def test_ties_at_the_cut_yield_to_better_scores() -> None:
    index = index_of("user x", "user x", "user user", "user x", "user x")
    hits = index.search(["user"], 3, tie_key=lambda row: f"{9 - row}")
    assert [row for row, _ in hits] == [2, 4, 3]


def test_document_is_found_at_once_and_gone_at_once() -> None:
    index = index_of("user", "schema")
    index.add(7, ["novel"])
    assert rows_found(index, "novel") == [7]
    index.remove(7)
    assert rows_found(index, "novel") == []
    assert len(index) == 2
    assert 7 not in index
    assert 1 in index


def test_reused_row_has_no_memory() -> None:
    index = index_of("user", "schema", "api", "route", "table", "view")
    index.remove(2)
    index.add(2, ["fresh"])
    assert rows_found(index, "api") == []
    assert rows_found(index, "fresh") == [2]
    index.remove(2)
    assert rows_found(index, "fresh") == []


def test_removal_restores_the_former_scores_exactly() -> None:
    index = index_of("user schema", "user api route", "table")
    before = index.search(["user", "schema"], 10, tie_key=tie_key)
    for row in range(100, 140):
        index.add(row, ["user", "noise", "noise", "schema"])
    for row in range(100, 140):
        index.remove(row)
    assert index.search(["user", "schema"], 10, tie_key=tie_key) == before
    assert index.average_length == 2.0


def test_document_without_tokens_counts_but_is_never_found() -> None:
    index = index_of("user", "")
    assert len(index) == 2
    assert index.average_length == 0.5
    assert rows_found(index, "user") == [0]
    index.remove(1)
    assert index.average_length == 1.0


def test_only_documents_without_tokens() -> None:
    index = index_of("", "")
    assert rows_found(index, "user") == []
    index.remove(0)
    index.remove(1)
    assert len(index) == 0


def test_index_emptied_and_filled_again() -> None:
    index = index_of("user", "api")
    index.remove(0)
    index.remove(1)
    assert rows_found(index, "user", "api") == []
    index.add(0, ["api"])
    assert rows_found(index, "user", "api") == [0]


def test_rows_in_use_or_negative_are_refused() -> None:
    index = index_of("user")
    with pytest.raises(ValueError, match="row 0"):
        index.add(0, ["api"])
    with pytest.raises(ValueError, match="row -1"):
        index.add(-1, ["api"])
    with pytest.raises(KeyError):
        index.remove(5)
    assert rows_found(index, "user", "api") == [0]


@pytest.mark.parametrize(
    ("rows", "documents"),
    [([1, 1], [["a"], ["b"]]), ([1], []), ([5, 0], [["a"], ["b"]]), ([-2], [["a"]])],
)
def test_refused_bulk_load_changes_nothing(rows: list[int], documents: list[list[str]]) -> None:
    index = index_of("user")
    with pytest.raises(ValueError, match=r"distinct row|indexed already"):
        index.bulk_load(rows, documents)
    assert len(index) == 1
    assert rows_found(index, "a", "b") == []
    assert rows_found(index, "user") == [0]


def test_bulk_load_of_nothing() -> None:
    index = InvertedIndex()
    index.bulk_load([], [])
    assert len(index) == 0
    index.bulk_load([3, 4], [[], []])
    assert len(index) == 2
    assert rows_found(index, "user") == []


def test_bulk_load_joins_what_is_there() -> None:
    index = index_of("user schema", "gone")
    index.remove(1)
    index.bulk_load([1, 9], [["user", "user"], ["api"]])
    index.add(4, ["api", "user"])
    single = InvertedIndex()
    for row, text in [(9, "api"), (4, "api user"), (0, "user schema"), (1, "user user")]:
        single.add(row, text.split())
    query = ["user", "api", "schema", "gone"]
    assert index.search(query, 10, tie_key=tie_key) == single.search(query, 10, tie_key=tie_key)
    assert index.average_length == single.average_length
