"""What a column may hold, checked twice: by the database for a whole table, by us row by row.

Both tests follow from the kinds of a `Table`'s columns. The database's says whether any row of a
session needs a closer look; ours says which column of it holds what.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

from memory.engine.limits import COUNTER_MAX
from memory.fields import UUID_TEXT
from memory.store import codecs
from memory.store.codecs import Kind, Row, Table
from memory.store.dialects import Dialect
from memory.store.soundness import shown


def soundness_sql(table: Table, dialect: Dialect) -> str:
    """An SQL condition: false for a row with a value that its column may not hold.

    Ids and enums are left out: the reader looks them up or checks their spelling anyway.
    """
    tests = []
    for column, kind in zip(table.columns, table.kinds, strict=True):
        test = _column_sql(column, kind, dialect)
        if test is not None:
            tests.append(f"({column} IS NULL OR {test})" if kind in _NULLABLE else test)
    return " AND ".join(tests)


_NULLABLE: Final = frozenset(
    {
        *(Kind.ID_OR_NULL, Kind.TEXT_OR_NULL, Kind.MICROS_OR_NULL, Kind.COUNT_OR_NULL),
        Kind.STATUS_OR_NULL,
    }
)


def _column_sql(column: str, kind: Kind, dialect: Dialect) -> str | None:
    match kind:
        case Kind.MICROS | Kind.MICROS_OR_NULL:
            bounds = f"{column} BETWEEN {codecs.MICROS_MIN} AND {codecs.MICROS_MAX}"
            return f"({dialect.is_integer.format(column)} AND {bounds})"
        case Kind.COUNT | Kind.COUNT_OR_NULL:
            bounds = f"{column} BETWEEN 0 AND {COUNTER_MAX}"
            return f"({dialect.is_integer.format(column)} AND {bounds})"
        case Kind.WEIGHT:
            bounds = f"{column} BETWEEN 0 AND {sys.float_info.max}"
            return f"({dialect.is_real.format(column)} AND {bounds})"
        case Kind.FLAG:
            return dialect.is_flag.format(column)
        case Kind.TEXT | Kind.TEXT_OR_NULL:
            return dialect.is_text.format(column)
        case _:
            return None


def ids_are_sound(rows: Sequence[Row], table: Table) -> bool:
    """Whether all rows have a well-spelled id in each id column that nothing else looks up.

    References are looked up among ids that have passed this test. So the first column is enough,
    but for audit rows, which may name a concept that is gone.
    """
    if table is codecs.SYNONYMS:
        return True
    if table in (codecs.TRANSITIONS, codecs.ENTRIES):
        return all(row_fault(table, row) is None for row in rows)
    return ids_are_well_spelled([row[0] for row in rows])


_ID_LENGTH: Final = 36
_HYPHENS_AT: Final = (8, 13, 18, 23)


def ids_are_well_spelled(ids: Sequence[Any]) -> bool:
    """Whether every value is a UUID in lower case with hyphens: few passes over all at once."""
    if set(map(type, ids)) != {str} or set(map(len, ids)) != {_ID_LENGTH}:
        return False
    joined = "".join(ids)
    return (
        joined.isascii()
        and not joined.encode().translate(None, b"0123456789abcdef-")
        and joined.count("-") == len(_HYPHENS_AT) * len(ids)
        and all(joined[at::_ID_LENGTH] == "-" * len(ids) for at in _HYPHENS_AT)
    )


def row_fault(table: Table, row: Row) -> str | None:
    """Which column of a row holds what it may not, as the reason of a sentence; or None."""
    for column, kind, value in zip(table.columns, table.kinds, row, strict=True):
        if not is_sound(kind, value):
            return f"its {column} is {shown(value)}, which is not {kind.value}"
    return None


def is_sound(kind: Kind, value: Any) -> bool:
    """Whether a column of this kind may hold this value."""
    if value is None:
        return kind in _NULLABLE
    match kind:
        case Kind.ID | Kind.ID_OR_NULL:
            return isinstance(value, str) and UUID_TEXT.fullmatch(value) is not None
        case Kind.TEXT | Kind.TEXT_OR_NULL:
            return isinstance(value, str)
        case Kind.MICROS | Kind.MICROS_OR_NULL:
            return type(value) is int and codecs.MICROS_MIN <= value <= codecs.MICROS_MAX
        case Kind.COUNT | Kind.COUNT_OR_NULL:
            return codecs.count_is_sound(value)
        case Kind.WEIGHT:
            return type(value) is float and 0 <= value < math.inf
        case Kind.FLAG:
            return type(value) in (bool, int) and value in (0, 1)
        case Kind.CONCEPT_TYPE:
            return value in codecs.CONCEPT_TYPES
        case Kind.STATUS | Kind.STATUS_OR_NULL:
            return value in codecs.STATUSES
        case Kind.AUDIT_KIND:
            return value in codecs.AUDIT_KINDS
        case Kind.EDGE_TYPE:
            return value in codecs.EDGE_TYPES
