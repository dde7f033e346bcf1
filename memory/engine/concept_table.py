"""The concepts of a graph: numeric columns, texts beside them, and the ways to find a row.

Knows nothing of edges but the lists of incident edge rows it keeps for the graph. Callers have
checked what may be inserted; the table asserts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Final

from memory.engine.columns import NO_TIME, Columns
from memory.engine.content_order import ContentOrder
from memory.engine.rules import STATUS_CODE, STATUSES, TYPE_CODE, TYPES
from memory.engine.times import Micros
from memory.engine.types import Concept, ConceptType, Interaction, NodeId, Status

SCHEMA: Final = {
    "type": "int8",
    "status": "int8",
    "created_at": "int64",
    "last_accessed": "int64",
    "access_count": "int64",
    "gc_survived": "int64",
    "blast_radius": "int64",  # stamped by a transition; -1 for none
    "last_demotion_time": "int64",
    "origin": "int32",  # interaction row
    "degree": "int32",
    "bonus_milli": "int32",  # thousandths: a float sum would drift under removals
    "derivations": "int32",
    "dependents": "int32",
}


def time_cell(value: Micros | None) -> Micros:
    """An optional instant as it stands in a column."""
    return NO_TIME if value is None else value


def cell_time(value: int) -> Micros | None:
    """The instant in a column's cell, or None."""
    return None if value == NO_TIME else int(value)


class ConceptTable(Columns):
    """One row per concept. A freed row's lists are overwritten when it is taken again."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.ids: list[NodeId] = []
        self.contents: list[str] = []
        self.order = ContentOrder()
        self.text_bytes = 0  # what the contents take up in RAM
        self.keys: list[str] = []
        self.origin_agents: list[str] = []
        self.chunk_groups: list[str | None] = []
        self.leaving: list[list[int]] = []  # rows of the edges that leave, in order of writing
        self.arriving: list[list[int]] = []
        self.row_by_id: dict[NodeId, int] = {}
        self.row_by_key: dict[str, int] = {}  # all types but Observation: unique
        self.observations: dict[str, list[int]] = {}  # by key

    def type_at(self, row: int) -> ConceptType:
        kind: ConceptType = TYPES[self.arrays["type"][row]]
        return kind

    def status_at(self, row: int) -> Status:
        status: Status = STATUSES[self.arrays["status"][row]]
        return status

    def record(self, row: int, chain: Sequence[Interaction]) -> Concept:
        """The record of a live row; `chain` names its origin."""
        cells = self.arrays
        radius = int(cells["blast_radius"][row])
        return Concept(
            id=self.ids[row],
            content=self.contents[row],
            canonical_key=self.keys[row],
            concept_type=self.type_at(row),
            origin_interaction=chain[cells["origin"][row]].id,
            origin_agent=self.origin_agents[row],
            created_at=int(cells["created_at"][row]),
            access_count=int(cells["access_count"][row]),
            last_accessed=cell_time(cells["last_accessed"][row]),
            gc_survived=int(cells["gc_survived"][row]),
            status=self.status_at(row),
            blast_radius=None if radius < 0 else radius,
            last_demotion_time=cell_time(cells["last_demotion_time"][row]),
            chunk_group_id=self.chunk_groups[row],
        )

    def records(self, rows: Sequence[int], chain: Sequence[Interaction]) -> list[Concept]:
        """`record` of many live rows, several times as fast."""
        held = {name: cells[rows].tolist() for name, cells in self.arrays.items()}
        columns = (
            map(self.ids.__getitem__, rows),
            map(self.contents.__getitem__, rows),
            map(self.keys.__getitem__, rows),
            map(TYPES.__getitem__, held["type"]),
            [chain[origin].id for origin in held["origin"]],
            map(self.origin_agents.__getitem__, rows),
            held["created_at"],
            held["access_count"],
            map(cell_time, held["last_accessed"]),
            held["gc_survived"],
            map(STATUSES.__getitem__, held["status"]),
            [None if radius < 0 else radius for radius in held["blast_radius"]],
            map(cell_time, held["last_demotion_time"]),
            map(self.chunk_groups.__getitem__, rows),
        )
        return list(map(Concept._make, zip(*columns, strict=True)))

    def insert(self, concept: Concept, origin: int) -> int:
        """Add a concept whose id and key are free; returns its row."""
        assert concept.id not in self.row_by_id
        row, was_used = self.take_row()
        cells = self.arrays
        cells["type"][row] = TYPE_CODE[concept.concept_type]
        cells["created_at"][row] = concept.created_at
        cells["origin"][row] = origin
        self.update(row, concept)
        cells["status"][row] = STATUS_CODE[concept.status]
        cells["blast_radius"][row] = -1 if concept.blast_radius is None else concept.blast_radius
        cells["last_demotion_time"][row] = time_cell(concept.last_demotion_time)
        if not was_used:
            self.ids.append("")
            self.contents.append("")
            self.keys.append("")
            self.origin_agents.append("")
            self.chunk_groups.append(None)
            self.leaving.append([])
            self.arriving.append([])
        self.ids[row], self.contents[row] = concept.id, concept.content
        self.text_bytes += getsizeof(concept.content)
        self.order.add(row, concept.content)
        self.keys[row], self.origin_agents[row] = concept.canonical_key, concept.origin_agent
        self.chunk_groups[row] = concept.chunk_group_id
        self.row_by_id[concept.id] = row
        if concept.concept_type is ConceptType.OBSERVATION:
            self.observations.setdefault(concept.canonical_key, []).append(row)
        else:
            assert concept.canonical_key not in self.row_by_key
            self.row_by_key[concept.canonical_key] = row
        return row

    def update(self, row: int, concept: Concept) -> None:
        """Store the counters of a known concept; nothing else of it may change this way."""
        cells = self.arrays
        cells["access_count"][row] = concept.access_count
        cells["last_accessed"][row] = time_cell(concept.last_accessed)
        cells["gc_survived"][row] = concept.gc_survived

    def note_access(self, concept_id: NodeId, access_count: int, last_accessed: Micros) -> None:
        """Store how often a concept was shown, and when last; one that is gone is passed over."""
        row = self.row_by_id.get(concept_id)
        if row is not None:
            self.arrays["access_count"][row] = access_count
            self.arrays["last_accessed"][row] = last_accessed

    def remove(self, row: int) -> None:
        """Take a concept out; its edges are gone already."""
        assert not self.leaving[row]
        assert not self.arriving[row]
        key = self.keys[row]
        del self.row_by_id[self.ids[row]]
        if self.type_at(row) is ConceptType.OBSERVATION:
            self.observations[key].remove(row)
            if not self.observations[key]:
                del self.observations[key]
        else:
            del self.row_by_key[key]
        self.text_bytes -= getsizeof(self.contents[row])
        self.order.remove(row, self.contents[row])
        self.ids[row] = self.contents[row] = self.keys[row] = ""
        self.free_row(row)

    def extend_with(self, records: Sequence[Concept], origins: Sequence[int]) -> None:
        """Append many concepts at once; unique ids and keys are the caller's to check.

        The lists of incident edges are the caller's as well: it knows them all and sets them whole.
        """
        (ids, contents, keys, types, _, agents, created, accesses, accessed, survived, statuses,
         radii, demotions, chunks) = zip(*records, strict=True)  # fmt: skip
        rows = self.extend(
            len(ids),
            {
                "type": [TYPE_CODE[kind] for kind in types],
                "status": [STATUS_CODE[status] for status in statuses],
                "created_at": created,
                "last_accessed": [time_cell(instant) for instant in accessed],
                "access_count": accesses,
                "gc_survived": survived,
                "blast_radius": [-1 if radius is None else radius for radius in radii],
                "last_demotion_time": [time_cell(instant) for instant in demotions],
                "origin": origins,
            },
        )
        self.ids += ids
        self.contents += contents
        self.text_bytes += sum(map(getsizeof, contents))
        self.order.extend(rows, contents)
        self.keys += keys
        self.origin_agents += agents
        self.chunk_groups += chunks
        self.row_by_id.update(zip(ids, rows, strict=True))
        for row, key, kind in zip(rows, keys, types, strict=True):
            if kind is ConceptType.OBSERVATION:
                self.observations.setdefault(key, []).append(row)
            else:
                self.row_by_key[key] = row
