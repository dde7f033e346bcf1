from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory.engine import limits
from memory.engine.errors import AmbiguousFocus, ConceptNotFound
from memory.engine.types import ConceptType, EdgeType, NodeId, Status
from recall.engine.inspection import Inspection, inspect
from recall_graphs import START, GraphWriter, numbered_id


@pytest.fixture
def writer() -> GraphWriter:
    writer = GraphWriter()
    writer.interact()
    return writer


def look(writer: GraphWriter, focus: str, depth: int = 0) -> Inspection:
    return inspect(writer.graph, focus, depth, now=START)


# -- the focus -------------------------------------------------------------------------------------


def test_a_focus_may_be_an_id_in_any_case(writer: GraphWriter) -> None:
    node = numbered_id(1).replace("0000-4000-8000", "abcd-4000-8000")
    assert node != numbered_id(1)
    concept_id = writer.concept("alpha")

    assert look(writer, f" {concept_id.upper()} ").node_id == concept_id
    with pytest.raises(ConceptNotFound):
        look(writer, node)


def test_a_focus_may_be_a_whole_content_without_regard_to_ascii_case(writer: GraphWriter) -> None:
    node = writer.concept("User Schema É")

    assert look(writer, "uSER sCHEMA É").node_id == node
    assert look(writer, "uSER sCHEMA É").resolution is None


def test_case_beyond_ascii_is_kept_apart_in_a_whole_content(writer: GraphWriter) -> None:
    upper = writer.concept("É x")
    lower = writer.concept("é")

    assert look(writer, "é").node_id == lower
    assert look(writer, "é x").node_id == upper
    assert look(writer, "é x").resolution is not None  # found as a part only


def test_of_equal_contents_the_first_by_content_then_id_is_taken(writer: GraphWriter) -> None:
    writer.concept("alpha", number=9, kind=ConceptType.OBSERVATION)
    first = writer.concept("ALPHA", number=8, kind=ConceptType.OBSERVATION)
    writer.concept("ALPHA", number=10, kind=ConceptType.OBSERVATION)

    assert look(writer, "Alpha").node_id == first


def test_a_part_of_one_content_is_taken_and_announced(writer: GraphWriter) -> None:
    node = writer.concept("the user\nschema")

    found = look(writer, "USER")

    assert found.node_id == node
    announced = "resolved 'USER' → 'the user ⏎ schema' (substring match, single candidate)"
    assert found.resolution == announced
    assert found.view.splitlines()[0] == announced
    assert found.as_wire()["warnings"] == [announced]


def test_a_part_of_several_contents_is_refused_with_the_shortest_ten(writer: GraphWriter) -> None:
    for number in range(12):
        writer.concept("schema " + "x" * (12 - number), number=number + 1)

    with pytest.raises(AmbiguousFocus) as refusal:
        look(writer, "schema")

    lines = refusal.value.message.splitlines()
    assert lines[0] == "'schema' matches 12 concepts:"
    assert lines[1] == f"  schema x [Entity] {numbered_id(12)}"
    assert lines[10] == f"  schema xxxxxxxxxx [Entity] {numbered_id(3)}"
    assert lines[11:] == ["  … and 2 more"]
    assert len(refusal.value.fields["candidates"]) == limits.INSPECT_CANDIDATES


def test_no_match_is_refused(writer: GraphWriter) -> None:
    with pytest.raises(ConceptNotFound, match="no concept matching 'beta'"):
        look(writer, "beta")


def test_in_a_large_session_parts_are_not_searched(
    writer: GraphWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INSPECT_SUBSTRING_CONCEPTS", 2)
    node = writer.concept("alpha one")
    writer.concept("beta")
    assert look(writer, "alpha").node_id == node
    writer.concept("gamma")

    with pytest.raises(ConceptNotFound, match="at most 2 concepts"):
        look(writer, "alpha")
    assert look(writer, "ALPHA ONE").node_id == node


# -- the walk --------------------------------------------------------------------------------------


def neighbours(found: Inspection) -> list[list[str]]:
    return [[node.line for node in level.neighbours] for level in found.levels]


def test_all_edge_types_are_followed_in_both_directions(writer: GraphWriter) -> None:
    focus = writer.concept("focus")
    joining = [kind for kind in EdgeType if kind not in (EdgeType.TEMPORAL, EdgeType.DERIVES)]
    for kind in joining:
        writer.edge(focus, writer.concept(f"to {kind}"), kind)
        writer.edge(writer.concept(f"from {kind}"), focus, kind)

    lines = neighbours(look(writer, "focus", 1))[0]

    expected = [f"-> to {kind} [Entity]" for kind in joining]
    expected += [f"<- from {kind} [Entity]" for kind in joining]
    expected += [f"<- <interaction {numbered_id(900_000)}>"]
    assert sorted(lines) == sorted(expected)


def test_each_node_is_shown_once_by_the_first_edge_by_id(writer: GraphWriter) -> None:
    a, b = writer.concept("aa"), writer.concept("bb")
    writer.edge(b, a, EdgeType.SEMANTIC)
    writer.depend(a, b)
    writer.depend(a, a)

    level = look(writer, "aa", 1).levels[0]

    assert [(node.label, node.edge_type, node.direction) for node in level.neighbours] == [
        (f"<interaction {numbered_id(900_000)}>", EdgeType.DERIVES, "in"),
        ("bb [Entity]", EdgeType.SEMANTIC, "in"),
    ]


def test_depth_zero_shows_the_focus_alone(writer: GraphWriter) -> None:
    writer.depend(writer.concept("aa"), writer.concept("bb"))

    assert look(writer, "aa", 0).view == "focus: aa [Entity]"


def test_an_interaction_can_be_inspected(writer: GraphWriter) -> None:
    second = writer.interact()
    writer.concept("aa")

    found = look(writer, second, 1)

    assert found.label == f"<interaction {second}>"
    assert found.blast_radius is None
    assert neighbours(found) == [["-> aa [Entity]", f"-> <interaction {numbered_id(900_000)}>"]]


def hub_of(writer: GraphWriter, leaves: int) -> NodeId:
    """A concept with that many neighbours, its interaction included."""
    hub = writer.concept("hub")
    for number in range(leaves - 1):
        writer.depend(writer.concept(f"leaf {number}"), hub)
    return hub


def test_the_walk_stops_at_two_hundred_neighbours_and_says_so(writer: GraphWriter) -> None:
    found = look(writer, hub_of(writer, 201), 5)

    assert sum(len(level.neighbours) for level in found.levels) == 200
    assert found.view.splitlines()[-1] == "(truncated at 200 neighbours)"


def test_exactly_two_hundred_neighbours_are_not_truncated(writer: GraphWriter) -> None:
    found = look(writer, hub_of(writer, 200), 5)

    assert sum(len(level.neighbours) for level in found.levels) == 200
    assert not found.is_truncated


# -- the view --------------------------------------------------------------------------------------


def test_the_view_reads_as_the_golden_file(writer: GraphWriter) -> None:
    focus = writer.concept("user\nschema", status=Status.CANONICAL)
    user = writer.concept("auth", status=Status.VENERABLE)
    writer.depend(user, focus)
    writer.edge(focus, writer.concept("user id", status=Status.CANDIDATE), EdgeType.HIERARCHICAL)
    writer.depend(focus, writer.concept("postgres", kind=ConceptType.RESOURCE))
    writer.interact()
    writer.depend(writer.concept("login", kind=ConceptType.LOGIC), user)
    writer.reserve(focus, agent="agent-c", expires_at=START + 30_000_000)

    golden = Path(__file__).parents[3] / "golden" / "inspect-view.txt"
    found = look(writer, focus, 2)

    assert found.view == golden.read_text(encoding="utf-8")
    assert found.blast_radius == 2


class Why:
    """An explanation handed in."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.text = "None, not yet Candidate\n  - too little rests on it"

    def as_wire(self) -> dict[str, Any]:
        return {"row": self.row}


def test_an_explanation_stands_above_the_surroundings(writer: GraphWriter) -> None:
    a, b = writer.concept("aa"), writer.concept("bb")
    writer.depend(a, b)
    row = writer.graph.row_of(b)
    assert row is not None

    found = inspect(writer.graph, "bb", 1, now=START, explain=Why)

    assert found.view.splitlines()[1:6] == [
        "blast radius: 1",
        "⚑ Load-bearing pillar — 1 nodes depend on this. Modify with caution.",
        "status: None, not yet Candidate",
        "  - too little rests on it",
        "",
    ]
    assert found.as_wire()["admission"] == {"row": row}


def test_nothing_is_explained_of_an_interaction(writer: GraphWriter) -> None:
    second = writer.interact()

    found = inspect(writer.graph, second, 1, now=START, explain=Why)

    assert found.admission is None
    assert found.as_wire()["admission"] is None


def test_an_expired_reservation_is_not_shown(writer: GraphWriter) -> None:
    focus = writer.concept("aa")
    writer.reserve(focus, agent="agent-c", expires_at=START)

    assert look(writer, focus).reservation is None


def test_the_wire_form_carries_the_view_and_its_structure(writer: GraphWriter) -> None:
    a, b = writer.concept("aa"), writer.concept("bb")
    writer.depend(a, b, weight=1.5)

    wire = look(writer, "bb", 1).as_wire()

    assert wire["view"].startswith("focus: bb [Entity]\nblast radius: 1\n")
    assert wire["resolution"] is None
    assert wire["warnings"] == []
    assert wire["focus"]["node_id"] == b
    assert wire["focus"]["blast_radius"] == 1
    assert wire["focus"]["levels"] == [
        {
            "hop": 1,
            "neighbours": [
                {
                    "node_id": a,
                    "label": "aa [Entity]",
                    "edge_type": "Dependency",
                    "direction": "in",
                    "weight": 1.5,
                },
                {
                    "node_id": numbered_id(900_000),
                    "label": f"<interaction {numbered_id(900_000)}>",
                    "edge_type": "Derives",
                    "direction": "in",
                    "weight": 0.9,
                },
            ],
        }
    ]
