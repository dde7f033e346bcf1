"""`lambo reembed`: give sessions vectors of the server's embedder, and wait until they have them.

The server does the work and goes on with it whether or not anybody waits. Progress goes to stderr,
how it ended to stdout.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from memory.cli.verb import Invocation, UsageError, Verb, show_text
from memory.engine.errors import LamboError

if TYPE_CHECKING:
    from memory.client import Answer, LamboClient

POLL_SECONDS: Final = 0.5
_LIVE: Final = ("running", "paused")


class ReembedFailed(LamboError):
    """The server gave up on a session; what stood there before still counts."""

    code: ClassVar[str] = "reembed_failed"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="every session of the server")
    parser.add_argument(
        "--wait",
        action=BooleanOptionalAction,
        default=True,
        help="wait until it is done, and show how far it is; else only start it",
    )


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    if arguments.all and hasattr(arguments, "session"):
        raise UsageError("--all and --session exclude each other")
    with invocation.operator_client() as client:
        if not arguments.all:
            return _reembed(client, invocation.session, is_waited_for=arguments.wait)
        rows, failed = [], []
        for name in list(_every_session(client)):
            try:
                answer = _reembed(client, name, is_waited_for=arguments.wait)
            except LamboError as error:
                print(f"lambo reembed: {error.message}", file=sys.stderr)
                failed.append(name)
            else:
                rows.append(answer["structured"])
    if failed:
        raise ReembedFailed(f"not re-embedded: {', '.join(failed)}", sessions=failed)
    return _of_all(rows)


def _reembed(client: LamboClient, session: str, *, is_waited_for: bool) -> Answer:
    """Start it; with waiting, the answer of its end."""
    answer = client.reembed_session(session)
    line = _ProgressLine(session)
    while is_waited_for and answer["structured"]["state"] in _LIVE:
        line.show(answer["structured"])
        time.sleep(POLL_SECONDS)
        # Only looking: to ask would begin again what has failed.
        answer = client.reembed_session(session, start=False)
        if answer["structured"]["state"] == "not_started":
            # The server was started anew, before anything of it was stored.
            answer = client.reembed_session(session)
    line.end()
    if answer["structured"]["state"] == "failed":
        raise ReembedFailed(
            f"session '{session}': {answer['structured']['error']}", session=session
        )
    return answer


def _every_session(client: LamboClient) -> Iterator[str]:
    after: str | None = None
    while True:
        page = client.list_sessions(after=after)["structured"]
        yield from (row["session"] for row in page["sessions"])
        after = page["next"]
        if after is None:
            return


def _of_all(rows: list[dict[str, Any]]) -> Answer:
    text = "\n".join(row["summary"] for row in rows) or "no sessions"
    structured = {"summary": text.partition("\n")[0], "sessions": rows, "warnings": []}
    return {
        "text": text,
        "structured": structured,
        "warnings": [],
        "idempotency_key": None,
        "replayed": False,
    }


class _ProgressLine:
    """How far a session is: one line that is written over at a terminal, else one per change."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._shown = ""

    def show(self, progress: dict[str, Any]) -> None:
        text = f"{self._session}: {progress['embedded']} of {progress['total']} concepts embedded"
        if progress["state"] == "paused":
            text += f"; waiting: {progress['error']}"
        if text == self._shown:
            return
        is_terminal = sys.stderr.isatty()
        blank = " " * max(0, len(self._shown) - len(text)) if is_terminal else ""
        start, end = ("\r", "") if is_terminal else ("", "\n")
        print(f"{start}{text}{blank}", end=end, file=sys.stderr, flush=True)
        self._shown = text

    def end(self) -> None:
        if self._shown and sys.stderr.isatty():
            print(file=sys.stderr)


VERB: Final = Verb(
    name="reembed",
    summary="Give a session vectors of the server's embedder in place of those it has.",
    example="lambo reembed --session shop",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
