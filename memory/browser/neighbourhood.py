"""What surrounds a concept, read from the tables: what rests on it, what it rests on, what else.

Owns which edges are shown and how many. Interactions are left out: every concept has one, and they
say nothing about what leans on what. Reads through two indexes, a bounded number of rows of each.

Invariant: at most `NEIGHBOURS_MAX` concepts, each once, the heaviest edges of a side first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from memory.engine.showing import in_passing
from memory.models import Concept, Edge, EdgeTypeChoices

PER_SIDE_MAX: Final = 8
NEIGHBOURS_MAX: Final = 3 * PER_SIDE_MAX
EDGES_READ_MAX: Final = 400
"""Of each direction; a concept with more has its oldest rows of the index shown."""

_OF_INTERACTIONS: Final = (EdgeTypeChoices.TEMPORAL.value, EdgeTypeChoices.DERIVES.value)


class Side(StrEnum):
    """Where a neighbour stands to the concept."""

    RESTS_ON_IT = "rests on it"
    HOLDS_IT = "it rests on"
    BESIDE = "other links"


_Found: TypeAlias = tuple[Side, str, bool, float]
"""Where it stands, the type of the edge, whether that leaves the concept, and its weight."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A concept beside the one looked at, and the edge that joins them."""

    node_id: str
    label: str
    status: str
    edge_type: str
    is_outgoing: bool
    weight: float
    side: Side


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The neighbours by side, and how many concepts found have no place."""

    neighbours: tuple[Neighbour, ...]
    left_out: int
    is_cut: bool
    """Whether more edges are there than were read."""

    def of(self, side: Side) -> tuple[Neighbour, ...]:
        return tuple(one for one in self.neighbours if one.side is side)


def read_neighbourhood(concept: Concept) -> Neighbourhood:
    """The surroundings of a stored concept; three statements."""
    edges = Edge.objects.filter(session_id=concept.session_id).exclude(
        edge_type__in=_OF_INTERACTIONS
    )
    leaving = list(
        edges.filter(source=concept.id).values_list("target", "edge_type", "weight")[
            :EDGES_READ_MAX
        ]
    )
    arriving = list(
        edges.filter(target=concept.id).values_list("source", "edge_type", "weight")[
            :EDGES_READ_MAX
        ]
    )
    found: dict[str, _Found] = {}
    for other, kind, weight in arriving:
        _keep(found, str(other), (_side(kind, is_outgoing=False), kind, False, weight))
    for other, kind, weight in leaving:
        _keep(found, str(other), (_side(kind, is_outgoing=True), kind, True, weight))
    found.pop(concept.id, None)
    chosen = _choose(found)
    there = {
        name: (in_passing(content), status)
        for name, content, status in Concept.objects.filter(id__in=chosen).values_list(
            "id", "content", "status"
        )
    }
    return Neighbourhood(
        neighbours=tuple(
            Neighbour(
                node_id=name,
                label=there.get(name, (name, ""))[0],
                status=there.get(name, (name, ""))[1],
                edge_type=found[name][1],
                is_outgoing=found[name][2],
                weight=found[name][3],
                side=found[name][0],
            )
            for name in chosen
        ),
        left_out=len(found) - len(chosen),
        is_cut=EDGES_READ_MAX in (len(leaving), len(arriving)),
    )


def _side(edge_type: str, *, is_outgoing: bool) -> Side:
    """A dependent cites what it depends on; a child is cited by its parent, and rests on it."""
    if edge_type == EdgeTypeChoices.DEPENDENCY.value:
        return Side.HOLDS_IT if is_outgoing else Side.RESTS_ON_IT
    if edge_type == EdgeTypeChoices.HIERARCHICAL.value:
        return Side.RESTS_ON_IT if is_outgoing else Side.HOLDS_IT
    return Side.BESIDE


def _keep(found: dict[str, _Found], name: str, one: _Found) -> None:
    """Of several edges with one concept, one that tells what leans on what; else the heaviest."""
    held = found.get(name)
    if held is None or _rank(one) < _rank(held):
        found[name] = one


def _rank(one: _Found) -> tuple[bool, float]:
    return (one[0] is Side.BESIDE, -one[3])


def _choose(found: dict[str, _Found]) -> list[str]:
    ordered = sorted(found, key=lambda name: (-found[name][3], name))
    chosen: list[str] = []
    for side in Side:
        chosen += [name for name in ordered if found[name][0] is side][:PER_SIDE_MAX]
    return chosen
