"""Proving a session's audit rows against their chain, row by row, in bounded memory.

Rows come in the order of their sequence, and each is checked against the one before it. What was
blanked is sound where a later row of the same chain tells of it: a purge that names the row, or the
deletion of the session. Those acts are told beforehand, and are rows of the chain themselves, so
that a made-up one is found when its turn comes. What is left of a text that a purge blanked in part
is not proven; only that a purge was there.

Reads nothing itself. Invariant: no fault means that every row up to the last one stands as it was
written, but for texts that a proven row says were blanked; anchors prove the same against somebody
who has the key, and that no row is missing at the end.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from memory.engine.audit_chain import (
    BLANKABLE,
    AuditColumns,
    ChainHead,
    chain_start,
    link_hash,
    text_digest,
)
from memory.engine.traces import BLANK
from memory.engine.types import AuditKind, Json

STARTS_TRIED: Final = 10_000
"""How many counts of older rows are tried, to say how many there were when the chain began."""


class StoredAuditRow(NamedTuple):
    """One audit row as stored; from a foreign hand, anything."""

    columns: AuditColumns
    sequence: Any
    digests: Any
    link_hash: Any
    session_deleted_at: Any


class ChainAct(NamedTuple):
    """A purge or a deletion among the rows of a chain. `detail` is None where it cannot be read."""

    sequence: int
    kind: AuditKind
    detail: Json


class AuditFacts(NamedTuple):
    """What has to be known of a session's audit rows before the first is read; acts in order."""

    unchained_count: int
    acts: tuple[ChainAct, ...] = ()
    is_being_deleted: bool = False


class AuditTrail(Protocol):
    """All audit rows of a database, for reading. The calls block, and see what is committed."""

    def find_key_fingerprint(self) -> str | None:
        """The fingerprint of the key that the database's chains are made with."""

    def list_audited(self, *, after: str, limit: int) -> Sequence[str]:
        """Names with audit rows, deleted sessions included, in order, after a name."""

    def read_facts(self, session_id: str) -> AuditFacts: ...

    def read_rows(
        self, session_id: str, *, after: tuple[Any, str] | None, limit: int
    ) -> Sequence[StoredAuditRow]:
        """Rows with a link by sequence and id, after such a pair (keyset paging)."""


class FaultKind(StrEnum):
    """What is wrong with a chain."""

    CHANGED = "changed"  # a column, or the row stands in another's place, or it was made up
    MISSING = "missing"
    OUT_OF_ORDER = "out-of-order"
    TEXT_CHANGED = "text-changed"
    BLANKED = "blanked"  # and no purge tells of it
    MARKED = "marked"  # as deleted, or not, against what the chain says
    UNCHAINED = "unchained"  # rows without a link came or went
    ANCHOR = "anchor"  # the whole chain was made anew, with the key


class ChainFault(NamedTuple):
    """The first thing that is wrong in a session, with the row it is about.

    `audit_id` is None where a row is missing.
    """

    session_id: str
    sequence: int
    audit_id: str | None
    kind: FaultKind
    sentence: str


class SessionVerifier:
    """One pass over one session's chain: `check` each row in order until a fault, then `finish`."""

    def __init__(
        self, key: bytes, session_id: str, facts: AuditFacts, anchors: Mapping[int, str]
    ) -> None:
        """`anchors` are hashes by sequence, as they were noted outside the database."""
        self._key = key
        self._session_id = session_id
        self._facts = facts
        self._anchors = anchors
        self._purges = [act for act in facts.acts if act.kind is AuditKind.PURGE]
        self._deletions = [act for act in facts.acts if act.kind is AuditKind.SESSION_DELETE]
        self._head = chain_start(key, session_id, facts.unchained_count)

    @property
    def verified_count(self) -> int:
        """Rows found sound so far."""
        return self._head.sequence

    def check(self, row: StoredAuditRow) -> ChainFault | None:
        """Take the next row; what is wrong with it, or before it."""
        fault = self._place_fault(row) or self._link_fault(row)
        if fault is None:
            fault = self._text_fault(row) or self._mark_fault(row)
        if fault is None:
            self._head = ChainHead(row.sequence, row.link_hash)
        return fault

    def finish(self) -> ChainFault | None:
        """After the last row: whether rows are missing at the end, as far as anchors tell."""
        last, anchored = self._head.sequence, max(self._anchors, default=0)
        if anchored <= last:
            return None
        return self._fault(
            last + 1,
            None,
            FaultKind.MISSING,
            f"rows {last + 1} to {anchored} are missing at the end: an anchor tells of them",
        )

    def _place_fault(self, row: StoredAuditRow) -> ChainFault | None:
        due = self._head.sequence + 1
        if type(row.sequence) is not int:
            sentence = f"its sequence is {row.sequence!r:.40}; {due} is due"
            return self._fault(due, row, FaultKind.CHANGED, sentence)
        if row.sequence < due:
            sentence = f"a row of this sequence stands before it; {due} is due"
            return self._fault(row.sequence, row, FaultKind.OUT_OF_ORDER, sentence)
        if row.sequence > due:
            some = f"row {due} is" if row.sequence == due + 1 else f"rows {due} to "
            some += "" if row.sequence == due + 1 else f"{row.sequence - 1} are"
            sentence = f"{some} missing; the next that is there is {row.columns.id!s:.40}"
            return self._fault(due, None, FaultKind.MISSING, sentence)
        return None

    def _link_fault(self, row: StoredAuditRow) -> ChainFault | None:
        if not self._is_linked(row, self._head.hash):
            count = self._earlier_start(row) if row.sequence == 1 else None
            if count is not None:
                sentence = (
                    f"the chain began over {count} rows without a link, and there are "
                    f"{self._facts.unchained_count}"
                )
                return self._fault(row.sequence, row, FaultKind.UNCHAINED, sentence)
            sentence = (
                "its columns do not give its link: it was changed or made up, or stands in the "
                "place of another"
            )
            return self._fault(row.sequence, row, FaultKind.CHANGED, sentence)
        anchor = self._anchors.get(row.sequence)
        if anchor is not None and not hmac.compare_digest(anchor, row.link_hash):
            sentence = "its link is not the one in the anchors: the chain was made anew"
            return self._fault(row.sequence, row, FaultKind.ANCHOR, sentence)
        return None

    def _is_linked(self, row: StoredAuditRow, previous: str) -> bool:
        if not isinstance(row.link_hash, str):
            return False
        try:
            due = link_hash(
                self._key, self._session_id, previous, row.sequence, row.columns, row.digests
            )
        except TypeError:  # a column holds what it cannot
            return False
        return hmac.compare_digest(due.encode(), row.link_hash.encode("utf-8", "surrogatepass"))

    def _earlier_start(self, row: StoredAuditRow) -> int | None:
        """The count of older rows with which the first row would be sound."""
        for count in range(min(STARTS_TRIED, self._facts.unchained_count + 1_000)):
            start = chain_start(self._key, self._session_id, count)
            if self._is_linked(row, start.hash):
                return count
        return None

    def _text_fault(self, row: StoredAuditRow) -> ChainFault | None:
        """Whether each text is the one that was written, or was blanked by a proven act."""
        # The link covers this text: it is as it was written.
        digests: dict[str, str] = json.loads(row.digests) if row.digests else {}
        for column in BLANKABLE:
            text, digest = getattr(row.columns, column), digests.get(column)
            if text is None and digest is None:
                continue
            if digest is None or not isinstance(text, str | None):
                sentence = f"its {column} was put in later"
                return self._fault(row.sequence, row, FaultKind.TEXT_CHANGED, sentence)
            if text is not None and hmac.compare_digest(
                digest, text_digest(self._key, row.columns.id, column, text)
            ):
                continue
            if text is None and not self._was_blanked(row.sequence, column):
                sentence = f"its {column} was blanked, and no purge tells of it"
                return self._fault(row.sequence, row, FaultKind.BLANKED, sentence)
            if text is not None and not (BLANK in text and self._was_purged(row.sequence)):
                sentence = f"its {column} is not what was written, and no purge tells of it"
                return self._fault(row.sequence, row, FaultKind.TEXT_CHANGED, sentence)
        return None

    def _was_blanked(self, sequence: int, column: str) -> bool:
        goes_with_session = column != "reason" and self._deletion_of(sequence) is not None
        return goes_with_session or self._was_purged(sequence)

    def _was_purged(self, sequence: int) -> bool:
        """Whether a purge after the row names it, or did not see it yet when it looked."""
        return any(
            purge.sequence > sequence and _names(purge.detail, sequence) for purge in self._purges
        )

    def _deletion_of(self, sequence: int) -> ChainAct | None:
        """The deletion that took the session the row was written in."""
        return next((act for act in self._deletions if act.sequence >= sequence), None)

    def _mark_fault(self, row: StoredAuditRow) -> ChainFault | None:
        mark, deletion = row.session_deleted_at, self._deletion_of(row.sequence)
        if deletion is None:
            due = None
        else:
            due = deletion.detail.get("deleted_at") if isinstance(deletion.detail, Mapping) else 0
            if mark is None and self._facts.is_being_deleted and deletion is self._deletions[-1]:
                return None
        if mark == due:
            return None
        sentence = f"it is marked as of a session deleted at {mark!r:.40}; the chain says {due}"
        return self._fault(row.sequence, row, FaultKind.MARKED, sentence)

    def _fault(
        self, sequence: int, row: StoredAuditRow | None, kind: FaultKind, sentence: str
    ) -> ChainFault:
        audit_id = None if row is None else str(row.columns.id)
        return ChainFault(self._session_id, sequence, audit_id, kind, sentence)


def _names(detail: Json, sequence: int) -> bool:
    """Whether a purge says that it blanked the row. One that was made up may say anything."""
    try:
        ranges, seen = detail["blanked"], detail["seen"]
        return sequence > seen or any(low <= sequence <= high for low, high in ranges)
    except (TypeError, ValueError, KeyError):
        return False
