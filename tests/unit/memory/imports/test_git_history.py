"""Reading a repository as git itself counts it, whatever stands in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from git_folder import AUTHORS, FIRST_DATE, GitFolder
from memory.imports.git_history import Commit, GitRepository
from memory.imports.git_import import PathNames, action_of, author_of, event_time_of
from memory.imports.importing import ImportRefused


@pytest.fixture
def folder(tmp_path: Path) -> GitFolder:
    return GitFolder(tmp_path / "repository")


def reading(folder: GitFolder) -> GitRepository:
    return GitRepository(folder.path, dict(os.environ))


def commits(folder: GitFolder, after: str | None = None) -> list[Commit]:
    repository = reading(folder)
    head = repository.find_head()
    assert head is not None
    return list(repository.commits(head, after=after))


def test_commits_come_parents_first_with_author_date_and_paths(folder: GitFolder) -> None:
    first = folder.commit("begin", {"a.py": "1", "b/c.py": "2"})
    second = folder.commit("go on", {"a.py": None, "d.py": "1"}, author=AUTHORS[1])
    one, two = commits(folder)
    assert one == Commit(
        first, FIRST_DATE, "Ada Lovelace", "ada@example.org", "begin", ("a.py", "b/c.py")
    )
    assert (two.sha, two.authored_at, two.paths) == (second, FIRST_DATE + 3_600, ("a.py", "d.py"))
    assert author_of(two) == AUTHORS[1]
    assert event_time_of(two) == "2017-07-14T03:40:00Z"
    assert [one.sha for one in commits(folder, after=first)] == [second]


def test_merges_and_empty_commits_count_and_an_evil_merge_has_its_paths(
    folder: GitFolder,
) -> None:
    folder.commit("begin", {"a": "1"})
    folder.git("checkout", "--quiet", "-b", "side")
    folder.commit("aside", {"b": "1"})
    folder.git("checkout", "--quiet", "main")
    folder.commit("", {})
    plain = folder.merge("side")
    folder.git("checkout", "--quiet", "side")
    folder.commit("more", {"c": "1"})
    folder.git("checkout", "--quiet", "main")
    folder.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    evil = folder.commit("evil", {"e": "only in the merge"})
    read = {commit.sha: commit for commit in commits(folder)}
    assert len(read) == folder.commit_count() == 6
    assert read[plain].paths == ()
    assert read[evil].paths == ("e",)
    paths = {path.encode() for commit in read.values() for path in commit.paths}
    assert paths == folder.touched()


def test_names_of_any_bytes_are_told_apart(folder: GitFolder) -> None:
    """A path that looks like the id of a commit once could have been taken for one."""
    first = folder.commit("begin", {"a": "1"})
    names = [b"caf\xe9", b"two\nlines", b"tab\there", first.encode(), "naïve".encode(), b" x "]
    folder.commit("odd \x07 \u202e names", {name: "1" for name in names})
    _, odd = commits(folder)
    assert len(odd.paths) == len(names)
    assert {"caf\\xe9", "two\nlines", first, "naïve"} <= set(odd.paths)
    texts = PathNames()
    called = [texts.name_of(path) for path in odd.paths]
    assert len(set(called)) == len(names)
    assert called == [texts.name_of(path) for path in odd.paths]
    assert "\n" not in "".join(called)
    assert action_of(odd) == f"commit {odd.sha[:12]}: odd \\u0007 \\u202e names"


def test_paths_of_one_key_are_two_concepts(folder: GitFolder) -> None:
    texts = PathNames()
    plain = ["a_b.py", "a-b.py", "README", "readme", "the", "__"]
    called = [texts.name_of(path) for path in plain]
    assert called[0] == "a_b.py"
    assert called[1].startswith("a-b.py (path ")
    assert called[2] == "README"
    assert called[3].startswith("readme (path ")
    assert called[4].startswith("the (path ")
    again = PathNames()
    for text in called:  # as a later run finds them
        again.take(text)
    assert [again.name_of(path) for path in reversed(plain)] == called[::-1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b" <nobody@example.org> 1500000000 +0000", "unknown author <nobody@example.org>"),
        (b"caf\xe9 <x@example.org> 1500000000 +0000", "caf\\xe9 <x@example.org>"),
        (b"B\x07 o <bo> 1500000000 +0000", "B\\u0007 o <bo>"),
    ],
)
def test_an_author_line_of_any_bytes_is_an_agent(
    line: bytes, expected: str, folder: GitFolder
) -> None:
    folder.commit_raw(line)
    (commit,) = commits(folder)
    assert author_of(commit) == expected


def test_a_long_author_is_cut_to_what_an_agent_may_be_called(folder: GitFolder) -> None:
    folder.commit("one", {}, author=f"{'ü' * 300} <long@example.org>")
    (commit,) = commits(folder)
    assert 200 < len(author_of(commit).encode()) <= 255


def test_files_and_their_contents_are_those_of_the_tree(folder: GitFolder) -> None:
    folder.commit("begin", {"a.py": "import b", "b.py": "x" * 1_500_000, "c.txt": "", "d.py": ""})
    os.symlink("a.py", folder.path / "link.py")
    head = folder.commit("link", {})
    repository = reading(folder)
    blobs = repository.files(head)
    assert [blob.path for blob in blobs] == ["a.py", "b.py", "d.py"]
    read = list(repository.contents([blob.object_id for blob in blobs]))
    assert [len(data) for data in read] == [8, 1_000_001, 0]


def test_what_is_no_whole_repository_is_refused(folder: GitFolder, tmp_path: Path) -> None:
    assert reading(folder).find_head() is None
    folder.commit("one", {"a": "1"})
    folder.commit("two", {"a": "2"})
    folder.git("clone", "--quiet", "--depth=1", f"file://{folder.path}", str(tmp_path / "shallow"))
    with pytest.raises(ImportRefused, match="shallow clone"):
        GitRepository(tmp_path / "shallow", dict(os.environ))
    (tmp_path / "plain").mkdir()
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    with pytest.raises(ImportRefused, match="not a git repository"):
        GitRepository(tmp_path / "plain", outside)
    with pytest.raises(ImportRefused, match="git cannot be run"):
        GitRepository(folder.path, {"PATH": str(tmp_path)})
    shutil.rmtree(folder.path / ".git" / "objects")
    (folder.path / ".git" / "objects").mkdir()
    with pytest.raises(ImportRefused, match="git cannot read"):
        commits(folder)


def test_a_date_that_no_calendar_shows_is_refused_by_its_commit() -> None:
    commit = Commit("f" * 40, 10**12, "Ada", "ada@example.org", "far", ())
    with pytest.raises(ImportRefused, match=f"commit {'f' * 40}: event_time must be in the years"):
        event_time_of(commit)
