from __future__ import annotations

from canon.engine.saints import list_saints
from memory.engine.types import ConceptType, Status
from recall_graphs import GraphWriter, numbered_id


def test_saints_are_the_canonical_concepts_by_radius_then_age_then_id() -> None:
    writer = GraphWriter()
    writer.interact()
    old = writer.concept("old", number=9, status=Status.CANONICAL)
    writer.concept("venerable", number=8, status=Status.VENERABLE)
    writer.interact()
    second = writer.concept("second", number=5, status=Status.CANONICAL)
    first = writer.concept("first", number=4, status=Status.CANONICAL)
    pillar = writer.concept("pillar", number=7, status=Status.CANONICAL)
    writer.depend(old, pillar)

    assert [saint.node_id for saint in list_saints(writer.graph).saints] == [
        pillar,
        old,
        first,
        second,
    ]


def test_the_view_has_one_line_per_memory() -> None:
    writer = GraphWriter()
    writer.interact()
    node = writer.concept(
        "user\nschema", kind=ConceptType.LOGIC, status=Status.CANONICAL, access_count=3
    )
    writer.depend(writer.concept("auth"), node)

    assert list_saints(writer.graph).view.splitlines() == [
        "1 canonical memory in session 's'",
        "  user ⏎ schema [Logic, canonical]  blast_radius=1  accesses=3  "
        "since 2025-07-08T18:40:00Z",
    ]


def test_without_canonical_memories_only_the_summary_is_left() -> None:
    assert list_saints(GraphWriter().graph).as_wire() == {
        "summary": "0 canonical memories in session 's'",
        "count": 0,
        "saints": [],
        "warnings": [],
    }


def test_a_long_list_of_long_memories_is_bounded_and_says_what_it_left_out() -> None:
    writer = GraphWriter()
    writer.interact()
    for number in range(210):
        writer.concept(f"{number} {'x' * 10_000}", status=Status.CANONICAL)
    saints = list_saints(writer.graph)

    assert saints.view.splitlines()[0] == "210 canonical memories in session 's'"
    assert saints.view.splitlines()[-1] == "  … and 10 more"
    assert len(saints.view.encode()) < 200_000
    assert saints.as_wire()["count"] == 210
    assert len(saints.as_wire()["saints"]) == 200


def test_the_wire_form_keeps_content_as_stored() -> None:
    writer = GraphWriter()
    writer.interact()
    writer.concept("user\nschema", status=Status.CANONICAL)

    assert list_saints(writer.graph).as_wire()["saints"] == [
        {
            "node_id": numbered_id(1),
            "content": "user\nschema",
            "concept_type": "Entity",
            "blast_radius": 0,
            "access_count": 0,
            "created_at": "2025-07-08T18:40:00Z",
        }
    ]
