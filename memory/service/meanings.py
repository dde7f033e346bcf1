"""What is known of the meaning of a write's texts before it is planned, and what is made up later.

Owns the way from texts to `Meanings`, and the task that embeds what a silent embedder left without
a vector. Nothing here may fail or refuse a write: a text without a vector is stored, found by its
words at once, and by its meaning when the embedder answers.

Invariant: a vector enters a session only through its log, and only under the session's contract.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import islice
from typing import Final, Protocol

from memory.engine.client_vectors import take_vector
from memory.engine.embedding import (
    Embedded,
    EmbeddingContract,
    EmbeddingFailure,
    Vector,
    vector_bytes,
)
from memory.engine.graph import Graph
from memory.engine.hybrid import (
    Meanings,
    is_behind,
    new_texts,
    read_pairs,
    search_again,
    search_for_question,
    search_for_texts,
    unread_pairs,
)
from memory.engine.mutations import Mutation, PutVector
from memory.engine.requests import RecallRequest
from memory.engine.types import NodeId
from memory.service.scans import Scans
from memory.service.text_embedder import TextEmbedder
from memory.service.writes import Texts

log = logging.getLogger("lambo.embedder")

FILL_TEXTS: Final = 64
"""Texts embedded at once for concepts that have no vector."""
LOOKS_MAX: Final = 6
"""How often a look-up is prepared for its step before that goes on with what there is."""
FILL_RETRY_MAX_SECONDS: Final = 30.0


def is_mismatch(graph: Graph, contract: EmbeddingContract | None) -> bool:
    """Whether a session's vectors cannot be compared with those of the server's embedder."""
    return graph.contract is not None and graph.contract != contract


async def find_meanings(
    graph_now: Callable[[], Graph], embedder: TextEmbedder | None, scans: Scans, texts: Texts
) -> Meanings | None:
    """Embed the new ones of a write's texts and look up what they are near to, off the event loop.

    `graph_now` gives the session's graph, which may be replaced meanwhile. None where there is
    nothing to embed, or nothing to embed it with.
    """
    graph = graph_now()
    if embedder is None or graph.contract is None or is_mismatch(graph, embedder.contract):
        return None
    every = list(dict.fromkeys(texts.all)) if texts.are_new else new_texts(graph, texts.all)
    if not every:
        return None
    embedded = await embedder.embed([text for text in every if text not in texts.vectors])
    embedded |= {text: texts.vectors[text] for text in every if text in texts.vectors}
    graph = graph_now()
    table, contract = graph.vectors, graph.contract
    if table is None or contract is None:
        return None
    wanted = set(texts.all[: texts.matched]) if graph.is_hybrid else set()
    matched = [text for text in every if text in wanted]
    search = search_for_texts(contract, embedded, matched_by_meaning=matched)
    return await _prepare(graph_now, scans, await scans.look_up(search, table))


async def _prepare(graph_now: Callable[[], Graph], scans: Scans, meanings: Meanings) -> Meanings:
    """Do off the event loop what the step that plans the write would take long for.

    Others write meanwhile, so it may have to be done again. After a few times the rest is left to
    the step: it is then slower, and as right.
    """
    for _ in range(LOOKS_MAX):
        graph = graph_now()
        if graph.vectors is not None and is_behind(graph, meanings):
            meanings = await scans.look_up(search_again(meanings), graph.vectors)
        elif pairs := unread_pairs(graph, meanings):
            meanings = await asyncio.to_thread(read_pairs, meanings, pairs)
        else:
            break
    return meanings


async def find_query(
    graph_now: Callable[[], Graph],
    embedder: TextEmbedder | None,
    scans: Scans,
    request: RecallRequest,
) -> tuple[Meanings | None, EmbeddingFailure | None]:
    """What a question is near to, or why that cannot be told. Both are None where it is not asked:
    without an embedder of the session's contract, or without any vector. Raises as `embed_query`.
    """
    graph = graph_now()
    if request.vector is None and graph.missing_vector_count == graph.concept_count:
        return None, None
    result = await embed_query(embedder, request, graph.contract)
    if result is None or isinstance(result, EmbeddingFailure):
        return None, result
    return await look_up_query(graph_now, scans, request, result), None


async def embed_query(
    embedder: TextEmbedder | None, request: RecallRequest, contract: EmbeddingContract | None
) -> Embedded | None:
    """A question as a vector of a contract; None where nobody makes vectors of it. A vector that
    came with the question needs no embedder; raises what `take_vector` raises.
    """
    if request.vector is not None:
        return take_vector("vector", request.vector, request.vector_model, contract)
    if embedder is None or contract is None or embedder.contract != contract:
        return None
    return (await embedder.embed([request.query]))[request.query]


async def look_up_query(
    graph_now: Callable[[], Graph], scans: Scans, request: RecallRequest, vector: Vector
) -> Meanings | None:
    """What a question's vector is near to; None in a session that holds no vectors."""
    graph = graph_now()
    table, contract = graph.vectors, graph.contract
    if table is None or contract is None:
        return None
    search = search_for_question(
        contract,
        request.query,
        vector,
        top_k=request.top_k,
        is_filtered=not request.wanted.accepts_all,
    )
    return await scans.look_up(search, table)


# -- vectors made up for later ---------------------------------------------------------------------


class Fillable(Protocol):
    """A session as its missing vectors are filled in."""

    graph: Graph

    def takes_writes(self) -> bool:
        """Whether a write would be accepted now."""

    async def append(self, mutations: Sequence[Mutation]) -> bool:
        """Write a group that no caller asked for and wait until it is settled.

        False when the store will never take it.
        """


class _Step(Enum):
    IDLE = "nothing to do"
    PROGRESS = "some vectors were written"
    FAILED = "something is in the way"


class VectorFiller:
    """Embeds what has no vector in the open sessions, in the background; see `run`."""

    def __init__(
        self,
        embedder: TextEmbedder,
        sessions: Callable[[], Iterable[Fillable]],
        *,
        retry_initial_seconds: float,
    ) -> None:
        self._embedder = embedder
        self._sessions = sessions
        self._retry_initial_seconds = retry_initial_seconds
        self._wake = asyncio.Event()
        # Texts this embedder will never take; asked again when the process starts anew.
        self._hopeless: set[NodeId] = set()

    def wake(self) -> None:
        """Say that a session may have concepts without a vector."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled: at once when woken, with growing pauses while it does not go."""
        delay = self._retry_initial_seconds
        while True:
            await self._wake.wait()
            self._wake.clear()
            steps = [await self._try_to_fill(session) for session in list(self._sessions())]
            if _Step.FAILED in steps:
                await asyncio.sleep(delay)
                delay = min(2 * delay, FILL_RETRY_MAX_SECONDS)
            if _Step.PROGRESS in steps:
                delay = self._retry_initial_seconds
            if set(steps) - {_Step.IDLE}:
                self._wake.set()

    async def _try_to_fill(self, session: Fillable) -> _Step:
        try:
            return await self._fill(session)
        except Exception:  # a bug of ours in one session must not end the work on the others
            log.exception("vectors of session %r are not filled in", session.graph.session_id)
            return _Step.FAILED

    async def _fill(self, session: Fillable) -> _Step:
        """One batch of one session."""
        graph = session.graph
        if graph.contract != self._embedder.contract or not graph.missing_vector_count:
            return _Step.IDLE
        # Few of what may be a hundred thousand: the loop is held for each batch.
        missing = map(graph.id_at, graph.rows_without_vector())
        ids = list(islice((id_ for id_ in missing if id_ not in self._hopeless), FILL_TEXTS))
        if not ids:
            return _Step.IDLE
        if not session.takes_writes():
            return _Step.FAILED
        text_by_id = {node: concept.content for node in ids if (concept := graph.concept(node))}
        embedded = await self._embedder.embed(list(text_by_id.values()))
        mutations: list[Mutation] = []
        for node, text in text_by_id.items():
            result = embedded[text]
            if not isinstance(result, EmbeddingFailure):
                mutations.append(PutVector(node, self._embedder.contract.key, vector_bytes(result)))
            elif result.is_final:
                log.warning("concept %s gets no vector: %s", node, result)
                self._hopeless.add(node)
        # The session went on meanwhile: concepts may be gone, or have got their vector.
        mutations = [m for m in mutations if _is_missing(session.graph, m)]
        if not session.takes_writes():
            return _Step.FAILED
        if mutations and not await session.append(mutations):
            log.error("the store refused vectors of session %r", graph.session_id)
            self._hopeless.update(text_by_id)
        is_stuck = not mutations and not self._hopeless.issuperset(text_by_id)
        return _Step.FAILED if is_stuck else _Step.PROGRESS


def _is_missing(graph: Graph, mutation: Mutation) -> bool:
    assert isinstance(mutation, PutVector)
    row = graph.row_of(mutation.concept_id)
    if row is None or graph.vectors is None or graph.contract is None:
        return False
    return row not in graph.vectors and mutation.contract == graph.contract.key
