"""What a chunk that overflows an agent's context adds: one observation per sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory.engine.draft import NO_VECTORS, Draft, Plan, Stamp
from memory.engine.embedding import Vector
from memory.engine.errors import InvalidArgument
from memory.engine.graph import Graph
from memory.engine.limits import LIMIT_DEMOTE_SENTENCES
from memory.engine.requests import DemoteRequest
from memory.engine.text import canonical_key, split_sentences
from memory.engine.types import ConceptType, NodeId


@dataclass(frozen=True, slots=True)
class DemoteResult:
    """The observations made, in the order of the text."""

    chunk_group_id: str
    created: tuple[NodeId, ...]

    @property
    def text(self) -> str:
        return f"kept {len(self.created)} observation(s) in chunk group '{self.chunk_group_id}'"

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "chunk_group_id": self.chunk_group_id,
            "created": list(self.created),
            "warnings": [],
        }


def plan_demote(
    graph: Graph,
    request: DemoteRequest,
    stamp: Stamp,
    *,
    vectors: Mapping[str, Vector] = NO_VECTORS,
) -> Plan[DemoteResult]:
    """Plan the observations; a blank chunk plans nothing.

    Observations are never matched, so the same sentence may be kept again. A key may be empty.
    """
    sentences = split_sentences(request.chunk)
    if len(sentences) > LIMIT_DEMOTE_SENTENCES:
        raise InvalidArgument(
            "chunk",
            f"chunk must hold at most {LIMIT_DEMOTE_SENTENCES} sentences ({len(sentences)} given)",
            maximum=LIMIT_DEMOTE_SENTENCES,
        )
    if not sentences:
        return Plan((), DemoteResult(request.chunk_group_id, ()))
    draft = Draft(graph, stamp, None, vectors=vectors)
    created = tuple(
        draft.create(
            sentence,
            canonical_key(sentence, graph.synonyms),
            ConceptType.OBSERVATION,
            chunk_group_id=request.chunk_group_id,
            last_demotion_time=draft.created_at,
        )
        for sentence in sentences
    )
    return draft.plan(DemoteResult(request.chunk_group_id, created))
