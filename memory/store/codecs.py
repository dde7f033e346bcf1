"""Rows and records: which columns a table has, what each may hold, and both conversions.

A row is the session's name followed by the fields of a record in their order, enums as their text.
The kinds of the columns are the one statement of what a stored value may be: the loader derives
from it both the SQL test that finds suspicious rows and the Python test that explains them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from memory.engine.embedding import DIMENSIONS_MAX, EmbeddingContract
from memory.engine.limits import COUNTER_MAX
from memory.engine.mutations import Call, Group, Receipt
from memory.engine.ports import DeadLetter, StoredEvent
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    ChainLink,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Json,
    Reservation,
    Status,
    Transition,
)
from memory.engine.written_json import WrittenJson

Row: TypeAlias = tuple[Any, ...]

MICROS_MIN: Final[Micros] = -62_135_596_800_000_000  # 0001-01-01T00:00:00Z
MICROS_MAX: Final[Micros] = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999Z


class Kind(Enum):
    """What a column may hold. The nullable kinds allow null beside it."""

    ID = "an id"
    ID_OR_NULL = "an id or null"
    TEXT = "text"
    TEXT_OR_NULL = "text or null"
    MICROS = "an instant of the years 1 to 9999"
    MICROS_OR_NULL = "an instant of the years 1 to 9999, or null"
    COUNT = "a count"
    COUNT_OR_NULL = "a count or null"
    WEIGHT = "a finite number, zero or more"
    CONCEPT_TYPE = "a concept type"
    STATUS = "a status"
    STATUS_OR_NULL = "a status or null"
    AUDIT_KIND = "a kind of audit row"
    EDGE_TYPE = "an edge type"
    FLAG = "true or false"


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows are records of one type.

    `columns` leave out the session's name. The first one tells the rows of a session apart.
    """

    name: str
    noun: str
    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]

    @property
    def column_list(self) -> str:
        return ", ".join(self.columns)


INTERACTIONS: Final = Table(
    "lambo_interaction",
    "Interaction",
    Interaction._fields,
    (
        *(Kind.ID, Kind.TEXT, Kind.TEXT_OR_NULL, Kind.ID_OR_NULL, Kind.MICROS),
        *(Kind.MICROS_OR_NULL, Kind.FLAG),
    ),
)
CONCEPTS: Final = Table(
    "lambo_concept",
    "Concept",
    Concept._fields,
    (
        *(Kind.ID, Kind.TEXT, Kind.TEXT, Kind.CONCEPT_TYPE, Kind.ID, Kind.TEXT, Kind.MICROS),
        *(Kind.COUNT, Kind.MICROS_OR_NULL, Kind.COUNT),
        *(Kind.STATUS, Kind.COUNT_OR_NULL, Kind.MICROS_OR_NULL, Kind.TEXT_OR_NULL),
    ),
)
EDGES: Final = Table(
    "lambo_edge",
    "Edge",
    Edge._fields,
    (
        *(Kind.ID, Kind.ID, Kind.ID, Kind.EDGE_TYPE, Kind.WEIGHT, Kind.COUNT),
        *(Kind.MICROS, Kind.MICROS, Kind.TEXT, Kind.TEXT, Kind.MICROS_OR_NULL),
    ),
)
RESERVATIONS: Final = Table(
    "lambo_reservation", "Reservation", Reservation._fields, (Kind.ID, Kind.TEXT, Kind.MICROS)
)
TRANSITIONS: Final = Table(
    "lambo_audit_event",
    "Audit row",
    Transition._fields,
    (
        *(Kind.ID, Kind.ID, Kind.STATUS, Kind.STATUS, Kind.COUNT_OR_NULL, Kind.MICROS_OR_NULL),
        *(Kind.MICROS, Kind.TEXT, Kind.TEXT_OR_NULL, Kind.ID_OR_NULL),
    ),
)
ENTRIES: Final = Table(
    "lambo_audit_event",
    "Audit row",
    AuditEntry._fields,
    (
        *(Kind.ID, Kind.AUDIT_KIND, Kind.ID_OR_NULL, Kind.STATUS_OR_NULL, Kind.STATUS_OR_NULL),
        *(Kind.MICROS, Kind.TEXT, Kind.TEXT_OR_NULL, Kind.TEXT_OR_NULL),
        *(Kind.TEXT_OR_NULL, Kind.TEXT_OR_NULL),
    ),
)
"""The rows of the same table that are no steps of a status."""
SYNONYMS: Final = Table(
    "lambo_synonym", "Synonym", ("source_key", "canonical_key"), (Kind.TEXT, Kind.TEXT)
)

TABLES: Final = {
    table.name: table
    for table in (INTERACTIONS, CONCEPTS, EDGES, RESERVATIONS, TRANSITIONS, SYNONYMS)
}

CONCEPT_TYPES: Final = {str(member): member for member in ConceptType}
STATUSES: Final = {str(member): member for member in Status}
EDGE_TYPES: Final = {str(member): member for member in EdgeType}
AUDIT_KINDS: Final = {str(member): member for member in AuditKind}


# -- records to rows ---------------------------------------------------------------------------
# Enum members are replaced by plain text: the SQLite driver binds a subclass of str only after
# looking for an adapter, which doubles the cost of a row.


def interaction_row(session_id: str, interaction: Interaction) -> Row:
    return (session_id, *interaction)


def concept_row(session_id: str, concept: Concept) -> Row:
    plain = concept._replace(
        concept_type=concept.concept_type.value,  # type: ignore[arg-type]  # leaving the record
        status=concept.status.value,  # type: ignore[arg-type]
    )
    return (session_id, *plain)


def edge_row(session_id: str, edge: Edge) -> Row:
    return (session_id, *edge[:3], edge.edge_type.value, *edge[4:])


def reservation_row(session_id: str, reservation: Reservation) -> Row:
    return (session_id, *reservation)


LINK_COLUMNS: Final = ("sequence", "digests", "link_hash")
"""The place of an audit row in the hash chain; all null in a row from before the chain."""


def link_row(link: ChainLink | None) -> Row:
    return (None, None, None) if link is None else tuple(link)


def transition_row(session_id: str, transition: Transition, detail: Json) -> Row:
    """The row of a step, its evidence last."""
    before, after = transition.from_status.value, transition.to_status.value
    return (session_id, *transition[:2], before, after, *transition[4:], json_or_null(detail))


def entry_row(session_id: str, entry: AuditEntry) -> Row:
    return (
        session_id,
        entry.id,
        entry.kind.value,
        entry.node_id,
        None if entry.from_status is None else entry.from_status.value,
        None if entry.to_status is None else entry.to_status.value,
        *entry[5:8],
        *map(json_or_null, entry[8:]),
    )


CONTRACT_COLUMNS: Final = (
    *("embedding_kind", "embedding_model", "embedding_dim", "embedding_template"),
)
"""Of `lambo_session`: all null in a session that was made without an embedder."""


def contract_row(contract: EmbeddingContract | None) -> Row:
    """In the order of `CONTRACT_COLUMNS`."""
    if contract is None:
        return (None,) * len(CONTRACT_COLUMNS)
    return (contract.kind, contract.model, contract.dim, contract.template)


RECEIPT_COLUMNS: Final = (
    *("session_id", "agent_id", "key", "verb", "digest", "reply", "position", "created_at"),
)


EVENT_COLUMNS: Final = (
    *("session_id", "id", "position", "kind", "agent_id", "occurred_at", "data"),
)


def event_rows(session_id: str, group: Group) -> list[Row]:
    """The events of a group, each with the group's position and instant."""
    place, at = group.position, group.created_at
    return [
        (session_id, event.id, place, event.kind, event.agent_id, at, json_text(event.data))
        for event in group.events
    ]


def receipt_row(session_id: str, receipt: Receipt) -> Row:
    return (
        session_id,
        receipt.agent_id,
        receipt.key,
        receipt.verb,
        receipt.digest,
        json_text(receipt.reply),
        receipt.position,
        receipt.created_at,
    )


DEAD_LETTER_COLUMNS: Final = (
    *("session_id", "position", "verb", "agent_id", "key", "digest", "arguments"),
    *("error", "created_at"),
)


def dead_letter_row(letter: DeadLetter) -> Row:
    call: Call | None = letter.call
    words: Row = (None,) * 5
    if call is not None:
        words = (call.verb, call.agent_id, call.key, call.digest, json_text(call.arguments))
    return (letter.session_id, letter.position, *words, letter.error, letter.created_at)


# -- rows to records ---------------------------------------------------------------------------
# These take the columns of a `Table`, without the session's name, and trust them.


def interaction_from(row: Row) -> Interaction:
    # An engine without a type for it gives 0 or 1.
    return Interaction._make((*row[:-1], bool(row[-1])))


def concept_from(row: Row) -> Concept:
    return Concept._make(
        (*row[:3], CONCEPT_TYPES[row[3]], *row[4:10], STATUSES[row[10]], *row[11:])
    )


def edge_from(row: Row) -> Edge:
    return Edge._make((*row[:3], EDGE_TYPES[row[3]], *row[4:]))


def reservation_from(row: Row) -> Reservation:
    return Reservation._make(row)


def transition_from(row: Row) -> Transition:
    return Transition._make((*row[:2], STATUSES[row[2]], STATUSES[row[3]], *row[4:]))


def entry_from(row: Row) -> AuditEntry:
    """Raises `ValueError` where a column that holds JSON holds none."""
    return AuditEntry(
        row[0],
        AUDIT_KINDS[row[1]],
        row[2],
        None if row[3] is None else STATUSES[row[3]],
        None if row[4] is None else STATUSES[row[4]],
        *row[5:8],
        *(None if text is None else json.loads(text) for text in row[8:]),
    )


def contract_from(row: Row) -> EmbeddingContract | None:
    """From `CONTRACT_COLUMNS`. Raises `ValueError` for what is no contract."""
    kind, model, dim, template = row
    if kind is None:
        return None
    is_text = isinstance(kind, str) and isinstance(template, str) and isinstance(model, str | None)
    if not is_text or type(dim) is not int or not 1 <= dim <= DIMENSIONS_MAX:
        raise ValueError("no embedding contract")
    return EmbeddingContract(kind, model, dim, template)


def receipt_from(row: Row) -> Receipt:
    """From the columns `RECEIPT_COLUMNS` without the first."""
    agent_id, key, verb, digest, reply, position, created_at = row
    return Receipt(agent_id, key, verb, digest, json.loads(reply), position, created_at)


def event_from(row: Row) -> StoredEvent:
    """From the columns `EVENT_COLUMNS` without the first."""
    event_id, position, kind, agent_id, occurred_at, text = row
    try:
        data = json.loads(text)
    except ValueError:  # a foreign hand's: the event keeps its place
        data = None
    return StoredEvent(event_id, position, kind, agent_id, occurred_at, data)


# -- JSON --------------------------------------------------------------------------------------


def json_text(value: Json) -> str:
    """Compact JSON, characters as they are. Raises `ValueError` for NaN and infinity.

    Escaping would hide half a surrogate pair in plain ASCII, which some engines then refuse.
    """
    if isinstance(value, WrittenJson):
        return value.text
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_or_null(value: Json) -> str | None:
    """As `json_text`, and None as null."""
    return None if value is None else json_text(value)


def count_is_sound(value: Any) -> bool:
    """Whether a value is a count: a whole number from 0 to `COUNTER_MAX`."""
    return type(value) is int and 0 <= value <= COUNTER_MAX
