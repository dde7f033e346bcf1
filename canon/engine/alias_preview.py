"""What would change if citations of a short name stood at the ruling it is short for.

Agents cite "session store" long before somebody rules what the session store is; the evidence then
holds up the name and not the ruling. A preview says, pair by pair, what the ruling would measure
with the citations of the name, and changes nothing. Pairs are the declared synonyms of the session;
on request also names that are near a longer statement in meaning, under the guards of a merge.

Invariant: a pair in which one contradicts the other is never suggested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from canon.engine.evidence import gather
from canon.engine.gate_times import Timeline
from canon.engine.gates import Check
from canon.engine.measurements import Circumstances, Measurements, measure, measure_pieces
from canon.engine.policies import check_hop, is_passed, next_status
from memory.engine.graph import Graph
from memory.engine.lexical_veto import find_veto, same_identifiers
from memory.engine.showing import in_passing
from memory.engine.text import canonical_key
from memory.engine.types import EdgeType, NodeId, Status
from memory.engine.vector_table import Query, nearest, ranked

NAMES_MAX: Final = 200
"""Cited names that are compared by meaning, the most cited first."""
NAME_WORDS_MAX: Final = 4
"""Words of a key up to which a concept is a name; more make a statement."""
RULINGS_PER_NAME: Final = 8


@dataclass(frozen=True, slots=True)
class AliasMove:
    """Citations of `name` as evidence for `ruling`. `cosine` is None for a declared synonym.

    `citations` would move. `before` and `after` are the ruling's measurements.
    """

    name: NodeId
    name_content: str
    ruling: NodeId
    ruling_content: str
    status: Status
    citations: int
    before: Measurements
    after: Measurements
    checks: tuple[Check, ...]
    cosine: float | None = None

    @property
    def would_pass(self) -> bool:
        """Whether the moved citations alone would lift the ruling one hop."""
        return bool(self.checks) and is_passed(self.checks)

    @property
    def next_status(self) -> Status | None:
        return next_status(self.status)

    def as_wire(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "name_content": in_passing(self.name_content),
            "ruling": self.ruling,
            "ruling_content": in_passing(self.ruling_content),
            "status": str(self.status),
            "next_status": None if self.next_status is None else str(self.next_status),
            "citations": self.citations,
            "before": _measured_wire(self.before),
            "after": _measured_wire(self.after),
            "would_pass": self.would_pass,
            "reasons": [check.sentence for check in self.checks if check.sentence is not None],
            "cosine": self.cosine,
        }


def alias_preview(
    graph: Graph,
    circumstances: Circumstances,
    *,
    similar: float | None = None,
    timeline: Timeline | None = None,
) -> list[AliasMove]:
    """The moves of the declared synonyms; with `similar`, a least cosine, suggestions too.

    Declared ones come first, by the names' ids; then suggestions by cosine. One name may be near
    several rulings and is shown with the nearest that the guards let through.
    """
    timeline = timeline or Timeline()
    timeline.follow(graph)
    declared = sorted(_declared_pairs(graph), key=lambda pair: graph.id_at(pair[0]))
    pairs: list[tuple[int, int, float | None]] = [*declared]
    if similar is not None:
        known = {name for name, _, _ in declared}
        near = sorted(
            _similar_pairs(graph, similar), key=lambda pair: (-pair[2], graph.id_at(pair[0]))
        )
        pairs += [pair for pair in near if pair[0] not in known]
    return [
        _preview(graph, name, ruling, cosine, circumstances, timeline)
        for name, ruling, cosine in pairs
    ]


def _declared_pairs(graph: Graph) -> Iterator[tuple[int, int, None]]:
    for source, target in graph.synonyms.items():
        name = graph.find_by_key(canonical_key(source, {}))
        ruling = graph.find_by_key(canonical_key(target, {}))
        if name is None or ruling is None or name == ruling or not graph.blast_radius(name):
            continue
        if not _contradict(graph, name, ruling):
            yield name, ruling, None


def _similar_pairs(graph: Graph, floor: float) -> Iterator[tuple[int, int, float]]:
    if graph.vectors is None:
        return
    view = graph.vectors.view()
    for name in _cited_names(graph):
        vector = graph.vectors.get(name)
        if vector is None:
            continue
        (found,) = nearest(view, [Query(vector, RULINGS_PER_NAME + 1, floor)])
        for ruling, cosine in ranked(found, RULINGS_PER_NAME + 1, tie_key=graph.id_at):
            if ruling != name and _may_stand_for(graph, name, ruling):
                yield name, ruling, cosine
                break


def _cited_names(graph: Graph) -> list[int]:
    """Rows of the short names that something rests on, the most cited first."""
    cited = np.flatnonzero(graph.concepts["dependents"][: graph.concepts.used] > 0).tolist()
    names = [
        row
        for row in cited
        if graph.concepts.live[row] and len(graph.key_at(row).split()) <= NAME_WORDS_MAX
    ]
    return sorted(names, key=lambda row: (-graph.blast_radius(row), graph.id_at(row)))[:NAMES_MAX]


def _may_stand_for(graph: Graph, name: int, ruling: int) -> bool:
    """Whether a statement may be what the name is short for."""
    texts = graph.content_at(name), graph.content_at(ruling)
    return (
        len(graph.key_at(ruling).split()) > len(graph.key_at(name).split())
        and same_identifiers(*texts)
        and find_veto(*texts) is None
        and not _contradict(graph, name, ruling)
    )


def _contradict(graph: Graph, one: int, other: int) -> bool:
    against = EdgeType.CONTRADICTS
    return other in graph.out_rows(one, against) or one in graph.out_rows(other, against)


def _preview(
    graph: Graph,
    name: int,
    ruling: int,
    cosine: float | None,
    circumstances: Circumstances,
    timeline: Timeline,
) -> AliasMove:
    (before,) = measure(graph, [ruling], circumstances, timeline)
    pieces = gather(graph, timeline, [ruling, name])
    moved = pieces.where(pieces.dependent != ruling)
    own_origin = np.full(len(moved), graph.concepts["origin"][ruling])
    whole = replace(moved, owner=np.zeros(len(moved), dtype=np.int64), own_origin=own_origin)
    (after,) = measure_pieces(graph, [ruling], whole, circumstances, timeline)
    return AliasMove(
        name=graph.id_at(name),
        name_content=graph.content_at(name),
        ruling=graph.id_at(ruling),
        ruling_content=graph.content_at(ruling),
        status=before.status,
        citations=int(np.count_nonzero(moved.owner == 1)),
        before=before,
        after=after,
        checks=check_hop(after, circumstances),
        cosine=cosine,
    )


def _measured_wire(measured: Measurements) -> dict[str, Any]:
    return {
        "distinct": measured.distinct,
        "coverage": measured.coverage,
        "blast_radius": measured.blast_radius,
    }
