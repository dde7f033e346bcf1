"""A server that may not or cannot serve says why, ends, and leaves what is there alone."""

from __future__ import annotations

import ctypes
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memory.data_folder import read_runtime
from serving import SERVE, HttpClient, count, server_environment, serving

FAILED, USAGE = 1, 2
ENDED_SECONDS = 60
SESSION = "held"

pytestmark = pytest.mark.slow


def refused_start(
    folder: Path, *, before: Callable[[], None] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A start that must end by itself, in one line and without a traceback."""
    run = subprocess.run(
        SERVE,
        cwd=folder,
        env=server_environment(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ENDED_SECONDS,
        check=False,
        preexec_fn=before,
    )
    assert run.returncode in (FAILED, USAGE)
    assert "Traceback" not in run.stderr
    assert run.stdout == ""
    return run


def drop_the_right_to_write_anywhere() -> None:
    """Make root obey the mode of folders, as everybody does."""
    drop_from_bounding_set, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    ctypes.CDLL(None).prctl(drop_from_bounding_set, override, 0, 0, 0)


def test_second_server_on_a_folder_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    with serving(tmp_path) as first, HttpClient(first.url) as client:
        assert client.derive(SESSION, "before the second server").status == 200
        before = {path.name: path.stat().st_ino for path in first.data_dir.iterdir()}

        run = refused_start(tmp_path)
        assert run.returncode == FAILED
        assert f"another server runs on {first.data_dir}" in run.stderr
        assert f"process {first.pid} serves {first.url}" in run.stderr

        # The first goes on as if nothing had happened, and clients still find it.
        assert {path.name: path.stat().st_ino for path in first.data_dir.iterdir()} == before
        runtime = read_runtime(first.data_dir)
        assert runtime is not None
        assert (runtime.pid, runtime.url) == (first.pid, first.url)
        assert client.derive(SESSION, "after the second server").status == 200
        assert client.stats(SESSION)["concept_count"] == 2
        assert count(first.data_dir, "concept", SESSION) == 2
        assert first.stop().code == 0


def test_port_in_use_is_named_and_the_folder_is_left_free(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as stranger:
        port = stranger.getsockname()[1]
        run = refused_start(tmp_path, LAMBO_PORT=str(port))
    assert run.returncode == FAILED
    assert f"cannot listen on 127.0.0.1:{port}: the port is in use" in run.stderr
    assert "LAMBO_PORT" in run.stderr
    with serving(tmp_path) as server:
        assert server.is_answering()


@pytest.mark.parametrize("existing", [False, True], ids=["empty", "with memories"])
def test_folder_that_cannot_be_written_is_refused(tmp_path: Path, existing: bool) -> None:
    folder = tmp_path / "data"
    if existing:
        with serving(tmp_path) as server, HttpClient(server.url) as client:
            assert client.derive(SESSION, "kept while nobody may write").status == 200
            assert server.stop().code == 0
    folder.mkdir(exist_ok=True)
    folder.chmod(0o555)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    try:
        run = refused_start(tmp_path, before=drop_the_right_to_write_anywhere)
    finally:
        folder.chmod(0o755)
    assert run.returncode == FAILED
    assert f"cannot write to the data folder {folder}: Permission denied" in run.stderr
    assert "name another folder with LAMBO_DATA_DIR" in run.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_database_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "lambo.sqlite3").write_bytes(b"these are somebody's notes\n" * 400)
    run = refused_start(tmp_path)
    assert run.returncode == FAILED
    assert f"cannot use the database {folder / 'lambo.sqlite3'}: file is not a" in run.stderr
    assert (folder / "lambo.sqlite3").read_bytes().startswith(b"these are somebody's notes\n")


@pytest.mark.parametrize("workers", ["4", "0", "many"])
def test_several_workers_are_refused(tmp_path: Path, workers: str) -> None:
    run = refused_start(tmp_path, WEB_CONCURRENCY=workers)
    assert run.returncode == USAGE
    assert f"WEB_CONCURRENCY must be 1 or unset, not '{workers}'" in run.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("[lease]\nttl_seconds = 0\n", "lease.ttl_seconds must be a number in 3..=3600"),
        ("[writes]\nflush_mutations = -1\n", "writes.flush_mutations must be a whole number"),
        ("[server]\nport = 700000\n", "server.port must be a whole number"),
        ("[lease]\nheartbeat_seconds = 40\n", "heartbeat_seconds must be at most a third"),
        ("[server]\nprot = 1\n", "unknown key server.prot; did you mean server.port?"),
        ("[server]\nbind = 'everywhere'\n", "server.bind must be an IP address or localhost"),
        ("port = \n", "is not valid TOML"),
    ],
)
def test_absurd_setting_in_the_file_is_named(tmp_path: Path, written: str, named: str) -> None:
    (tmp_path / "lambo.toml").write_text(written)
    run = refused_start(tmp_path)
    assert run.returncode == USAGE
    assert named in run.stderr
    assert str(tmp_path / "lambo.toml") in run.stderr
    assert not (tmp_path / "data").exists()
