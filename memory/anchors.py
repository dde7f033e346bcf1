"""Heads of the audit chains, noted outside the database: the file `anchors.jsonl`.

One JSON object a line: `at`, `session`, `session_created_at`, `sequence`, `hash`. A line is
appended and synced before anybody is told, so that whoever rewrites the database, with the chain
key in hand, still contradicts the file; copies of it elsewhere make that firmer. Here too is what
is said when audit rows do not fit. Knows no chain.

Invariant: lines are only ever added. A line that a crash tore is passed by, and the next one does
not join it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

from memory.engine.errors import InvalidConfiguration, LamboError
from memory.engine.times import Micros, format_rfc3339

FILE_MODE = 0o600


class AnchorsUnusable(LamboError):
    """The file of anchors cannot be read or written."""

    code: ClassVar[str] = "anchors_unusable"


class ChainKeyMismatch(InvalidConfiguration):
    """The database's audit rows are linked with another chain key; nothing was served or proven."""

    code: ClassVar[str] = "chain_key_mismatch"

    def __init__(self, *, known: str, given: str) -> None:
        super().__init__(
            f"the audit rows of this database are linked with another chain key ({known[:12]}) "
            f"than the one given ({given[:12]}); bring back LAMBO_CHAIN_KEY, or the file chain-key "
            "of the data folder that the database was made with",
            known=known[:12],
            given=given[:12],
        )


class AuditBroken(LamboError):
    """Audit rows do not fit their hash chain: somebody was at them; the first such row is named."""

    code: ClassVar[str] = "audit_broken"


class Anchor(NamedTuple):
    """The newest committed link of a session's chain at an instant."""

    at: Micros
    session_id: str
    session_created_at: Micros
    sequence: int
    hash: str


@dataclass(slots=True)
class AnchorsRead:
    """What a file holds: hashes by sequence, by session; and how many lines are none."""

    by_session: dict[str, dict[int, str]] = field(default_factory=dict)
    line_count: int = 0
    unreadable_count: int = 0

    def of(self, session_id: str) -> Mapping[int, str]:
        return self.by_session.get(session_id, {})


class AnchorFile:
    """One file of anchors. Making this object touches nothing on disk; its methods block."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, anchors: Sequence[Anchor]) -> None:
        """Add lines and have them on disk. Raises `AnchorsUnusable`."""
        text = "".join(f"{_line(anchor)}\n" for anchor in anchors)
        try:
            is_new = not self.path.exists()
            descriptor = os.open(
                self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE
            )
            with open(descriptor, "rb+", buffering=0) as file:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    text = "\n" + text  # behind a line that was torn
                left = memoryview(text.encode())
                while left:
                    left = left[file.write(left) :]
                os.fsync(descriptor)
            if is_new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise self._unusable("write", error) from error

    def read(self) -> AnchorsRead:
        """Every anchor; none where there is no file. Raises `AnchorsUnusable`."""
        found = AnchorsRead()
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    _take(found, line)
        except FileNotFoundError:
            return found
        except OSError as error:
            raise self._unusable("read", error) from error
        return found

    def _unusable(self, act: str, error: OSError) -> AnchorsUnusable:
        return AnchorsUnusable(f"cannot {act} {self.path}: {error.strerror}", path=str(self.path))


def _line(anchor: Anchor) -> str:
    return json.dumps(
        {
            "at": format_rfc3339(anchor.at),
            "session": anchor.session_id,
            "session_created_at": format_rfc3339(anchor.session_created_at),
            "sequence": anchor.sequence,
            "hash": anchor.hash,
        }
    )


def _take(found: AnchorsRead, line: bytes) -> None:
    if not line.strip():
        return
    try:
        anchor = json.loads(line)
        session_id, sequence, link_hash = (anchor[name] for name in ("session", "sequence", "hash"))
        is_sound = isinstance(session_id, str) and isinstance(link_hash, str)
        if not is_sound or type(sequence) is not int or sequence < 1:
            raise ValueError("no anchor")
    except (ValueError, KeyError, TypeError):
        found.unreadable_count += 1
        return
    found.line_count += 1
    hashes = found.by_session.setdefault(session_id, {})
    if hashes.setdefault(sequence, link_hash) != link_hash:
        # Two anchors of one place cannot both hold; the later stands for the rewriting.
        hashes[sequence] = link_hash


def _sync_folder(path: Path) -> None:
    """Make the file's name durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
