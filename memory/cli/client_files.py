"""Which files each MCP client reads, and what stands in them for this server.

Owns the table of clients: where a file is for a project and for a user, under which name it lists
servers, and the form of an entry. Reads and writes nothing; folders and variables are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from memory.cli.agent_skill import NAME, SKILL
from memory.cli.guard_hook import CLAUDE_CODE, CLAUDE_CODE_EVENT, CLAUDE_CODE_TOOLS

HOOK_SECONDS_MAX: Final = 5


class Scope(StrEnum):
    """For whom a client is set up: whoever works in one folder, or one user everywhere."""

    PROJECT = "project"
    USER = "user"


class Form(StrEnum):
    """How a file is written."""

    JSON = "json"
    TOML = "toml"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Command:
    """What a client starts: the words of the command line, and the variables set for it."""

    words: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Places:
    """Where files are: the project's folder, the user's, and the variables that move some."""

    project: Path
    home: Path
    environ: Mapping[str, str]
    platform: str

    def variable(self, name: str, default: Path) -> Path:
        given = self.environ.get(name)
        return Path(given) if given else default

    @property
    def config(self) -> Path:
        return self.variable("XDG_CONFIG_HOME", self.home / ".config")


@dataclass(frozen=True, slots=True)
class Addition:
    """One thing that is to stand in one file: a member at `place`, an item of the list there, or,
    in a text, everything. `alternatives` are other names under which the file may be there."""

    path: Path
    form: Form
    value: Any
    place: tuple[str, ...] = ()
    is_item: bool = False
    alternatives: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client. The functions take the places and the scope."""

    title: str
    form: Form
    place: tuple[str, ...]
    entry: Callable[[Command], dict[str, Any]]
    servers: Callable[[Places, Scope], Path]
    skills: Callable[[Places, Scope], Path]


def additions(client: Client, command: Command, places: Places, scope: Scope) -> list[Addition]:
    """What connects a client: its entry for this server, and the skill."""
    path = client.servers(places, scope)
    alternatives = (path.with_suffix(".jsonc"),) if path.name == "opencode.json" else ()
    value = client.entry(command)
    skill = client.skills(places, scope) / NAME / "SKILL.md"
    return [
        Addition(path, client.form, value, (*client.place, NAME), alternatives=alternatives),
        Addition(skill, Form.TEXT, SKILL),
    ]


def hook_addition(command_line: str, places: Places, scope: Scope) -> Addition:
    """The guard before the tools of Claude Code."""
    hook = {"type": "command", "command": command_line, "timeout": HOOK_SECONDS_MAX}
    return Addition(
        _claude(places, scope) / "settings.json",
        Form.JSON,
        {"matcher": CLAUDE_CODE_TOOLS, "hooks": [hook]},
        ("hooks", CLAUDE_CODE_EVENT),
        is_item=True,
    )


# -- the forms of an entry -------------------------------------------------------------------------


def _plain(command: Command) -> dict[str, Any]:
    program, *words = command.words
    return {"command": program, "args": words, "env": dict(command.env)}


def _typed(command: Command) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _opencode(command: Command) -> dict[str, Any]:
    return {
        "type": "local",
        "command": list(command.words),
        "environment": dict(command.env),
        "enabled": True,
    }


# -- where files are -------------------------------------------------------------------------------


def _claude(places: Places, scope: Scope) -> Path:
    if scope is Scope.PROJECT:
        return places.project / ".claude"
    return places.variable("CLAUDE_CONFIG_DIR", places.home / ".claude")


def _claude_servers(places: Places, scope: Scope) -> Path:
    if scope is Scope.PROJECT:
        return places.project / ".mcp.json"
    return places.variable("CLAUDE_CONFIG_DIR", places.home) / ".claude.json"


def _in_both(folder: str, *rest: str) -> Callable[[Places, Scope], Path]:
    """A path that is the same in a project and in the user's own folder."""

    def find(places: Places, scope: Scope) -> Path:
        start = places.project if scope is Scope.PROJECT else places.home
        return start.joinpath(folder, *rest)

    return find


def _vscode_servers(places: Places, scope: Scope) -> Path:
    if scope is Scope.PROJECT:
        return places.project / ".vscode" / "mcp.json"
    if places.platform == "darwin":
        return places.home / "Library" / "Application Support" / "Code" / "User" / "mcp.json"
    return places.config / "Code" / "User" / "mcp.json"


def _vscode_skills(places: Places, scope: Scope) -> Path:
    is_project = scope is Scope.PROJECT
    return (places.project / ".github" if is_project else places.home / ".copilot") / "skills"


def _codex_servers(places: Places, scope: Scope) -> Path:
    if scope is Scope.PROJECT:
        return places.project / ".codex" / "config.toml"
    return places.variable("CODEX_HOME", places.home / ".codex") / "config.toml"


def _opencode_servers(places: Places, scope: Scope) -> Path:
    start = places.project if scope is Scope.PROJECT else places.config / "opencode"
    return start / "opencode.json"


def _opencode_skills(places: Places, scope: Scope) -> Path:
    is_project = scope is Scope.PROJECT
    return (places.project / ".opencode" if is_project else places.config / "opencode") / "skills"


CLIENTS: Final[Mapping[str, Client]] = {
    CLAUDE_CODE: Client(
        title="Claude Code",
        form=Form.JSON,
        place=("mcpServers",),
        entry=_typed,
        servers=_claude_servers,
        skills=lambda places, scope: _claude(places, scope) / "skills",
    ),
    "cursor": Client(
        title="Cursor",
        form=Form.JSON,
        place=("mcpServers",),
        entry=_plain,
        servers=_in_both(".cursor", "mcp.json"),
        skills=_in_both(".cursor", "skills"),
    ),
    "vscode": Client(
        title="VS Code",
        form=Form.JSON,
        place=("servers",),
        entry=_typed,
        servers=_vscode_servers,
        skills=_vscode_skills,
    ),
    "codex": Client(
        title="Codex",
        form=Form.TOML,
        place=("mcp_servers",),
        entry=_plain,
        servers=_codex_servers,
        skills=_in_both(".agents", "skills"),
    ),
    "opencode": Client(
        title="OpenCode",
        form=Form.JSON,
        place=("mcp",),
        entry=_opencode,
        servers=_opencode_servers,
        skills=_opencode_skills,
    ),
}
"""Every client whose files are known."""

GENERIC: Final = "generic"
"""Any other one: what most of them read is printed, and nothing written."""
