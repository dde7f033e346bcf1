"""Rows of a foreign hand that a load must leave out."""

from __future__ import annotations

from memory.engine.types import Concept, ConceptType, Edge, EdgeType
from memory.store.soundness import sound_graph

INTERACTION = "00000000-0000-4000-8000-000000000001"


def concept(number: int) -> Concept:
    name = f"00000000-0000-4000-8000-{number:012}"
    return Concept(name, f"c{number}", f"c{number}", ConceptType.ENTITY, INTERACTION, "a", 1)


def derives(item: Concept) -> Edge:
    edge_id = f"10{item.id[2:]}"
    return Edge(edge_id, INTERACTION, item.id, EdgeType.DERIVES, 0.9, 1, 1, 1, "a", "a")


def test_a_concept_whose_id_is_an_interactions_is_set_aside_with_its_edges() -> None:
    """Loading it would have refused the whole session: one id would name two nodes."""
    good, bad = concept(2), concept(1)
    kept, edges, faults = sound_graph({INTERACTION}, [good, bad], [derives(good), derives(bad)])

    assert kept == [good]
    assert edges == [derives(good)]
    assert len(faults) == 2
