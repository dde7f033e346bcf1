"""The log of events in a store: written with its group, kept by count, read in pages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connections

from memory.engine import limits
from memory.engine.event_texts import REMOVED
from memory.engine.mutations import DeleteConcept, LoggedEvent, PurgeText, PutConcept
from memory.engine.ports import EventPage, GraphStore
from memory.store.django_store import DjangoStore
from session_log import NODE, SessionLog, deletion_entry


def commit(log: SessionLog, *groups: list[LoggedEvent], purge: str | None = None) -> None:
    """Commit groups of nothing but events; the last one also purges a text, if given."""
    batch = log.batch(*([] for _ in groups))
    numbered = [
        replace(group, events=tuple(events))
        for group, events in zip(batch.groups, groups, strict=True)
    ]
    if purge is not None:
        numbered[-1] = replace(numbered[-1], mutations=(PurgeText((), purge),))
    batch = replace(batch, groups=tuple(numbered))
    assert not log.store.commit([batch], node_id=NODE, ttl_seconds=45.0)
    log.position = batch.last_position


def event(number: int, kind: str = "write", said: str = "x") -> LoggedEvent:
    return LoggedEvent(number, kind, "ann", {"summary": said})


def ids(page: EventPage) -> list[int]:
    return [one.id for one in page.events]


def test_events_come_back_with_the_position_and_instant_of_their_group(store: GraphStore) -> None:
    log = SessionLog(store)
    commit(log, [event(1), event(2, "drift")], [event(3)])
    page = store.list_events("s", after=0, limit=10)
    assert ids(page) == [1, 2, 3]
    assert [one.position for one in page.events] == [1, 1, 2]
    assert {one.occurred_at for one in page.events} == {log.now}
    assert (page.events[1].kind, page.events[1].agent_id) == ("drift", "ann")
    assert page.events[0].data == {"summary": "x"}
    assert (page.oldest, page.newest, page.read_to) == (1, 3, 3)
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.event_id == 3


def test_pages_go_on_where_the_one_before_ended(store: GraphStore) -> None:
    log = SessionLog(store)
    commit(log, [event(number) for number in range(1, 8)])
    first = store.list_events("s", after=0, limit=3)
    assert (ids(first), first.read_to) == ([1, 2, 3], 3)
    rest = store.list_events("s", after=first.read_to, limit=10)
    assert (ids(rest), rest.read_to) == ([4, 5, 6, 7], 7)
    assert ids(store.list_events("s", after=7, limit=10)) == []


def test_a_page_of_some_kinds_says_how_far_the_log_was_read(store: GraphStore) -> None:
    log = SessionLog(store)
    commit(log, [event(number, "drift" if number % 3 == 0 else "write") for number in range(1, 9)])
    page = store.list_events("s", after=0, limit=10, kinds=["drift"])
    assert (ids(page), page.read_to) == ([3, 6], 8)
    cut = store.list_events("s", after=0, limit=1, kinds=["drift"])
    assert (ids(cut), cut.read_to) == ([3], 3)
    assert ids(store.list_events("s", after=0, limit=9, kinds=["drift", "write"])) == [*range(1, 9)]
    assert ids(store.list_events("s", after=0, limit=9, kinds=["cycle"])) == []


def test_the_oldest_go_when_there_are_too_many(
    store: GraphStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENTS_KEPT", 40)
    log = SessionLog(store)
    for number in range(1, 101):
        commit(log, [event(number)])
        page = store.list_events("s", after=0, limit=200)
        assert ids(page) == list(range(page.oldest, number + 1))
        assert min(number, 40) <= len(page.events) <= 41
    assert page.oldest > 1


def test_other_sessions_and_unknown_ones_are_empty(store: GraphStore) -> None:
    log, other = SessionLog(store), SessionLog(store, "other", seed=2)
    commit(log, [event(1)])
    commit(other, [])
    for name in ("other", "unknown"):
        page = store.list_events(name, after=4, limit=10)
        assert (page.events, page.oldest, page.newest, page.read_to) == ((), 1, 0, 4)


def test_a_deleted_session_leaves_no_event(store: GraphStore) -> None:
    log = SessionLog(store)
    commit(log, [event(1), event(2)])
    steps = store.delete_session("s", node_id=NODE, token=log.token, entry=deletion_entry())
    counts = [next(steps)]  # marked: from here on nobody sees it
    assert store.list_events("s", after=0, limit=10).newest == 0
    counts += list(steps)
    assert sum(step.get("event", 0) for step in counts) == 2
    SessionLog(store)
    assert store.list_events("s", after=0, limit=10).events == ()


def test_a_purge_blanks_what_events_say_of_the_text(store: GraphStore) -> None:
    log = SessionLog(store)
    commit(log, [event(1, said="made 'the key is 17'"), event(2, said="other")])
    assert store.find_traces("s", PurgeText((), "the key is 17")) == {"event": 1}
    commit(log, [event(3, said="took out 'the key is 17'")], purge="the key is 17")
    page = store.list_events("s", after=0, limit=10)
    assert ids(page) == [1, 2, 3]
    assert "the key" not in repr(page)
    assert page.events[1].data == {"summary": "other"}
    assert store.find_traces("s", PurgeText((), "the key is 17")) == {}


def test_a_text_is_told_only_while_its_concept_is_there(store: GraphStore) -> None:
    """Whoever may only read could replay the texts of what was retracted."""
    log = SessionLog(store)
    kept, gone = log.write("guard", "the key is 17")
    told = [
        LoggedEvent(at, "drift", "", {"node_id": one.id, "content": one.content, "hops": 3})
        for at, one in enumerate((kept, gone, kept), start=1)
    ]
    commit(log, told)
    other = SessionLog(store, "other", seed=2)
    commit(other, told)
    assert [one.data for one in store.list_events("s", after=0, limit=9).events] == [
        one.data for one in told
    ]
    assert "the key" not in repr(store.list_events("other", after=0, limit=9))
    log.commit([DeleteConcept(gone.id)])
    page = store.list_events("s", after=0, limit=9)
    assert [one.data for one in page.events] == [
        told[0].data,
        {"node_id": gone.id, "content": REMOVED, "hops": 3},
        told[2].data,
    ]
    log.commit([PutConcept(gone)])
    assert store.list_events("s", after=0, limit=9).events[1].data == told[1].data


def test_a_full_page_of_many_concepts_and_of_odd_ids_is_read(store: GraphStore) -> None:
    log = SessionLog(store)
    names = [one.id for one in log.write(*(f"fact {number}" for number in range(1_200)))]
    data, odd, rest = (
        {"concepts": [{"node_id": name, "content": "told"} for name in some]}
        for some in (names[:600], ["", "*", "\u00fc", "7"], names[600:])
    )
    commit(log, [LoggedEvent(at, "x", "", one) for at, one in enumerate((data, odd, rest), 1)])
    page = store.list_events("s", after=0, limit=9)
    assert (page.events[0].data, page.events[2].data) == (data, rest)
    assert "told" not in repr(page.events[1])


def test_a_row_that_a_foreign_hand_broke_keeps_its_place(store: GraphStore) -> None:
    if not isinstance(store, DjangoStore):
        pytest.skip("there are no rows to break")
    log = SessionLog(store)
    commit(log, [event(1), event(2)])
    with connections[store._writer_alias].cursor() as cursor:
        cursor.execute("UPDATE lambo_event SET data = 'no json' WHERE id = 1")
    page = store.list_events("s", after=0, limit=10)
    assert [(one.id, one.data) for one in page.events] == [(1, None), (2, {"summary": "x"})]
