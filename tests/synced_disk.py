"""A disk that forgets what was not synced, rebuilt from the system calls of a traced process.

Owns the reading of strace's output and the model of a folder: each file has the bytes that were
written and those that were synced, each name counts only once its folder was synced. What is left
after a power failure at the worst moment is `SyncedDisk.survivors`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

CALLS = (
    "openat,creat,pwrite64,pwritev,write,writev,sendto,sendmsg,ftruncate,fallocate,"
    "fsync,fdatasync,sync_file_range,msync,unlink,unlinkat,rename,renameat,renameat2,link,linkat"
)
STRING_BYTES_MAX = 1_048_576

_UNFINISHED = b" <unfinished ...>"
_RESUMED = re.compile(rb"^<\.\.\. \w+ resumed>")
_RESULT = re.compile(rb"\) += (-?\d+)(?:<[^>]*>)?(?: [A-Z].*)?$")
_TEXT = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"')
_DESCRIPTOR = re.compile(rb"^\d+<([^>]*)>")


def strace_command(output: Path) -> list[str]:
    """The command that runs another one and writes what it asked of the system."""
    size = str(STRING_BYTES_MAX)
    # Signals would be lines of another shape; -y names the file behind each descriptor.
    what = ["-e", "signal=none", "-e", f"trace={CALLS}"]
    return ["strace", "-f", "-y", "-x", "-s", size, *what, "-o", str(output)]


def find_reason_not_to_trace() -> str | None:
    """Why system calls cannot be traced here, or None if they can."""
    try:
        run = subprocess.run(
            ["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return "strace is not installed"
    return f"strace may not trace here: {run.stderr.strip()}" if run.returncode else None


@dataclass(frozen=True)
class SystemCall:
    """One call that succeeded. `path` is what its descriptor stands for."""

    name: str
    path: str
    arguments: bytes
    result: int
    began: int
    """Number of the line of its beginning, and of its end: they differ where threads interleave."""
    ended: int

    @cached_property
    def text(self) -> bytes:
        """Its first string, as bytes."""
        match = _TEXT.search(self.arguments)
        return b"" if match is None else match[1].decode("unicode_escape").encode("latin-1")

    @property
    def last_number(self) -> int:
        """The last argument: the place of a write, the length of a cut."""
        return int(self.arguments.rpartition(b",")[2])


def read_trace(path: Path) -> Iterator[SystemCall]:
    """The calls that succeeded, as they ended; what never ended is not given."""
    begun: dict[bytes, tuple[bytes, int]] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n")):
        process, _, rest = line.partition(b" ")
        rest, began = rest.lstrip(), number
        if rest.endswith(_UNFINISHED):
            begun[process] = (rest.removesuffix(_UNFINISHED), number)
            continue
        if resumed := _RESUMED.match(rest):
            beginning, began = begun.pop(process)
            rest = beginning + rest[resumed.end() :]
        name, _, arguments = rest.partition(b"(")
        result = _RESULT.search(arguments)
        if result is None or int(result[1]) < 0:
            continue  # it failed, or the line says that a process ended
        descriptor = _DESCRIPTOR.match(arguments)
        yield SystemCall(
            name=name.decode(),
            path="" if descriptor is None else descriptor[1].decode(),
            arguments=arguments[: result.start()],
            result=int(result[1]),
            began=began,
            ended=number,
        )


@dataclass
class _File:
    written: bytearray = field(default_factory=bytearray)
    synced: bytes = b""

    def write(self, data: bytes, offset: int) -> None:
        self.written.extend(bytes(max(0, offset + len(data) - len(self.written))))
        self.written[offset : offset + len(data)] = data

    def cut(self, length: int) -> None:
        self.written.extend(bytes(max(0, length - len(self.written))))
        del self.written[length:]


class SyncedDisk:
    """The files of one folder whose names the test cares for, as written and as synced."""

    def __init__(self, folder: Path, names: frozenset[str]) -> None:
        self._folder = str(folder)
        self._paths = {str(folder / name): name for name in names}
        self._written: dict[str, _File] = {}
        self._synced: dict[str, _File] = {}

    def follow(self, call: SystemCall) -> None:
        """Take one call into account. One that would need a model of its own fails."""
        match call.name:
            case "openat" if b"O_CREAT" in call.arguments:
                if name := self._paths.get(call.text.decode("utf-8", "replace")):
                    file = self._written.setdefault(name, _File())
                    if b"O_TRUNC" in call.arguments:
                        file.cut(0)
            case "unlink":
                if name := self._paths.get(call.text.decode("utf-8", "replace")):
                    self._written.pop(name, None)
            case "fsync" | "fdatasync" if call.path == self._folder:
                self._synced = dict(self._written)
            case _ if call.path in self._paths:
                self._follow_file(call, self._written[self._paths[call.path]])
            case _ if call.name.startswith(("rename", "link", "unlinkat")):
                assert not any(path.encode() in call.arguments for path in self._paths), call

    @staticmethod
    def _follow_file(call: SystemCall, file: _File) -> None:
        match call.name:
            case "pwrite64":
                file.write(call.text[: call.result], call.last_number)
            case "ftruncate":
                file.cut(call.last_number)
            case "fsync" | "fdatasync":
                file.synced = bytes(file.written)
            case "openat":
                pass
            case other:
                raise AssertionError(f"{other} on {call.path} is not modelled")

    def survivors(self) -> dict[str, bytes]:
        """What is in the folder after power failed now and kept nothing that was not synced."""
        return {name: file.synced for name, file in self._synced.items()}
