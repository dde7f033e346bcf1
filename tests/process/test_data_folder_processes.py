"""One server per data folder, whoever kills whom."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from children import next_line, python_child
from memory.data_folder import DataFolder, DataFolderHeld, read_runtime

HOLD = """
import sys
from pathlib import Path
from memory.data_folder import DataFolder
held = DataFolder(Path(sys.argv[1])).hold()
runtime = held.publish(url="http://127.0.0.1:4711", version="0.1.0")
print(runtime.node_id, flush=True)
sys.stdin.read()
held.release()
print("released", flush=True)
"""

TRY = """
import sys
from pathlib import Path
from memory.data_folder import DataFolder
from memory.engine.errors import LamboError
sys.stdin.readline()
try:
    held = DataFolder(Path(sys.argv[1])).hold()
except LamboError as error:
    print(error.code, flush=True)
else:
    print("held", flush=True)
    sys.stdin.read()
"""

MAKE_KEY = """
import sys
from pathlib import Path
from memory.data_folder import DataFolder
sys.stdin.readline()
print(DataFolder(Path(sys.argv[1])).secret_key(), flush=True)
"""

READ_ONLY = """
import os, secrets, sys  # what is imported later must be readable for nobody
from pathlib import Path
from memory.data_folder import DataFolder
from memory.engine.errors import LamboError
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write anywhere
folder = DataFolder(Path(sys.argv[1]))
for act in (folder.prepare, folder.hold, folder.secret_key):
    try:
        act()
    except LamboError as error:
        print(error.message, flush=True)
"""

pytestmark = pytest.mark.slow


def test_second_server_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    with python_child(HOLD, str(tmp_path)) as first:
        node_id = next_line(first)
        with pytest.raises(DataFolderHeld) as refusal:
            DataFolder(tmp_path).hold()
        assert refusal.value.fields["pid"] == first.pid
        assert refusal.value.fields["url"] == "http://127.0.0.1:4711"
        assert f"process {first.pid} serves http://127.0.0.1:4711" in refusal.value.message
        runtime = read_runtime(tmp_path)
        assert runtime is not None
        assert (runtime.node_id, runtime.pid) == (node_id, first.pid)


def test_clean_stop_removes_the_runtime_file(tmp_path: Path) -> None:
    with python_child(HOLD, str(tmp_path)) as first:
        next_line(first)
        assert first.stdin is not None
        first.stdin.close()
        assert next_line(first) == "released"
        assert not (tmp_path / "runtime.json").exists()
        first.stdin = None  # communicate() must not flush it again


def test_killed_server_leaves_a_file_that_nobody_believes(tmp_path: Path) -> None:
    with python_child(HOLD, str(tmp_path)) as first:
        node_id = next_line(first)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    assert json.loads((tmp_path / "runtime.json").read_bytes())["pid"] == first.pid
    assert read_runtime(tmp_path) is None
    with DataFolder(tmp_path).hold() as held:
        assert held.node_id == node_id
        assert not (tmp_path / "runtime.json").exists()


def test_of_many_servers_at_once_one_holds(tmp_path: Path) -> None:
    with (
        python_child(TRY, str(tmp_path)) as one,
        python_child(TRY, str(tmp_path)) as two,
        python_child(TRY, str(tmp_path)) as three,
    ):
        children = (one, two, three)
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = sorted(next_line(child) for child in children)
        assert said == ["data_folder_held", "data_folder_held", "held"]


def test_looking_for_the_server_never_makes_a_start_fail(tmp_path: Path) -> None:
    """Clients that look take the lock for a moment; a server must not be refused for it."""
    watch = (
        "import sys\nfrom pathlib import Path\nfrom memory.data_folder import DataFolder\n"
        "folder = DataFolder(Path(sys.argv[1]))\nprint('watching', flush=True)\n"
        "while True: folder.find_holder()\n"
    )
    DataFolder(tmp_path).hold().release()
    with python_child(watch, str(tmp_path)) as watcher:
        assert next_line(watcher) == "watching"
        for _ in range(200):
            DataFolder(tmp_path).hold().release()


def test_key_made_by_several_first_starts_is_one_key(tmp_path: Path) -> None:
    with (
        python_child(MAKE_KEY, str(tmp_path)) as one,
        python_child(MAKE_KEY, str(tmp_path)) as two,
        python_child(MAKE_KEY, str(tmp_path)) as three,
    ):
        children = (one, two, three)
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        keys = {next_line(child) for child in children}
        assert keys == {DataFolder(tmp_path).secret_key()}


def test_read_only_folder_is_refused_clearly(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o555)
    # Others must be able to get to it, or another refusal would be tested.
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    with python_child(READ_ONLY, str(folder)) as child:
        for _ in range(3):
            line = next_line(child)
            assert line.startswith(f"cannot write to the data folder {folder}: Permission denied")
            assert line.endswith("name another folder with LAMBO_DATA_DIR")
