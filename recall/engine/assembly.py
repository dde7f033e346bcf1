"""From chosen members to an answer: hits with their warnings, cut to the token budget.

Owns which lines a hit carries, the token estimate and the cut. The cut stops at the first block
that does not fit; later, smaller blocks are not squeezed in, so a reader who sees a hit has seen
every better one.

Invariant: the estimate of the context returned is at most the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from memory.engine.graph import Graph
from memory.engine.showing import one_line
from memory.engine.times import Micros
from memory.engine.types import Status
from recall.engine.candidates import Leg
from recall.engine.hot_list import HotCondition, HotEntry
from recall.engine.rendering import hit_label, load_bearing_line, reservation_line
from recall.engine.results import Annotation, AnnotationKind, Hit

BLOCK_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Assembled:
    """The context block, its estimated tokens, and the hits with their final flags."""

    context: str
    tokens: int
    hits: tuple[Hit, ...]


def token_estimate(size_bytes: int) -> int:
    """Tokens of that many bytes of UTF-8: ceil(bytes / 3.5), in whole numbers."""
    return -(-2 * size_bytes // 7)


def build_hit(
    graph: Graph,
    row: int,
    *,
    score: float,
    legs: tuple[Leg, ...],
    blast_radius: Callable[[int], int],
    hot_entries: Sequence[HotEntry] = (),
    belief_lines: Sequence[Annotation] = (),
    reserved_at: Micros | None = None,
    companion_of: int | None = None,
    possibly_superseded_by: int | None = None,
    stands_for: Sequence[int] = (),
) -> Hit:
    """The hit of a live row with its warnings: load-bearing, hot list, belief, reservation.

    `blast_radius` measures a row and is asked for Canonical ones only. A reservation is mentioned
    when it is live at `reserved_at`; with None it is not looked up. The last three are
    rows.
    """
    concept = graph.concept_at(row)
    radius = blast_radius(row) if concept.status is Status.CANONICAL else None
    annotations = []
    if radius is not None:
        annotations.append(Annotation(AnnotationKind.LOAD_BEARING, load_bearing_line(radius)))
    for entry in hot_entries:
        is_conflict = entry.condition == HotCondition.CONFLICT
        kind = AnnotationKind.CONFLICT if is_conflict else AnnotationKind.HOT
        annotations.append(Annotation(kind, one_line(entry.line)))
    annotations += belief_lines
    if reserved_at is not None:
        reservation = graph.reservation(concept.id)
        if reservation is not None and reserved_at < reservation.expires_at:
            line = reservation_line(reservation)
            annotations.append(Annotation(AnnotationKind.RESERVATION, line))
    return Hit(
        node_id=concept.id,
        content=concept.content,
        concept_type=concept.concept_type,
        status=concept.status,
        score=score,
        blast_radius=radius,
        author=concept.origin_agent,
        legs=legs,
        annotations=tuple(annotations),
        companion_of=None if companion_of is None else graph.id_at(companion_of),
        possibly_superseded_by=(
            None if possibly_superseded_by is None else graph.id_at(possibly_superseded_by)
        ),
        skipped_redundant=tuple(map(graph.id_at, stands_for)),
    )


def assemble(hits: Sequence[Hit], *, max_tokens: int, show_authors: bool) -> Assembled:
    """Render `hits` in order until one does not fit; the rest are flagged as left out."""
    blocks = [render_block(hit, show_authors=show_authors) for hit in hits]
    count = _count_fitting(blocks, max_tokens)
    context = BLOCK_SEPARATOR.join(blocks[:count])
    left_out = [replace(hit, included_in_context=False) for hit in hits[count:]]
    return Assembled(
        context=context,
        tokens=token_estimate(len(context.encode())),
        hits=(*hits[:count], *left_out),
    )


def render_block(hit: Hit, *, show_authors: bool) -> str:
    """The lines of one hit: its label, then its warnings."""
    label = hit_label(
        hit.content,
        concept_type=hit.concept_type,
        score=hit.score,
        blast_radius=hit.blast_radius,
        author=hit.author if show_authors else None,
        stands_for=hit.skipped_redundant,
        also_in=hit.also_in,
        session=hit.session,
    )
    return "\n".join([label, *(annotation.text for annotation in hit.annotations)])


def warning_lines(hits: Iterable[Hit]) -> tuple[str, ...]:
    """Every warning of every hit in hit order, of those left out of the context as well."""
    return tuple(annotation.text for hit in hits for annotation in hit.annotations)


def empty_context_warnings(assembled: Assembled) -> tuple[str, ...]:
    """What is said when there are hits and not even the first one fits: one line, else none."""
    count = len(assembled.hits)
    if assembled.context or not count:
        return ()
    noun = "hit" if count == 1 else "hits"
    return (f"recall: {count} {noun} left out of the text; raise max_tokens",)


def _count_fitting(blocks: Iterable[str], max_tokens: int) -> int:
    """How many leading blocks fit; each is judged with all the text before it."""
    size_bytes = 0
    count = 0
    for block in blocks:
        # The separator is ASCII: as many bytes as characters.
        size_bytes += len(block.encode()) + (len(BLOCK_SEPARATOR) if count else 0)
        if token_estimate(size_bytes) > max_tokens:
            break
        count += 1
    return count
