"""Soft locks: who may take, extend and release them, and the instant at which they end."""

from __future__ import annotations

import pytest

from graph_writing import Scribe
from memory.engine.errors import (
    ConceptNotFound,
    InvalidArgument,
    ReservationConflict,
    ReservationNotFound,
)
from memory.engine.reservations import is_active
from memory.engine.times import SECOND, format_rfc3339
from memory.engine.types import Reservation


def written() -> Scribe:
    scribe = Scribe()
    scribe.derive("alpha")
    return scribe


def test_lock_when_free_then_is_taken_until_now_plus_its_time() -> None:
    scribe = written()
    now, node = scribe.now, scribe.id("alpha")
    epoch = scribe.graph.epoch
    result = scribe.reserve("ALPHA", ttl_seconds=30)
    assert result.reservation == Reservation(node, "agent-a", now + 30 * SECOND)
    assert scribe.graph.reservation(node) == result.reservation
    assert scribe.graph.epoch == epoch + 1
    until = format_rfc3339(now + 30 * SECOND)
    assert result.text == f"reserved {node} until {until} for agent 'agent-a'"


def test_lock_when_taken_again_by_the_same_agent_then_ends_anew() -> None:
    scribe = written()
    scribe.reserve("alpha", ttl_seconds=3600)
    now = scribe.now
    assert scribe.reserve("alpha", ttl_seconds=1).reservation.expires_at == now + SECOND
    assert len(scribe.graph.reservations()) == 1


def test_lock_when_another_holds_it_then_refused_with_holder_and_end() -> None:
    scribe = written()
    until = scribe.reserve("alpha").reservation.expires_at
    scribe.agent_id = "agent-b"
    with scribe.refused(ReservationConflict) as caught:
        scribe.reserve("alpha")
    assert caught.value.fields == {
        "node_id": scribe.id("alpha"),
        "holder": "agent-a",
        "expires_at": format_rfc3339(until),
    }


def test_lock_when_one_microsecond_is_left_then_still_holds() -> None:
    scribe = written()
    scribe.now = scribe.reserve("alpha").reservation.expires_at - 1
    scribe.agent_id = "agent-b"
    with scribe.refused(ReservationConflict):
        scribe.reserve("alpha")


def test_lock_when_exactly_at_its_end_then_is_free() -> None:
    scribe = written()
    scribe.now = scribe.reserve("alpha").reservation.expires_at
    scribe.agent_id = "agent-b"
    assert scribe.reserve("alpha").reservation.agent_id == "agent-b"


@pytest.mark.parametrize(("before", "expected"), [(1, True), (0, False), (-1, False)])
def test_active_when_compared_with_its_end_then_the_end_is_exclusive(
    before: int, expected: bool
) -> None:
    assert is_active(Reservation("n", "a", 100), 100 - before) is expected
    assert is_active(None, 0) is False


def test_release_when_held_then_frees_it() -> None:
    scribe = written()
    scribe.reserve("alpha")
    result = scribe.release("alpha")
    assert result.text == f"released {scribe.id('alpha')}"
    assert scribe.graph.reservations() == []


def test_release_when_there_is_none_then_not_found() -> None:
    scribe = written()
    with scribe.refused(ReservationNotFound):
        scribe.release("alpha")


def test_release_when_another_holds_it_then_refused() -> None:
    scribe = written()
    scribe.reserve("alpha")
    scribe.agent_id = "agent-b"
    with scribe.refused(ReservationConflict) as caught:
        scribe.release("alpha")
    assert caught.value.fields["holder"] == "agent-a"


def test_release_when_expired_then_not_found_for_anybody() -> None:
    scribe = written()
    scribe.now = scribe.reserve("alpha").reservation.expires_at
    for agent_id in ("agent-a", "agent-b"):
        scribe.agent_id = agent_id
        with scribe.refused(ReservationNotFound):
            scribe.release("alpha")


def test_node_when_an_interaction_then_can_be_reserved_by_id() -> None:
    scribe = written()
    interaction = scribe.graph.interactions()[0].id
    assert scribe.reserve(node_id=interaction.upper()).reservation.node_id == interaction


def test_node_when_unknown_then_not_found() -> None:
    scribe = written()
    with scribe.refused(ConceptNotFound):
        scribe.reserve(node_id="00000000-0000-4000-8000-ffffffffffff")
    with scribe.refused(ConceptNotFound):
        scribe.reserve("nowhere")


def test_node_when_not_a_uuid_or_named_twice_or_not_at_all_then_refused() -> None:
    scribe = written()
    node = scribe.id("alpha")
    for arguments in ({"node_id": "alpha"}, {"node_id": node, "concept": "alpha"}, {}):
        with scribe.refused(InvalidArgument, field="node_id"):
            scribe.reserve(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl", [0, -1, 3601, True, 1.5, float("nan")])
def test_time_when_out_of_bounds_or_no_integer_then_refused(ttl: int) -> None:
    scribe = written()
    with scribe.refused(InvalidArgument, field="ttl_seconds"):
        scribe.reserve("alpha", ttl_seconds=ttl)


def test_writes_when_a_concept_is_locked_by_another_then_go_on() -> None:
    scribe = written()
    scribe.reserve("alpha")
    scribe.agent_id = "agent-b"
    assert scribe.derive("alpha").matched == (scribe.id("alpha"),)
