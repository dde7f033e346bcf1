"""Twenty agents over simulated weeks, evaluated twice a day, audited by a plain second evaluator.

The auditor keeps its own log of statuses and demotions: it never reads a status from the graph, and
must agree with it after every cycle. Restarts drop everything but the graph and the stored state.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from canon.engine.evaluation_state import read_state
from canon.engine.gate_times import Timeline
from canon.engine.settings import CanonSettings, Policy
from canon_auditor import Auditor, Rules, Step
from canon_team import DAY, HOUR, Team
from memory.engine.snapshot import load_snapshot, take_snapshot
from memory.engine.types import NodeId, Status

AGENTS = tuple(f"agent{number:02}" for number in range(20))
TOPICS = tuple(f"topic{number}" for number in range(6))
DAYS = 36


@dataclass
class Log:
    """What the auditor believes, from its own verdicts alone."""

    statuses: dict[NodeId, Status] = field(default_factory=dict)
    demoted: dict[NodeId, list[int]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, steps: list[Step], now: int) -> None:
        for step in steps:
            self.statuses[step.node_id] = step.to_status
            if step.to_status is Status.NONE:
                self.demoted.setdefault(step.node_id, []).append(now)
            self.counts[step.reason or str(step.to_status)] += 1


def write_hour(team: Team, random: Random, day: int) -> None:
    """What the agents do in an hour: use a topic, revise one, state something, act."""
    agent = random.choice(AGENTS)
    # A topic is used for some days, then its successor is; some go on using the old one.
    topic = random.choice(TOPICS)
    generation = min((day + TOPICS.index(topic)) // 12, 2)
    if random.random() < 0.1 and generation:
        generation -= 1
    current = topic if not generation else f"{topic} revised {'again ' * (generation - 1)}now"
    if team.graph.find_by_content(current) is None:
        before = [one for one in (topic, f"{topic} revised now") if one != current]
        known = [one for one in before if team.graph.find_by_content(one) is not None]
        team.derive(agent, current, against=known[-1:])
    elif random.random() < 0.8:
        team.derive(agent, f"n{team.graph.concept_count}x{day}", on=[current])
    elif random.random() < 0.5:
        team.act(
            agent, f"act{team.graph.concept_count}", depends_on=[current, random.choice(TOPICS)]
        )
    else:
        team.derive(agent, random.choice(TOPICS))


def restart(team: Team) -> None:
    team.graph = load_snapshot(take_snapshot(team.graph))
    team.timeline = Timeline()
    team.state = read_state(json.loads(json.dumps(team.state.as_json())))


def audit(team: Team, log: Log) -> None:
    """One cycle by both, compared step by step."""
    chosen = team.settings
    rules = Rules(
        now=team.now,
        policy=str(chosen.promotion_policy),
        budget=chosen.max_canonical_nodes,
        supersede=chosen.canonization_supersede,
        confirmations=team.confirmations,
        tokens=team.token_created_at,
    )
    by_id = {team.graph.id_at(row): (row * 31 % 17) / 17 for row in team.graph.concept_rows()}
    scores = {team.content(node_id): score for node_id, score in by_id.items()}
    auditor = Auditor(take_snapshot(team.graph), rules, statuses=log.statuses, demoted=log.demoted)
    expected = auditor.cycle(by_id)
    planned = team.plan(scores)
    found = [
        Step(step.node_id, step.to_status, step.blast_radius, step.reason, step.superseded_by)
        for step in (decision.transition for decision in planned.decisions)
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    team.graph.apply_all(planned.mutations)
    team.state = planned.state
    log.note(expected, team.now)
    held = {team.graph.id_at(row): team.graph.status_at(row) for row in team.graph.concept_rows()}
    believed = {one: log.statuses.get(one, Status.NONE) for one in held}
    assert held == believed


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", list(Policy))
def test_every_status_of_every_cycle_is_what_the_auditor_says(policy: Policy, seed: int) -> None:
    random = Random(seed)
    team = Team(
        settings=CanonSettings(
            promotion_policy=policy,
            canonization_supersede=True,
            canonization_eval_batch_size=1_000,
            max_canonical_nodes=5,
        )
    )
    # Some agents come later, and a few never get a token.
    team.token_created_at.update(
        {
            agent: team.now + (place - 12) * DAY * 1_000_000
            for place, agent in enumerate(AGENTS[:17])
        }
    )
    log = Log()
    for day in range(DAYS):
        for half in range(2):
            for _ in range(12):
                write_hour(team, random, day)
                team.wait(random.uniform(0.2, 1.8) * HOUR)
            if random.random() < 0.2:
                restart(team)
            audit(team, log)
            if half and random.random() < 0.5:
                team.wait(10)
                audit(team, log)  # again at once, inside cooldowns
        team.survive(min(day // 2, 9))
        if random.random() < 0.3:
            concept = random.choice(TOPICS)
            if team.graph.find_by_content(concept) is not None:
                name = team.id(concept)
                team.confirmations[name] = team.confirmations.get(name, 0) + 1
        if day == DAYS - 6:
            # The budget is cut: the least load-bearing go.
            team.settings = CanonSettings(
                promotion_policy=policy,
                canonization_supersede=True,
                canonization_eval_batch_size=1_000,
                max_canonical_nodes=1,
            )
    assert {"Candidate", "Venerable", "Canonical", "Superseded", "Budget"} <= log.counts.keys()
