"""A real embedding server, llama-cpp-python's own, behind the client for any such server.

Needs the extra `llama` with its server, and the model file kept beside the checkout: `make
llama-test` runs this where a wheel can be had. Everything else about embedding servers is tested
against a stand-in.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from children import child_environment
from command_line import spare_port
from memory.embed import llama
from memory.embed.openai_http import OpenAiEmbedder
from memory.engine.embedding import Embedded, EmbeddingContract, EmbeddingFailure, Vector
from serving import HttpClient, eventually, serving
from shared_data import shared_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        find_spec("llama_cpp") is None or find_spec("starlette_context") is None,
        reason="llama-cpp-python with its server is not installed; make llama-test does",
    ),
]

WIDTH = 384
CONTEXT_PIECES = "512"
SESSION = "billing"
THREE = "the billing service retries three times"
AGAIN = "on failure the billing service retries up to 3 times"
FIVE = "the billing service retries five times"


@pytest.fixture
def model() -> Path:
    return shared_file("models/all-minilm-l6-v2-q8_0.gguf")


@contextmanager
def llama_server(model: Path, folder: Path, port: int) -> Iterator[str]:
    """The server's address, once it answers; killed at the end."""
    sizes = [
        word for name in ("ctx", "batch", "ubatch") for word in (f"--n_{name}", CONTEXT_PIECES)
    ]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(model)]
    command += ["--embedding", "true", "--host", "127.0.0.1", "--port", str(port), *sizes]
    with (folder / "llama.log").open("ab") as log:
        process = subprocess.Popen(command, env=child_environment(), stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: process.poll() is not None or answers(url), "the model is served")
        assert process.poll() is None, (folder / "llama.log").read_text()
        yield url
    finally:
        process.kill()
        process.wait()


def answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/v1/models", timeout=10) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def vector_of(result: Embedded) -> Vector:
    assert not isinstance(result, EmbeddingFailure), result.sentence
    return result


def test_vectors_of_the_server_are_those_of_the_model_in_this_process(
    model: Path, tmp_path: Path
) -> None:
    texts = [THREE, AGAIN, FIVE, "", "naïve café, 服务, 🎉", "word " * 200]
    inside = llama.build(model)
    try:
        expected = inside.embed(texts, deadline_seconds=60)
    finally:
        inside.close()
    with llama_server(model, tmp_path, spare_port()) as url:
        client = OpenAiEmbedder(EmbeddingContract("openai", None, WIDTH), url=url)
        try:
            results = client.embed(texts, deadline_seconds=60)
            overlong = client.embed([THREE, "word " * 3_000, FIVE], deadline_seconds=60)
        finally:
            client.close()
    assert results[3] == expected[3]  # blank: no vector from either
    for place in (0, 1, 2, 4, 5):
        assert float(vector_of(results[place]) @ vector_of(expected[place])) > 0.999
    for place, text in ((0, results[0]), (2, results[2])):
        assert float(vector_of(overlong[place]) @ vector_of(text)) > 0.999


def test_sessions_live_on_the_server_and_outlive_its_absence(model: Path, tmp_path: Path) -> None:
    port = spare_port()
    embedder = {
        "LAMBO_EMBEDDER": "openai",
        "LAMBO_EMBEDDER_URL": f"http://127.0.0.1:{port}",
        "LAMBO_EMBEDDER_DIM": str(WIDTH),
    }
    with serving(tmp_path, **embedder) as server, HttpClient(server.url) as client:
        with llama_server(model, tmp_path, port):
            (first,) = client.derive(SESSION, THREE).body["created"]
            assert client.derive(SESSION, AGAIN).body["semantic_merged"] == [first]
            assert client.derive(SESSION, FIVE).body["semantic_merged"] == []
            assert top(client, "how often does invoicing try again") == THREE
        assert client.derive(SESSION, "orders are archived after ninety days").status == 200
        assert client.stats(SESSION)["missing_vectors"] == 1
        assert top(client, "archived") == "orders are archived after ninety days"
        with llama_server(model, tmp_path, port):
            eventually(lambda: not client.stats(SESSION)["missing_vectors"], "it has its vector")
            asked = "when do old purchases leave the live tables"
            assert top(client, asked) == "orders are archived after ninety days"


def top(client: HttpClient, query: str) -> str:
    hits = client.recall(SESSION, query, top_k=1, traversal_depth=0)["hits"]
    return str(hits[0]["content"])
