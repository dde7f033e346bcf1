"""Reading the reference server's file: all of it, or an error that names the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory.imports.importing import ImportRefused
from memory.imports.mcp_memory import LINE_BYTES_MAX, read_memory_file

ADA = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["is 36", "knits"]}
WORKS = {"type": "relation", "from": "Ada", "to": "Engine", "relationType": "works_on"}


def written(folder: Path, *lines: object) -> Path:
    """A file of lines: bytes as they are, all else as JSON."""
    path = folder / "memory.jsonl"
    data = [
        line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()
        for line in lines
    ]
    path.write_bytes(b"\n".join(data))
    return path


def test_entities_observations_and_relations_are_read_each_once(tmp_path: Path) -> None:
    more = {**ADA, "entityType": "other", "observations": ["knits", "likes tea"]}
    path = written(tmp_path, b"\xef\xbb\xbf" + json.dumps(ADA).encode(), b"", more, WORKS, WORKS)
    file = read_memory_file(path)
    (ada,) = file.entities.values()
    assert (ada.name, ada.type) == ("Ada", "person")
    assert list(ada.observations) == ["is 36", "knits", "likes tea"]
    assert [relation.text for relation in file.relations] == ["Ada works_on Engine"]
    assert file.loose == ["Engine"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "not JSON in UTF-8"),
        (b'{"type": "entity", "name": "caf\xe9"}', "not JSON in UTF-8"),
        (b"[" * 100_000, "not JSON in UTF-8"),
        (b"[]", "a line must be a JSON object"),
        ({"type": "note"}, "type must be entity or relation"),
        ({"name": "Ada"}, "type must be entity or relation"),
        ({**ADA, "name": 7}, "name must be a non-empty string"),
        ({**ADA, "name": " "}, "name must be a non-empty string"),
        ({**ADA, "name": "the"}, "name must contain a word that is not a stop word"),
        ({**ADA, "entityType": None}, "entityType must be a non-empty string"),
        ({**ADA, "observations": "one"}, "observations must be a list"),
        ({**ADA, "observations": ["fine", 3]}, "observations[1] must be a non-empty string"),
        (
            {**ADA, "observations": ["\x00"]},
            "observations[0] contains the control character U+0000",
        ),
        ({**ADA, "observations": ["x" * 16_384]}, "observations[0] with its entity exceeds"),
        ({**WORKS, "to": None}, "to must be a non-empty string"),
        ({**WORKS, "relationType": ""}, "relationType must be a non-empty string"),
        (b'{"type": "entity", "name": "\\ud800"}', "unpaired surrogate"),
        (b" " * (LINE_BYTES_MAX + 2), f"longer than {LINE_BYTES_MAX} bytes"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(line: object, told: str, tmp_path: Path) -> None:
    path = written(tmp_path, ADA, line, WORKS)
    with pytest.raises(ImportRefused) as error:
        read_memory_file(path)
    assert error.value.message.startswith(f"{path} line 2: ")
    assert told in error.value.message
    assert len(error.value.message) < len(str(path)) + 250


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match="No such file"):
        read_memory_file(tmp_path / "none")
