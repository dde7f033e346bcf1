"""Taken out, killed, brought back, erased: a real server on its files, asked on all surfaces."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.sync.client import connect

from memory.client import LamboClient, SessionEvent
from memory.data_folder import read_runtime
from serving import HttpClient, RunningServer, server_environment, serving

SESSION = "shop"
WORD = "xylophonist"
TEXT = f"the {WORD} keeps the keys"
LAMBO = (sys.executable, "-P", "-m", "memory.cli.main")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def lambo(server: RunningServer, *words: str) -> str:
    """What the command line prints, all of it."""
    ran = subprocess.run(
        [*LAMBO, "--data-dir", str(server.data_dir), "--session", SESSION, *words],
        env=server_environment(server.data_dir.parent),
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{ran.stdout}{ran.stderr}"


def operate(server: RunningServer, verb: str, **arguments: Any) -> dict[str, Any]:
    """An act of a person, with the secret of the data folder; as the command line does it."""
    runtime = read_runtime(server.data_dir)
    assert runtime is not None
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as asking:
        headers = {"Lambo-Operator": runtime.operator_secret, "Lambo-User": "olga"}
        path = f"/api/v1/sessions/{SESSION}/{verb}"
        if arguments:
            asking.request("POST", path, json.dumps(arguments), headers)
        else:
            asking.request("GET", path, headers=headers)
        with asking.getresponse() as response:
            body: dict[str, Any] = json.loads(response.read())
            assert response.status == 200, body
            return body


def told_on_all_surfaces(server: RunningServer, client: HttpClient) -> str:
    """Everything that an agent or an operator can be told about the word."""
    told: list[Any] = []
    for query in (WORD, "who keeps keys", f"what depends on {TEXT}"):
        told.append(client.recall(SESSION, query, top_k=100, max_tokens=10_000))
        told.append(
            client.call(
                "POST",
                f"/mcp/{SESSION}",
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "lambo_recall", "arguments": {"query": query}},
                },
            ).body
        )
        told.append(lambo(server, "recall", query))
    for focus in (TEXT, "guard"):
        body = {"agent_id": "reader", "focus": focus, "depth": 3}
        answer = client.call("POST", f"/api/v1/sessions/{SESSION}/inspect", body)
        # A refusal repeats what was asked for, and nothing else.
        assert answer.status == 200 or answer.code == "concept_not_found"
        told.append(answer.body if answer.status == 200 else None)
    told.append(client.stats(SESSION))
    told.append(client.receipt(SESSION, "first").body)
    told.append(lambo(server, "saints"))
    told += replayed_events(server, client)
    return str(told)


def replayed_events(server: RunningServer, client: HttpClient) -> list[Any]:
    """What happened, from the first event on: a page, the command line, and both streams."""
    page = client.call("GET", f"/api/v1/sessions/{SESSION}/events?since=0")
    assert page.status == 200
    newest = page.body["newest"]
    streamed = []
    with LamboClient(server.url) as following:
        for one in following.follow_events(SESSION, since=0):
            streamed.append(one)
            if isinstance(one, SessionEvent) and one.id >= newest:
                break
    address = f"{server.url.replace('http', 'ws', 1)}/ws/v1/sessions/{SESSION}/events?since=0"
    with connect(address) as socket:
        sent = [json.loads(socket.recv(timeout=60))]
        while sent[-1].get("id") != newest:
            sent.append(json.loads(socket.recv(timeout=60)))
    return [page.body, lambo(server, "events", "--since", "0"), streamed, sent]


def files_with(folder: Path, text: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"lambo.sqlite3"}
    return sorted(str(path) for path in files if text.encode() in path.read_bytes())


def write(client: HttpClient) -> None:
    assert client.derive(SESSION, TEXT, "guard", key="first").status == 200
    body = {"agent_id": "agent", "action": "locked the door", "depends_on": [TEXT]}
    assert client.call("POST", f"/api/v1/sessions/{SESSION}/record-action", body).status == 200


def test_retracted_is_gone_everywhere_and_comes_back_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path, LAMBO_EMBEDDER="fixture") as server, HttpClient(server.url) as client:
        write(client)
        assert WORD in told_on_all_surfaces(server, client)
        gone = operate(server, "retract", concept=TEXT, reason="out of date")
        assert WORD not in told_on_all_surfaces(server, client)
        assert gone["target"] in str(replayed_events(server, client))
        server.kill()
    with serving(tmp_path, LAMBO_EMBEDDER="fixture") as server, HttpClient(server.url) as client:
        assert WORD not in told_on_all_surfaces(server, client)
        (row,) = operate(server, "disappearances")["disappearances"]
        assert (row["node_id"], row["actor"]) == (gone["target"], "olga")
        back = operate(server, "restore", id=row["audit_id"])
        assert (back["node_id"], back["lost_edges"]) == (gone["target"], [])
        server.kill()
    with serving(tmp_path, LAMBO_EMBEDDER="fixture") as server, HttpClient(server.url) as client:
        assert WORD in told_on_all_surfaces(server, client)


def test_a_purged_text_is_in_no_answer_and_no_file_of_the_folder(tmp_path: Path) -> None:
    with serving(tmp_path, LAMBO_EMBEDDER="fixture") as server, HttpClient(server.url) as client:
        write(client)
        node = operate(server, "retract", concept=TEXT)["target"]
        assert files_with(tmp_path, WORD)
        told = operate(server, "purge", concept=node, confirm=node)
        assert (told["purged"], told["pending"], told["still_in_count"]) == (True, False, 0)
        assert files_with(tmp_path, WORD) == []
        assert WORD not in told_on_all_surfaces(server, client)
        assert WORD not in str(operate(server, "disappearances"))
        server.kill()
        assert files_with(tmp_path, WORD) == []
    with serving(tmp_path, LAMBO_EMBEDDER="fixture") as server, HttpClient(server.url) as client:
        assert WORD not in told_on_all_surfaces(server, client)
        assert server.stop().code == 0
    assert files_with(tmp_path, WORD) == []
