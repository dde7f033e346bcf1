"""TOML as people keep it, edited with its comments and its order left alone.

Puts a table and removes it, by tomlkit. Refuses with `Malformed` what is no TOML, and checks each
edit by what the standard library reads before and after.

Invariant: an edited text reads as the old one does, with the one change that was asked for.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Sequence
from typing import Any

from memory.cli.commented_json import Malformed, find

Path = Sequence[str]


def read(text: str) -> dict[str, Any]:
    """The document."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(str(error)) from error


def put(text: str, path: Path, value: dict[str, Any]) -> str:
    """The text with the table `value` at `path`; tables on the way are made where missing."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    expected: Any = read(text)
    holder = expected
    for key in path[:-1]:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            raise Malformed(f"{key} is no table")
    holder[path[-1]] = value
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for key in path[:-1]:
            if key not in table:
                table[key] = tomlkit.table(is_super_table=True)
            table = table[key]
        table[path[-1]] = copy.deepcopy(value)
        return _checked(tomlkit.dumps(document), expected)
    except TOMLKitError as error:
        raise Malformed(str(error)) from error


def remove(text: str, path: Path) -> str:
    """The text without the table at `path`, which must be there.

    A table around it that has no line of its own is gone with its last part. Comments that somebody
    wrote behind the table stay; where that cannot be, the text is refused.
    """
    expected: Any = read(text)
    held = find(expected, path)
    if held is None:
        raise Malformed(f"there is no {'.'.join(path)}")
    del find(expected, path[:-1])[path[-1]]
    written = put("", path, held)
    if text.count(written) == 1:
        before, _, after = text.partition(written)
        # The blank line before a table at the end came with it.
        edited = (before[:-1] if not after and before.endswith("\n\n") else before) + after
    else:
        edited = _removed(text, path)
    if not find(expected, path[:-1]) and find(read(edited), path[:-1]) is None:
        del find(expected, path[:-2])[path[-2]]
    return _checked(edited, expected)


def _removed(text: str, path: Path) -> str:
    """The same for a table that stands there in another form."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        table: Any = document
        for key in path[:-1]:
            table = table[key]
        del table[path[-1]]
        edited = tomlkit.dumps(document)
    except TOMLKitError as error:
        raise Malformed(str(error)) from error
    if edited.count("#") < text.count("#"):
        raise Malformed(f"there is a comment in {'.'.join(path)}")
    return edited


def _checked(text: str, expected: dict[str, Any]) -> str:
    if read(text) != expected:
        raise Malformed("the file is written in a way that cannot be edited safely")
    return text
