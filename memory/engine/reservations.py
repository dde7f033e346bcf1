"""Advisory soft locks: they are shown and never enforced, and live as long as their expiry says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.engine.draft import Plan
from memory.engine.errors import ConceptNotFound, ReservationConflict, ReservationNotFound
from memory.engine.graph import Graph
from memory.engine.mutations import DeleteReservation, PutReservation
from memory.engine.requests import ReleaseRequest, ReserveRequest, parse_node_id
from memory.engine.retract import find_concept
from memory.engine.times import SECOND, Micros, format_rfc3339
from memory.engine.types import NodeId, Reservation

ADVISORY = "reservations are advisory: recall shows them, nothing enforces them"


@dataclass(frozen=True, slots=True)
class ReserveResult:
    """A lock taken or extended."""

    reservation: Reservation

    @property
    def text(self) -> str:
        held = self.reservation
        until = format_rfc3339(held.expires_at)
        return f"reserved {held.node_id} until {until} for agent '{held.agent_id}'"

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "node_id": self.reservation.node_id,
            "agent_id": self.reservation.agent_id,
            "expires_at": format_rfc3339(self.reservation.expires_at),
            "released": False,
            "warnings": [ADVISORY],
        }


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """A lock given back."""

    node_id: NodeId

    @property
    def text(self) -> str:
        return f"released {self.node_id}"

    def as_wire(self) -> dict[str, Any]:
        return {"summary": self.text, "node_id": self.node_id, "released": True, "warnings": []}


def is_active(reservation: Reservation | None, now: Micros) -> bool:
    """Whether a lock holds at `now`; at its expiry it no longer does."""
    return reservation is not None and now < reservation.expires_at


def plan_reserve(
    graph: Graph, request: ReserveRequest, *, agent_id: str, now: Micros
) -> Plan[ReserveResult]:
    """Take or extend a lock; raises `ReservationConflict` while another agent's is live."""
    node_id = _target(graph, request.node_id, request.concept)
    held = graph.reservation(node_id)
    if held is not None and is_active(held, now) and held.agent_id != agent_id:
        until = format_rfc3339(held.expires_at)
        raise ReservationConflict(
            f"{node_id} is reserved by '{held.agent_id}' until {until}",
            node_id=node_id,
            holder=held.agent_id,
            expires_at=until,
        )
    taken = Reservation(node_id, agent_id, now + request.ttl_seconds * SECOND)
    return Plan((PutReservation(taken),), ReserveResult(taken))


def plan_release(
    graph: Graph, request: ReleaseRequest, *, agent_id: str, now: Micros
) -> Plan[ReleaseResult]:
    """Give a lock back; raises `ReservationNotFound`, or `ReservationConflict` for another's."""
    node_id = _target(graph, request.node_id, request.concept)
    held = graph.reservation(node_id)
    if held is None or not is_active(held, now):
        raise ReservationNotFound(f"{node_id} is not reserved", node_id=node_id)
    if held.agent_id != agent_id:
        raise ReservationConflict(
            f"{node_id} is reserved by '{held.agent_id}', not by '{agent_id}'",
            node_id=node_id,
            holder=held.agent_id,
            expires_at=format_rfc3339(held.expires_at),
        )
    return Plan((DeleteReservation(node_id),), ReleaseResult(node_id))


def _target(graph: Graph, node_id: str | None, concept: str | None) -> NodeId:
    if node_id is None:
        assert concept is not None
        return graph.id_at(find_concept(graph, concept))
    wanted = parse_node_id("node_id", node_id)
    if not graph.has_node(wanted):
        raise ConceptNotFound(f"no node {wanted} in this session", node_id=wanted)
    return wanted
