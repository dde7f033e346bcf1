"""Evaluating and collecting in an open session: group by group, each settled before the next.

Owns the order of such a run: what is decided is queued in the same synchronous step, so no verdict
is applied to a graph it was not made on. Decides neither what is found nor when a run is due.

Invariant: nothing is planned while the session would not take it, so what a plan has counted as
done is always in the log.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from memory.engine.disappearance import removed_edge_ids
from memory.engine.events import EventKind, Notice
from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    Mutation,
    PutAudit,
    PutConcept,
)
from memory.engine.ports import Clock, IdSource
from memory.engine.types import Status
from memory.service.committer import Outcome
from memory.service.cycles import Tokens

if TYPE_CHECKING:
    from memory.service.memory import Memory

Counts: TypeAlias = Mapping[str, int]

PACE: Final = 10
REST_SECONDS_MAX: Final = 0.5
"""A session that is to be put away waits for its sweep to notice."""

_STOOD_STILL: Final[Counts] = {}


async def evaluate(
    memory: Memory, *, clock: Clock, ids: IdSource, tokens: Tokens, is_forced: bool = False
) -> Counts:
    """Promote and demote what the evidence says, if an evaluation is needed or forced."""
    async with memory.cycle_turn:
        graph, cycles = memory.graph, memory.cycles
        if cycles is None or not memory.takes_cycles():
            return _STOOD_STILL
        now = clock.now()
        if not is_forced and not cycles.needs_evaluation(now):
            return _STOOD_STILL
        began_at = clock.monotonic()
        steps = cycles.evaluate(graph, now, ids=ids, tokens=tokens)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                mutations: tuple[Mutation, ...] = done.value
                break
            await sleep(0)
            if memory.graph is not graph or not memory.takes_cycles():
                return _STOOD_STILL
        counts = {"evaluated": 1, **_steps(mutations)}
        outcome = memory.queue(mutations, [_did("evaluation", counts)])
        await asyncio.wait([outcome])
        memory.measures.cycle_ran("evaluate", clock.monotonic() - began_at)
        if outcome.result() is not Outcome.COMMITTED:
            return _STOOD_STILL  # nothing of it is kept
        return counts


async def collect(
    memory: Memory,
    *,
    clock: Clock,
    ids: IdSource,
    is_forced: bool = False,
    is_paced: bool = False,
) -> Counts:
    """Sweep, if that is due or forced, and count the survivors.

    A large session's sweep is hundreds of groups. Paced, it rests between them for as long as keeps
    its share of the event loop at one in `PACE`, so that those who write meanwhile hardly notice.
    """
    async with memory.cycle_turn:
        graph, cycles = memory.graph, memory.cycles
        if cycles is None or not memory.takes_cycles():
            return _STOOD_STILL
        counts: Counter[str] = Counter()
        swept_from, has_begun = clock.monotonic(), False
        steps = cycles.collect(graph, clock.now(), ids=ids, is_forced=is_forced)
        # What a step has planned counts as done to the next: ask only where it can be queued.
        while memory.graph is graph and memory.takes_cycles():
            began = clock.monotonic()
            mutations = next(steps, None)
            if mutations is None:
                break
            has_begun = True
            removed = _removals(mutations)
            notices = [_did("sweep", removed)] if any(removed.values()) else []
            outcome = memory.queue(mutations, notices) if mutations else None
            rest_seconds = (clock.monotonic() - began) * (PACE - 1) if is_paced else 0.0
            if outcome is not None:
                await asyncio.wait([outcome])
                if outcome.result() is Outcome.COMMITTED:
                    counts.update(removed)
            await sleep(min(rest_seconds, REST_SECONDS_MAX))
        if has_begun:
            memory.measures.cycle_ran("collect", clock.monotonic() - swept_from)
        return counts


def _did(work: str, counts: Counts) -> Notice:
    return Notice(EventKind.CYCLE, {"work": work, **counts})


def _steps(mutations: Sequence[Mutation]) -> Counts:
    steps = [one.transition for one in mutations if isinstance(one, ApplyTransition)]
    demoted = sum(step.to_status is Status.NONE for step in steps)
    return {"promoted": len(steps) - demoted, "demoted": demoted}


def _removals(mutations: Sequence[Mutation]) -> Counts:
    kinds = Counter(type(mutation) for mutation in mutations)
    entries = [one.entry for one in mutations if isinstance(one, PutAudit)]
    # An edge between two that go is in the rows of both.
    with_concepts = {edge for entry in entries for edge in removed_edge_ids(entry.removed)}
    return {
        "concepts_collected": kinds[DeleteConcept],
        "edges_removed": kinds[DeleteEdge] + len(with_concepts),
        "survivors_counted": kinds[PutConcept],
    }
