"""The sessions a caller may know of, page by page.

Owns nothing but the filter: the list itself is the host's. Pages of the store are read until one
page of seen sessions is full, so a caller of few sessions is not sent through pages of nothing.

Invariant: neither a row nor `next` names a session outside the caller's patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory.engine.rights import ANY_SESSION, Rights
from memory.service.replies import Reply

if TYPE_CHECKING:
    from memory.service.host import SessionHost

PAGE = 200
"""The most the host gives at once."""


async def list_seen(host: SessionHost, rights: Rights, *, after: str, limit: int) -> Reply:
    """The first `limit` sessions after a name that these rights take in."""
    if ANY_SESSION in rights.patterns:
        return await host.list_sessions(after=after, limit=limit)
    # Refuses a limit that is out of range, whatever the caller may see.
    await host.list_sessions(after=after, limit=limit)
    seen: list[dict[str, Any]] = []
    at: str | None = after
    while at is not None and len(seen) <= limit:
        page = (await host.list_sessions(after=at, limit=PAGE)).structured
        seen += [row for row in page["sessions"] if rights.sees(row["session"])]
        at = page["next"]
    rows = seen[:limit]
    text = "\n".join(f"{row['session']}  {row['created_at']}" for row in rows) or "no sessions"
    following = rows[-1]["session"] if len(seen) > limit else None
    return Reply(
        text,
        {
            "summary": text.partition("\n")[0],
            "sessions": rows,
            "next": following,
            "warnings": [],
        },
    )
