"""The hooks of clients: what an event says is about to be done, and a decision in its own words.

Owns the form of each client's hook. Decides nothing, and reads of an event no more than the words
that name what is touched. A decision to allow is never given as one: it would take the place of
the client's own question to its user.
"""

from __future__ import annotations

import json
import os.path
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from memory.cli.identity import machine_id
from memory.cli.verb import UsageError
from memory.engine.limits import LIMIT_TEXT_BYTES

EVENT_CHARS_MAX: Final = 8_000_000
CLAUDE_CODE: Final = "claude-code"
CLAUDE_CODE_EVENT: Final = "PreToolUse"
CLAUDE_CODE_TOOLS: Final = "Bash|Edit|MultiEdit|Write|NotebookEdit|mcp__.*"
"""The tools of Claude Code that may change something."""

_OWN_TOOLS: Final = "mcp__lambo__"
_VERB_BY_FILE_TOOL: Final = {
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "write",
    "NotebookEdit": "edit",
    "Read": "read",
}


@dataclass(frozen=True, slots=True)
class Event:
    """What is about to be done, and who does it when nobody is named."""

    action: str
    default_agent: str


@dataclass(frozen=True, slots=True)
class Hook:
    """One client's. `read_event` gives None for an event that is nobody's business."""

    read_event: Callable[[], Event | None]
    write_decision: Callable[[str, str], str]
    """(decision, text) -> what the client reads."""


def read_claude_code_event() -> Event | None:
    """The event on standard input. Raises `UsageError` for anything else."""
    try:
        event = json.loads(sys.stdin.read(EVENT_CHARS_MAX))
    except (ValueError, RecursionError) as error:  # no UTF-8, or no JSON
        raise UsageError("standard input holds no event of a hook") from error
    if not isinstance(event, dict) or not isinstance(event.get("tool_input"), dict):
        raise UsageError("standard input holds no event of a tool that is about to be used")
    tool = str(event.get("tool_name", ""))
    if tool.startswith(_OWN_TOOLS):
        return None
    action = shortened(action_of(tool, event["tool_input"], cwd=str(event.get("cwd", ""))))
    # The bridge speaks for the same one: the client's name and this machine.
    return Event(action, f"{CLAUDE_CODE}-{machine_id()}") if action else None


def write_claude_code_decision(decision: str, text: str) -> str:
    """A refusal with its reason, or words for the agent to weigh, or nothing."""
    told: dict[str, str] = {"hookEventName": CLAUDE_CODE_EVENT}
    if decision == "block":
        told |= {"permissionDecision": "deny", "permissionDecisionReason": f"lambo {text}"}
    elif decision == "warn":
        told |= {"additionalContext": f"lambo {text}"}
    else:
        return "{}"
    return json.dumps({"hookSpecificOutput": told})


HOOKS: Final = {CLAUDE_CODE: Hook(read_claude_code_event, write_claude_code_decision)}


def action_of(tool: str, given: Mapping[str, Any], *, cwd: str) -> str:
    """What a tool is about to do, in words: of a file its path alone, never what goes into it."""
    verb = _VERB_BY_FILE_TOOL.get(tool)
    path = given.get("file_path", given.get("notebook_path"))
    if verb is not None and isinstance(path, str):
        return f"{verb} {_within(path, cwd)}"
    if tool == "Bash":
        parts = [given.get("command"), given.get("description")]
        return "\n".join(part for part in parts if isinstance(part, str))
    return " ".join([tool.removeprefix("mcp__"), *_texts(given)])


def shortened(action: str) -> str:
    """As much of an action as a server takes, without characters that it refuses."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else " " for c in action)
    data = shown.encode(errors="replace")[:LIMIT_TEXT_BYTES]
    return data.decode(errors="ignore").strip()


def _within(path: str, cwd: str) -> str:
    """A path as seen from the working folder: the folders above it name no concept."""
    inner = os.path.relpath(path, cwd) if cwd and os.path.isabs(path) else path
    return path if inner.startswith("..") else inner


def _texts(value: Any) -> Iterator[str]:
    """Every text inside a tool's input."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
