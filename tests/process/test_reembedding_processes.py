"""A data folder whose server is started with another embedder, stopped and killed on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from children import DEFAULT_EMBEDDER
from command_line import CommandLine, LiveServer
from memory.engine.embedding import FIXTURE, MINILM, EmbeddingContract
from serving import (
    HttpClient,
    RunningServer,
    count,
    eventually,
    rows,
    server_environment,
    serving,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SESSION = "billing"
LAMBO = (sys.executable, "-P", "-m", "memory.cli.main")
THREE = "the billing service retries three times"
NARROW = {"LAMBO_EMBEDDER": "fixture", "LAMBO_EMBEDDER_DIM": "64"}
FIXED = {"LAMBO_EMBEDDER": "fixture"}
NOTHING = {"LAMBO_EMBEDDER": "none"}
QUESTION = "how often does invoicing try again"


@pytest.fixture
def lambo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line of the folder, whatever server runs on it."""
    return CommandLine(LiveServer("", tmp_path / "data"), SESSION, capsys, monkeypatch)


def stored_contract(server: RunningServer) -> tuple[str, str, int]:
    sql = (
        "SELECT embedding_kind, embedding_model, embedding_dim FROM lambo_session"
        " WHERE session_id = ?"
    )
    (row,) = rows(server.data_dir, sql, SESSION)
    return row[0], row[1], row[2]


def vectors_of(server: RunningServer, contract: EmbeddingContract) -> int:
    sql = "SELECT count(*) FROM lambo_embedding WHERE session_id = ? AND contract_id = ?"
    ((number,),) = rows(server.data_dir, sql, SESSION, contract.key)
    return int(number)


def widths(server: RunningServer) -> set[int]:
    """Bytes of the stored vectors."""
    return {size for (size,) in rows(server.data_dir, "SELECT length(vector) FROM lambo_embedding")}


def write(client: HttpClient, number: int) -> None:
    for low in range(0, number, 50):
        texts = [f"statement {at} of the team" for at in range(low, min(number, low + 50))]
        assert client.derive(SESSION, *texts).status == 200


@pytest.mark.parametrize(
    ("before", "contract"),
    [
        pytest.param(NARROW, EmbeddingContract("fixture", FIXTURE.model, 64), id="other width"),
        pytest.param(FIXED, FIXTURE, id="same width"),
    ],
)
def test_another_model_mixes_nothing_and_embeds_again_when_told(
    tmp_path: Path, lambo: CommandLine, before: dict[str, str], contract: EmbeddingContract
) -> None:
    with serving(tmp_path, **before) as server, HttpClient(server.url) as client:
        write(client, 120)
        assert client.derive(SESSION, THREE).status == 200
        assert server.stop().code == 0
    for _ in range(2):  # and so it stays, restart after restart
        with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
            refused = client.derive(SESSION, "anything")
            assert (refused.status, refused.code) == (409, "embedding_mismatch")
            assert refused.body["error"]["way_out"] == f"lambo reembed --session {SESSION}"
            assert "lambo reembed" in refused.body["error"]["message"]
            assert THREE in client.recall(SESSION, "billing retries")["context"]
            assert stored_contract(server) == (contract.kind, contract.model, contract.dim)
            assert server.stop().code == 0
    with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
        assert lambo("reembed", "--no-wait", "--json").json["state"] == "running"
        # Words answer while it runs.
        assert THREE in client.recall(SESSION, "billing retries")["context"]
        done = lambo("reembed", "--json")
        assert done.json["state"] == "done"
        assert (done.json["embedded"], done.json["total"]) == (121, 121)
        assert "of 121 concepts embedded" in done.err
        hits = client.recall(SESSION, QUESTION, top_k=1)["hits"]
        assert [hit["content"] for hit in hits] == [THREE]
        assert client.derive(SESSION, "written by the new model").status == 200
        server.kill()
    for _ in range(2):
        with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
            assert client.stats(SESSION)["missing_vectors"] == 0
            assert client.derive(SESSION, "and again").status == 200
            assert lambo("reembed", "--json").json["state"] == "not_needed"
            assert stored_contract(server) == (MINILM.kind, MINILM.model, MINILM.dim)
            assert vectors_of(server, contract) == 0
            assert widths(server) == {4 * MINILM.dim}
            assert count(server.data_dir, "embedding", SESSION) == count(
                server.data_dir, "concept", SESSION
            )
            assert server.stop().code == 0


def test_a_kill_in_the_middle_mixes_nothing_and_it_goes_on(
    tmp_path: Path, lambo: CommandLine
) -> None:
    number = 600
    with serving(tmp_path, **FIXED) as server, HttpClient(server.url) as client:
        write(client, number)
        assert server.stop().code == 0
    with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
        assert lambo("reembed", "--no-wait").code == 0
        eventually(lambda: vectors_of(server, MINILM) > 0, "the first vectors are stored")
        server.kill()
    kept = vectors_of(server, MINILM)
    assert 0 < kept < number
    assert stored_contract(server)[0] == "fixture"
    assert vectors_of(server, FIXTURE) == number
    with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:

        def state() -> str:
            return str(client.stats(SESSION)["embedding"]["reembedding"]["state"])

        # Nobody asks again: opening the session is enough.
        first = client.stats(SESSION)["embedding"]
        assert first["contract"]["kind"] == "fixture"
        assert first["reembedding"]["embedded"] >= kept
        eventually(lambda: state() == "done", "the rest is embedded")
        assert stored_contract(server) == (MINILM.kind, MINILM.model, MINILM.dim)
        assert (vectors_of(server, MINILM), vectors_of(server, FIXTURE)) == (number, 0)
        assert client.derive(SESSION, THREE).status == 200


def test_every_session_of_a_server_that_had_no_embedder_is_given_vectors(
    tmp_path: Path, lambo: CommandLine
) -> None:
    with serving(tmp_path, **NOTHING) as server, HttpClient(server.url) as client:
        for session in (SESSION, "shop"):
            assert client.derive(session, THREE).status == 200
        for number in range(30):  # so that it is not found for being new
            assert client.derive("shop", f"something else {number}").status == 200
        refused = lambo("reembed")
        assert refused.code == 1
        assert "[no_embedder]" in refused.err
        assert server.stop().code == 0
    with serving(tmp_path, **DEFAULT_EMBEDDER) as server, HttpClient(server.url) as client:
        assert THREE not in client.recall("shop", QUESTION)["context"]
        ran = subprocess.run(
            [*LAMBO, "--data-dir", str(server.data_dir), "reembed", "--all", "--json"],
            env=server_environment(tmp_path),
            capture_output=True,
            check=True,
        )
        told = json.loads(ran.stdout)
        assert {row["session"]: row["state"] for row in told["sessions"]} == {
            SESSION: "done",
            "shop": "done",
        }
        assert THREE in client.recall("shop", QUESTION)["context"]
        assert server.stop().code == 0
