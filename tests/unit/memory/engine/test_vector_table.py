"""The vector table: ties, growth, loads, and what a reader on another thread sees."""

from __future__ import annotations

import numpy as np

from memory.engine.embedding import Vector
from memory.engine.vector_table import (
    BLOCK_ROWS,
    CHANGES_KEPT,
    Query,
    VectorTable,
    exact_cosines,
    nearest,
    ranked,
)

DIM = 8


def unit_vectors(count: int, seed: int = 1) -> Vector:
    vectors = np.random.default_rng(seed).normal(size=(count, DIM))
    units: Vector = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return units


def filled(count: int) -> tuple[VectorTable, Vector]:
    table = VectorTable(DIM)
    vectors = unit_vectors(count)
    table.fill(range(count), vectors)
    return table, vectors


def test_an_empty_table_finds_nothing() -> None:
    table = VectorTable(DIM)
    query = unit_vectors(1)[0]
    assert table.search(query, 5, floor=-1.0, tie_key=int) == []
    assert table.view().count == 0


def test_a_search_over_several_blocks_is_exact() -> None:
    count = 2 * BLOCK_ROWS + 77
    table, vectors = filled(count)
    query = unit_vectors(1, seed=2)[0]
    cosines = exact_cosines(vectors, query)
    best = sorted(range(count), key=lambda row: (-cosines[row], row))[:20]
    found = table.search(query, 20, floor=-1.0, tie_key=int)
    assert [row for row, _ in found] == best
    assert [cosine for _, cosine in found] == cosines[best].tolist()


def test_equal_vectors_have_equal_scores_wherever_they_lie_and_go_by_the_key() -> None:
    table, _ = filled(BLOCK_ROWS + 300)
    query = unit_vectors(1, seed=3)[0]
    for row in (3, 501, BLOCK_ROWS + 7, BLOCK_ROWS + 299):
        table.put(row, query)
    found = table.search(query, 3, floor=0.5, tie_key=lambda row: -row)
    assert [row for row, _ in found] == [BLOCK_ROWS + 299, BLOCK_ROWS + 7, 501]
    assert len({cosine for _, cosine in found}) == 1


def test_everything_tied_with_the_last_place_is_found_even_beyond_k() -> None:
    table = VectorTable(DIM)
    vector = unit_vectors(1)[0]
    for row in range(40):
        table.put(row, vector)
    (found,) = nearest(table.view(), [Query(vector, 5, 0.9)])
    assert sorted(found.rows.tolist()) == list(range(40))
    assert not found.is_cut


def test_cosines_never_pass_one() -> None:
    table, vectors = filled(500)
    for row in range(0, 500, 50):
        ((_, cosine),) = table.search(vectors[row], 1, floor=0.5, tie_key=int)
        assert cosine <= 1.0


def test_filling_is_putting_row_by_row() -> None:
    count = BLOCK_ROWS + 5
    filled_at_once, vectors = filled(count)
    one_by_one = VectorTable(DIM)
    for row in range(count):
        one_by_one.put(row, vectors[row])
    query = unit_vectors(1, seed=4)[0]
    expected = one_by_one.search(query, 50, floor=0.0, tie_key=int)
    assert filled_at_once.search(query, 50, floor=0.0, tie_key=int) == expected


def test_a_small_table_is_small_and_grows_by_doubling() -> None:
    table, _ = filled(3)
    assert len(table.view().blocks[0].owners) < BLOCK_ROWS
    table, _ = filled(BLOCK_ROWS)
    assert len(table.view().blocks[0].owners) == BLOCK_ROWS


def test_a_view_survives_a_removal_and_the_reuse_of_its_last_place() -> None:
    table, vectors = filled(10)
    before = table.view()
    table.remove(9)
    table.put(20, unit_vectors(1, seed=5)[0])
    assert before.blocks[0].owners[9] == 9
    assert before.blocks[0].vectors[9].tobytes() == vectors[9].tobytes()


def test_writing_past_a_view_copies_nothing() -> None:
    table, _ = filled(10)
    before = table.view().blocks[0]
    table.put(10, unit_vectors(1, seed=6)[0])
    assert table.view().blocks[0] is before


def test_changes_are_named_until_too_many_were_made() -> None:
    table, vectors = filled(10)
    version = table.version
    table.remove(3)
    table.put(12, vectors[0])
    assert table.changed_since(version) == {3, 12}
    assert table.changed_since(table.version) == set()
    for _ in range(2 * CHANGES_KEPT):
        table.put(1, vectors[0])
    assert table.changed_since(version) is None


def test_a_result_older_than_the_kept_changes_is_searched_again() -> None:
    table, vectors = filled(10)
    query = vectors[4]
    view = table.view()
    (found,) = nearest(view, [Query(query, 2, 0.9)])
    table.remove(4)
    for _ in range(2 * CHANGES_KEPT + 1):
        table.put(7, query)
    now = table.up_to_date(found, view.version, query, 2, floor=0.9)
    assert now.rows.tolist() == [7]


def test_what_was_found_beyond_the_wanted_makes_up_for_rows_that_changed() -> None:
    table, vectors = filled(10)
    for row in range(5):
        table.put(row, vectors[4])
    view, query = table.view(), vectors[4]
    (found,) = nearest(view, [Query(query, 4, -1.0)])
    assert found.is_cut
    table.remove(0)
    # Four of the five are as good as they were; a search for two of them is not needed.
    assert not table.needs_search(found, view.version, 2)
    now = table.up_to_date(found, view.version, query, 2, floor=-1.0)
    assert ranked(now, 2, tie_key=int) == table.search(query, 2, floor=-1.0, tie_key=int)
    for row in (1, 2, 3):
        table.remove(row)
    assert table.needs_search(found, view.version, 2)
    now = table.up_to_date(found, view.version, query, 2, floor=-1.0)
    assert ranked(now, 2, tie_key=int) == table.search(query, 2, floor=-1.0, tie_key=int)
