"""The jobs of the background cycles: evaluation, and the time bound of garbage collection.

Owns their names and how often they are asked for. That a session is written a lot is the ticker's
to notice; these two see to what waits for time to pass, in sessions that are put away too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from memory.engine.config import Config
from memory.engine.ports import Due
from memory.service.jobs import Job, SessionJob
from memory.service.store_access import StoreAccess

COLLECT_SECONDS: Final = 300.0
"""How often it is asked whether a session is due for a sweep."""


def cycle_jobs(config: Config) -> tuple[Job, ...]:
    """The jobs of a host with cycles."""
    return (
        SessionJob(
            name="evaluate",
            summary="Promote and demote concepts by their evidence",
            interval_seconds=config.canonization_eval_interval_seconds,
            run=lambda memory: memory.evaluate(),
            run_forced=lambda memory: memory.evaluate(is_forced=True),
            due_sessions=_due(Due.EVALUATE),
        ),
        SessionJob(
            name="collect",
            summary="Collect garbage where it is due, and count what survives",
            interval_seconds=COLLECT_SECONDS,
            run=lambda memory: memory.collect(),
            run_forced=lambda memory: memory.collect(is_forced=True),
            due_sessions=_due(Due.COLLECT),
        ),
    )


def _due(due: Due) -> Callable[[StoreAccess], Awaitable[Sequence[str]]]:
    async def find(access: StoreAccess) -> Sequence[str]:
        return await access.list_due(due)

    return find
