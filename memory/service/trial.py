"""A write tried out: planned against an empty graph, never applied.

The first write of a session goes through here before the session is made, so that a refused one
leaves no empty session behind.
"""

from __future__ import annotations

import uuid

from memory.engine.config import Config
from memory.engine.embedding import EmbeddingContract
from memory.engine.graph import Graph
from memory.engine.requests import Caller
from memory.engine.times import Micros
from memory.service.replies import Reply
from memory.service.writes import NO_TEXTS, LookUp, MakePlan, R, Texts, Writes


class _ThrowawayIds:
    """Ids that name nothing outside the trial; the session's own source is left alone."""

    def __init__(self) -> None:
        self._last = 0

    def next_id(self) -> str:
        self._last += 1
        return str(uuid.UUID(int=self._last))

    def next_ordered_id(self, now: Micros) -> str:
        return self.next_id()


class Trial(Writes):
    """Answers every write verb as an empty session would, and keeps nothing."""

    def __init__(
        self,
        session_id: str,
        *,
        config: Config,
        contract: EmbeddingContract | None = None,
        match_strategy: str = "canonical",
    ) -> None:
        graph = Graph(session_id, 0, contract=contract, match_strategy=match_strategy)
        super().__init__(graph, config=config, ids=_ThrowawayIds())

    async def _write(
        self,
        verb: str,
        request: object,
        caller: Caller,
        make_plan: MakePlan[R],
        texts: Texts = NO_TEXTS,
        *,
        wait: bool = True,
        look_up: LookUp | None = None,
    ) -> Reply:
        await self._read_ahead(request)
        return Reply.of(make_plan(0, None).result, key=caller.key)
