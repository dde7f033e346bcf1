"""Matching by meaning: what a new concept is linked to, might replace, or seems to supersede.

Owns the rules between a new concept and those its vector is near to. Nothing is ever fused: a match
by meaning is a Semantic edge between two concepts, so a chain of near neighbours stays a chain. The
cosine only proposes; the lexical veto and the caller's own citations decide.

A `Search` says what is looked up before a write or a recall, which may be done on any thread, over
a published view of the vectors; everything else belongs to the synchronous step, which brings those
results up to date before it believes them. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.engine.draft import Draft, excerpt
from memory.engine.embedding import (
    Embedded,
    EmbeddingContract,
    EmbeddingFailure,
    Vector,
    calibration_of,
)
from memory.engine.graph import Graph
from memory.engine.lexical_reading import Reading, read
from memory.engine.lexical_veto import VetoReason, find_veto
from memory.engine.supersession import REPLACING_VETOES, is_new_version
from memory.engine.text import canonical_key
from memory.engine.times import Micros
from memory.engine.types import ConceptType, EdgeType, NodeId
from memory.engine.vector_table import Found, Query, VectorTable, ranked

NEAREST: Final = 8
"""Concepts looked at for each new text; each may cost a reading of both texts."""
LOOKED_FOR: Final = 4 * NEAREST
"""Concepts kept of a look-up: while some of them change, the rest still holds the nearest."""
CHANGES_IN_STEP: Final = 128
"""Changes of the vectors that the synchronous step brings in; with more, it is looked up again."""
READ_IN_STEP_CHARS: Final = 16_384
"""Characters of the pairs of texts that the synchronous step reads: some five milliseconds."""
NEAREST_TO_QUERY: Final = 100
"""Concepts looked up for a question, however short the answer: agreement with what words find shows
far down the list."""
EVERYTHING: Final = 2**62
"""More rows than any table has."""
QUERY_FLOOR: Final = 0.0
"""A concept that points away from a question is no answer to it."""
REPLACEMENTS: Final = 3
"""Replacement candidates offered for each new concept."""

ELIGIBLE: Final = frozenset([ConceptType.LOGIC, ConceptType.CONSTRAINT, ConceptType.OBSERVATION])
"""Types that claim something, so that a later claim may take their place."""

_SETTLING: Final = (EdgeType.CONTRADICTS, EdgeType.DEPENDENCY)


class Verdict(NamedTuple):
    """What a reading of two texts says about joining them."""

    veto: VetoReason | None
    is_new_version: bool = False


@dataclass(frozen=True, slots=True)
class Meanings:
    """The vectors of a write's texts, and what they were near to when they were looked up."""

    contract: EmbeddingContract
    vectors: Mapping[str, Vector]
    found: Mapping[str, Found] = field(default_factory=dict)
    table: VectorTable | None = None
    """The table that was looked up, and its version then; another table is searched afresh."""
    version: int = 0
    verdicts: Mapping[tuple[str, str], Verdict] = field(default_factory=dict)
    """By new text and the text it is near to; a pair that is missing is read when it is met."""

    @property
    def recent_score(self) -> float:
        """What a concept is worth to a recall for being new, among cosines of this contract."""
        return calibration_of(self.contract).recent_score


class ReplacementCandidate(NamedTuple):
    """An existing concept that a new one might replace. Nothing is written for it.

    `merged` tells that the two were linked, `newer` that the existing one is the later of the two.
    """

    new: NodeId
    id: NodeId
    excerpt: str
    cosine: float
    merged: bool
    newer: bool

    def as_wire(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(slots=True)
class Outcome:
    """What meaning added to a derive. `merged` holds one id for each hit that was linked."""

    merged: list[NodeId] = field(default_factory=list)
    replacements: list[ReplacementCandidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Search:
    """What has to be looked up for a write or a question: the vectors of its texts, and the queries
    of those texts that have neighbours to find."""

    contract: EmbeddingContract
    vectors: Mapping[str, Vector]
    queries: Mapping[str, Query]
    verdicts: Mapping[tuple[str, str], Verdict] = field(default_factory=dict)

    def result(self, table: VectorTable, version: int, found: Iterable[Found]) -> Meanings:
        """What the queries found, in their order, in the view of a version of a table."""
        by_text = dict(zip(self.queries, found, strict=True))
        return Meanings(self.contract, self.vectors, by_text, table, version, self.verdicts)


def search_for_texts(
    contract: EmbeddingContract,
    embedded: Mapping[str, Embedded],
    *,
    matched_by_meaning: Iterable[str],
) -> Search:
    """The usable vectors, and the neighbours of those texts that may be linked."""
    vectors = {
        text: vector
        for text, vector in embedded.items()
        if not isinstance(vector, EmbeddingFailure)
    }
    floor = calibration_of(contract).merge_threshold
    wanted = [text for text in matched_by_meaning if text in vectors]
    queries = {text: Query(vectors[text], LOOKED_FOR, floor) for text in wanted}
    return Search(contract, vectors, queries)


def is_behind(graph: Graph, meanings: Meanings) -> bool:
    """Whether so much has changed since the look-up that the step should not have to catch up."""
    table = graph.vectors
    if table is None or not meanings.found or meanings.contract != graph.contract:
        return False
    if meanings.table is not table:
        return True
    changed = table.changed_since(meanings.version)
    if changed is None or len(changed) > CHANGES_IN_STEP:
        return True
    return any(
        table.needs_search(found, meanings.version, NEAREST) for found in meanings.found.values()
    )


def search_again(meanings: Meanings) -> Search:
    """The same search, for a newer view."""
    again = search_for_texts(meanings.contract, meanings.vectors, matched_by_meaning=meanings.found)
    return replace(again, verdicts=meanings.verdicts)


def unread_pairs(graph: Graph, meanings: Meanings) -> list[tuple[str, str]]:
    """The pairs of texts the step would read now: empty when reading them takes no time."""
    floor = calibration_of(meanings.contract).merge_threshold
    pairs = [
        pair
        for text in meanings.found
        for row, _ in _current_hits(graph, meanings, text, k=NEAREST, floor=floor)
        if (pair := (text, graph.content_at(row))) not in meanings.verdicts
    ]
    chars = sum(len(left) + len(right) for left, right in pairs)
    return pairs if chars > READ_IN_STEP_CHARS else []


def read_pairs(meanings: Meanings, pairs: Collection[tuple[str, str]]) -> Meanings:
    """The meanings with a verdict for each pair; pure Python for long, on any thread."""
    readings = {text: read(text) for text in {text for pair in pairs for text in pair}}
    verdicts = {
        (left, right): _judge(left, right, readings[left], readings[right]) for left, right in pairs
    }
    return replace(meanings, verdicts={**meanings.verdicts, **verdicts})


def _judge(
    left: str, right: str, ours: Reading | None = None, theirs: Reading | None = None
) -> Verdict:
    veto = find_veto(left, right, ours=ours, theirs=theirs)
    if veto is None:
        return Verdict(None)
    is_new = veto.reason in REPLACING_VETOES and is_new_version(left, right)
    return Verdict(veto.reason, is_new)


def search_for_question(
    contract: EmbeddingContract,
    query: str,
    vector: Vector,
    *,
    top_k: int,
    is_filtered: bool = False,
) -> Search:
    """What a question is near to; for `nearest_to_query`.

    Where a filter decides later what may be shown, everything that is near at all.
    """
    limit = EVERYTHING if is_filtered else max(top_k, NEAREST_TO_QUERY)
    return Search(contract, {query: vector}, {query: Query(vector, limit, QUERY_FLOOR)})


def nearest_to_query(
    graph: Graph,
    meanings: Meanings,
    query: str,
    *,
    limit: int,
    accepted: NDArray[np.bool_] | None = None,
) -> list[tuple[int, float]]:
    """(row, cosine) of the concepts nearest to a question, best first, then by id.

    At most `limit`, which is no more than `search_for_question` looked for. Of all rows only those
    `accepted`, a mask by row, are listed.
    """
    if accepted is None:
        return _current_hits(graph, meanings, query, k=limit, floor=QUERY_FLOOR)
    everything = _current_hits(graph, meanings, query, k=graph.concept_count, floor=QUERY_FLOOR)
    return [hit for hit in everything if accepted[hit[0]]][:limit]


def new_texts(graph: Graph, texts: Iterable[str]) -> list[str]:
    """Those of the texts that no key matches: what is worth embedding before a write."""
    return [
        text
        for text in dict.fromkeys(texts)
        if graph.find_by_key(canonical_key(text, graph.synonyms)) is None
    ]


def link_by_meaning(
    draft: Draft, graph: Graph, meanings: Meanings, created: Mapping[str, NodeId], call: set[NodeId]
) -> Outcome:
    """Draft what meaning adds for each new concept (by its text), citations drafted before.

    `call` holds every concept the call writes: none of them is a replacement candidate.
    """
    outcome = Outcome()
    threshold = calibration_of(meanings.contract).merge_threshold
    for text, node in created.items():
        hits = _current_hits(graph, meanings, text, k=NEAREST, floor=threshold)
        merged = _link_alike(draft, graph, text, node, hits, meanings.verdicts)
        outcome.merged += merged
        outcome.replacements += _replacements(draft, graph, node, hits, merged, call)
    return outcome


def _current_hits(
    graph: Graph, meanings: Meanings, text: str, *, k: int, floor: float
) -> list[tuple[int, float]]:
    """(row, cosine) of the nearest concepts at or above a cosine, best first, then by id."""
    table, vector = graph.vectors, meanings.vectors.get(text)
    if table is None or vector is None or meanings.contract != graph.contract:
        return []
    found = meanings.found.get(text)
    if found is None or meanings.table is not table:
        return table.search(vector, k, floor=floor, tie_key=graph.id_at)
    found = table.up_to_date(found, meanings.version, vector, k, floor=floor)
    return ranked(found, k, tie_key=graph.id_at)


def _link_alike(
    draft: Draft,
    graph: Graph,
    text: str,
    node: NodeId,
    hits: list[tuple[int, float]],
    verdicts: Mapping[tuple[str, str], Verdict],
) -> list[NodeId]:
    """Semantic edges to the best hit that nothing speaks against, and to all tied with it.

    On the way there, a hit that was turned down for a value alone may be an older version.
    """
    merged: list[NodeId] = []
    best: float | None = None
    for row, cosine in hits:
        hit = graph.id_at(row)
        content = graph.content_at(row)
        verdict = verdicts.get((text, content)) or _judge(text, content)
        if verdict.veto is not None:
            if verdict.is_new_version:
                _suspect(draft, graph, node, row, cosine)
            continue
        if (best is not None and cosine != best) or _contradicts(draft, node, hit):
            continue
        best = cosine
        source, target = sorted((node, hit))
        draft.link(source, target, EdgeType.SEMANTIC, weight=cosine)
        merged.append(hit)
    return merged


def _contradicts(draft: Draft, node: NodeId, hit: NodeId) -> bool:
    return draft.has_edge(node, hit, EdgeType.CONTRADICTS)


def _suspect(draft: Draft, graph: Graph, node: NodeId, row: int, cosine: float) -> None:
    """Note that one of the two seems to take the other's place, the later that of the earlier."""
    hit = graph.id_at(row)
    if not _may_replace(draft, graph, node, row):
        return
    ours, theirs = draft.claimed_at, _claimed_at(graph, row)
    if ours != theirs:
        newer, older = (node, hit) if ours > theirs else (hit, node)
        draft.link(newer, older, EdgeType.SUSPECTED_SUPERSEDES, weight=cosine)


def _replacements(
    draft: Draft,
    graph: Graph,
    node: NodeId,
    hits: list[tuple[int, float]],
    merged: list[NodeId],
    call: set[NodeId],
) -> list[ReplacementCandidate]:
    offered = (
        ReplacementCandidate(
            new=node,
            id=graph.id_at(row),
            excerpt=excerpt(graph.content_at(row)),
            cosine=cosine,
            merged=graph.id_at(row) in merged,
            newer=_claimed_at(graph, row) > draft.claimed_at,
        )
        for row, cosine in hits
        if graph.id_at(row) not in call and _may_replace(draft, graph, node, row)
    )
    return list(islice(offered, REPLACEMENTS))


def _may_replace(draft: Draft, graph: Graph, node: NodeId, row: int) -> bool:
    """Both claim something in the same way, and no citation says how they stand to each other."""
    kind, hit = graph.type_at(row), graph.id_at(row)
    if kind not in ELIGIBLE or draft.created_type(node) is not kind:
        return False
    return not any(
        draft.has_edge(source, target, settling)
        for settling in _SETTLING
        for source, target in ((node, hit), (hit, node))
    )


def _claimed_at(graph: Graph, row: int) -> Micros:
    """When the claim was made: the time its origin is about, never later than it was written."""
    origin = graph.chain.records[int(graph.concepts["origin"][row])]
    return min(origin.about_time, origin.created_at)
