"""The searches of one session's vectors, carried out together on a worker thread.

Owns who shares a pass over the matrix. A pass of a large session reads hundreds of megabytes and
costs nearly the same for one query as for a dozen, so those that come while one is under way wait
and share the next. Knows nothing of what is looked for, or why.

Invariant: whoever waits gets what a search of its own, begun no earlier than it asked, would have
found; that others give up or fail changes nothing for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from memory.engine.hybrid import Meanings, Search
from memory.engine.vector_table import Query, VectorTable, nearest

QUERIES_MAX: Final = 64
"""Queries of one pass; one search may have more by itself. At 100,000 vectors 25 MB."""


@dataclass(slots=True, eq=False)
class _Waiting:
    search: Search
    table: VectorTable
    result: Meanings | None = field(default=None)


class Scans:
    """Searches of one session. Use it on one event loop."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._turn = asyncio.Lock()

    async def look_up(self, search: Search, table: VectorTable) -> Meanings:
        """What a search finds in a table, as it is when the pass begins."""
        if not search.queries or not len(table):
            view = table.view()
            return search.result(table, view.version, nearest(view, [*search.queries.values()]))
        mine = _Waiting(search, table)
        self._waiting.append(mine)
        try:
            async with self._turn:
                while mine.result is None:
                    await self._scan(self._next(table))
        finally:
            self._waiting.remove(mine)
        return mine.result

    def _next(self, table: VectorTable) -> list[_Waiting]:
        """Those who wait longest for this table, as many as one pass takes, one at least."""
        chosen: list[_Waiting] = []
        count = 0
        for some in self._waiting:
            if some.table is not table or some.result is not None:
                continue
            count += len(some.search.queries)
            if chosen and count > QUERIES_MAX:
                break
            chosen.append(some)
        return chosen

    @staticmethod
    async def _scan(chosen: list[_Waiting]) -> None:
        table = chosen[0].table
        view = table.view()
        queries: list[Query] = [query for some in chosen for query in some.search.queries.values()]
        found = iter(await asyncio.to_thread(nearest, view, queries))
        for some in chosen:
            theirs = [next(found) for _ in some.search.queries]
            some.result = some.search.result(table, view.version, theirs)
