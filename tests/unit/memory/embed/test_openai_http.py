from __future__ import annotations

import json
import socket
from collections.abc import Sequence

import pytest

from embedding_server import DIM, StandIn, as_answer, vectors_of
from memory.embed.openai_http import BATCH_TEXTS, REFUSALS_MAX, OpenAiEmbedder
from memory.embed.registry import build_embedder
from memory.engine.embedding import Embedded, EmbeddingContract, EmbeddingFailure
from memory.engine.errors import InvalidConfiguration


def ask(
    stand_in: StandIn,
    texts: Sequence[str],
    *,
    deadline_seconds: float = 30,
    model: str | None = None,
    api_key: str | None = None,
    url: str | None = None,
) -> Sequence[Embedded]:
    contract = EmbeddingContract("openai", model, DIM)
    embedder = OpenAiEmbedder(contract, url=url or stand_in.url, sent_model=model, api_key=api_key)
    try:
        return embedder.embed(texts, deadline_seconds=deadline_seconds)
    finally:
        embedder.close()


def sentences(results: Sequence[Embedded]) -> list[str]:
    return [str(one) if isinstance(one, EmbeddingFailure) else "vector" for one in results]


def test_vectors_are_put_in_order_by_their_index(stand_in: StandIn) -> None:
    texts = ["one", "two", "three"]
    for result, vector in zip(ask(stand_in, texts), vectors_of(texts), strict=True):
        assert not isinstance(result, EmbeddingFailure)
        assert result.tolist() == pytest.approx([value / 3 for value in vector], abs=1e-6)
    assert stand_in.asked == [texts]
    assert stand_in.paths == ["/v1/embeddings"]


def test_model_and_key_are_sent_only_if_set(stand_in: StandIn) -> None:
    ask(stand_in, ["one"])
    ask(stand_in, ["one"], model="bge-m3", api_key="s3cret")
    assert "model" not in stand_in.bodies[0]
    assert "Authorization" not in stand_in.headers[0]
    assert stand_in.bodies[1]["model"] == "bge-m3"
    assert stand_in.headers[1]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/embeddings"])
def test_address_may_name_the_interface(stand_in: StandIn, path: str) -> None:
    assert sentences(ask(stand_in, ["one"], url=stand_in.url + path)) == ["vector"]
    assert stand_in.paths == ["/v1/embeddings"]


def test_proxies_of_the_environment_are_not_used(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text must not go where the operator did not point."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert sentences(ask(stand_in, ["one"])) == ["vector"]


def test_many_texts_go_in_batches(stand_in: StandIn) -> None:
    texts = [f"text {number}" for number in range(2 * BATCH_TEXTS + 1)]
    assert sentences(ask(stand_in, texts)) == ["vector"] * len(texts)
    assert [len(batch) for batch in stand_in.asked] == [BATCH_TEXTS, BATCH_TEXTS, 1]


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_text_the_server_refuses_fails_alone(stand_in: StandIn, status: int) -> None:
    def answer(texts: Sequence[str]) -> tuple[int, bytes]:
        if "too long" in texts:
            return status, b'{"error": {"message": "input is too large, secret detail"}}'
        return 200, as_answer(vectors_of(texts))

    stand_in.answer = answer
    texts = [f"text {number}" for number in range(16)]
    texts[5] = "too long"
    results = sentences(ask(stand_in, texts))
    assert results[5] == f"the embedding server answered {status}"
    assert results[:5] + results[6:] == ["vector"] * 15
    assert len(stand_in.asked) <= 9


def test_server_that_refuses_everything_is_given_up(stand_in: StandIn) -> None:
    stand_in.answer = lambda _texts: (500, b"no")
    texts = [f"text {number}" for number in range(200)]
    assert set(sentences(ask(stand_in, texts))) == {"the embedding server answered 500"}
    assert len(stand_in.asked) <= REFUSALS_MAX + 1


@pytest.mark.parametrize("status", [301, 401, 404, 429, 503])
def test_server_that_is_not_to_be_asked_is_asked_once(stand_in: StandIn, status: int) -> None:
    stand_in.answer = lambda _texts: (status, b"")
    results = ask(stand_in, ["one", "two"])
    assert sentences(results) == [f"the embedding server answered {status}"] * 2
    assert len(stand_in.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b'{"data": null}',
        b'{"data": [1]}',
        b'{"data": [{"index": 7, "embedding": [1]}]}',
        b'{"data": [{"index": true, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
        b'{"data": [{"embedding": [1]}]}',
        b"\xff\xfe",
        b"[" * 50_000,
    ],
)
def test_answer_of_another_shape_is_a_failure(stand_in: StandIn, body: bytes) -> None:
    stand_in.answer = lambda _texts: (200, body)
    results = ask(stand_in, ["one", "two"])
    assert sentences(results) == ["the embedding server sent an answer of another shape"] * 2
    assert len(stand_in.asked) == 1


def test_answer_without_indexes_counts_if_it_is_complete(stand_in: StandIn) -> None:
    def answer(texts: Sequence[str]) -> tuple[int, bytes]:
        rows = [{"embedding": vector} for vector in vectors_of(texts)]
        return 200, json.dumps({"data": rows}).encode()

    stand_in.answer = answer
    assert sentences(ask(stand_in, ["one", "two"])) == ["vector"] * 2


def test_vector_that_cannot_be_used_fails_its_text_alone(stand_in: StandIn) -> None:
    bad = {
        "narrow": [1.0] * (DIM - 1),
        "nan": [float("nan")] * DIM,
        "zero": [0.0] * DIM,
        "text": "AAAA",
        "null": None,
    }

    def answer(texts: Sequence[str]) -> tuple[int, bytes]:
        good = dict(zip(texts, vectors_of(texts), strict=True))
        return 200, as_answer([bad.get(text, good[text]) for text in texts])

    stand_in.answer = answer
    assert sentences(ask(stand_in, [*bad, "good"])) == [
        "the vector has 15 dimensions, not 16",
        "the vector holds a number that is not finite",
        "the vector is zero",
        "the vector is not a flat list of numbers",
        "the vector is not a flat list of numbers",
        "vector",
    ]


def test_text_the_server_left_out_fails_alone(stand_in: StandIn) -> None:
    stand_in.answer = lambda texts: (200, as_answer(vectors_of(texts)[:-1]))
    assert sentences(ask(stand_in, ["one", "two"])) == [
        "vector",
        "the embedding server sent no vector for this text",
    ]


def test_endless_answer_is_cut_off(stand_in: StandIn) -> None:
    stand_in.answer = lambda _texts: (200, b" " * 1_000_000)
    assert sentences(ask(stand_in, ["one"])) == ["the embedding server sent too long an answer"]


def test_slow_server_is_left_at_the_deadline(stand_in: StandIn) -> None:
    def answer(texts: Sequence[str]) -> tuple[int, bytes]:
        stand_in.released.wait(60)
        return 200, as_answer(vectors_of(texts))

    stand_in.answer = answer
    texts = [f"text {number}" for number in range(100)]
    assert sentences(ask(stand_in, texts, deadline_seconds=0.2)) == [
        "not embedded within 0.2 s"
    ] * len(texts)
    assert len(stand_in.asked) == 1


def test_absent_server_is_asked_once_and_said_so(stand_in: StandIn) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses every connection
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        results = ask(stand_in, ["one", "two"], url=url)
    assert sentences(results) == ["the embedding server cannot be reached"] * 2


def test_failures_name_neither_address_nor_key_nor_text(stand_in: StandIn) -> None:
    stand_in.answer = lambda _texts: (500, b"boom at /srv/model")
    (result,) = sentences(ask(stand_in, ["my text"], api_key="s3cret"))
    assert not any(part in result for part in ("127.0.0.1", "s3cret", "my text", "boom", "://"))


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://host", "http://", "file:///etc/passwd", "http://[::1"]
)
def test_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"embedder\.url must be an http"):
        OpenAiEmbedder(EmbeddingContract("openai", None, DIM), url=url)


def test_embedding_gemma_is_a_server_with_a_known_width(stand_in: StandIn) -> None:
    embedder = build_embedder("embeddinggemma", url=stand_in.url)
    assert embedder is not None
    stand_in.answer = lambda texts: (200, as_answer([[1.0] * 768 for _ in texts]))
    try:
        assert sentences(embedder.embed(["one"], deadline_seconds=5)) == ["vector"]
    finally:
        embedder.close()
    assert "model" not in stand_in.bodies[0]
