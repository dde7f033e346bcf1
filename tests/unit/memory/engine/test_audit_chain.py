"""The links of a chain are the published ones, and no change of a row goes unseen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.engine.audit_chain import (
    AuditChain,
    AuditColumns,
    ChainHead,
    StoredChain,
    chain_start,
    columns_of_entry,
    columns_of_transition,
    frames,
    key_fingerprint,
    make_link,
)
from memory.engine.audit_verification import (
    AuditFacts,
    ChainAct,
    ChainFault,
    FaultKind,
    SessionVerifier,
    StoredAuditRow,
)
from memory.engine.mutations import ApplyTransition, Mutation, PutAudit, PutSynonym
from memory.engine.types import AuditEntry, AuditKind, Status, Transition
from memory.store.codecs import json_text
from plain_audit_chain import plain_digests, plain_hmac, plain_link, plain_start

KEY = b"0123456789abcdef0123456789abcdef"
START = 1_700_000_000_000_000


def name(number: int) -> str:
    return f"aaaaaaaa-0000-7000-8000-{number:012x}"


def entry(number: int, **columns: Any) -> AuditEntry:
    made = AuditEntry(
        id=name(number),
        kind=AuditKind.RETRACT,
        node_id=name(900 + number),
        from_status=Status.CANDIDATE,
        to_status=None,
        occurred_at=START + number,
        actor="olga",
        reason="füür ⏎ reasons",
        detail={"edges": 2, "weights": [0.1, 1e-9]},
        texts={"before": ["a"], "after": None},
        removed={"concept": {"content": "the old login flow"}, "names": {}},
    )
    return made._replace(**columns)


def step(number: int) -> Transition:
    return Transition(
        id=name(number),
        node_id=name(901),
        from_status=Status.VENERABLE,
        to_status=Status.CANONICAL,
        blast_radius=6,
        last_demotion_time=None,
        occurred_at=START + number,
        actor="evaluator",
    )


def rows_of(*mutations: Mutation, older: int = 0) -> list[StoredAuditRow]:
    """What a store holds after these."""
    chain = AuditChain.after(KEY, "shop", StoredChain(None, older))
    rows = []
    for mutation in chain.link(mutations):
        if isinstance(mutation, PutAudit):
            columns, link = columns_of_entry(mutation.entry), mutation.link
        else:
            assert isinstance(mutation, ApplyTransition)
            columns = columns_of_transition(mutation.transition, mutation.detail)
            link = mutation.link
        assert link is not None
        rows.append(StoredAuditRow(columns, link.sequence, link.digests, link.hash, None))
    return rows


def first_fault(
    rows: list[StoredAuditRow],
    *,
    facts: AuditFacts | None = None,
    anchors: dict[int, str] | None = None,
    key: bytes = KEY,
    session: str = "shop",
) -> ChainFault | None:
    verifier = SessionVerifier(key, session, facts or AuditFacts(0), anchors or {})
    for row in rows:
        fault = verifier.check(row)
        if fault is not None:
            return fault
    return verifier.finish()


TRAIL = (
    PutAudit(entry(1)),
    ApplyTransition(step(2), {"policy": "swarm", "checks": []}),
    PutAudit(entry(3, reason=None, texts=None, removed=None, detail=None)),
    PutAudit(entry(4, node_id=None, from_status=None)),
)


def test_hmac_of_the_reference_is_the_published_one() -> None:
    """RFC 4231, test case 2: else the second implementation proves nothing."""
    assert plain_hmac(b"Jefe", b"what do ya want for nothing?").hex() == (
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


@pytest.mark.parametrize("older", [0, 3])
def test_links_are_those_of_a_second_plain_implementation(older: int) -> None:
    previous = plain_start(KEY, "shop", older)
    assert chain_start(KEY, "shop", older) == ChainHead(0, previous)
    for sequence, row in enumerate(rows_of(*TRAIL, older=older), start=1):
        columns = {**row.columns._asdict()}
        columns["digests"] = plain_digests(KEY, columns)
        assert row.digests == columns["digests"]
        previous = plain_link(KEY, "shop", previous, sequence, columns)
        assert (row.sequence, row.link_hash) == (sequence, previous)


def test_links_never_change_between_versions() -> None:
    """Written down: a database of today must be proven by every later version."""
    assert [row.link_hash for row in rows_of(*TRAIL)] == VECTORS
    assert key_fingerprint(KEY) == FINGERPRINT


VECTORS = [
    "5c70fac727540f9118e639e4c370defac1021aa644cc3dd659bbd2fe0d5cd454",
    "2413c4370714123227c67ed7916c58787dc97352a1e8770dc571a1b11d2ce659",
    "4b6bcc40febabdad4b3f46bd2797ea4671934d8988e484049e641516211d643e",
    "a1b7589ddf779e2ba8fc8d673f7054fc942e573a896b9b33944c9e38b88337b0",
]
FINGERPRINT = "fae7ca221c910beacdc2b0db619ec821f28d612815a43cc6ada53c3856b48342"


def test_a_chain_goes_on_from_what_is_stored() -> None:
    whole = rows_of(*TRAIL)
    head = ChainHead(whole[1].sequence, whole[1].link_hash)
    chain = AuditChain.after(KEY, "shop", StoredChain(head, 7))
    put, other, last = chain.link((TRAIL[2], PutSynonym("a", "b"), TRAIL[3]))
    assert isinstance(put, PutAudit)
    assert isinstance(last, PutAudit)
    assert put.link is not None
    assert last.link is not None
    assert other == PutSynonym("a", "b")
    assert [put.link.hash, last.link.hash] == [row.link_hash for row in whole[2:]]
    assert chain.head == ChainHead(4, whole[3].link_hash)
    assert chain.committed == head


def test_a_group_without_audit_rows_leaves_the_chain_where_it_is() -> None:
    chain = AuditChain.after(KEY, "shop", StoredChain())
    mutations = (PutSynonym("a", "b"),)
    assert chain.link(mutations) is mutations
    assert chain.head.sequence == 0


def test_the_key_stays_out_of_what_is_printed() -> None:
    assert KEY.decode() not in repr(AuditChain.after(KEY, "shop", StoredChain()))


texts = st.none() | st.text(max_size=20)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
values = st.lists(texts | numbers, max_size=6)


@given(values, values)
def test_no_two_lists_of_values_are_framed_alike(one: list[Any], other: list[Any]) -> None:
    assert (frames(one) == frames(other)) == (one == other)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(json_values.filter(lambda value: value is not None))
def test_json_is_sealed_as_stores_write_it(value: Any) -> None:
    assert columns_of_entry(entry(1, detail=value)).detail == json_text(value)


entries = st.builds(
    lambda number, actor, reason, detail, texts: entry(
        number, actor=actor, reason=reason, detail=detail, texts=texts
    ),
    st.integers(0, 10**6),
    st.text(max_size=10),
    texts,
    json_values,
    json_values,
)
COLUMNS = [*AuditColumns._fields, "sequence", "digests", "link_hash", "session_deleted_at"]


def changed(value: Any, bit: int) -> Any:
    """The value with one bit flipped; what is null becomes something."""
    if value is None:
        return "x" if bit % 2 else bit
    if isinstance(value, int):
        return value ^ (1 << bit % 50)
    data = bytearray(value.encode("utf-32-le"))
    if not data:
        return "\0"
    data[bit // 4 % (len(data) // 4) * 4] ^= 1 << bit % 4
    return data.decode("utf-32-le", "surrogatepass")


@given(
    st.lists(entries, min_size=1, max_size=5),
    st.data(),
    st.sampled_from(COLUMNS),
    st.integers(0, 10**6),
)
def test_any_single_bit_that_was_changed_is_found(
    acts: list[AuditEntry], data: st.DataObject, column: str, bit: int
) -> None:
    rows = rows_of(*(PutAudit(act) for act in acts))
    assert first_fault(rows) is None
    at = data.draw(st.integers(0, len(rows) - 1))
    row = rows[at]
    if column in AuditColumns._fields:
        value = changed(getattr(row.columns, column), bit)
        rows[at] = row._replace(columns=row.columns._replace(**{column: value}))
    else:
        rows[at] = row._replace(**{column: changed(getattr(row, column), bit)})
    fault = first_fault(rows)
    assert fault is not None
    assert fault.sequence == at + 1 or column == "sequence"


def test_a_row_that_is_missing_is_named_by_its_place() -> None:
    rows = rows_of(*TRAIL)
    fault = first_fault([rows[0], *rows[2:]])
    assert fault is not None
    assert fault[:4] == ("shop", 2, None, FaultKind.MISSING)
    fault = first_fault([rows[0], rows[3]])
    assert fault is not None
    assert "rows 2 to 3 are missing" in fault.sentence


def test_two_rows_that_changed_places_are_found() -> None:
    one, two, *rest = rows_of(*TRAIL)
    rows = [two._replace(sequence=1), one._replace(sequence=2), *rest]
    fault = first_fault(rows)
    assert fault is not None
    assert fault[1:4] == (1, name(2), FaultKind.CHANGED)


def test_a_row_put_in_beside_another_is_found() -> None:
    rows = rows_of(*TRAIL)
    forged = rows[1]._replace(columns=columns_of_entry(entry(77)))
    fault = first_fault([*rows[:2], forged, *rows[2:]])
    assert fault is not None
    assert fault[1:4] == (2, name(77), FaultKind.OUT_OF_ORDER)


def test_rows_made_with_another_key_or_for_another_name_do_not_fit() -> None:
    rows = rows_of(*TRAIL)
    for fault in (first_fault(rows, key=b"x" * 32), first_fault(rows, session="shop2")):
        assert fault is not None
        assert fault[1:4] == (1, name(1), FaultKind.CHANGED)


def test_rows_missing_at_the_end_are_told_by_anchors_alone() -> None:
    rows = rows_of(*TRAIL)
    anchors = {2: rows[1].link_hash, 4: rows[3].link_hash}
    assert first_fault(rows, anchors=anchors) is None
    assert first_fault(rows[:3]) is None
    fault = first_fault(rows[:3], anchors=anchors)
    assert fault is not None
    assert fault[1:4] == (4, None, FaultKind.MISSING)


def test_a_chain_made_anew_with_the_key_contradicts_its_anchors() -> None:
    rows = rows_of(*TRAIL)
    lie = rows_of(TRAIL[0], PutAudit(entry(2, actor="nobody")), *TRAIL[2:])
    assert first_fault(lie) is None
    fault = first_fault(lie, anchors={3: rows[2].link_hash})
    assert fault is not None
    assert fault[1:4] == (3, name(3), FaultKind.ANCHOR)


def test_rows_older_than_the_chain_are_counted_by_its_first_link() -> None:
    rows = rows_of(*TRAIL, older=5)
    assert first_fault(rows, facts=AuditFacts(5)) is None
    for count in (4, 6):
        fault = first_fault(rows, facts=AuditFacts(count))
        assert fault is not None
        assert fault[1:4] == (1, name(1), FaultKind.UNCHAINED)
        assert f"over 5 rows without a link, and there are {count}" in fault.sentence


def purge_of(sequence: int, ranges: list[list[int]], seen: int) -> AuditFacts:
    return AuditFacts(0, (ChainAct(sequence, AuditKind.PURGE, {"blanked": ranges, "seen": seen}),))


def blanked(row: StoredAuditRow, **columns: Any) -> StoredAuditRow:
    return row._replace(columns=row.columns._replace(**columns))


def test_a_blanked_text_needs_a_later_purge_that_names_its_row() -> None:
    rows = rows_of(*TRAIL)
    rows[0] = blanked(rows[0], texts=None, removed=None)
    assert first_fault(rows, facts=purge_of(4, [[1, 1]], 3)) is None
    assert first_fault(rows, facts=purge_of(4, [], 0)) is None  # it had not seen the row
    for facts in (AuditFacts(0), purge_of(4, [[2, 3]], 3), purge_of(1, [[1, 1]], 0)):
        fault = first_fault(rows, facts=facts)
        assert fault is not None
        assert fault[1:4] == (1, name(1), FaultKind.BLANKED)


@pytest.mark.parametrize("detail", [None, "x", [], {"blanked": [[1]], "seen": 9}, {"blanked": 3}])
def test_a_purge_that_was_made_up_excuses_nothing(detail: Any) -> None:
    rows = rows_of(*TRAIL)
    rows[0] = blanked(rows[0], reason=None)
    facts = AuditFacts(0, (ChainAct(4, AuditKind.PURGE, detail),))
    fault = first_fault(rows, facts=facts)
    assert fault is not None
    assert fault.kind is FaultKind.BLANKED


def test_a_text_in_part_blanked_needs_its_purge_and_its_mark() -> None:
    rows = rows_of(*TRAIL)
    told = json_text({"before": ["[purged]"], "after": None})
    rows[0] = blanked(rows[0], texts=told)
    assert first_fault(rows, facts=purge_of(4, [[1, 2]], 3)) is None
    for text, facts in (
        (told, AuditFacts(0)),
        (json_text({"before": ["lies"], "after": None}), purge_of(4, [[1, 2]], 3)),
    ):
        fault = first_fault([blanked(rows[0], texts=text), *rows[1:]], facts=facts)
        assert fault is not None
        assert fault[1:4] == (1, name(1), FaultKind.TEXT_CHANGED)


def test_rows_of_a_deleted_session_hold_with_its_mark_and_without_texts() -> None:
    last = entry(
        5, kind=AuditKind.SESSION_DELETE, detail={"deleted_at": 99}, texts=None, removed=None
    )
    rows = rows_of(*TRAIL, PutAudit(last), PutAudit(entry(6)))
    deletion = ChainAct(5, AuditKind.SESSION_DELETE, json.loads(rows[4].columns.detail))
    facts = AuditFacts(0, (deletion,))
    gone = [
        blanked(row, texts=None, removed=None)._replace(session_deleted_at=99) for row in rows[:5]
    ]
    assert first_fault([*gone, rows[5]], facts=facts) is None
    assert first_fault([*gone[:3], *rows[3:]], facts=facts._replace(is_being_deleted=True)) is None
    for wrong, row, kind in (
        ([*gone[:4], rows[4], rows[5]], 5, FaultKind.MARKED),
        ([*gone, rows[5]._replace(session_deleted_at=99)], 6, FaultKind.MARKED),
        ([gone[0]._replace(session_deleted_at=98), *gone[1:], rows[5]], 1, FaultKind.MARKED),
        ([blanked(gone[0], reason=None), *gone[1:], rows[5]], 1, FaultKind.BLANKED),
        ([*gone, blanked(rows[5], removed=None)], 6, FaultKind.BLANKED),
    ):
        fault = first_fault(wrong, facts=facts)
        assert fault is not None
        assert (fault.sequence, fault.kind) == (row, kind)


def test_a_column_of_a_kind_that_none_has_is_a_fault_and_no_crash() -> None:
    for wrong in (1.5, b"\xff", True):
        rows = rows_of(*TRAIL)
        rows[1] = blanked(rows[1], actor=wrong)
        fault = first_fault(rows)
        assert fault is not None
        assert fault[1:4] == (2, name(2), FaultKind.CHANGED)
    rows[1] = rows_of(*TRAIL)[1]._replace(sequence="2")
    fault = first_fault(rows)
    assert fault is not None
    assert fault.kind is FaultKind.CHANGED


def test_a_link_is_made_though_the_store_will_refuse_the_row() -> None:
    """Half a letter once: the refusal, with its dead letter, is the store's."""
    columns = columns_of_entry(entry(1, reason="\ud800", detail={"n": float("nan")}))
    link = make_link(KEY, "shop", chain_start(KEY, "shop", 0), columns)
    assert link.sequence == 1
