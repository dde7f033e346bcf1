"""The console script `lambo`: picks the verb, runs it, prints, turns errors into exit codes.

Owns dispatch and the exit codes of every verb: 0 done, 1 it failed while running, 2 the command
line makes no sense and nothing ran. Data goes to stdout, talk to stderr. A word that is no verb is
a command of Django's management, which is imported for those alone.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from memory.cli.connection import find_token
from memory.cli.verb import (
    SESSION_DEFAULT,
    VALUE_OPTIONS,
    Invocation,
    Parser,
    UsageError,
    Verb,
    add_common_options,
)
from memory.engine.errors import LamboError
from memory.version import VERSION

if TYPE_CHECKING:
    from memory.client import Answer, LamboClient

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

USAGE_CODES: Final = frozenset(
    {"usage", "invalid_argument", "ambiguous_focus", "body_too_large", "invalid_configuration"}
)
"""Errors of what was asked, found before anything was done."""

MODULES: Final[Mapping[str, str]] = {
    "derive": "derive",
    "recall": "recall",
    "record-action": "record_action",
    "inspect": "inspect",
    "guard": "guard",
    "reserve": "reserve",
    "release": "release",
    "retract": "retract",
    "disappearances": "disappearances",
    "restore": "restore",
    "purge": "purge",
    "confirm": "confirm",
    "demote": "demote",
    "root-goal": "root_goal",
    "synonym": "synonym",
    "concepts": "concepts",
    "events": "events",
    "saints": "saints",
    "stats": "stats",
    "receipts": "receipts",
    "session": "session",
    "reembed": "reembed",
    "job": "job",
    "token": "token",
    "connect": "connect",
    "import": "imports",
    "demo": "demo",
}
"""The module of each verb; only the one that is used gets imported."""

SERVER_COMMANDS: Final[Mapping[str, str]] = {
    "serve": "Run the server in the foreground.",
    "mcp": "Serve the tools of one session to an MCP client over stdin and stdout.",
    "migrate": "Bring the database files up to this version.",
    "canon": "See why concepts rise and fall, and try policies out: lambo canon dry-run.",
    "doctor": "Say what is wrong with a server and its store, and what to do: lambo doctor.",
    "backup": "Write everything to one file, beside a running server or without one.",
    "restore-backup": "Bring a backup back, whole or one session of it.",
    "admin": "Make a login for the admin pages: lambo admin create.",
    "createsuperuser": "The same as Django asks for it.",
}
"""The management commands people need; every other one is reached in the same way."""

SETTINGS: Final = "lambo_site.settings"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = "lambo"
    try:
        _prepare_streams()
        head, words = split_common_options(words)
        options = _read_head(head)
        if options.version:
            print(f"lambo {VERSION}")
            return DONE
        if options.help:
            print(overview())
            return DONE
        if not words:
            raise UsageError("no verb given; see lambo --help")
        if words[0] in MODULES or words[0] in SERVER_COMMANDS:
            name = f"lambo {words[0]}"
        if words[0] not in MODULES:
            return _run_server_command(words, options)
        verb, words = find_verb(words, options)
        name = f"lambo {verb.name}"
        verb.refuse_idle_options(options)
        return _run_verb(verb, words, options)
    except LamboError as error:
        return report(name, error)
    except BrokenPipeError:
        # The reader of a pipe left; Python's own flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except SystemExit as end:  # argparse after --help, Django after an error it has told
        return end.code if isinstance(end.code, int) else FAILED if end.code else DONE
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run_verb(verb: Verb, words: Sequence[str], options: Namespace) -> int:
    arguments = verb.parser().parse_args(words, options)
    answer = verb.run(arguments, _invocation(arguments))
    print_answer(verb, answer, as_json=getattr(arguments, "json", False))
    sys.stdout.flush()
    return DONE if verb.exit_code is None else verb.exit_code(arguments, answer)


def _invocation(arguments: Namespace) -> Invocation:
    agent: str | None = getattr(arguments, "agent", None)
    if agent is None and find_token(arguments, os.environ) is None:
        from memory.cli.identity import default_agent

        agent = default_agent()

    def connect_as(as_operator: bool, always: bool = False) -> LamboClient:
        from memory.cli.connection import connect

        return connect(arguments, agent_id=agent, as_operator=as_operator, always_operator=always)

    session = getattr(arguments, "session", SESSION_DEFAULT)

    def recall_stored(asked: dict[str, Any]) -> Answer | None:
        from memory.cli.connection import recall_stored

        return recall_stored(arguments, session=session, agent_id=agent, arguments=asked)

    return Invocation(session, agent, connect_as, recall_stored)


# -- finding the verb ------------------------------------------------------------------------------


def split_common_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options before the verb, and the rest from the verb on."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in VALUE_OPTIONS else 1
    return list(words[:at]), list(words[at:])


def _read_head(words: Sequence[str]) -> Namespace:
    parser = _head_parser("lambo")
    parser.add_argument("--version", action="store_true")
    return parser.parse_args(words)


def _head_parser(prog: str) -> Parser:
    """Reads the options before a verb; what its help says depends on what follows."""
    parser = Parser(prog, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    add_common_options(parser)
    return parser


def find_verb(words: Sequence[str], options: Namespace) -> tuple[Verb, list[str]]:
    """The verb that the words begin with, and its own words."""
    module = importlib.import_module(f"memory.cli.{MODULES[words[0]]}")
    if hasattr(module, "VERB"):
        verb: Verb = module.VERB
        return verb, list(words[1:])
    # A group: one more word names the act. Options may stand between the two.
    acts: dict[str, Verb] = {verb.name.split()[1]: verb for verb in module.VERBS}
    between, rest = split_common_options(words[1:])
    _head_parser(f"lambo {words[0]}").parse_args(between, options)
    if options.help or not rest or rest[0] not in acts:
        listed = "\n".join(f"  {verb.name:<16} {verb.summary}" for verb in acts.values())
        if options.help:
            print(listed)
            raise SystemExit(DONE)
        raise UsageError(f"say what to do:\n{listed}")
    return acts[rest[0]], rest[1:]


def all_verbs() -> list[Verb]:
    """Every verb, in the order of the overview."""
    verbs: list[Verb] = []
    for module_name in MODULES.values():
        module = importlib.import_module(f"memory.cli.{module_name}")
        verbs.extend(module.VERBS if hasattr(module, "VERBS") else [module.VERB])
    return verbs


def overview() -> str:
    """What `lambo --help` says."""
    rows = [(verb.name, verb.summary) for verb in all_verbs()]
    lines = [f"  {name:<16} {text}" for name, text in rows]
    lines += ["", "server commands:"]
    lines += [f"  {name:<16} {text}" for name, text in SERVER_COMMANDS.items()]
    parser = Parser("lambo", add_help=False)
    add_common_options(parser)
    options = parser.format_help().partition("common options:")[2].rstrip()
    usage = [
        "usage: lambo [common options] VERB ...",
        "       lambo VERB --help",
        "",
        "Shared memory for teams of AI agents.",
    ]
    return "\n".join([*usage, "", "verbs:", *lines, "", f"common options:{options}"])


# -- server commands -------------------------------------------------------------------------------


def _run_server_command(words: Sequence[str], options: Namespace) -> int:
    """Hand the command to the bridge or to Django, in this process."""
    _apply_to_environment(words[0], options)
    if words[0] == "mcp":
        return _run_bridge(words[1:])
    # Not a default: an agent may stand in a Django project of its own.
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    if words[0] == "doctor":
        # By name too: it sits above, and tells also why the settings cannot be read.
        doctor = importlib.import_module("memory.management.doctor")
        code: int = doctor.main(words[1:], os.environ)
        return code
    if words[0] not in SERVER_COMMANDS:
        import django
        from django.core.management import get_commands

        django.setup()
        if words[0] not in get_commands():
            raise _unknown_word(words[0])
    from django.core.management import execute_from_command_line

    # A module's name has no hyphen, and the words of a command line have no underscore.
    name = words[0].replace("-", "_") if words[0] in SERVER_COMMANDS else words[0]
    execute_from_command_line(["lambo", name, *words[1:]])
    return DONE


def _run_bridge(words: Sequence[str]) -> int:
    """The stdio bridge by its own door: an MCP client waits for it, and it needs no Django.

    By name, like Django's settings: the bridge sits above this package.
    """
    if not {"-h", "--help"} & set(words):
        # Before anything else is imported: what an import prints must not reach the client.
        importlib.import_module("mcp_bridge.protocol_pipes").claim_stdio()
    importlib.import_module("mcp_bridge.stdio").main(words, os.environ)
    return DONE


def _apply_to_environment(command: str, options: Namespace) -> None:
    """Common options that a server command understands, as the variables it reads."""
    for option in ("session", "agent", "url", "json", "token"):
        if hasattr(options, option):
            raise UsageError(f"--{option} means nothing before {command}; put it after, if at all")
    if hasattr(options, "config"):
        os.environ["LAMBO_CONFIG"] = options.config
    if hasattr(options, "data_dir"):
        os.environ["LAMBO_DATA_DIR"] = options.data_dir


def _unknown_word(word: str) -> UsageError:
    import difflib  # only who mistypes waits for it

    close = difflib.get_close_matches(word, [*MODULES, *SERVER_COMMANDS], n=1)
    hint = f"; did you mean {close[0]}?" if close else "; see lambo --help"
    return UsageError(f"there is no verb {word!r:.60}{hint}")


# -- printing --------------------------------------------------------------------------------------


def print_answer(verb: Verb, answer: Answer, *, as_json: bool) -> None:
    """The answer on stdout, as one JSON object or as text; what else is to say on stderr."""
    if as_json:
        # As over HTTP: the structured reply, and the key under which a write was done.
        key = answer["idempotency_key"]
        named = {} if key is None else {"idempotency_key": key}
        # Escapes where the stream cannot carry the letters, so that it stays JSON.
        is_narrow = not sys.stdout.encoding.lower().replace("-", "").startswith("utf")
        print(json.dumps({**answer["structured"], **named}, ensure_ascii=is_narrow, indent=2))
        return
    text = verb.render(answer)
    if text:
        print(text)
    else:
        print(f"lambo {verb.name}: nothing found", file=sys.stderr)
    for warning in answer["warnings"]:
        if warning not in text:
            print(f"lambo {verb.name}: warning: {warning}", file=sys.stderr)
    if answer["replayed"]:
        print(f"lambo {verb.name}: done before under this key; not done again", file=sys.stderr)


def report(name: str, error: LamboError) -> int:
    """Say what went wrong, and give the exit code for it."""
    print(f"{name}: {error.message} [{error.code}]", file=sys.stderr)
    key = error.fields.get("idempotency_key")
    if key is not None and error.code == "outcome_unknown":
        print(f"{name}: ask how it ended with: lambo receipts {key}", file=sys.stderr)
    return USAGE if error.code in USAGE_CODES else FAILED


def _prepare_streams() -> None:
    """Stored text holds any script; a terminal that lacks one must not break the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
