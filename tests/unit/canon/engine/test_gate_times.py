"""Which instant dates a write, told or not, allowed or not."""

from __future__ import annotations

import numpy as np
import pytest

from canon.engine.gate_times import (
    Timeline,
    claimed_time,
    edge_claimed_times,
    edge_gate_times,
    gate_time,
)
from canon_team import DAY, START, Team
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.times import SECOND, Micros
from memory.engine.types import Interaction


@pytest.mark.parametrize(
    ("event_time", "is_backdated", "gate", "claimed"),
    [
        (None, False, 100, 100),
        (None, True, 100, 100),
        (7, False, 100, 100),
        (900, False, 100, 100),
        (7, True, 7, 7),
        (900, True, 900, 100),
    ],
)
def test_a_told_time_dates_evidence_only_where_that_was_allowed(
    event_time: Micros | None, is_backdated: bool, gate: Micros, claimed: Micros
) -> None:
    moment = Interaction("id", "ann", None, None, 100, event_time, is_backdated)
    assert (gate_time(moment), claimed_time(moment)) == (gate, claimed)


@pytest.mark.parametrize("is_backdated", [False, True])
def test_edges_are_dated_as_the_write_that_made_them(is_backdated: bool) -> None:
    team = Team()
    team.derive("ann", "pillar")
    for days in (-9, 9):
        told = team.now + days * DAY * SECOND
        team.derive("ben", f"use{days}", on=["pillar"], event_time=told, is_backdated=is_backdated)
    graph = team.graph
    edges = np.array(graph.concepts.arriving[team.row("pillar")][1:])
    moments = graph.interactions()[1:]
    assert edge_gate_times(graph, edges).tolist() == [gate_time(moment) for moment in moments]
    assert edge_claimed_times(graph, edges).tolist() == [claimed_time(one) for one in moments]


def test_a_timeline_follows_its_chain_and_reads_another_from_the_start() -> None:
    team = Team()
    timeline = Timeline()
    assert timeline.follow(team.graph)
    assert timeline.extent == 0
    for n in range(150):
        team.derive("ann", f"c{n}")
        if n % 40 == 0:
            assert timeline.follow(team.graph)
    assert not timeline.follow(team.graph, limit=10)
    assert timeline.follow(team.graph)
    written = [moment.created_at for moment in team.graph.interactions()]
    assert timeline.written.tolist() == timeline.gate.tolist() == written
    assert timeline.extent == 149 * SECOND

    told = START - DAY * SECOND
    team.derive("ann", "import", event_time=told, is_backdated=True)
    timeline.follow(team.graph)
    assert timeline.extent == 149 * SECOND + DAY * SECOND
    assert int(timeline.gate[-1]) == told

    other = load_snapshot(take_snapshot(team.graph))
    shorter = Team()
    shorter.derive("ann", "alone")
    for graph in (shorter.graph, other):
        timeline.follow(graph)
        assert timeline.written.tolist() == [one.created_at for one in graph.interactions()]
