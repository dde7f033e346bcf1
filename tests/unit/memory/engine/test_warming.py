"""What was read ahead is not stemmed again, and reads the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from snowballstemmer.english_stemmer import EnglishStemmer

from memory.engine import text as text_module
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.graph import Graph
from memory.engine.requests import (
    ActionRequest,
    ConceptInput,
    DemoteRequest,
    DeriveRequest,
    GuardRequest,
    RecallRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.text import canonical_key, index_tokens, word_stems
from memory.engine.types import ConceptType, Snapshot
from memory.engine.warming import WARM_CHARS, needs_warming, texts_of, warm


class Ids:
    def __init__(self) -> None:
        self._made = 0

    def next_id(self) -> str:
        self._made += 1
        return f"00000000-0000-4000-8000-{self._made:012x}"

    def next_ordered_id(self, now: int) -> str:
        return self.next_id()


class CountingStemmer(EnglishStemmer):  # type: ignore[misc]
    calls = 0

    def stemWord(self, word: str) -> str:
        CountingStemmer.calls += 1
        stem: str = super().stemWord(word)
        return stem


def forget() -> None:
    for cache in (text_module._short_key, text_module._long_key, text_module._cached_stem):
        cache.cache_clear()


@pytest.fixture(autouse=True)
def _count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget()
    monkeypatch.setattr(text_module, "EnglishStemmer", CountingStemmer)
    CountingStemmer.calls = 0
    yield
    forget()


def large_derive(size: int = 10_000) -> DeriveRequest:
    """64 texts of words that all differ, among them words too long to remember."""
    chance = random.Random(7)

    def word() -> str:
        length = chance.choice([5, 9, 70])
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=length))

    texts = [" ".join(word() for _ in range(size // 30)) for _ in range(64)]
    return DeriveRequest(tuple(ConceptInput(text, ConceptType.ENTITY) for text in texts))


def written(request: DeriveRequest) -> Snapshot:
    graph = Graph("session", 0)
    plan = plan_derive(graph, request, Stamp("agent", 1, Ids()), co_occurrence_max=8)
    graph.apply_all(plan.mutations)
    return take_snapshot(graph)


def test_a_request_is_checked_and_a_warmed_one_written_and_opened_without_stemming() -> None:
    request = large_derive()
    assert CountingStemmer.calls < 3 * 64
    assert needs_warming(request)
    warm(request, {})
    assert CountingStemmer.calls > 10_000
    CountingStemmer.calls = 0
    snapshot = written(request)
    load_snapshot(snapshot)
    assert CountingStemmer.calls == 0


def test_a_write_is_the_same_with_and_without_warming() -> None:
    request = large_derive(1_000)
    cold = written(request)
    forget()
    warm(request, {})
    assert written(request) == cold


def test_added_and_loaded_concepts_are_found_by_the_tokens_of_their_content() -> None:
    request = large_derive(600)
    snapshot = written(request)
    opened = load_snapshot(snapshot)
    for concept in snapshot.concepts:
        tokens = index_tokens(concept.content)
        assert sorted(tokens) == sorted(opened.tokens_of(concept.content, concept.canonical_key))
        hits = opened.index.search(tokens, 1, tie_key=opened.id_at)
        assert opened.id_at(hits[0][0]) == concept.id


def test_an_alias_is_indexed_by_what_it_says() -> None:
    graph = Graph("session", 0)
    graph.synonyms["login"] = "sign in form"
    assert graph.tokens_of(" login ", "form sign") == ["login"]
    assert graph.tokens_of("log in", "form sign") == ["form", "sign"]


def test_synonyms_are_followed() -> None:
    target = "wordings " * 500
    warm(RetractRequest("short"), {"short": target})
    CountingStemmer.calls = 0
    assert canonical_key("short", {"short": target}) == " ".join(["word"] * 500)
    assert CountingStemmer.calls == 0


def test_sentences_of_a_chunk_are_read_one_by_one() -> None:
    sentences = [f"{chr(65 + n)}{chr(97 + n) * 70}ings ran." for n in range(26)]
    request = DemoteRequest(" ".join(sentences), "group")
    warm(request, {})
    CountingStemmer.calls = 0
    assert all(canonical_key(sentence) for sentence in sentences)
    assert CountingStemmer.calls == 0


def test_words_of_a_guarded_action_are_read_one_by_one() -> None:
    """Every mark separates them there, so the tokens of the index are not enough."""
    action = "; ".join(f"rm wordings/{chr(97 + n) * 5}ings.txt" for n in range(26)) * 4
    request = GuardRequest(action)
    assert needs_warming(request)
    warm(request, {})
    CountingStemmer.calls = 0
    assert word_stems(action)[:4] == ("rm", "word", "aaaaa", "txt")
    assert CountingStemmer.calls == 0


def test_texts_of_each_request() -> None:
    derive = DeriveRequest(
        (ConceptInput("one", ConceptType.ENTITY, ("two",), ("three",)),), (("four", "five"),)
    )
    assert texts_of(derive) == ["one", "two", "three", "four", "five"]
    action = ActionRequest("one", ("two",), ("three",), ("four",), ("five",))
    assert texts_of(action) == ["one", "two", "three", "four", "five"]
    assert texts_of(RootGoalRequest(("one", "two"))) == ["one", "two"]
    assert texts_of(SynonymRequest("one", "two")) == ["one", "two"]
    assert texts_of(ReserveRequest(concept="one")) == texts_of(RecallRequest("one")) == ["one"]
    assert texts_of(object()) == []


def test_only_large_requests_need_it() -> None:
    assert not needs_warming(RecallRequest("x" * WARM_CHARS))
    assert needs_warming(RecallRequest("x" * (WARM_CHARS + 1)))
