"""The data folder as one process sees it; what two processes see is in tests/process."""

from __future__ import annotations

import errno
import json
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from memory.data_folder import DataFolder, DataFolderHeld, DataFolderUnusable, read_runtime


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "deep" / "data")


@pytest.fixture
def broad_umask() -> Iterator[None]:
    """Files must be private whatever the caller's umask is."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_naming_a_folder_makes_nothing(folder: DataFolder) -> None:
    assert not folder.path.parent.exists()
    assert folder.find_holder() is None
    assert folder.find_runtime() is None


@pytest.mark.usefixtures("broad_umask")
def test_what_is_made_is_for_the_owner_alone(folder: DataFolder) -> None:
    folder.secret_key()
    folder.chain_key()
    with folder.hold() as held:
        held.publish(url="http://127.0.0.1:1", version="1")
        assert mode_of(folder.path) == 0o700
        assert {path.name: oct(mode_of(path)) for path in folder.path.iterdir()} == {
            "chain-key": "0o600",
            "node-id": "0o600",
            "runtime.json": "0o600",
            "secret-key": "0o600",
        }


def test_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    DataFolder(tmp_path).prepare()
    assert mode_of(tmp_path) == 0o750


def test_node_id_survives_and_the_secret_does_not(folder: DataFolder) -> None:
    with folder.hold() as first:
        one = first.publish(url="http://127.0.0.1:1", version="1")
    with folder.hold() as second:
        two = second.publish(url="http://127.0.0.1:2", version="1")
    assert uuid.UUID(one.node_id).version == 4
    assert one.node_id == two.node_id == first.node_id
    assert one.operator_secret != two.operator_secret
    assert one.operator_secret not in repr(one)


def test_runtime_is_read_while_the_folder_is_held_and_gone_after(folder: DataFolder) -> None:
    held = folder.hold()
    assert folder.find_holder() == os.getpid()
    assert read_runtime(folder.path) is None
    published = held.publish(url="http://127.0.0.1:7700", version="0.1.0")
    assert read_runtime(folder.path) == published
    assert published.pid == os.getpid()
    held.release()
    held.release()
    assert not folder.runtime_path.exists()
    assert folder.find_holder() is None


def test_second_hold_is_refused_and_names_the_first(folder: DataFolder) -> None:
    with folder.hold() as held:
        with pytest.raises(DataFolderHeld, match=f"process {os.getpid()} is starting"):
            folder.hold()
        held.publish(url="http://127.0.0.1:7700", version="0.1.0")
        with pytest.raises(DataFolderHeld, match="serves http://127") as refusal:
            folder.hold()
        assert refusal.value.fields == {
            "pid": os.getpid(),
            "url": "http://127.0.0.1:7700",
            "since": held.started_at,
        }
    folder.hold().release()


def test_runtime_file_left_behind_is_not_believed_and_is_removed(folder: DataFolder) -> None:
    held = folder.hold()
    held.publish(url="http://127.0.0.1:1", version="1")
    stale = folder.runtime_path.read_bytes()
    held.release()
    folder.runtime_path.write_bytes(stale)
    assert folder.find_runtime() is None
    with folder.hold():
        assert not folder.runtime_path.exists()


def test_runtime_file_of_another_process_than_the_holder_is_not_believed(
    folder: DataFolder,
) -> None:
    with folder.hold() as held:
        held.publish(url="http://127.0.0.1:1", version="1")
        document = json.loads(folder.runtime_path.read_bytes())
        folder.runtime_path.write_text(json.dumps(document | {"pid": 1}))
        assert folder.find_runtime() is None


def test_runtime_file_of_a_newer_version_may_say_more(folder: DataFolder) -> None:
    with folder.hold() as held:
        published = held.publish(url="http://127.0.0.1:1", version="9")
        document = json.loads(folder.runtime_path.read_bytes())
        folder.runtime_path.write_text(json.dumps(document | {"socket": "/run/x"}))
        assert folder.find_runtime() == published


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", "\x00", '{"url": 1}'])
def test_damaged_runtime_file_of_a_live_server_is_reported(folder: DataFolder, text: str) -> None:
    with folder.hold():
        folder.runtime_path.write_text(text)
        with pytest.raises(DataFolderUnusable, match=r"runtime\.json is damaged"):
            folder.find_runtime()
    folder.prepare()
    folder.runtime_path.write_text(text)
    assert folder.find_runtime() is None


def test_secret_key_is_made_once(folder: DataFolder) -> None:
    key = folder.secret_key()
    assert len(key) >= 64
    assert DataFolder(folder.path).secret_key() == key
    folder.secret_key_path.chmod(0o644)
    assert folder.secret_key() == key
    assert mode_of(folder.secret_key_path) == 0o600


def test_secret_key_made_by_another_at_the_same_moment_wins(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_link = os.link

    def link_second(source: Path, target: Path) -> None:
        monkeypatch.undo()
        folder.secret_key_path.write_text("k" * 64)
        real_link(source, target)

    monkeypatch.setattr(os, "link", link_second)
    assert folder.secret_key() == "k" * 64
    assert [path.name for path in folder.path.iterdir()] == ["secret-key"]


@pytest.mark.parametrize("text", ["", "short"])
def test_damaged_secret_key_is_refused(folder: DataFolder, text: str) -> None:
    folder.prepare()
    folder.secret_key_path.write_text(text)
    with pytest.raises(DataFolderUnusable, match="holds no key"):
        folder.secret_key()


def test_chain_key_is_made_once_and_never_in_place_of_a_damaged_one(folder: DataFolder) -> None:
    key = folder.chain_key()
    assert len(key) >= 64
    assert key != folder.secret_key()
    assert DataFolder(folder.path).chain_key() == key
    folder.chain_key_path.write_text("torn")
    with pytest.raises(DataFolderUnusable, match="bring it back from a copy"):
        folder.chain_key()
    assert folder.chain_key_path.read_text() == "torn"


def test_empty_node_id_is_made_anew_and_a_damaged_one_refused(folder: DataFolder) -> None:
    folder.prepare()
    folder.node_path.touch()
    folder.hold().release()
    folder.node_path.write_text("not an id, but long enough for one.....")
    with pytest.raises(DataFolderUnusable, match="node-id is damaged"):
        folder.hold()
    assert folder.find_holder() is None


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.touch()
    below = DataFolder(path / "deep" / "below")
    for folder in (DataFolder(path), below):
        for act in (folder.prepare, folder.hold, folder.secret_key):
            with pytest.raises(DataFolderUnusable, match=f"{path} is a file; name another"):
                act()
        assert folder.find_runtime() is None


@pytest.mark.parametrize("act", [DataFolder.prepare, DataFolder.hold, DataFolder.secret_key])
def test_full_disk_is_refused_clearly_and_leaves_no_scraps(
    folder: DataFolder, act: Callable[[DataFolder], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(DataFolderUnusable, match="No space left on device"):
        act(folder)
    monkeypatch.undo()
    assert folder.find_holder() is None
    assert not list(folder.path.iterdir())


def test_full_disk_at_publish_keeps_the_lock_and_says_so(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with folder.hold() as held:
        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(DataFolderUnusable, match="No space left on device"):
            held.publish(url="http://127.0.0.1:1", version="1")
        assert sorted(path.name for path in folder.path.iterdir()) == ["node-id"]
