"""`lambo demote`: keep a chunk of text that no longer fits an agent's context."""

from __future__ import annotations

import sys
import uuid
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, UsageError, Verb, add_key_option, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "chunk", metavar="CHUNK", nargs="?", help="the text (default: read from standard input)"
    )
    parser.add_argument("--file", metavar="FILE", help="read the text from a file")
    parser.add_argument(
        "--chunk-group-id",
        metavar="ID",
        help="what the observations of one chunk have in common (default: a fresh one)",
    )
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    chunk = read_chunk(arguments.chunk, arguments.file)
    group = arguments.chunk_group_id or f"chunk-{uuid.uuid4().hex[:12]}"
    with invocation.client() as client:
        return client.demote(invocation.session, chunk, group, idempotency_key=arguments.key)


def read_chunk(text: str | None, file: str | None) -> str:
    """The chunk from the argument, a file or standard input; line ends become plain newlines."""
    if text is not None and file is not None:
        raise UsageError("give CHUNK or --file, not both")
    if text is not None:
        return text
    try:
        if file is not None:
            raw = Path(file).expanduser().read_bytes()
        else:
            if sys.stdin.isatty():
                print("lambo demote: reading the text; end with Ctrl-D", file=sys.stderr)
            raw = sys.stdin.buffer.read()
        read = raw.decode()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file or 'standard input'} is not UTF-8 text") from error
    # Files from Windows: the server refuses carriage returns, as it does all control characters.
    return read.removeprefix("\ufeff").replace("\r\n", "\n")


VERB: Final = Verb(
    name="demote",
    summary="Keep a chunk of text as observations, one per sentence.",
    example="lambo demote --file notes.txt",
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
