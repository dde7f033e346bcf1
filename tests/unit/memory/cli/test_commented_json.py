"""JSON with comments, edited by splices: what is asked for changes, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.cli.commented_json import Malformed, append, find, put, read, remove, remove_item

PATH = ("servers", "lambo")
ENTRY = {"command": "lambo", "args": ["mcp"], "env": {}}

KEPT = """\
{
  // what the team uses
  "inputs": [ 1, 2, ],   /* odd spacing */
  "servers": {
    "github": { "url": "https://example.org//mcp" }, // not a comment inside
    // "old": {}
  },
}
"""


def test_comments_commas_and_spacing_stay_and_come_back() -> None:
    edited = put(KEPT, PATH, ENTRY)
    assert read(edited)["servers"]["lambo"] == ENTRY
    assert [line for line in KEPT.splitlines() if line not in edited.splitlines()] == []
    assert remove(edited, PATH) == KEPT


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {"a": 1}}',
        '{\n\t"servers": {\n\t\t"a": 1\n\t}\n}\n',
        '{\r\n  "servers": {\r\n    "a": 1\r\n  }\r\n}\r\n',
        '\ufeff{\n  "servers": {\n    "a": [1,\n 2] // last\n  }\n}',
        '{"servers": {}, "b": null}\n// end',
    ],
)
def test_what_is_put_is_taken_out_to_the_byte(text: str) -> None:
    edited = put(text, PATH, ENTRY)
    assert read(edited)["servers"]["lambo"] == ENTRY
    assert ("\r\n" in edited) == ("\r\n" in text)
    assert edited.count("\n") == edited.count("\r\n") or "\r\n" not in text
    assert remove(edited, PATH) == text


@pytest.mark.parametrize("text", ["", "\n", "{}", "{\n}\n", "{ /* nothing yet */ }"])
def test_missing_objects_are_made(text: str) -> None:
    assert read(put(text, PATH, ENTRY)) == {"servers": {"lambo": ENTRY}}


def test_entry_is_replaced_where_it_stands() -> None:
    text = put(put(KEPT, PATH, ENTRY), PATH, {"command": "other"})
    assert text.count('"lambo"') == 1
    assert read(text)["servers"]["lambo"] == {"command": "other"}


def test_items_are_added_to_a_list_and_taken_out() -> None:
    text = '{\n  "hooks": {\n    "Pre": [\n      {"a": 1} // mine\n    ]\n  }\n}\n'
    edited = append(text, ("hooks", "Pre"), {"b": 2})
    assert read(edited)["hooks"]["Pre"] == [{"a": 1}, {"b": 2}]
    assert remove_item(edited, ("hooks", "Pre"), {"b": 2}) == text
    assert read(append("", ("hooks", "Pre"), 1)) == {"hooks": {"Pre": [1]}}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a": }',
        '{"a": 1 "b": 2}',
        '{"a": 1,, "b": 2}',
        '{"a": 1} {"b": 2}',
        "{'a': 1}",
        '{"a": 01}',
        '{"a": NaN}',
        '{"a": "x\ny"}',
        '{"a": 1, "a": 2}',
        '{"a": 1 /* open }',
        "[" * 5_000,
        "<<<<<<< HEAD",
    ],
)
def test_what_is_no_such_json_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        put(text, PATH, ENTRY)


@pytest.mark.parametrize(
    ("text", "path"),
    [("[]", PATH), ('{"servers": []}', PATH), ('{"servers": {"lambo": 1}}', (*PATH, "x"))],
)
def test_place_that_is_no_object_is_refused(text: str, path: tuple[str, ...]) -> None:
    with pytest.raises(Malformed):
        put(text, path, ENTRY)


def test_what_is_not_there_cannot_be_taken_out() -> None:
    with pytest.raises(Malformed):
        remove("{}", PATH)
    with pytest.raises(Malformed):
        remove_item('{"a": [1]}', ("a",), 2)
    with pytest.raises(Malformed):
        append('{"a": 1}', ("a",), 2)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(
    document=st.dictionaries(st.text(max_size=4), VALUES, max_size=4),
    entry=VALUES,
    indent=st.sampled_from([None, 1, 2, "\t"]),
)
def test_any_document_keeps_everything_else(document: Any, entry: Any, indent: Any) -> None:
    document["servers"] = {"other": entry}
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    assert read(text) == document
    edited = put(text, PATH, entry)
    assert find(read(edited), PATH) == entry
    assert remove(edited, PATH) == text


@given(st.text('{}[]":,/*\n a1', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = read(text)
    except Malformed:
        return
    assert json.loads(json.dumps(value)) == value
