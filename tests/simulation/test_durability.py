"""Nothing acknowledged is lost, and nothing lands twice, whatever fails and whenever.

Each seed is a run of two servers on one store with kills, pauses, broken connections, statements
that arrive late, refused data, and clients that retry under their keys, now at one server, now at
the other. `make simulate SEEDS=10000` plays more of them. The mutation tests switch off one rule
each and expect the auditor to notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from durability_auditor import find_faults, find_lies
from memory.engine.ports import Lease, LeaseRefused, SessionBatch, StoreRejected
from memory.service import host as host_module
from memory.service.committer import Committer, Outcome
from memory.service.memory import Memory
from memory.service.replies import Reply
from memory.store.in_memory import InMemoryStore
from simulated_servers import SteppedCommitter, World
from virtual_time import run_virtually

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "200"))
MUTANT_SEEDS = 200

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]


@pytest.fixture(autouse=True)
def _stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committer's algorithm without its thread, which would make a run depend on more than its
    seed."""
    monkeypatch.setattr(host_module, "CommitterThread", SteppedCommitter)


def play(seed: int) -> World:
    world = World(seed, find_lies)
    try:
        run_virtually(world.clock, world.draw_wait, world.play())
    except Exception as error:  # noqa: BLE001  # a broken rule may show as any error
        world.bugs.append(error)
    return world


def test_no_seed_breaks_a_promise() -> None:
    acknowledged = 0
    for seed in range(SEEDS):
        world = play(seed)
        faults = find_faults(world)
        assert not faults, f"seed {seed}: " + "; ".join(faults)
        acknowledged += sum(write.is_acknowledged for write in world.writes)
    print(f"{SEEDS} seeds, {acknowledged} acknowledged writes, none missing, none twice")
    assert acknowledged > 15 * SEEDS, "the servers were hardly ever there"


# -- each rule, switched off -----------------------------------------------------------------------


def without_the_fence(patch: pytest.MonkeyPatch) -> None:
    """The store writes whatever comes, whoever holds the lease."""
    patch.setattr(InMemoryStore, "_admits", lambda store, batch, node_id: True)


def without_waiting_for_the_commit(patch: pytest.MonkeyPatch) -> None:
    async def answer_at_once(memory: Memory, pending: Any) -> Reply:
        reply: Reply = pending.reply
        return reply

    patch.setattr(Memory, "_settled", answer_at_once)


def without_a_new_token_for_each_holder(patch: pytest.MonkeyPatch) -> None:
    acquire = InMemoryStore.acquire_lease

    def acquire_under_the_same(
        store: InMemoryStore, session_id: str, **options: Any
    ) -> Lease | LeaseRefused | None:
        given = acquire(store, session_id, **options)
        if not isinstance(given, Lease):
            return given
        store._leases[session_id].token = 1
        return replace(given, token=1)

    patch.setattr(InMemoryStore, "acquire_lease", acquire_under_the_same)


def without_asking_for_the_stored_position(patch: pytest.MonkeyPatch) -> None:
    """An attempt of unknown outcome is simply made again."""
    patch.setattr(Committer, "_settle_by_stored_position", lambda committer: None)


def without_the_prefix_rule(patch: pytest.MonkeyPatch) -> None:
    """What follows a refused group lands without it, and the store lets positions be skipped."""

    def refuse_that_one_alone(committer: Committer, item: Any, error: StoreRejected) -> None:
        committer._lines[item.session_id].position = item.group.position
        committer._settle([item], Outcome.REJECTED)

    def admits_any_position(store: InMemoryStore, batch: SessionBatch, node_id: str) -> bool:
        return store._is_held(batch.session_id, node_id, batch.token)

    patch.setattr(Committer, "_reject", refuse_that_one_alone)
    patch.setattr(InMemoryStore, "_admits", admits_any_position)


@pytest.mark.parametrize(
    "switch_off",
    [
        without_the_fence,
        without_waiting_for_the_commit,
        without_a_new_token_for_each_holder,
        without_asking_for_the_stored_position,
        without_the_prefix_rule,
    ],
)
def test_the_auditor_notices_within_so_many_seeds(
    switch_off: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(monkeypatch)
    for seed in range(MUTANT_SEEDS):
        if faults := find_faults(play(seed)):
            print(f"seed {seed}: {faults[0]}")
            return
    pytest.fail(f"{MUTANT_SEEDS} seeds went well {switch_off.__name__.replace('_', ' ')}")
