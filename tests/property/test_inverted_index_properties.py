"""The keyword index against plain BM25 over a plain dict, through any history of changes."""

from __future__ import annotations

import random
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memory.engine.inverted_index import InvertedIndex

WORD = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"])
DOCUMENT = st.lists(WORD, max_size=7)
CORPUS = st.lists(DOCUMENT, max_size=25)
QUERY = st.lists(WORD | st.just("absent"), max_size=6)

Corpus = dict[int, list[str]]


def tie_key(row: int) -> str:
    # Not in step with the row number, so that order by row would show.
    return f"{(row * 37) % 101:03d}/{row}"


def plain_bm25(corpus: Corpus, query: list[str]) -> dict[int, float]:
    scores = dict.fromkeys(corpus, 0.0)
    for term in set(query):
        df = sum(term in document for document in corpus.values())
        for row, document in corpus.items():
            tf = document.count(term)
            if tf:
                average = sum(map(len, corpus.values())) / len(corpus)
                length = 0.25 + 0.75 * len(document) / average
                idf = log(1 + (len(corpus) - df + 0.5) / (df + 0.5))
                scores[row] += idf * tf * 2.2 / (tf + 1.2 * length)
    return {row: score for row, score in scores.items() if score > 0}


def check_against_plain(index: InvertedIndex, corpus: Corpus, query: list[str]) -> None:
    expected = plain_bm25(corpus, query)
    everything = index.search(query, len(corpus) + 1, tie_key=tie_key)
    assert dict(everything) == pytest.approx(expected, abs=1e-9)
    assert len(everything) == len(expected)
    # The order follows from the index's own scores: the plain ones may differ in the last bit.
    assert everything == sorted(everything, key=lambda hit: (-hit[1], tie_key(hit[0])))
    for limit in range(len(everything) + 1):
        assert index.search(query, limit, tie_key=tie_key) == everything[:limit]


PARTED = st.sampled_from(["alpha", "beta", "alpha,", "alpha/beta", "beta.gamma", "gamma"])


def parts_of_token(token: str) -> list[str]:
    return [] if token.isalnum() else token.replace("/", " ").replace(".", " ").strip(",").split()


def parted_bm25(corpus: Corpus, query: list[str]) -> dict[int, float]:
    """BM25 where a token also counts inside longer ones; lengths are of whole tokens."""
    padded = {
        row: [*document, *(part for token in document for part in parts_of_token(token))]
        for row, document in corpus.items()
    }
    scores = dict.fromkeys(corpus, 0.0)
    for term in set(query):
        df = sum(term in document for document in padded.values())
        for row, document in padded.items():
            tf = document.count(term)
            if tf:
                average = sum(map(len, corpus.values())) / len(corpus)
                length = 0.25 + 0.75 * len(corpus[row]) / average
                idf = log(1 + (len(corpus) - df + 0.5) / (df + 0.5))
                scores[row] += idf * tf * 2.2 / (tf + 1.2 * length)
    return {row: score for row, score in scores.items() if score > 0}


@given(
    st.lists(st.lists(PARTED, max_size=7), max_size=20),
    st.lists(st.integers(0, 30)),
    st.lists(PARTED, max_size=5),
    st.integers(0, 20),
)
def test_scores_with_parts_are_bm25_over_words_wherever_they_stand(
    documents: list[list[str]], gone: list[int], query: list[str], loaded: int
) -> None:
    index = InvertedIndex(parts_of_token)
    corpus = dict(enumerate(documents))
    index.bulk_load(range(len(documents[:loaded])), documents[:loaded])
    for row in range(len(documents[:loaded]), len(documents)):
        index.add(row, documents[row])
    for row in dict.fromkeys(gone):
        if corpus.pop(row, None) is not None:
            index.remove(row)

    found = index.search(query, len(documents) + 1, tie_key=tie_key, with_parts=True)

    assert dict(found) == pytest.approx(parted_bm25(corpus, query), abs=1e-9)
    check_against_plain(index, corpus, query)  # without parts, nothing is different


@given(CORPUS, QUERY)
def test_scores_are_plain_bm25(documents: list[list[str]], query: list[str]) -> None:
    index = InvertedIndex()
    for row, document in enumerate(documents):
        index.add(row, document)
    check_against_plain(index, dict(enumerate(documents)), query)


@given(CORPUS, QUERY, st.randoms(use_true_random=False), st.integers(0, 25))
def test_order_and_way_of_arrival_leave_no_trace(
    documents: list[list[str]], query: list[str], shuffler: random.Random, loaded: int
) -> None:
    straight = InvertedIndex()
    for row, document in enumerate(documents):
        straight.add(row, document)
    items = list(enumerate(documents))
    shuffler.shuffle(items)
    mixed = InvertedIndex()
    for row, document in items[loaded:]:
        mixed.add(row, document)
    mixed.bulk_load(
        [row for row, _ in items[:loaded]], [document for _, document in items[:loaded]]
    )
    shuffled_query = shuffler.sample(query, len(query))
    limit = len(documents)
    # Equal to the last bit, not nearly.
    assert mixed.search(shuffled_query, limit, tie_key=tie_key) == straight.search(
        query, limit, tie_key=tie_key
    )
    assert mixed.average_length == straight.average_length


class Histories(RuleBasedStateMachine):
    """Any mix of additions, removals and bulk loads, with rows handed out again at once."""

    def __init__(self) -> None:
        super().__init__()
        self.index = InvertedIndex()
        self.corpus: Corpus = {}

    def free_rows(self, count: int) -> list[int]:
        found: list[int] = []
        row = 0
        while len(found) < count:
            if row not in self.corpus:
                found.append(row)
            row += 1
        return found

    @rule(document=DOCUMENT)
    def add(self, document: list[str]) -> None:
        (row,) = self.free_rows(1)
        self.index.add(row, document)
        self.corpus[row] = document

    @rule(documents=st.lists(DOCUMENT, max_size=8))
    def bulk_load(self, documents: list[list[str]]) -> None:
        rows = self.free_rows(len(documents))
        self.index.bulk_load(rows, documents)
        self.corpus.update(zip(rows, documents, strict=True))

    @precondition(lambda self: bool(self.corpus))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(sorted(self.corpus)))
        self.index.remove(row)
        del self.corpus[row]

    @rule(query=QUERY)
    def search(self, query: list[str]) -> None:
        check_against_plain(self.index, self.corpus, query)

    @invariant()
    def sizes_agree(self) -> None:
        assert len(self.index) == len(self.corpus)
        total = sum(map(len, self.corpus.values()))
        assert self.index.average_length == (total / len(self.corpus) if self.corpus else 0.0)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
