"""The audit trail as a file: CSV or JSON, as narrow as the list it is asked from.

Owns the columns, the bound and the way rows are read: their ids, then a slice at a time, so that no
reader holds an old page of the database while somebody's connection is slow. Columns that hold text
of the memory are left out, since a file is out of reach of a purge.

Invariant: no cell of the CSV begins a formula in a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from memory.engine.times import format_rfc3339
from memory.models import AuditEvent

EXPORT_ROWS_MAX: Final = 100_000
SLICE_ROWS: Final = 1_000
FORMATS: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json"}

HELD_BACK: Final = frozenset({"texts", "removed"})
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def export_columns() -> list[str]:
    """The columns of an exported row, in the table's order."""
    return [
        field.attname for field in AuditEvent._meta.concrete_fields if field.name not in HELD_BACK
    ]


def export(request: HttpRequest, rows: QuerySet[Any], form: str) -> StreamingHttpResponse:
    """The rows, newest first, at most `EXPORT_ROWS_MAX`; a header says if there are more."""
    # All ids at once, sorted once: no index knows the order of every filter, and a slice that had
    # to be looked for would sort what is left anew each time.
    ids = list(rows.order_by("-id").values_list("id", flat=True)[: EXPORT_ROWS_MAX + 1])
    is_cut = len(ids) > EXPORT_ROWS_MAX
    parts = (_csv if form == "csv" else _json)(_slices(rows.db, ids[:EXPORT_ROWS_MAX]))
    # Django hands a plain iterator to an ASGI server only after reading it to its end.
    is_asynchronous = hasattr(request, "scope")
    response = StreamingHttpResponse(
        _off_the_loop(parts) if is_asynchronous else parts, content_type=FORMATS[form]
    )
    name = f"audit-first-{EXPORT_ROWS_MAX}" if is_cut else "audit"
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    response["Cache-Control"] = "no-store"
    response["Lambo-Truncated"] = str(is_cut).lower()
    return response


async def _off_the_loop(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    def next_part() -> bytes | None:
        return next(parts, None)

    while (part := await sync_to_async(next_part)()) is not None:
        yield part


def _slices(alias: str, ids: Sequence[str]) -> Iterator[Sequence[dict[str, Any]]]:
    columns = export_columns()
    instants = [
        field.attname
        for field in AuditEvent._meta.concrete_fields
        if type(field).__name__ == "MicrosField"
    ]
    stored = AuditEvent.objects.using(alias).order_by("-id").values(*columns)
    for start in range(0, len(ids), SLICE_ROWS):
        found = list(stored.filter(id__in=ids[start : start + SLICE_ROWS]))
        for row in found:
            for name in instants:
                row[name] = None if row[name] is None else format_rfc3339(row[name])
            if isinstance(row.get("detail"), str):
                row["detail"] = _parsed(row["detail"])
        yield found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _csv(slices: Iterator[Sequence[dict[str, Any]]]) -> Iterator[bytes]:
    columns = export_columns()
    yield _line(columns)
    for rows in slices:
        yield b"".join(_line([_cell(row[name]) for name in columns]) for row in rows)


def _line(cells: Sequence[str]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue().encode()


def _cell(value: Any) -> str:
    """A value as text that no spreadsheet takes for a formula; numbers keep their sign."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _json(slices: Iterator[Sequence[dict[str, Any]]]) -> Iterator[bytes]:
    is_first = True
    yield b"["
    for rows in slices:
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        yield f"{'' if is_first else ','}\n{lines}".encode()
        is_first = False
    yield b"\n]\n"
