"""Which gates stand before which status, by policy.

*Swarm* asks for interactions of any agent, spread over time, then for many dependents. *Solo* asks
for a score made of repetition over days and human confirmation, and from Venerable on for Swarm's
evidence too. *Quorum* is Swarm with the evidence of agents other than the author, see `quorum`.

Confirmations by humans count under Solo alone. Under Swarm and Quorum they are kept and shown, and
move nothing: there, importance is earned from structure and never declared.

Invariant: a verdict is the conjunction of its checks, and more evidence never fails a check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from canon.engine import gates
from canon.engine.gates import Check
from canon.engine.measurements import Circumstances, Measurements
from canon.engine.settings import Policy
from canon.engine.solo import BANDS
from memory.engine.types import Status

NEXT_STATUS: Final = {
    Status.NONE: Status.CANDIDATE,
    Status.CANDIDATE: Status.VENERABLE,
    Status.VENERABLE: Status.CANONICAL,
}
"""One hop at a time; nothing is above Canonical."""


def next_status(status: Status) -> Status | None:
    return NEXT_STATUS.get(status)


def check_hop(measured: Measurements, circumstances: Circumstances) -> tuple[Check, ...]:
    """The gates of the concept's next hop that its own measurements decide; none for a Canonical.

    The last hop has two more, the budget and the hold, which depend on the rest of the session.
    """
    match measured.status:
        case Status.NONE:
            return _check_candidate(measured, circumstances)
        case Status.CANDIDATE:
            return _check_venerable(measured, circumstances)
        case Status.VENERABLE:
            return _check_canonical(measured, circumstances)
        case Status.CANONICAL:
            return ()


def is_passed(checks: Iterable[Check]) -> bool:
    return all(check.is_met for check in checks)


def _check_candidate(measured: Measurements, circumstances: Circumstances) -> tuple[Check, ...]:
    if circumstances.policy is Policy.SOLO:
        return (_check_band(measured, Status.CANDIDATE),)
    checks = (
        gates.check_gc_survived(measured.gc_survived),
        gates.check_distinct(measured.distinct, gates.CANDIDATE_DISTINCT),
    )
    if circumstances.policy is Policy.QUORUM:
        reciprocal = measured.lone_agent if measured.is_reciprocal else None
        agents = gates.check_agents(
            measured.agent_count, gates.CANDIDATE_AGENTS, reciprocal=reciprocal
        )
        return (*checks, agents)
    return checks


def _check_venerable(measured: Measurements, circumstances: Circumstances) -> tuple[Check, ...]:
    checks = _check_spread(measured, circumstances)
    if circumstances.policy is Policy.SOLO:
        return (_check_band(measured, Status.VENERABLE), *checks)
    return checks


def _check_canonical(measured: Measurements, circumstances: Circumstances) -> tuple[Check, ...]:
    cooldown = circumstances.settings.repromotion_cooldown
    checks = (
        gates.check_cooldown(measured.last_demotion_time, cooldown, circumstances.now),
        *_check_spread(measured, circumstances),
        gates.check_radius(measured.blast_radius),
    )
    if circumstances.policy is Policy.SOLO:
        return (_check_band(measured, Status.CANONICAL), *checks)
    return checks


def _check_spread(measured: Measurements, circumstances: Circumstances) -> tuple[Check, ...]:
    """What Venerable asks for, and Canonical again."""
    checks = (
        gates.check_distinct(measured.distinct, gates.VENERABLE_DISTINCT),
        gates.check_coverage(measured.coverage),
    )
    if circumstances.policy is Policy.QUORUM:
        agents = gates.check_agents(measured.agent_count, gates.VENERABLE_AGENTS, reciprocal=None)
        return (*checks, agents)
    return checks


def _check_band(measured: Measurements, status: Status) -> Check:
    return gates.check_solo_score(measured.solo_score, BANDS[status])
