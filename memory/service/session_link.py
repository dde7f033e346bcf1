"""What an open session asks of the host that opened it.

Owns the record through which a memory reaches the committer, the store and the work on embeddings:
under its own incarnation, so that a memory that was replaced reaches nothing of its successor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory.engine.errors import StoreUnavailable
from memory.engine.mutations import Group
from memory.service.committer_thread import CommitterThread
from memory.service.cycles import Tokens
from memory.service.embedding_work import EmbeddingWork
from memory.service.measures import Measures
from memory.service.reembedding import Progress
from memory.service.store_access import StoreAccess

if TYPE_CHECKING:
    from memory.service.cycle_work import CycleWork
    from memory.service.memory import Memory


class SessionLink(Protocol):
    """What a `Memory` needs of its host: the committer's queue and the way to a fresh graph."""

    def submit(self, group: Group) -> None: ...

    @property
    def measures(self) -> Measures:
        """What counts the work of the session."""

    @property
    def is_away(self) -> bool:
        """Whether the store does not answer now."""

    @property
    def lease_age_seconds(self) -> float:
        """Seconds since the lease was last confirmed by the store."""

    async def trouble_counts(self) -> tuple[int, int]:
        """Dead letters and rows set aside; zeros while the store does not answer."""

    def request_reload(self, memory: Memory) -> None:
        """Start replacing the graph by what the store holds; `on_reloaded` follows."""

    def forget(self, memory: Memory) -> None:
        """Drop this memory: the session is no longer ours."""

    def request_vectors(self) -> None:
        """Have the concepts that got no vector embedded later."""

    def request_round(self) -> None:
        """Have the background cycles look at the session soon: it was written."""

    async def read_tokens(self) -> Tokens:
        """Since when agents have tokens. Raises `StoreUnavailable` where that is not known."""

    def reembedding(self) -> Progress | None:
        """How far the session is on its way to the vectors of the server's embedder."""


@dataclass(frozen=True, slots=True)
class HostLink(SessionLink):
    """A memory's way back to its host."""

    session_id: str
    incarnation: int
    committer: CommitterThread
    access: StoreAccess
    embedding: EmbeddingWork | None
    lease_age: Callable[[], float]
    reload: Callable[[Memory], None]
    drop: Callable[[Memory], None]
    cycles: CycleWork
    measures: Measures

    def submit(self, group: Group) -> None:
        self.committer.submit(group, self.incarnation)

    @property
    def is_away(self) -> bool:
        return self.committer.is_away or self.committer.has_failed

    @property
    def lease_age_seconds(self) -> float:
        return self.lease_age()

    async def trouble_counts(self) -> tuple[int, int]:
        try:
            return await self.access.trouble_counts(self.session_id)
        except StoreUnavailable:
            return 0, 0  # `degraded` says why

    def request_reload(self, memory: Memory) -> None:
        self.reload(memory)

    def forget(self, memory: Memory) -> None:
        self.drop(memory)

    def request_vectors(self) -> None:
        if self.embedding is not None:
            self.embedding.request_vectors()

    def request_round(self) -> None:
        self.cycles.ticker.look_soon(self.session_id)

    async def read_tokens(self) -> Tokens:
        return await self.cycles.token_ages()

    def reembedding(self) -> Progress | None:
        if self.embedding is None:
            return None
        return self.embedding.reembedder.progress(self.session_id)
