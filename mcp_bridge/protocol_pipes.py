"""The two pipes of a stdio server, kept clean of everything that is not the protocol.

Owns file descriptors 0 and 1 from the moment `claim_stdio` is called: the protocol moves to
private duplicates, 1 becomes stderr and 0 becomes empty, so that a stray print, a warning, a
progress bar or a child process writes to the log and never into the protocol. Imports the standard
library only and nothing slow, so that it can run before Django, whose settings may print too.

Invariant: after the claim, only the holder of the returned pipes can write to the client.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class ProtocolPipes:
    """Bytes from the client and bytes to it. Text is decoded strictly, as UTF-8, by the reader."""

    reader: BinaryIO
    writer: BinaryIO


_claimed: ProtocolPipes | None = None


def claim_stdio() -> ProtocolPipes:
    """Take stdin and stdout for the protocol. Calling again returns the same pipes.

    Call it as early as possible. Text printed before it and still waiting in `sys.stdout` goes to
    stderr as well: the descriptor is turned over before the buffer is flushed.
    """
    global _claimed
    if _claimed is not None:
        return _claimed
    reader, writer = os.dup(0), os.dup(1)
    _divert(1, os.O_WRONLY, first_choice=2)
    _divert(0, os.O_RDONLY)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Flushes what was printed so far. From here on a print shows at once, and no character
        # that this locale cannot show raises in code that never meant to speak to the protocol.
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    _claimed = ProtocolPipes(
        os.fdopen(reader, "rb", buffering=1 << 16), os.fdopen(writer, "wb", buffering=0)
    )
    return _claimed


def _divert(fd: int, flags: int, first_choice: int | None = None) -> None:
    if first_choice is not None:
        with suppress(OSError):  # a client may start us with stderr closed
            os.dup2(first_choice, fd)
            return
    null = os.open(os.devnull, flags)
    os.dup2(null, fd)
    os.close(null)
