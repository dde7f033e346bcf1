"""One answer from several sessions: the session asked, and layers behind it, nearest first.

Owns what of a layer may enter, how the lists become one, and which of two copies stays. Each
session was ranked alone, with its own scores; only places are compared across sessions, for scores
of two graphs are not on one scale. Follows no edge and reads no graph but to take notes for a
later merge, so that the merge itself may run on any thread.

Invariant: merged alone, a session's answer is byte for byte the one `recall` gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from memory.engine.embedding import (
    DEFAULT_CALIBRATION,
    EmbeddingContract,
    Vector,
    calibration_of,
)
from memory.engine.graph import Graph
from memory.engine.limits import TOP_K_MAX
from memory.engine.requests import Layer, RecallRequest
from memory.engine.types import NodeId
from memory.engine.vector_table import exact_cosines
from recall.engine.assembly import assemble, empty_context_warnings, warning_lines
from recall.engine.pipeline import Ranked, traversal_notices
from recall.engine.redundancy import is_one_claim
from recall.engine.results import Annotation, AnnotationKind, Elsewhere, Hit, RecallResult
from recall.engine.settings import DEFAULT_SETTINGS, RecallSettings

OWN_WEIGHT: Final = 1.0
"""Of the session that is asked."""

REACH_PER_SLOT: Final = 4
"""How many times further than the answer is long a layer is ranked: much of it may be too far from
the question to enter, and must not keep out what is near."""

_URGENT: Final = frozenset(
    {AnnotationKind.CONFLICT, AnnotationKind.HOT, AnnotationKind.RESERVATION}
)
"""What a hit warns of that is shown although the slots are taken."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One session on its way into a merge: its hits, and what tells its copies from others'.

    `floor` is the least cosine of a hit with the question, None for the session that is asked.
    `keys` and `vectors` are by hit; a hit without a vector is missing from the latter.
    """

    name: str
    ranked: Ranked
    keys: Mapping[NodeId, str]
    vectors: Mapping[NodeId, Vector]
    weight: float = OWN_WEIGHT
    floor: float | None = None


class _Entry(NamedTuple):
    """A hit in the merge. `tier` is its session's place, `at` its own place in that list."""

    tier: int
    at: int
    hit: Hit
    worth: float
    """Weight / place; of a hit with copies the highest of theirs."""


def layer_request(request: RecallRequest) -> RecallRequest:
    """What a layer is asked, of a question to all of them."""
    return replace(request, top_k=min(TOP_K_MAX, REACH_PER_SLOT * request.top_k))


def note_tier(
    graph: Graph,
    ranked: Ranked,
    *,
    weight: float = OWN_WEIGHT,
    floor: float | None = None,
) -> Tier:
    """What a merge needs of a session, taken from its graph at the moment it was ranked."""
    keys: dict[NodeId, str] = {}
    vectors: dict[NodeId, Vector] = {}
    for hit in ranked.hits:
        row = graph.row_of(hit.node_id)
        assert row is not None, "a hit is a concept of its graph"
        keys[hit.node_id] = graph.concept_at(row).canonical_key
        vector = None if graph.vectors is None else graph.vectors.get(row)
        if vector is not None:
            vectors[hit.node_id] = vector
    return Tier(graph.session_id, ranked, keys, vectors, weight, floor)


def note_layer(graph: Graph, ranked: Ranked, layer: Layer) -> Tier:
    """The same of a layer, with the line it names or else that of its contract."""
    contract, floor = graph.contract, layer.min_similarity
    if floor is None:
        floor = (DEFAULT_CALIBRATION if contract is None else calibration_of(contract)).layer_floor
    return note_tier(graph, ranked, weight=layer.weight, floor=floor)


def merge(
    tiers: Sequence[Tier],
    request: RecallRequest,
    *,
    query: Vector | None,
    contract: EmbeddingContract | None,
    settings: RecallSettings = DEFAULT_SETTINGS,
) -> RecallResult:
    """One answer from the session asked, which is the first of `tiers`, and its layers.

    `query` is the question's vector, without which a layer gives dependents only. All vectors are
    of one contract.
    """
    lines_of = DEFAULT_CALIBRATION if contract is None else calibration_of(contract)
    entries = _fold_copies(tiers, list(_enter(tiers, query)), threshold=lines_of.merge_threshold)
    entries.sort(key=lambda entry: (-entry.worth, entry.tier, entry.at))
    shown = _cut(tiers, entries, top_k=request.top_k)
    assembled = assemble(
        [entry.hit for entry in shown],
        max_tokens=request.max_tokens,
        show_authors=settings.show_authors,
    )
    notices = tuple(
        Annotation(notice.kind, _prefix(tiers, place) + notice.text)
        for place, tier in enumerate(tiers)
        if (theirs := _hits_of(assembled.hits, tiers, place))
        for notice in traversal_notices(tier.ranked, theirs)
    )
    lines = (
        _prefix(tiers, entry.tier) + line
        for entry in shown
        if not tiers[entry.tier].ranked.by_traversal
        for line in warning_lines([entry.hit])
    )
    return RecallResult(
        context=assembled.context,
        tokens=assembled.tokens,
        hits=assembled.hits,
        response_annotations=notices,
        warnings=(*(note.text for note in notices), *lines, *empty_context_warnings(assembled)),
        cold_start=any(tier.ranked.cold_start for tier in tiers),
    )


def _enter(tiers: Sequence[Tier], query: Vector | None) -> Iterator[_Entry]:
    """The hits that may be in the answer, each with the worth of its place among them."""
    for number, tier in enumerate(tiers):
        place = 0
        entered: set[NodeId] = set()
        for at, hit in enumerate(tier.ranked.hits):
            if hit.companion_of is None:
                if not _is_near(tier, hit, query):
                    continue
                place += 1
                entered.add(hit.node_id)
            elif hit.companion_of not in entered:
                continue
            named = hit if number == 0 else replace(hit, session=tier.name)
            # A companion shares the place of the hit it stands beside.
            yield _Entry(number, at, named, tier.weight / place)


def _is_near(tier: Tier, hit: Hit, query: Vector | None) -> bool:
    """Whether a hit's meaning is near enough for its session; dependents are answers by an edge."""
    if tier.floor is None or tier.ranked.by_traversal:
        return True
    vector = tier.vectors.get(hit.node_id)
    if query is None or vector is None:
        return False
    return bool(exact_cosines(vector[np.newaxis], query)[0] >= tier.floor)


def _fold_copies(
    tiers: Sequence[Tier], entries: Sequence[_Entry], *, threshold: float
) -> list[_Entry]:
    """The same without what a nearer session holds too; the nearer copy takes the better place.

    What warns of something of its own stays, for its warning is of its own session.
    """
    kept: list[_Entry] = []
    for number, of_tier in groupby(entries, key=lambda entry: entry.tier):  # nearest first
        nearer = _Nearer(tiers, tuple(kept))
        for entry in of_tier:
            found = None if _warns(entry.hit) else nearer.find_copy(entry, threshold=threshold)
            if found is None:
                kept.append(entry)
                continue
            other = kept[found]
            copy = Elsewhere(tiers[number].name, entry.hit.node_id)
            kept[found] = other._replace(
                hit=replace(other.hit, also_in=(*other.hit.also_in, copy)),
                worth=max(other.worth, entry.worth),
            )
    return kept


class _Nearer:
    """What nearer sessions hold, to look for copies in."""

    def __init__(self, tiers: Sequence[Tier], entries: Sequence[_Entry]) -> None:
        self._tiers = tiers
        self._entries = entries
        self._by_key: dict[str, int] = {}
        self._places: list[int] = []  # of those that have a vector
        vectors: list[Vector] = []
        for place, (tier, _, hit, _) in enumerate(entries):
            self._by_key.setdefault(tiers[tier].keys[hit.node_id], place)
            vector = tiers[tier].vectors.get(hit.node_id)
            if vector is not None:
                self._places.append(place)
                vectors.append(vector)
        self._matrix = np.stack(vectors) if vectors else None

    def find_copy(self, entry: _Entry, *, threshold: float) -> int | None:
        """The place of the same memory: of the same key, else the nearest of one claim."""
        tier, node_id = self._tiers[entry.tier], entry.hit.node_id
        place = self._by_key.get(tier.keys[node_id])
        vector = tier.vectors.get(node_id)
        if place is not None or self._matrix is None or vector is None:
            return place
        cosines = exact_cosines(self._matrix, vector)
        for at in np.argsort(-cosines, kind="stable").tolist():
            if cosines[at] < threshold:
                break
            near = self._places[int(at)]
            if is_one_claim(self._entries[near].hit.content, entry.hit.content):
                return near
        return None


def _warns(hit: Hit) -> bool:
    return any(line.kind is not AnnotationKind.LOAD_BEARING for line in hit.annotations)


def _cut(tiers: Sequence[Tier], entries: Sequence[_Entry], *, top_k: int) -> list[_Entry]:
    """The first `top_k`, and beyond them what is forced, urgent, or a shown hit's companion."""
    shown: list[_Entry] = []
    present: set[tuple[int, NodeId]] = set()
    slots = 0
    for entry in entries:
        hit = entry.hit
        if hit.companion_of is not None:
            is_shown = (entry.tier, hit.companion_of) in present
        elif hit.node_id in tiers[entry.tier].ranked.forced:
            is_shown = True
        else:
            has_slot = slots < top_k
            slots += has_slot
            is_shown = has_slot or any(line.kind in _URGENT for line in hit.annotations)
        if is_shown:
            shown.append(entry)
            present.add((entry.tier, hit.node_id))
    return shown


def _hits_of(hits: Sequence[Hit], tiers: Sequence[Tier], place: int) -> list[Hit]:
    name = None if place == 0 else tiers[place].name
    return [hit for hit in hits if hit.session == name]


def _prefix(tiers: Sequence[Tier], place: int) -> str:
    """What the warnings of a layer begin with."""
    return "" if place == 0 else f"[{tiers[place].name}] "
