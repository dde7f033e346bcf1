"""The command line as the shell sees it: processes, exit codes, streams, and a server on demand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import ROOT, child_environment
from command_line import LiveServer, spare_port, stop_server
from memory.data_folder import DataFolder

pytestmark = pytest.mark.slow

LAMBO = [sys.executable, "-P", "-m", "memory.cli.main"]


def run(
    *words: str, env: dict[str, str] | None = None, command: list[str] = LAMBO, cwd: Path = ROOT
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*command, *words],
        env=child_environment(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.fixture
def own_folder(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a data folder on which no server runs yet."""
    data_dir = tmp_path / "data"
    config = tmp_path / "lambo.toml"
    config.touch()
    yield {
        "LAMBO_DATA_DIR": str(data_dir),
        "LAMBO_CONFIG": str(config),
        "LAMBO_PORT": str(spare_port()),
    }
    stop_server(data_dir)


def test_first_command_starts_a_server_and_the_second_finds_it(own_folder: dict[str, str]) -> None:
    first = run("derive", "--concept", "user schema:entity", env=own_folder)
    assert first.returncode == 0, first.stderr
    assert first.stdout == b"derived 1 concept(s): 1 created, 0 matched existing\n"
    assert first.stderr.startswith(b"lambo: started a server at http://127.0.0.1:")
    second = run("recall", "schema", "--json", env=own_folder)
    assert second.stderr == b""
    assert json.loads(second.stdout)["hits"][0]["content"] == "user schema"


def test_streams_are_apart_and_codes_are_three(server: LiveServer) -> None:
    env = {"LAMBO_DATA_DIR": str(server.data_dir)}
    done = run("stats", "--session", "x", env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    failed = run("inspect", "nothing", "--session", "x", env=env)
    assert (failed.returncode, failed.stdout) == (1, b"")
    assert failed.stderr == b"lambo inspect: no concept matching 'nothing' [concept_not_found]\n"
    wrong = run("stats", "--frobnicate", env=env)
    assert (wrong.returncode, wrong.stdout) == (2, b"")


@pytest.mark.parametrize(
    "locale", [{"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=["C", "ascii"]
)
def test_text_of_any_script_survives_a_poor_locale(
    server: LiveServer, locale: dict[str, str]
) -> None:
    session = f"locale-{'-'.join(locale)}"
    env = {"LAMBO_DATA_DIR": str(server.data_dir), **locale}
    words = ["--session", session, "--json"]
    written = run("derive", "--content", "emoji 🙂 日本", "--kind", "logic", *words, env=env)
    assert written.returncode == 0, written.stderr
    read = run("recall", "emoji", *words, env=env)
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout)["hits"][0]["content"] == "emoji 🙂 日本"


def test_verbs_import_no_django(server: LiveServer) -> None:
    code = (
        "import sys; from memory.cli.main import main; code = main(sys.argv[1:]); "
        "heavy = {'django', 'numpy', 'pydantic', 'snowballstemmer', 'mcp'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    env = {"LAMBO_DATA_DIR": str(server.data_dir)}
    ran = run("stats", "--session", "x", env=env, command=[sys.executable, "-c", code])
    assert ran.returncode == 0, ran.stderr


def test_bridge_starts_without_django_and_keeps_stdout_for_the_protocol(
    server: LiveServer,
) -> None:
    code = (
        "import sys; from memory.cli.main import main; code = main(sys.argv[1:]); "
        "assert 'django' not in sys.modules; sys.exit(code)"
    )
    env = {"LAMBO_DATA_DIR": str(server.data_dir)}
    # The client has nothing to say: the bridge ends at the end of its input.
    ran = run("mcp", "--session", "x", env=env, command=[sys.executable, "-c", code])
    assert (ran.returncode, ran.stdout) == (0, b""), ran.stderr
    assert b"--session" in run("mcp", "--help", env=env).stdout
    refused = run("mcp", "--frobnicate", env=env)
    assert (refused.returncode, refused.stdout) == (2, b"")


def test_reader_of_a_pipe_may_leave_early(server: LiveServer) -> None:
    shell = f"{sys.executable} -P -m memory.cli.main --session x stats | true"
    env = {"LAMBO_DATA_DIR": str(server.data_dir)}
    ran = run(shell, env=env, command=["/bin/sh", "-c"])
    assert ran.stderr == b""


def test_management_command_is_the_same_command_line(server: LiveServer) -> None:
    env = {"LAMBO_DATA_DIR": str(server.data_dir)}
    manage = [sys.executable, str(ROOT / "manage.py"), "lambo"]
    ran = run("stats", "--session", "x", "--json", env=env, command=manage)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(ran.stdout)["session"] == "x"
    assert run("stats", "--frobnicate", env=env, command=manage).returncode == 2
    assert b"example:" in run("derive", "--help", env=env, command=manage).stdout


def test_management_commands_are_reached_by_name(
    own_folder: dict[str, str], tmp_path: Path
) -> None:
    """Also from inside somebody's own Django project."""
    env = {**own_folder, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    ran = run("migrate", "--help", env=env, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert b"usage: lambo migrate" in ran.stdout
    refused = run("--session", "x", "migrate", env=env, cwd=tmp_path)
    assert refused.returncode == 2
    assert b"put it after" in refused.stderr


def test_broken_setting_is_told_and_starts_nothing(own_folder: dict[str, str]) -> None:
    ran = run("stats", env={**own_folder, "LAMBO_PORT": "none"})
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"lambo stats: ")
    assert ran.stderr.endswith(b"[invalid_configuration]\n")
    assert DataFolder(Path(own_folder["LAMBO_DATA_DIR"])).find_holder() is None
