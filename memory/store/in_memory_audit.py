"""The audit rows of sessions that are held as plain dictionaries, and how a text is purged.

The plain meaning of `memory.store.audit`, `memory.store.audit_trail` and `memory.store.purging`,
row by row and without SQL.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory.engine.audit_chain import (
    AuditChain,
    AuditColumns,
    BlankedRows,
    ChainHead,
    StoredChain,
    columns_of_entry,
    columns_of_transition,
    make_link,
)
from memory.engine.audit_verification import AuditFacts, ChainAct, StoredAuditRow
from memory.engine.limits import REMOVALS_FOUND
from memory.engine.mutations import PurgeText
from memory.engine.ports import DeadLetter, Removal
from memory.engine.times import Micros
from memory.engine.traces import (
    BLANK,
    Needles,
    blanked,
    blanked_entry,
    holds,
    is_same,
    needles_of,
    removed_content,
)
from memory.engine.types import AuditEntry, AuditKind, ChainLink, NodeId
from memory.store.audit_trail import ranges_of
from memory.store.in_memory_rows import Kept, Rows

_KEPT_TEXT = frozenset({AuditKind.RETRACT, AuditKind.COLLECT})


def list_removals(rows: Rows, *, before: NodeId | None, limit: int) -> list[Removal]:
    found = [entry for entry in _newest_first(rows) if not before or entry.id < before]
    return [
        Removal(entry._replace(removed=None), is_back=entry.node_id in rows.concepts)
        for entry in found[:limit]
    ]


def find_removals(rows: Rows, name: str) -> list[Removal]:
    wanted, needles = name.strip().lower(), needles_of(name, is_cut=False)
    found = [
        Removal(entry, is_back=entry.node_id in rows.concepts)
        for entry in _newest_first(rows)
        if entry.kind in _KEPT_TEXT
        and (
            wanted in (entry.id, entry.node_id)
            or ((content := removed_content(entry)) is not None and is_same(content, needles))
        )
    ]
    return found[:REMOVALS_FOUND]


def _newest_first(rows: Rows) -> Iterator[AuditEntry]:
    for entry in sorted(rows.entries.values(), key=lambda entry: entry.id, reverse=True):
        is_purge = entry.kind is AuditKind.PURGE and entry.from_status is not None
        if entry.kind in _KEPT_TEXT or is_purge:
            yield entry


def purge(rows: Rows, letters: list[DeadLetter], mutation: PurgeText) -> Mapping[str, int]:
    """Blank every trace of a text in the rows and the letters of a session; how many, by table.

    Both are the caller's to change.
    """
    needles = needles_of(mutation.content)
    counts: Counter[str] = Counter()
    for place, receipt in rows.receipts.items():
        reply = blanked(receipt.reply, needles)
        if reply != receipt.reply:
            rows.receipts[place] = replace(receipt, reply=reply)
            counts["receipt"] += 1
    for at, event in enumerate(rows.events):
        data = blanked(event.data, needles)
        if data != event.data:
            rows.events[at] = replace(event, data=data)
            counts["event"] += 1
    for at, letter in enumerate(letters):
        arguments = None if letter.call is None else letter.call.arguments
        if blanked(arguments, needles) != arguments or holds(letter.error, needles):
            error = BLANK if holds(letter.error, needles) else letter.error
            call = None if letter.call is None else replace(letter.call, arguments=None)
            letters[at] = replace(letter, call=call, error=error)
            counts["dead_letter"] += 1
    for at, item in enumerate(rows.aside):
        if _is_trace(item, mutation, needles):
            name = BLANK if holds(str(item.why.row_id), needles) else item.why.row_id
            why = replace(item.why, sentence=BLANK, row_id=name, instead=None)
            rows.aside[at] = replace(item, why=why, record=None)
            counts["set_aside"] += 1
    for audit_id, entry in rows.entries.items():
        after = blanked_entry(entry, needles, mutation.concept_ids)
        if after != entry:
            rows.entries[audit_id] = after
            counts["audit_event"] += 1
    for audit_id, transition in rows.transitions.items():
        if holds(transition.reason, needles):
            rows.transitions[audit_id] = transition._replace(reason=None)
            counts["audit_event"] += 1
    return +counts


def _is_trace(item: Kept, mutation: PurgeText, needles: Needles) -> bool:
    if item.record is None:
        return False
    texts = [str(item.why.row_id), item.why.sentence, *map(str, item.record)]
    return any(holds(text, needles) for text in texts) or any(
        concept_id in texts or concept_id in item.why.sentence
        for concept_id in mutation.concept_ids
    )


# -- the hash chain ----------------------------------------------------------------------------


def stored_rows(rows: Rows) -> list[StoredAuditRow]:
    """Every audit row of a session as its columns."""
    steps = [columns_of_transition(it, rows.evidence[it.id]) for it in rows.transitions.values()]
    acts = [columns_of_entry(entry) for entry in rows.entries.values()]
    return [_stored(columns, rows.links.get(columns.id)) for columns in (*steps, *acts)]


def chain_of(rows: Sequence[StoredAuditRow]) -> StoredChain:
    """What a name's next audit row is linked to."""
    newest = max((row for row in rows if row.sequence), key=lambda row: row.sequence, default=None)
    latest_id = max((row.columns.id for row in rows), default=None)
    if newest is not None:
        return StoredChain(ChainHead(newest.sequence, newest.link_hash), latest_id=latest_id)
    return StoredChain(None, len(rows), latest_id)


def blanked_rows(before: Sequence[StoredAuditRow], after: Sequence[StoredAuditRow]) -> BlankedRows:
    """The places of rows that are another after a purge."""
    head = chain_of(before).head
    changed = {row.sequence for row in {*after}.difference(before) if row.sequence is not None}
    return BlankedRows(ranges_of(changed), 0 if head is None else head.sequence)


def facts_of(rows: Sequence[StoredAuditRow]) -> AuditFacts:
    """The purges and deletions among rows, and how many have no link."""
    kinds = (AuditKind.PURGE, AuditKind.SESSION_DELETE)
    acts = [
        ChainAct(row.sequence, AuditKind(row.columns.kind), json.loads(row.columns.detail))
        for row in rows
        if row.columns.kind in kinds and row.sequence is not None
    ]
    return AuditFacts(sum(row.sequence is None for row in rows), tuple(sorted(acts)))


def page_of(
    rows: Sequence[StoredAuditRow], *, after: tuple[Any, str] | None, limit: int
) -> list[StoredAuditRow]:
    """Rows with a link by sequence and id, after such a pair."""
    linked = [row for row in rows if row.sequence is not None]
    places = sorted(linked, key=lambda row: (row.sequence, row.columns.id))
    return [row for row in places if not after or (row.sequence, row.columns.id) > after][:limit]


def buried(
    rows: Sequence[StoredAuditRow],
    session_id: str,
    last: AuditEntry,
    key: bytes | None,
    mark: Micros,
) -> list[StoredAuditRow]:
    """Audit rows as the deletion of their session leaves them, its own row among them."""
    columns, link = columns_of_entry(last), None
    if key is not None:
        chain = AuditChain.after(key, session_id, chain_of(rows))
        link = make_link(key, session_id, chain.head, columns)
    return [
        row
        if row.session_deleted_at is not None
        else row._replace(
            columns=row.columns._replace(texts=None, removed=None), session_deleted_at=mark
        )
        for row in (*rows, _stored(columns, link))
    ]


def _stored(columns: AuditColumns, link: ChainLink | None) -> StoredAuditRow:
    sequence, digests, link_hash = (None, None, None) if link is None else link
    return StoredAuditRow(columns, sequence, digests, link_hash, None)
