"""A repository's history, read with `git` alone: commits in order, their paths, files of a tree.

Runs the user's `git` with nothing that a repository could bend (no pager, no external diff, no
signature check) and reads its answers as bytes. Text that is not UTF-8 is shown with its bytes
spelled out, as git does itself. A rename is the old path and the new one; a merge has the paths
that differ from all its parents, which is mostly none.

Invariant: commits come parents first, each once.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from memory.imports.importing import ImportRefused

_GIT: Final = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false")
_VARIABLES: Final = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
_BLOCK_BYTES: Final = 1 << 16
_FIELDS: Final = "%H%x00%at%x00%aN%x00%aE%x00%s"
BLOB_BYTES_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit. `authored_at` is its author date, in seconds since the epoch."""

    sha: str
    authored_at: int
    author_name: str
    author_email: str
    subject: str
    paths: tuple[str, ...]


class Blob(NamedTuple):
    """A file of a tree: its path and the object it holds."""

    path: str
    object_id: str


class GitRepository:
    """A repository on this machine. `environ` is what `git` runs with."""

    def __init__(self, path: Path, environ: dict[str, str]) -> None:
        """Raises `ImportRefused` where there is no git, or no repository with its whole history."""
        self.path = path
        self._environ = {**environ, **_VARIABLES}
        self._ask("rev-parse", "--git-dir")
        if self._ask("rev-parse", "--is-shallow-repository").strip() == b"true":
            raise ImportRefused(
                f"{path} is a shallow clone, which lacks its history: git fetch --unshallow"
            )

    def find_head(self) -> str | None:
        """The commit that is checked out; None in a repository without one."""
        found = self._run("rev-parse", "--verify", "--quiet", "HEAD")
        return found.stdout.decode().strip() if found.returncode == 0 else None

    def first_commit(self) -> str:
        """What tells this repository from others: the first of its commits without a parent."""
        roots = self._ask("rev-list", "--max-parents=0", "HEAD").decode().split()
        return min(roots)

    def holds(self, sha: str) -> bool:
        return self._run("cat-file", "-e", f"{sha}^{{commit}}").returncode == 0

    def commits(self, head: str, *, after: str | None) -> Iterator[Commit]:
        """The commits that lead to `head`, parents first; without those that lead to `after`."""
        span = [head] if after is None else [head, f"^{after}"]
        order = ("--reverse", "--topo-order")
        with (
            tempfile.TemporaryFile() as names,
            self._reading("log", *order, "--encoding=UTF-8", f"--format={_FIELDS}", *span) as log,
        ):
            names.write(self._ask("rev-list", *order, *span))
            names.seek(0)
            shas = names.read().decode().split()
            names.seek(0)
            diff = ("--stdin", "--always", "--root", "-r", "-c", "-z")
            quiet = ("--name-only", "--no-renames", "--no-ext-diff", "--no-textconv")
            with self._reading("diff-tree", *diff, *quiet, stdin=names) as tree:
                paths = _paths_by_commit(_split(tree), shas)
                for line, (sha, found) in zip(log, paths, strict=True):
                    yield _commit(line, sha, found)

    def files(self, sha: str) -> list[Blob]:
        """The Python files of a commit's tree."""
        found = []
        for entry in self._ask("ls-tree", "-r", "-z", "--full-tree", sha).split(b"\0"):
            head, _, name = entry.partition(b"\t")
            if name.endswith(b".py"):
                mode, kind, object_id = head.split()
                if kind == b"blob" and mode != b"120000":  # a link is a path, not source
                    found.append(Blob(_text(name), object_id.decode()))
        return found

    def contents(self, object_ids: Sequence[str]) -> Iterator[bytes]:
        """What objects hold, in their order; cut where one is larger than a source may be."""
        with tempfile.TemporaryFile() as names:
            names.write("".join(f"{name}\n" for name in object_ids).encode())
            names.seek(0)
            with self._reading("cat-file", "--batch", "--buffer", stdin=names) as objects:
                for _ in object_ids:
                    size = int(objects.readline().split()[2])
                    yield objects.read(min(size, BLOB_BYTES_MAX + 1))
                    left = size - min(size, BLOB_BYTES_MAX + 1)
                    while left:
                        left -= len(objects.read(min(left, _BLOCK_BYTES)))
                    objects.read(1)  # the end of the line

    # -- running git -------------------------------------------------------------------------------

    def _command(self, *words: str) -> list[str]:
        return [*_GIT, "-C", str(self.path), *words]

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                self._command(*words),
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except OSError as error:
            raise ImportRefused(f"git cannot be run: {error.strerror}") from error

    def _ask(self, *words: str) -> bytes:
        ran = self._run(*words)
        if ran.returncode:
            raise self._failed(ran.stderr)
        return ran.stdout

    @contextmanager
    def _reading(self, *words: str, stdin: Any = subprocess.DEVNULL) -> Iterator[IO[bytes]]:
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                self._command(*words),
                env=self._environ,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            assert process.stdout is not None
            try:
                yield process.stdout
            except BaseException:
                process.kill()
                raise
            finally:
                process.stdout.close()
                code = process.wait()
            if code > 0:
                errors.seek(0)
                raise self._failed(errors.read())

    def _failed(self, said: bytes) -> ImportRefused:
        lines = said.decode(errors="backslashreplace").strip().splitlines()
        return ImportRefused(f"git cannot read {self.path}: {lines[0] if lines else 'no reason'}")


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _commit(line: bytes, sha: str, paths: tuple[str, ...]) -> Commit:
    told, at, name, email, subject = line.rstrip(b"\n").split(b"\0", 4)
    if told.decode() != sha:
        raise ImportRefused(f"git told of commit {told.decode()} where {sha} was due")
    try:
        authored_at = int(at)
    except ValueError as error:
        raise ImportRefused(f"commit {sha} has no author date that can be read") from error
    return Commit(sha, authored_at, _text(name), _text(email), _text(subject), paths)


def _split(stream: IO[bytes]) -> Iterator[bytes]:
    """The pieces that zero bytes end."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        *pieces, rest = (rest + block).split(b"\0")
        yield from pieces


def _paths_by_commit(
    pieces: Iterator[bytes], shas: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each commit's paths: a piece is the next commit's id, or a path of the one before.

    No path can be the id of a commit that holds it, so the two are never mistaken.
    """
    paths: list[str] = []
    place = -1
    for piece in pieces:
        if place + 1 < len(shas) and piece == shas[place + 1].encode():
            if place >= 0:
                yield shas[place], tuple(paths)
            place, paths = place + 1, []
        else:
            paths.append(_text(piece))
    if place >= 0:
        yield shas[place], tuple(paths)
