"""Stopped, damaged, killed, moved: what a server finds when it starts, and what it makes of it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from memory.data_folder import DataFolder, read_runtime
from serving import HttpClient, RunningServer, count, rows, server_environment, serving
from source_tree import PACKAGES, ROOT

SESSION = "again"
LAMBO = (sys.executable, "-P", "-m", "memory.cli.main")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def damage(data_dir: Path, sql: str, *parameters: object) -> None:
    """Do to a stopped server's store what a foreign hand or a failing disk does."""
    with closing(sqlite3.connect(data_dir / "lambo.sqlite3")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        assert connection.execute(sql, parameters).rowcount == 1


DAMAGES = {
    3: ("content = x'fffe00'", "its content is"),
    5: ("concept_type = 'Rumour'", "its concept_type is 'Rumour'"),
    7: ("origin_interaction = '00000000-0000-4000-8000-000000000000'", "is no stored interaction"),
}
"""By number of the statement: what is done to its row, and what must be said of it."""


def test_damaged_rows_are_set_aside_and_reported_and_the_rest_is_served(tmp_path: Path) -> None:
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        for number in range(10):
            assert client.derive(SESSION, f"statement {number}").status == 200
        assert client.derive("untouched", "of another session").status == 200
        assert server.stop().code == 0
    ids = dict(rows(server.data_dir, "SELECT content, id FROM lambo_concept"))
    for number, (change, _) in DAMAGES.items():
        concept = ids[f"statement {number}"]
        damage(server.data_dir, f"UPDATE lambo_concept SET {change} WHERE id = ?", concept)
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.stats(SESSION)["concept_count"] == 10 - len(DAMAGES)
        for number, (_, told) in DAMAGES.items():
            concept = ids[f"statement {number}"]
            said = f"Concept '{concept}' was set aside: "
            assert [told in line for line in server.log.splitlines() if said in line] == [True]
        assert "Traceback" not in server.log
        for number in range(10):
            assert client.find(SESSION, f"statement {number}") == (number not in DAMAGES)
        assert client.find("untouched", "of another session")
        # They are kept for an operator to look at, and no longer in the way of what is written.
        kept = rows(
            server.data_dir,
            "SELECT row_id, reason FROM lambo_set_aside WHERE table_name = 'lambo_concept'",
        )
        reason_by_id = dict(kept)
        assert len(kept) == len(DAMAGES)
        for number, (_, told) in DAMAGES.items():
            assert told in reason_by_id[ids[f"statement {number}"]]
            assert client.derive(SESSION, f"statement {number}").status == 200
        assert client.stats(SESSION)["concept_count"] == 10
        assert count(server.data_dir, "concept", SESSION) == 10
        stopped = server.stop()
        assert (stopped.code, stopped.says_all_committed) == (0, True)
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.stats(SESSION)["concept_count"] == 10
        assert "set aside" not in server.log


def test_first_start_in_an_empty_folder_needs_nothing_and_keeps_its_data_beside_it(
    tmp_path: Path,
) -> None:
    """No settings at all: the documented default is ./data, and the installed code stays as it is.

    Only the port is named, since this machine may have a server of its own.
    """
    before = installed_files()
    with serving(tmp_path, LAMBO_DATA_DIR="", LAMBO_CONFIG="") as server:
        assert not (tmp_path / "lambo.toml").exists()
        with HttpClient(server.url) as client:
            assert client.derive(SESSION, "kept where I was started").status == 200
        names = {path.name for path in server.data_dir.iterdir()}
        assert {"lambo.sqlite3", "django.sqlite3", "node-id", "runtime.json"} <= names
        assert server.data_dir.stat().st_mode & 0o077 == 0
        server.stop()
    assert installed_files() == before
    # An upgrade replaces the code; what it finds in the folder is all it needs.
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        assert client.find(SESSION, "kept where I was started")


def installed_files() -> set[Path]:
    return {
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if "__pycache__" not in path.parts
    }


def test_runtime_file_of_a_killed_server_misleads_nobody(folder: Path) -> None:
    with serving(folder) as killed, HttpClient(killed.url) as client:
        assert client.derive(SESSION, "before the kill").status == 200
        killed.kill()
    token_before = lease_token(killed)
    stale = json.loads(DataFolder(killed.data_dir).runtime_path.read_bytes())
    assert stale["url"] == killed.url
    assert read_runtime(killed.data_dir) is None
    with serving(folder) as server, HttpClient(server.url) as client:
        runtime = read_runtime(server.data_dir)
        assert runtime is not None
        assert (runtime.pid, runtime.url) == (server.pid, server.url)
        assert runtime.node_id == stale["node_id"]
        assert runtime.operator_secret != stale["operator_secret"]
        # Its sessions are its own again at once, without waiting for a lease to end.
        assert client.derive(SESSION, "after the kill").status == 200
        assert client.stats(SESSION)["concept_count"] == 2
        assert lease_token(server) > token_before


def lease_token(server: RunningServer) -> int:
    ((token,),) = rows(server.data_dir, "SELECT token FROM lambo_lease")
    return int(token)


# -- every way in, every way out ---------------------------------------------------------------

Write = Callable[[RunningServer, str], Awaitable[None]]
Read = Callable[[RunningServer, list[str]], Awaitable[list[str]]]
"""Gives the content of the first hit for each question."""


async def write_over_http(server: RunningServer, content: str) -> None:
    with HttpClient(server.url) as client:
        assert client.derive(SESSION, content).status == 200


async def read_over_http(server: RunningServer, queries: list[str]) -> list[str]:
    with HttpClient(server.url) as client:
        return [first_hit(client.recall(SESSION, query)) for query in queries]


async def write_over_mcp_http(server: RunningServer, content: str) -> None:
    async with Client(f"{server.url}/mcp/{SESSION}") as client:
        await write_with(client, content)


async def read_over_mcp_http(server: RunningServer, queries: list[str]) -> list[str]:
    async with Client(f"{server.url}/mcp/{SESSION}") as client:
        return await read_with(client, queries)


def bridge(server: RunningServer) -> Any:
    words = [*LAMBO[1:], "mcp", "--session", SESSION, "--agent", "bridged"]
    folder = server.data_dir.parent
    return stdio_client(
        StdioServerParameters(
            command=LAMBO[0], args=words, env=server_environment(folder), cwd=folder
        )
    )


async def write_over_mcp_stdio(server: RunningServer, content: str) -> None:
    async with Client(bridge(server)) as client:
        await write_with(client, content)


async def read_over_mcp_stdio(server: RunningServer, queries: list[str]) -> list[str]:
    async with Client(bridge(server)) as client:
        return await read_with(client, queries)


async def write_with(client: Client, content: str) -> None:
    concepts = [{"content": content, "concept_type": "entity"}]
    result = await client.call_tool("lambo_derive", {"agent_id": "a", "concepts": concepts})
    assert not result.is_error, result


async def read_with(client: Client, queries: list[str]) -> list[str]:
    found = []
    for query in queries:
        result = await client.call_tool("lambo_recall", {"agent_id": "a", "query": query})
        assert not result.is_error, result
        found.append(first_hit(result.structured_content))
    return found


async def write_on_the_command_line(server: RunningServer, content: str) -> None:
    run_command(server, "derive", "--concept", f"{content}:entity")


async def read_on_the_command_line(server: RunningServer, queries: list[str]) -> list[str]:
    return [first_hit(json.loads(run_command(server, "recall", q, "--json"))) for q in queries]


def run_command(server: RunningServer, *words: str) -> str:
    run = subprocess.run(
        [*LAMBO, *words, "--session", SESSION],
        cwd=server.data_dir.parent,
        env=server_environment(server.data_dir.parent),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def first_hit(reply: Any) -> str:
    return str(reply["hits"][0]["content"])


WAYS: dict[str, tuple[Write, Read]] = {
    "http": (write_over_http, read_over_http),
    "mcphttp": (write_over_mcp_http, read_over_mcp_http),
    "mcpstdio": (write_over_mcp_stdio, read_over_mcp_stdio),
    "shell": (write_on_the_command_line, read_on_the_command_line),
}


async def test_what_is_written_one_way_is_read_every_way_before_and_after_a_restart(
    folder: Path,
) -> None:
    with serving(folder) as server:
        for way, (write, _) in WAYS.items():
            await write(server, f"written by {way}")
        await check_every_way(server)
        assert server.stop().code == 0
    with serving(folder) as server:
        await check_every_way(server)
        assert "Traceback" not in server.log


async def check_every_way(server: RunningServer) -> None:
    written = [f"written by {way}" for way in WAYS]
    for way, (_, read) in WAYS.items():
        assert await read(server, written) == written, f"read by {way}"
    assert count(server.data_dir, "concept", SESSION) == len(WAYS)
