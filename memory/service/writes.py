"""The write verbs, each one plan: what every memory, real or tried out, can be told.

A subclass decides in `_write` what becomes of a plan.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from memory.engine.actions import plan_action
from memory.engine.client_vectors import vectors_of
from memory.engine.config import Config
from memory.engine.confirm import plan_confirm
from memory.engine.demote import plan_demote
from memory.engine.derive import DeriveResult, plan_derive
from memory.engine.draft import NO_VECTORS, Plan, Stamp
from memory.engine.embedding import Vector
from memory.engine.goals import plan_root_goal, plan_synonym
from memory.engine.graph import Graph
from memory.engine.hybrid import Meanings
from memory.engine.ports import IdSource
from memory.engine.requests import (
    ActionRequest,
    Caller,
    ConfirmRequest,
    DemoteRequest,
    DeriveRequest,
    ReleaseRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.reservations import plan_release, plan_reserve
from memory.engine.retract import plan_retract
from memory.engine.text import split_sentences
from memory.engine.times import Micros
from memory.engine.warming import needs_warming, warm
from memory.service.replies import Answer, Reply

R = TypeVar("R", bound=Answer)


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts that a write may turn into concepts: to be embedded before it is planned.

    The first `matched` of them are also matched by meaning. `are_new` says that no key matches any.
    `vectors` holds those that came with the request, of the session's contract.
    """

    all: Sequence[str] = ()
    matched: int = 0
    are_new: bool = False
    vectors: Mapping[str, Vector] = field(default_factory=dict)


NO_TEXTS = Texts()
LookUp: TypeAlias = Callable[[], Awaitable[None]]
MakePlan: TypeAlias = Callable[[Micros, Meanings | None], Plan[R]]


class Writes(ABC):
    """What can be written to a graph."""

    def __init__(self, graph: Graph, *, config: Config, ids: IdSource) -> None:
        self.graph = graph
        self._config = config
        self._ids = ids

    async def derive(self, request: DeriveRequest, caller: Caller, *, wait: bool = True) -> Reply:
        """Remember statements; matched ones gain a derivation, new ones are created.

        Without `wait` it is answered when it is accepted, and applied later; see `AcceptedWrites`.
        """
        most = self._config.max_cooccurrence_per_derive
        contract = self.graph.contract
        vectors = vectors_of(request, contract, is_allowed=self._config.accept_client_vectors)

        def make_plan(now: Micros, meanings: Meanings | None) -> Plan[DeriveResult]:
            if vectors and self.graph.contract != contract:  # given another one meanwhile
                vectors_of(request, self.graph.contract, is_allowed=True)
            return plan_derive(
                self.graph,
                request,
                self._stamp(caller, now, request.event_time),
                co_occurrence_max=most,
                meanings=meanings,
            )

        contents = [given.content for given in request.concepts]
        ends = [text for pair in request.parent_of for text in pair]
        return await self._write(
            "derive",
            request,
            caller,
            make_plan,
            Texts([*contents, *ends], matched=len(contents), vectors=vectors),
            wait=wait,
        )

    async def record_action(
        self, request: ActionRequest, caller: Caller, *, wait: bool = True
    ) -> Reply:
        """Remember an act, what it produced or modified and what it rests on; `wait` as above."""
        return await self._write(
            "record-action",
            request,
            caller,
            lambda now, meanings: plan_action(
                self.graph,
                request,
                self._stamp(caller, now, request.event_time),
                vectors=meanings.vectors if meanings else NO_VECTORS,
            ),
            Texts([request.action, *request.produces, *request.modifies, *request.depends_on]),
            wait=wait,
        )

    async def demote(self, request: DemoteRequest, caller: Caller) -> Reply:
        """Keep a chunk of overflowing context as observations."""
        return await self._write(
            "demote",
            request,
            caller,
            lambda now, meanings: plan_demote(
                self.graph,
                request,
                self._stamp(caller, now, None),
                vectors=meanings.vectors if meanings else NO_VECTORS,
            ),
            Texts(split_sentences(request.chunk), are_new=True),
        )

    async def reserve(self, request: ReserveRequest, caller: Caller) -> Reply:
        """Take or extend a soft lock."""
        return await self._write(
            "reserve",
            request,
            caller,
            lambda now, _: plan_reserve(self.graph, request, agent_id=caller.agent_id, now=now),
        )

    async def release(self, request: ReleaseRequest, caller: Caller) -> Reply:
        """Give a soft lock back."""
        return await self._write(
            "release",
            request,
            caller,
            lambda now, _: plan_release(self.graph, request, agent_id=caller.agent_id, now=now),
        )

    async def retract(self, request: RetractRequest, caller: Caller) -> Reply:
        """Remove a concept, or report what would go."""
        return await self._write(
            "retract",
            request,
            caller,
            lambda now, _: plan_retract(
                self.graph, request, actor=caller.agent_id, now=now, ids=self._ids
            ),
        )

    async def confirm(self, request: ConfirmRequest, caller: Caller) -> Reply:
        """Keep a person's word that a concept is right."""
        return await self._write(
            "confirm",
            request,
            caller,
            lambda now, _: plan_confirm(
                self.graph, request, actor=caller.agent_id, now=now, ids=self._ids
            ),
        )

    async def set_root_goal(self, request: RootGoalRequest, caller: Caller) -> Reply:
        """Say what the session is for."""
        return await self._write(
            "root-goal",
            request,
            caller,
            lambda now, _: plan_root_goal(
                self.graph, request, actor=caller.agent_id, now=now, ids=self._ids
            ),
        )

    async def declare_synonym(self, request: SynonymRequest, caller: Caller) -> Reply:
        """Read one spelling as another from now on."""
        return await self._write(
            "synonym",
            request,
            caller,
            lambda now, _: plan_synonym(
                self.graph, request, actor=caller.agent_id, now=now, ids=self._ids
            ),
        )

    async def act(
        self,
        verb: str,
        request: object,
        caller: Caller,
        make_plan: MakePlan[R],
        *,
        look_up: LookUp,
    ) -> Reply:
        """Carry out an act that is planned with what `look_up` has found in the store."""
        return await self._write(verb, request, caller, make_plan, look_up=look_up)

    def _stamp(self, caller: Caller, now: Micros, event_time: Micros | None) -> Stamp:
        is_backdated = event_time is not None and caller.may_backdate
        return Stamp(caller.agent_id, now, self._ids, event_time, is_backdated)

    async def _read_ahead(self, request: object) -> None:
        """Have long texts stemmed on a worker thread; the step that plans finds it done."""
        if needs_warming(request):
            await asyncio.to_thread(warm, request, dict(self.graph.synonyms))

    @abstractmethod
    async def _write(
        self,
        verb: str,
        request: object,
        caller: Caller,
        make_plan: MakePlan[R],
        texts: Texts = NO_TEXTS,
        *,
        wait: bool = True,
        look_up: LookUp | None = None,
    ) -> Reply:
        """Carry out a write: `make_plan` takes the instant and what is known of the meaning of
        `texts`, and may raise; then nothing is done. Without `wait`, acknowledge what can be
        planned and carry it out later. `look_up` is awaited before, and may raise as well.
        """
