"""What a stored graph must satisfy before it may be used, row by row. Pure: records in, faults out.

A fault is one sentence about one row, for a person; nothing here raises on bad data and nothing is
dropped without its sentence. What becomes of the rows themselves is `GraphStore.put_aside`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from memory.engine.ports import SetAside
from memory.engine.times import Micros
from memory.engine.types import Concept, ConceptType, Edge, EdgeType, Interaction, Reservation
from memory.store import codecs
from memory.store.codecs import Table

_SHOWN_CHARACTERS: Final = 60
FROM_INTERACTION: Final = frozenset({EdgeType.TEMPORAL, EdgeType.DERIVES})


def shown(value: Any) -> str:
    """A stored value of a foreign hand, quoted, escaped and cut for a sentence."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def set_aside(table: Table, row_id: Any, reason: str) -> SetAside:
    """One row that cannot be used, and why."""
    sentence = f"{table.noun} {shown(row_id)} was set aside: {reason}."
    return SetAside(sentence, table.name, row_id)


def edge_fault(edge: Edge, interactions: Collection[str], concepts: Collection[str]) -> str | None:
    """Why an edge cannot stand between these nodes, or None."""
    sources = interactions if edge.edge_type in FROM_INTERACTION else concepts
    targets = interactions if edge.edge_type is EdgeType.TEMPORAL else concepts
    if edge.source not in sources:
        return f"its source {shown(edge.source)} is no stored {_noun(sources is interactions)}"
    if edge.target not in targets:
        return f"its target {shown(edge.target)} is no stored {_noun(targets is interactions)}"
    return None


def _noun(is_interaction: bool) -> str:
    return "interaction" if is_interaction else "concept"


def sound_graph(
    interactions: Collection[str], concepts: Sequence[Concept], edges: Sequence[Edge]
) -> tuple[list[Concept], list[Edge], list[SetAside]]:
    """Concepts with an origin, a Derives edge and a key of their own; and the edges that remain.

    `edges` must have passed `edge_fault`. Linear; the usual case, no fault, copies nothing but two
    lists.
    """
    derived = {edge.target for edge in edges if edge.edge_type is EdgeType.DERIVES}
    holder_by_key: dict[str, str] = {}
    faults: list[SetAside] = []
    rejected: set[str] = set()
    for concept in concepts:
        fault = None
        if concept.id in interactions:
            fault = "its id is an interaction's"
        elif concept.origin_interaction not in interactions:
            fault = f"its origin {shown(concept.origin_interaction)} is no stored interaction"
        elif concept.id not in derived:
            fault = "no interaction derives it"
        elif concept.concept_type is not ConceptType.OBSERVATION:
            holder = holder_by_key.setdefault(concept.canonical_key, concept.id)
            if holder != concept.id:
                fault = f"its key {shown(concept.canonical_key)} belongs to concept {holder}"
        if fault is not None:
            rejected.add(concept.id)
            faults.append(set_aside(codecs.CONCEPTS, concept.id, fault))
    if not rejected:
        return list(concepts), list(edges), faults
    remaining = []
    for edge in edges:
        # An end that is an interaction is none of the rejected, whatever id it shares.
        ends = {edge.target} if edge.edge_type in FROM_INTERACTION else {edge.source, edge.target}
        lost = min(ends & rejected, default=None)
        if lost is not None and edge.edge_type is not EdgeType.TEMPORAL:
            reason = f"its concept {lost} was set aside"
            faults.append(set_aside(codecs.EDGES, edge.id, reason))
        else:
            remaining.append(edge)
    return [concept for concept in concepts if concept.id not in rejected], remaining, faults


def sound_reservations(
    reservations: Iterable[Reservation], nodes: Collection[str]
) -> tuple[list[Reservation], list[SetAside]]:
    """The reservations of nodes that exist."""
    kept: list[Reservation] = []
    faults: list[SetAside] = []
    for reservation in reservations:
        if reservation.node_id in nodes:
            kept.append(reservation)
        else:
            reason = "its node is not stored"
            faults.append(set_aside(codecs.RESERVATIONS, reservation.node_id, reason))
    return kept, faults


def in_chain_order(
    interactions: Sequence[Interaction],
) -> tuple[list[Interaction], list[SetAside]]:
    """The interactions along their chain, given in order of `created_at`.

    Where the chain is broken nothing is dropped, because every later write hangs on it: all are
    joined in order of (created_at, id), and each one that had to be re-joined is reported.
    """
    if _is_chain(interactions):
        return list(interactions), []
    followed = _followed(interactions)
    if followed is not None:
        return followed, []
    joined: list[Interaction] = []
    faults: list[SetAside] = []
    previous: str | None = None
    for interaction in sorted(interactions, key=lambda item: (item.created_at, item.id)):
        in_its_place = interaction._replace(previous_id=previous)
        if interaction.previous_id != previous:
            sentence = (
                f"Interaction {interaction.id} was joined to {shown(previous)}:"
                f" the chain is broken at its predecessor {shown(interaction.previous_id)}."
            )
            table = codecs.INTERACTIONS.name
            faults.append(SetAside(sentence, table, interaction.id, instead=in_its_place))
        joined.append(in_its_place)
        previous = interaction.id
    return joined, faults


def _is_chain(interactions: Sequence[Interaction]) -> bool:
    previous: str | None = None
    for interaction in interactions:
        if interaction.previous_id != previous:
            return False
        previous = interaction.id
    return True


def _followed(interactions: Sequence[Interaction]) -> list[Interaction] | None:
    """The one chain through all interactions, or None if there is no such chain."""
    by_previous = {interaction.previous_id: interaction for interaction in interactions}
    chain: list[Interaction] = []
    following = by_previous.get(None)
    while following is not None and len(chain) < len(interactions):
        chain.append(following)
        following = by_previous.get(following.id)
    return chain if len(chain) == len(interactions) else None


def edges_along_chain(
    interactions: Sequence[Interaction], edges: Sequence[Edge]
) -> tuple[list[Edge], list[SetAside]]:
    """The edges with exactly one Temporal edge for each step of the chain.

    A Temporal edge beside the chain is set aside. A missing one is put in: it says nothing that
    the chain does not say, and without it no session could be opened again. Its id follows from
    its ends, so every load gives the same edge.
    """
    steps = {(later.id, earlier.id): later for earlier, later in pairwise(interactions)}
    stored = [edge for edge in edges if edge.edge_type is EdgeType.TEMPORAL]
    if len(stored) == len(steps) and all((edge[1], edge[2]) in steps for edge in stored):
        return list(edges), []
    faults: list[SetAside] = []
    kept: list[Edge] = []
    for edge in edges:
        if (
            edge.edge_type is EdgeType.TEMPORAL
            and steps.pop((edge.source, edge.target), None) is None
        ):
            reason = "it is no step of the chain of interactions"
            faults.append(set_aside(codecs.EDGES, edge.id, reason))
        else:
            kept.append(edge)
    for (source, target), interaction in steps.items():
        edge = _temporal(source, target, interaction.agent_id, interaction.created_at)
        kept.append(edge)
        sentence = f"Interaction {source} had no Temporal edge to {target}; one was put in."
        faults.append(SetAside(sentence, codecs.EDGES.name, None, instead=edge))
    return kept, faults


def _temporal(source: str, target: str, agent_id: str, written_at: Micros) -> Edge:
    return Edge(
        id=str(uuid.uuid5(uuid.UUID(source), target)),
        source=source,
        target=target,
        edge_type=EdgeType.TEMPORAL,
        weight=1.0,
        reinforcements=1,
        created_at=written_at,
        last_reinforced=written_at,
        created_by=agent_id,
        reinforced_by=agent_id,
    )
