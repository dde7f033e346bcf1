"""What every `GraphStore` promises of audit rows, of what was taken out, and of purged texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory.engine.limits import REMOVALS_FOUND
from memory.engine.mutations import (
    Call,
    DeleteConcept,
    DeleteSynonym,
    Mutation,
    PurgeText,
    PutAudit,
    PutConcept,
    PutSynonym,
    Receipt,
)
from memory.engine.ports import DeadLetter, GraphStore, Removal, StoreRejected
from memory.engine.traces import BLANK
from memory.engine.types import AuditEntry, AuditKind, Concept, Status
from session_log import NODE, START, SessionLog, acquire, counted, deletion_entry

SECRET = 'the "xylophone9" is hidden'


def removal(log: SessionLog, concept: Concept, **columns: Any) -> AuditEntry:
    state: Any = {"concept": {**concept._asdict()}, "edges": [], "names": {}, "reservation": None}
    texts = {"content": concept.content} if columns.get("removed", state) else None
    entry = AuditEntry(
        id=log.ids.next_ordered_id(log.now),
        kind=AuditKind.RETRACT,
        node_id=concept.id,
        from_status=Status.NONE,
        to_status=None,
        occurred_at=log.now,
        actor="human",
        reason="why not",
        detail={"edges": 1},
        texts=texts,
        removed=state,
    )
    return entry._replace(**columns)


def take_out(log: SessionLog, concept: Concept, **columns: Any) -> AuditEntry:
    entry = removal(log, concept, **columns)
    assert not log.commit([DeleteConcept(concept.id), PutAudit(entry)])
    return entry


def listed(log: SessionLog) -> list[AuditEntry]:
    """The removals with what was kept of them."""
    rows = log.store.list_removals("s", before=None, limit=100)
    return [found.entry for row in rows for found in log.store.find_removals("s", row.entry.id)]


def receipt(log: SessionLog, key: str, text: str) -> Receipt:
    reply = {"text": text, "structured": {"summary": text, "edges": 3, "warnings": []}}
    return replace(log.receipt(key), reply=reply)


def letter(log: SessionLog, position: int, text: str) -> DeadLetter:
    call = Call("derive", "agent-a", f"k{position}", "digest", {"concepts": [{"content": text}]})
    return DeadLetter("s", position, call, "refused", START)


# -- audit rows --------------------------------------------------------------------------------


def test_what_was_taken_out_is_listed_newest_first_page_by_page(log: SessionLog) -> None:
    concepts = log.write(*(f"concept {number}" for number in range(5)))
    entries = [take_out(log, concept) for concept in concepts[:4]]
    log.commit([PutAudit(removal(log, concepts[4], kind=AuditKind.RESTORE))])
    expected = [Removal(entry._replace(removed=None), is_back=False) for entry in reversed(entries)]

    pages: list[Removal] = []
    before = None
    while page := log.store.list_removals("s", before=before, limit=3):
        assert len(page) <= 3
        pages += page
        before = page[-1].entry.id

    assert pages == expected


def test_a_concept_that_is_back_is_told_so(log: SessionLog) -> None:
    (concept,) = log.write("here again")
    entry = removal(log, concept)
    log.commit([PutAudit(entry)])

    (found,) = log.store.list_removals("s", before=None, limit=9)

    assert (found.entry, found.is_back) == (entry._replace(removed=None), True)
    assert log.store.find_removals("s", concept.id) == [Removal(entry, is_back=True)]


def test_removals_are_found_by_audit_id_by_concept_and_by_content(log: SessionLog) -> None:
    first, second = log.write("User schema", "user schemas")
    entries = [take_out(log, first), take_out(log, second)]
    again = removal(log, first)
    log.commit([PutAudit(again)])

    def found(name: str) -> list[str]:
        return [item.entry.id for item in log.store.find_removals("s", name)]

    assert found(entries[0].id.upper()) == [entries[0].id]
    assert found(first.id) == [again.id, entries[0].id]
    assert found(second.id) == [entries[1].id]
    for spelt in ("User schema", "user schemas", " USER\tschema ", "schema-user"):
        assert found(spelt) == [again.id, entries[1].id, entries[0].id]
    for odd in ("", "%", "*", "_", "user", "User schema two", "null", "'", "\\"):
        assert found(odd) == []


def test_a_removal_is_found_however_many_later_ones_name_it(log: SessionLog) -> None:
    """A hub was collected in one sweep with what hung on it: the rows of its neighbours, which hold
    its id and its content as the other end of an edge, filled the answer, and it was not found."""
    hub, *others = log.write("the hub", *(f"leaf {number}" for number in range(REMOVALS_FOUND)))
    entries: list[AuditEntry] = [removal(log, hub)]
    for other in others:
        state = {
            "concept": {**other._asdict()},
            "edges": [{"source": other.id, "target": hub.id}],
            "names": {hub.id: hub.content},
            "reservation": None,
        }
        entries.append(removal(log, other, removed=state))
    assert not log.commit([PutAudit(entry) for entry in entries])

    for name in (entries[0].id, hub.id, hub.content):
        assert [found.entry for found in log.store.find_removals("s", name)] == [entries[0]]


def test_putting_an_audit_row_twice_keeps_one_and_never_changes_it(log: SessionLog) -> None:
    (concept,) = log.write("a")
    entry = take_out(log, concept)
    log.commit([PutAudit(entry), PutAudit(entry._replace(actor="somebody else"))])

    assert listed(log) == [entry]


def test_the_id_of_another_sessions_audit_row_is_refused(store: GraphStore) -> None:
    log, other = SessionLog(store, seed=1), SessionLog(store, "t", seed=2)
    (concept,) = log.write("a")
    entry = take_out(log, concept)

    with pytest.raises(StoreRejected):
        other.commit([PutAudit(entry)])

    assert store.list_removals("t", before=None, limit=9) == []


def test_what_stands_for_a_live_concept_is_loaded_and_the_rest_is_not(log: SessionLog) -> None:
    alive, gone = log.write("alive", "gone")
    restored = removal(log, alive, kind=AuditKind.RESTORE, detail={"gc_survived": 2}, removed=None)
    confirmed = removal(log, alive, kind=AuditKind.CONFIRM, detail=None, removed=None)
    early = removal(log, alive, kind=AuditKind.CONFIRM, detail=None, removed=None)
    early, restored, confirmed = (
        entry._replace(id=name)
        for entry, name in zip(
            (early, restored, confirmed),
            sorted([early.id, restored.id, confirmed.id]),
            strict=True,
        )
    )
    lost = removal(log, gone, kind=AuditKind.CONFIRM, detail=None, removed=None)
    log.commit([PutAudit(entry) for entry in (early, restored, confirmed, lost)])
    take_out(log, gone)

    assert log.load().standing == (restored, confirmed)


def test_a_synonym_can_be_taken_back(log: SessionLog) -> None:
    log.commit([PutSynonym("a", "b"), PutSynonym("c", "d"), DeleteSynonym("a")])
    assert log.load().synonyms == (("c", "d"),)
    log.commit([DeleteSynonym("c"), PutSynonym("c", "e"), DeleteSynonym("nothing")])
    assert log.load().synonyms == (("c", "e"),)


# -- purging -----------------------------------------------------------------------------------


def traces(log: SessionLog, *concept_ids: str) -> dict[str, int]:
    return dict(log.store.find_traces("s", PurgeText(concept_ids, SECRET)))


def test_every_trace_of_a_text_is_counted_and_then_blanked(log: SessionLog) -> None:
    secret, other = log.write(SECRET, "other")
    take_out(log, secret)
    take_out(
        log,
        other,
        reason=f"because of {SECRET}",
        removed={
            "concept": {**other._asdict()},
            "edges": [],
            "names": {secret.id: SECRET},
            "reservation": None,
        },
    )
    goal = removal(
        log,
        secret,
        kind=AuditKind.ROOT_GOAL,
        node_id=None,
        removed=None,
        texts={"before": None, "after": [SECRET, "ship it"]},
    )
    log.commit([PutAudit(goal)], receipt=receipt(log, "told", f"created {SECRET}"))
    log.commit([PutAudit(goal)], receipt=receipt(log, "clean", "created something"))
    for position, text in enumerate([SECRET, f"not {SECRET}", "clean"], start=90):
        log.store.put_dead_letter(letter(log, position, text))
    assert traces(log, secret.id) == {"audit_event": 3, "dead_letter": 2, "receipt": 1}

    log.commit([PurgeText((secret.id,), SECRET)])

    assert traces(log, secret.id) == {}
    told, clean = (log.store.find_receipt("s", "agent-a", key) for key in ("told", "clean"))
    assert told is not None
    assert told.reply == {
        "text": BLANK,
        "structured": {"summary": BLANK, "edges": 3, "warnings": []},
    }
    assert clean is not None
    assert clean.reply["text"] == "created something"
    assert log.store.count_dead_letters("s") == 3
    of_other, of_secret = listed(log)
    assert (of_secret.removed, of_secret.reason) == (None, "why not")
    assert of_other.removed["names"] == {secret.id: BLANK}
    assert of_other.removed["concept"]["content"] == "other"
    assert of_other.reason is None
    assert "xylophone9" not in str(listed(log))


QUOKKA = "Quokka Vault “Caf\u00e9” Passphrase"
SPELLINGS = [
    "guard the quokka vault “caf\u00e9” passphrase",
    "it is QUOKKA   VAULT\n“CAFE\u0301” PASSPHRASE!",
    "quo\u200dkka vault “caf\u00e9” passphrase",
    "Quokka Vault ⏎ “Caf\u00e9” ⏎ Passphrase",
    "passphrases of the quokka-vault “caf\u00e9”",
]
OTHERS = ["quokka vault", "a passphrase for the vault", "qu\u00f3kka vault “caf\u00e9” passphrase"]


@pytest.mark.parametrize("spelt", [*SPELLINGS, *OTHERS])
def test_a_text_that_was_spelt_otherwise_is_blanked_in_every_table(
    log: SessionLog, spelt: str
) -> None:
    """Only the very spelling of the concept was found, and the secret stood on in lower case."""
    concept, earlier, other = log.write(QUOKKA, f" {spelt}", "other")
    gone = take_out(log, earlier)
    take_out(log, other, reason=f"because: {spelt}")
    log.commit([], receipt=receipt(log, "told", spelt))
    log.store.put_dead_letter(letter(log, 90, spelt))
    purge = PurgeText((concept.id,), QUOKKA)
    is_trace, is_held = spelt in SPELLINGS, spelt in SPELLINGS[:-1]
    is_whole = spelt in SPELLINGS[2:]  # and so another spelling of the concept

    counts = dict(log.store.find_traces("s", purge))
    log.commit([DeleteConcept(concept.id), purge])

    rows = {"audit_event": is_held + is_whole, "dead_letter": 1, "receipt": 1}
    assert counts == (rows if is_trace else {})
    assert log.store.find_traces("s", purge) == {}
    told = log.store.find_receipt("s", "agent-a", "told")
    assert told is not None
    assert told.reply["text"] == (BLANK if is_trace else spelt)
    of_other, of_earlier = (
        found.entry for found in log.store.list_removals("s", before=None, limit=9)
    )
    assert (of_other.reason is None) == is_held
    assert of_earlier.id == gone.id
    assert (of_earlier.texts is None) == is_whole


def test_a_purge_of_a_live_concept_is_listed_without_its_text(log: SessionLog) -> None:
    """A concept that was purged while it lived was missing from the list of what is gone."""
    alive, gone = log.write("alive", "gone already")
    first = take_out(log, gone)
    live = removal(log, alive, kind=AuditKind.PURGE, removed=None)
    log.commit([DeleteConcept(alive.id), PutAudit(live), PurgeText((alive.id,), "alive")])
    late = removal(log, gone, kind=AuditKind.PURGE, removed=None, from_status=None)
    log.commit([PutAudit(late), PurgeText((gone.id,), "gone already")])

    rows = log.store.list_removals("s", before=None, limit=9)

    assert [(row.entry.id, row.entry.texts) for row in rows] == [(live.id, None), (first.id, None)]
    assert log.store.find_removals("s", alive.id) == []


def test_a_receipt_of_the_same_batch_is_blanked_too(log: SessionLog) -> None:
    interaction, mutations = log.call(None)
    concept, puts = log.derived(interaction, SECRET)
    groups: list[list[Mutation]] = [
        [*mutations, *puts],
        [DeleteConcept(concept.id), PurgeText((concept.id,), SECRET)],
        [],
    ]
    batch = log.batch(*groups)
    first, second, third = batch.groups
    told = receipt(log, "told", SECRET)
    later = replace(receipt(log, "later", SECRET), position=third.position)
    batch = replace(
        batch, groups=(replace(first, receipt=told), second, replace(third, receipt=later))
    )

    assert not log.store.commit([batch], node_id=NODE, ttl_seconds=45.0)

    stored = log.store.find_receipt("s", "agent-a", "told")
    assert stored is not None
    assert "xylophone9" not in str(stored)
    after = log.store.find_receipt("s", "agent-a", "later")
    assert after is not None
    assert after.reply["text"] == SECRET  # somebody wrote it again since


def test_the_removed_state_of_an_earlier_concept_of_the_text_goes_too(log: SessionLog) -> None:
    first, longer = log.write(SECRET, f"{SECRET} and more")
    take_out(log, first)
    kept = take_out(log, longer)
    (again,) = log.write(SECRET)
    log.commit([DeleteConcept(again.id), PurgeText((again.id,), SECRET)])

    of_longer, of_first = listed(log)
    assert of_first.removed is None
    assert of_longer == kept  # another content, though it holds the words


def test_rows_set_aside_lose_the_text(log: SessionLog) -> None:
    first, _ = log.write(SECRET, "other")
    interaction, mutations = log.call("x")
    orphan = log.concept(interaction, SECRET, canonical_key="another key")
    log.commit([*mutations, PutConcept(orphan)])  # nothing derives it
    loaded = log.store.load_session("s")
    assert loaded is not None
    assert log.store.put_aside(loaded, node_id=NODE, token=log.token, at=START) == 1
    count = log.store.count_set_aside("s")
    assert traces(log, first.id) == {"set_aside": 1}

    log.commit([PurgeText((first.id,), SECRET)])

    assert traces(log, first.id) == {}
    assert log.store.count_set_aside("s") == count


def test_another_session_is_left_alone(store: GraphStore) -> None:
    log, other = SessionLog(store, seed=1), SessionLog(store, "t", seed=2)
    (mine,) = log.write(SECRET)
    (theirs,) = other.write(SECRET)
    entry = removal(other, theirs)
    other.commit([PutAudit(entry)], receipt=receipt(other, "k", SECRET))
    log.commit([PurgeText((mine.id,), SECRET)])

    (found,) = store.find_removals("t", entry.id)
    assert found.entry == entry
    kept = store.find_receipt("t", "agent-a", "k")
    assert kept is not None
    assert kept.reply["text"] == SECRET


@pytest.mark.parametrize("text", ["%", "_", "*", "'", '"', "\\", "[", "a\nb", "é"])
def test_a_text_means_nothing_but_itself(log: SessionLog, text: str) -> None:
    log.write("plain")
    log.commit([], receipt=receipt(log, "plain", "no such sign here"))
    log.commit([], receipt=receipt(log, "told", f"x{text}y"))
    assert log.store.find_traces("s", PurgeText((), text)) == {"receipt": 1}

    log.commit([PurgeText((), text)])

    plain = log.store.find_receipt("s", "agent-a", "plain")
    assert plain is not None
    assert plain.reply["text"] == "no such sign here"
    assert log.store.find_traces("s", PurgeText((), text)) == {}


def test_scrubbing_is_done_when_nobody_reads(log: SessionLog) -> None:
    log.write("one")
    assert log.store.scrub() is True


# -- the end of a session ----------------------------------------------------------------------


def test_audit_rows_of_a_deleted_session_are_not_those_of_the_next(store: GraphStore) -> None:
    old = SessionLog(store, seed=1)
    alive, gone = old.write("alive", "gone")
    take_out(old, gone)
    old.commit([PutAudit(removal(old, alive, kind=AuditKind.CONFIRM, detail=None, removed=None))])
    old.commit([PutAudit(removal(old, alive, kind=AuditKind.SYNONYM, node_id=None, removed=None))])
    counts = counted(
        store.delete_session("s", node_id=NODE, token=old.token, entry=deletion_entry())
    )
    assert "audit_event" not in counts

    new = SessionLog(store, seed=9)
    (again,) = new.write("alive")

    assert new.load().standing == ()
    assert new.load().transitions == ()
    assert store.list_removals("s", before=None, limit=9) == []
    assert store.find_removals("s", "gone") == []
    take_out(new, again)
    (found,) = store.list_removals("s", before=None, limit=9)
    assert found.entry.node_id == again.id


def test_nothing_of_an_unknown_session_is_found(store: GraphStore) -> None:
    assert store.list_removals("nobody", before=None, limit=9) == []
    assert store.find_removals("nobody", "x") == []
    assert store.find_traces("nobody", PurgeText((), "x")) == {}
    assert acquire(store, "nobody", create=False) is None
