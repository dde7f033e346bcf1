"""What a host does with its embedder: embed, fill in what is missing, re-embed whole sessions.

Owns the three who share one embedder: the line of texts to embed, the filler of missing vectors and
the runs that re-embed whole sessions. Made when the host starts, closed when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from memory.engine.config import Config
from memory.engine.embedding import Embedder
from memory.engine.graph import Graph
from memory.engine.ports import Clock, IdSource
from memory.service.meanings import Fillable, VectorFiller
from memory.service.measures import NO_MEASURES, Measures
from memory.service.reembedding import Reembedder, Sessions
from memory.service.text_embedder import TextEmbedder


class EmbeddingWork:
    """One embedder at work for all sessions of a host. Use it on one event loop."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        config: Config,
        clock: Clock,
        ids: IdSource,
        fillable: Callable[[], Iterable[Fillable]],
        sessions: Sessions,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        measures: Measures = NO_MEASURES,
    ) -> None:
        self.texts = TextEmbedder(
            embedder, deadline_seconds=config.embed_deadline_seconds, measures=measures
        )
        self._filler = VectorFiller(
            self.texts, fillable, retry_initial_seconds=config.retry_initial_seconds
        )
        self.reembedder = Reembedder(
            self.texts,
            sessions,
            clock=clock,
            ids=ids,
            spawn=spawn,
            on_done=self._filler.wake,
            retry_initial_seconds=config.retry_initial_seconds,
        )
        spawn(self._filler.run())

    def request_vectors(self) -> None:
        """Have the concepts without a vector embedded, now or when it goes again."""
        self._filler.wake()

    def on_opened(self, session_id: str, graph: Graph, contracts: Sequence[str]) -> None:
        """Take up what a session was left with."""
        self.request_vectors()
        self.reembedder.on_opened(session_id, graph, contracts)

    def close(self) -> None:
        """Let the embedder go; texts that wait for it fail."""
        self.texts.close()
