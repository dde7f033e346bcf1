"""The log of events in SQL: written with the group that caused them, kept by count, read in pages.

Knows ids, kinds and rows; what an event says is the business of `memory.engine.events`.

Invariants: a page shows no text of a concept that the same state of the database does not hold.
What is kept of a session's events are its newest, without a gap, and never none of them once there
was one: so the next id is always known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db.backends.utils import CursorWrapper

from memory.engine.event_texts import named_concepts, shown_events
from memory.engine.events import last_id_to_drop
from memory.engine.mutations import Group
from memory.engine.ports import EventPage
from memory.store import audit, codecs

_PUT_EVENTS: Final = (
    f"INSERT INTO lambo_event ({', '.join(codecs.EVENT_COLUMNS)})"
    f" VALUES ({', '.join(['%s'] * len(codecs.EVENT_COLUMNS))})"
    " ON CONFLICT (session_id, id) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in codecs.EVENT_COLUMNS[2:])
)
_DROP_EVENTS: Final = "DELETE FROM lambo_event WHERE session_id = %s AND id <= %s"


def write_events(cursor: CursorWrapper, session_id: str, groups: Sequence[Group]) -> None:
    """Store the events of consecutive groups, and let go of the oldest now and then."""
    rows = [row for group in groups for row in codecs.event_rows(session_id, group)]
    if not rows:
        return
    cursor.executemany(_PUT_EVENTS, rows)
    dropped = last_id_to_drop(rows[0][1], rows[-1][1])
    if dropped:
        cursor.execute(_DROP_EVENTS, [session_id, dropped])


def newest_id(cursor: CursorWrapper, session_id: str) -> int:
    """The id of a session's newest event; 0 where there is none."""
    cursor.execute("SELECT max(id) FROM lambo_event WHERE session_id = %s", [session_id])
    (newest,) = cursor.fetchone()
    return newest or 0


def list_events(
    cursor: CursorWrapper, session_id: str, *, after: int, limit: int, kinds: Sequence[str]
) -> EventPage:
    """A page of a session's events. The cursor must see one state of the database throughout."""
    cursor.execute(
        "SELECT min(event.id), max(event.id) FROM lambo_event event"
        " JOIN lambo_session session ON session.session_id = event.session_id"
        " WHERE event.session_id = %s AND session.deleted_at IS NULL",
        [session_id],
    )
    oldest, newest = cursor.fetchone()
    if newest is None:
        return EventPage(read_to=after)
    wanted = f" AND kind IN ({', '.join(['%s'] * len(kinds))})" if kinds else ""
    cursor.execute(
        f"SELECT {', '.join(codecs.EVENT_COLUMNS[1:])} FROM lambo_event"
        f" WHERE session_id = %s AND id > %s{wanted} ORDER BY id LIMIT %s",
        [session_id, after, *kinds, limit],
    )
    stored = [codecs.event_from(row) for row in cursor.fetchall()]
    named = (name for event in stored for name in named_concepts(event.data))
    live = audit.stored_concepts(cursor, session_id, named)
    events = shown_events(stored, live.__contains__)
    read_to = events[-1].id if len(events) == limit else max(after, newest)
    return EventPage(events, oldest, newest, read_to)
