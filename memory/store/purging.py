"""Blanking a text in the rows that are no part of the graph: what `PurgeText` means in SQL.

No database compares spellings as we do, so the rows of the session are read slice by slice and
judged by the rules of `memory.engine.traces`; those that a purge changes are written back. So a
purge that is replayed finds nothing more, and counting the traces is the same work without the
writing. Linear in what the session's receipts, events, letters, rows set aside and audit rows hold.

Knows no concepts, prompts, synonyms or goals: these are purged by mutations of the graph.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from django.db.backends.utils import CursorWrapper

from memory.engine.mutations import PurgeText
from memory.engine.traces import (
    BLANK,
    Needles,
    blanked,
    blanked_entry,
    holds,
    may_hold,
    needles_of,
)
from memory.store import audit, codecs
from memory.store.dialects import Dialect

ROWS_PER_SLICE: Final = 200

Parameters: TypeAlias = list[Any]


class _Search(NamedTuple):
    """One search for the traces of a text in one session."""

    cursor: CursorWrapper
    dialect: Dialect
    session_id: str
    purge: PurgeText
    needles: Needles

    def rows(self, table: str, names: tuple[str, ...], texts: tuple[str, ...]) -> Iterator[Any]:
        """The columns of the session's rows; of `texts`, text from any hand, None for null."""
        # What a foreign hand made undecodable must not keep a text from being erased.
        columns = ", ".join((*names, *map(self.dialect.as_bytes.format, texts)))
        self.cursor.execute(
            f"SELECT {columns} FROM {table} WHERE session_id = %s", [self.session_id]
        )
        while rows := self.cursor.fetchmany(ROWS_PER_SLICE):
            for row in rows:
                yield (*row[: len(names)], *map(_decoded, row[len(names) :]))

    def in_json(self, text: str | None) -> bool:
        """Whether a string within JSON text is a trace; what is no JSON is searched as it is."""
        if text is None or not may_hold(text, self.needles):
            return False
        try:
            value = json.loads(text)
        except ValueError:
            return holds(text, self.needles)
        return bool(blanked(value, self.needles) != value)

    def names_concept(self, text: str | None) -> bool:
        """Whether a text names one of the concepts that bore the text."""
        return text is not None and any(name in text for name in self.purge.concept_ids)


def purge(cursor: CursorWrapper, dialect: Dialect, session_id: str, mutation: PurgeText) -> None:
    """Blank every trace of a text in a session."""
    for step in _STEPS.values():
        for statement, parameters in list(step(_search(cursor, dialect, session_id, mutation))):
            cursor.execute(statement, parameters)


def find_traces(
    cursor: CursorWrapper, dialect: Dialect, session_id: str, mutation: PurgeText
) -> Mapping[str, int]:
    """How many rows `purge` would blank now, by table; tables without any are left out."""
    counts: Counter[str] = Counter()
    for table, step in _STEPS.items():
        counts[table] += sum(1 for _ in step(_search(cursor, dialect, session_id, mutation)))
    return +counts


def find_audit_ids(
    cursor: CursorWrapper, dialect: Dialect, session_id: str, mutation: PurgeText
) -> list[str]:
    """The audit rows that `purge` would blank now."""
    search = _search(cursor, dialect, session_id, mutation)
    return [str(parameters[-1]) for _, parameters in _audit_rows(search)]


def _search(
    cursor: CursorWrapper, dialect: Dialect, session_id: str, mutation: PurgeText
) -> _Search:
    return _Search(cursor, dialect, session_id, mutation, needles_of(mutation.content))


def _receipts(search: _Search) -> Iterator[tuple[str, Parameters]]:
    for agent_id, key, reply in search.rows("lambo_receipt", ("agent_id", "key"), ("reply",)):
        if search.in_json(reply):
            yield (
                "UPDATE lambo_receipt SET reply = %s"
                " WHERE session_id = %s AND agent_id = %s AND key = %s",
                [
                    codecs.json_text(blanked(_parsed(reply), search.needles)),
                    *(search.session_id, agent_id, key),
                ],
            )


def _events(search: _Search) -> Iterator[tuple[str, Parameters]]:
    for event_id, data in search.rows("lambo_event", ("id",), ("data",)):
        if search.in_json(data):
            yield (
                "UPDATE lambo_event SET data = %s WHERE session_id = %s AND id = %s",
                [
                    codecs.json_text(blanked(_parsed_event(data), search.needles)),
                    *(search.session_id, event_id),
                ],
            )


def _dead_letters(search: _Search) -> Iterator[tuple[str, Parameters]]:
    """Without its arguments a call cannot be submitted again; that is what blanking it means."""
    for row_id, arguments, error in search.rows(
        "lambo_dead_letter", ("id",), ("arguments", "error")
    ):
        is_told = holds(error, search.needles)
        if is_told or search.in_json(arguments):
            yield (
                "UPDATE lambo_dead_letter SET arguments = NULL, error = %s WHERE id = %s",
                [BLANK if is_told else error, row_id],
            )


def _set_aside(search: _Search) -> Iterator[tuple[str, Parameters]]:
    """The reason cuts and escapes what it quotes: a row that may be of the concept goes whole."""
    for row_id, name, row_json, reason in search.rows(
        "lambo_set_aside", ("id",), ("row_id", "row_json", "reason")
    ):
        if row_json == "{}":
            continue
        is_named = holds(name, search.needles)
        if (
            is_named
            or name in search.purge.concept_ids
            or search.in_json(row_json)
            or holds(reason, search.needles)
            or search.names_concept(reason)
        ):
            yield (
                "UPDATE lambo_set_aside SET row_id = %s, row_json = '{}', reason = %s"
                " WHERE id = %s",
                [BLANK if is_named else name, BLANK, row_id],
            )


def _audit_rows(search: _Search) -> Iterator[tuple[str, Parameters]]:
    found = [
        audit_id
        for audit_id, node_id, *texts in search.rows(
            "lambo_audit_event", ("id", "node_id"), ("reason", "texts", "removed")
        )
        if node_id in search.purge.concept_ids
        or any(text is not None and may_hold(text, search.needles) for text in texts)
    ]
    for audit_id in found:
        search.cursor.execute(
            f"SELECT {codecs.ENTRIES.column_list} FROM lambo_audit_event WHERE id = %s", [audit_id]
        )
        (row,) = search.cursor.fetchall()
        for entry in audit.readable([row]):
            after = blanked_entry(entry, search.needles, search.purge.concept_ids)
            # What cannot be read goes with the rest of its row.
            is_broken = any(
                stored is not None and value is None
                for stored, value in zip(row[9:], entry[9:], strict=True)
            )
            if after != entry or (
                is_broken and any(holds(text, search.needles) for text in row[9:])
            ):
                yield (
                    "UPDATE lambo_audit_event SET reason = %s, texts = %s, removed = %s"
                    " WHERE id = %s",
                    [
                        after.reason,
                        *map(codecs.json_or_null, (after.texts, after.removed)),
                        audit_id,
                    ],
                )


_STEPS: Final[Mapping[str, Callable[[_Search], Iterator[tuple[str, Parameters]]]]] = {
    "receipt": _receipts,
    "event": _events,
    "dead_letter": _dead_letters,
    "set_aside": _set_aside,
    "audit_event": _audit_rows,
}


def _decoded(data: Any) -> str | None:
    return None if data is None else bytes(data).decode(errors="replace")


def _parsed_event(text: str) -> Any:
    """What a stored event says; one that a foreign hand broke says nothing more."""
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _parsed(text: str) -> Any:
    """A stored reply; one that a foreign hand broke is blanked whole."""
    try:
        return json.loads(text)
    except ValueError:
        return {"text": BLANK, "structured": {"summary": BLANK, "warnings": []}}
