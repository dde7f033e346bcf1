"""The audit chains of one host: their key, their anchors, and the jobs that look after both.

Owns which sessions get a chain (all, where there is a key), when a head is anchored, and what a
host says when the rows do not fit. The links themselves are made by `memory.engine.audit_chain`, in
the step that queues a group.

Invariant: only heads that the store confirmed are anchored, so an anchor never tells of a row that
was not kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from memory.anchors import Anchor, AnchorFile, AnchorsUnusable, AuditBroken, ChainKeyMismatch
from memory.engine.audit_chain import AuditChain, ChainHead, SealedAct, key_fingerprint
from memory.engine.audit_verification import AuditTrail
from memory.engine.ports import Clock, IdSource, LoadedSession
from memory.engine.server_acts import SERVER_CHAIN
from memory.engine.times import SECOND, Micros
from memory.engine.types import AuditEntry, AuditKind, Json, NodeId
from memory.service.audit_check import AuditReport, check_trail
from memory.service.jobs import Job, ServerJob, SessionJob
from memory.service.store_access import StoreAccess

if TYPE_CHECKING:
    from memory.service.memory import Memory

log = logging.getLogger("lambo.audit")

ANCHOR_SECONDS: Final = 3_600.0
VERIFY_SECONDS: Final = 86_400.0
CLOCK_AHEAD_MAX: Final[Micros] = 366 * 86_400 * SECOND
"""By how much the clock of a server before us may have been ahead of ours."""


@dataclass(frozen=True, slots=True)
class _Sealed:
    """What sealing takes, together or not at all."""

    key: bytes = field(repr=False)
    anchors: AnchorFile
    trail: AuditTrail
    clock: Clock


class AuditKeeper:
    """Seals the audit rows of a host's sessions; without a key it leaves them as they are."""

    def __init__(self, sealed: _Sealed | None = None) -> None:
        self._sealed = sealed

    @classmethod
    def sealing(
        cls, key: bytes, *, anchors: AnchorFile, trail: AuditTrail, clock: Clock
    ) -> AuditKeeper:
        """A keeper with a key: every audit row gets a link."""
        return cls(_Sealed(key, anchors, trail, clock))

    @property
    def key(self) -> bytes | None:
        return None if self._sealed is None else self._sealed.key

    def chain_of(self, loaded: LoadedSession, ids: IdSource) -> AuditChain | None:
        """The chain of a session that was just loaded.

        From now on `ids` gives audit rows ids that sort after those it has, though another clock
        may have made them.
        """
        if self._sealed is None:
            return None
        if loaded.chain.latest_id is not None:
            move_past(ids, loaded.chain.latest_id, self._sealed.clock.now())
        return AuditChain.after(self._sealed.key, loaded.snapshot.session_id, loaded.chain)

    async def claim(self, access: StoreAccess) -> None:
        """Make sure that the database's chains are ours to go on with.

        Raises `ChainKeyMismatch` where they are made with another key.
        """
        if self._sealed is not None:
            given = key_fingerprint(self._sealed.key)
            known = await access.claim_chain_key(given)
            if known != given:
                raise ChainKeyMismatch(known=known, given=given)

    def seal(
        self, kind: AuditKind, *, ids: IdSource, at: Micros, actor: str, detail: Json = None
    ) -> SealedAct:
        """The row of an act on a session as a whole, to be stored with the act."""
        entry = AuditEntry(ids.next_ordered_id(at), kind, None, None, None, at, actor)
        return SealedAct(entry._replace(detail=detail), self.key)

    async def anchor_server(self, head: ChainHead | None) -> None:
        """Note the newest link of the server's own acts; they are few, and each is noted."""
        if self._sealed is None or head is None:
            return
        now = self._sealed.clock.now()
        lines = [Anchor(now, SERVER_CHAIN, now, *head)]
        try:
            await asyncio.to_thread(self._sealed.anchors.append, lines)
        except AnchorsUnusable as error:
            log.error("an act on the server stands without an anchor: %s", error.message)

    async def anchor(self, memories: Iterable[Memory]) -> int:
        """Note the heads that moved since then; how many. Raises `AnchorsUnusable`."""
        if self._sealed is None:
            return 0
        now = self._sealed.clock.now()
        moved = []
        for memory in memories:
            chain = memory.chain
            if chain is not None and chain.committed.sequence not in (0, chain.anchored):
                graph, head = memory.graph, chain.committed
                anchor = Anchor(now, graph.session_id, graph.created_at, *head)
                moved.append((chain, anchor))
        if moved:
            lines = [anchor for _, anchor in moved]
            await asyncio.to_thread(self._sealed.anchors.append, lines)
        for chain, anchor in moved:
            chain.anchored = anchor.sequence
        return len(moved)

    async def anchor_at_end(self, memories: Iterable[Memory]) -> None:
        """As `anchor`, where a session must go though its head cannot be noted."""
        try:
            await self.anchor(memories)
        except AnchorsUnusable as error:
            log.error("sessions are put away without an anchor: %s", error.message)

    async def verify(self) -> AuditReport:
        """Prove every audit row of the database, in a worker thread."""
        assert self._sealed is not None
        return await asyncio.to_thread(_check, self._sealed)

    def jobs(self) -> tuple[Job, ...]:
        """What a host with chains does again and again."""
        if self._sealed is None:
            return ()
        return (
            SessionJob(
                name="anchor",
                summary="Note the heads of the audit chains in the data folder",
                interval_seconds=ANCHOR_SECONDS,
                run=self._run_anchor,
            ),
            ServerJob(
                name="verify-audit",
                summary="Prove every audit row against its chain",
                interval_seconds=VERIFY_SECONDS,
                run=self._run_verify,
            ),
        )

    async def _run_anchor(self, memory: Memory) -> Mapping[str, int]:
        return {"anchors": await self.anchor([memory])}

    async def _run_verify(self, _access: StoreAccess) -> Mapping[str, int]:
        report = await self.verify()
        if not report.is_sound:
            for line in report.lines():
                log.error("%s", line)
            raise AuditBroken("; ".join(report.lines()[:2]), broken=report.broken_count)
        return {"rows_verified": report.verified_count, "rows_unchained": report.unchained_count}


UNSEALED: Final = AuditKeeper()
"""Of a host that keeps nothing, and so has nothing to prove."""


def move_past(ids: IdSource, latest_id: NodeId, now: Micros) -> None:
    """Have `ids` give ordered ids that sort after this one, though another clock made it."""
    after = _instant_after(latest_id)
    # An id that a foreign hand set ages ahead must not carry all others with it.
    if after - now <= CLOCK_AHEAD_MAX:
        ids.next_ordered_id(after)


def _instant_after(ordered_id: NodeId) -> Micros:
    """An instant of which every ordered id (a UUID of version 7) sorts after this one."""
    return (int(ordered_id.replace("-", "")[:12], 16) + 1) * 1_000


def _check(sealed: _Sealed) -> AuditReport:
    anchors = sealed.anchors.read()  # before the rows: the server goes on meanwhile
    return check_trail(sealed.trail, sealed.key, anchors)
