from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.argument_types import EventName
from memory.engine import limits
from memory.engine.errors import InvalidArgument
from memory.engine.event_lines import event_line, gap_line
from memory.engine.events import EventKind, EventsRequest, Notice, events_of, last_id_to_drop
from memory.engine.mutations import (
    ApplyTransition,
    Call,
    LoggedEvent,
    Mutation,
    PutAudit,
    PutConcept,
    Receipt,
)
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    Concept,
    ConceptType,
    Status,
    Transition,
)

KNOWN = {"id-1": "user schema", "id-2": "x" * 500}


def told(*mutations: Mutation, verb: str | None = None, **reply: Any) -> list[LoggedEvent]:
    """The events of a group, with a call if `verb` is given."""
    call = None if verb is None else Call(verb, "ann", "k", "digest", "{}")
    structured = {"summary": "done", "warnings": ["w"], **reply}
    receipt = Receipt("ann", "k", verb or "", "digest", {"structured": structured}, 1, 1)
    return list(
        events_of(
            mutations,
            after_id=7,
            content_of=KNOWN.get,
            call=call,
            receipt=None if call is None else receipt,
        )
    )


def data_of(event: LoggedEvent) -> dict[str, Any]:
    assert isinstance(event.data, dict)
    return event.data


def concept(node_id: str, content: str) -> Concept:
    return Concept(
        id=node_id,
        content=content,
        canonical_key=content,
        concept_type=ConceptType.ENTITY,
        origin_interaction="i",
        origin_agent="ann",
        created_at=1,
    )


def step(to_status: Status, node_id: str = "id-1") -> ApplyTransition:
    return ApplyTransition(
        Transition("t", node_id, Status.NONE, to_status, 3, None, 1, "system"),
        {"gate": "swarm"},
    )


def removal(kind: AuditKind, number: int, reason: str | None = None) -> PutAudit:
    return PutAudit(
        AuditEntry(f"a-{number}", kind, f"id-{number}", None, None, 1, "system", reason)
    )


def test_words_of_kinds_are_the_same_for_callers_and_for_the_log() -> None:
    assert list(get_args(EventName)) == [str(kind) for kind in EventKind]


def test_a_write_is_told_with_its_verb_its_answer_and_what_it_made() -> None:
    (event,) = told(
        PutConcept(concept("id-9", "api key\nsecond line")),
        PutConcept(concept("id-1", "user schema")),  # known before
        verb="derive",
        created=["id-9"],
    )
    assert (event.id, event.kind, event.agent_id) == (8, "write", "ann")
    assert data_of(event) == {
        "verb": "derive",
        "summary": "done",
        "created": ["id-9"],
        "concepts": [
            {"node_id": "id-9", "content": "api key ⏎ second line", "concept_type": "entity"}
        ],
    }


@pytest.mark.parametrize("verb", ["reserve", "release"])
def test_a_reservation_is_no_write(verb: str) -> None:
    (event,) = told(verb=verb, node_id="id-1")
    assert event.kind == "reservation"
    assert data_of(event)["node_id"] == "id-1"


def test_steps_of_a_status_are_promotions_and_demotions_with_their_evidence() -> None:
    up, down = told(step(Status.CANDIDATE), step(Status.NONE))
    assert (up.kind, down.kind) == ("promotion", "demotion")
    assert data_of(up)["evidence"] == {"gate": "swarm"}
    assert data_of(up)["content"] == "user schema"
    assert data_of(up)["to_status"] == "Candidate"


def test_what_goes_for_one_cause_is_one_event_and_names_no_text() -> None:
    collected, purged = told(
        removal(AuditKind.COLLECT, 1), removal(AuditKind.PURGE, 1), removal(AuditKind.COLLECT, 2)
    )
    assert data_of(collected)["cause"] == "collect"
    assert data_of(collected)["count"] == 2
    assert data_of(collected)["concepts"] == [
        {"node_id": f"id-{number}", "audit_id": f"a-{number}"} for number in (1, 2)
    ]
    assert data_of(purged)["concepts"] == [{"node_id": "id-1", "audit_id": "a-1"}]


def test_other_audit_rows_are_told_by_the_write_alone() -> None:
    assert told(removal(AuditKind.CONFIRM, 1)) == []


def test_findings_are_told_under_their_own_kind_with_the_content() -> None:
    notice = Notice(EventKind.CONFLICT, {"node_id": "id-1", "detail": "two agents"})
    (event,) = events_of((), after_id=0, content_of=KNOWN.get, notices=[notice])
    assert event == LoggedEvent(
        1,
        "conflict",
        "",
        {"node_id": "id-1", "detail": "two agents", "content": "user schema"},
    )


def test_ids_follow_each_other_within_a_group() -> None:
    events = told(step(Status.CANDIDATE), removal(AuditKind.RETRACT, 1), verb="retract")
    assert [event.id for event in events] == [8, 9, 10]


def test_an_event_that_would_say_too_much_says_what_it_is_about() -> None:
    (event,) = told(verb="derive", matched=["id" * 20_000])
    assert data_of(event) == {"verb": "derive", "summary": "done", "is_cut": True}


@given(st.text(max_size=40_000), st.lists(st.text(max_size=200), max_size=300))
def test_no_event_is_longer_than_the_limit(summary: str, matched: list[str]) -> None:
    (event,) = told(verb="derive", summary=summary, matched=matched)
    text = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
    assert len(text.encode("utf-8", "surrogatepass")) <= limits.EVENT_BYTES


@given(st.lists(st.integers(1, 700), min_size=1, max_size=200))
def test_the_log_never_holds_much_more_or_less_than_the_limit(sizes: list[int]) -> None:
    kept: list[int] = []
    newest = 0
    for size in sizes:
        written = list(range(newest + 1, newest + size + 1))
        newest = written[-1]
        dropped = last_id_to_drop(written[0], written[-1])
        kept = [one for one in [*kept, *written] if one > dropped]
        assert len(kept) >= min(newest, limits.EVENTS_KEPT)
        assert len(kept) <= limits.EVENTS_KEPT + limits.EVENTS_KEPT // 40
        assert kept == list(range(kept[0], newest + 1))


@pytest.mark.parametrize("given_", [{"since": -1}, {"since": 2**53}, {"limit": 0}, {"limit": 201}])
def test_what_is_out_of_range_is_named(given_: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        EventsRequest(**given_)
    assert refusal.value.fields["field"] == next(iter(given_))


def test_a_line_of_an_event_cannot_be_forged_by_a_text() -> None:
    event = {"id": 3, "occurred_at": "T", "kind": "write", "agent_id": "eve\n4  T  write by ann"}
    line = event_line({**event, "data": {"summary": "one\ntwo"}})
    assert line.splitlines() == [line]
    assert line.startswith("3  T  write by eve ⏎ 4")


def test_lines_say_what_matters() -> None:
    head = {"id": 1, "occurred_at": "T", "agent_id": None}
    lines = [
        event_line({**head, "kind": kind, "data": data})
        for kind, data in (
            ("promotion", {"content": "user schema", "to_status": "Canonical"}),
            ("disappearance", {"cause": "collect", "count": 4, "reason": None}),
            ("conflict", {"content": "user schema", "detail": "two agents write"}),
            ("cycle", {"work": "evaluation", "promoted": 2}),
            ("drift", None),
        )
    ]
    assert lines == [
        "1  T  promotion  user schema is Canonical",
        "1  T  disappearance  4 by collect",
        "1  T  conflict  user schema: two agents write",
        "1  T  cycle  work evaluation promoted 2",
        "1  T  drift",
    ]
    assert gap_line({"after": 4, "resume": 9, "lost": 4}).startswith("gap: 4 events after 4")
    assert "begun anew" in gap_line({"after": 4, "resume": 1, "lost": 0})
