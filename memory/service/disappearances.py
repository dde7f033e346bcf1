"""What was taken out of sessions: listing it, bringing it back, erasing it for good.

Owns what these acts need beside a plan: what the store knows of removed concepts is looked up
before the step that plans, and after a purge the store's files are scrubbed. Reads the store off
the event loop.

Invariant: a purge is answered with `pending` false only when no file of the store holds the text;
else it is tried again until it is so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from memory.engine.audit_chain import NO_ROWS, BlankedRows
from memory.engine.config import Config, Durability
from memory.engine.disappearance import RemovedState, read_removed
from memory.engine.errors import InvalidArgument, InvalidSnapshot, OutcomeUnknown
from memory.engine.graph import Graph
from memory.engine.lexical_reading import forget_chunks
from memory.engine.limits import DISAPPEARANCES_PER_PAGE
from memory.engine.ports import IdSource, Removal
from memory.engine.purge import (
    GraphTraces,
    Target,
    find_target,
    plan_purge,
    search_graph,
    texts_of,
    with_earlier,
)
from memory.engine.requests import (
    Caller,
    PurgeRequest,
    RestoreRequest,
    check_session_name,
    parse_node_id,
)
from memory.engine.restore import plan_restore
from memory.engine.showing import in_passing
from memory.engine.text import forget_texts
from memory.engine.times import format_rfc3339
from memory.engine.traces import needles_of, removed_content
from memory.engine.types import AuditEntry
from memory.service.committer_thread import CommitterThread
from memory.service.memory import Memory
from memory.service.replies import Reply
from memory.service.store_access import RETRY_SECONDS, StoreAccess
from memory.service.writes import Writes


class WriteAct(Protocol):
    """`SessionHost.write`."""

    async def __call__(
        self, session_id: str, act: Callable[[Writes], Awaitable[Reply]], *, create: bool
    ) -> Reply: ...


@dataclass(slots=True)
class _Found:
    """What was looked up before a purge is planned, and where."""

    memory: Writes | None = None
    target: Target | None = None
    graph: Graph | None = None
    was_live: bool = False
    searched: GraphTraces | None = None
    traces: Mapping[str, int] = field(default_factory=dict)
    blanked: BlankedRows = NO_ROWS


class _Overtaken(Exception):
    """What was looked up before a purge was changed before the purge was planned."""


class Disappearances:
    """The acts on what is gone, for one host. Use it on one event loop."""

    def __init__(
        self,
        write: WriteAct,
        access: StoreAccess,
        committer: CommitterThread,
        config: Config,
        ids: IdSource,
        spawn: Callable[[Any], None],
    ) -> None:
        self._write = write
        self._access = access
        self._committer = committer
        self._config = config
        self._ids = ids
        self._spawn = spawn

    async def list_page(self, session_id: str, *, after: str, limit: int) -> Reply:
        """Removals of a session, newest first; `next` asks for what is older."""
        check_session_name(session_id)
        if not 1 <= limit <= DISAPPEARANCES_PER_PAGE:
            raise InvalidArgument("limit", f"limit must be in 1..={DISAPPEARANCES_PER_PAGE}")
        before = parse_node_id("after", after) if after else None
        found = await self._access.list_removals(session_id, before, limit + 1)
        rows = [_shown(removal) for removal in found[:limit]]
        text = "\n".join(_line(row) for row in rows) or "nothing was taken out"
        return Reply(
            text,
            {
                "summary": text.partition("\n")[0],
                "disappearances": rows,
                "next": rows[-1]["audit_id"] if len(found) > limit else None,
                "warnings": [],
            },
        )

    async def restore(self, session_id: str, request: RestoreRequest, caller: Caller) -> Reply:
        """Bring a removed concept back."""
        found: list[AuditEntry] = []
        states: list[RemovedState] = []

        async def look_up() -> None:
            await self._until_committed()
            found[:] = await self._entries(session_id, request.id)
            with suppress(InvalidSnapshot):  # said by the plan, if nothing else is in the way
                states[:] = [
                    await asyncio.to_thread(read_removed, entry.removed)
                    for entry in found[:1]
                    if entry.removed is not None
                ]

        return await self._write(
            session_id,
            lambda memory: memory.act(
                "restore",
                request,
                caller,
                lambda now, _: plan_restore(
                    memory.graph,
                    request,
                    found[0] if found else None,
                    actor=caller.agent_id,
                    now=now,
                    ids=self._ids,
                    removed=states[0] if states else None,
                ),
                look_up=look_up,
            ),
            create=False,
        )

    async def purge(self, session_id: str, request: PurgeRequest, caller: Caller) -> Reply:
        """Erase a concept's text for good, or say what that would blank."""

        found = _Found()

        def purge_in(memory: Writes) -> Awaitable[Reply]:
            found.memory = memory

            async def look_up() -> None:
                await self._until_committed()
                by_name = await self._entries(session_id, request.concept)
                found.graph = graph = memory.graph
                target = find_target(graph, request.concept, by_name)
                found.was_live = graph.row_of(target.concept_id) is not None
                by_content = await self._entries(session_id, target.content)
                removals = [*by_name, *by_content]
                found.target = await asyncio.to_thread(with_earlier, target, removals)
                found.searched = await asyncio.to_thread(
                    search_graph, texts_of(graph), target.content
                )
                found.traces = await self._access.find_traces(session_id, found.target.mutation)
                found.blanked = await self._access.find_blanked(session_id, found.target.mutation)

            def plan(now: int, _: object) -> Any:
                target, graph = found.target, memory.graph
                assert target is not None
                is_live = graph.row_of(target.concept_id) is not None
                if graph is not found.graph or is_live != found.was_live:
                    raise _Overtaken
                planned = plan_purge(
                    graph,
                    request,
                    target,
                    found.traces,
                    actor=caller.agent_id,
                    now=now,
                    ids=self._ids,
                    blanked=found.blanked,
                    searched=found.searched,
                )
                if planned.mutations and isinstance(memory, Memory):
                    # From here on nothing that waits may write it again.
                    memory.accepted.purge(needles_of(target.content))
                return planned

            return memory.act("purge", request, caller, plan, look_up=look_up)

        try:
            reply = await self._purged(session_id, purge_in)
            if not reply.structured["purged"]:
                return reply
            self._forget(session_id, found)
            is_committed = await self._until_committed()
            is_clean = is_committed and await self._access.scrub()
        except (OutcomeUnknown, asyncio.CancelledError):
            # It may be committed, or be so later, and nobody waits for the rest any more.
            if request.confirm is not None:
                self._forget(session_id, found)
                self._spawn(self._scrub_when_settled())
            raise
        if not is_clean:
            self._spawn(self._scrub_when_settled())
        return _with_scrubbing(reply, is_committed=is_committed, is_clean=is_clean)

    async def _purged(
        self, session_id: str, purge_in: Callable[[Writes], Awaitable[Reply]]
    ) -> Reply:
        """The purge, looked up again as often as another act got in between."""
        while True:
            with suppress(_Overtaken):
                return await self._write(session_id, purge_in, create=False)

    async def _scrub_when_settled(self) -> None:
        seconds = self._config.outcome_unknown_after_seconds
        while not await self._committer.drain(seconds):  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(RETRY_SECONDS)
        await self._access.scrub_until_done()

    def _forget(self, session_id: str, found: _Found) -> None:
        """Drop what this process keeps of a purged text beside the graph."""
        forget_texts()
        forget_chunks()
        if isinstance(found.memory, Memory) and found.target is not None:
            found.memory.accepted.purge(needles_of(found.target.content))

    async def _entries(self, session_id: str, name: str) -> Sequence[AuditEntry]:
        found = await self._access.find_removals(session_id, name)
        return [removal.entry for removal in found]

    async def _until_committed(self) -> bool:
        """Have what was applied reach the store, where callers do not wait for that.

        False when it did not in time.
        """
        if self._config.durability is Durability.COMMIT:
            return True
        return await self._committer.drain(self._config.outcome_unknown_after_seconds)


def _with_scrubbing(reply: Reply, *, is_committed: bool, is_clean: bool) -> Reply:
    """The reply with what became of the store's files; a stored receipt cannot know it."""
    if is_clean:
        return reply
    line = "the purge is not committed yet: the text is erased when it is"
    if is_committed:
        line = (
            "a reader still holds older pages of the database: the text is erased when it is done"
        )
    warnings = [*reply.structured["warnings"], line]
    structured = {**reply.structured, "pending": True, "warnings": warnings}
    return replace(reply, text=f"{reply.text}\n{line}", structured=structured)


def _shown(removal: Removal) -> dict[str, Any]:
    entry = removal.entry
    content = removed_content(entry)
    state = "purged" if content is None else "restorable"
    if removal.is_back:
        state = "back"
    return {
        "audit_id": entry.id,
        "node_id": entry.node_id,
        "content": None if content is None else in_passing(content),
        "kind": str(entry.kind),
        "earlier_status": None if entry.from_status is None else str(entry.from_status),
        "actor": entry.actor,
        "reason": entry.reason,
        "removed_at": format_rfc3339(entry.occurred_at),
        "state": state,
    }


def _line(row: Mapping[str, Any]) -> str:
    content = "(purged)" if row["content"] is None else f"'{row['content']}'"
    reason = f": {in_passing(row['reason'])}" if row["reason"] else ""
    return (
        f"{row['audit_id']}  {row['removed_at']}  {row['kind']} by {row['actor']}{reason}  "
        f"{content}  [{row['state']}]"
    )
