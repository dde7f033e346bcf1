"""An import that is killed, or whose server is, is begun again and loses and doubles nothing."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from backups import command_environment, command_of, run_lambo
from command_line import spare_port
from git_folder import GitFolder
from memory.data_folder import DataFolder
from serving import rows, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COMMITS = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> GitFolder:
    """Many commits, made by git's own fast import; every twentieth has 150 paths."""
    made = GitFolder(tmp_path_factory.mktemp("history") / "repository")
    lines = []
    for number in range(COMMITS):
        subject = f"change {number}"
        lines.append("commit refs/heads/main")
        lines.append(f"author Ada <ada@example.org> {1_500_000_000 + number} +0000")
        lines.append("committer Ada <ada@example.org> 1600000000 +0000")
        lines.append(f"data {len(subject)}\n{subject}")
        for at in range(150 if number % 20 == 0 else 3):
            lines.append(f"M 100644 inline src/file{(number * 7 + at) % 300}.txt")
            lines.append(f"data {len(str(number))}\n{number}")
        lines.append("")
    made.git("fast-import", "--quiet", data="\n".join(lines).encode())
    made.git("reset", "--quiet", "--hard", "main")
    return made


def kill_at(data_dir: Path, folder: GitFolder, line: str, *, server_too: bool, port: str) -> None:
    """Begin the import, and kill it as soon as it tells this line."""
    with subprocess.Popen(
        command_of("import", "git", str(folder.path), "--session", "history"),
        env=command_environment(data_dir, LAMBO_PORT=port),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stderr is not None
        for told in process.stderr:
            if told.startswith(f"lambo import git: {line}"):
                if server_too and (pid := DataFolder(data_dir).find_holder()) is not None:
                    subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(pid)], check=False)
                process.kill()
                break
        process.wait()


def stored(data_dir: Path) -> dict[str, Any]:
    """What the database says: writes, concepts, and edges with how often each was told."""
    count = "SELECT count(*) FROM lambo_{} WHERE session_id = 'history'"
    causal = (
        "SELECT s.content, t.content, e.reinforcements FROM lambo_edge e"
        " JOIN lambo_concept s ON s.id = e.source JOIN lambo_concept t ON t.id = e.target"
        " WHERE e.edge_type = 'Causal' AND e.session_id = 'history'"
    )
    return {
        "interactions": rows(data_dir, count.format("interaction")),
        "concepts": rows(data_dir, count.format("concept")),
        "causal": sorted(rows(data_dir, causal)),
    }


def test_killed_and_begun_again_an_import_loses_and_doubles_nothing(
    folder: GitFolder, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for data in (whole, cut):
        data.mkdir()
    port = str(spare_port())
    with serving(whole):
        words = ("import", "git", str(folder.path), "--session", "history", "--json")
        told = json.loads(run_lambo(whole / "data", *words).out)
        assert told["commits"] == COMMITS
        expected = stored(whole / "data")
    with serving(cut) as server:
        for line in ("commits of 200: 50", "commits of 200: 100"):
            kill_at(cut / "data", folder, line, server_too=False, port=port)
        server.kill()
    with serving(cut):
        kill_at(cut / "data", folder, "commits of 200: 150", server_too=True, port=port)
    partial = stored(cut / "data")
    assert 0 < partial["interactions"][0][0] < expected["interactions"][0][0]
    with serving(cut):
        again = json.loads(run_lambo(cut / "data", *words).out)
        assert again["commits"] + again["known_commits"] == COMMITS
        assert again["known_commits"] >= 149
        assert stored(cut / "data") == expected
    paths = len(folder.touched())
    assert expected["concepts"] == [(COMMITS + paths + 2,)]
    assert all(count == 1 for _, _, count in expected["causal"])
