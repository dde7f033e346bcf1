"""What a verb of the command line is, and what it is given when it runs.

Owns the record each verb module fills in, the options they share, and the two ways in which a
command ends without running: a usage error, and a person who says no. Opens a connection only when
a verb asks for one, so that a mistake in the arguments starts no server.
"""

from __future__ import annotations

import json
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentError,
    ArgumentParser,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from memory.engine.errors import LamboError

if TYPE_CHECKING:
    from memory.client import Answer, Filter, LamboClient

SESSION_DEFAULT: Final = "default"
VALUE_OPTIONS: Final = ("--session", "--agent", "--data-dir", "--url", "--config", "--token")
"""The common options that are followed by a value."""

SERVER_NOTE: Final = (
    "Uses the running server of the data folder; if there is none, starts one in the background."
)


class UsageError(LamboError):
    """The command line makes no sense; nothing ran."""

    code: ClassVar[str] = "usage"


class Declined(LamboError):
    """A person was asked and said no; nothing was changed."""

    code: ClassVar[str] = "declined"


class StoreOnce(Action):
    """Keeps the one value of an option, and refuses a second: to drop the first would lose what
    somebody meant to say. Options that are kept so have no default but None or `SUPPRESS`."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if self.option_strings and getattr(namespace, self.dest, None) is not None:
            raise ArgumentError(self, "may be given only once")
        setattr(namespace, self.dest, values)


class Parser(ArgumentParser):
    """An argument parser that raises `UsageError` instead of leaving the process.

    An option that holds one value is taken once.
    """

    def __init__(
        self,
        prog: str,
        *,
        description: str | None = None,
        epilog: str | None = None,
        add_help: bool = True,
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            add_help=add_help,
            formatter_class=RawDescriptionHelpFormatter,
            # A new option must never change what an old script's short form means.
            allow_abbrev=False,
        )
        for name in (None, "store"):
            self.register("action", name, StoreOnce)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb. `run` may raise any `LamboError`; `render` makes the text for people."""

    name: str
    summary: str
    example: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Invocation], Answer]
    render: Callable[[Answer], str]
    note: str = SERVER_NOTE
    uses_server: bool = True
    """Whether the options that choose a session, an agent and a server mean anything."""
    own: frozenset[str] = frozenset()
    """Common options that mean something of its own to this verb, which adds them itself."""
    exit_code: Callable[[Namespace, Answer], int] | None = None
    """The exit code of an answer, where it can be another than 0."""

    def parser(self) -> Parser:
        """The verb's own parser, common options included."""
        parser = Parser(
            f"lambo {self.name}",
            description=f"{self.summary}\n\n{self.note}".rstrip(),
            epilog=f"example:\n  {self.example}",
        )
        self.add_arguments(parser)
        add_common_options(parser, with_server=self.uses_server, without=self.own)
        return parser

    def refuse_idle_options(self, options: Namespace) -> None:
        """Refuse options before the verb that it would ignore."""
        for option in VALUE_OPTIONS if not self.uses_server else ():
            if hasattr(options, option.removeprefix("--").replace("-", "_")):
                raise UsageError(f"{option} means nothing to {self.name}")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The common options of one command, and the way to the server."""

    session: str
    agent: str | None
    """None where a token says who calls."""
    connect: Callable[..., LamboClient]
    """(as operator[, always]) -> an open client."""
    stored: Callable[[dict[str, Any]], Answer | None]
    """The arguments of a recall -> the answer of the store, or None: ask a server."""

    def client(self) -> LamboClient:
        """A client with the rights of an agent."""
        return self.connect(False)

    def operator_client(self) -> LamboClient:
        """A client that may carry out the acts left to people."""
        return self.connect(True)

    def importing_client(self) -> LamboClient:
        """A client whose writes date evidence by the time they tell.

        Raises `UsageError` where there is neither the operator secret nor a token. That a token has
        the scope, its owner must know.
        """
        client = self.connect(True, True)
        if not client.shows_who_calls:
            client.close()
            raise UsageError(
                "an import dates evidence, which the operator of the data folder may, or a token "
                "with the scope backdate: name either with --data-dir or --token"
            )
        return client


def add_common_options(
    parser: ArgumentParser, *, with_server: bool = True, without: frozenset[str] = frozenset()
) -> None:
    """The options every verb takes. Absent ones leave no trace, so they may stand before the
    verb or after it, each once in all."""
    group = parser.add_argument_group("common options")

    def add(option: str, metavar: str, text: str) -> None:
        if option in without:
            return
        group.add_argument(option, metavar=metavar, default=SUPPRESS, help=text)

    if with_server:
        add("--session", "NAME", f"the session to work in (default: {SESSION_DEFAULT})")
        add("--agent", "NAME", "the agent to speak for (default: your user name and this machine)")
        add("--data-dir", "FOLDER", "the data folder whose server is used (default: as configured)")
        add("--url", "URL", "use the server at this address; starts none")
        add("--config", "FILE", "the lambo.toml to read")
        add("--token", "TOKEN", "the token to show (default: LAMBO_TOKEN, which others cannot see)")
    group.add_argument(
        "--json", action="store_true", default=SUPPRESS, help="print one JSON object"
    )


def add_key_option(parser: ArgumentParser) -> None:
    """The idempotency key of a write."""
    parser.add_argument(
        "--key",
        metavar="KEY",
        help="idempotency key: repeating the command under the same key does it once "
        "(default: a fresh one)",
    )


def add_no_wait_option(parser: ArgumentParser) -> None:
    """Have a write acknowledged before it is applied."""
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="come back when the write is accepted; `lambo receipts KEY` tells how it ended",
    )


def add_vector_options(parser: ArgumentParser, of_what: str) -> None:
    """A vector of the caller's own, from a file."""
    parser.add_argument(
        "--vector-file",
        metavar="FILE",
        help=f"a JSON list of numbers: what your own model makes of {of_what}",
    )
    parser.add_argument(
        "--vector-model", metavar="NAME", help="the model that made it (see lambo stats)"
    )


def read_vector(arguments: Namespace) -> list[float] | None:
    """The vector in the file that was named, if any; what is in it is the server's to judge."""
    if arguments.vector_file is None:
        return None
    try:
        with open(arguments.vector_file, encoding="utf-8") as file:
            vector = json.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {arguments.vector_file}: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no JSON
        raise UsageError(f"{arguments.vector_file} is not JSON: {error}") from error
    if not isinstance(vector, list):
        raise UsageError(f"{arguments.vector_file} must hold a JSON list of numbers")
    return vector


def add_filter_options(parser: ArgumentParser) -> None:
    """Which concepts may be shown. What is given twice widens one condition."""
    parser.add_argument("--type", metavar="TYPE", action="append", help="only of this type")
    parser.add_argument(
        "--written-by", metavar="AGENT", action="append", help="only those this agent first wrote"
    )
    parser.add_argument("--status", metavar="STATUS", action="append", help="only of this status")
    parser.add_argument("--since", metavar="TIME", help="only those first written then or later")
    parser.add_argument("--until", metavar="TIME", help="only those first written earlier")
    parser.add_argument(
        "--any", action="store_true", help="one of these conditions is enough (default: all)"
    )


def read_filter(arguments: Namespace) -> Filter:
    """The filter that the options make."""
    wanted: Filter = {}
    if arguments.type:
        wanted["types"] = arguments.type
    if arguments.written_by:
        wanted["agents"] = arguments.written_by
    if arguments.status:
        wanted["statuses"] = arguments.status
    if arguments.since is not None:
        wanted["since"] = arguments.since
    if arguments.until is not None:
        wanted["until"] = arguments.until
    if arguments.any:
        wanted["match"] = "any"
    return wanted


def add_reason_option(parser: ArgumentParser) -> None:
    """Why a person does it."""
    parser.add_argument(
        "--reason", metavar="TEXT", help="why, for the audit trail; quote no text that has to go"
    )


def add_subject(parser: ArgumentParser, name: str, text: str) -> None:
    """A verb's main text: the first argument, or the option of the same name."""
    parser.add_argument(f"{name}_given", metavar=name.upper(), nargs="?", help=text)
    parser.add_argument(f"--{name}", metavar="TEXT", help="the same as an option")


def subject(arguments: Namespace, name: str) -> str:
    """The main text, given in exactly one of the two ways."""
    found = [
        text
        for text in (getattr(arguments, f"{name}_given"), getattr(arguments, name))
        if text is not None
    ]
    if len(found) != 1:
        how = f"as the first argument or with --{name}"
        raise UsageError(f"give {name} {how}" if not found else f"give {name} once, {how}")
    text: str = found[0]
    return text


def show_text(answer: Answer) -> str:
    """The server's own text, which is made for people."""
    return answer["text"]


def ask_person(question: str) -> str | None:
    """A line typed by the person at the terminal, or None when there is nobody to ask."""
    if not sys.stdin.isatty():
        return None
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()
