"""Giving a session vectors of the server's embedder in place of those it has, or has not.

Owns the runs: one per session, one at work at a time, in the background. New vectors are written
beside the old ones as groups of the session's log, one batch each; when no concept is left without,
one group switches the session's contract, and what it left behind is removed in slices. Until that
group the session is what it was: read by words, and not written where its contract is another one.

Nothing but vectors is stored of a run. What stands under the embedder's contract when a session is
opened is the mark that one was cut short, and it goes on from there.

Refuses to judge texts: what the embedder will never take stays without a vector, and what it does
not take for now is left to the filler, as everywhere. A silent embedder or store pauses a run.

Invariant: a vector is queued in the step that finds its concept alive, so a retraction beside a run
never leaves one behind; and a session's own vectors are of its own contract at every instant.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn, Protocol

from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, vector_bytes
from memory.engine.errors import EmbeddingMismatch, LamboError, StoreUnavailable
from memory.engine.graph import Graph
from memory.engine.mutations import Mutation, PutAudit, PutVector, SwitchContract
from memory.engine.ports import Clock, IdSource
from memory.engine.types import AuditEntry, AuditKind, NodeId
from memory.service.replies import Reply
from memory.service.text_embedder import TextEmbedder

log = logging.getLogger("lambo.embedder")

TEXTS: Final = 64
"""Concepts embedded and written at once; fewer while the embedder does not manage so many."""
ROWS_PER_STEP: Final = 4_096
"""Concept rows looked at without a pause."""
ATTEMPTS_MAX: Final = 3
"""Failures of one text, while others are embedded, after which it is left to the filler."""
RUNS_KEPT: Final = 1_000
"""Runs of which the end is remembered."""
RETRY_MAX_SECONDS: Final = 30.0
ITSELF: Final = "server"
"""Who goes on with a run that was cut short, in its audit row."""
PROBE: Final = "the server answers"
"""What every embedder can take: tells a text it cannot take from an embedder that is down."""


class State(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    PAUSED = "paused"  # something is in the way; it tries again by itself
    DONE = "done"
    NOT_NEEDED = "not_needed"
    NOT_STARTED = "not_started"
    FAILED = "failed"  # until somebody asks again


@dataclass(slots=True)
class Progress:
    """How far a session is. `embedded` of `total` concepts have a vector of `target`.

    `without_vector` counts those the embedder did not take; the session is switched without them.
    """

    session_id: str
    origin: EmbeddingContract | None
    target: EmbeddingContract
    state: State = State.RUNNING
    embedded: int = 0
    total: int = 0
    without_vector: int = 0
    error: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether it goes on by itself."""
        return self.state in (State.RUNNING, State.PAUSED)

    @property
    def text(self) -> str:
        match self.state:
            case State.NOT_NEEDED:
                what = f"has vectors of {self.target.describe()} already"
            case State.NOT_STARTED:
                what = f"has no vectors of {self.target.describe()}"
            case State.DONE:
                what = f"now has vectors of {self.target.describe()}"
            case State.RUNNING:
                what = f"is given vectors of {self.target.describe()}"
            case State.PAUSED:
                what = f"waits for vectors of {self.target.describe()} ({self.error})"
            case State.FAILED:
                what = f"got no vectors of {self.target.describe()}: {self.error}"
        counts = f"{self.embedded} of {self.total} concepts embedded"
        left = f", {self.without_vector} without a vector" if self.without_vector else ""
        return f"session '{self.session_id}' {what}; {counts}{left}"

    def counts(self) -> dict[str, Any]:
        """Where it stands, without the contracts: what the session's statistics show."""
        return {
            "state": str(self.state),
            "embedded": self.embedded,
            "total": self.total,
            "without_vector": self.without_vector,
            "error": self.error,
        }

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text,
            "session": self.session_id,
            **self.counts(),
            "from_contract": None if self.origin is None else self.origin.as_wire(),
            "to_contract": self.target.as_wire(),
            "warnings": [],
        }


class OpenSession(Protocol):
    """A session as a run sees it."""

    graph: Graph

    @property
    def is_closing(self) -> bool:
        """Whether it is being put away."""

    @property
    def is_fenced(self) -> bool:
        """Whether it will take nothing any more."""

    def check_groups(self) -> None:
        """Raise what stands against a group that no caller asked for."""

    async def append(self, mutations: Sequence[Mutation]) -> bool:
        """Write such a group and wait until it is settled; False when the store refuses it."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Where the sessions are.

    `open` opens one if need be and raises `LamboError`; `find_open` gives it if it is open now;
    `drop_vectors` removes what an open one keeps under a contract key that is not its own.
    """

    open: Callable[[str], Awaitable[OpenSession]]
    find_open: Callable[[str], OpenSession | None]
    drop_vectors: Callable[[str, str], Awaitable[int]]


class _Failed(Exception):
    """A run has ended, and trying again is of no use."""


@dataclass(slots=True)
class _Run:
    progress: Progress
    actor: str
    left: set[NodeId] = field(default_factory=set)  # concepts that get no vector from this run
    attempts: Counter[NodeId] = field(default_factory=Counter)
    size: int = TEXTS
    graph: Graph | None = None  # that `row` counts in
    row: int = 0  # where to look for the next concept without a vector
    found: int = 0  # since the first row
    passes: int = 0  # over all rows of that graph


class Reembedder:
    """All runs of a host. Use it on one event loop."""

    def __init__(
        self,
        embedder: TextEmbedder,
        sessions: Sessions,
        *,
        clock: Clock,
        ids: IdSource,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_done: Callable[[], None],
        retry_initial_seconds: float,
    ) -> None:
        """`on_done` is told when a session was switched: some of it may have no vector yet."""
        self._embedder = embedder
        self._sessions = sessions
        self._clock = clock
        self._ids = ids
        self._spawn = spawn
        self._on_done = on_done
        self._retry_initial_seconds = retry_initial_seconds
        self._progress: OrderedDict[str, Progress] = OrderedDict()
        self._turn = asyncio.Lock()
        self._at_work: str | None = None

    @property
    def _target(self) -> EmbeddingContract:
        return self._embedder.contract

    # -- asking -----------------------------------------------------------------------------------

    async def ask(self, session_id: str, *, start: bool = True, actor: str = ITSELF) -> Reply:
        """Start a run unless the session needs none or has one; how far it is.

        Without `start` nothing is begun, and how the last run ended is told. `actor` is who asks.

        Raises `SessionNotFound`, and what stands against opening the session.
        """
        session = await self._sessions.open(session_id)
        progress = self._progress.get(session_id)
        if progress is not None and progress.is_live:
            return Reply.of(progress)
        contract = session.graph.contract
        if contract != self._target and start:
            progress = self._start(session_id, session.graph, actor)
        elif contract != self._target and progress is None:
            progress = Progress(session_id, contract, self._target, State.NOT_STARTED)
        elif progress is None:
            progress = Progress(session_id, contract, self._target, State.NOT_NEEDED)
        _count(progress, session.graph)
        return Reply.of(progress)

    def progress(self, session_id: str) -> Progress | None:
        """How far the session's run is, or how the last one of this process ended."""
        return self._progress.get(session_id)

    def forget(self, session_id: str) -> None:
        """Remember no run of a session that is gone; one at work finds out by itself."""
        self._progress.pop(session_id, None)

    def is_at_work_on(self, session_id: str) -> bool:
        return self._at_work == session_id

    def on_opened(self, session_id: str, graph: Graph, contracts: Sequence[str]) -> None:
        """Go on with a run that was cut short, and remove what a finished one left behind.

        `contracts` are the keys of everything stored.
        """
        own = None if graph.contract is None else graph.contract.key
        if own != self._target.key and self._target.key in contracts:
            known = self._progress.get(session_id)
            if known is None or not known.is_live:
                log.info("session %r: re-embedding goes on", session_id)
                self._start(session_id, graph, ITSELF)
        left_behind = [key for key in contracts if key not in (own, self._target.key)]
        if left_behind:
            self._spawn(self._drop(session_id, left_behind))

    # -- a run ------------------------------------------------------------------------------------

    def _start(self, session_id: str, graph: Graph, actor: str) -> Progress:
        progress = Progress(session_id, graph.contract, self._target)
        _count(progress, graph)
        self._progress.pop(session_id, None)
        self._progress[session_id] = progress
        for name in [name for name, some in self._progress.items() if not some.is_live]:
            if len(self._progress) <= RUNS_KEPT:
                break
            del self._progress[name]
        self._spawn(self._carry_out(_Run(progress, actor)))
        return progress

    async def _carry_out(self, run: _Run) -> None:
        progress = run.progress
        async with self._turn:
            self._at_work = progress.session_id
            try:
                await self._until_switched(run)
            except _Failed as error:
                progress.state, progress.error = State.FAILED, str(error)
                log.error("session %r is not re-embedded: %s", progress.session_id, error)
            except Exception:  # the edge of a task: a bug of ours must not look like a pause
                progress.state, progress.error = State.FAILED, "an internal error, see the log"
                log.exception("session %r is not re-embedded", progress.session_id)
            finally:
                self._at_work = None

    async def _until_switched(self, run: _Run) -> None:
        progress, delay = run.progress, self._retry_initial_seconds
        session = await self._opened(run)
        # Until it is switched and writable: a switch that the store dropped is undone by a reload.
        while session is not None:
            obstacle = _find_obstacle(session)
            if obstacle is None and session.graph.contract == self._target:
                break
            obstacle = obstacle or await self._step(run, session)
            if obstacle is None:
                progress.state, progress.error = State.RUNNING, None
                delay = self._retry_initial_seconds
                await asyncio.sleep(0)
            else:
                progress.state, progress.error = State.PAUSED, obstacle
                await asyncio.sleep(delay)
                delay = min(2 * delay, RETRY_MAX_SECONDS)
            session = self._sessions.find_open(progress.session_id)
        if session is None:
            # Put away, deleted or taken over. What it has by now is the mark to go on from.
            self._progress.pop(progress.session_id, None)
            return
        if progress.origin is not None:
            await self._drop(progress.session_id, [progress.origin.key])
        _count(progress, session.graph)
        progress.state, progress.error = State.DONE, None
        self._on_done()
        log.info("%s", progress.text)

    async def _opened(self, run: _Run) -> OpenSession | None:
        """The run's session, which may have been put away while the run waited for its turn."""
        progress, delay = run.progress, self._retry_initial_seconds
        while True:
            try:
                return await self._sessions.open(progress.session_id)
            except LamboError as error:
                if error.retry_after_seconds is None:
                    raise _Failed(error.message) from error
                progress.state, progress.error = State.PAUSED, error.message
            await asyncio.sleep(delay)
            delay = min(2 * delay, RETRY_MAX_SECONDS)

    async def _step(self, run: _Run, session: OpenSession) -> str | None:
        """One batch, or the switch when nothing is left; what was in the way, or None."""
        graph = session.graph
        if run.graph is not graph:
            run.graph, run.row, run.found, run.passes = graph, 0, 0, 0
        batch = self._next_batch(run, graph)
        obstacle = await self._embed(run, session, batch) if batch else None
        if obstacle is None and run.row >= graph.concepts.used and session.graph is graph:
            run.passes += 1
            # A few that came meanwhile are the filler's: under steady writing there is no last one.
            is_nearly_done = run.passes > 1 and run.found <= TEXTS
            if is_nearly_done or not self._count_missing(run, graph):
                # The last batch was waited for: what it met with stands in the way of this too.
                obstacle = _find_obstacle(session) or await self._switch(run, session)
            run.row = run.found = 0
        _count(run.progress, session.graph)
        run.progress.without_vector = len(run.left)
        return obstacle

    def _next_batch(self, run: _Run, graph: Graph) -> dict[NodeId, str]:
        """The contents of the next concepts without a vector, by id."""
        table = graph.beside.table(self._target)
        batch: dict[NodeId, str] = {}
        end = min(graph.concepts.used, run.row + ROWS_PER_STEP)
        while run.row < end and len(batch) < run.size:
            row = run.row
            run.row += 1
            if graph.concepts.live[row] and (table is None or row not in table):
                node = graph.id_at(row)
                if node not in run.left:
                    batch[node] = graph.content_at(row)
        run.found += len(batch)
        return batch

    def _count_missing(self, run: _Run, graph: Graph) -> int:
        """How many concepts lack a vector that they may still get from this run."""
        left = sum(graph.row_of(node) is not None for node in run.left)
        return graph.concept_count - graph.beside.count(self._target) - left

    async def _embed(self, run: _Run, session: OpenSession, batch: dict[NodeId, str]) -> str | None:
        """Write the vectors of a batch; what was in the way, or None."""
        embedded = await self._embedder.embed(list(batch.values()))
        mutations: list[Mutation] = []
        failed: dict[NodeId, EmbeddingFailure] = {}
        for node, text in batch.items():
            result = embedded[text]
            if not isinstance(result, EmbeddingFailure):
                mutations.append(PutVector(node, self._target.key, vector_bytes(result)))
            elif result.is_final:
                log.warning("concept %s gets no vector: %s", node, result)
                run.left.add(node)
            else:
                failed[node] = result
        obstacle = _find_obstacle(session) or await self._write(session, mutations)
        if obstacle is None and failed:
            obstacle = await self._blame(run, failed, is_working=bool(mutations))
        elif obstacle is None:
            run.size = min(TEXTS, 2 * run.size)
        if obstacle is not None:
            run.row = run.found = 0  # they are still to be done
        return obstacle

    async def _write(self, session: OpenSession, mutations: Sequence[Mutation]) -> str | None:
        # The session went on meanwhile. From here to the group's place in the log nothing waits.
        wanted = [some for some in mutations if self._is_wanted(session.graph, some)]
        if wanted and not await session.append(wanted):
            await self._fail(session, "the store refused the vectors, see the dead letters")
        return None

    def _is_wanted(self, graph: Graph, mutation: Mutation) -> bool:
        assert isinstance(mutation, PutVector)
        return graph.contract != self._target and graph.row_of(mutation.concept_id) is not None

    async def _blame(
        self, run: _Run, failed: dict[NodeId, EmbeddingFailure], *, is_working: bool
    ) -> str | None:
        """Tell texts that cannot be embedded from an embedder that cannot embed."""
        sentence = next(iter(failed.values())).sentence
        if not is_working:
            if len(failed) > 1:
                run.size = len(failed) // 2  # so many may be too many for the deadline
                return sentence
            probe = (await self._embedder.embed([PROBE]))[PROBE]
            if isinstance(probe, EmbeddingFailure) and not probe.is_final:
                return sentence
        run.attempts.update(list(failed))
        given_up = [node for node in failed if run.attempts[node] >= ATTEMPTS_MAX]
        for node in given_up:
            log.warning("concept %s is left without a vector for now: %s", node, failed[node])
        run.left.update(given_up)
        return None

    async def _switch(self, run: _Run, session: OpenSession) -> str | None:
        now, origin = self._clock.now(), session.graph.contract
        detail = {
            "from_contract": None if origin is None else origin.as_wire(),
            "to_contract": self._target.as_wire(),
        }
        entry_id = self._ids.next_ordered_id(now)
        entry = AuditEntry(entry_id, AuditKind.REEMBED, None, None, None, now, run.actor)
        row = PutAudit(entry._replace(detail=detail))
        if not await session.append([SwitchContract(self._target), row]):
            await self._fail(session, "the store refused the new contract, see the dead letters")
        return None

    async def _fail(self, session: OpenSession, sentence: str) -> NoReturn:
        """End the run, once the session is again what is stored of it: nobody is told before."""
        name = session.graph.session_id
        while self._sessions.find_open(name) is session:
            if _find_obstacle(session) is None:
                break
            await asyncio.sleep(self._retry_initial_seconds)
        raise _Failed(sentence)

    async def _drop(self, session_id: str, contract_keys: Sequence[str]) -> None:
        for key in contract_keys:
            try:
                count = await self._sessions.drop_vectors(session_id, key)
            except StoreUnavailable as error:
                log.warning("session %r: vectors of %s stay for now: %s", session_id, key, error)
            else:
                log.info("session %r: %d vectors of %s removed", session_id, count, key)


def mismatch_error(
    session_id: str,
    contract: EmbeddingContract,
    configured: EmbeddingContract | None,
    progress: Progress | None,
) -> EmbeddingMismatch:
    """Why a session takes no writes while the server's embedder is another one, and the ways out.

    The field `way_out` is the command to run; it is left out where the server has no embedder.
    """
    command = f"lambo reembed --session {shlex.quote(session_id)}"
    back = f"the server runs with embedder.kind {contract.kind} again"
    if configured is None:
        ways = f"{back}, or runs with another embedder and is told to embed it again: {command}"
    elif progress is not None and progress.is_live:
        ways = f"it is embedded again, which is under way ({progress.embedded} of {progress.total})"
    else:
        ways = f"it is embedded again ({command}) or {back}"
    runs = "none" if configured is None else configured.describe()
    error = EmbeddingMismatch(
        f"session '{session_id}' holds vectors of {contract.describe()}; this server's embedder is "
        f"{runs}. It is read by words alone and takes no writes but retract and purge until {ways}",
        contract=contract.as_wire(),
        configured=None if configured is None else configured.as_wire(),
    )
    if configured is not None:
        error.fields["way_out"] = command
    return error


def _find_obstacle(session: OpenSession) -> str | None:
    """What stands against writing a group now; raises `_Failed` when it always will."""
    try:
        session.check_groups()
    except LamboError as error:
        if session.is_fenced:
            raise _Failed(error.message) from error
        return error.message
    return None


def _count(progress: Progress, graph: Graph) -> None:
    """Bring the counts up to what a graph holds now."""
    is_own = graph.contract == progress.target and graph.vectors is not None
    progress.total = graph.concept_count
    if is_own:
        assert graph.vectors is not None
        progress.embedded = len(graph.vectors)
        progress.without_vector = graph.missing_vector_count
    else:
        progress.embedded = graph.beside.count(progress.target)
