"""Whatever is derived and retracted by meaning, in any order, the session stays sound.

Texts lie on a circle. After each step: every Semantic edge is as strong as the cosine of its ends,
at or above the threshold, and leads from the smaller id to the larger; nothing is fused; and the
session closed and opened again is the same.
"""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from graph_writing import START, Scribe, concept
from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, Vector, check_vector
from memory.engine.graph import Graph
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import ConceptType, EdgeType
from memory.engine.vector_table import exact_cosines

CONTRACT = EmbeddingContract("by hand", None, 2)
THRESHOLD = 0.85
TEXTS = [f"api uses q{letter}q" for letter in "abcdefghijkl"]

steps = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3, unique=True),
        st.sampled_from([ConceptType.LOGIC, ConceptType.OBSERVATION]),
    ),
    max_size=12,
)


def at(degrees: float) -> Vector:
    angle = math.radians(degrees)
    vector = check_vector([math.cos(angle), math.sin(angle)], 2)
    assert not isinstance(vector, EmbeddingFailure)
    return vector


def check(graph: Graph) -> None:
    table = graph.vectors
    assert table is not None
    for edge in graph.all_edges():
        if edge.edge_type is not EdgeType.SEMANTIC:
            continue
        assert edge.source < edge.target
        source, target = graph.row_of(edge.source), graph.row_of(edge.target)
        assert source is not None
        assert target is not None
        one, other = table.get(source), table.get(target)
        assert one is not None
        assert other is not None
        (cosine,) = exact_cosines(one[None], other).tolist()
        assert cosine >= THRESHOLD
        assert abs(edge.weight - cosine) < 1e-12
    snapshot = take_snapshot(graph)
    assert take_snapshot(load_snapshot(snapshot)) == snapshot


@settings(max_examples=60, deadline=None)
@given(steps=steps, angles=st.lists(st.integers(0, 90), min_size=12, max_size=12))
def test_a_session_matched_by_meaning_stays_sound(
    steps: list[tuple[bool, list[str], ConceptType]], angles: list[int]
) -> None:
    scribe = Scribe(Graph("session", START, contract=CONTRACT, match_strategy="hybrid"))
    scribe.vectors |= {text: at(angle) for text, angle in zip(TEXTS, angles, strict=True)}
    for is_retraction, texts, kind in steps:
        before = scribe.contents()
        if is_retraction and texts[0] in before:
            scribe.retract(texts[0])
            # An observation may stand beside a claim of the same words.
            assert len(scribe.contents()) == len(before) - 1
        else:
            scribe.derive(*(concept(text, kind) for text in texts))
            assert set(scribe.contents()) == {*before, *texts}
        assert scribe.graph.missing_vector_count == 0
        check(scribe.graph)
