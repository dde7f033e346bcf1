"""One row as one line of JSON, the same whichever database engine it came from.

A cell is null, true or false, a whole number, a finite number or text, written as JSON writes
them; bytes and numbers that are not finite, which JSON has no word for, are objects of one field.
Knows no table and no file.

Invariant: `read_row(write_row(row))` is the row, cell by cell and type by type.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final

from memory.backup.errors import InvalidBackup

_BYTES: Final = "base64"
_NUMBER: Final = "number"
_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_FLOATS: Final = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def write_row(row: Sequence[Any]) -> bytes:
    """The line of a row, its end included.

    Raises `TypeError`, or `ValueError` for half a surrogate pair: cells no database gives.
    """
    if all(type(cell) in _PLAIN for cell in row):
        try:
            text = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode() + b"\n"
        except ValueError:
            pass  # a number that is not finite
    cells = [_word(cell) for cell in row]
    return json.dumps(cells, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _word(cell: Any) -> Any:
    if isinstance(cell, bytes | memoryview):
        return {_BYTES: base64.b64encode(cell).decode()}
    if isinstance(cell, float) and repr(cell) in _FLOATS:
        return {_NUMBER: repr(cell)}
    if cell is None or isinstance(cell, bool | int | float | str):
        return cell
    raise TypeError(f"a row holds no {type(cell).__name__}")


def read_row(line: bytes, width: int) -> list[Any]:
    """The cells of a line. Raises `InvalidBackup` for what is no row of this width."""
    try:
        cells = json.loads(line)
        if not isinstance(cells, list) or len(cells) != width:
            raise ValueError("no row")
        for at, cell in enumerate(cells):
            if isinstance(cell, dict):
                cells[at] = _value(cell)
            elif isinstance(cell, list):
                raise ValueError("no cell")
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise InvalidBackup(f"a line is no row of {width} columns") from error
    return cells


def _value(word: dict[str, Any]) -> bytes | float:
    ((kind, text),) = word.items()
    if kind == _BYTES:
        return base64.b64decode(text, validate=True)
    if kind == _NUMBER:
        return _FLOATS[text]
    raise ValueError("no cell")
