"""What stands against a write to an open session, and what its readers are warned of.

Owns the fence, the closing and the reload that hold writes off, and the one order in which they are
asked. Applies nothing and settles nothing.

Invariant: a fence, once raised, stays; and what is refused here has left nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memory.engine.config import Config
from memory.engine.errors import (
    EmbeddingMismatch,
    LamboError,
    LeaseLost,
    SessionClosed,
    StoreUnavailable,
)
from memory.engine.graph import Graph
from memory.engine.limits import BACKLOG_MUTATIONS
from memory.service.meanings import is_mismatch
from memory.service.measures import Measures
from memory.service.outcomes import ANSWER_RETRY_SECONDS
from memory.service.reembedding import mismatch_error
from memory.service.session_link import SessionLink
from memory.service.text_embedder import TextEmbedder

RELOAD_WAIT_SECONDS = 10.0


class Readiness:
    """The part of a memory that says whether it takes writes."""

    graph: Graph
    _config: Config
    _embedder: TextEmbedder | None

    def __init__(self, link: SessionLink) -> None:
        self._link = link
        self._pending_mutations = 0
        self._ready = asyncio.Event()
        self._ready.set()
        self._fence: LamboError | None = None
        self._closing = False
        self._planning = asyncio.Lock()

    # -- asking -----------------------------------------------------------------------------------

    def takes_writes(self) -> bool:
        """Whether a write would be accepted now."""
        try:
            self._check_writable()
        except LamboError:
            return False
        return self._ready.is_set()

    def takes_cycles(self) -> bool:
        """Whether background cycles may change the session now."""
        progress = self._link.reembedding()
        return self.takes_writes() and not (progress is not None and progress.is_live)

    def check_groups(self) -> None:
        """Raise what stands against a group that no caller asked for, whatever its contract."""
        if self._fence is not None:
            raise self._fence
        if not self._ready.is_set():
            raise StoreUnavailable(
                "the session is being reloaded from the store",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            )
        self._check_room()

    async def _until_writable(
        self, *, was_accepted: bool = False, needs_contract: bool = True
    ) -> None:
        """Wait for a reload under way; raise what stands against a write."""
        while not self._ready.is_set():
            await self._until_reloaded()
        self._check_writable(was_accepted=was_accepted, needs_contract=needs_contract)

    @asynccontextmanager
    async def _turn(self, *, was_accepted: bool, needs_contract: bool) -> AsyncIterator[None]:
        """Where a write is planned and applied, without a pause; raises as `_until_writable`.

        Writes that were made ready together take turns, one in an iteration of the event loop: a
        dozen in one would hold everybody else up for their sum.
        """
        while True:
            await self._until_writable(was_accepted=was_accepted, needs_contract=needs_contract)
            async with self._planning:
                if self._ready.is_set():
                    self._check_writable(was_accepted=was_accepted, needs_contract=needs_contract)
                    yield
                    return

    async def _until_reloaded(self) -> None:
        try:
            async with asyncio.timeout(RELOAD_WAIT_SECONDS):
                await self._ready.wait()
        except TimeoutError as error:
            raise StoreUnavailable(
                "the session is being reloaded from the store; nothing of this write was kept",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            ) from error

    def _check_writable(self, *, was_accepted: bool = False, needs_contract: bool = True) -> None:
        if self._fence is not None:
            raise self._fence
        if needs_contract:
            self._check_contract()
        self._check_room(was_accepted=was_accepted)

    def _check_room(self, *, was_accepted: bool = False) -> None:
        if self._closing and not was_accepted:  # putting away waits for what was accepted
            raise SessionClosed(
                f"session '{self.graph.session_id}' is being put away; ask again",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            )
        if self._link.is_away:
            raise StoreUnavailable(
                "the store does not answer; nothing of this write was kept, reads go on",
                retry_after_seconds=self._config.away_after_seconds,
            )
        if self._pending_mutations > BACKLOG_MUTATIONS:
            raise StoreUnavailable(
                f"{self._pending_mutations} mutations wait for the store, over the limit of "
                f"{BACKLOG_MUTATIONS}; nothing of this write was kept",
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            )

    def _check_contract(self) -> None:
        """Refuse to write where the server's vectors are not those of the session."""
        contract = self.graph.contract
        own = None if self._embedder is None else self._embedder.contract
        if contract is not None and is_mismatch(self.graph, own):
            raise mismatch_error(self.graph.session_id, contract, own, self._link.reembedding())

    # -- holding off ------------------------------------------------------------------------------

    def begin_close(self) -> None:
        """Refuse new writes; those applied go on to be committed."""
        self._closing = True

    @property
    def is_closing(self) -> bool:
        """Whether new writes are refused because the session is being put away."""
        return self._closing

    def resume(self) -> None:
        """Take writes again: putting the session away did not succeed."""
        self._closing = False

    @property
    def measures(self) -> Measures:
        """What counts the work of this session."""
        return self._link.measures

    @property
    def uncommitted_mutations(self) -> int:
        """Mutations applied and not yet settled."""
        return self._pending_mutations

    @property
    def is_fenced(self) -> bool:
        return self._fence is not None

    def _raise_fence(self, fence: LamboError) -> bool:
        """Stop writes for good; whether the session is another's now."""
        if self._fence is None:
            self.measures.fenced(fence.code)
            self._fence = fence
        self._ready.set()
        return isinstance(fence, LeaseLost)

    def find_warnings(self, unsettled_count: int) -> list[str]:
        """What a reader should know before trusting an answer."""
        warnings = []
        if self._link.is_away and self._pending_mutations:
            warnings.append(f"{unsettled_count} writes not committed: the store does not answer")
        if self._link.lease_age_seconds > self._config.lease_ttl_seconds:
            warnings.append("lease unconfirmed: another server may hold newer memories")
        if self._fence is not None:
            warnings.append(f"writes are stopped: {self._fence.message}")
        try:
            self._check_contract()
        except EmbeddingMismatch as error:
            warnings.append(error.message)
        return warnings
