"""Blanking a text in the rows that are no part of the graph: what `PurgeText` means in SQL.

The database is asked which rows hold a needle, they are read and blanked by the rules of
`memory.engine.traces`, and written back where that changed something. So a purge that is replayed
finds nothing more, and counting the traces is the same work without the writing.

Knows no concepts, prompts, synonyms or goals: these are purged by mutations of the graph.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from django.db.backends.utils import CursorWrapper

from memory.engine.mutations import PurgeText
from memory.engine.traces import BLANK, blanked, blanked_entry, holds, needles_of
from memory.store import audit, codecs
from memory.store.dialects import Dialect

Parameters: TypeAlias = list[Any]


class _Search(NamedTuple):
    """One search for the traces of a text in one session."""

    cursor: CursorWrapper
    dialect: Dialect
    session_id: str
    purge: PurgeText
    needles: tuple[str, ...]

    def rows(self, columns: str, table: str, tests: Sequence[tuple[str, str]]) -> list[Any]:
        """Rows of the session of which a test holds; a test is a format and its parameter."""
        condition = " OR ".join(test for test, _ in tests)
        self.cursor.execute(
            f"SELECT {columns} FROM {table} WHERE session_id = %s AND ({condition})",
            [self.session_id, *(parameter for _, parameter in tests)],
        )
        rows: list[Any] = self.cursor.fetchall()
        return rows

    def in_text(self, column: str) -> list[tuple[str, str]]:
        return [(self.dialect.contains.format(column), needle) for needle in self.needles]

    def in_json(self, column: str) -> list[tuple[str, str]]:
        """As `in_text`; JSON writes some characters otherwise."""
        escaped = [codecs.json_text(needle)[1:-1] for needle in self.needles]
        return [(self.dialect.contains.format(column), needle) for needle in escaped]


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
    for agent_id, key, reply in search.rows(
        "agent_id, key, reply", "lambo_receipt", search.in_json("reply")
    ):
        blank = codecs.json_text(blanked(_parsed(reply), search.needles))
        if blank != reply:
            yield (
                "UPDATE lambo_receipt SET reply = %s"
                " WHERE session_id = %s AND agent_id = %s AND key = %s",
                [blank, search.session_id, agent_id, key],
            )


def _dead_letters(search: _Search) -> Iterator[tuple[str, Parameters]]:
    """Without its arguments a call cannot be submitted again; that is what blanking it means."""
    tests = search.in_json("arguments") + search.in_text("error")
    for row_id, error in search.rows("id, error", "lambo_dead_letter", tests):
        blank = BLANK if holds(error, search.needles) else error
        yield (
            "UPDATE lambo_dead_letter SET arguments = NULL, error = %s WHERE id = %s",
            [blank, row_id],
        )


def _set_aside(search: _Search) -> Iterator[tuple[str, Parameters]]:
    """The reason cuts and escapes what it quotes: a row that may be of the concept goes whole."""
    ids = search.purge.concept_ids
    tests = [
        *search.in_json("row_json"),
        *search.in_text("row_id"),
        *search.in_text("reason"),
        *(("row_id = %s", concept_id) for concept_id in ids),
        *((search.dialect.contains.format("reason"), concept_id) for concept_id in ids),
    ]
    for row_id, name, row_json in search.rows("id, row_id, row_json", "lambo_set_aside", tests):
        if row_json == "{}":
            continue
        blank = BLANK if holds(name, search.needles) else name
        yield (
            "UPDATE lambo_set_aside SET row_id = %s, row_json = '{}', reason = %s WHERE id = %s",
            [blank, BLANK, row_id],
        )


def _audit_rows(search: _Search) -> Iterator[tuple[str, Parameters]]:
    ids = search.purge.concept_ids
    tests = [
        *(("node_id = %s", concept_id) for concept_id in ids),
        *search.in_json("texts"),
        *search.in_json("removed"),
        *search.in_text("reason"),
    ]
    for row in search.rows(codecs.ENTRIES.column_list, "lambo_audit_event", tests):
        for entry in audit.readable([row]):
            after = blanked_entry(entry, search.purge.content, ids)
            if (after.reason, after.texts, after.removed) != (row[7], *entry[9:]):
                yield (
                    "UPDATE lambo_audit_event SET reason = %s, texts = %s, removed = %s"
                    " WHERE id = %s",
                    [after.reason, *map(codecs.json_or_null, (after.texts, after.removed)), row[0]],
                )


_STEPS: Final[Mapping[str, Callable[[_Search], Iterator[tuple[str, Parameters]]]]] = {
    "receipt": _receipts,
    "dead_letter": _dead_letters,
    "set_aside": _set_aside,
    "audit_event": _audit_rows,
}


def _parsed(text: str) -> Any:
    """A stored reply; one that a foreign hand broke is blanked whole."""
    try:
        return json.loads(text)
    except ValueError:
        return {"text": BLANK, "structured": {"summary": BLANK, "warnings": []}}
