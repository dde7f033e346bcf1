"""A model that is loaded beside the server's work: waited for, never for ever, and never lost."""

from __future__ import annotations

from threading import Event

import pytest

from memory.embed import minilm
from memory.embed.deadline import CLOSED, Deadline
from memory.embed.loading import NOT_LOADED, LoadingModel
from memory.engine.embedding import EmbeddingFailure


def test_a_call_waits_for_the_model_as_long_as_its_deadline() -> None:
    may_load = Event()

    def load() -> str:
        may_load.wait(60)
        return "the model"

    model = LoadingModel(load)
    assert str(model.wait(Deadline(0.01))) == "not embedded within 0.01 s"
    may_load.set()
    assert model.wait(Deadline(60)) == "the model"
    assert model.wait(Deadline(0)) == "the model"  # once loaded, no call is too late for it
    model.close()
    assert model.wait(Deadline(60)) is CLOSED


def test_closing_waits_for_a_load_under_way() -> None:
    """A native engine at work in a process that ends may take it down."""
    loaded = []
    may_load = Event()

    def load() -> str:
        may_load.wait(0.05)
        loaded.append(True)
        return "the model"

    LoadingModel(load).close(seconds_max=60)
    assert loaded == [True]


def test_a_load_that_never_returns_holds_the_end_up_no_longer_than_said() -> None:
    may_load = Event()
    model = LoadingModel(lambda: may_load.wait(60))
    model.close(seconds_max=0.01)
    assert model.wait(Deadline(0)) is CLOSED
    may_load.set()


def test_a_load_that_fails_is_said_once_and_leaves_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def load() -> str:
        raise RuntimeError("no memory")

    model = LoadingModel(load)
    embedder = minilm.MiniLmEmbedder(model, minilm.load_tokenizer())
    for _ in range(2):
        results = embedder.embed(["one", "two"], deadline_seconds=60)
        assert results == [NOT_LOADED] * 2
        assert not NOT_LOADED.is_final  # after a restart it may go
    assert caplog.text.count("could not be loaded; texts get no vectors") == 1
    assert "no memory" in caplog.text
    embedder.close()


def test_the_default_model_is_built_before_it_is_loaded() -> None:
    """Reading the model took the server a quarter of a second of every start."""
    embedder = minilm.build()
    try:
        results = embedder.embed(["text"], deadline_seconds=60)
        assert not isinstance(results[0], EmbeddingFailure)
    finally:
        embedder.close()
