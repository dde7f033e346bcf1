"""Anchors are lines that are only added; a torn one costs itself and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory.anchors import Anchor, AnchorFile, AnchorsUnusable

AT = 1_700_000_000_000_000


def anchor(session: str, sequence: int, link: str = "ab") -> Anchor:
    return Anchor(AT, session, AT - 1, sequence, link)


@pytest.fixture
def file(tmp_path: Path) -> AnchorFile:
    return AnchorFile(tmp_path / "anchors.jsonl")


def test_what_was_added_is_read_by_session_and_place(file: AnchorFile) -> None:
    assert file.read().by_session == {}
    file.append([anchor("s", 1), anchor("⏎ ünï", 7, "cd")])
    file.append([anchor("s", 3, "ef")])
    read = file.read()
    assert read.by_session == {"s": {1: "ab", 3: "ef"}, "⏎ ünï": {7: "cd"}}
    assert (read.line_count, read.unreadable_count) == (3, 0)
    assert read.of("nobody") == {}
    assert file.path.stat().st_mode & 0o777 == 0o600
    first = json.loads(file.path.read_text().splitlines()[0])
    assert first == {
        "at": "2023-11-14T22:13:20Z",
        "session": "s",
        "session_created_at": "2023-11-14T22:13:19.999999Z",
        "sequence": 1,
        "hash": "ab",
    }


def test_the_line_after_a_torn_one_does_not_join_it(file: AnchorFile) -> None:
    file.append([anchor("s", 1), anchor("s", 2)])
    whole = file.path.read_bytes()
    for cut in range(len(whole)):
        file.path.write_bytes(whole[:cut])
        file.append([anchor("t", 9)])
        read = file.read()
        assert read.of("t") == {9: "ab"}
        assert read.unreadable_count <= 1
        assert read.line_count >= 1 + whole[:cut].count(b"\n")


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        "[]",
        "3",
        "{}",
        '{"session": "s", "sequence": "1", "hash": "ab"}',
        '{"session": "s", "sequence": true, "hash": "ab"}',
        '{"session": "s", "sequence": 0, "hash": "ab"}',
        '{"session": 1, "sequence": 1, "hash": "ab"}',
        '{"session": "s", "sequence": 1, "hash": null}',
        "\ud800",
    ],
)
def test_lines_that_are_no_anchors_are_counted(file: AnchorFile, line: str) -> None:
    file.path.write_bytes(f"{line}\n\n".encode("utf-8", "surrogatepass"))
    file.append([anchor("s", 1)])
    read = file.read()
    assert (read.line_count, read.unreadable_count) == (1, 1)


def test_a_file_that_cannot_be_used_is_named(file: AnchorFile) -> None:
    file.path.mkdir()
    for use in (file.read, lambda: file.append([anchor("s", 1)])):
        with pytest.raises(AnchorsUnusable, match=str(file.path)):
            use()
