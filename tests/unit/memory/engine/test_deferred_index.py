"""Long documents are filed later, and no search can tell."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memory.engine.deferred_index as deferred_index
from memory.engine.deferred_index import LONG_TOKENS, DeferredIndex
from memory.engine.inverted_index import InvertedIndex

WORDS = [f"w{number}" for number in range(40)]


def document(seed: int, length: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


@given(
    st.lists(
        st.tuples(st.sampled_from(["long", "short", "remove", "some", "ask"]), st.integers(0, 9)),
        max_size=30,
    )
)
def test_an_index_with_a_line_answers_as_one_without(steps: list[tuple[str, int]]) -> None:
    plain, deferred = InvertedIndex(), DeferredIndex(InvertedIndex())
    for step, row in steps:
        if step in ("long", "short") and row not in plain:
            tokens = document(row, LONG_TOKENS + 1 if step == "long" else 5)
            plain.add(row, tokens)
            deferred.add(row, tokens)
        elif step == "remove" and row in plain:
            plain.remove(row)
            deferred.remove(row)
        elif step == "some":
            deferred.settle_some()
        elif step == "ask":
            asked = WORDS[row : row + 2]
            assert deferred.search(asked, 5, tie_key=str) == plain.search(asked, 5, tie_key=str)
        assert len(deferred) == len(plain)
        assert deferred.token_count == plain.token_count
        assert all((number in deferred) == (number in plain) for number in range(10))


def test_a_long_document_waits_and_is_filed_bit_by_bit() -> None:
    index = DeferredIndex(InvertedIndex())
    for row in range(20):
        index.add(row, document(row, 1_500))
    rounds = 0
    while not index.is_settled:
        index.settle_some()
        rounds += 1
    assert 5 <= rounds <= 10


def test_a_row_that_waits_cannot_be_added_again() -> None:
    index = DeferredIndex(InvertedIndex())
    index.add(1, document(1, LONG_TOKENS + 1))
    with pytest.raises(ValueError, match="row 1"):
        index.add(1, document(2, LONG_TOKENS + 1))


def test_only_so_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_index, "WAITING_TOKENS", 1_000)
    index = DeferredIndex(InvertedIndex())
    for row in range(9):
        index.add(row, document(row, 600))
    waited = 0
    while not index.is_settled:
        index.settle_some()
        waited += 1
    assert waited == 1
