"""A repository's history as actions, and its Python imports as citations.

Each commit is an action that modifies its paths, by its author, dated by its author date: when the
work was done, which a rebase or a cherry-pick does not change. A commit of many paths is several
writes of one action; one without a path (a merge, most often) modifies the repository itself. A
file that imports another cites it, dated by the last commit of the run that touched it. When all
is written, the commit it went up to is recorded in the session itself, and the next run reads on
from there.

Two paths may have one key, as `a_b.py` and `a-b.py` do: words decide what a concept is. The
later one then bears a sign of its own behind it, so that each path is one concept; so does one
whose characters had to be changed.

Invariant: a run that is killed and begun again writes what is missing, and nothing twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from memory.engine.errors import InvalidArgument, UnresolvedReference
from memory.engine.requests import check_event_time
from memory.engine.text import canonical_key, has_key
from memory.engine.times import SECOND, format_rfc3339
from memory.imports.git_history import Commit, GitRepository
from memory.imports.importing import (
    NAME_BYTES,
    Importer,
    ImportRefused,
    cleaned,
    cut_bytes,
)
from memory.imports.python_imports import PythonFiles

PATHS_PER_ACTION: Final = 60
CITATIONS_PER_CALL: Final = 60
SUBJECT_CHARACTERS: Final = 140
"""A list of concepts cuts what is longer than 200; no action is as long."""
PATH_CHARACTERS: Final = 4_000
PROGRESS_EVERY: Final = 50
_MARK: Final = re.compile(r"git import of ([0-9a-f]{12}) up to commit ([0-9a-f]{40,64})")


@dataclass(slots=True)
class Counts:
    """What a run came to; commits and authors of the run, and every path they touch."""

    commits: int = 0
    known_commits: int = 0
    paths: set[str] = field(default_factory=set)
    authors: set[str] = field(default_factory=set)
    citations: int = 0
    unparsed: int = 0


def author_of(commit: Commit) -> str:
    """The agent that stands for a commit's author: name and address, after the mailmap."""
    name = cleaned(commit.author_name, characters_max=NAME_BYTES) or "unknown author"
    email = cleaned(commit.author_email, characters_max=NAME_BYTES)
    return cut_bytes(f"{name} <{email}>", NAME_BYTES)


def action_of(commit: Commit) -> str:
    """A commit as an action: no other commit says the same."""
    subject = cleaned(commit.subject, characters_max=SUBJECT_CHARACTERS)
    return f"commit {commit.sha[:12]}: {subject}".removesuffix(": ")


def event_time_of(commit: Commit) -> str:
    """Raises `ImportRefused` for a date that no calendar of four-digit years can show."""
    try:
        check_event_time(commit.authored_at * SECOND)
    except InvalidArgument as error:
        raise ImportRefused(f"commit {commit.sha}: {error.message}") from error
    return format_rfc3339(commit.authored_at * SECOND)


class PathNames:
    """What each path is called in the session: itself, unless another text has its key."""

    def __init__(self) -> None:
        self._text_by_key: dict[str, str] = {}
        self.texts: set[str] = set()

    def take(self, text: str) -> None:
        """Note a text that stands in the session."""
        self._text_by_key.setdefault(canonical_key(text), text)
        self.texts.add(text)

    def name_of(self, path: str) -> str:
        """The text of a path, the same at every call."""
        plain = cleaned(path, characters_max=PATH_CHARACTERS)
        signed = f"{plain} (path {hashlib.sha256(path.encode()).hexdigest()[:8]})"
        if signed in self.texts:
            return signed
        holder = self._text_by_key.get(canonical_key(plain), plain)
        is_plain = plain == path and has_key(plain) and holder == plain
        name = plain if is_plain else signed
        self.take(name)
        return name


@dataclass(slots=True)
class GitImport:
    """One run over one repository."""

    repository: GitRepository
    importer: Importer
    names: PathNames = field(default_factory=PathNames)
    counts: Counts = field(default_factory=Counts)
    _last_by_path: dict[str, Commit] = field(default_factory=dict)
    _marks: dict[str, str] = field(default_factory=dict)

    def run(self, *, from_start: bool) -> str | None:
        """Write what is new; the commit up to which everything is written, None if there is none.

        Raises `ImportRefused`. Everything of the history is read and checked before the first
        write.
        """
        head = self.repository.find_head()
        if head is None:
            return None
        self._read_session()
        root = self.repository.first_commit()[:12]
        after = None if from_start else self._marks.get(root)
        if after is not None and not self.repository.holds(after):
            raise ImportRefused(
                f"the last imported commit {after} is not in {self.repository.path}: was its "
                "history rewritten? --from-start reads all of it"
            )
        repository_name = f"git repository {root}"
        last: Commit | None = None
        total = sum(1 for _ in self._checked(head, after))
        self.importer.progress("commits read", total)
        for last in self._checked(head, after):
            self._write(last, repository_name)
            done = self.counts.commits + self.counts.known_commits
            if done % PROGRESS_EVERY == 0 or done == total:
                self.importer.progress(f"commits of {total}", done)
        if last is None:
            return head
        self._write_citations(head, after, last)
        self.importer.record_action(
            {
                "action": f"git import of {root} up to commit {head}",
                "modifies": [repository_name],
                "event_time": event_time_of(last),
            }
        )
        return head

    def _read_session(self) -> None:
        """Every text that stands in the session, and how far earlier runs went."""
        after: str | None = None
        while True:
            page = self.importer.client.list_concepts(self.importer.session, after=after)
            for concept in page["structured"]["concepts"]:
                text: str = concept["content"]
                if mark := _MARK.fullmatch(text):
                    self._marks[mark[1]] = mark[2]  # pages go from old to new
                self.names.take(text)
            after = page["structured"]["next"]
            if after is None:
                return

    def _checked(self, head: str, after: str | None) -> Iterator[Commit]:
        for commit in self.repository.commits(head, after=after):
            event_time_of(commit)
            yield commit

    def _write(self, commit: Commit, repository_name: str) -> None:
        counts, action, author = self.counts, action_of(commit), author_of(commit)
        counts.authors.add(author)
        counts.paths.update(commit.paths)
        for path in commit.paths:
            self._last_by_path[path] = commit
        names = list(dict.fromkeys(map(self.names.name_of, commit.paths))) or [repository_name]
        if action in self.names.texts and len(names) <= PATHS_PER_ACTION:
            counts.known_commits += 1  # of a run that was cut short
            return
        before = self.importer.written_count
        for start in range(0, len(names), PATHS_PER_ACTION):
            self.importer.record_action(
                {
                    "action": action,
                    "modifies": names[start : start + PATHS_PER_ACTION],
                    "event_time": event_time_of(commit),
                },
                agent=author,
            )
        self.names.take(action)
        if self.importer.written_count == before:
            counts.known_commits += 1
        else:
            counts.commits += 1

    # -- what imports what -------------------------------------------------------------------------

    def _write_citations(self, head: str, after: str | None, last: Commit) -> None:
        """Cite what the tree of `head` imports and that of `after` did not."""
        before = self._imports_of(after) if after is not None else {}
        self.counts.unparsed = 0
        for path, targets in sorted(self._imports_of(head).items()):
            new = sorted(targets - before.get(path, set()))
            commit = self._last_by_path.get(path, last)
            for start in range(0, len(new), CITATIONS_PER_CALL):
                self._cite(path, new[start : start + CITATIONS_PER_CALL], commit)
        self.importer.progress("citations", self.counts.citations)

    def _cite(self, path: str, targets: list[str], commit: Commit) -> None:
        concept: dict[str, Any] = {
            "content": self.names.name_of(path),
            "concept_type": "resource",
            "depends_on": [self.names.name_of(target) for target in targets],
        }
        body = {"concepts": [concept], "event_time": event_time_of(commit)}
        try:
            self.importer.derive(body, agent=author_of(commit))
        except UnresolvedReference:
            self.importer.warn("files were imported whose concept is gone from the session")
            return
        self.counts.citations += len(targets)

    def _imports_of(self, sha: str) -> dict[str, set[str]]:
        blobs = self.repository.files(sha)
        files = PythonFiles(blob.path for blob in blobs)
        found: dict[str, set[str]] = {}
        contents = self.repository.contents([blob.object_id for blob in blobs])
        for blob, source in zip(blobs, contents, strict=True):
            targets = files.imported_by(blob.path, source)
            if targets is None:
                self.counts.unparsed += 1
            elif targets:
                found[blob.path] = targets
        return found
