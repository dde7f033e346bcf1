"""The server as users have it: a model of its own, what older sessions find, and what goes wrong.

Every other process test goes by words alone; here the real model runs, or a stand-in for an
embedding server that is stopped, slow or wrong.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from children import DEFAULT_EMBEDDER
from command_line import spare_port
from embedding_server import Answer, StandIn, as_answer
from memory.engine.embedding import MINILM
from serving import (
    SERVE,
    HttpClient,
    count,
    eventually,
    rows,
    server_environment,
    serving,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SESSION = "billing"
THREE = "the billing service retries three times"
AGAIN = "on failure the billing service retries up to 3 times"
FIVE = "the billing service retries five times"
CONTRACTS = "SELECT contract_id FROM lambo_embedding"


def strategies(client: HttpClient) -> dict[str, str]:
    sessions = client.call("GET", "/api/v1/sessions").body["sessions"]
    return {row["session"]: row["match_strategy"] for row in sessions}


# -- the model that is there when nothing is said --------------------------------------------------


def test_facts_are_linked_by_meaning_and_never_two_values(tmp_path: Path) -> None:
    with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
        # The first write may come while the model is still being read: it waits, and has a vector.
        (first,) = state(client, THREE)["created"]
        assert client.stats(SESSION)["missing_vectors"] == 0
        again = state(client, AGAIN)
        assert again["semantic_merged"] == [first]
        five = state(client, FIVE)
        assert five["semantic_merged"] == []
        assert first in [candidate["id"] for candidate in five["replacement_candidates"]]
        assert strategies(client) == {SESSION: "hybrid"}
        stopped = server.stop()
        assert (stopped.code, stopped.says_all_committed) == (0, True)
    (contract,) = {contract for (contract,) in rows(server.data_dir, CONTRACTS)}
    assert contract == MINILM.key
    assert count(server.data_dir, "embedding", SESSION) == 3
    with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
        hits = client.recall(SESSION, "how often does invoicing try again", top_k=3)["hits"]
        assert {hit["content"] for hit in hits} == {THREE, AGAIN, FIVE}


def state(client: HttpClient, claim: str) -> dict[str, Any]:
    """Derive a claim: of entities nothing replaces another."""
    body = {"agent_id": "ann", "concepts": [{"content": claim, "concept_type": "logic"}]}
    answer = client.call("POST", f"/api/v1/sessions/{SESSION}/derive", body)
    assert answer.status == 200, answer
    return answer.body


def test_session_made_without_an_embedder_goes_on_under_the_default(tmp_path: Path) -> None:
    """An upgrade must not stop anybody's writes, nor begin to match old sessions otherwise."""
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.derive("old", THREE).status == 200
        assert server.stop().code == 0
    for restart in range(2):
        with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
            answer = client.derive("old", AGAIN, f"written after start {restart}")
            assert answer.status == 200
            assert answer.body["warnings"] == []
            assert "semantic_merged" not in answer.body
            assert client.recall("old", "billing")["warnings"] == []
            assert client.derive("new", THREE).body["semantic_merged"] == []
            assert strategies(client) == {"new": "hybrid", "old": "canonical"}
            assert server.stop().code == 0
    assert count(server.data_dir, "embedding", "old") == 0


def test_session_made_by_default_is_read_but_not_written_without_its_model(tmp_path: Path) -> None:
    with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
        assert client.derive(SESSION, THREE).status == 200
        assert server.stop().code == 0
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        refused = client.derive(SESSION, FIVE)
        assert (refused.status, refused.code) == (409, "embedding_mismatch")
        found = client.recall(SESSION, "billing retries")
        assert [hit["content"] for hit in found["hits"]] == [THREE]
        assert any("embedder.kind minilm" in warning for warning in found["warnings"])


def test_model_that_cannot_be_loaded_stops_the_start_and_says_how_to_go_without(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "onnxruntime.py").write_text("raise ImportError('libonnxruntime.so is not there')\n")
    environ = server_environment(tmp_path, LAMBO_PORT=str(spare_port()), **DEFAULT_EMBEDDER)
    environ["PYTHONPATH"] = f"{broken}:{environ['PYTHONPATH']}"
    run = subprocess.run(
        SERVE, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert "embedder.kind minilm needs the package onnxruntime" in run.stderr
    assert "LAMBO_EMBEDDER=none" in run.stderr
    assert "Traceback" not in run.stderr
    environ["LAMBO_EMBEDDER"] = "none"
    with subprocess.Popen(SERVE, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as p:
        assert p.stderr is not None
        assert any("listening on" in line for line in p.stderr)  # ends with the first that does
        p.send_signal(signal.SIGTERM)
        p.stderr.read()
    assert p.returncode == 0


def test_stop_while_the_model_is_being_read_ends_in_order(tmp_path: Path) -> None:
    """A native engine at work in a process that ends may take it down, exit code and all."""
    environ = server_environment(tmp_path, LAMBO_PORT=str(spare_port()), **DEFAULT_EMBEDDER)
    with subprocess.Popen(SERVE, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as p:
        assert p.stderr is not None
        assert any("listening on" in line for line in p.stderr)
        p.send_signal(signal.SIGTERM)
        said = p.stderr.read()
    assert p.returncode == 0, said
    assert "every acknowledged write is committed" in said


# -- an embedder in trouble ------------------------------------------------------------------------

WIDTH = 64
SUBJECTS = [
    "parser", "ledger", "gateway", "quota", "webhook", "replica", "tenant", "export", "cache",
    "shard", "index", "worker", "policy", "token", "batch", "invoice", "schema", "queue", "backup",
    "mailer",
]  # fmt: skip
ASKED = "frage"


def fact(number: int) -> str:
    return f"the {SUBJECTS[number]} is restarted by its owner"


def meaning_of(text: str) -> list[float]:
    """A direction for each fact, which its question in another language shares, word for none."""
    number = next((n for n, subject in enumerate(SUBJECTS) if f" {subject} " in f" {text} "), None)
    if number is None:
        number = int(text.removeprefix(ASKED)) if text.startswith(ASKED) else WIDTH - 1
    vector = np.full(WIDTH, 0.01)
    vector[number] = 1.0
    return [float(value) for value in vector]


def well(texts: Sequence[str]) -> tuple[int, bytes]:
    return 200, as_answer([meaning_of(text) for text in texts])


Fault = Callable[[Sequence[str], Event], tuple[int, bytes]]
FAULTS: dict[str, Fault] = {
    "slow": lambda texts, mended: well(texts) if mended.wait(60) else (500, b""),
    "refusing": lambda _texts, _mended: (500, b"no"),
    "too wide": lambda texts, _mended: (200, as_answer([[1.0] * (WIDTH + 1)] * len(texts))),
    "not a number": lambda texts, _mended: (200, as_answer([[float("nan")] * WIDTH] * len(texts))),
}


@pytest.mark.parametrize("fault", ["down", *FAULTS])
def test_writes_go_on_without_the_embedding_server_and_are_found_by_meaning_once_it_is_back(
    fault: str, tmp_path: Path
) -> None:
    port, mended = spare_port(), Event()
    embedder = {
        "LAMBO_EMBEDDER": "openai",
        "LAMBO_EMBEDDER_URL": f"http://127.0.0.1:{port}",
        "LAMBO_EMBEDDER_DIM": str(WIDTH),
        "LAMBO_EMBEDDER_DEADLINE_SECONDS": "0.1",
    }
    with ExitStack() as stack:

        def start(answer: Answer) -> StandIn:
            stand_in = StandIn(port)
            stack.callback(stand_in.close)
            stand_in.answer = answer
            return stand_in

        stack.callback(mended.set)
        stand_in = None
        if fault != "down":
            stand_in = start(lambda texts: FAULTS[fault](texts, mended))
        server = stack.enter_context(serving(tmp_path, **embedder))
        client = stack.enter_context(HttpClient(server.url))
        for number in range(len(SUBJECTS)):
            assert client.derive(SESSION, fact(number)).status == 200
        assert client.stats(SESSION)["missing_vectors"] == len(SUBJECTS)
        for number, subject in enumerate(SUBJECTS):
            assert first_hit(client, subject) == fact(number)

        mended.set()
        if stand_in is None:
            start(well)
        else:
            stand_in.answer = well
        eventually(lambda: not client.stats(SESSION)["missing_vectors"], "all have a vector")

        for number in range(len(SUBJECTS)):
            assert first_hit(client, f"{ASKED}{number}") == fact(number)
        stored = rows(server.data_dir, "SELECT contract_id, vector FROM lambo_embedding")
        assert len(stored) == len(SUBJECTS)
        assert {tuple(json.loads(contract)[:3]) for contract, _ in stored} == {
            ("openai", None, WIDTH)
        }
        for _, vector in stored:
            numbers = np.frombuffer(vector, dtype="<f4")
            assert numbers.shape == (WIDTH,)
            assert abs(float(np.linalg.norm(numbers)) - 1) < 1e-5


def first_hit(client: HttpClient, query: str) -> str:
    hits = client.recall(SESSION, query, top_k=1, traversal_depth=0)["hits"]
    return str(hits[0]["content"])
