"""The file of a backup: what it refuses, and that a failure leaves nothing of its name."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memory.backup.archive import Archive, ArchiveWriter, new_manifest
from memory.backup.cells import read_row, write_row
from memory.backup.errors import BackupFailed, InvalidBackup

ROWS: list[list[Any]] = [["a", 1, None], ["b", 2.5, True], ["ü\n", -3, b"\x00\xff"]]
COLUMNS = ("name", "number", "mark")


def make(path: Path, *, rows: list[list[Any]] = ROWS, key: str | None = None) -> Path:
    with ArchiveWriter(path) as writer:
        writer.add_table("things", "engine", COLUMNS, rows)
        manifest = new_manifest(
            writer,
            made_at=1_700_000_000_000_000,
            sessions=(),
            chains=(),
            chain_key_fingerprint=None,
            has_chain_key=key is not None,
        )
        assert writer.finish(manifest, chain_key=key) == path.with_name(path.name).stat().st_size
    return path


def seal(path: Path) -> None:
    """Put the right checksum at the end of a file that was changed on purpose."""
    body = path.read_bytes()[:-64]
    path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())


def changed_manifest(path: Path, **changes: Any) -> None:
    """The same backup with another manifest, sealed as a whole one."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
        comment = old.comment
    document = json.loads(members["manifest.json"]) | changes
    members["manifest.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members.items():
            new.writestr(name, data)
        new.comment = comment
    seal(path)


def refusal(path: Path) -> str:
    with pytest.raises(InvalidBackup) as told, Archive(path) as archive:
        list(archive.check_tables())
    assert told.value.code == "invalid_backup"
    assert str(path) in told.value.message
    return told.value.message


def test_what_was_written_is_read(tmp_path: Path) -> None:
    with Archive(make(tmp_path / "b", key="a key")) as archive:
        assert list(archive.rows("things")) == ROWS
        assert archive.chain_key == "a key"
        (part,) = archive.check_tables()
    lines = b"".join(map(write_row, ROWS))
    assert (part.row_count, part.columns) == (3, COLUMNS)
    assert part.sha256 == hashlib.sha256(lines).hexdigest()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_the_file_is_a_zip_that_any_tool_opens(tmp_path: Path) -> None:
    with zipfile.ZipFile(make(tmp_path / "b")) as file:
        assert file.testzip() is None
        lines = file.read("tables/things.jsonl").decode().splitlines()
        assert json.loads(file.read("manifest.json"))["tables"][0]["rows"] == 3
    assert [json.loads(line) for line in lines][:2] == ROWS[:2]


def test_every_byte_that_is_changed_is_found(tmp_path: Path) -> None:
    whole = make(tmp_path / "b").read_bytes()
    damaged = tmp_path / "damaged"
    for at in range(len(whole)):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(InvalidBackup):
            Archive(damaged)


def test_every_end_that_is_missing_is_found(tmp_path: Path) -> None:
    whole = make(tmp_path / "b").read_bytes()
    short = tmp_path / "short"
    for size in range(len(whole)):
        short.write_bytes(whole[:size])
        with pytest.raises(InvalidBackup, match="cut short, or is none"):
            Archive(short)
    short.write_bytes(whole + b"x")
    assert "cut short" in refusal(short)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version": 2, "made_by": "9.9"}, "its format is version 2, made by lambo '9.9'"),
        ({"version": "1"}, "its format is version '1'"),
        ({"format": "other"}, "its manifest is not that of a backup"),
        ({"tables": [{"name": "things"}]}, "its manifest cannot be read"),
        ({"made_at": "yesterday"}, "its manifest cannot be read"),
    ],
)
def test_another_version_is_refused_by_name(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "b")
    changed_manifest(path, **changes)
    assert told in refusal(path)


def test_a_table_that_does_not_fit_the_manifest_is_named(tmp_path: Path) -> None:
    path = make(tmp_path / "b")
    with Archive(path) as archive:
        table = archive.manifest.as_json()["tables"][0]
    changed_manifest(path, tables=[{**table, "rows": 4}])
    assert "things does not fit the manifest: 3 of 4 rows" in refusal(path)
    changed_manifest(path, tables=[{**table, "sha256": "0" * 64}])
    assert "things does not fit the manifest" in refusal(path)


def test_a_missing_file_and_one_that_is_no_zip_are_told_apart(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none")
    other = tmp_path / "other"
    other.write_bytes(b"hello" * 100)
    assert "cut short, or is none" in refusal(other)
    other.write_bytes(b"hello" * 100 + b"lambo-backup sha256 " + b"0" * 64)
    assert "its bytes do not fit its checksum" in refusal(other)
    seal(other)
    assert "it cannot be read" in refusal(other)


def test_a_file_that_exists_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_text("precious")
    with pytest.raises(BackupFailed, match="exists already"):
        make(path)
    assert path.read_text() == "precious"
    assert [one.name for one in tmp_path.iterdir()] == ["b"]


def test_a_name_that_is_taken_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with ArchiveWriter(path) as writer:
        manifest = new_manifest(
            writer, made_at=0, sessions=(), chains=(), chain_key_fingerprint=None,
            has_chain_key=False,
        )  # fmt: skip
        path.write_text("precious")
        with pytest.raises(BackupFailed, match="File exists"):
            writer.finish(manifest, chain_key=None)
    assert path.read_text() == "precious"
    assert [one.name for one in tmp_path.iterdir()] == ["b"]


def test_a_backup_that_fails_on_the_way_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a row holds no object"):
        make(tmp_path / "b", rows=[["a", object(), 1]])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="No such file"):
        make(tmp_path / "nowhere" / "b")


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"{}", b"[1]", b"[1,2,3]", b"[1,[2]]", b'[1,{"base64":"*"}]', b'[1,{"x":1}]',
     b'[1,{"number":"two"}]', b"[1,{}]", b'[1,"\xff"]'],
)  # fmt: skip
def test_a_line_that_is_no_row_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidBackup, match="no row of 2 columns"):
        read_row(line, 2)
