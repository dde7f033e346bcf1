"""`lambo connect`: every client's files are merged, left alone when broken, and brought back."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, Ran
from mcp_bridge.tools import tool_specs
from memory.cli.agent_skill import SKILL
from memory.cli.client_files import CLIENTS
from memory.verbs import VERBS

JSON_WITH_COMMENTS = """\
{
  // who else is here
  "%s": {
    "github": {"command": "gh-mcp", "args": ["--read"]}, // keep
  },
  "unknown": {"nested": [1, 2, {"x": null}]},
}
"""
TOML_WITH_COMMENTS = """\
# mine
model = "o" # fast

[mcp_servers.github] # keep
command = "gh-mcp"

[tui]
theme = "dark"
"""

SAMPLES: dict[str, dict[str, tuple[str, str]]] = {
    "claude-code": {
        "project": (".mcp.json", JSON_WITH_COMMENTS % "mcpServers"),
        "user": (".claude.json", '{"numStartups": 4, "mcpServers": {}, "oauth": {"t": "secret"}}'),
    },
    "cursor": {
        "project": (".cursor/mcp.json", '{"mcpServers": {"github": {"url": "https://x.y/z"}}}'),
        "user": (".cursor/mcp.json", "{}\n"),
    },
    "vscode": {
        "project": (".vscode/mcp.json", JSON_WITH_COMMENTS % "servers"),
        "user": (".config/Code/User/mcp.json", '{\n\t"servers": {},\n\t"inputs": []\n}\n'),
    },
    "codex": {
        "project": (".codex/config.toml", TOML_WITH_COMMENTS),
        "user": (".codex/config.toml", "# nothing yet\n"),
    },
    "opencode": {
        "project": ("opencode.jsonc", JSON_WITH_COMMENTS % "mcp"),
        "user": (
            ".config/opencode/opencode.json",
            '{\r\n  "$schema": "https://opencode.ai/config.json",\r\n  "theme": "x"\r\n}\r\n',
        ),
    },
}
"""By client and scope: a file as people keep it, and where it is."""
CASES = [(client, scope) for client, scopes in SAMPLES.items() for scope in scopes]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder to stand in; the user's own is beside it."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    return folder


def sample(project: Path, client: str, scope: str) -> Path:
    """Write the sample of a client; gives its path."""
    name, text = SAMPLES[client][scope]
    path = (project if scope == "project" else project.parent / "home") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def read(path: Path) -> Any:
    """What a client's parser sees: comments and trailing commas dropped."""
    from memory.cli.commented_json import read as read_json

    text = path.read_bytes().decode()
    return tomllib.loads(text) if path.suffix == ".toml" else read_json(text)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for the record of changes; and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"/"
        for path in sorted(folder.rglob("*"))
        if ".local" not in path.parts
    }


@pytest.fixture
def connect(lambo: CommandLine) -> Callable[..., Ran]:
    def run(*words: str) -> Ran:
        return lambo("connect", *words, "--no-verify")

    return run


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_entry_is_merged_and_nothing_lost(
    client: str, scope: str, project: Path, lambo: CommandLine, connect: Callable[..., Ran]
) -> None:
    path = sample(project, client, scope)
    before, lines = read(path), path.read_text().splitlines()
    assert connect(client, "--scope", scope).code == 0
    after = read(path)
    place = CLIENTS[client].place[0]
    entry = after[place].pop("lambo")
    if not after[place] and place not in before:
        del after[place]
    assert after == before
    words = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert words[1:] == ["mcp", "--session", lambo.session]
    variables = entry["environment" if client == "opencode" else "env"]
    assert variables["LAMBO_DATA_DIR"] == str(lambo.server.data_dir)
    comments = [line for line in lines if "# " in line or "// " in line]
    assert [line for line in comments if line not in path.read_text().splitlines()] == []


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_second_time_changes_nothing_and_undo_restores_every_byte(
    client: str, scope: str, project: Path, connect: Callable[..., Ran]
) -> None:
    sample(project, client, scope)
    before = snapshot(project.parent)
    connect(client, "--scope", scope)
    between = snapshot(project.parent)
    again = connect(client, "--scope", scope, "--json").json
    assert {one["did"] for one in again["files"]} == {"unchanged"}
    assert snapshot(project.parent) == between != before
    undone = connect(client, "--scope", scope, "--undo", "--json").json
    assert {one["did"] for one in undone["files"]} <= {"restored", "nothing"}
    assert snapshot(project.parent) == before
    assert {
        one["did"] for one in connect(client, "--scope", scope, "--undo", "--json").json["files"]
    } == {"nothing"}


@pytest.mark.parametrize("client", SAMPLES)
def test_where_nothing_was_undo_leaves_nothing(
    client: str, project: Path, connect: Callable[..., Ran]
) -> None:
    before = snapshot(project.parent)
    hook = ["--hook"] if client == "claude-code" else []
    made = connect(client, *hook, "--json").json
    assert {one["did"] for one in made["files"]} == {"created"}
    assert all(Path(one["path"]).exists() for one in made["files"])
    connect(client, "--undo")
    assert snapshot(project.parent) == before


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_malformed_file_is_refused_and_left_alone(
    client: str, scope: str, project: Path, connect: Callable[..., Ran]
) -> None:
    path = sample(project, client, scope)
    path.write_bytes(path.read_bytes() + b"\n<<<<<<< HEAD\n")
    before = snapshot(project.parent)
    ran = connect(client, "--scope", scope)
    assert (ran.code, ran.out) == (1, "")
    assert "[file_not_editable]" in ran.err
    assert "nothing was changed" in ran.err
    assert snapshot(project.parent) == before


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_undo_after_somebody_changed_the_file_takes_out_only_the_entry(
    client: str, scope: str, project: Path, connect: Callable[..., Ran]
) -> None:
    path = sample(project, client, scope)
    before = read(path)
    connect(client, "--scope", scope)
    mark = "# later\n" if path.suffix == ".toml" else "// later\n"
    path.write_bytes(path.read_bytes() + mark.encode())
    undone = connect(client, "--scope", scope, "--undo", "--json").json
    assert undone["files"][0]["did"] == "removed"
    place = CLIENTS[client].place[0]
    assert read(path).get(place, {}) == before.get(place, {})
    assert path.read_text().endswith(mark)


def test_entry_that_was_edited_since_is_left_with_a_warning(
    project: Path, connect: Callable[..., Ran]
) -> None:
    connect("cursor")
    path = project / ".cursor" / "mcp.json"
    path.write_text(path.read_text().replace("--session", "--agent"))
    edited = path.read_text()
    undone = connect("cursor", "--undo", "--json").json
    assert undone["files"][0]["did"] == "kept"
    assert "left as it is" in undone["warnings"][0]
    assert path.read_text() == edited


def test_entry_of_somebody_else_is_replaced_only_on_demand(
    project: Path, connect: Callable[..., Ran]
) -> None:
    path = project / ".mcp.json"
    path.write_text('{"mcpServers": {"lambo": {"command": "mine"}}}')
    theirs = path.read_text()
    refused = connect("claude-code")
    assert (refused.code, path.read_text()) == (1, theirs)
    assert "[entry_taken]" in refused.err
    assert not (project / ".claude").exists()
    assert connect("claude-code", "--replace").code == 0
    assert "mine" not in path.read_text()
    connect("claude-code", "--undo")
    assert path.read_text() == theirs


def test_other_session_takes_the_place_of_the_first_and_undo_knows_the_start(
    project: Path, connect: Callable[..., Ran]
) -> None:
    path = sample(project, "vscode", "project")
    before = snapshot(project.parent)
    connect("vscode")
    # Edited in between: what is restored is the file without what was added.
    path.write_text(path.read_text().replace("unknown", "known"))
    assert connect("vscode", "--agent", "ann").code == 0
    assert "--agent" in path.read_text()
    connect("vscode", "--undo")
    expected = {name: text.replace(b"unknown", b"known") for name, text in before.items()}
    assert snapshot(project.parent) == expected


def test_hook_stands_beside_other_hooks_and_goes_alone(
    project: Path, connect: Callable[..., Ran], lambo: CommandLine
) -> None:
    settings = project / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(
        '{"model": "x", "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}}'
    )
    before = settings.read_text()
    assert connect("claude-code").code == 0
    assert settings.read_text() == before, "the hook is put only where it is asked for"
    connect("claude-code", "--hook")
    connect("claude-code", "--hook", "--agent", "ann")
    first, hook = read(settings)["hooks"]["PreToolUse"]
    assert first == {"matcher": "Bash", "hooks": []}
    (command,) = (one["command"] for one in hook["hooks"])
    assert f"guard --hook claude-code --session {lambo.session} --agent ann --data-dir" in command
    connect("claude-code", "--undo")
    assert settings.read_text() == before


def test_links_and_modes_of_files_stay(project: Path, connect: Callable[..., Ran]) -> None:
    real = project.parent / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o600)
    link = project / ".mcp.json"
    link.symlink_to(real)
    connect("claude-code")
    assert link.is_symlink()
    assert "lambo" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_record_of_secrets_is_for_its_owner_alone(
    project: Path, connect: Callable[..., Ran]
) -> None:
    sample(project, "claude-code", "user")
    told = connect("claude-code", "--scope", "user", "--json").json
    backup = Path(told["files"][0]["backup"])
    assert json.loads(backup.read_text())["original"] == SAMPLES["claude-code"]["user"][1]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("client", [*SAMPLES, "generic"])
def test_print_shows_entry_and_skill_and_writes_nothing(
    client: str, project: Path, lambo: CommandLine
) -> None:
    before = snapshot(project.parent)
    ran = lambo("connect", client, "--print")
    assert ran.code == 0
    assert lambo.session in ran.out
    assert SKILL.strip() in ran.out
    assert snapshot(project.parent) == before


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("notepad",),
        ("cursor", "--hook"),
        ("generic", "--undo"),
        ("cursor", "--print", "--undo"),
        ("cursor", "--scope", "world"),
        ("cursor", "--url", "http://127.0.0.1:1"),
        ("cursor", "--token", "t"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    words: tuple[str, ...], project: Path, lambo: CommandLine
) -> None:
    ran = lambo("connect", *words)
    assert ran.code == 2
    assert "[usage]" in ran.err
    assert list(project.iterdir()) == []


@pytest.mark.slow
def test_command_is_proved_by_a_real_handshake(project: Path, lambo: CommandLine) -> None:
    told = lambo("connect", "cursor", "--json").json
    assert told["verified"] is True
    assert told["tools"] == [spec.name for spec in tool_specs(VERBS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("#!/bin/sh\nexit 3\n", "ended before it answered"),
        ("#!/bin/sh\necho broken >&2\nread line\n", "broken"),
        ("#!/bin/sh\nread line\necho Welcome\n", "Welcome"),
        ('#!/bin/sh\nread line\necho \'{"jsonrpc":"2.0","id":1,"error":{}}\'\n', "refuses"),
    ],
)
def test_command_that_is_no_server_is_found_out_before_anything_is_written(
    program: str, why: str, project: Path, lambo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = project.parent / "broken"
    script.write_text(program)
    script.chmod(0o755)
    monkeypatch.setattr("memory.cli.connect.find_program", lambda scope: (str(script),))
    ran = lambo("connect", "cursor")
    assert (ran.code, ran.out) == (1, "")
    assert "[handshake_failed]" in ran.err
    assert why in ran.err
    assert list(project.iterdir()) == []


def test_skill_names_tools_that_exist() -> None:
    import re

    named = set(re.findall(r"`(lambo_[a-z_]+)`", SKILL))
    assert named >= {"lambo_recall", "lambo_reserve", "lambo_record_action", "lambo_derive"}
    assert named <= {spec.name for spec in tool_specs(VERBS)}
    head = SKILL.split("---")[1]
    assert head.startswith("\nname: lambo\n")
    assert "description:" in head
