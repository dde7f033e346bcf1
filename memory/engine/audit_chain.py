"""The keyed hash chain over a session's audit rows: what a link covers and how it is made.

A link is HMAC-SHA256 (RFC 2104, FIPS 180-4) over the link before it and every column of its row, in
a fixed order and with lengths in front, so that no two rows give the same bytes. Texts that a purge
may blank enter as keyed digests that are stored beside the row: the link holds when they are gone,
and nobody without the key can try words against a digest.

A chain belongs to a session's name: a session made again under a name goes on with its chain. Rows
from before the chain have no link; its start covers how many there were.

Knows no store and no file. Invariant: the same key and the same rows in the same order give the
same links, whoever computes them.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from memory.engine.mutations import ApplyTransition, Mutation, PutAudit
from memory.engine.types import AuditEntry, AuditKind, ChainLink, Json, NodeId, Transition
from memory.engine.written_json import WrittenJson

KEY_BYTES_MIN: Final = 32
BLANKABLE: Final = ("reason", "texts", "removed")
"""The columns that a purge, or the deletion of a session, may blank."""

_LINK: Final = b"lambo audit link 1\n"
_START: Final = b"lambo audit start 1\n"
_TEXT: Final = b"lambo audit text 1\n"
_KEY: Final = b"lambo audit key 1\n"

# Made once: making it takes as long as writing a short row.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class AuditColumns(NamedTuple):
    """The columns of one audit row as stored, JSON as text; from a foreign hand, anything."""

    id: Any
    kind: Any
    node_id: Any
    from_status: Any
    to_status: Any
    blast_radius: Any
    last_demotion_time: Any
    occurred_at: Any
    actor: Any
    superseded_by: Any
    detail: Any
    reason: Any
    texts: Any
    removed: Any


class ChainHead(NamedTuple):
    """The newest link of a chain: its place, from 1, and its hash in hexadecimal."""

    sequence: int
    hash: str


class StoredChain(NamedTuple):
    """What a store holds of a session's chain: the newest link, and the rows without one.

    `latest_id` is the id that sorts last of all its audit rows, linked or not.
    """

    head: ChainHead | None = None
    unchained_count: int = 0
    latest_id: NodeId | None = None


class BlankedRows(NamedTuple):
    """Which audit rows a purge blanks: ranges of sequences, both ends included.

    They were looked for up to the link `seen`; rows linked after it may be blanked too.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    seen: int = 0


@dataclass(frozen=True, slots=True)
class SealedAct:
    """The audit row of an act that is in no session's log, stored with what it tells of.

    Its link is made when it is stored, where there is a key.
    """

    entry: AuditEntry
    chain_key: bytes | None = field(repr=False)


NO_ROWS: Final = BlankedRows()
NO_CHAIN: Final = StoredChain()


def key_fingerprint(key: bytes) -> str:
    """What tells one key from another and betrays neither; 64 hexadecimal digits."""
    return _hash(key, _KEY)


def chain_start(key: bytes, session_id: str, unchained_count: int) -> ChainHead:
    """What the first link of a chain stands on: the name, and the rows that came before it."""
    return ChainHead(0, _hash(key, _START + frames((session_id, unchained_count))))


def make_link(key: bytes, session_id: str, head: ChainHead, columns: AuditColumns) -> ChainLink:
    """The link of a row that follows `head`."""
    sequence = head.sequence + 1
    digests = {
        name: text_digest(key, columns.id, name, text)
        for name in BLANKABLE
        if (text := getattr(columns, name)) is not None
    }
    stored = _json_text(digests) if digests else None
    return ChainLink(
        sequence, stored, link_hash(key, session_id, head.hash, sequence, columns, stored)
    )


def link_hash(
    key: bytes,
    session_id: str,
    previous: str,
    sequence: int,
    columns: AuditColumns,
    digests: str | None,
) -> str:
    """The hash of a link. Raises `TypeError` for a column that is neither text, whole nor null."""
    covered = columns[: -len(BLANKABLE)]
    return _hash(key, _LINK + frames((previous, session_id, sequence, *covered, digests)))


def text_digest(key: bytes, audit_id: str, column: str, text: str) -> str:
    """The keyed digest of one text; the same text in another place has another one."""
    return _hash(key, _TEXT + frames((audit_id, column, text)))


def frames(values: Iterable[Any]) -> bytes:
    """Values one after the other, each with its kind and its length: no two lists alike.

    Null is `n`; text is `t`, its bytes in UTF-8, `:` and those; a whole number is `i`, its decimal
    digits' length, `:` and those.
    """
    parts = []
    for value in values:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, str):
            # What is no Unicode is the store's to refuse, with a sentence; not ours to trip over.
            data = value.encode("utf-8", "surrogatepass")
            parts.append(b"t%d:%b" % (len(data), data))
        elif type(value) is int:
            digits = b"%d" % value
            parts.append(b"i%d:%b" % (len(digits), digits))
        else:
            raise TypeError(f"an audit row holds no {type(value).__name__}")
    return b"".join(parts)


def columns_of_transition(transition: Transition, detail: Json) -> AuditColumns:
    """The columns of a step of a status, as they will be stored."""
    return AuditColumns(
        id=transition.id,
        kind=AuditKind.TRANSITION.value,
        node_id=transition.node_id,
        from_status=transition.from_status.value,
        to_status=transition.to_status.value,
        blast_radius=transition.blast_radius,
        last_demotion_time=transition.last_demotion_time,
        occurred_at=transition.occurred_at,
        actor=transition.actor,
        superseded_by=transition.superseded_by,
        detail=_json_or_none(detail),
        reason=transition.reason,
        texts=None,
        removed=None,
    )


def columns_of_entry(entry: AuditEntry) -> AuditColumns:
    """The columns of any other act, as they will be stored."""
    return AuditColumns(
        id=entry.id,
        kind=entry.kind.value,
        node_id=entry.node_id,
        from_status=None if entry.from_status is None else entry.from_status.value,
        to_status=None if entry.to_status is None else entry.to_status.value,
        blast_radius=None,
        last_demotion_time=None,
        occurred_at=entry.occurred_at,
        actor=entry.actor,
        superseded_by=None,
        detail=_json_or_none(entry.detail),
        reason=entry.reason,
        texts=_json_or_none(entry.texts),
        removed=_json_or_none(entry.removed),
    )


@dataclass(slots=True)
class AuditChain:
    """The chain of one open session while its log grows. Nothing of it is durable.

    `head` is the newest link that was made; `committed` the newest that the store confirmed.
    """

    key: bytes = field(repr=False)
    session_id: str
    head: ChainHead
    committed: ChainHead
    anchored: int = -1
    """The sequence of the last anchor this process wrote; -1 before the first."""

    @classmethod
    def after(cls, key: bytes, session_id: str, stored: StoredChain) -> AuditChain:
        """The chain that goes on from what a store holds."""
        assert len(key) >= KEY_BYTES_MIN
        head = stored.head or chain_start(key, session_id, stored.unchained_count)
        return cls(key, session_id, head, head)

    def link(self, mutations: tuple[Mutation, ...]) -> tuple[Mutation, ...]:
        """The mutations of the next group, each audit row with its link. Moves the head."""
        head, linked = self.head, list(mutations)
        for at, mutation in enumerate(mutations):
            if isinstance(mutation, PutAudit):
                columns = columns_of_entry(mutation.entry)
            elif isinstance(mutation, ApplyTransition):
                columns = columns_of_transition(mutation.transition, mutation.detail)
            else:
                continue
            link = make_link(self.key, self.session_id, head, columns)
            linked[at] = mutation._replace(link=link)
            head = ChainHead(link.sequence, link.hash)
        if head == self.head:
            return mutations
        self.head = head
        return tuple(linked)


def _hash(key: bytes, message: bytes) -> str:
    return hmac.digest(key, message, "sha256").hex()


def _json_text(value: Json) -> str:
    """As stores write JSON; what they refuse gives some text all the same."""
    return value.text if isinstance(value, WrittenJson) else _ENCODER.encode(value)


def _json_or_none(value: Json) -> str | None:
    return None if value is None else _json_text(value)
