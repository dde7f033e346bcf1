"""The examples of README.md, docs/http-api.md and docs/mcp-tools.md run and answer as written.

A block marked `sh` is run by a shell, all blocks of a page in one, on a server of their own. A
`json` block that follows holds fields of the answer, a `text` block lines of it. What differs in
every run (ids, times) is compared as such.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from children import DEFAULT_EMBEDDER
from serving import RunningServer, server_environment, serving
from source_tree import ROOT

pytestmark = pytest.mark.slow

PUBLISHED_URL = "http://127.0.0.1:7700"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

STAND_IN = r"""
import argparse, http.client, sys
from urllib.parse import urlsplit

options = argparse.ArgumentParser(prog="curl", allow_abbrev=False)
options.add_argument("-s", action="store_true")
options.add_argument("-i", action="store_true")
options.add_argument("-X")
options.add_argument("-H", action="append", default=[])
options.add_argument("-d")
options.add_argument("url")
given = options.parse_args()
url = urlsplit(given.url)
headers = dict(line.split(": ", 1) for line in given.H)
if given.d is not None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"} | headers
connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
connection.request(
    given.X or ("GET" if given.d is None else "POST"),
    url.path + (f"?{url.query}" if url.query else ""),
    None if given.d is None else given.d.replace("\n", "").encode(),
    headers,
)
answer = connection.getresponse()
if given.i:
    print(f"HTTP/1.1 {answer.status}")
    print("".join(f"{name}: {value}\n" for name, value in answer.getheaders()))
print(answer.read().decode())
print(f"status {answer.status}", file=sys.stderr)
"""
"""curl as far as the examples use it: not every machine has one. Newlines of -d are dropped."""


@dataclass(frozen=True)
class Example:
    """One `sh` block, what the page says that it answers, and what it did answer."""

    command: str
    kind: str
    documented: str
    answered: str
    statuses: tuple[int, ...]


def examples_of(page: str) -> list[tuple[str, str, str]]:
    """The `sh` blocks of a page: command, and kind and text of the block that shows the answer."""
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    found = []
    for place, (kind, text) in enumerate(blocks):
        if kind == "sh":
            shown = blocks[place + 1] if place + 1 < len(blocks) else ("", "")
            found.append((text, *(shown if shown[0] in ("json", "text") else ("", ""))))
    return found


def run_page(page: str, server: RunningServer, folder: Path) -> list[Example]:
    """Run the blocks of a page in order; one shell, so that a later block sees its variables."""
    found = examples_of(page)
    script = ["set -eu", 'curl() { "$PYTHON" -I -S -c "$STAND_IN" "$@"; }']
    for command, *_ in found:
        script += [command.replace(PUBLISHED_URL, server.url), "echo '<end>'", "echo '<end>' >&2"]
    lambo = folder / ".venv" / "bin" / "lambo"
    lambo.parent.mkdir(parents=True, exist_ok=True)
    lambo.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m memory.cli.main "$@"\n')
    lambo.chmod(0o755)
    env = server_environment(folder, PYTHON=sys.executable, STAND_IN=STAND_IN)
    run = subprocess.run(
        ["/bin/sh"], input="\n".join(script), cwd=folder, env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    outs, errs = run.stdout.split("<end>\n")[:-1], run.stderr.split("<end>\n")[:-1]
    return [
        Example(
            command, kind, shown, out, tuple(map(int, re.findall(r"^status (\d+)$", err, re.M)))
        )
        for (command, kind, shown), out, err in zip(found, outs, errs, strict=True)
    ]


def alike(value: Any) -> Any:
    """A value with ids, times and digits of scores replaced by what they are."""
    if isinstance(value, dict):
        return {name: alike(item) for name, item in value.items()}
    if isinstance(value, list):
        return [alike(item) for item in value]
    if isinstance(value, float):
        return round(value, 2)
    if not isinstance(value, str):
        return value
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", value)
    text = re.sub(r"\d+ seconds ago", "<age>", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)


def check_answer(example: Example) -> None:
    """The answer holds what the page shows of it."""
    if example.kind == "json":
        documented, answered = json.loads(example.documented), json.loads(example.answered)
        assert {name: alike(answered.get(name)) for name in documented} == alike(documented)
    elif example.kind == "text":
        lines = example.answered.splitlines()
        if lines[-1].startswith("{"):
            lines += json.loads(lines[-1])["text"].splitlines()
        for documented in example.documented.splitlines():
            assert any(is_alike(documented, line) for line in lines), (documented, lines)


SCORE = re.compile(r"\(score (\d\.\d\d)\)")
SCORE_SLACK = 0.03
"""Processors multiply 8-bit numbers in different ways, and a model's cosines follow in the second
digit."""


def is_alike(documented: str, answered: str) -> bool:
    """Whether two lines say the same, each with its own ids, times and digits of scores.

    Which way a link by meaning points follows from the ids of its ends.
    """
    one, other = (alike(SCORE.sub("", line)) for line in (documented, answered))
    if one.replace(" <- ", " -> ") != other.replace(" <- ", " -> "):
        return False
    pairs = zip(SCORE.findall(documented), SCORE.findall(answered), strict=True)
    return all(abs(float(one) - float(other)) <= SCORE_SLACK for one, other in pairs)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Path]]:
    folder = tmp_path_factory.mktemp("examples")
    with serving(folder, **DEFAULT_EMBEDDER) as running:
        yield running, folder


@pytest.mark.parametrize("page", ["README.md", "docs/http-api.md"])
def test_examples_of_the_page_run_and_answer_as_written(
    page: str, server: tuple[RunningServer, Path]
) -> None:
    examples = run_page(page, *server)
    assert len(examples) >= 2
    for example in examples:
        check_answer(example)
        assert len(example.statuses) == len(
            re.findall(r"^(?:\w+=\$\()?curl ", example.command, re.M)
        )
        is_failure = '"error": {' in example.documented
        assert all((status == 200) != is_failure for status in example.statuses), example


def test_calls_of_the_tools_answer_as_written(server: tuple[RunningServer, Path]) -> None:
    """Arguments and answers stand in pairs of blocks, one for each tool."""
    page = (ROOT / "docs" / "mcp-tools.md").read_text(encoding="utf-8")
    called = []
    for title, section in re.findall(r"^### (lambo_\w+)\n(.*?)(?=^##|\Z)", page, re.M | re.S):
        blocks = BLOCK.findall(section)
        for (_, arguments), (_, answer) in zip(blocks[::2], blocks[1::2], strict=True):
            result = call_tool(server[0].url, title, json.loads(arguments))
            assert result["isError"] is False, result
            told = "\n".join(block["text"] for block in result["content"])
            assert alike(told) == alike(answer.rstrip("\n"))
            called.append(title)
    assert len(set(called)) == 7


def call_tool(url: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One call in the session `shelf`, as a client of streamable HTTP makes it."""
    params = {"name": name, "arguments": arguments}
    answer = httpx.post(
        f"{url}/mcp/shelf",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={"Accept": "application/json, text/event-stream"},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result
