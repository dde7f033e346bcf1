"""The sessions of a store, page by page, and those of them that a caller may know of.

Opens none. Pages of the store are read until one page of seen sessions is full, so a caller of few
sessions is not sent through pages of nothing.

Invariant: neither a row nor `next` names a session outside the caller's patterns.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from memory.engine.errors import InvalidArgument
from memory.engine.limits import SESSIONS_PER_PAGE
from memory.engine.rights import ANY_SESSION, Rights
from memory.engine.times import format_rfc3339
from memory.service.replies import Reply

if TYPE_CHECKING:
    from memory.service.host import SessionHost
    from memory.service.store_access import StoreAccess


async def list_page(
    access: StoreAccess, open_sessions: Container[str], *, after: str, limit: int
) -> Reply:
    """Sessions by name, at most `limit` after a name; `next` asks for the rest."""
    if not 1 <= limit <= SESSIONS_PER_PAGE:
        raise InvalidArgument("limit", f"limit must be in 1..={SESSIONS_PER_PAGE}")
    found = await access.list_sessions(after, limit + 1)
    rows = [
        {
            "session": info.session_id,
            "created_at": format_rfc3339(info.created_at),
            "match_strategy": info.match_strategy,
            "open": info.session_id in open_sessions,
        }
        for info in found[:limit]
    ]
    following = found[limit - 1].session_id if len(found) > limit else None
    return _page(rows, following=following)


async def list_seen(host: SessionHost, rights: Rights, *, after: str, limit: int) -> Reply:
    """The first `limit` sessions after a name that these rights take in."""
    if ANY_SESSION in rights.patterns:
        return await host.list_sessions(after=after, limit=limit)
    # Refuses a limit that is out of range, whatever the caller may see.
    await host.list_sessions(after=after, limit=limit)
    seen: list[dict[str, Any]] = []
    at: str | None = after
    while at is not None and len(seen) <= limit:
        page = (await host.list_sessions(after=at, limit=SESSIONS_PER_PAGE)).structured
        seen += [row for row in page["sessions"] if rights.sees(row["session"])]
        at = page["next"]
    rows = seen[:limit]
    return _page(rows, following=rows[-1]["session"] if len(seen) > limit else None)


def _page(rows: list[dict[str, Any]], *, following: str | None) -> Reply:
    text = "\n".join(f"{row['session']}  {row['created_at']}" for row in rows) or "no sessions"
    return Reply(
        text,
        {
            "summary": text.partition("\n")[0],
            "sessions": rows,
            "next": following,
            "warnings": [],
        },
    )
