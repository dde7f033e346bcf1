"""What does a round of the daemon cost as a session grows?

In one process, without a server: what the event loop is held for. Each round follows a burst of
writes: derives with citations, and a removal. The baselines are the plainest loops over records
for the two parts that look at everything: the composite score, and hops from the root goal.

`python -m benchmarks.canon_cycle` measures a session of a million concepts as well, which takes
minutes and some 8 GB to make.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import Any, Final

from benchmarks.load_client import percentile
from benchmarks.report import Budget, Report, Row
from benchmarks.sessions import AGENTS, BORN, TYPES
from canon.engine.cycle import CycleState, run_cycle
from canon.engine.garbage import plan_removals, plan_sweep
from canon.engine.scoring import TYPE_MODIFIER, rescore
from canon.engine.survivors import PendingSurvivors
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.mutations import DeleteConcept
from memory.engine.requests import ConceptInput, DeriveRequest
from memory.engine.rules import EDGES
from memory.engine.snapshot import load_snapshot
from memory.engine.times import SECOND
from memory.engine.types import Concept, ConceptType, Edge, EdgeType, Interaction, Snapshot
from memory.testing import SequentialIds

QUESTION: Final = (
    "How long does one round of the daemon hold the loop, in sessions of several sizes?"
)
SIZES: Final = ((6_466, 11_600), (100_000, 500_000))
SIZE_LARGE: Final = (1_000_000, 5_000_000)
SIZES_QUICK: Final = ((60, 110), (200, 900))
ROUNDS: Final = 60
WRITES_PER_ROUND: Final = 10
LINKS: Final = (
    EdgeType.DEPENDENCY,
    EdgeType.DEPENDENCY,
    EdgeType.CAUSAL,
    EdgeType.HIERARCHICAL,
    EdgeType.CO_OCCURRENCE,
)


def run(*, quick: bool) -> Report:
    """Measure every size but the largest."""
    return measure(SIZES_QUICK if quick else SIZES, quick=quick)


def measure(sizes: tuple[tuple[int, int], ...], *, quick: bool) -> Report:
    """Measure sessions of (concepts, edges)."""
    baselines, rows = [], []
    for concepts, edges in sizes:
        session = _Session(concepts, edges)
        baselines += list(_plain(session))
        rows.append(_measure(session, rounds=3 if quick else ROUNDS))
    return Report(
        "canon_cycle",
        QUESTION,
        baselines,
        rows,
        [] if quick else list(_budgets(rows)),
        [
            "`quiet` is a round with nothing written since the last, `busy` one after "
            f"{WRITES_PER_ROUND} derives and a removal. `open` makes the state of a session, "
            "all hops included; a server does that beside its loop. `score` is what a derive waits "
            "for. `count` plans one round of counting survivors."
        ],
    )


class _Session:
    """A made-up session: concepts rest on earlier ones, with a preference for a few pillars."""

    def __init__(self, concepts: int, edges: int) -> None:
        self.random = Random(concepts)
        self.ids = SequentialIds(seed=concepts)
        self.now = BORN + concepts * SECOND
        self.snapshot = self._make(concepts, edges)
        self.graph = load_snapshot(self.snapshot)

    def _make(self, concepts: int, edges: int) -> Snapshot:
        interactions: list[Interaction] = []
        found: list[Concept] = []
        records: list[Edge] = []

        def join(source: str, target: str, kind: EdgeType, now: int, agent: str) -> None:
            weight = EDGES[kind].first_weight
            records.append(
                Edge(self.ids.next_id(), source, target, kind, weight, 1, now, now, agent, agent)
            )

        for number in range(concepts):
            now, agent = BORN + number * SECOND, AGENTS[number // 4 % len(AGENTS)]
            if number % 4 == 0:
                previous = interactions[-1].id if interactions else None
                interactions.append(
                    Interaction(self.ids.next_id(), agent, "made up", previous, now)
                )
                if previous is not None:
                    join(interactions[-1].id, previous, EdgeType.TEMPORAL, now, agent)
            moment = interactions[-1]
            text, kind = f"n{number}", TYPES[number % len(TYPES)]
            found.append(
                Concept(self.ids.next_id(), text, text, kind, moment.id, agent, moment.created_at)
            )
            join(moment.id, found[-1].id, EdgeType.DERIVES, now, agent)
        seen = set()
        while len(records) < edges:
            source = self.random.randrange(1, concepts)
            target = int(source * self.random.random() ** 2)
            link = self.random.choice(LINKS)
            if (source, target, link) not in seen:
                seen.add((source, target, link))
                origin = found[source]
                join(origin.id, found[target].id, link, origin.created_at, origin.origin_agent)
        return Snapshot("made-up", BORN, "n0", tuple(interactions), tuple(found), tuple(records))

    def write(self, state: CycleState) -> list[float]:
        """A second of work; the milliseconds that scoring each derive took."""
        graph, times = self.graph, []
        names = [graph.content_at(self._any_row()) for _ in range(2 * WRITES_PER_ROUND)]
        for number in range(WRITES_PER_ROUND):
            self.now += SECOND // (WRITES_PER_ROUND + 1)
            text = f"n{self.ids.next_id()}"
            concept = ConceptInput(
                text, ConceptType.LOGIC, tuple(names[2 * number : 2 * number + 1])
            )
            request = DeriveRequest(
                (concept, ConceptInput(names[2 * number + 1], ConceptType.LOGIC))
            )
            stamp = Stamp(self.random.choice(AGENTS), self.now, self.ids)
            mutations = plan_derive(graph, request, stamp, co_occurrence_max=10).mutations
            graph.apply_all(mutations)
            start = perf_counter()
            state.score_written(graph, mutations)
            times.append(1_000 * (perf_counter() - start))
        loser = self._any_row()
        while graph.concepts["dependents"][loser]:
            loser = self._any_row()
        graph.apply(DeleteConcept(graph.id_at(loser)))
        self.now += SECOND // (WRITES_PER_ROUND + 1)
        return times

    def _any_row(self) -> int:
        while True:
            row = self.random.randrange(1, self.graph.concepts.used)
            if self.graph.concepts.live[row]:
                return row


def _measure(session: _Session, *, rounds: int) -> Row:
    graph = session.graph
    gc.freeze()  # as a server does with a session it has loaded
    start = perf_counter()
    state = CycleState(graph)
    state.catch_up(graph, session.now, ends_max=None)
    open_ms = 1_000 * (perf_counter() - start)
    concepts, edges = graph.concept_count, graph.edge_count
    scoring = [_timed(lambda: rescore(graph)) for _ in range(rounds)]
    quiet, busy, score = [], [], []
    for _ in range(rounds):
        score += session.write(state)
        busy.append(_timed(lambda: run_cycle(state, graph, session.now)))
        quiet.append(_timed(lambda: run_cycle(state, graph, session.now)))
    sweeping = [_timed(lambda: plan_sweep(graph, session.now)) for _ in range(max(3, rounds // 6))]
    sweep = plan_sweep(graph, session.now)
    removing = _timed(lambda: plan_removals(graph, sweep, ids=session.ids, now=session.now))
    pending = PendingSurvivors(sweep.survivors)
    counting = _timed(lambda: pending.plan_round(graph))
    return {
        "concepts": concepts,
        "edges": edges,
        "rescore_p50_ms": percentile(sorted(scoring), 0.5),
        "quiet_p50_ms": percentile(sorted(quiet), 0.5),
        "busy_p50_ms": percentile(sorted(busy), 0.5),
        "busy_p95_ms": percentile(sorted(busy), 0.95),
        "busy_max_ms": max(busy),
        "score_p95_ms": percentile(sorted(score), 0.95),
        "sweep_p50_ms": percentile(sorted(sweeping), 0.5),
        "removals_ms": removing,
        "count_ms": counting,
        "open_ms": open_ms,
    }


def _timed(step: Callable[[], Any]) -> float:
    start = perf_counter()
    step()
    return 1_000 * (perf_counter() - start)


def _budgets(rows: list[Row]) -> Iterator[Budget]:
    small = rows[0]
    yield Budget("full rescore of 6,466 concepts in ms", small["rescore_p50_ms"], 0.5)
    yield Budget("round at 6,466 concepts, busy, in ms", small["busy_p50_ms"], 2)
    yield Budget("sweep of 6,466 concepts in ms", small["sweep_p50_ms"], 5)
    for row, limit in zip(rows[1:], (20, 150), strict=False):
        yield Budget(f"round at {row['concepts']} concepts, busy, in ms", row["busy_p50_ms"], limit)


# -- the plainest thing ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Plain:
    """A session as dictionaries, as a first version would keep it."""

    degree: Counter[str]
    derived: Counter[str]
    bonus: Counter[str]
    neighbours: dict[str, list[str]]


def _plain(session: _Session) -> Iterator[Row]:
    snapshot = session.snapshot
    plain = _Plain(Counter(), Counter(), Counter(), defaultdict(list))
    for edge in snapshot.edges:
        for end in (edge.source, edge.target):
            plain.degree[end] += 1
            plain.bonus[end] += EDGES[edge.edge_type].bonus_milli
        if edge.edge_type is EdgeType.DERIVES:
            plain.derived[edge.target] += 1
        elif edge.edge_type is not EdgeType.CO_OCCURRENCE:
            plain.neighbours[edge.source].append(edge.target)
            plain.neighbours[edge.target].append(edge.source)
    size = {"concepts": len(snapshot.concepts), "edges": len(snapshot.edges)}
    yield {
        "what": "score of every record from ready counters, one by one",
        **size,
        "ms": _timed(lambda: _plain_scores(snapshot, plain)),
    }
    goal = snapshot.concepts[0].id
    yield {
        "what": "hops from the goal by breadth-first search over dicts",
        **size,
        "ms": _timed(lambda: _plain_hops(goal, plain)),
    }


def _plain_scores(snapshot: Snapshot, plain: _Plain) -> dict[str, float]:
    start, end = snapshot.interactions[0].created_at, snapshot.interactions[-1].created_at
    span = max(end - start, 600 * SECOND)
    most, densest = max(plain.derived.values()), max(plain.degree.values())
    return {
        one.id: min(
            1.4,
            max(
                0.0,
                0.25 * (1 - (end - one.created_at) / span)
                + 0.20 * min(one.access_count / 10, 1)
                + 0.20 * plain.derived[one.id] / most
                + 0.35 * plain.degree[one.id] / densest
                + min(0.25, plain.bonus[one.id] / 1_000)
                + TYPE_MODIFIER[one.concept_type],
            ),
        )
        for one in snapshot.concepts
    }


def _plain_hops(goal: str, plain: _Plain) -> dict[str, int]:
    hops, waiting = {goal: 0}, deque([goal])
    while waiting:
        node = waiting.popleft()
        for near in plain.neighbours[node]:
            if near not in hops:
                hops[near] = hops[node] + 1
                waiting.append(near)
    return hops


if __name__ == "__main__":
    print(measure((*SIZES, SIZE_LARGE), quick=False).as_markdown())
