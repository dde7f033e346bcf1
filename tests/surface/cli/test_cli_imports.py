"""`lambo import`: what comes into a session, what a second run adds, and what refuses a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from git_folder import AUTHORS, GitFolder
from serving import rows

ADA = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["is 36", "knits"]}
BO = {"type": "entity", "name": "Bo", "entityType": "person", "observations": ["is 36"]}
LIKES = {"type": "relation", "from": "Ada", "to": "Bo", "relationType": "likes"}
VISITS = {"type": "relation", "from": "Cy", "to": "Bo", "relationType": "visits"}


def stored(lambo: CommandLine, sql: str) -> list[tuple[Any, ...]]:
    return rows(lambo.server.data_dir, sql, lambo.session)


def contents(lambo: CommandLine) -> dict[str, str]:
    """Every concept's type by its content, straight from the database."""
    sql = "SELECT content, concept_type FROM lambo_concept WHERE session_id = ?"
    return dict(stored(lambo, sql))


def edges(lambo: CommandLine, kind: str) -> set[tuple[str, str]]:
    """The contents at both ends of every edge of a type."""
    sql = (
        "SELECT s.content, t.content FROM lambo_edge e JOIN lambo_concept s ON s.id = e.source"
        " JOIN lambo_concept t ON t.id = e.target"
        f" WHERE e.session_id = ? AND e.edge_type = '{kind}'"
    )
    return set(stored(lambo, sql))


def interactions(lambo: CommandLine) -> list[tuple[Any, ...]]:
    sql = "SELECT agent_id, event_time, is_backdated FROM lambo_interaction WHERE session_id = ?"
    return stored(lambo, f"{sql} ORDER BY created_at")


# -- the reference server's file -------------------------------------------------------------------


def write_lines(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    os.utime(path, ns=(1_600_000_000_000_000_000,) * 2)
    return path


def test_what_a_memory_file_says_stands_in_the_session(lambo: CommandLine, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "memory.jsonl", ADA, BO, LIKES, VISITS)
    told = lambo("import", "mcp-memory", str(path), "--agent", "olga", "--json").json
    assert (told["entities"], told["observations"], told["relations"]) == (2, 3, 2)
    assert len(told["warnings"]) == 1
    assert contents(lambo) == {
        **dict.fromkeys(("Ada", "Bo", "Cy", "person"), "Entity"),
        **dict.fromkeys(("Ada: is 36", "Ada: knits", "Bo: is 36"), "Observation"),
        **dict.fromkeys(("Ada likes Bo", "Cy visits Bo"), "Logic"),
    }
    assert edges(lambo, "Hierarchical") == {("person", "Ada"), ("person", "Bo")}
    assert edges(lambo, "Dependency") == {
        *(("Ada: is 36", "Ada"), ("Ada: knits", "Ada"), ("Bo: is 36", "Bo")),
        *(("Ada likes Bo", "Ada"), ("Ada likes Bo", "Bo")),
        *(("Cy visits Bo", "Cy"), ("Cy visits Bo", "Bo")),
    }
    # Dated by the file, with the right to it: so its evidence counts, and no sweep takes it.
    assert set(interactions(lambo)) == {("olga", 1_600_000_000_000_000, 1)}


def test_a_second_run_adds_only_what_is_new(lambo: CommandLine, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "memory.jsonl", ADA, LIKES)
    first = lambo("import", "mcp-memory", str(path), "--json").json
    before = interactions(lambo)
    again = lambo("import", "mcp-memory", str(path), "--json").json
    assert (again["writes"], again["replayed"]) == (0, first["writes"])
    assert interactions(lambo) == before
    write_lines(path, {**ADA, "observations": ["is 36", "knits", "sings"]}, LIKES)
    more = lambo("import", "mcp-memory", str(path), "--json").json
    assert more["writes"] > 0
    assert set(contents(lambo)) == {
        *("Ada", "Bo", "person", "Ada likes Bo", "Ada: is 36", "Ada: knits", "Ada: sings"),
    }


def test_a_file_with_a_bad_line_writes_nothing(lambo: CommandLine, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "memory.jsonl", ADA, {"type": "entity", "name": "x" * 20_000})
    refused = lambo("import", "mcp-memory", str(path))
    assert (refused.code, refused.out) == (1, "")
    assert f"{path} line 2: name exceeds 16384 bytes" in refused.err
    assert "[import_refused]" in refused.err
    assert interactions(lambo) == []
    naive = lambo("import", "mcp-memory", str(path), "--event-time", "2026-01-01T00:00:00")
    assert naive.code != 0


def test_an_import_without_the_right_to_date_evidence_is_refused(
    lambo: CommandLine, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "memory.jsonl", ADA)
    words = ("--data-dir", str(tmp_path / "stranger"), "--url", lambo.server.url)
    from memory.cli.main import main

    code = main(["--session", lambo.session, *words, "import", "mcp-memory", str(path)])
    assert code == 2
    assert interactions(lambo) == []


# -- a repository ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> GitFolder:
    return GitFolder(tmp_path / "repository")


def history(folder: GitFolder) -> None:
    """Two authors, a merge, a rename, a removal, a commit of many paths, imports."""
    folder.commit("begin", {"shop/__init__.py": "", "shop/cart.py": "import shop.money"})
    folder.commit("money", {"shop/money.py": "", "README": "x"}, author=AUTHORS[1])
    folder.git("checkout", "--quiet", "-b", "side")
    folder.commit("aside", {"readme": "another"})
    folder.git("checkout", "--quiet", "main")
    folder.commit("rename", {"shop/cart.py": None, "shop/basket.py": "from shop import money"})
    folder.merge("side")
    folder.commit("many", {f"data/file{number}.txt": "1" for number in range(130)})


def test_a_history_counts_as_git_counts_it(lambo: CommandLine, folder: GitFolder) -> None:
    history(folder)
    told = lambo("import", "git", str(folder.path), "--json").json
    assert told["last_commit"] == folder.head()
    assert told["commits"] == folder.commit_count() == 6
    assert told["paths"] == len(folder.touched())
    assert told["authors"] == len(folder.authors()) == 2
    assert told["citations"] == 1
    texts = contents(lambo)
    assert len([text for text in texts if text.startswith("commit ")]) == folder.commit_count()
    others = ("commit ", "git import of ", "git repository ")
    named = {text for text in texts if not text.startswith(others)}
    assert len(named) == len(folder.touched())
    plain = {text.split(" (path ")[0] for text in named}
    assert plain == {path.decode() for path in folder.touched()}
    assert edges(lambo, "Dependency") == {("shop/basket.py", "shop/money.py")}
    agents = {agent for agent, _, _ in interactions(lambo)}
    assert folder.authors() <= agents
    assert len(agents) == len(folder.authors()) + 1, "and the one that ran the import"


def test_each_commit_modifies_its_paths_by_its_author_at_its_date(
    lambo: CommandLine, folder: GitFolder
) -> None:
    history(folder)
    assert lambo("import", "git", str(folder.path)).code == 0
    causal: dict[str, set[str]] = {}
    for action, path in edges(lambo, "Causal"):
        causal.setdefault(action.partition(": ")[2], set()).add(path)
    assert causal["begin"] == {"shop/__init__.py", "shop/cart.py"}
    assert causal["rename"] == {"shop/cart.py", "shop/basket.py"}
    assert len(causal["many"]) == 130
    (repository,) = causal["merge side"]
    assert repository.startswith("git repository ")
    dates = [
        (line.split(" ", 1)[1], int(line.split(" ", 1)[0]) * 1_000_000)
        for line in folder.git("log", "--format=%at %aN <%aE>").decode().splitlines()
    ]
    written = interactions(lambo)
    assert {(agent, at) for agent, at, _ in written} >= set(dates)
    assert all(is_backdated == 1 for _, _, is_backdated in written)
    # 130 paths are three writes of one action; then the citation, and the mark.
    assert len(written) == folder.commit_count() + 2 + 1 + 1


def test_a_second_run_reads_on_from_the_last_imported_commit(
    lambo: CommandLine, folder: GitFolder
) -> None:
    history(folder)
    assert lambo("import", "git", str(folder.path)).code == 0
    before = interactions(lambo)
    nothing = lambo("import", "git", str(folder.path), "--json").json
    assert (nothing["commits"], nothing["writes"], nothing["replayed"]) == (0, 0, 0)
    assert interactions(lambo) == before
    # A file that was there imports one that was not; and the old import is not cited again.
    new = folder.commit("use it", {"shop/rates.py": "", "shop/money.py": "import shop.rates"})
    more = lambo("import", "git", str(folder.path), "--json").json
    assert (more["commits"], more["citations"], more["last_commit"]) == (1, 1, new)
    assert edges(lambo, "Dependency") == {
        ("shop/basket.py", "shop/money.py"),
        ("shop/money.py", "shop/rates.py"),
    }
    assert len(interactions(lambo)) == len(before) + 3
    whole = lambo("import", "git", str(folder.path), "--from-start", "--json").json
    assert (whole["commits"], whole["known_commits"]) == (0, folder.commit_count())


def test_rewritten_history_asks_before_all_of_it_is_read(
    lambo: CommandLine, folder: GitFolder
) -> None:
    folder.commit("begin", {"a": "1"})
    gone = folder.commit("wrong", {"b": "1"})
    assert lambo("import", "git", str(folder.path)).code == 0
    folder.git("reset", "--quiet", "--hard", "HEAD~1")
    folder.git("reflog", "expire", "--expire=now", "--all")
    folder.git("gc", "--quiet", "--prune=now")
    folder.commit("right", {"b": "2"})
    refused = lambo("import", "git", str(folder.path))
    assert refused.code == 1
    assert f"the last imported commit {gone} is not in" in refused.err
    told = lambo("import", "git", str(folder.path), "--from-start", "--json").json
    assert (told["commits"], told["known_commits"]) == (1, 1)


def test_an_empty_repository_and_what_is_none(
    lambo: CommandLine, folder: GitFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = lambo("import", "git", str(folder.path), "--json").json
    assert (empty["last_commit"], empty["commits"]) == (None, 0)
    assert "has no commit yet" in empty["summary"]
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    plain = lambo("import", "git", str(tmp_path / "plain"))
    assert (plain.code, "not a git repository" in plain.err) == (1, True)
    assert lambo("import", "git", str(tmp_path / "nowhere")).code == 2
    folder.commit_raw(b"Ada <ada@example.org> 999999999999 +0000")
    far = lambo("import", "git", str(folder.path))
    assert (far.code, "event_time must be in the years" in far.err) == (1, True)
    assert interactions(lambo) == []


def test_odd_names_are_imported_and_told_apart(lambo: CommandLine, folder: GitFolder) -> None:
    names: list[bytes] = [b"caf\xe9.py", b"two\nlines", b"a_b", b"a-b", b"the", b"-"]
    folder.commit("odd \x07", {name: "import os" for name in names})
    told = lambo("import", "git", str(folder.path), "--json").json
    assert (told["paths"], told["commits"]) == (len(names), 1)
    others = ("commit ", "git import of ", "git repository ")
    found = [text for text in contents(lambo) if not text.startswith(others)]
    assert len(found) == len(names)
    assert {"caf\\xe9.py", "a-b"} <= set(found)
    assert {text.split(" (path ")[0] for text in found} >= {"two lines", "a_b", "the", "-"}
