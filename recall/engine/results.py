"""What a recall returns: typed hits, and the shapes they take on the wire.

Owns the records and their two JSON forms. Content leaves here exactly as stored; escaping is for
text that people and models read line by line, and happens in `rendering`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from memory.engine.showing import cut
from memory.engine.types import ConceptType, NodeId, Status
from recall.engine.candidates import Leg


class AnnotationKind(StrEnum):
    """What a line under a hit, or beside the whole answer, is about."""

    LOAD_BEARING = "load_bearing"
    CONFLICT = "conflict"
    HOT = "hot"  # high risk, drift, stale
    RESERVATION = "reservation"
    CONTRADICTION = "contradiction"  # another concept contradicts this one
    CONTRADICTS = "contradicts"  # this one contradicts another
    RESTS_ON_CONTRADICTED = "rests_on_contradicted"
    POSSIBLY_SUPERSEDED = "possibly_superseded"  # by another hit, as far as texts tell
    SUPERSEDED = "superseded"
    TRAVERSAL = "traversal"  # of the whole answer
    VECTOR_DEGRADED = "vector_degraded"  # of the whole answer


@dataclass(frozen=True, slots=True)
class Annotation:
    """One line of warning, typed."""

    kind: AnnotationKind
    text: str

    def as_wire(self) -> dict[str, str]:
        return {"kind": str(self.kind), "text": self.text}


class Elsewhere(NamedTuple):
    """A copy of a hit in another session."""

    session: str
    node_id: NodeId

    def as_wire(self) -> dict[str, str]:
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Hit:
    """One concept of an answer.

    `blast_radius` is the live number of concepts that rest on it, given on Canonical hits only.
    `legs` tell how it was found. `included_in_context` is False when the token budget left its
    block out. `companion_of` names the contradicted hit that it was brought in beside;
    `possibly_superseded_by` the hit that seems to say the same with another value;
    `skipped_redundant` what it stands for, because it says the same. `session` is the layer it
    comes from, None for the session that was asked; `also_in` tells which layers hold it too.
    """

    node_id: NodeId
    content: str
    concept_type: ConceptType
    status: Status
    score: float
    blast_radius: int | None
    author: str
    legs: tuple[Leg, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    included_in_context: bool = True
    companion_of: NodeId | None = None
    possibly_superseded_by: NodeId | None = None
    skipped_redundant: tuple[NodeId, ...] = ()
    session: str | None = None
    also_in: tuple[Elsewhere, ...] = ()

    @property
    def is_canonical(self) -> bool:
        return self.status is Status.CANONICAL

    def as_wire(self) -> dict[str, Any]:
        """The hit in the reply of the recall tool; one that is not in the context is cut."""
        wire: dict[str, Any] = {
            "node_id": self.node_id,
            "content": self.content if self.included_in_context else cut(self.content),
            "concept_type": str(self.concept_type),
            "score": self.score,
            "is_canonical": self.is_canonical,
            "blast_radius": self.blast_radius,
            "included_in_context": self.included_in_context,
            "annotations": [annotation.as_wire() for annotation in self.annotations],
        }
        return wire | self._relations()

    def _relations(self) -> dict[str, Any]:
        """What it is to other hits and sessions; empty for almost all."""
        found = {
            "session": self.session,
            "companion_of": self.companion_of,
            "possibly_superseded_by": self.possibly_superseded_by,
        }
        told: dict[str, Any] = {name: one for name, one in found.items() if one is not None}
        if self.skipped_redundant:
            told["skipped_redundant"] = list(self.skipped_redundant)
        if self.also_in:
            told["also_in"] = [copy.as_wire() for copy in self.also_in]
        return told

    def as_detailed(self) -> dict[str, Any]:
        """The hit in the detailed form: a status of None and an absent radius are left out."""
        detailed: dict[str, Any] = {
            "content": self.content,
            "concept_type": str(self.concept_type),
            "score": self.score,
            "included_in_context": self.included_in_context,
            "annotations": [annotation.as_wire() for annotation in self.annotations],
        }
        if self.status is not Status.NONE:
            detailed["status"] = str(self.status)
        if self.blast_radius is not None:
            detailed["blast_radius"] = self.blast_radius
        return detailed | self._relations()


@dataclass(frozen=True, slots=True)
class RecallResult:
    """An answer: the context block, its cost in tokens, and every hit, shown or left out.

    `cold_start` tells that some hit was ranked without a standing, for it has none yet.
    """

    context: str
    tokens: int
    hits: tuple[Hit, ...]
    response_annotations: tuple[Annotation, ...] = ()
    warnings: tuple[str, ...] = ()
    cold_start: bool = False

    @property
    def left_out(self) -> int:
        """How many hits the token budget kept out of the context."""
        return sum(not hit.included_in_context for hit in self.hits)

    def as_wire(self) -> dict[str, Any]:
        """The structured content of the recall tool's reply."""
        return {
            "context": self.context,
            "hits": [hit.as_wire() for hit in self.hits],
            "left_out": self.left_out,
            "warnings": list(self.warnings),
        }

    def as_ledger(self) -> dict[str, Any]:
        """What an operator may know of it: numbers, and no word of what was asked or answered."""
        legs = Counter(str(leg) for hit in self.hits for leg in hit.legs)
        return {
            "hits": len(self.hits),
            "left_out": self.left_out,
            "tokens": self.tokens,
            "legs": dict(sorted(legs.items())),
            "cold_start": self.cold_start,
        }

    def as_details(self) -> dict[str, Any]:
        """How the answer came about: its cost in tokens, and the legs of each hit, in order."""
        legs = [[str(leg) for leg in hit.legs] for hit in self.hits]
        return {"tokens": self.tokens, "legs": legs}

    def as_detailed(self) -> dict[str, Any]:
        """The detailed form, without the context block."""
        return {
            "hits": [hit.as_detailed() for hit in self.hits],
            "response_annotations": [note.as_wire() for note in self.response_annotations],
        }
