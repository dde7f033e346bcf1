"""Repositories made by the tests, with the real `git`; without it they skip and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

AUTHORS = ("Ada Lovelace <ada@example.org>", "Bo <bo@example.org>")
FIRST_DATE = 1_500_000_000
"""Of the first commit, in seconds; each later one is an hour after the one before."""


class GitFolder:
    """A repository in a folder of its own, with no setting of the machine in it."""

    def __init__(self, path: Path) -> None:
        if shutil.which("git") is None:
            pytest.skip("git is not installed")
        self.path = path
        path.mkdir(parents=True)
        self._count = 0
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str, data: bytes | None = None, **variables: str) -> bytes:
        ran = subprocess.run(
            ["git", "-C", str(self.path), *words],
            input=data,
            env={
                **os.environ,
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_COMMITTER_NAME": "Carla",
                "GIT_COMMITTER_EMAIL": "carla@example.org",
                "GIT_AUTHOR_NAME": "Ada Lovelace",
                "GIT_AUTHOR_EMAIL": "ada@example.org",
                **variables,
            },
            capture_output=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def commit(
        self,
        subject: str,
        files: Mapping[str | bytes, str | None],
        *,
        author: str = AUTHORS[0],
        date: str | None = None,
    ) -> str:
        """Write files (None removes one) and commit them; the id of the commit."""
        for name, text in files.items():
            path = os.path.join(os.fsencode(self.path), os.fsencode(name))
            if text is None:
                os.unlink(path)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.git("add", "--all")
        when = date or f"@{FIRST_DATE + 3_600 * self._count} +0200"
        self._count += 1
        words = ("commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", subject)
        self.git(
            *words, f"--author={author}", f"--date={when}", GIT_COMMITTER_DATE="@1600000000 +0000"
        )
        return self.head()

    def commit_raw(self, author: bytes, subject: bytes = b"raw") -> str:
        """A commit with an author line no `git commit` would write, on top of the others."""
        tree = self.git("write-tree")
        text = b"tree " + tree + b"author " + author + b"\n"
        text += b"committer Carla <carla@example.org> 1600000000 +0000\n\n" + subject + b"\n"
        made = self.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", data=text)
        sha = made.decode().strip()
        self.git("update-ref", "refs/heads/main", sha)
        return sha

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").decode().strip()

    def merge(self, branch: str) -> str:
        self.git("merge", "--quiet", "--no-ff", "-m", f"merge {branch}", branch)
        return self.head()

    # -- what git itself counts ----------------------------------------------------------------

    def commit_count(self) -> int:
        return int(self.git("rev-list", "--count", "HEAD"))

    def touched(self) -> set[bytes]:
        """Every path any commit touched; one `git show` for each commit."""
        found: set[bytes] = set()
        for sha in self.git("rev-list", "HEAD").decode().split():
            told = self.git("show", "-z", "--name-only", "--no-renames", "--format=", sha)
            found.update(name for name in told.split(b"\0") if name)
        return found

    def authors(self) -> set[str]:
        told = self.git("log", "--format=%aN <%aE>", "HEAD").decode()
        return set(told.splitlines())
