from __future__ import annotations

import pytest

from memory.engine.types import ConceptType, Status
from recall.engine.assembly import assemble, build_hit, token_estimate, warning_lines
from recall.engine.hot_list import HotCondition, HotEntry
from recall.engine.results import Annotation, AnnotationKind, Hit
from recall_graphs import START, GraphWriter


def hit(content: str, *annotations: Annotation) -> Hit:
    return Hit(
        node_id="n",
        content=content,
        concept_type=ConceptType.LOGIC,
        status=Status.NONE,
        score=0.5,
        blast_radius=None,
        author="agent-a",
        annotations=annotations,
    )


LABEL_BYTES = len(" [Logic] (score 0.50)")


def sized(size_bytes: int) -> Hit:
    """A hit whose block is that many bytes long."""
    return hit("x" * (size_bytes - LABEL_BYTES))


@pytest.mark.parametrize(
    ("size_bytes", "tokens"), [(0, 0), (1, 1), (3, 1), (4, 2), (7, 2), (8, 3), (35, 10), (36, 11)]
)
def test_token_estimate_is_a_ceiling_of_bytes_over_three_and_a_half(
    size_bytes: int, tokens: int
) -> None:
    assert token_estimate(size_bytes) == tokens


def test_blocks_are_joined_by_one_blank_line_without_a_trailing_newline() -> None:
    assembled = assemble([hit("a"), hit("b")], max_tokens=100, show_authors=False)

    assert assembled.context == "a [Logic] (score 0.50)\n\nb [Logic] (score 0.50)"


def test_the_budget_counts_the_text_so_far_with_its_separators() -> None:
    """35 + 2 + 34 bytes are 71, 21 tokens; without the separator they would be 20."""
    hits = [sized(35), sized(34)]

    assert assemble(hits, max_tokens=21, show_authors=False).tokens == 21
    assert assemble(hits, max_tokens=20, show_authors=False).tokens == 10


def test_the_budget_counts_bytes_not_characters() -> None:
    """⚑ and — take three bytes each: 44 characters, 48 bytes, 14 tokens (13 by characters)."""
    content = "⚑—" + "x" * 21
    assert len(content) + LABEL_BYTES == 44

    assembled = assemble([hit(content)], max_tokens=13, show_authors=False)

    assert assembled.context == ""
    assert assemble([hit(content)], max_tokens=14, show_authors=False).tokens == 14


def test_the_first_misfit_ends_the_text_although_a_later_block_would_fit() -> None:
    assembled = assemble([sized(35), sized(90), sized(22)], max_tokens=25, show_authors=False)

    assert [hit.included_in_context for hit in assembled.hits] == [True, False, False]
    assert assembled.tokens == 10


def test_when_the_first_block_is_over_budget_the_context_is_empty_and_hits_stay() -> None:
    assembled = assemble([sized(90)], max_tokens=1, show_authors=False)

    assert (assembled.context, assembled.tokens, len(assembled.hits)) == ("", 0, 1)


def test_authors_are_named_when_asked_for() -> None:
    assembled = assemble([hit("a")], max_tokens=100, show_authors=True)

    assert assembled.context == "a [Logic, by agent-a] (score 0.50)"


def test_warning_lines_are_every_annotation_in_hit_order() -> None:
    hot = Annotation(AnnotationKind.HOT, "h")
    conflict = Annotation(AnnotationKind.CONFLICT, "c")

    assert warning_lines([hit("a", hot, conflict), hit("b"), hit("c", hot)]) == ("h", "c", "h")


def built(
    writer: GraphWriter, node_id: str, *entries: HotEntry, reserved_at: int | None = None
) -> Hit:
    return build_hit(
        writer.graph,
        writer.row(node_id),
        score=0.5,
        legs=(),
        blast_radius=writer.graph.blast_radius,
        hot_entries=entries,
        reserved_at=reserved_at,
    )


def test_a_hit_carries_load_bearing_then_hot_list_then_reservation() -> None:
    writer = GraphWriter()
    writer.interact()
    node = writer.concept("pillar", status=Status.CANONICAL)
    writer.reserve(node, agent="agent-c", expires_at=START + 1)
    entries = [
        HotEntry(HotCondition.CONFLICT, "conflict"),
        HotEntry(HotCondition.HIGH_RISK, "risk"),
        HotEntry(HotCondition.DRIFT, "drift"),
        HotEntry(HotCondition.STALE, "stale"),
    ]

    found = built(writer, node, *entries, reserved_at=START)

    assert [annotation.kind for annotation in found.annotations] == [
        AnnotationKind.LOAD_BEARING,
        AnnotationKind.CONFLICT,
        AnnotationKind.HOT,
        AnnotationKind.HOT,
        AnnotationKind.HOT,
        AnnotationKind.RESERVATION,
    ]
    assert found.blast_radius == 0


@pytest.mark.parametrize("status", [Status.NONE, Status.CANDIDATE, Status.VENERABLE])
def test_only_a_canonical_hit_carries_its_radius(status: Status) -> None:
    writer = GraphWriter()
    writer.interact()
    node = writer.concept("x", status=status)
    writer.depend(writer.concept("user"), node)

    found = built(writer, node)

    assert (found.blast_radius, found.annotations) == (None, ())


def test_a_reservation_is_mentioned_until_it_expires() -> None:
    writer = GraphWriter()
    writer.interact()
    node = writer.concept("x")
    writer.reserve(node, agent="agent-c", expires_at=START + 1)

    assert len(built(writer, node, reserved_at=START).annotations) == 1
    assert built(writer, node, reserved_at=START + 1).annotations == ()
    assert built(writer, node, reserved_at=None).annotations == ()
