"""A server that logs for programs: every line is one object, and no secret is in any of them.

Every kind of secret is sent to every kind of door, rightly and wrongly, at the chattiest level;
then everything the server has written or answered is searched for them.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from children import child_environment
from memory.data_folder import read_runtime
from process.test_serve import SERVE, serving

pytestmark = pytest.mark.slow

PASSWORD = "correct-horse-battery-staple-9"
API_KEY = "sk-an-embedding-key-nobody-may-see"
TOOL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "lambo_recall", "arguments": {"query": "tokens"}},
}
MCP = {"Accept": "application/json, text/event-stream"}


def make_login(data: Path) -> None:
    made = subprocess.run(
        [*SERVE[:-1], "admin", "create", "--username", "olga", "--password-stdin"],
        env=child_environment({"LAMBO_DATA_DIR": str(data)}),
        input=f"{PASSWORD}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stderr


def log_in(client: httpx.Client, password: str) -> tuple[httpx.Response, str]:
    page = client.get("/admin/login/")
    form = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert form is not None
    data = {"csrfmiddlewaretoken": form[1], "username": "olga", "password": password}
    return client.post("/admin/login/", data=data), form[1]


def drive(client: httpx.Client, operator_secret: str) -> tuple[list[str], list[httpx.Response]]:
    """Send every kind of secret to every kind of door; the secrets, and what was answered."""
    operator = {"Lambo-Operator": operator_secret, "Lambo-User": "olga"}
    asked = {"name": "ann", "agent": "ann", "scopes": ["read", "write"], "sessions": ["*"]}
    token: str = client.post("/api/v1/tokens", json=asked, headers=operator).json()["token"]
    wrong = token[:-1] + ("x" if token[-1] != "x" else "y")
    derive = {"concepts": [{"content": "tokens expire", "concept_type": "logic"}]}
    answers = []
    for headers in (
        {"Authorization": f"Bearer {token}"},
        {"Authorization": f"Bearer {wrong}"},
        {"Authorization": f"Basic {token}"},
        {"Authorization": token},
        operator,
        {"Lambo-Operator": operator_secret + "x"},
        {"Lambo-Operator": operator_secret, "X-Forwarded-For": "10.0.0.1"},
        {"Cookie": f"sessionid={operator_secret}", "X-Api-Key": API_KEY},
        {"Authorization": f"Bearer {token}", "Lambo-Agent": "nobody else"},
    ):
        answers += [
            client.post("/api/v1/sessions/s/derive", json=derive, headers=headers),
            client.post("/api/v1/sessions/s/recall", content=b"{", headers=headers),
            client.post("/api/v1/sessions/s/purge", json={}, headers=headers),
            client.get("/api/v1/tokens", headers=headers),
            client.get("/api/v1/nowhere", headers=headers),
            client.post("/mcp/s", json=TOOL, headers={**MCP, **headers}),
            client.post("/mcp/s", content=b"no json", headers={**MCP, **headers}),
            client.get("/metrics", headers=headers),
            client.get("/readyz", headers=headers),
            client.get("/admin/memory/", headers=headers),
            client.get("/no-page/", headers=headers),
        ]
    # A token where a name or an address belongs.
    owned = {"Authorization": f"Bearer {token}"}
    answers.append(client.get(f"/{token}", params={"token": token}))
    answers.append(client.post("/admin/login/", data={"password": PASSWORD}))
    client.post(f"/api/v1/sessions/{token}/derive", json=derive, headers=owned)
    refused, _ = log_in(client, PASSWORD + "-wrong")
    let_in, form = log_in(client, PASSWORD)
    assert (refused.status_code, let_in.status_code) == (200, 302)
    cookie = let_in.cookies[next(name for name in let_in.cookies if "session" in name)]
    return [token, wrong, token.split("_", 2)[2], operator_secret, PASSWORD, cookie, form], answers


def test_every_line_is_one_object_and_no_secret_is_anywhere(tmp_path: Path) -> None:
    with serving(
        tmp_path,
        "--require-tokens",
        LAMBO_LOG_FORMAT="json",
        LAMBO_LOG_LEVEL="debug",
        LAMBO_CLUSTER="true",
        LAMBO_EMBEDDER_API_KEY=API_KEY,
    ) as server:
        make_login(server.folder)
        runtime = read_runtime(server.folder)
        assert runtime is not None
        with httpx.Client(base_url=runtime.url, timeout=30) as client:
            secrets, answers = drive(client, runtime.operator_secret)
        address = urlsplit(runtime.url)
        with socket.create_connection((str(address.hostname), int(address.port or 0))) as door:
            door.sendall(f"NO HTTP {secrets[0]}\r\n\r\n".encode())
            assert door.recv(64).startswith(b"HTTP/1.1 400")
        files = {
            path.name: path.read_bytes()
            for path in server.folder.rglob("*")
            if path.is_file() and path.name != "runtime.json"
        }
        server.end(signal.SIGTERM)
    assert all(answer.status_code < 500 for answer in answers)
    records = [json.loads(line) for line in server.lines]
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in records)
    assert {"lambo.server", "uvicorn.error", "django.request"} <= {r["logger"] for r in records}
    log = "\n".join(server.lines)
    secrets.append(API_KEY)
    assert [secret for secret in secrets if secret in log] == []
    told = "\n".join(f"{answer.headers} {answer.text}" for answer in answers)
    kept = [*secrets[:5], API_KEY]  # the browser's own cookie comes back to it
    assert [secret for secret in kept if secret in told] == []
    # The right token is in the name of a session here: whoever does that has published it.
    stored = [secrets[1], *secrets[3:5], API_KEY]
    assert [(n, s) for n, raw in files.items() for s in stored if s.encode() in raw] == []


def test_start_that_is_refused_says_so_as_json_too(tmp_path: Path) -> None:
    with serving(tmp_path, LAMBO_LOG_FORMAT="json"):
        run = subprocess.run(
            SERVE,
            cwd=tmp_path,
            env=child_environment(
                {"LAMBO_DATA_DIR": str(tmp_path / "data"), "LAMBO_LOG_FORMAT": "json"}
            ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    (line,) = run.stderr.splitlines()
    assert "another server runs" in json.loads(line)["message"]
    assert run.returncode == 1
