"""A neighbourhood as a picture: SVG made here, so that it needs no script and no network.

Owns where boxes and lines stand. What rests on the concept is drawn to its left, what it rests on
to its right, everything else below. Colours are the page's, so that light and dark both work.

Invariant: everything in the picture is also in its description; stored text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memory.browser.neighbourhood import Neighbour, Neighbourhood, Side
from memory.browser.records import row_url
from memory.models import Concept

BOX_WIDTH: Final = 230
BOX_HEIGHT: Final = 34
GAP: Final = 12
COLUMN_GAP: Final = 110
MARGIN: Final = 16
HEADING: Final = 26
LABEL_CHARACTERS: Final = 30
PER_ROW: Final = 3


@dataclass(frozen=True, slots=True)
class _Box:
    x: int
    y: int
    neighbour: Neighbour

    @property
    def middle(self) -> int:
        return self.y + BOX_HEIGHT // 2


def draw(concept: Concept, label: str, around: Neighbourhood) -> SafeString:
    """The picture, or nothing where there is nothing to draw."""
    if not around.neighbours:
        return SafeString("")
    step = BOX_HEIGHT + GAP
    columns = [MARGIN + place * (BOX_WIDTH + COLUMN_GAP) for place in range(PER_ROW)]
    left, right = around.of(Side.RESTS_ON_IT), around.of(Side.HOLDS_IT)
    beside = around.of(Side.BESIDE)
    tallest = max(len(left), len(right), 1)
    top = MARGIN + HEADING
    boxes = _column(columns[0], top, tallest, left) + _column(columns[2], top, tallest, right)
    focus_y = top + (tallest * step - GAP - BOX_HEIGHT) // 2
    floor = top + tallest * step + (HEADING + GAP if beside else 0)
    lower = [
        _Box(columns[place % PER_ROW], floor + (place // PER_ROW) * step, neighbour)
        for place, neighbour in enumerate(beside)
    ]
    rows = -(-len(beside) // PER_ROW)
    width = columns[-1] + BOX_WIDTH + MARGIN
    height = floor + rows * step + MARGIN
    headings = [
        (columns[0], MARGIN + 12, "What rests on it", bool(left)),
        (columns[2], MARGIN + 12, "What it rests on", bool(right)),
        (columns[0], floor - GAP, "Other links", bool(beside)),
    ]
    return format_html(
        '<svg class="lambo-picture" viewBox="0 0 {} {}" role="img" '
        'aria-labelledby="picture-title picture-text" xmlns="http://www.w3.org/2000/svg">'
        '<title id="picture-title">Around {}</title><desc id="picture-text">{}</desc>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto-start-reverse"><path class="tip" d="M0 0 8 4 0 8z"/>'
        "</marker></defs>{}{}{}{}{}</svg>",
        width,
        height,
        label,
        describe(around),
        format_html_join(
            "", '<text class="heading" x="{}" y="{}">{}</text>',
            [heading[:3] for heading in headings if heading[3]],
        ),
        _lines(boxes, columns[1], focus_y),
        _focus(columns[1], focus_y, label, str(concept.status)),
        _boxes(boxes, concept.session_id),
        _boxes(lower, concept.session_id),
    )  # fmt: skip


def describe(around: Neighbourhood) -> str:
    """The picture in words, a sentence for each side."""
    sentences = []
    for side, title in (
        (Side.RESTS_ON_IT, "On it rest"),
        (Side.HOLDS_IT, "It rests on"),
        (Side.BESIDE, "Also linked"),
    ):
        if named := [f"{one.label} ({one.edge_type})" for one in around.of(side)]:
            sentences.append(f"{title}: {'; '.join(named)}.")
    if around.left_out:
        sentences.append(f"{around.left_out} more are not drawn.")
    return " ".join(sentences)


def _column(x: int, top: int, tallest: int, neighbours: Sequence[Neighbour]) -> list[_Box]:
    step = BOX_HEIGHT + GAP
    start = top + (tallest - len(neighbours)) * step // 2
    return [_Box(x, start + place * step, one) for place, one in enumerate(neighbours)]


def _lines(boxes: Sequence[_Box], focus_x: int, focus_y: int) -> SafeString:
    """An arrow from what depends to what it depends on."""
    middle = focus_y + BOX_HEIGHT // 2
    lines = []
    for box in boxes:
        is_left = box.x < focus_x
        near = focus_x if is_left else focus_x + BOX_WIDTH
        far = box.x + BOX_WIDTH if is_left else box.x
        begin, end = (
            ((far, box.middle), (near, middle)) if is_left else ((near, middle), (far, box.middle))
        )
        lines.append((*begin, *end, box.neighbour.edge_type))
    return format_html_join(
        "",
        '<line class="edge edge-{4}" x1="{0}" y1="{1}" x2="{2}" y2="{3}" marker-end="url(#tip)"/>',
        lines,
    )


def _focus(x: int, y: int, label: str, status: str) -> SafeString:
    return format_html(
        '<g class="focus status-{}"><rect x="{}" y="{}" width="{}" height="{}" rx="6"/>'
        '<text x="{}" y="{}">{}</text></g>',
        status, x, y, BOX_WIDTH, BOX_HEIGHT, x + 10, y + 22, _short(label),
    )  # fmt: skip


def _boxes(boxes: Sequence[_Box], session_id: str) -> SafeString:
    return format_html_join(
        "",
        '<a href="{}"><g class="node status-{}"><title>{}</title>'
        '<rect x="{}" y="{}" width="{}" height="{}" rx="6"/>'
        '<text x="{}" y="{}">{}</text></g></a>',
        [
            (
                row_url(Concept, box.neighbour.node_id, session=session_id),
                box.neighbour.status,
                f"{box.neighbour.label} ({box.neighbour.edge_type}, "
                f"weight {box.neighbour.weight:.2f}, {box.neighbour.status})",
                box.x,
                box.y,
                BOX_WIDTH,
                BOX_HEIGHT,
                box.x + 10,
                box.y + 22,
                _short(box.neighbour.label),
            )
            for box in boxes
        ],
    )


def _short(label: str) -> str:
    return label if len(label) <= LABEL_CHARACTERS else f"{label[: LABEL_CHARACTERS - 1]}…"
