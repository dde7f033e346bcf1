"""Writes that were acknowledged before they are applied: who waits for what, and how some ended.

Owns one line per agent, the bounds of what may wait, and the memory of those that were refused in
the end. Knows no verb, no graph and no store: a write is a call and a way to carry it out. Nothing
here is durable. To accept a write promises one attempt after another while this process holds the
session, and no more: what was not carried out when it ends is as if it had never been sent.

Invariant: the writes of one agent are carried out one after another, in the order in which they
were accepted.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from memory.engine.errors import (
    LamboError,
    OutcomeUnknown,
    SessionReloaded,
    StoreUnavailable,
    TextPurged,
)
from memory.engine.limits import ACCEPTED_BYTES, ACCEPTED_WRITES, REFUSALS_KEPT
from memory.engine.mutations import Call
from memory.engine.traces import BLANK, Needles, blanked, holds

log = logging.getLogger("lambo.memory")

FULL_RETRY_SECONDS: Final = 0.5
Scope: TypeAlias = tuple[str, str]
"""Agent and idempotency key."""
CarryOut: TypeAlias = Callable[[], Awaitable[object]]

_PASSING: Final = (StoreUnavailable, SessionReloaded, OutcomeUnknown)
"""Failures after which the same call may still succeed, and cannot be done twice under its key."""


@dataclass(slots=True)
class _Accepted:
    call: Call
    carry_out: CarryOut
    byte_count: int
    purged: list[Needles] = field(default_factory=list)  # since it was accepted
    done: asyncio.Event = field(default_factory=asyncio.Event)


class AcceptedWrites:
    """The accepted writes of one session. Use it on one event loop."""

    def __init__(self, *, retry_initial_seconds: float, retry_max_seconds: float) -> None:
        self._retry_initial_seconds = retry_initial_seconds
        self._retry_max_seconds = retry_max_seconds
        self._lines: dict[str, deque[_Accepted]] = {}  # by agent
        self._waiting: dict[Scope, _Accepted] = {}
        self._byte_count = 0
        self._refusals: OrderedDict[Scope, LamboError] = OrderedDict()
        self._workers: dict[str, asyncio.Task[None]] = {}  # by agent

    def __len__(self) -> int:
        """How many wait or are being carried out."""
        return len(self._waiting)

    def find(self, scope: Scope) -> Call | None:
        """The call that waits under a key."""
        waiting = self._waiting.get(scope)
        return None if waiting is None else waiting.call

    def find_refusal(self, scope: Scope) -> LamboError | None:
        """Why the last accepted write under a key was refused, if it was."""
        return self._refusals.get(scope)

    def accept(self, call: Call, carry_out: CarryOut) -> None:
        """Put a call in its agent's line; raises `StoreUnavailable` when too much waits already."""
        scope = (call.agent_id, call.key)
        assert scope not in self._waiting
        byte_count = len(call.arguments.encode())
        if len(self._waiting) >= ACCEPTED_WRITES or self._byte_count + byte_count > ACCEPTED_BYTES:
            raise StoreUnavailable(
                f"{len(self._waiting)} accepted writes of the session wait to be applied (at most "
                f"{ACCEPTED_WRITES}, of {ACCEPTED_BYTES} bytes); this one was not accepted",
                retry_after_seconds=FULL_RETRY_SECONDS,
            )
        accepted = _Accepted(call, carry_out, byte_count)
        self._refusals.pop(scope, None)
        self._waiting[scope] = accepted
        self._byte_count += byte_count
        self._lines.setdefault(call.agent_id, deque()).append(accepted)
        if call.agent_id not in self._workers:
            work = self._work_off(call.agent_id)
            self._workers[call.agent_id] = asyncio.get_running_loop().create_task(work)

    def has_line(self, agent_id: str) -> bool:
        """Whether a write of the agent waits or is being carried out."""
        return agent_id in self._lines

    async def until_done(self, scope: Scope) -> None:
        """Wait for the end of the call under a key, whatever it is."""
        waiting = self._waiting.get(scope)
        if waiting is not None:
            await waiting.done.wait()

    async def until_caught_up(self, agent_id: str) -> None:
        """Wait for the end of all that an agent has in line now."""
        line = self._lines.get(agent_id)
        if line:
            await line[-1].done.wait()

    async def drain(self, timeout_seconds: float) -> None:
        """Wait until nothing waits, or for so long."""
        if self._workers:
            await asyncio.wait(list(self._workers.values()), timeout=timeout_seconds)

    def drop(self) -> int:
        """Give up what was not carried out; how many there were. They leave no trace."""
        for worker in self._workers.values():
            worker.cancel()
        dropped = list(self._waiting.values())
        self._lines.clear()
        self._waiting.clear()
        self._byte_count = 0
        for accepted in dropped:
            accepted.done.set()
        return len(dropped)

    async def _work_off(self, agent_id: str) -> None:
        line = self._lines[agent_id]
        try:
            while line:
                await self._carry_out(line[0])
                self._end(line.popleft())
        finally:
            del self._workers[agent_id]
            if self._lines.get(agent_id) is line:
                del self._lines[agent_id]

    def _end(self, accepted: _Accepted) -> None:
        call = accepted.call
        del self._waiting[call.agent_id, call.key]
        self._byte_count -= accepted.byte_count
        accepted.done.set()

    async def _carry_out(self, accepted: _Accepted) -> None:
        """Carry a write out, again and again while what is in the way may pass."""
        delay = self._retry_initial_seconds
        while True:
            try:
                await accepted.carry_out()
                return
            except _PASSING as error:
                log.warning("an accepted %s waits: %s", accepted.call.verb, error.message)
                await asyncio.sleep(delay)
                delay = min(2 * delay, self._retry_max_seconds)
            except LamboError as error:
                self._remember(accepted.call, error)
                return
            except Exception:  # the edge of a task nobody awaits: the receipt has to tell
                log.exception("an accepted %s failed", accepted.call.verb)
                self._remember(accepted.call, LamboError("internal error; see the server's log"))
                return

    def purge(self, needles: Needles) -> None:
        """Blank what refusals quote of a purged text, and refuse what waits to write it again."""
        for error in self._refusals.values():
            if holds(error.message, needles) or blanked(error.fields, needles) != error.fields:
                error.message, error.fields, error.args = BLANK, {}, (BLANK,)
        for accepted in self._waiting.values():
            if needles not in accepted.purged:
                accepted.purged.append(needles)

    def check_unpurged(self, call: Call) -> None:
        """Raise `TextPurged` if a call that waits holds a text that was purged meanwhile."""
        waiting = self._waiting.get((call.agent_id, call.key))
        if waiting is None or not waiting.purged:
            return
        arguments = json.loads(call.arguments)
        if any(blanked(arguments, needles) != arguments for needles in waiting.purged):
            raise TextPurged("it holds a text that was purged after it was accepted")

    def _remember(self, call: Call, error: LamboError) -> None:
        scope = (call.agent_id, call.key)
        self._refusals[scope] = error
        self._refusals.move_to_end(scope)
        if len(self._refusals) > REFUSALS_KEPT:
            self._refusals.popitem(last=False)
