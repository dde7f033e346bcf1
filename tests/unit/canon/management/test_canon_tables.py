"""What the `canon` commands make of what they read; the commands themselves are tested whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from canon.engine.settings import CanonSettings, Policy
from canon.management.dry_run import report_policy
from canon.management.sessions_read import SessionRead, circumstances_of, read_file, read_stored
from canon.management.subcommand import table
from canon_stores import LADDER, START, play_scenario, scenario_snapshot, store_snapshot
from memory.cli.verb import UsageError
from memory.engine.errors import InvalidArgument, SessionNotFound, StoreUnavailable
from memory.engine.mutations import PutAudit
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.times import SECOND
from memory.engine.types import AuditEntry, AuditKind
from memory.engine.wire import snapshot_to_json
from memory.testing import FaultKind, FaultyStore, InMemoryStore

NOW = START + 3_600 * SECOND


@pytest.fixture
def stored() -> SessionRead:
    store = InMemoryStore()
    store_snapshot(store, "demo", scenario_snapshot())
    return read_stored("demo", store)


def test_columns_are_as_wide_as_they_need_and_numbers_stand_to_the_right() -> None:
    assert table(["name", "count"], [["a", 1], ["longer", 100]]).splitlines() == [
        "  name    count",
        "  a           1",
        "  longer    100",
    ]
    assert table(["name"], []) == "  name"


def test_what_was_read_says_how_far_it_goes(stored: SessionRead) -> None:
    assert stored.state.text == (
        "session 'demo' as committed at position 1: 27 concepts, 114 edges, 12 interactions; "
        "the server is not running"
    )
    assert stored.state.latest_write_at == START + 110_000


def test_a_report_names_each_concept_once_with_where_it_ends(stored: SessionRead) -> None:
    before = stored.snapshot
    told = report_policy(stored, CanonSettings(), tokens={}, now=NOW)
    assert {move.content: str(move.to_status) for move in told.moves} == LADDER
    assert [move.content for move in told.moves][:2] == ["user schema", "auth middleware"]
    assert len(told.run.decisions) == 15
    assert stored.snapshot is before
    assert {str(concept.status) for concept in before.concepts} == {"None"}


def test_evidence_that_is_too_young_now_moves_nothing(stored: SessionRead) -> None:
    """The clock of a dry run is that of its start."""
    soon = START + 110_000 + 59 * SECOND
    told = report_policy(stored, CanonSettings(), tokens={}, now=soon)
    assert told.run.failures["Candidate"]["distinct_interactions"] == 27


def test_each_policy_starts_from_the_session_as_it_stands(stored: SessionRead) -> None:
    rules = CanonSettings(promotion_policy=Policy.QUORUM)
    ages = dict.fromkeys(("agent-a", "agent-b"), START - 86_400 * SECOND)
    first = report_policy(stored, rules, tokens=ages, now=NOW)
    report_policy(stored, CanonSettings(), tokens={}, now=NOW)
    again = report_policy(stored, rules, tokens=ages, now=NOW)
    assert first.as_wire()["moves"] == again.as_wire()["moves"]
    without = report_policy(stored, rules, tokens={}, now=NOW)
    assert without.moves == ()


def test_what_people_confirmed_counts_under_solo() -> None:
    graph = play_scenario()
    row = graph.find_by_content("rate limiter")
    assert row is not None
    entry = AuditEntry(
        "cccccccc-0000-7000-8000-000000000001",
        AuditKind.CONFIRM,
        graph.id_at(row),
        None,
        None,
        START,
        "operator",
    )
    graph.apply(PutAudit(entry))
    found = load_snapshot(take_snapshot(graph))
    told = circumstances_of(found, CanonSettings(), now=NOW)
    assert told.confirmations == {graph.id_at(row): 1}


def test_a_snapshot_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    file.write_text(json.dumps(snapshot_to_json(scenario_snapshot())), encoding="utf-8")
    found = read_file(file)
    assert found.snapshot == scenario_snapshot()
    assert (found.state.source, found.state.position, found.state.server) == (str(file), None, None)


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"session_id": 3}', "[" * 100_000])
def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "session.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        read_file(file)


def test_a_session_that_is_not_there_is_refused() -> None:
    store = InMemoryStore()
    with pytest.raises(SessionNotFound):
        read_stored("nobody", store)
    with pytest.raises(InvalidArgument):
        read_stored("a/b", store)


def test_a_store_that_does_not_answer_is_named() -> None:
    store = FaultyStore(InMemoryStore())
    store.fail_next("load_session", FaultKind.TRANSIENT_BEFORE)
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        read_stored("demo", store)
