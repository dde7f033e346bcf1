"""What happened, as a session's listeners are told: which events a group causes, and their ids.

Owns the kinds of events, what each one says, and how much. An event is a row of the group that
caused it: it is stored with that group or not at all, and its id counts from 1 in log order, so a
listener who knows the last id it saw knows whether it missed one. Knows no listener and no store.

Invariant: ids of a session's log have no gaps and never fall; an event says at most `EVENT_BYTES`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final, TypeAlias

from memory.engine import limits
from memory.engine.event_texts import told_of_removal
from memory.engine.mutations import (
    ApplyTransition,
    Call,
    LoggedEvent,
    Mutation,
    PutAudit,
    PutConcept,
    Receipt,
)
from memory.engine.requests import check_range
from memory.engine.showing import in_passing
from memory.engine.types import AuditEntry, AuditKind, Json, NodeId, Status, Transition


class EventKind(StrEnum):
    """What an event tells of; listeners choose by it."""

    WRITE = "write"
    RESERVATION = "reservation"
    PROMOTION = "promotion"
    DEMOTION = "demotion"
    DISAPPEARANCE = "disappearance"
    CONFLICT = "conflict"
    CONTRADICTION = "contradiction"
    HIGH_RISK = "high-risk"
    DRIFT = "drift"
    STALE = "stale"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class EventsRequest:
    """Which events to tell: those with larger ids than `since`, of some kinds or all.

    Without `since` it depends on who asks: a page holds the newest, a stream begins now.
    """

    since: int | None = None
    kinds: tuple[str, ...] = ()
    limit: int = limits.EVENTS_PER_PAGE

    def __post_init__(self) -> None:
        if self.since is not None:
            check_range("since", self.since, 0, EVENT_ID_MAX)
        check_range("limit", self.limit, 1, limits.EVENTS_PER_PAGE)


EVENT_ID_MAX: Final = 2**53 - 1
"""The largest id that every JSON reader keeps exact."""

ContentOf: TypeAlias = Callable[[NodeId], str | None]
"""The content of a live concept, by id."""

_RESERVING: Final = frozenset({"reserve", "release"})
_REMOVALS: Final = frozenset({AuditKind.RETRACT, AuditKind.COLLECT, AuditKind.PURGE})


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell that no mutation says: a finding, or that a cycle did its work."""

    kind: EventKind
    data: dict[str, Any]


def events_of(
    mutations: Sequence[Mutation],
    *,
    after_id: int,
    content_of: ContentOf,
    call: Call | None = None,
    receipt: Receipt | None = None,
    notices: Sequence[Notice] = (),
) -> tuple[LoggedEvent, ...]:
    """The events of one group, numbered after `after_id`.

    `content_of` knows the graph before the group is applied.
    """
    told: list[tuple[EventKind, str, dict[str, Any]]] = []
    if call is not None and receipt is not None:
        told.append(_write(call, receipt, _made(mutations, content_of)))
    removed: dict[tuple[AuditKind, str, str | None], list[AuditEntry]] = {}
    for mutation in mutations:
        if isinstance(mutation, ApplyTransition):
            told.append(_step(mutation.transition, mutation.detail, content_of))
        elif isinstance(mutation, PutAudit) and mutation.entry.kind in _REMOVALS:
            entry = mutation.entry
            removed.setdefault((entry.kind, entry.actor, entry.reason), []).append(entry)
    told += [_removal(*cause, entries) for cause, entries in removed.items()]
    told += [(one.kind, "", _named(one.data, content_of)) for one in notices]
    return tuple(
        LoggedEvent(at, str(kind), agent_id, _bounded(data))
        for at, (kind, agent_id, data) in enumerate(told, start=after_id + 1)
    )


def last_id_to_drop(first_id: int, last_id: int) -> int:
    """Up to which id the log lets go after events of these ids were written; 0 for none.

    Not at every write: the log holds up to one part in forty more than `EVENTS_KEPT`.
    """
    slack = max(1, limits.EVENTS_KEPT // 40)
    is_due = (first_id - 1) // slack != last_id // slack
    return max(0, last_id - limits.EVENTS_KEPT) if is_due else 0


def _write(
    call: Call, receipt: Receipt, made: list[dict[str, Any]]
) -> tuple[EventKind, str, dict[str, Any]]:
    said = {name: part for name, part in _reply(receipt).items() if name != "warnings"}
    kind = EventKind.RESERVATION if call.verb in _RESERVING else EventKind.WRITE
    named = {"concepts": made} if made else {}
    data = {"verb": call.verb, **said, **named}
    return kind, call.agent_id, told_of_removal(data) if call.verb == "retract" else data


def _made(mutations: Sequence[Mutation], content_of: ContentOf) -> list[dict[str, Any]]:
    """The first concepts that a group makes."""
    made = (
        mutation.concept
        for mutation in mutations
        if isinstance(mutation, PutConcept) and content_of(mutation.concept.id) is None
    )
    return [
        {
            "node_id": concept.id,
            "content": in_passing(concept.content),
            "concept_type": str(concept.concept_type).lower(),
        }
        for concept in islice(made, limits.EVENT_CONCEPTS)
    ]


def _reply(receipt: Receipt) -> dict[str, Any]:
    reply = receipt.reply
    assert isinstance(reply, dict)
    structured = reply["structured"]
    assert isinstance(structured, dict)
    return structured


def _step(
    step: Transition, evidence: Json, content_of: ContentOf
) -> tuple[EventKind, str, dict[str, Any]]:
    kind = EventKind.DEMOTION if step.to_status is Status.NONE else EventKind.PROMOTION
    data = {
        "node_id": step.node_id,
        "from_status": str(step.from_status),
        "to_status": str(step.to_status),
        "blast_radius": step.blast_radius,
        "reason": step.reason,
        "evidence": evidence,
    }
    return kind, step.actor, _named(data, content_of)


def _removal(
    cause: AuditKind, actor: str, reason: str | None, entries: Sequence[AuditEntry]
) -> tuple[EventKind, str, dict[str, Any]]:
    """What was taken out for one cause, by ids: its texts are for those who may read the trail."""
    concepts = [{"node_id": entry.node_id, "audit_id": entry.id} for entry in entries]
    data = {"cause": str(cause), "reason": reason, "count": len(entries), "concepts": concepts}
    return EventKind.DISAPPEARANCE, actor, data


def _named(data: dict[str, Any], content_of: ContentOf) -> dict[str, Any]:
    """The same with the content of the concept it is about."""
    node_id = data.get("node_id")
    return data if node_id is None else {**data, "content": _shown(content_of(node_id))}


def _shown(content: str | None) -> str | None:
    return None if content is None else in_passing(content)


_KEPT: Final = (
    *("verb", "cause", "count", "node_id", "action_node", "target"),
    *("from_status", "to_status", "summary"),
)
"""What an event that is too long still says; with its summary, whose texts that tells."""


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode("utf-8", "surrogatepass")) <= limits.EVENT_BYTES:
        return data
    kept: dict[str, Any] = {name: data[name] for name in _KEPT if name in data}
    if isinstance(summary := kept.get("summary"), str):
        kept["summary"] = in_passing(summary)
    return {**kept, "is_cut": True}
