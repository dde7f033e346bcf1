"""How the sessions of a host are read: open, opened for it, from the store, or not there.

Owns the way from a session's name to something that answers, and what a reader of the store is
told: that the answer is as old as the last commit, and that what the writer keeps in RAM (standing,
what needs attention) is not in it. Reading from the store takes no lease, writes nothing, and keeps
nothing from one question to the next, so it never answers from a graph that is out of date.

Invariant: one session at a time is loaded to be read, however many ask: a load takes as much RAM as
an open session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from dataclasses import replace
from typing import Final

from memory.engine.config import Config
from memory.engine.embedding import EmbeddingContract
from memory.engine.errors import LamboError, LeaseHeld, SessionNotFound
from memory.engine.graph import Graph
from memory.engine.ports import Clock
from memory.engine.requests import Caller, RecallRequest, check_session_name
from memory.engine.rights import Rights
from memory.service import layered_recall
from memory.service.replies import Reply
from memory.service.store_access import StoredSessions
from memory.service.text_embedder import TextEmbedder
from memory.service.view import MemoryView, Readers

SOURCE: Final = "store"
"""What the reply of a recall names as where it comes from."""


class StoredView(MemoryView):
    """Questions to a session as it was last committed."""

    def __init__(
        self,
        graph: Graph,
        *,
        instead_of: LamboError,
        readers: Readers,
        clock: Clock,
        accepts_vectors: bool,
        embedder: TextEmbedder | None,
    ) -> None:
        """`instead_of` says why the session is not open here."""
        super().__init__(
            graph,
            readers=readers,
            clock=clock,
            accepts_vectors=accepts_vectors,
            embedder=embedder,
        )
        self._instead_of = instead_of

    def tell_source(self, reply: Reply) -> Reply:
        """The reply, which says in its text and to programs that it comes from the store."""
        (note,) = self.warnings()
        text = f"{note}\n\n{reply.text}" if reply.text else note
        return replace(reply, text=text, structured={**reply.structured, "source": SOURCE})

    def warnings(self) -> list[str]:
        return [
            "read from the store, as last committed and without what its writer knows: "
            f"{self._instead_of.message}"
        ]

    async def receipt(self, key: str, *, agent_id: str) -> Reply:
        """Only the writer knows what it has not committed yet; raises why it is not this host."""
        raise self._instead_of


class Views:
    """The sessions of one host, to ask questions of. Use it on one event loop."""

    def __init__(
        self,
        open_memory: Callable[[str], Awaitable[MemoryView]],
        open_sessions: Container[str],
        *,
        access: Callable[[], StoredSessions],
        readers: Readers,
        clock: Clock,
        config: Config,
        contract: EmbeddingContract | None,
        embedder: Callable[[], TextEmbedder | None],
    ) -> None:
        """`open_memory` takes a stored session for this host; where it raises `LeaseHeld`, the
        session is read from the store. `contract` is the server's own.
        """
        self._open_memory = open_memory
        self._open_sessions = open_sessions
        self._access = access
        self.readers = readers
        self._clock = clock
        self._accepts_vectors = config.accept_client_vectors
        self.contract = contract
        self._embedder = embedder
        self._loading = asyncio.Lock()

    @property
    def embedder(self) -> TextEmbedder | None:
        """What embeds a text beside the event loop; None where nothing does."""
        return self._embedder()

    async def recall(
        self, own: MemoryView, request: RecallRequest, caller: Caller, rights: Rights
    ) -> Reply:
        """The answer of a session, and of the layers behind it that these rights take in."""
        if not request.layers:
            return await own.recall(request, agent_id=caller.agent_id)
        return await layered_recall.recall(self, own, request, caller.agent_id, rights)

    async def find(self, session_id: str) -> MemoryView:
        """The memory to ask questions of. An unknown session is empty and stays unknown; one that
        another server writes is read from the store.
        """
        check_session_name(session_id)
        with suppress(SessionNotFound):  # deleted in between
            if session_id in self._open_sessions or await self.is_stored(session_id):
                try:
                    return await self._open_memory(session_id)
                except LeaseHeld as error:
                    return await self.read(session_id, instead_of=error)
        return MemoryView(
            Graph(session_id, self._clock.now()),
            readers=self.readers,
            clock=self._clock,
            accepts_vectors=self._accepts_vectors,
            is_known=False,
        )

    async def is_stored(self, session_id: str) -> bool:
        """Whether the store knows of a session."""
        return await self._access().find(session_id) is not None

    async def read(self, session_id: str, *, instead_of: LamboError) -> StoredView:
        """A session as it is stored now; `instead_of` as for the view.

        Raises `SessionNotFound` or `StoreUnavailable`.
        """
        async with self._loading:
            _, graph = await self._access().load(session_id)
        return StoredView(
            graph,
            instead_of=instead_of,
            readers=self.readers,
            clock=self._clock,
            accepts_vectors=self._accepts_vectors,
            embedder=self.embedder,
        )
