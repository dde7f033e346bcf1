"""Rows in a backup come back as they were; ids that are given anew keep order and reference."""

from __future__ import annotations

import json
import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory.backup.adopting import remapped_json, remapper
from memory.backup.cells import read_row, write_row

CELLS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text()
    | st.binary(max_size=40)
)
IDS = st.integers(0, 2**128 - 1).map(lambda number: str(uuid.UUID(int=number)))


def told(cell: Any) -> tuple[str, str]:
    """A cell by type and spelling: not a number is one, and zero has two signs."""
    return type(cell).__name__, repr(cell)


@given(st.lists(CELLS, max_size=8))
def test_a_row_comes_back_cell_by_cell_and_type_by_type(row: list[Any]) -> None:
    line = write_row(row)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert [told(cell) for cell in read_row(line, len(row))] == [told(cell) for cell in row]


@given(st.sets(IDS, min_size=2, max_size=20), st.text(), st.text())
def test_new_ids_are_as_many_and_belong_to_their_salt(ids: set[str], salt: str, other: str) -> None:
    remap = remapper(salt)
    renamed = {remap(one) for one in ids}
    assert len(renamed) == len(ids)
    assert all(remap(one) != one for one in ids)
    assert {remap(one) for one in renamed} == ids, "the same change twice leads back"
    if salt != other:
        assert all(remapper(other)(one) != remap(one) for one in ids)


@given(st.lists(st.integers(0, 2**76 - 1), unique=True, max_size=20), st.text())
def test_ids_that_were_made_in_order_stay_in_order(ticks: list[int], salt: str) -> None:
    ids = [str(uuid.UUID(int=tick << 52)) for tick in sorted(ticks)]
    remap = remapper(salt)
    assert [remap(one) for one in ids] == sorted(map(remap, ids))


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | IDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


@given(JSON, IDS)
def test_a_document_keeps_its_shape_and_peoples_words(document: Any, word: str) -> None:
    remap = remapper("salt")
    twice = remapped_json(remapped_json(document, remap), remap)
    assert json.dumps(twice) == json.dumps(document)
    spoken = {"content": word, "names": [word, None], "node_id": word}
    renamed = remapped_json(spoken, remap)
    assert renamed == {"content": word, "names": [word, None], "node_id": remap(word)}
