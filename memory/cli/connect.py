"""`lambo connect`: set an MCP client up for this memory, in one step, and take it back.

Owns the order: plan every file, prove by a handshake that the command answers, then write. Where a
plan or the handshake fails nothing was written. Which files, and in which form, is `client_files`';
how they are changed and brought back is `file_changes`'.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory.cli.client_files import (
    CLIENTS,
    GENERIC,
    Addition,
    Client,
    Command,
    Form,
    Places,
    Scope,
    additions,
    hook_addition,
)
from memory.cli.connection import find_data_dir, server_environment
from memory.cli.guard_hook import CLAUDE_CODE
from memory.cli.verb import Invocation, UsageError, Verb, show_text

if TYPE_CHECKING:
    from memory.cli.file_changes import Change, Ledger
    from memory.cli.handshake import Greeted
    from memory.client import Answer

PROGRAM: Final = "lambo"
PRINTED: Final = "printed"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "client", metavar="CLIENT", choices=[*CLIENTS, GENERIC], help=", ".join([*CLIENTS, GENERIC])
    )
    parser.add_argument(
        "--scope",
        metavar="SCOPE",
        choices=[str(scope) for scope in Scope],
        help="project (the files of this folder, the default) or user (your own)",
    )
    parser.add_argument("--print", action="store_true", help="only show what would be written")
    parser.add_argument("--undo", action="store_true", help="take back what was written")
    parser.add_argument(
        "--hook",
        action="store_true",
        help=f"also ask `lambo guard` before every tool that changes something ({CLAUDE_CODE})",
    )
    parser.add_argument(
        "--replace", action="store_true", help="take the place of an entry somebody else wrote"
    )
    parser.add_argument(
        "--no-verify", action="store_true", help="do not start the command to see that it answers"
    )


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    _refuse_what_makes_no_sense(arguments)
    scope = Scope(arguments.scope or Scope.PROJECT)
    places = Places(Path.cwd(), Path.home(), os.environ, sys.platform)
    words = ["--session", invocation.session]
    if (agent := getattr(arguments, "agent", None)) is not None:
        words += ["--agent", agent]
    command = Command((*find_program(scope), "mcp", *words), _variables(arguments, os.environ))
    wanted = _wanted(arguments, places, scope, command, words)
    if arguments.print or arguments.client == GENERIC:
        return _shown(arguments, scope, wanted)
    from memory.cli.file_changes import Ledger

    ledger = Ledger(places.variable("XDG_STATE_HOME", places.home / ".local" / "state") / "lambo")
    if arguments.undo:
        return _undo(arguments, scope, wanted, ledger)
    return _connect(arguments, scope, wanted, ledger, command)


def _refuse_what_makes_no_sense(arguments: Namespace) -> None:
    for option in ("url", "token"):
        if hasattr(arguments, option):
            raise UsageError(
                f"--{option} means nothing to connect: a client is given the command that finds "
                "the server of a data folder"
            )
    if arguments.print and arguments.undo:
        raise UsageError("say either --print or --undo")
    if arguments.hook and arguments.client != CLAUDE_CODE:
        raise UsageError(f"--hook is for {CLAUDE_CODE}: of the others none has such a hook")
    if arguments.undo and arguments.client == GENERIC:
        raise UsageError(f"for {GENERIC} nothing is written, so there is nothing to take back")


# -- what is wanted --------------------------------------------------------------------------------


def find_program(scope: Scope) -> tuple[str, ...]:
    """The words that start this program from wherever a client stands.

    The files of a project are shared, so its own name stands there where that means this program.
    """
    own = Path(sys.executable).with_name(PROGRAM)
    found = shutil.which(PROGRAM)
    if scope is Scope.PROJECT and found is not None and Path(found).resolve() == own.resolve():
        return (PROGRAM,)
    if own.exists():
        return (str(own),)
    return (sys.executable, "-P", "-m", "memory.cli.main")


def _variables(arguments: Namespace, environ: Mapping[str, str]) -> dict[str, str]:
    """What the command is told, in full: a client may start it in any folder."""
    told = {"LAMBO_DATA_DIR": str(find_data_dir(arguments, environ))}
    config = server_environment(arguments, environ).get("LAMBO_CONFIG") or "lambo.toml"
    if Path(config).exists():
        told["LAMBO_CONFIG"] = str(Path(config).resolve())
    return told


def _wanted(
    arguments: Namespace, places: Places, scope: Scope, command: Command, words: list[str]
) -> list[Addition]:
    client = CLIENTS.get(arguments.client, CLIENTS["cursor"])
    found = additions(client, command, places, scope)
    if arguments.client == CLAUDE_CODE and (arguments.hook or arguments.undo):
        guard = ["guard", "--hook", CLAUDE_CODE, *words]
        guard += ["--data-dir", command.env["LAMBO_DATA_DIR"]]
        line = shlex.join([*find_program(scope), *guard])
        found.append(hook_addition(line, places, scope))
    return found


# -- the three ways --------------------------------------------------------------------------------


def _connect(
    arguments: Namespace, scope: Scope, wanted: list[Addition], ledger: Ledger, command: Command
) -> Answer:
    from memory.cli.file_changes import UNCHANGED, apply_addition, plan_addition
    from memory.cli.handshake import shake_hands

    changes = [plan_addition(one, ledger, replaces=arguments.replace) for one in wanted]
    greeted = None
    if not arguments.no_verify:
        greeted = shake_hands(command.words, command.env, folder=Path.cwd())
    for change in changes:
        apply_addition(change, ledger)
    files = [
        _told(change, str(ledger.path_of(change.path)) if change.did != UNCHANGED else None)
        for change in changes
    ]
    lines = [f"{one['did']:<10} {one['path']}" for one in files]
    title = _client(arguments).title
    if greeted is not None:
        lines.append(
            f"{title} will be answered by {greeted.server} {greeted.version}: "
            f"{len(greeted.tools)} tools"
        )
    lines.append(f"take it back with: lambo connect {arguments.client} --scope {scope} --undo")
    return _answer(lines, arguments, scope, files, greeted)


def _undo(arguments: Namespace, scope: Scope, wanted: list[Addition], ledger: Ledger) -> Answer:
    from memory.cli.file_changes import KEPT, apply_removal, plan_removal

    changes = [plan_removal(one, ledger) for one in wanted]
    # The last one first: its folder may stand in one that was made for an earlier one.
    for change in reversed(changes):
        apply_removal(change, ledger)
    files = [_told(change, None) for change in changes]
    warnings = [
        f"{change.path} was changed since, where it was written to; it was left as it is"
        for change in changes
        if change.did == KEPT
    ]
    lines = [f"{one['did']:<10} {one['path']}" for one in files]
    return _answer(lines, arguments, scope, files, None, warnings)


def _shown(arguments: Namespace, scope: Scope, wanted: list[Addition]) -> Answer:
    lines: list[str] = []
    for one in wanted:
        where = "" if arguments.client == GENERIC else f" {one.path}"
        lines += [f"# {_name_of(one)}{where}", "", _fragment(one).rstrip("\n"), ""]
    files = [{"path": str(one.path), "did": PRINTED, "backup": None} for one in wanted]
    if arguments.client == GENERIC:
        files = []
    return _answer(lines[:-1], arguments, scope, files, None)


def _name_of(addition: Addition) -> str:
    if addition.form is Form.TEXT:
        return "the skill"
    return "the hook" if addition.is_item else "the server"


def _fragment(addition: Addition) -> str:
    """An addition as it would stand in a file of its own."""
    if addition.form is Form.TEXT:
        return str(addition.value)
    if addition.form is Form.TOML:
        from memory.cli import commented_toml

        return commented_toml.put("", addition.place, addition.value)
    value: Any = [addition.value] if addition.is_item else addition.value
    for key in reversed(addition.place):
        value = {key: value}
    return json.dumps(value, ensure_ascii=False, indent=2)


# -- the answer ------------------------------------------------------------------------------------


def _client(arguments: Namespace) -> Client:
    client: Client = CLIENTS[arguments.client]
    return client


def _told(change: Change, backup: str | None) -> dict[str, Any]:
    return {"path": str(change.path), "did": change.did, "backup": backup}


def _answer(
    lines: list[str],
    arguments: Namespace,
    scope: Scope,
    files: list[dict[str, Any]],
    greeted: Greeted | None,
    warnings: list[str] | None = None,
) -> Answer:
    structured = {
        "client": arguments.client,
        "scope": str(scope),
        "files": files,
        "verified": greeted is not None,
        "tools": [] if greeted is None else list(greeted.tools),
        "shown": "\n".join(lines),
        "warnings": warnings or [],
    }
    return {
        "text": structured["shown"],
        "structured": structured,
        "warnings": structured["warnings"],
        "idempotency_key": None,
        "replayed": False,
    }


VERB: Final = Verb(
    name="connect",
    summary="Set an MCP client up for this memory, or take that back.",
    example="lambo connect claude-code --session shop --hook",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
    note="Starts the command once to see that it answers; that starts a server if there is none.",
)
