"""One recall over several sessions: the one asked, and layers behind it.

Owns who of the layers takes part: those the caller may read, that can be opened or read now, and
whose vectors can be compared with those of the session asked. Each ranks alone, in a step of its
own; the merge runs on another thread. What is merged, and how, is the readers'.

Invariant: no layer makes a recall fail, and one that the caller may not read is told of, and takes
as long to find missing, as one that does not exist.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, Vector
from memory.engine.errors import InvalidArgument, LamboError, TooManySessions
from memory.engine.requests import Layer, RecallRequest
from memory.engine.rights import Rights
from memory.service.meanings import embed_query
from memory.service.replies import Reply
from memory.service.view import MemoryView, Ranking, elapsed_ms, log_recall, not_embedded

if TYPE_CHECKING:
    from memory.service.views import Views

log = logging.getLogger("lambo.recall")


class _Taking(NamedTuple):
    """A layer that takes part: its session and its ranking."""

    view: MemoryView
    ranking: Ranking


async def recall(
    views: Views, own: MemoryView, request: RecallRequest, agent_id: str, rights: Rights
) -> Reply:
    """The answer of a session and the layers the request names.

    Raises `InvalidArgument` for a layer that is the session itself, or what `take_vector` raises.
    """
    began_at = perf_counter()
    session = own.graph.session_id
    for place, layer in enumerate(request.layers):
        if layer.session == session:
            field = f"layers[{place}].session"
            raise InvalidArgument(field, f"{field} is the session that is asked")
    own.check_vector(request)
    # A session that nobody has made yet would be made with the contract of the server.
    contract = own.graph.contract if own.is_known else views.contract
    embedded = await embed_query(views.embedder, request, contract)
    failure = embedded if isinstance(embedded, EmbeddingFailure) else None
    query = None if isinstance(embedded, EmbeddingFailure) else embedded
    looked_up_at = perf_counter()
    own_ranking = await own.rank(request, query, None)
    taking: list[_Taking] = []
    missing: list[str] = []
    for layer in request.layers:
        found = await _try_layer(views, layer, request, query, contract, rights)
        if found is None:
            missing.append(layer.session)
        else:
            taking.append(found)
    answered_at = perf_counter()
    rankings = [own_ranking, *(one.ranking for one in taking)]
    answer = await asyncio.to_thread(views.readers.merge, rankings, request, query, contract)
    ended_at = perf_counter()
    log_recall(
        session,
        agent_id,
        answer,
        layers=len(taking),
        by_meaning=query is not None,
        lookup_ms=elapsed_ms(looked_up_at, answered_at),
        answer_ms=elapsed_ms(answered_at, ended_at),
        took_ms=elapsed_ms(began_at, ended_at),
    )
    reply = Reply.of(answer)
    sources = [own, *(one.view for one in taking)]
    _note_shown(sources, reply, agent_id)
    reply.structured["warnings"] = [
        *reply.structured["warnings"],
        *([] if failure is None else [not_embedded(failure)]),
        *_missing_lines(missing, sources),
        *own.warnings(),
        *(f"[{view.graph.session_id}] {line}" for view in sources[1:] for line in view.warnings()),
    ]
    return own.tell_source(reply)


async def _try_layer(
    views: Views,
    layer: Layer,
    request: RecallRequest,
    query: Vector | None,
    contract: EmbeddingContract | None,
    rights: Rights,
) -> _Taking | None:
    """A layer's part, or None where it cannot take part, for whatever reason."""
    try:
        view = await _find_layer(views, layer.session, rights)
        if view is None or view.graph.contract != contract:
            return None
        return _Taking(view, await view.rank(request, query, layer))
    except LamboError as error:
        log.info("layer %r of a recall is left out: %s", layer.session, error)
    except Exception:  # what is wrong with one session must not cost the answer of another
        log.exception("layer %r of a recall is left out", layer.session)
    return None


async def _find_layer(views: Views, name: str, rights: Rights) -> MemoryView | None:
    """A session to read: open, opened, or from the store where there is no room to open it."""
    if not rights.sees(name):
        await views.is_stored(name)  # what a look for an absent one costs
        return None
    try:
        view = await views.find(name)
    except TooManySessions as error:
        return await views.read(name, instead_of=error)
    return view if view.is_known else None


def _note_shown(sources: Sequence[MemoryView], reply: Reply, agent_id: str) -> None:
    own = sources[0].graph.session_id
    for view in sources:
        name = view.graph.session_id
        shown = [
            hit["node_id"] for hit in reply.structured["hits"] if hit.get("session", own) == name
        ]
        view.note_shown(agent_id, shown)


def _missing_lines(missing: Sequence[str], sources: Sequence[MemoryView]) -> list[str]:
    names = ", ".join(view.graph.session_id for view in sources)
    return [f"recall: layer {name} is unavailable; results are from {names}" for name in missing]
