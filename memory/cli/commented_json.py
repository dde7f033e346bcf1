"""JSON as people keep it: with comments and trailing commas, and edited without losing any of it.

Owns the reading of such a text and four edits, each a splice: put a member, remove it, add an item
to a list, remove one. Everything else stays as it is, byte for byte. Refuses with `Malformed` what
it cannot read whole, and checks each of its edits by reading the outcome again.

Invariant: an edited text reads as the old one does, with the one change that was asked for.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

DEPTH_MAX: Final = 200
INDENT: Final = "  "

_STRING: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n\ufeff]+")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SCALAR: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")

Path = Sequence[str]


class Malformed(ValueError):
    """The text is not JSON, comments and trailing commas aside, or has no place for an edit."""


@dataclass(slots=True)
class _Entry:
    """A member or an item: from its key, or its value, to the end of its value."""

    start: int
    value: _Node
    key: str | None = None


@dataclass(slots=True)
class _Node:
    """A value and where it stands. `comma` is behind the last entry of a container, if any."""

    start: int
    end: int
    data: Any
    entries: list[_Entry] = field(default_factory=list)
    comma: int | None = None

    def member(self, key: str) -> _Entry | None:
        return next((entry for entry in self.entries if entry.key == key), None)


def read(text: str) -> Any:
    """The value of a text; of a blank one, an empty object."""
    return _parse(text).data


def find(value: Any, path: Path) -> Any:
    """What stands at a path of objects, or None."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def put(text: str, path: Path, value: Any) -> str:
    """The text with `value` at `path`; objects on the way are made where they are missing."""
    text = text if text.strip("\ufeff \t\r\n") else text + "{}\n"
    node, rest = _descend(_parse(text), path)
    expected = copy.deepcopy(read(text))
    holder = expected
    for key in path[:-1]:
        holder = holder.setdefault(key, {})
    holder[path[-1]] = value
    if not rest:
        entry = _wanted(node, path[-1])
        lines = _rendered(value, _indent_at(text, entry.start), text)
        return _checked(_splice(text, entry.value.start, entry.value.end, lines), expected)
    for key in reversed(rest[1:]):
        value = {key: value}
    return _checked(_insert(text, node, value, key=rest[0]), expected)


def remove(text: str, path: Path) -> str:
    """The text without the member at `path`, which must be there."""
    node, rest = _descend(_parse(text), path)
    if rest:
        raise Malformed(f"there is no {'.'.join(path)}")
    expected = copy.deepcopy(read(text))
    del find(expected, path[:-1])[path[-1]]
    return _checked(_cut(text, node, _wanted(node, path[-1])), expected)


def append(text: str, path: Path, item: Any) -> str:
    """The text with an item added to the list at `path`, which is made if it is missing."""
    held = find(read(text), path)
    if held is None:
        return put(text, path, [item])
    node = _list_at(text, path)
    expected = copy.deepcopy(read(text))
    find(expected, path).append(item)
    return _checked(_insert(text, node, item, key=None), expected)


def remove_item(text: str, path: Path, item: Any) -> str:
    """The text without the first item of the list at `path` that equals `item`."""
    node = _list_at(text, path)
    entry = next((entry for entry in node.entries if entry.value.data == item), None)
    if entry is None:
        raise Malformed(f"{'.'.join(path)} has no such item")
    expected = copy.deepcopy(read(text))
    find(expected, path).remove(item)
    return _checked(_cut(text, node, entry), expected)


# -- finding the place -----------------------------------------------------------------------------


def _descend(root: _Node, path: Path) -> tuple[_Node, list[str]]:
    """The innermost object on the way, and the keys that are missing in it."""
    node = root
    for place, key in enumerate(path):
        if not isinstance(node.data, dict):
            raise Malformed(f"{'.'.join(path[:place]) or 'the file'} is no object")
        entry = node.member(key)
        if entry is None:
            return node, list(path[place:])
        if place < len(path) - 1:
            node = entry.value
    return node, []


def _list_at(text: str, path: Path) -> _Node:
    node, rest = _descend(_parse(text), path)
    entry = None if rest else node.member(path[-1])
    if entry is None or not isinstance(entry.value.data, list):
        raise Malformed(f"{'.'.join(path)} is no list")
    return entry.value


def _wanted(node: _Node, key: str) -> _Entry:
    entry = node.member(key)
    assert entry is not None, "the way there was found"
    return entry


# -- edits -----------------------------------------------------------------------------------------


def _insert(text: str, node: _Node, value: Any, *, key: str | None) -> str:
    """Add an entry at the end of a container, in the manner of those that are there."""
    close = node.end - 1
    inside = text[node.start + 1 : close]
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if node.entries and "\n" not in inside:
        comma = "" if node.comma is not None else ", "
        at = node.entries[-1].value.end if node.comma is None else node.comma
        gap = comma or " "
        return _splice(text, at, at, gap + name + json.dumps(value, ensure_ascii=False))
    first = node.entries[0].start if node.entries else None
    outer = _indent_at(text, node.start)
    inner = outer + INDENT if first is None else _indent_at(text, first)
    newline = _newline(text)
    # Behind the last entry and the comments that follow it.
    at = node.start + 1 + len(inside.rstrip())
    added = newline + inner + name + _rendered(value, inner, text)
    if node.comma is not None:
        added += ","
    if "\n" not in text[at:close]:
        added += newline + outer
    # White space before a closing mark on the same line gives way to the mark's own line.
    text = _splice(text, at, at if "\n" in text[at:close] else close, added)
    if node.entries and node.comma is None:
        end = node.entries[-1].value.end
        text = _splice(text, end, end, ",")
    return text


def _cut(text: str, node: _Node, entry: _Entry) -> str:
    """Take an entry out, with one comma and the white space before it."""
    at = node.entries.index(entry)
    is_last = at == len(node.entries) - 1
    start = len(text[: entry.start].rstrip(" \t\r\n"))
    end = entry.value.end
    if not is_last:
        return text[:start] + text[_behind_comma(text, end) :]
    if node.comma is not None:
        return text[:start] + text[end : node.comma - 1] + text[node.comma :]
    if at == 0:
        rest = text[end : node.end - 1]
        return text[:start] + (rest if rest.strip() else "") + text[node.end - 1 :]
    before = node.entries[at - 1].value.end
    comma = _behind_comma(text, before)
    return text[: comma - 1] + text[comma:start] + text[end:]


def _behind_comma(text: str, at: int) -> int:
    at = _skip(text, at)
    assert text[at] == ",", "entries are separated by commas"
    return at + 1


def _splice(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _rendered(value: Any, indent: str, text: str) -> str:
    """A value over several lines, for a place that is indented so far."""
    lines = json.dumps(value, ensure_ascii=False, indent=len(INDENT)).split("\n")
    return (_newline(text) + indent).join(lines)


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))].lstrip("\ufeff")


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _checked(text: str, expected: Any) -> str:
    if read(text) != expected:
        raise Malformed("the file is written in a way that cannot be edited safely")
    return text


# -- reading ---------------------------------------------------------------------------------------


def _parse(text: str) -> _Node:
    at = _skip(text, 0)
    if at == len(text):
        return _Node(at, at, {})
    node = _value(text, at, 0)
    end = _skip(text, node.end)
    if end != len(text):
        _refuse(text, end, "something stands behind the end")
    return node


def _skip(text: str, at: int) -> int:
    """Behind white space and comments."""
    while True:
        found = _BLANK.match(text, at) or _COMMENT.match(text, at)
        if found is None:
            return at
        at = found.end()


def _value(text: str, at: int, depth: int) -> _Node:
    if depth > DEPTH_MAX:
        _refuse(text, at, "nested too deeply")
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _container(text, at, depth, closing="}" if opening == "{" else "]")
    if opening == '"':
        data, end = _string(text, at)
        return _Node(at, end, data)
    found = _SCALAR.match(text, at)
    if found is None:
        _refuse(text, at, "no value")
    return _Node(at, found.end(), json.loads(found[0]))


def _container(text: str, at: int, depth: int, *, closing: str) -> _Node:
    node = _Node(at, at, {} if closing == "}" else [])
    at = _skip(text, at + 1)
    while text[at : at + 1] != closing:
        entry = _entry(text, at, depth, is_member=closing == "}")
        if entry.key is not None:
            if entry.key in node.data:
                _refuse(text, entry.start, f"{entry.key!r} stands there twice")
            node.data[entry.key] = entry.value.data
        else:
            node.data.append(entry.value.data)
        node.entries.append(entry)
        at = _skip(text, entry.value.end)
        node.comma = None
        if text[at : at + 1] == ",":
            node.comma = at + 1
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            _refuse(text, at, "a comma is missing")
    node.end = at + 1
    return node


def _entry(text: str, at: int, depth: int, *, is_member: bool) -> _Entry:
    if not is_member:
        return _Entry(at, _value(text, at, depth + 1))
    if text[at : at + 1] != '"':
        _refuse(text, at, "no name of a member")
    key, end = _string(text, at)
    end = _skip(text, end)
    if text[end : end + 1] != ":":
        _refuse(text, end, "a colon is missing")
    return _Entry(at, _value(text, _skip(text, end + 1), depth + 1), key)


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        data, end = _STRING.raw_decode(text, at)
    except ValueError:
        _refuse(text, at, "a text without end, or with a character that must be escaped")
    return data, end


def _refuse(text: str, at: int, why: str) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    raise Malformed(f"{why} (line {line}, column {column})")
