"""Token mode in processes: the server, the command line, the bridge and the first login."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from children import child_environment
from command_line import spare_port, stop_server
from memory.client import LamboClient
from memory.data_folder import read_runtime
from memory.engine.errors import Forbidden, SessionNotFound, Unauthenticated
from serving import rows, server_environment, serving

pytestmark = pytest.mark.slow

LAMBO = [sys.executable, "-P", "-m", "memory.cli.main"]
MAKE = ("token", "create", "--name", "ci", "--agent", "ci", "--scope", "read", "--scope", "write")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def lambo(
    folder: Path, *words: str, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAMBO, *words],
        cwd=folder,
        env=server_environment(folder, **variables),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def made_token(folder: Path, *sessions: str, **variables: str) -> dict[str, Any]:
    patterns = [word for session in sessions for word in ("--session", session)]
    run = lambo(folder, *MAKE, *patterns, "--expires", "30d", "--json", **variables)
    assert run.returncode == 0, run.stderr
    token: dict[str, Any] = json.loads(run.stdout)
    return token


def test_command_line_works_with_tokens_as_without(tmp_path: Path) -> None:
    with serving(tmp_path, LAMBO_AUTH="tokens") as server:
        runtime = read_runtime(tmp_path / "data")
        assert runtime is not None
        refused = lambo(tmp_path, "recall", "anything")
        assert refused.returncode == 1
        assert "[unauthenticated]" in refused.stderr
        token = made_token(tmp_path, "shop-*", "default")
        secret = token["token"]
        derive = ("derive", "--content", "tokens expire", "--kind", "logic")
        assert lambo(tmp_path, *derive, LAMBO_TOKEN=secret).returncode == 0
        found = lambo(tmp_path, "recall", "tokens", "--token", secret)
        assert "tokens expire [Logic, by ci]" in found.stdout
        posing = lambo(tmp_path, "--agent", "ann", *derive, LAMBO_TOKEN=secret)
        assert "[forbidden]" in posing.stderr
        foreign = lambo(tmp_path, "--session", "other", "stats", LAMBO_TOKEN=secret)
        assert "[session_not_found]" in foreign.stderr
        listed = lambo(tmp_path, "token", "list")
        assert token["id"] in listed.stdout
        assert secret not in listed.stdout
        assert lambo(tmp_path, "token", "revoke", token["id"], LAMBO_TOKEN=secret).returncode == 0
        again = lambo(tmp_path, "recall", "tokens", LAMBO_TOKEN=secret)
        assert "[unauthenticated]" in again.stderr
        assert server.stop().says_all_committed
        assert secret[-43:] not in server.log
        assert runtime.operator_secret not in server.log
    stored = rows(tmp_path / "data", "SELECT * FROM lambo_token")
    assert len(stored) == 1
    assert secret[-43:] not in str(stored)


def test_tokens_and_their_last_use_outlive_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, LAMBO_AUTH="tokens") as server:
        kept, revoked = made_token(tmp_path, "*"), made_token(tmp_path, "*")
        with LamboClient(server.url, token=kept["token"]) as client:
            client.stats("s")
        lambo(tmp_path, "token", "revoke", revoked["id"])
        server.stop()
    (used,) = rows(
        tmp_path / "data", "SELECT last_used_at FROM lambo_token WHERE id = ?", kept["id"]
    )
    assert used[0] is not None
    with serving(tmp_path, LAMBO_AUTH="tokens") as server:
        with LamboClient(server.url, token=kept["token"], retries=None) as client:
            assert client.stats("s")["structured"]["concept_count"] == 0
            with pytest.raises(Forbidden):
                client.retract("s", "anything")
        revoked_client = LamboClient(server.url, token=revoked["token"], retries=None)
        with revoked_client as client, pytest.raises(Unauthenticated):
            client.stats("s")


def test_bridge_shows_its_token_and_leaves_the_name_to_the_server(tmp_path: Path) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {
            "name": "lambo_derive",
            "arguments": {"concepts": [{"content": "bridges show", "concept_type": "entity"}]},
        },
    }
    messages = [INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call]
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    with serving(tmp_path, LAMBO_AUTH="tokens"):
        secret = made_token(tmp_path, "shop")["token"]
        run = lambo(tmp_path, "mcp", "--session", "shop", stdin=lines, LAMBO_TOKEN=secret)
        answers = [json.loads(line) for line in run.stdout.splitlines()]
        assert "your name is known" in answers[0]["result"]["instructions"]
        assert not answers[-1]["result"].get("isError"), answers[-1]
        without = lambo(tmp_path, "mcp", "--session", "shop", stdin=lines)
        last = json.loads(without.stdout.splitlines()[-1])["result"]
        assert last["structuredContent"]["error"]["code"] == "unauthenticated"
        agents = rows(tmp_path / "data", "SELECT DISTINCT agent_id FROM lambo_interaction")
    assert agents == [("ci",)]
    assert secret[-43:] not in run.stdout + run.stderr


@pytest.fixture
def networked(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a server for the network; one in the background is ended."""
    yield {"LAMBO_BIND": "0.0.0.0", "LAMBO_PORT": str(spare_port())}
    stop_server(tmp_path / "data")


def test_server_for_the_network_needs_a_token_first(
    tmp_path: Path, networked: dict[str, str]
) -> None:
    refused = lambo(tmp_path, "serve", **networked)
    assert refused.returncode == 2
    assert "lambo token create" in refused.stderr
    token = made_token(tmp_path, "shop", **networked)
    background = read_runtime(tmp_path / "data")
    assert background is not None
    assert background.url.startswith("http://127.0.0.1:")
    with LamboClient(background.url, retries=None) as client, pytest.raises(Unauthenticated):
        client.stats("shop")
    stop_server(tmp_path / "data")
    with serving(tmp_path, LAMBO_BIND="0.0.0.0") as server:
        with LamboClient(server.url, token=token["token"], retries=None) as client:
            client.stats("shop")
            with pytest.raises(SessionNotFound):
                client.stats("other")
        with LamboClient(server.url, retries=None) as client, pytest.raises(Unauthenticated):
            client.stats("shop")


def test_first_start_tells_the_way_in_and_the_second_does_not(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert "lambo token create" in server.log
        assert "lambo admin create" in server.log
        server.stop()
    with serving(tmp_path) as server:
        assert "lambo admin create" not in server.log


def test_first_login_is_made_before_a_server_and_beside_one(tmp_path: Path) -> None:
    make = ("admin", "create", "--password-stdin", "--username")
    weak = lambo(tmp_path, *make, "olga", stdin="1234\n")
    assert weak.returncode == 1
    assert "too short" in weak.stderr
    made = lambo(tmp_path, *make, "olga", stdin="correct horse battery\n")
    assert made.returncode == 0, made.stderr
    assert "olga" in made.stdout
    with serving(tmp_path):
        beside = lambo(tmp_path, *make, "hugo", stdin="a staple nobody guesses\n")
        assert beside.returncode == 0, beside.stderr
        twice = lambo(tmp_path, *make, "olga", stdin="correct horse battery\n")
        assert "there is a login 'olga' already" in twice.stderr
    nobody = lambo(tmp_path, "admin", "create", "--username", "x")
    assert "--password-stdin" in nobody.stderr
    with closing(sqlite3.connect(tmp_path / "data" / "django.sqlite3")) as database:
        users = database.execute(
            "SELECT username, is_superuser, password FROM auth_user ORDER BY username"
        ).fetchall()
    assert [(name, flag) for name, flag, _ in users] == [("hugo", 1), ("olga", 1)]
    assert "horse" not in str(users)


def test_token_of_a_client_does_not_reach_the_server_it_starts(tmp_path: Path) -> None:
    try:
        run = lambo(
            tmp_path,
            *MAKE,
            "--session",
            "*",
            LAMBO_TOKEN="lambo_of_the_client",
            LAMBO_PORT=str(spare_port()),
        )
        assert run.returncode == 0, run.stderr
        runtime = read_runtime(tmp_path / "data")
        assert runtime is not None
        environ = Path(f"/proc/{runtime.pid}/environ").read_bytes()
        assert b"LAMBO_DATA_DIR" in environ
        assert b"LAMBO_TOKEN" not in environ
    finally:
        stop_server(tmp_path / "data")


def test_unknown_act_of_admin_is_told() -> None:
    run = subprocess.run(
        [*LAMBO, "admin"], env=child_environment(), capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "ACT" in run.stderr
